"""Bayesian optimisation: a surrogate model of the loss selects the next points."""

from __future__ import annotations

import warnings
from typing import Any, Final, Protocol

import numpy as np

from twinloop.calibration.optimisers.interface import BaseOptimiser, Discretisation, Floats
from twinloop.calibration.optimisers.sampling import Sobol
from twinloop.calibration.parameters.space import Space

#: The maximum numbers of best and of latest points that the model is fitted to.
_BEST_COUNT: Final = 100
_LATEST_COUNT: Final = 150
_CANDIDATE_COUNT: Final = 500
_REFIT_GROWTH: Final = 1.15  # growth of the data after which the kernel is fitted again


class Surrogate(Protocol):
    """A regression model that predicts with a standard deviation."""

    def fit(self, features: Floats, losses: Floats) -> None:
        """Fit the model."""

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Predict means and standard deviations."""


class BayesianOptimiser(BaseOptimiser):
    """Bayesian optimisation by expected improvement under a surrogate model.

    Candidates are random points and neighbours of the best ones. Within a batch, the improvement
    near a chosen point is reduced. A surrogate is fitted to a few hundred points at most, so that
    the cost of `ask` is bounded.
    """

    def __init__(
        self, space: Space, *, seed: int, budget: int | None = None, batch: int = 1
    ) -> None:
        super().__init__(space, seed=seed, budget=budget, batch=batch)
        self._cells = Discretisation(space)
        self._initial_points = Sobol(space, seed=int(self.rng.integers(1 << 31)))
        initial = 2 * self.dimensions + 2 if budget is None else budget // 4
        self._initial_count = max(min(initial, 2 * self.dimensions + 2), batch)
        self._points = np.empty((0, self.dimensions))
        self._losses = np.empty(0)
        self._asked_count = 0
        self._model = self.surrogate(int(self.rng.integers(1 << 31)))

    def surrogate(self, seed: int) -> Surrogate:
        """Create a model of the loss, not yet fitted."""
        raise NotImplementedError

    def ask(self, count: int) -> Floats:
        """Return quasi-random points at first, then points with a large expected improvement."""
        finite = np.isfinite(self._losses)
        if (
            self._asked_count < self._initial_count
            or finite.sum() < 2
            or np.ptp(self._losses[finite]) == 0.0
        ):
            self._asked_count += count
            return self._cells.snap_to_centres(self._initial_points.ask(count))
        self._asked_count += count
        points, losses = self._select_training_data()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that did not converge is still usable
            self._model.fit(self._make_features(points), losses)
        candidates = self._draw_candidates(points[np.argsort(losses, kind="stable")], count)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean, deviation = self._model.predict(self._make_features(candidates))
        return self._select_batch(
            candidates, compute_expected_improvement(mean, deviation, float(losses.min())), count
        )

    def begin(self, points: Floats, losses: Floats) -> None:
        """Start from evaluated points."""
        self.learn(points, losses)
        self._asked_count = self._initial_count

    def tell(self, points: Floats, losses: Floats) -> None:
        """Add points with their losses."""
        super().tell(points, losses)
        self.learn(points, losses)

    def learn(self, points: Floats, losses: Floats) -> None:
        """Add points of other optimisers."""
        self._points = np.concatenate([self._points, points])
        self._losses = np.concatenate([self._losses, losses])
        if len(self._losses) > 4 * (_BEST_COUNT + _LATEST_COUNT):
            kept = self._select_points()
            self._points, self._losses = self._points[kept], self._losses[kept]

    def _select_points(self) -> Floats:
        order = np.argsort(np.where(np.isfinite(self._losses), self._losses, np.inf), kind="stable")
        latest = np.arange(len(self._losses) - _LATEST_COUNT, len(self._losses))
        return np.unique(np.concatenate([order[:_BEST_COUNT], latest[latest >= 0]]))

    def _select_training_data(self) -> tuple[Floats, Floats]:
        """Select points and losses to fit; a logarithmic scale resolves the best losses."""
        kept = self._select_points()
        points, losses = self._points[kept], self._losses[kept]
        finite = np.isfinite(losses)
        losses = np.where(finite, losses, losses[finite].max())
        low, middle = float(losses.min()), float(np.median(losses))
        if middle > low:
            losses = np.log1p((losses - low) / (middle - low) * 5.0)
        return points, (losses - losses.mean()) / max(float(losses.std()), 1e-300)

    def _draw_candidates(self, best: Floats, count: int) -> Floats:
        uniform = self.rng.random((_CANDIDATE_COUNT, self.dimensions))
        around = best[self.rng.integers(min(5, len(best)), size=2 * _CANDIDATE_COUNT)]
        width = 10.0 ** self.rng.uniform(-3.5, -0.5, (2 * _CANDIDATE_COUNT, 1))
        moving = self.rng.random(around.shape) < self.rng.choice(
            [0.3, 1.0], (2 * _CANDIDATE_COUNT, 1)
        )
        near = around + moving * np.maximum(width, self._cells.width) * self.rng.standard_normal(
            around.shape
        )
        flips = self.rng.random(near.shape) < 0.2
        near = np.where(
            self._cells.unordered, np.where(flips, self.rng.random(near.shape), around), near
        )
        candidates = self._cells.snap_to_centres(np.concatenate([uniform, np.clip(near, 0.0, 1.0)]))
        seen = {point.tobytes() for point in self._points}
        new = [index for index, point in enumerate(candidates) if point.tobytes() not in seen]
        return candidates[new] if len(new) >= count else candidates

    def _select_batch(self, candidates: Floats, gain: Floats, count: int) -> Floats:
        chosen = []
        gain = np.array(gain)
        features = self._make_features(candidates)
        for _ in range(count):
            best = int(np.argmax(gain))
            chosen.append(candidates[best])
            if len(chosen) < count:
                squared_distances = ((features - features[best]) ** 2).sum(axis=1)
                reach = 0.02 * self.dimensions / len(candidates) ** (1 / self.dimensions)
                gain *= 1.0 - np.exp(-squared_distances / (2 * reach**2))
                gain[best] = -1.0
        return np.array(chosen)

    def _make_features(self, points: Floats) -> Floats:
        """Make the features: the coordinates, with a column per category (one-hot)."""
        columns = []
        for column in range(self.dimensions):
            if self._cells.unordered[column] and self._cells.levels[column]:
                cells = self.space.parameters[column].find_cells(points[:, column])
                columns.append(np.eye(int(self._cells.levels[column]))[cells] * 0.5)
            else:
                columns.append(points[:, column : column + 1])
        return np.concatenate(columns, axis=1)


class _GaussianProcessModel:
    """A Gaussian process; its kernel is fitted again only when the data have grown."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._fitted_at = 0
        self._kernel: Any = None
        self._model: Any = None

    def fit(self, features: Floats, losses: Floats) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        refit = self._kernel is None or len(losses) >= _REFIT_GROWTH * self._fitted_at
        if self._kernel is None:
            scales = np.full(features.shape[1], 0.5)
            self._kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(
                scales, (0.05, 20.0), nu=2.5
            ) + WhiteKernel(1e-4, (1e-8, 1.0))
        self._model = GaussianProcessRegressor(
            self._kernel,
            optimizer="fmin_l_bfgs_b" if refit else None,
            random_state=self._seed,
        )
        self._model.fit(features, losses)
        if refit:
            self._kernel, self._fitted_at = self._model.kernel_, len(losses)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        mean, deviation = self._model.predict(features, return_std=True)
        return mean, deviation


class GaussianProcess(BayesianOptimiser):
    """Bayesian optimisation with a Gaussian process.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> search = GaussianProcess(Space([LinearParameter("a", 0, 1)]), seed=1)
    >>> for _ in range(12):
    ...     points = search.ask(1)
    ...     search.tell(points, (points[:, 0] - 0.3) ** 2)
    >>> search.best_loss < 1e-3
    True
    """

    def surrogate(self, seed: int) -> Surrogate:
        """Create a Gaussian process."""
        return _GaussianProcessModel(seed)


def compute_expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Compute the expected improvement over the best loss, for normal predictions.

    >>> mean, deviation = np.array([0.0, 1.0]), np.array([1.0, 1.0])
    >>> compute_expected_improvement(mean, deviation, 0.0).round(4).tolist()
    [0.3989, 0.0833]
    """
    from scipy.special import ndtr

    deviation = np.maximum(deviation, 1e-12)
    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
    return np.asarray(deviation * (z * ndtr(z) + density))
