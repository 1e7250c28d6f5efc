"""Searches that go step by step, several side by side, behind ask and tell."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias

import numpy as np

from twinloop.calibration.optimisers.interface import (
    BaseOptimiser,
    Discretisation,
    Floats,
    failures_to_infinity,
)
from twinloop.calibration.parameters.space import Space

#: A search as a generator: it hands out points and is sent their losses, failures infinite.
SearchSteps: TypeAlias = Generator[Floats, Floats, None]

#: What a search is told of a failure: worse than anything, and yet its cube is a number.
_LARGEST: Final = 1e100


class _Lane:
    def __init__(self, steps: SearchSteps) -> None:
        self.steps = steps
        self.wanted = next(steps)
        self.asked = 0
        self.losses: list[float] = []

    def answer(self, loss: float) -> bool:
        """Take the loss of a point in the order asked; whether the search goes on."""
        self.losses.append(loss)
        if len(self.losses) < len(self.wanted):
            return True
        try:
            self.wanted = self.steps.send(np.array(self.losses))
        except StopIteration:
            return False
        self.asked, self.losses = 0, []
        return True


class ParallelSearches(BaseOptimiser):
    """Runs as many searches at once as it takes to fill a batch, the oldest first.

    When a search is over, another begins elsewhere; so does one when all others wait for losses."""

    #: How far the first steps go.
    size = 0.1

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self.grain = Discretisation(space)
        self._starts: list[Floats] = []
        self._lanes: list[_Lane] = []
        self._order: list[_Lane] = []
        self._begun = 0

    def begin(self, points: Floats, losses: Floats) -> None:
        """Give up all searches, and start from these points, the first one first."""
        self._lanes, self._order = [], []
        self._starts = list(points)
        if np.isfinite(self.best_loss):
            moved = float(np.abs(points[0] - self.best).max())
            self.size = min(max(moved, 1e-3 * type(self).size), type(self).size)

    def steps(self, start: Floats, rng: np.random.Generator) -> SearchSteps:
        """One search from this point on."""
        raise NotImplementedError

    def first(self) -> Floats:
        """Where the next search begins: in the middle, then anywhere."""
        if self._starts:
            return self._starts.pop(0)
        return self.rng.random(self.dimensions) if self._begun else np.full(self.dimensions, 0.5)

    def ask(self, count: int) -> Floats:
        """What the searches want to know next."""
        points: list[Floats] = []
        self._order = []
        at = 0
        while len(points) < count:
            if at == len(self._lanes):
                start, rng = self.first(), np.random.default_rng(self.rng.integers(1 << 63))
                self._begun += 1
                self._lanes.append(_Lane(self.steps(start, rng)))
            lane = self._lanes[at]
            while lane.asked < len(lane.wanted) and len(points) < count:
                points.append(np.clip(lane.wanted[lane.asked], 0.0, 1.0))
                self._order.append(lane)
                lane.asked += 1
            at += 1
        return self.grain.snap_to_centres(np.array(points))

    def tell(self, points: Floats, losses: Floats) -> None:
        """Send the losses to those who asked."""
        super().tell(points, losses)
        told = np.clip(failures_to_infinity(losses), -_LARGEST, _LARGEST).tolist()
        for lane, loss in zip(self._order, told, strict=False):
            if not lane.answer(loss):
                self._lanes.remove(lane)
