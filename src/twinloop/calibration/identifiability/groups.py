"""Groups of parameters that compensate each other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.identifiability.constrained_fits import ConstrainedFit
from twinloop.calibration.identifiability.profile import Profile

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class CompensatingMoves:
    """How others moved when one parameter was held away from its best value."""

    def __init__(
        self,
        centre: Floats,
        profiles: Sequence[Profile],
        fit: ConstrainedFit,
        *,
        lowest: float,
        bound: float,
    ) -> None:
        self._centre = centre
        self._profiles = profiles
        self._fit = fit
        # Resetting one of two with a correlation of r costs 1 / (1 - r²) times what the other's
        # interval allows: four times that is a correlation of 0.87.
        self._costly = lowest + 4.0 * (bound - lowest)

    def needed(self, axes: NDArray[np.intp]) -> Bools:
        """Which (row) cannot be held elsewhere unless which (column) moves.

        A move counts if the fit gets far worse when it alone is taken back.
        """
        size = len(self._centre)
        edges = np.zeros((size, size), dtype=bool)
        for axis in axes:
            for end in self._profiles[axis].points[[0, -1]]:
                distance = abs(end[axis] - self._centre[axis])
                moved = abs(end - self._centre) > max(0.1 * distance, 1e-4)
                moved[axis] = False
                others = np.flatnonzero(moved)
                if not len(others):
                    continue
                back = np.tile(end, (len(others), 1))
                back[np.arange(len(others)), others] = self._centre[others]
                edges[axis, others] |= self._fit.scores(back) > self._costly
        return edges


def group_parameters(
    edges: Bools, weak: Floats, told: Bools, effects: Bools
) -> tuple[tuple[int, ...], ...]:
    """Those that are not told apart, joined where one makes up for another.

    By the profiles (`edges`), and by the directions that the outputs hardly notice (`weak`): the
    projection onto these has blocks, one for each set of parameters that move together.

    >>> none = np.zeros((4, 4), dtype=bool)
    >>> weak = np.array([[0.7, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    >>> group_parameters(none, weak, np.array([False, False, True, False]), np.full(4, True))
    ((0, 1),)
    """
    joined = edges | edges.T | (abs(weak.T @ weak) > 0.05)
    some = ~told & effects
    joined &= np.outer(some, some)
    np.fill_diagonal(joined, some)
    for _ in range(len(told)):
        joined = joined | (joined.astype(np.int64) @ joined.astype(np.int64) > 0)
    found = {tuple(np.flatnonzero(row).tolist()) for row in joined if row.sum() > 1}
    return tuple(sorted(found))
