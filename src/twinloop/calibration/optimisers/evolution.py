"""Populations: differential evolution and a genetic algorithm."""

from __future__ import annotations

from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import Floats, Grain, Search, usable
from twinloop.calibration.parameters.space import Space

_ALIKE: Final = 1e-9


class _Population(Search):
    """Members with their losses; the first ones are a Latin hypercube."""

    robust = True
    coarse = True

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self.grain = Grain(space)
        self.told = 0
        size = min(5 * self.dimensions, 50) if budget is None else budget // 25
        self.size = min(max(size, 12, batch), max(100, batch))
        self._renew(None)

    def _renew(self, keep: Floats | None) -> None:
        order = np.argsort(self.rng.random((self.size, self.dimensions)), axis=0)
        drawn = (order + self.rng.random(order.shape)) / self.size
        self.members = drawn
        self.losses = np.full(self.size, np.nan)  # not known yet
        self.next = 0
        if keep is not None:
            self.members[0], self.losses[0] = keep, self.best_loss

    def begin(self, points: Floats, losses: Floats) -> None:
        """Put the best of these points in the place of random members."""
        self._renew(None)
        count = min(len(points), self.size // 2)
        self.members[:count], self.losses[:count] = points[:count], usable(losses[:count])
        self.next = count

    def alike(self) -> bool:
        """Whether all members are known and of one kind."""
        known = self.losses[~np.isnan(self.losses)]
        if len(known) < self.size:
            return False
        narrow = float(np.ptp(self.grain.centred(self.members), axis=0).max()) < _ALIKE
        return narrow or bool(np.isfinite(known).all() and np.ptp(known) == 0.0)

    def flipped(self, points: Floats, chance: float) -> Floats:
        """The points with categories drawn anew, each with this chance."""
        for column in np.flatnonzero(self.grain.unordered).tolist():
            redrawn = self.rng.random(len(points)) < chance
            points[redrawn, column] = self.rng.random(int(redrawn.sum()))
        return self.grain.centred(points)


class DifferentialEvolution(_Population):
    """Differential evolution: members move by differences of others (Storn and Price 1997).

    Towards one of the best, with factors and crossover rates that each member keeps as long as
    they serve it (jDE, Brest et al. 2006). A population whose members are all alike is renewed.

    >>> from twinloop.calibration.parameters.parameters import Linear
    >>> search = DifferentialEvolution(Space([Linear("a", 0, 1)]), seed=1)
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
        """Members not tried yet, then one trial for each in turn."""
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
        moved = reflected(own + factor[:, None] * (leaders - own + first - second))
        unordered = np.broadcast_to(self.grain.unordered, moved.shape)
        moved = np.where(
            unordered, np.where(self.rng.random(moved.shape) < 0.5, leaders, first), moved
        )
        cross = self.rng.random(moved.shape) < crossing[:, None]
        cross[np.arange(count), self.rng.integers(self.dimensions, size=count)] = True
        trial = self.flipped(np.where(cross, moved, own), 0.05)
        trial[new] = self.grain.centred(own[new])
        self._trial = list(zip(targets.tolist(), factor.tolist(), crossing.tolist(), strict=True))
        return trial

    def tell(self, points: Floats, losses: Floats) -> None:
        """A trial that is no worse than its member takes its place."""
        super().tell(points, losses)
        for (target, factor, crossing), point, loss in zip(
            self._trial, points, usable(losses).tolist(), strict=False
        ):
            known = self.losses[target]
            if np.isnan(known) or loss <= known:
                self.members[target], self.losses[target] = point, loss
                self._factor[target], self._crossing[target] = factor, crossing
        if self.alike():
            self._renew(self.best)


class Genetic(_Population):
    """A genetic algorithm: the better ones are parents, children mix and mutate.

    Parents win tournaments of three. A child takes each coordinate from one parent or from
    between both, and mutates in one coordinate on average, by less and less as the budget is
    spent. The best of parents and children live on, so the best is never lost.

    >>> from twinloop.calibration.parameters.parameters import Linear
    >>> search = Genetic(Space([Linear("a", 0, 1)]), seed=1, budget=600)
    >>> for _ in range(60):
    ...     points = search.ask(10)
    ...     search.tell(points, (points[:, 0] - 0.3) ** 2)
    >>> search.best_loss < 1e-6
    True
    """

    #: Evaluations after which mutations are a tenth as large, without a budget.
    usual_budget = 2000

    def ask(self, count: int) -> Floats:
        """The first generation, then children."""
        new = min(count, self.size - self.next)
        first = self.members[self.next : self.next + new]
        self.next += new
        if new == count:
            return self.grain.centred(first)
        return np.concatenate([self.grain.centred(first), self._children(count - new)])

    def _children(self, count: int) -> Floats:
        losses = np.where(np.isnan(self.losses), np.inf, self.losses)
        rivals = self.rng.integers(self.size, size=(2, count, 3))
        winners = np.take_along_axis(rivals, np.argmin(losses[rivals], axis=2)[..., None], axis=2)[
            ..., 0
        ]
        mother, father = self.members[winners[0]], self.members[winners[1]]
        share = self.rng.random(mother.shape)
        mixed = np.where(self.rng.random((count, 1)) < 0.5, share, np.rint(share))
        mixed = np.where(self.grain.unordered, np.rint(share), mixed)
        children = mother + mixed * (father - mother)
        spent = min(self.told / (self.budget or self.usual_budget), 1.0)
        scale = np.maximum(0.2 * 0.02**spent, self.grain.width)
        changed = self.rng.random(children.shape) < 1.0 / self.dimensions
        changed &= ~self.grain.unordered
        children = children + changed * scale * self.rng.standard_normal(children.shape)
        return self.flipped(reflected(children), 0.5 / self.dimensions)

    def tell(self, points: Floats, losses: Floats) -> None:
        """The best of all live on."""
        super().tell(points, losses)
        self.told += len(losses)
        members = np.concatenate([self.members[~np.isnan(self.losses)], points])
        values = np.concatenate([self.losses[~np.isnan(self.losses)], usable(losses)])
        if len(values) > self.size or self.next >= self.size:
            order = np.argsort(values, kind="stable")[: self.size]
            members, values = members[order], values[order]
        rest = self.size - len(values)
        self.members = np.concatenate([members, self.members[self.size - rest :]])
        self.losses = np.concatenate([values, np.full(rest, np.nan)])
        if self.alike():
            self._renew(self.best)
            self.next = 1


def reflected(points: Floats) -> Floats:
    """Points inside the cube, as mirrors on its faces would show them.

    >>> reflected(np.array([-0.25, 0.5, 1.25])).tolist()
    [0.25, 0.5, 0.75]
    """
    folded = np.abs(points) % 2.0
    return np.asarray(np.where(folded > 1.0, 2.0 - folded, folded))
