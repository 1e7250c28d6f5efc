"""A population of points with their losses, the base of evolutionary optimisers."""

from __future__ import annotations

from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import (
    BaseOptimiser,
    Discretisation,
    Floats,
    failures_to_infinity,
)
from twinloop.calibration.parameters.space import Space

#: The maximum width of a population, along any coordinate, that has converged.
_MAX_CONVERGED_WIDTH: Final = 1e-9


class Population(BaseOptimiser):
    """Members with their losses; the initial ones are a Latin hypercube."""

    tolerates_noise = True
    tolerates_plateaus = True

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self.cells = Discretisation(space)
        self.evaluated = 0
        size = min(5 * self.dimensions, 50) if budget is None else budget // 25
        self.size = min(max(size, 12, batch), max(100, batch))
        self._renew(None)

    def _renew(self, keep: Floats | None) -> None:
        order = np.argsort(self.rng.random((self.size, self.dimensions)), axis=0)
        drawn = (order + self.rng.random(order.shape)) / self.size
        self.members = drawn
        self.losses = np.full(self.size, np.nan)  # not evaluated yet
        self.next = 0
        if keep is not None:
            self.members[0], self.losses[0] = keep, self.best_loss

    def begin(self, points: Floats, losses: Floats) -> None:
        """Replace random members by the best of these points."""
        self._renew(None)
        count = min(len(points), self.size // 2)
        self.members[:count], self.losses[:count] = (
            points[:count],
            failures_to_infinity(losses[:count]),
        )
        self.next = count

    def has_converged(self) -> bool:
        """Whether all members are evaluated, and equal in points or losses."""
        known = self.losses[~np.isnan(self.losses)]
        if len(known) < self.size:
            return False
        narrow = (
            float(np.ptp(self.cells.snap_to_centres(self.members), axis=0).max())
            < _MAX_CONVERGED_WIDTH
        )
        return narrow or bool(np.isfinite(known).all() and np.ptp(known) == 0.0)

    def redraw_categories(self, points: Floats, chance: float) -> Floats:
        """Redraw categories with this probability each."""
        for column in np.flatnonzero(self.cells.unordered).tolist():
            redrawn = self.rng.random(len(points)) < chance
            points[redrawn, column] = self.rng.random(int(redrawn.sum()))
        return self.cells.snap_to_centres(points)


def reflect(points: Floats) -> Floats:
    """Reflect points at the faces of the cube.

    >>> reflect(np.array([-0.25, 0.5, 1.25])).tolist()
    [0.25, 0.5, 0.75]
    """
    folded = np.abs(points) % 2.0
    return np.asarray(np.where(folded > 1.0, 2.0 - folded, folded))
