"""The search for the region around a calibration with losses up to a bound."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.uncertainty.ensemble_mcmc import sample_by_ensemble
from twinloop.calibration.uncertainty.evaluation_count import BudgetSpentError, Evaluations

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: The maximum number of dimensions for a grid.
_MAX_GRID_DIMENSIONS: Final = 3
#: The minimum number of points that show the shape of a region.
_MIN_POINTS: Final = 100


class RegionSearch:
    """A search around a calibration that keeps all points with a loss up to the bound."""

    def __init__(
        self, evaluations: Evaluations, best: Floats, bound: float, rng: np.random.Generator
    ) -> None:
        self._evaluations = evaluations
        self._best = best
        self._bound = bound
        self._rng = rng
        self._kept: list[tuple[Floats, Floats, bool]] = []

    def keep(self, points: Floats, losses: Floats, *, uniform: bool = False) -> Bools:
        """Keep points with a loss up to the bound; `uniform`: whether they sample it uniformly."""
        below = losses <= self._bound
        if below.any():
            self._kept.append((points[below], losses[below], uniform))
        return below

    def collect(self) -> tuple[Floats, Floats, Floats]:
        """Return all points, their losses, and weights that make them uniform."""
        points = np.concatenate([points for points, _, _ in self._kept])
        losses = np.concatenate([losses for _, losses, _ in self._kept])
        uniform = np.concatenate([np.full(len(x), e, dtype=np.float64) for x, _, e in self._kept])
        if not uniform.any():
            uniform[:] = 1.0
        points, where, back = np.unique(points, axis=0, return_index=True, return_inverse=True)
        weights = np.bincount(back.ravel(), weights=uniform)
        return points, losses[where], weights / weights.sum()

    def box(self, outer: float) -> Floats:
        """Bracket the region: from `best` along each axis both ways to a loss of about `outer`."""
        dimensions = len(self._best)
        rows = np.arange(2 * dimensions)
        axes = rows // 2
        inside, outside = self._best[axes], (rows % 2).astype(np.float64)
        points = np.tile(self._best, (2 * dimensions, 1))

        def below(positions: Floats) -> Bools:
            points[rows, axes] = positions
            losses = self._evaluations.losses(points)
            self.keep(points.copy(), losses)
            return losses <= outer

        inside = np.where(below(outside), outside, inside)
        for _ in range(min(10, self._evaluations.left // (10 * dimensions))):
            middle = (inside + outside) / 2
            near = below(middle)
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        box = outside.reshape(dimensions, 2).T.copy()
        for axis, parameter in enumerate(self._evaluations.space):
            if not parameter.ordered:
                box[:, axis] = 0.0, 1.0
        return box

    def enlarge(self, box: Floats) -> tuple[Floats, float]:
        """Enlarge the box where the region touches its sides; return it and the acceptance rate."""
        acceptance = 0.0
        for _ in range(6):
            count = self._evaluations.left // 16
            if count < 1:
                raise BudgetSpentError
            points = box[0] + self._draw_quasi_random(count) * np.ptp(box, axis=0)
            below = self.keep(points, self._evaluations.losses(points))
            acceptance = float(below.mean())
            ends = np.vstack([points[below], self._best])
            margin = 0.1 * np.ptp(box, axis=0)
            low = (ends.min(axis=0) < box[0] + margin) & (box[0] > 0)
            high = (ends.max(axis=0) > box[1] - margin) & (box[1] < 1)
            if not (low | high).any():
                break
            width = np.ptp(box, axis=0)
            box = np.clip([box[0] - width * low, box[1] + width * high], 0.0, 1.0)
        return box, acceptance

    def fill(self, box: Floats, acceptance: float) -> str:
        """Sample the box, or the region itself by MCMC if the acceptance rate is low."""
        left = self._evaluations.left
        has_enough = acceptance * left >= _MIN_POINTS
        if len(self._best) <= _MAX_GRID_DIMENSIONS:
            points = _make_grid(
                box, self._best, left if has_enough else left // 4, self._evaluations
            )
            self.keep(points, self._evaluations.losses(points), uniform=has_enough)
            if has_enough:
                return "grid"
            self._sample_by_mcmc(box)
            return "grid, then drawn from the region"
        if acceptance >= 0.02 and has_enough:
            points = box[0] + self._draw_quasi_random(left) * np.ptp(box, axis=0)
            self.keep(points, self._evaluations.losses(points), uniform=True)
            return "sampling"
        self._sample_by_mcmc(box)
        return "drawn from the region"

    def _draw_quasi_random(self, count: int) -> Floats:
        """Draw quasi-random points of the unit cube: the R sequence from a random point.

        An additive recurrence whose steps are powers of the root of x^(d+1) = x + 1 (M. Roberts,
        2018).
        """
        dimensions = len(self._best)
        root = 2.0
        for _ in range(30):
            root = (1.0 + root) ** (1.0 / (dimensions + 1))
        steps = root ** -np.arange(1.0, dimensions + 1)
        shift = self._rng.random(dimensions)
        points: Floats = (shift + np.arange(1, count + 1)[:, np.newaxis] * steps) % 1.0
        return points

    def _sample_by_mcmc(self, box: Floats) -> None:
        dimensions = len(self._best)
        walkers = 2 * max(2 * dimensions, 12)
        start = self._spread_points(self._draw_on_chords(box, walkers), box)

        def inside(points: Floats) -> Floats:
            losses = self._evaluations.losses(points)
            self.keep(points, losses)
            return np.where(losses <= self._bound, 0.0, -np.inf)

        rounds = self._evaluations.left // walkers
        if rounds < 1:
            raise BudgetSpentError
        samples, _ = sample_by_ensemble(inside, start, np.zeros(walkers), rounds, self._rng)
        after_burn_in = samples[rounds // 3 :].reshape(-1, dimensions)
        # Where a walker stayed, its position counts again, and its loss is known.
        known = {
            point.tobytes(): loss
            for x, y, _ in self._kept
            for point, loss in zip(x, y, strict=True)
        }
        losses = np.array([known.get(point.tobytes(), np.inf) for point in after_burn_in])
        self.keep(after_burn_in, losses, uniform=True)

    def _spread_points(self, points: Floats, box: Floats) -> Floats:
        """Spread the points over the region, by steps from its outermost points."""
        count, width = len(points), np.maximum(np.ptp(box, axis=0), 1e-12)
        pool = points
        for _ in range(min(60, self._evaluations.left // (2 * count))):
            # From the outermost points along some axis.
            ends = np.argsort(pool, axis=0)[[0, 1, 2, -3, -2, -1]]
            axes = self._rng.integers(len(width), size=count)
            tips = pool[ends[self._rng.integers(len(ends), size=count), axes]]
            # Differences to neighbours follow a curved valley.
            apart = np.linalg.norm((tips[:, np.newaxis] - pool) / width, axis=2)
            near = np.argsort(apart, axis=1)[np.arange(count), self._rng.integers(1, 6, size=count)]
            reach = self._rng.uniform(0.5, 3.0, (count, 1))
            steps = reach * (tips - pool[near])
            # Steps along an axis, for valleys in which one parameter has little effect.
            along = np.arange(0, count, 2)
            steps[along] = 0.0
            sizes = 10.0 ** self._rng.uniform(-3, 0, len(along))
            steps[along, self._rng.integers(len(width), size=len(along))] = (
                self._rng.choice([-1.0, 1.0], len(along)) * sizes
            )
            tried = np.clip(tips + steps, 0.0, 1.0)
            below = self.keep(tried, self._evaluations.losses(tried))
            pool = np.vstack([pool, tried[below]])
        chosen = [0]
        apart = np.linalg.norm((pool - pool[0]) / width, axis=1)
        for _ in range(count - 1):
            chosen.append(int(apart.argmax()))
            apart = np.minimum(apart, np.linalg.norm((pool - pool[chosen[-1]]) / width, axis=1))
        return pool[chosen]

    def _draw_on_chords(self, box: Floats, count: int) -> Floats:
        """Draw points of the region on random lines through `best`."""
        directions = self._rng.standard_normal((count, len(self._best))) * np.ptp(box, axis=0)
        reach = np.ones(count)
        points: Floats = np.tile(self._best, (count, 1))
        for _ in range(8):
            points = np.clip(self._best + reach[:, np.newaxis] * directions, 0.0, 1.0)
            losses = self._evaluations.losses(points)
            below = self.keep(points, losses)
            if below.all():
                break
            reach[~below] /= 2
        points[~below] = self._best
        return points


def _make_grid(box: Floats, best: Floats, count: int, evaluations: Evaluations) -> Floats:
    """Make a grid of at most `count` points in the box; discrete parameters have their levels."""
    axes: list[Floats | None] = []
    max_points = max(count, 1)
    for axis, parameter in enumerate(evaluations.space):
        levels = parameter.levels
        centres = None
        if levels is not None and levels <= 10_000:
            centres = (np.arange(levels) + 0.5) / levels
            cell = 0.5 / levels
            centres = centres[(centres + cell >= box[0, axis]) & (centres - cell <= box[1, axis])]
            if len(centres) > max(2, round(max_points ** (1 / len(best)))):
                centres = None
            else:
                max_points //= len(centres)
        axes.append(centres)
    continuous_count = sum(each is None for each in axes)
    side = max(int(max_points ** (1 / continuous_count) + 1e-9), 1) if continuous_count else 1
    lines = [
        np.linspace(box[0, axis], box[1, axis], side) if side > 1 else best[[axis]]
        for axis in range(len(best))
    ]
    chosen = [lines[axis] if each is None else each for axis, each in enumerate(axes)]
    return np.stack(np.meshgrid(*chosen, indexing="ij"), axis=-1).reshape(-1, len(best))
