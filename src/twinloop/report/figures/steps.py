"""Step functions of time: exact, averaged in bins, or thinned with all extremes kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twinloop.metrics.weighted_intervals import Floats, WeightedIntervals


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A quantity that changes in steps: `level[i]` from `t[i]` on, until `t[i + 1]`.

    >>> Steps(np.array([0.0, 2.0]), np.array([3.0, 0.0])).area
    6.0
    """

    t: Floats
    level: Floats

    @classmethod
    def of(cls, boxes: WeightedIntervals) -> Steps:
        """Sum the weights of intervals over time.

        >>> starts, ends, weights = np.array([[0.0, 2.0], [4.0, 3.0], [1.0, 5.0]])
        >>> boxes = WeightedIntervals.of(starts, ends, weights)
        >>> Steps.of(boxes).level.tolist()
        [1.0, 6.0, 1.0, 0.0]
        """
        return cls(*boxes.steps())

    @property
    def area(self) -> float:
        """The integral from the first step to the last."""
        return float(self.level[:-1] @ np.diff(self.t))

    def means(self, edges: Floats) -> Floats:
        """Compute the mean level between each two edges; before the first step it is zero.

        >>> Steps(np.array([0.0, 1.0]), np.array([4.0, 0.0])).means(np.array([0.0, 2.0])).tolist()
        [2.0]
        """
        if not self.t.size:
            return np.zeros(edges.size - 1)
        t = np.append(self.t, max(self.t[-1], edges[-1]) + 1.0)
        integral = np.concatenate([[0.0], np.cumsum(self.level * np.diff(t))])
        means: Floats = np.diff(np.interp(edges, t, integral)) / np.diff(edges)
        return means

    def thin(self, bins: int) -> Steps:
        """Reduce each bin of time to its first and last step and its lowest and highest level.

        Drawn at most `bins` pixels wide, the curve is the same; every extreme is kept, at its
        time. A curve with fewer steps is returned unchanged.

        >>> steps = Steps(np.arange(1000.0), np.arange(1000.0) % 7)
        >>> thin = steps.thin(10)
        >>> len(thin.t) <= 40, float(thin.level.max()), float(thin.level.min())
        (True, 6.0, 0.0)
        """
        if self.t.size <= 4 * bins:
            return self
        width = (self.t[-1] - self.t[0]) / bins
        bin_index = np.minimum(((self.t - self.t[0]) / width).astype(np.int64), bins - 1)
        first = np.flatnonzero(np.diff(bin_index, prepend=-1))
        last = np.append(first[1:], self.t.size) - 1
        order = np.lexsort((self.level, bin_index))
        kept = np.unique(np.concatenate([first, last, order[first], order[last]]))
        return Steps(self.t[kept], self.level[kept])


def average_by_row(
    row: npt.NDArray[np.int64], start: Floats, end: Floats, height: Floats, rows: int, edges: Floats
) -> Floats:
    """Average the sum of boxes by row and bin, exactly: `rows` x (`edges` - 1).

    The edges are equidistant; the parts of a box outside of them do not count.

    >>> average_by_row(np.array([0, 1]), np.array([0.0, 1.0]), np.array([3.0, 2.0]),
    ...              np.array([1.0, 4.0]), 2, np.array([0.0, 2.0, 4.0])).tolist()
    [[1.0, 0.5], [2.0, 0.0]]
    """
    bins = edges.size - 1
    start, end = np.clip(start, edges[0], edges[-1]), np.clip(end, edges[0], edges[-1])
    first = np.clip(np.searchsorted(edges, start, side="right") - 1, 0, bins - 1)
    last = np.clip(np.searchsorted(edges, end, side="right") - 1, 0, bins - 1)
    is_in_one_bin = first == last
    amount = np.zeros((rows, bins))
    first_part = np.where(is_in_one_bin, end - start, edges[first + 1] - start)
    np.add.at(amount, (row, first), height * first_part)
    np.add.at(amount, (row, last), np.where(is_in_one_bin, 0.0, height * (end - edges[last])))
    # A box covers the bins between its first and its last completely.
    cover = np.zeros((rows, bins + 1))
    np.add.at(cover, (row, first + 1), np.where(is_in_one_bin, 0.0, height))
    np.add.at(cover, (row, last), np.where(is_in_one_bin, 0.0, -height))
    width = np.diff(edges)
    means: Floats = amount / width + np.cumsum(cover, axis=1)[:, :-1]
    return means
