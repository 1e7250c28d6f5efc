"""Differential evolution."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.optimisers.interface import Floats, failures_to_infinity
from twinloop.calibration.optimisers.population import Population, reflect


class DifferentialEvolution(Population):
    """Differential evolution (Storn and Price 1997) with adaptive rates (jDE, Brest et al. 2006).

    Members move towards one of the best; each keeps its scale factor and crossover rate as long as
    they succeed. A population that has converged is renewed.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> search = DifferentialEvolution(Space([LinearParameter("a", 0, 1)]), seed=1)
    >>> for _ in range(60):
    ...     points = search.ask(10)
    ...     search.tell(points, (points[:, 0] - 0.3) ** 2)
    >>> search.best_loss < 1e-9
    True
    """

    def _renew(self, keep: Floats | None) -> None:
        super()._renew(keep)
        self._factor = np.full(self.size, 0.5)
        self._crossing = np.full(self.size, 0.9)
        self._trial: list[tuple[int, float, float]] = []

    def ask(self, count: int) -> Floats:
        """Return members not evaluated yet, then a trial for each member in turn."""
        targets = (self.next + np.arange(count)) % self.size
        self.next = int((self.next + count) % self.size)
        new = np.isnan(self.losses[targets])
        factor = np.where(
            self.rng.random(count) < 0.1, 0.1 + 0.9 * self.rng.random(count), self._factor[targets]
        )
        crossing = np.where(
            self.rng.random(count) < 0.1, self.rng.random(count), self._crossing[targets]
        )
        losses = np.where(np.isnan(self.losses), np.inf, self.losses)
        top = np.argsort(losses, kind="stable")[: max(2, self.size // 8)]
        leaders = self.members[self.rng.choice(top, count)]
        first = self.members[self.rng.integers(self.size, size=count)]
        second = self.members[self.rng.integers(self.size, size=count)]
        own = self.members[targets]
        moved = reflect(own + factor[:, None] * (leaders - own + first - second))
        unordered = np.broadcast_to(self.cells.unordered, moved.shape)
        moved = np.where(
            unordered, np.where(self.rng.random(moved.shape) < 0.5, leaders, first), moved
        )
        cross = self.rng.random(moved.shape) < crossing[:, None]
        cross[np.arange(count), self.rng.integers(self.dimensions, size=count)] = True
        trial = self.redraw_categories(np.where(cross, moved, own), 0.05)
        trial[new] = self.cells.snap_to_centres(own[new])
        self._trial = list(zip(targets.tolist(), factor.tolist(), crossing.tolist(), strict=True))
        return trial

    def tell(self, points: Floats, losses: Floats) -> None:
        """Replace a member by a trial that is no worse."""
        super().tell(points, losses)
        for (target, factor, crossing), point, loss in zip(
            self._trial, points, failures_to_infinity(losses).tolist(), strict=False
        ):
            known = self.losses[target]
            if np.isnan(known) or loss <= known:
                self.members[target], self.losses[target] = point, loss
                self._factor[target], self._crossing[target] = factor, crossing
        if self.has_converged():
            self._renew(self.best)
