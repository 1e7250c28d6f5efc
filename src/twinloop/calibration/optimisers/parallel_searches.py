"""Sequential searches run in parallel behind ask and tell."""

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

#: A search as a generator: it yields points and receives their losses, failures as infinity.
SearchSteps: TypeAlias = Generator[Floats, Floats, None]

#: The maximum loss, also that of a failure; its cube is still a float.
_MAX_LOSS: Final = 1e100


class _StepSearch:
    """A search, the points that it waits for, and their losses so far."""

    def __init__(self, steps: SearchSteps) -> None:
        self.steps = steps
        self.points = next(steps)
        self.asked_count = 0
        self.losses: list[float] = []

    def answer(self, loss: float) -> bool:
        """Take the loss of a point, in the order of `ask`; return False if the search has ended."""
        self.losses.append(loss)
        if len(self.losses) < len(self.points):
            return True
        try:
            self.points = self.steps.send(np.array(self.losses))
        except StopIteration:
            return False
        self.asked_count, self.losses = 0, []
        return True


class ParallelSearches(BaseOptimiser):
    """As many parallel searches as needed to fill a batch, the oldest first.

    A new search starts at another point when one has ended, or when all others wait for losses.
    """

    #: The length of the first steps.
    size = 0.1

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self.cells = Discretisation(space)
        self._starts: list[Floats] = []
        self._searches: list[_StepSearch] = []
        self._order: list[_StepSearch] = []
        self._begun = 0

    def begin(self, points: Floats, losses: Floats) -> None:
        """Stop all searches, and start from these points in their order."""
        self._searches, self._order = [], []
        self._starts = list(points)
        if np.isfinite(self.best_loss):
            moved = float(np.abs(points[0] - self.best).max())
            self.size = min(max(moved, 1e-3 * type(self).size), type(self).size)

    def steps(self, start: Floats, rng: np.random.Generator) -> SearchSteps:
        """Run one search from this point."""
        raise NotImplementedError

    def first(self) -> Floats:
        """Return the start of the next search: the middle first, then random points."""
        if self._starts:
            return self._starts.pop(0)
        return self.rng.random(self.dimensions) if self._begun else np.full(self.dimensions, 0.5)

    def ask(self, count: int) -> Floats:
        """Return the next points of the searches."""
        points: list[Floats] = []
        self._order = []
        index = 0
        while len(points) < count:
            if index == len(self._searches):
                start, rng = self.first(), np.random.default_rng(self.rng.integers(1 << 63))
                self._begun += 1
                self._searches.append(_StepSearch(self.steps(start, rng)))
            search = self._searches[index]
            while search.asked_count < len(search.points) and len(points) < count:
                points.append(np.clip(search.points[search.asked_count], 0.0, 1.0))
                self._order.append(search)
                search.asked_count += 1
            index += 1
        return self.cells.snap_to_centres(np.array(points))

    def tell(self, points: Floats, losses: Floats) -> None:
        """Send each loss to the search that requested it."""
        super().tell(points, losses)
        values = np.clip(failures_to_infinity(losses), -_MAX_LOSS, _MAX_LOSS).tolist()
        for search, loss in zip(self._order, values, strict=False):
            if not search.answer(loss):
                self._searches.remove(search)
