"""The objective of a calibration: the loss of a twin as a function of its parameters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.cases import Case
from twinloop.calibration.losses import Loss, aggregate, compute_weight, evaluate
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.run_columns import RunBatch
from twinloop.description.errors import TwinloopError

_Floats = NDArray[np.float64]
#: The approximate time of a simulation per task (s), and its factor if each run is compiled.
_SECONDS_PER_TASK: Final = 1e-6
_COMPILE_FACTOR: Final = 20
_NUMBER = re.compile(r"(?<![\w'])-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?(?![\w'])")


class SearchObjective(Protocol):
    """A function from points of the unit cube to losses; NaN where the evaluation failed."""

    space: Space

    def __call__(self, points: _Floats) -> _Floats:
        """The loss at each point."""
        ...


class FailureCounts(Counter[str]):
    """Counts of the reasons of failed evaluations; reasons that differ only in numbers are equal.

    >>> counted = FailureCounts()
    >>> counted.add(["max must not be below 3.5", "max must not be below 7"])
    >>> dict(counted)
    {'max must not be below ...': 2}
    """

    def add(self, reasons: Iterable[str]) -> None:
        """Count reasons."""
        self.update(_NUMBER.sub("...", reason) for reason in reasons)


class TwinObjective:
    """The loss of a twin over all cases, as a function of points of the unit cube.

    >>> from twinloop.engine import simulate
    >>> from twinloop.calibration.cases import Case
    >>> from twinloop.calibration.losses import get_loss
    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.scenario import Scenario
    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 5}}})
    >>> real = simulate(scenario.replace(**{"model.speed_factor": 1.5}))
    >>> space = Space([LinearParameter("speed_factor", 1.0, 2.0)])
    >>> case = Case.of([real], scenario=scenario, names=space.names)
    >>> objective = TwinObjective(space, [case], get_loss("makespan"))
    >>> objective(np.array([[0.5], [0.0]])).round(2).tolist()[0]
    0.0
    """

    def __init__(
        self,
        space: Space,
        cases: Sequence[Case],
        loss: Loss,
        *,
        aggregate: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.space = space
        self.cases = tuple(cases)
        self.loss = loss
        self.aggregation: str = aggregate or getattr(loss, "aggregation", None) or "avg"
        self.threads = threads
        #: The approximate time of an evaluation (s); by a formula, to be equal on any machine.
        self.cost = _SECONDS_PER_TASK * sum(len(case.compiled.arrays) for case in self.cases)
        if not all(
            case.compiled.acts_natively(name) for case in self.cases for name in space.names
        ):
            self.cost = _COMPILE_FACTOR * (self.cost + 1e-3 * len(self.cases))
        #: The reasons of failed evaluations.
        self.failures = FailureCounts()
        self._weights = [compute_weight(loss, case.reals) for case in self.cases]

    def __call__(self, points: _Floats) -> _Floats:
        """The loss at each point; NaN where the simulation failed."""
        return self._compute_losses(len(points), self.space.decode(points))

    def at(self, values: Mapping[str, Any]) -> float:
        """Compute the loss with these values; the others are those of the scenario."""
        columns = {name: np.array([value]) for name, value in values.items()}
        return float(self._compute_losses(1, columns)[0])

    def outputs(self, points: _Floats) -> _Floats | None:
        """Compute the residuals of the loss at each point; None if the loss has none.

        The mean of their absolute values is about the loss.
        """
        values = self.space.decode(points)
        parts = []
        for case in self.cases:
            twin = case.runs(len(points), values, self.loss.needs, self.threads)
            residuals = self._compute_residuals(case, twin)
            if residuals is None:
                return None
            parts.append(residuals * residuals.shape[1])
        return np.concatenate(parts, axis=1)

    def _compute_residuals(self, case: Case, twin: RunBatch) -> _Floats | None:
        try:
            return self.loss.residuals(case.reals, twin)
        except TwinloopError:
            raise
        except Exception as error:  # raised by a loss of the user
            self.failures.add([f"{self.loss.name}.residuals: {type(error).__name__}: {error}"])
            return None

    def _compute_losses(self, count: int, values: Mapping[str, Any]) -> _Floats:
        try:
            per_case, reasons = self._evaluate_cases(count, values)
        except TwinloopError as error:
            if count == 1:
                self.failures.add([str(error)])
                return np.array([np.nan])
            # One candidate that cannot be simulated must not make the others fail.
            single = [{name: v[i : i + 1] for name, v in values.items()} for i in range(count)]
            return np.array([self._compute_losses(1, point)[0] for point in single])
        self.failures.add(reasons.values())
        return aggregate(per_case, self.aggregation, self._weights)

    def _evaluate_cases(
        self, count: int, values: Mapping[str, Any]
    ) -> tuple[list[_Floats], dict[int, str]]:
        """Compute the losses of all cases, and by candidate the first reason of a missing loss."""
        per_case = []
        reasons: dict[int, str] = {}
        for case in self.cases:
            twin = case.runs(count, values, self.loss.needs, self.threads)
            losses, why = evaluate(self.loss, case.reals, twin)
            per_case.append(losses)
            reasons = {**why, **reasons}
        return per_case, reasons
