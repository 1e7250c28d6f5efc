"""Packing of tasks onto the cores of a machine, for drawing.

A trace records the number of cores of a task, but not which ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

Span = tuple[float, float]


def pack_boxes(
    boxes: Iterable[tuple[float, float, float]], capacity: float
) -> Iterator[tuple[int, list[Span]]]:
    """Pack boxes (start, end, cores) and yield the number and the spans of cores of each.

    A box gets the lowest free span that is wide enough, else several spans. It exceeds the
    capacity only if more cores are in use than exist. No two boxes overlap.

    >>> list(pack_boxes([(0, 2, 1), (0, 9, 1), (2, 9, 2)], capacity=3))
    [(0, [(0.0, 1.0)]), (1, [(1.0, 2.0)]), (2, [(0.0, 1.0), (2.0, 3.0)])]
    """
    free: list[Span] = [(0.0, float(capacity)), (float(capacity), float("inf"))]
    running: list[tuple[float, int, list[Span]]] = []
    ordered = sorted(enumerate(boxes), key=lambda item: item[1][:2])
    for number, (start, end, cores) in ordered:
        while running and running[0][0] <= start:
            for span in heapq.heappop(running)[2]:
                free = _release(free, span, capacity)
        spans, free = _take(free, float(cores), capacity)
        # A box without duration or without cores leaves no core in use.
        if end > start:
            heapq.heappush(running, (end, number, spans))
        else:
            for span in spans:
                free = _release(free, span, capacity)
        yield number, spans


def _take(free: list[Span], cores: float, capacity: float) -> tuple[list[Span], list[Span]]:
    """Take cores from the free spans; return the taken and the remaining spans."""
    if cores <= 0:
        return [(free[0][0], free[0][0])], free
    for index, (low, high) in enumerate(free):
        if high <= capacity and high - low >= cores:
            rest = [(low + cores, high)] if high - low > cores else []
            return [(low, low + cores)], free[:index] + rest + free[index + 1 :]
    spans: list[Span] = []
    while cores > 1e-9:
        (low, high), free = free[0], free[1:]
        top = min(high, low + cores)
        spans.append((low, top))
        cores -= top - low
        if top < high:
            free = [(top, high), *free]
    return spans, free


def _release(free: list[Span], span: Span, capacity: float) -> list[Span]:
    """Add a span to the free ones and merge adjacent spans, but not across the capacity."""
    merged: list[Span] = []
    for low, high in sorted([*free, span]):
        if merged and merged[-1][1] == low and low != capacity:
            merged[-1] = (merged[-1][0], high)
        elif high > low:
            merged.append((low, high))
    return merged
