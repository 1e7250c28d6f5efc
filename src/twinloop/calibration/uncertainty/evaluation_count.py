"""Counting of evaluations of an objective against a budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from twinloop.description.errors import InputError, TwinloopError

if TYPE_CHECKING:
    from twinloop.calibration.search.objective import SearchObjective

Floats = NDArray[np.float64]


class BudgetSpentError(Exception):
    """The remaining evaluations are too few."""


class Evaluations:
    """An objective with a budget of evaluations.

    A request for more evaluations than are left raises `BudgetSpentError`, and evaluates nothing. A
    point that fails has an infinite loss and outputs that are NaN.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Square:
    ...     space = Space([LinearParameter("x", 0, 1)])
    ...     def __call__(self, points):
    ...         return points[:, 0] ** 2
    >>> counted = Evaluations(Square(), 10)
    >>> counted.losses(np.array([[0.5], [1.0]])).tolist(), counted.spent, counted.left
    ([0.25, 1.0], 2, 8)
    >>> counted.outputs(np.array([[0.5]])) is None
    True
    """

    def __init__(self, objective: SearchObjective, budget: int) -> None:
        if budget < 1:
            raise InputError(
                f"must be at least 1 evaluation, not {budget}", kind="out-of-range", field="budget"
            )
        self._objective = objective
        self._outputs = getattr(objective, "outputs", None)
        self.space = objective.space
        self.budget = budget
        #: The current limit; an analysis lowers it to divide the budget.
        self.limit = budget
        self.spent = 0
        #: A mask of the outputs that are known at the calibration; the others are ignored.
        self.known_outputs: NDArray[np.bool_] | None = None

    @property
    def left(self) -> int:
        """The number of remaining evaluations."""
        return max(self.limit - self.spent, 0)

    def losses(self, points: Floats) -> Floats:
        """Compute the loss at each point, infinite where it failed."""
        points = self._spend(points)
        losses = np.asarray(self._objective(points), dtype=np.float64)
        return np.where(np.isnan(losses), np.inf, losses)

    def outputs(self, points: Floats) -> Floats | None:
        """Compute the residuals at each point, NaN where it failed; None if there are none."""
        if self._outputs is None:
            return None
        points = self._spend(points)
        try:
            outputs = self._outputs(points)
        except TwinloopError:
            # One point that fails must not make the others fail.
            rows = [self._evaluate_one(point) for point in points]
            width = max((len(row) for row in rows if row is not None), default=0)
            width = width if self.known_outputs is None else len(self.known_outputs)
            outputs = np.array([np.full(width, np.nan) if row is None else row for row in rows])
        if outputs is None:
            self._outputs = None
            self.spent -= len(points)
            return None
        outputs = np.asarray(outputs, dtype=np.float64)
        return outputs if self.known_outputs is None else outputs[:, self.known_outputs]

    def _evaluate_one(self, point: Floats) -> Floats | None:
        assert self._outputs is not None
        try:
            row: Floats = self._outputs(point[np.newaxis])[0]
        except TwinloopError:
            return None
        return row

    def _spend(self, points: Floats) -> Floats:
        points = np.clip(np.atleast_2d(np.asarray(points, dtype=np.float64)), 0.0, 1.0)
        if len(points) > self.left:
            raise BudgetSpentError
        self.spent += len(points)
        return points


def check_point(best: Floats, dimensions: int) -> Floats:
    """Return the point as an array if it is in the unit cube.

    >>> check_point([0.5, 2.0], 2)
    Traceback (most recent call last):
    twinloop.InputError: best: must be 2 numbers between 0 and 1, not [0.5, 2.0] [TL0212]
    """
    point = np.asarray(best, dtype=np.float64)
    if point.shape != (dimensions,) or not ((point >= 0) & (point <= 1)).all():
        raise InputError(
            f"must be {dimensions} numbers between 0 and 1, not {point.tolist()}",
            kind="wrong-count",
            field="best",
        )
    return point
