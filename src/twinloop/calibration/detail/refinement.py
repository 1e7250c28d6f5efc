"""Refinement of a search by least squares of the residuals, within a budget of evaluations."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.identifiability.constrained_fits import LeastSquaresFit
from twinloop.calibration.search.minimisation import History
from twinloop.calibration.search.objective import SearchObjective
from twinloop.calibration.uncertainty.evaluation_count import BudgetSpentError, Evaluations
from twinloop.description.errors import TwinloopError

_Floats = NDArray[np.float64]

#: Steps of the finite differences, one after the other: large ones average over the roughness of a
#: simulation.
_STEPS: Final = (1e-2, 1e-3, 1e-4)
#: The scale of the residuals.
_SCALE: Final = 1e-4
#: The share of the budget for the refinement, and its limit per parameter and in addition.
_SHARE: Final = 1 / 3
_LIMIT_EACH: Final = 16
_LIMIT_MORE: Final = 64
#: The least budget with a refinement, per parameter plus 4: the evaluations of an iteration.
_LEAST_BUDGET: Final = 20


def reserve_evaluations(objective: SearchObjective, budget: int) -> int:
    """Return the part of a budget that is for the refinement.

    It is 0 if the loss has no residuals, and for a small budget, which the optimiser needs.
    """
    dimensions = len(objective.space)
    if budget < _LEAST_BUDGET * (dimensions + 4):
        return 0
    with suppress(TwinloopError):
        if _compute_outputs(objective, np.full((1, dimensions), 0.5)) is None:
            return 0
    return min(int(_SHARE * budget), _LIMIT_EACH * dimensions + _LIMIT_MORE)


def refine_search(objective: SearchObjective, history: History, budget: int) -> History:
    """Refine the best point of a search, and append the result if its loss is smaller.

    A loss is one number; residuals of single runs or tasks give the direction in a narrow valley.
    The best point on the way is kept when the budget is spent.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Valley:
    ...     space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])
    ...     def outputs(self, points):
    ...         return (points - [0.2, 0.7]) @ np.array([[1.0, 0.9], [1.0, 1.1]])
    ...     def __call__(self, points):
    ...         return abs(self.outputs(points)).mean(axis=1)
    >>> start = History(Valley.space, np.array([[0.5, 0.5]]), np.array([0.1]), "random", 0.0)
    >>> refine_search(Valley(), start, 40).best_loss < 1e-4
    True
    """
    if budget < 2:
        return history
    tracked = _TrackedObjective(objective)
    evaluations = Evaluations(tracked, budget - 1)
    best = history.best_point
    with suppress(BudgetSpentError, TwinloopError):
        first = evaluations.outputs(best[np.newaxis])
        if first is None or not np.isfinite(first).all():
            return history
        for step in _STEPS:
            fit = LeastSquaresFit(evaluations, _SCALE, np.full(len(best), step))
            fit.fit(best if tracked.best is None else tracked.best, None, 0.0)
    if tracked.best is None:
        return history
    loss = objective(tracked.best[np.newaxis])
    if not loss[0] < history.best_loss:
        return history
    return replace(
        history,
        points=np.concatenate([history.points, tracked.best[np.newaxis]]),
        losses=np.concatenate([history.losses, loss]),
    )


class _TrackedObjective:
    """An objective that remembers the point with the smallest mean of absolute residuals."""

    def __init__(self, objective: SearchObjective) -> None:
        self._objective = objective
        self.space = objective.space
        self.best: _Floats | None = None
        self._smallest = np.inf

    def __call__(self, points: _Floats) -> _Floats:
        return self._objective(points)

    def outputs(self, points: _Floats) -> _Floats | None:
        found = _compute_outputs(self._objective, points)
        if found is None:
            return None
        sizes = np.nan_to_num(abs(found).mean(axis=1), nan=np.inf)
        place = int(np.argmin(sizes))
        if sizes[place] < self._smallest:
            self._smallest, self.best = float(sizes[place]), points[place].copy()
        return found


def _compute_outputs(objective: SearchObjective, points: _Floats) -> _Floats | None:
    compute = getattr(objective, "outputs", None)
    found: _Floats | None = None if compute is None else compute(points)
    return found
