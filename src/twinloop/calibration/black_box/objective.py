"""The loss of an external simulator over experiments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.black_box.experiment import Experiment
from twinloop.calibration.losses import aggregate
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.objective import FailureCounts
from twinloop.campaign import BlackBox, Coordinator, Outcome, black_box, coordinator
from twinloop.description.errors import InputError

_Floats = NDArray[np.float64]
_Figures = Mapping[str, Any]

#: A loss given as a function of the measured figures and the simulated figures.
ExperimentLoss = Callable[[_Figures, _Figures], float]


class BlackBoxObjective:
    """The mean relative error of an external simulator over all experiments.

    The loss of an experiment is the mean of |figure - truth| / |truth| over the measured figures
    (for a truth of 0 the denominator is 1), or the value of a function of the user.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> def truck(values, case):
    ...     return {"time": case["cargo"] / values["speed"]}
    >>> objective = BlackBoxObjective(Space([LinearParameter("speed", 1, 3)]), truck,
    ...     [Experiment(case={"cargo": 10.0}, truth={"time": 5.0})], on="serial")
    >>> objective(np.array([[0.5], [0.0]])).tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        space: Space,
        simulator: BlackBox | Callable[..., Any],
        experiments: Sequence[Experiment],
        *,
        loss: ExperimentLoss | None = None,
        aggregate: str = "avg",
        on: str | None = None,
        workers: int | None = None,
    ) -> None:
        if not experiments:
            raise InputError(
                "must have at least one experiment", kind="no-runs", field="experiments"
            )
        self.space = space
        self.experiments = tuple(experiments)
        self.aggregation = aggregate
        #: The reasons of failed evaluations.
        self.failures = FailureCounts()
        self._box = black_box(simulator)
        self._loss = loss
        self._on, self._workers = on, workers
        self._coordinator: Coordinator | None = None

    def __call__(self, points: _Floats) -> _Floats:
        """The loss at each point; NaN where the simulator failed in any experiment."""
        return self._compute_losses([self.space.decode_one(point) for point in points])

    def at(self, values: Mapping[str, Any]) -> float:
        """Compute the loss with these values."""
        return float(self._compute_losses([values])[0])

    def outputs(self, points: _Floats) -> _Floats | None:
        """Compute the relative errors of all figures at each point; None for a loss function."""
        if self._loss is not None:
            return None
        width = sum(np.size(value) for each in self.experiments for value in each.truth.values())
        rows = np.full((len(points), width), np.nan)
        for row, results in zip(
            rows, self._simulate([self.space.decode_one(point) for point in points]), strict=True
        ):
            errors = [self._compute_errors(e, figures) for e, figures in enumerate(results)]
            known = [each for each in errors if each is not None]
            if len(known) == len(errors):
                row[:] = np.concatenate(known)
        return rows

    def describe(self) -> str:
        """Describe the command or function."""
        return self._box.describe()

    def close(self) -> None:
        """Stop the workers."""
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    def _simulate(self, candidates: Sequence[Mapping[str, Any]]) -> list[list[_Figures | None]]:
        """Return the figures of each candidate in each experiment; None if the simulator failed."""
        if self._coordinator is None:
            self._coordinator = coordinator(self._on, workers=self._workers)
        formatted = [self.space.format_values(values) for values in candidates]
        calls = [(values, each.case or None) for values in formatted for each in self.experiments]
        results = [
            self._read_outcome(call, outcome)
            for call, outcome in zip(
                calls, self._coordinator.map(partial(_call, self._box), calls), strict=True
            )
        ]
        count = len(self.experiments)
        return [results[i : i + count] for i in range(0, len(results), count)]

    def _read_outcome(self, call: tuple[Any, Any], outcome: Outcome) -> _Figures | None:
        if outcome.error is not None:
            self.failures.add([outcome.error.split(", for ")[0]])
            return None
        value = outcome.value
        return value if isinstance(value, Mapping) else {"": value}

    def _compute_errors(self, experiment: int, figures: _Figures | None) -> _Floats | None:
        """Compute the relative errors in one experiment; None if it failed. Count the reason."""
        if figures is None:
            return None
        parts = []
        for name, value in self.experiments[experiment].truth.items():
            # A result that is a single number is compared with every measured figure.
            if name not in figures and "" not in figures:
                self.failures.add([f"the result has no '{name}'"])
                return None
            real = np.atleast_1d(np.asarray(value, dtype=np.float64))
            try:
                simulated = np.atleast_1d(
                    np.asarray(figures.get(name, figures.get("")), dtype=np.float64)
                )
            except (TypeError, ValueError):
                self.failures.add([f"'{name}' is not a number"])
                return None
            if real.shape != simulated.shape:
                self.failures.add(
                    [f"'{name}' has {simulated.size} figures, {real.size} were measured"]
                )
                return None
            scale = np.abs(real)
            parts.append((simulated - real) / np.where(scale > 0, scale, 1.0))
        return np.concatenate(parts)

    def _call_user_loss(self, loss: ExperimentLoss, experiment: int, figures: _Figures) -> float:
        try:
            return float(loss(self.experiments[experiment].truth, figures))
        except Exception as error:  # raised by a function of the user
            self.failures.add([f"the loss: {type(error).__name__}: {error}"])
            return np.nan

    def _compute_losses(self, candidates: Sequence[Mapping[str, Any]]) -> _Floats:
        losses = np.full((len(self.experiments), len(candidates)), np.nan)
        for i, row in enumerate(self._simulate(candidates)):
            for e, figures in enumerate(row):
                if self._loss is not None and figures is not None:
                    losses[e, i] = self._call_user_loss(self._loss, e, figures)
                elif (
                    errors := self._compute_errors(e, figures)
                ) is not None and self._loss is None:
                    losses[e, i] = np.abs(errors).mean()
        return aggregate(losses, self.aggregation)


def _call(box: BlackBox, call: tuple[Mapping[str, Any], Mapping[str, Any] | None]) -> Any:
    values, case = call
    return box(values, case)
