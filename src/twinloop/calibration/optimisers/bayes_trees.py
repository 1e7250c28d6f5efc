"""Bayesian optimisation with ensembles of decision trees from scikit-learn as surrogates."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twinloop.calibration.optimisers.bayes import BayesianOptimiser, Surrogate
from twinloop.calibration.optimisers.interface import Floats

_TREE_COUNT: Final = 30


class _ForestModel:
    """A forest of trees; the standard deviation is that of the trees."""

    def __init__(self, seed: int, *, extra: bool) -> None:
        self._seed, self._extra = seed, extra
        self._model: Any = None

    def fit(self, features: Floats, losses: Floats) -> None:
        from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

        regressor = ExtraTreesRegressor if self._extra else RandomForestRegressor
        self._model = regressor(
            _TREE_COUNT, min_samples_leaf=2, max_features=0.8, random_state=self._seed
        )
        self._model.fit(features, losses)

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        predictions = np.array([tree.predict(features) for tree in self._model.estimators_])
        return predictions.mean(axis=0), np.maximum(predictions.std(axis=0), 1e-3)


class _QuantileModel:
    """Gradient-boosted trees for the median and the quantiles at one standard deviation."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._models: list[Any] = []

    def fit(self, features: Floats, losses: Floats) -> None:
        from sklearn.ensemble import GradientBoostingRegressor

        self._models = [
            GradientBoostingRegressor(
                loss="quantile", alpha=share, n_estimators=_TREE_COUNT, random_state=self._seed
            ).fit(features, losses)
            for share in (0.16, 0.5, 0.84)
        ]

    def predict(self, features: Floats) -> tuple[Floats, Floats]:
        low, middle, high = (model.predict(features) for model in self._models)
        return middle, np.maximum((high - low) / 2, 1e-3)


class BoostedTrees(BayesianOptimiser):
    """Bayesian optimisation with gradient-boosted trees for three quantiles.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> BoostedTrees(Space([LinearParameter("a", 0, 1)]), seed=1).ask(2).shape
    (2, 1)
    """

    def surrogate(self, seed: int) -> Surrogate:
        """Boosted trees."""
        return _QuantileModel(seed)


class RandomForest(BayesianOptimiser):
    """Bayesian optimisation with a random forest.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> RandomForest(Space([LinearParameter("a", 0, 1)]), seed=1).ask(2).shape
    (2, 1)
    """

    def surrogate(self, seed: int) -> Surrogate:
        """Create a random forest."""
        return _ForestModel(seed, extra=False)


class ExtraTrees(BayesianOptimiser):
    """Bayesian optimisation with extremely randomised trees.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> ExtraTrees(Space([LinearParameter("a", 0, 1)]), seed=1).ask(2).shape
    (2, 1)
    """

    def surrogate(self, seed: int) -> Surrogate:
        """Extremely randomised trees."""
        return _ForestModel(seed, extra=True)
