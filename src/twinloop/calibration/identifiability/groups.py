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
    """The moves of other parameters when one is held away from its best value."""

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
        # Resetting one of two parameters with correlation r raises the score by 1 / (1 - r²) times
        # the rise at the end of the other's interval: four times that is a correlation of 0.87.
        self._max_score = lowest + 4.0 * (bound - lowest)

    def find_needed(self, axes: NDArray[np.intp]) -> Bools:
        """Find the parameters that must move when another one is held away from its best value.

        Returns a matrix: true if the parameter of the row can be held elsewhere only if that of
        the column moves. A move is needed if resetting it alone makes the fit far worse.
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
                reset = np.tile(end, (len(others), 1))
                reset[np.arange(len(others)), others] = self._centre[others]
                edges[axis, others] |= self._fit.scores(reset) > self._max_score
        return edges


def group_parameters(
    edges: Bools, weak: Floats, identifiable: Bools, effects: Bools
) -> tuple[tuple[int, ...], ...]:
    """Group the parameters that are not identifiable and compensate each other.

    Parameters are connected by the profiles (`edges`), and by the directions with little effect on
    the outputs (`weak`): the projection onto these has a block per set of connected parameters.

    >>> none = np.zeros((4, 4), dtype=bool)
    >>> weak = np.array([[0.7, 0.7, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    >>> group_parameters(none, weak, np.array([False, False, True, False]), np.full(4, True))
    ((0, 1),)
    """
    connected = edges | edges.T | (abs(weak.T @ weak) > 0.05)
    candidates = ~identifiable & effects
    connected &= np.outer(candidates, candidates)
    np.fill_diagonal(connected, candidates)
    for _ in range(len(identifiable)):
        connected = connected | (connected.astype(np.int64) @ connected.astype(np.int64) > 0)
    groups = {tuple(np.flatnonzero(row).tolist()) for row in connected if row.sum() > 1}
    return tuple(sorted(groups))
