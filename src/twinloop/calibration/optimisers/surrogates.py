"""Models of the loss with their own uncertainty, from scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np

from twinloop.calibration.optimisers.interface import Floats

_TREES: Final = 30
_REFIT: Final = 1.15  # growth of the data after which the kernel of a process is fitted anew


class Surrogate(Protocol):
    """A model that is fitted and predicts, with a standard deviation."""

    def fit(self, features: Floats, losses: Floats) -> None:
        """Learn from these."""

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        """Means and standard deviations."""


class _Process:
    """A Gaussian process; its kernel is fitted anew only when the data have grown."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._fitted_at = 0
        self._kernel: Any = None
        self._model: Any = None

    def fit(self, features: Floats, losses: Floats) -> None:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        anew = self._kernel is None or len(losses) >= _REFIT * self._fitted_at
        if self._kernel is None:
            scales = np.full(features.shape[1], 0.5)
            self._kernel = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(
                scales, (0.05, 20.0), nu=2.5
            ) + WhiteKernel(1e-4, (1e-8, 1.0))
        self._model = GaussianProcessRegressor(
            self._kernel,
            optimizer="fmin_l_bfgs_b" if anew else None,
            random_state=self._seed,
        )
        self._model.fit(features, losses)
        if anew:
            self._kernel, self._fitted_at = self._model.kernel_, len(losses)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        mean, deviation = self._model.predict(features, return_std=True)
        return mean, deviation


class _Forest:
    """Trees side by side; what they disagree about is uncertain."""

    def __init__(self, seed: int, *, extra: bool) -> None:
        self._seed, self._extra = seed, extra
        self._model: Any = None

    def fit(self, features: Floats, losses: Floats) -> None:
        from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

        kind = ExtraTreesRegressor if self._extra else RandomForestRegressor
        self._model = kind(_TREES, min_samples_leaf=2, max_features=0.8, random_state=self._seed)
        self._model.fit(features, losses)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        each = np.array([tree.predict(features) for tree in self._model.estimators_])
        return each.mean(axis=0), np.maximum(each.std(axis=0), 1e-3)


class _Quantiles:
    """Gradient-boosted trees for the median and for the two quantiles one deviation away."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._models: list[Any] = []

    def fit(self, features: Floats, losses: Floats) -> None:
        from sklearn.ensemble import GradientBoostingRegressor

        self._models = [
            GradientBoostingRegressor(
                loss="quantile", alpha=share, n_estimators=_TREES, random_state=self._seed
            ).fit(features, losses)
            for share in (0.16, 0.5, 0.84)
        ]

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        low, middle, high = (model.predict(features) for model in self._models)
        return middle, np.maximum((high - low) / 2, 1e-3)


SURROGATES: Final[Mapping[str, Callable[[int], Surrogate]]] = {
    "gp": _Process,
    "gbrt": _Quantiles,
    "rf": lambda seed: _Forest(seed, extra=False),
    "et": lambda seed: _Forest(seed, extra=True),
}
