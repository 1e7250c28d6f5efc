"""A genetic algorithm."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.optimisers.interface import Floats, failures_to_infinity
from twinloop.calibration.optimisers.population import Population, reflect


class Genetic(Population):
    """A genetic algorithm with tournament selection, crossover, mutation and elitism.

    Parents are selected by tournaments of three. A child has each coordinate of one parent or
    between both, with one mutation on average, whose size decreases over the budget. The best of
    parents and children survive.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> search = Genetic(Space([LinearParameter("a", 0, 1)]), seed=1, budget=600)
    >>> for _ in range(60):
    ...     points = search.ask(10)
    ...     search.tell(points, (points[:, 0] - 0.3) ** 2)
    >>> search.best_loss < 1e-6
    True
    """

    #: The evaluations after which mutations are a fiftieth as large, if there is no budget.
    usual_budget = 2000

    def ask(self, count: int) -> Floats:
        """Return the first generation, then children."""
        new = min(count, self.size - self.next)
        first = self.members[self.next : self.next + new]
        self.next += new
        if new == count:
            return self.cells.snap_to_centres(first)
        return np.concatenate([self.cells.snap_to_centres(first), self._make_children(count - new)])

    def _make_children(self, count: int) -> Floats:
        losses = np.where(np.isnan(self.losses), np.inf, self.losses)
        rivals = self.rng.integers(self.size, size=(2, count, 3))
        winners = np.take_along_axis(rivals, np.argmin(losses[rivals], axis=2)[..., None], axis=2)[
            ..., 0
        ]
        mother, father = self.members[winners[0]], self.members[winners[1]]
        share = self.rng.random(mother.shape)
        mixed = np.where(self.rng.random((count, 1)) < 0.5, share, np.rint(share))
        mixed = np.where(self.cells.unordered, np.rint(share), mixed)
        children = mother + mixed * (father - mother)
        spent = min(self.evaluated / (self.budget or self.usual_budget), 1.0)
        scale = np.maximum(0.2 * 0.02**spent, self.cells.width)
        changed = self.rng.random(children.shape) < 1.0 / self.dimensions
        changed &= ~self.cells.unordered
        children = children + changed * scale * self.rng.standard_normal(children.shape)
        return self.redraw_categories(reflect(children), 0.5 / self.dimensions)

    def tell(self, points: Floats, losses: Floats) -> None:
        """Select the survivors."""
        super().tell(points, losses)
        self.evaluated += len(losses)
        members = np.concatenate([self.members[~np.isnan(self.losses)], points])
        values = np.concatenate([self.losses[~np.isnan(self.losses)], failures_to_infinity(losses)])
        if len(values) > self.size or self.next >= self.size:
            order = np.argsort(values, kind="stable")[: self.size]
            members, values = members[order], values[order]
        unevaluated = self.size - len(values)
        self.members = np.concatenate([members, self.members[self.size - unevaluated :]])
        self.losses = np.concatenate([values, np.full(unevaluated, np.nan)])
        if self.has_converged():
            self._renew(self.best)
            self.next = 1
