"""CMA-ES of the library `cmaes`, with restarts."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

import numpy as np
from cmaes import CatCMAwM

from twinloop.calibration.optimisers.interface import (
    BaseOptimiser,
    Discretisation,
    Floats,
    failures_to_infinity,
)
from twinloop.calibration.parameters.space import Space

_SPREAD: Final = 0.15  # standard deviation of the initial distribution
_SPREAD_AROUND: Final = 0.2  # standard deviation of a distribution around a known point


class Cma(BaseOptimiser):
    """The covariance matrix adaptation evolution strategy, restarted with other populations.

    A run is `cmaes.CatCMAwM` (Hamano et al., arXiv:2504.07884): the strategy of Hansen's tutorial
    (arXiv:1604.00772) with a penalty for points beyond the bounds, a margin that keeps the spread
    of integers above zero, and a distribution of its own for categories. When a run has
    converged, the next one has twice as many points (Auger and Hansen 2005), or few points and a
    narrow distribution, whichever kind has used less of the budget (Hansen 2009).

    Args:
        space: The parameters.
        seed: The seed of all random draws.
        budget: The number of points of the whole search, if it is known.
        batch: The usual number of points of one `ask`; a generation has at least as many.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> search = Cma(Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)]), seed=1)
    >>> for _ in range(100):
    ...     points = search.ask(6)
    ...     search.tell(points, ((points - 0.3) ** 2).sum(axis=1))
    >>> search.best_loss < 1e-9
    True
    """

    tolerates_noise = True
    tolerates_plateaus = True

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self._columns = _Columns(Discretisation(space))
        default_size = 4 + int(3 * math.log(self.dimensions))
        self._min_size = math.ceil(default_size / batch) * batch
        self._doublings = 0
        #: The points spent by runs with large generations (True) and by other runs.
        self._spent = {True: 0, False: 0}
        self._is_large = True
        self._begin_run(np.full(self.dimensions, 0.5), _SPREAD, self._min_size)

    def begin(self, points: Floats, losses: Floats) -> None:
        """Start a run around the best of these points."""
        self._begin_run(points[0], _SPREAD_AROUND, self._size)

    def _begin_run(self, mean: Floats, spread: float, size: int) -> None:
        self._mean, self._spread, self._size = np.array(mean), spread, size
        self._run: CatCMAwM | None = None  # created by `ask`, when the number of points is known
        self._pending: list[CatCMAwM.Solution] = []
        self._evaluated: list[tuple[CatCMAwM.Solution, float]] = []

    def ask(self, count: int) -> Floats:
        """Draw points from the current distribution."""
        points = np.full((count, self.dimensions), 0.5)
        if not self._columns.free:
            return points
        if self._run is None:
            self._size = max(self._size, count)
            seed = int(self.rng.integers(1 << 31))
            self._run = self._columns.start(self._mean, self._spread, self._size, seed)
        for row in points:
            solution = self._run.ask()
            self._pending.append(solution)
            self._columns.place(solution, row)
        return points

    def tell(self, points: Floats, losses: Floats) -> None:
        """Update the distribution as soon as the losses of a whole generation are known."""
        super().tell(points, losses)
        asked, self._pending = self._pending[: len(losses)], self._pending[len(losses) :]
        self._evaluated += zip(asked, failures_to_infinity(losses).tolist(), strict=False)
        self._spent[self._is_large] += len(losses)
        while self._run is not None and len(self._evaluated) >= self._size:
            generation, self._evaluated = (
                self._evaluated[: self._size],
                self._evaluated[self._size :],
            )
            if self._learn_generation(self._run, generation):
                self._restart()

    def _learn_generation(
        self, run: CatCMAwM, generation: list[tuple[CatCMAwM.Solution, float]]
    ) -> bool:
        """Update the distribution by a generation; return whether the run has converged."""
        if not any(math.isfinite(loss) for _, loss in generation):
            return False  # nothing to learn from: draw again
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # NumPy warns about failures and plateaus, which have no interquartile range.
            warnings.simplefilter("ignore")
            try:
                run.tell(generation)
                return bool(self._columns.numeric) and run.should_stop()
            except (np.linalg.LinAlgError, AssertionError):
                return True  # the distribution has degenerated

    def _restart(self) -> None:
        self._is_large = self._spent[True] <= self._spent[False]
        if self._is_large:
            self._doublings = min(self._doublings + 1, 9)
            size, spread = self._min_size << self._doublings, _SPREAD
        else:
            max_factor = 2.0 ** (self._doublings - 1)
            size = max(int(self._min_size * max_factor ** (self.rng.random() ** 2)), self._min_size)
            spread = _SPREAD * 10.0 ** (-2.0 * self.rng.random())
        self._begin_run(self.rng.random(self.dimensions), spread, size)


class _Columns:
    """The columns of a space, divided into the kinds of variables of the library."""

    def __init__(self, grain: Discretisation) -> None:
        self._middles = grain.middles
        levels = grain.levels
        # With two values an order has no meaning: they are treated as categories.
        chosen = (levels == 2) | (grain.unordered & (levels > 2))
        self._categories = np.flatnonzero(chosen).tolist()
        self._integers = np.flatnonzero((levels > 2) & ~chosen).tolist()
        self._reals = np.flatnonzero(levels == 0).tolist()
        #: Columns with a normal distribution.
        self.numeric = self._reals + self._integers
        #: Columns with more than one value.
        self.free = self.numeric + self._categories

    def start(self, mean: Floats, spread: float, size: int, seed: int) -> CatCMAwM:
        """Start a run of the library around this point."""
        normal: dict[str, Any] = {}
        if self.numeric:
            eye = np.eye(len(self.numeric))
            normal = {"mean": mean[self.numeric], "sigma": spread, "cov": eye}
        return CatCMAwM(
            x_space=[[0.0, 1.0]] * len(self._reals) or None,
            z_space=[self._middles[column].tolist() for column in self._integers] or None,
            c_space=[len(self._middles[column]) for column in self._categories] or None,
            population_size=size,
            seed=seed,
            **normal,
        )

    def place(self, solution: CatCMAwM.Solution, row: Floats) -> None:
        """Write a solution of the library into a row of the cube."""
        if self._reals:
            row[self._reals] = solution.x
        if self._integers:
            row[self._integers] = solution.z
        for column, chosen in zip(
            self._categories, solution.c if self._categories else (), strict=True
        ):
            row[column] = self._middles[column][int(np.argmax(chosen))]
