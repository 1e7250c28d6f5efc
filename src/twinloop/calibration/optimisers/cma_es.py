"""CMA-ES: a normal distribution that learns where and in which directions losses fall."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from twinloop.calibration.optimisers.interface import (
    BaseOptimiser,
    Discretisation,
    Floats,
    failures_to_infinity,
)
from twinloop.calibration.parameters.space import Space

_SPREAD: Final = 0.25  # standard deviation of the first distribution
_NARROWEST: Final = 1e-9  # a distribution this narrow has converged
_FLAT: Final = 1e-12  # losses this close to each other, as a part of their size, are equal
_CELL: Final = 0.3  # of a cell: the least spread along an integer parameter
_RARE: Final = 0.15  # spread over all categories: how likely one remains that has lost


class Cma(BaseOptimiser):
    """The covariance matrix adaptation evolution strategy, restarted with larger populations.

    The strategy is that of Hansen's tutorial (arXiv:1604.00772) with negative weights. Points that
    leave the cube are moved to its faces. Along integers the distribution never becomes
    narrower than a part of a cell; categories are drawn with probabilities that follow how often
    they are among the better half. When a run has converged, another starts: in turn with twice as
    many points (Auger and Hansen 2005), and with few points and a narrow distribution (Hansen
    2009).

    Args:
        space: The parameters.
        seed: Of all random draws.
        budget: How many points will be asked for in all, if that is known.
        batch: How many are usually asked for at once; a generation has at least as many.

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
        self._grain = Discretisation(space)
        self._floor = np.where(self._grain.unordered, 0.0, _CELL * self._grain.width)
        self._usual = max(4 + int(3 * math.log(self.dimensions)), 4)
        self._size = max(self._usual, batch)
        self._larger = 0
        self._spent = {True: 0, False: 0}  # by runs with many points, and with few
        self._many = True
        self._set(np.full(self.dimensions, 0.5), _SPREAD, self._size)

    def begin(self, points: Floats, losses: Floats) -> None:
        """Draw around the best of these points."""
        self._set(points[0], 0.8 * _SPREAD, self._size)

    def _set(self, mean: Floats, spread: float, size: int) -> None:
        d = self.dimensions
        self._mean, self._sigma, self._size = np.array(mean), spread, size
        self._covariance = np.eye(d)
        self._axes, self._scales = np.eye(d), np.ones(d)
        self._path_sigma, self._path = np.zeros(d), np.zeros(d)
        self._generation = 0
        self._points: list[Floats] = []
        self._losses: list[Floats] = []
        self._told = 0
        self._bests: list[float] = []
        self._chances = {
            column: np.full(int(self._grain.levels[column]), 1.0 / self._grain.levels[column])
            for column in np.flatnonzero(self._grain.unordered).tolist()
            if self._grain.levels[column]
        }

    def ask(self, count: int) -> Floats:
        """Points drawn from the distribution as it is."""
        steps = self.rng.standard_normal((count, self.dimensions)) * self._scales @ self._axes.T
        points = np.clip(self._mean + self._sigma * steps, 0.0, 1.0)
        for column, chances in self._chances.items():
            cells = np.searchsorted(np.cumsum(chances)[:-1], self.rng.random(count))
            points[:, column] = self._grain.middles[column][cells]
        return points

    def tell(self, points: Floats, losses: Floats) -> None:
        """Learn, once as many points as a generation has are known."""
        super().tell(points, losses)
        self._points.append(np.asarray(points))
        self._losses.append(failures_to_infinity(losses))
        self._told += len(losses)
        self._spent[self._many] += len(losses)
        if self._told < self._size:
            return
        told, values = np.concatenate(self._points), np.concatenate(self._losses)
        self._points, self._losses, self._told = [], [], 0
        order = np.argsort(values, kind="stable")
        values = values[order]
        if not np.isfinite(values[0]):
            return  # nothing to learn from: draw again
        self._learn(told[order], values)
        if self._converged(values):
            self._restart()

    def _learn(self, points: Floats, losses: Floats) -> None:
        d, n = self.dimensions, len(points)
        weights, mass, rate_mean, rate_sigma, damping, rate_path, rate_one, rate_rank = _rates(d, n)
        half = n // 2
        steps = (points - self._mean) / self._sigma
        shift = weights[:half] @ steps[:half]
        self._mean = np.clip(self._mean + rate_mean * self._sigma * shift, 0.0, 1.0)
        whitened = (shift @ self._axes) / self._scales @ self._axes.T
        self._path_sigma = (1 - rate_sigma) * self._path_sigma + math.sqrt(
            rate_sigma * (2 - rate_sigma) * mass
        ) * whitened
        self._generation += 1
        length = float(np.linalg.norm(self._path_sigma))
        usual = math.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
        faded = math.sqrt(1 - (1 - rate_sigma) ** (2 * self._generation))
        short = length / faded < (1.4 + 2 / (d + 1)) * usual
        self._path = (1 - rate_path) * self._path
        if short:
            self._path += math.sqrt(rate_path * (2 - rate_path) * mass) * shift
        # Worse points repel, each as if it lay at the usual distance.
        lengths = (((steps[half:] @ self._axes) / self._scales) ** 2).sum(axis=1)
        scaled = np.array(weights)
        scaled[half:] *= d / np.maximum(lengths, 1e-300)
        scaled[half:][lengths < 1e-12] = 0.0
        kept = 1 - rate_one - rate_rank * weights.sum()
        if not short:
            kept += rate_one * rate_path * (2 - rate_path)
        self._covariance = (
            kept * self._covariance
            + rate_one * np.outer(self._path, self._path)
            + rate_rank * (steps.T * scaled) @ steps
        )
        if losses[0] == losses[min(n - 1, max(half, 1))]:
            self._sigma *= math.exp(0.2 + rate_sigma / damping)  # a plateau: look further
        else:
            self._sigma *= math.exp(min(1.0, (rate_sigma / damping) * (length / usual - 1)))
        self._learn_categories(points[:half])
        self._decompose()

    def _learn_categories(self, winners: Floats) -> None:
        rate = min(1.0, len(winners) / (len(winners) + 2.0 * self.dimensions))
        for column, chances in self._chances.items():
            cells = self.space.parameters[column].find_cells(winners[:, column])
            seen = np.bincount(cells, minlength=len(chances)) / len(winners)
            mixed = (1 - rate) * chances + rate * seen
            mixed = np.maximum(mixed, _RARE / len(chances))
            self._chances[column] = mixed / mixed.sum()

    def _decompose(self) -> None:
        self._covariance = (self._covariance + self._covariance.T) / 2
        deviations = self._sigma * np.sqrt(np.maximum(np.diag(self._covariance), 1e-300))
        widest = float(deviations.max())
        if widest > 0.5:  # wider than the cube is no information
            self._sigma *= 0.5 / widest
            deviations *= 0.5 / widest
        low = deviations < self._floor
        if low.any():
            grow = (self._floor / self._sigma) ** 2
            self._covariance[low, low] = grow[low]
        squares, self._axes = np.linalg.eigh(self._covariance)
        least = max(float(squares[-1]), 1e-300) * 1e-14
        if squares[0] < least:
            squares = np.maximum(squares, least)
            self._covariance = (self._axes * squares) @ self._axes.T
        self._scales = np.sqrt(squares)

    def _converged(self, losses: Floats) -> bool:
        self._bests.append(float(losses[0]))
        narrow = self._sigma * float(self._scales[-1]) < _NARROWEST
        window = 10 + int(30 * self.dimensions / max(self._size, 1))
        recent = self._bests[-window:]
        level = max(abs(recent[-1]), 1e-300)
        flat = len(recent) == window and max(recent) - min(recent) <= _FLAT * level
        flat = flat and losses[-1] - losses[0] <= _FLAT * level
        old = self._bests[-12 * window : -6 * window]
        stuck = len(old) == 6 * window and np.median(old) <= np.median(self._bests[-6 * window :])
        return bool(narrow or flat or stuck)

    def _restart(self) -> None:
        smallest = max(self._usual, self.batch)
        self._many = self._spent[True] <= self._spent[False]
        if self._many:
            self._larger = min(self._larger + 1, 9)
            size, spread = smallest << self._larger, _SPREAD
        else:
            most = (smallest << self._larger) / (2 * smallest)
            size = max(int(smallest * most ** (self.rng.random() ** 2)), smallest)
            spread = _SPREAD * 10.0 ** (-2.0 * self.rng.random())
        self._set(self.rng.random(self.dimensions), spread, size)


