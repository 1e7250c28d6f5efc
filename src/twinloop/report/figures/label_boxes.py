"""Boxes of labels in a figure, and their overlaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

#: Left, top, right and bottom, in pixels.
Box = tuple[float, float, float, float]
#: Distance between the points by which a line is approximated, in pixels.
_STEP: Final = 3.0


def count_overlaps(box: Box, others: Sequence[Box]) -> int:
    """Count the boxes that overlap a box.

    >>> count_overlaps((0, 0, 2, 2), [(1, 1, 3, 3), (4, 4, 5, 5)])
    1
    """
    return sum(_overlap(box, other) for other in others)


def list_line_boxes(line: Sequence[tuple[float, float]]) -> list[Box]:
    """Approximate a line through points by boxes without an extent.

    >>> list_line_boxes([(0.0, 0.0), (6.0, 0.0)])
    [(0.0, 0.0, 0.0, 0.0), (3.0, 0.0, 3.0, 0.0), (6.0, 0.0, 6.0, 0.0)]
    """
    return [(x, y, x, y) for x, y in _sample_line(line)]


def _sample_line(line: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    yield from line[:1]
    for (a, b), (c, d) in pairwise(line):
        count = max(round(max(abs(c - a), abs(d - b)) / _STEP), 1)
        for number in range(1, count + 1):
            share = number / count
            yield a + share * (c - a), b + share * (d - b)


def _overlap(one: Box, other: Box) -> bool:
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]