def _rates(d: int, n: int) -> tuple[Floats, float, float, float, float, float, float, float]:
    """The weights of n points and the rates of learning, as the tutorial recommends them."""
    key = (d, n)
    if key in _KNOWN:
        return _KNOWN[key]
    half = n // 2
    raw = math.log((n + 1) / 2) - np.log(np.arange(1, n + 1))
    better, worse = raw[:half], raw[half:]
    mass = float(better.sum() ** 2 / (better**2).sum())
    rate_path = (4 + mass / d) / (d + 4 + 2 * mass / d)
    rate_sigma = (mass + 2) / (d + mass + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (d + 1)) - 1) + rate_sigma
    rate_one = 2 / ((d + 1.3) ** 2 + mass)
    rate_rank = min(1 - rate_one, 2 * (0.25 + mass + 1 / mass - 2) / ((d + 2) ** 2 + 2 * mass / 2))
    mass_worse = float(worse.sum() ** 2 / max((worse**2).sum(), 1e-300))
    negative = min(
        1 + rate_one / rate_rank,
        1 + 2 * mass_worse / (mass + 2),
        (1 - rate_one - rate_rank) / (d * rate_rank),
    )
    negated = worse / max(float(np.abs(worse).sum()), 1e-300) * max(negative, 0.0)
    weights = np.concatenate([better / better.sum(), negated])
    known = (weights, mass, 1.0, rate_sigma, damping, rate_path, rate_one, rate_rank)
    _KNOWN[key] = known
    return known


_KNOWN: dict[tuple[int, int], tuple[Floats, float, float, float, float, float, float, float]] = {}
