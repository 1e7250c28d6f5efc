"""Any simulator as a black box: a command or a Python function, held against measured figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from twinloop.calibration.fit import JOURNAL, Fit, refuse_existing
from twinloop.calibration.losses import aggregate
from twinloop.calibration.parameters.defaults import make_space
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.minimisation import SearchBudget
from twinloop.calibration.search.objective import FailureCounts
from twinloop.calibration.search.stage import (
    ProgressCallback,
    SearchSettings,
    identify_code,
    run_stage,
)
from twinloop.campaign import BlackBox, Command, Coordinator, Outcome, black_box, coordinator
from twinloop.description import Description
from twinloop.description.errors import InputError
from twinloop.description.quantities import Name

_Floats = NDArray[np.float64]
_Figures = Mapping[str, Any]

#: Of a loss of one's own: what was measured, what the simulator says.
ExperimentLoss = Callable[[_Figures, _Figures], float]


class Experiment(Description):
    """What a simulator is given, and what was measured for real.

    >>> Experiment(case={"cargo": 10}, truth={"time": 42.0}).truth
    {'time': 42.0}
    """

    case: dict[Name, Any] = Field({}, description="what it was made with, as {case.name} takes it")
    truth: dict[Name, float | tuple[float, ...]] = Field(
        min_length=1, description="figures that were measured, as the simulator calls them"
    )


class BlackBoxCalibration(Description):
    """A foreign simulator, and the experiments that it is held against.

    >>> BlackBoxCalibration(
    ...     black_box={"command": ["sim", "{speed}"]}, experiments=[{"truth": {"time": 2.0}}],
    ...     parameters={"speed": {"linear": [1, 5]}}).space.names
    ('speed',)
    """

    black_box: Command = Field(description="the program")
    experiments: tuple[Experiment, ...] = Field(min_length=1, description="what was measured")
    parameters: dict[Name, Any] | None = Field(
        None, description="values to move with their ranges, unless they are in a file of their own"
    )

    @property
    def space(self) -> Space | None:
        """The values to move; None: the description does not say them."""
        return None if self.parameters is None else make_space(self.parameters)


class BlackBoxObjective:
    """The mean relative error of a foreign simulator over all experiments.

    The loss of an experiment is the mean of |figure - truth| / |truth| over the figures that were
    measured (a truth of 0 is divided by 1), or what a loss of one's own says.

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
            raise InputError("there is nothing to hold it against", field="experiments")
        self.space = space
        self.experiments = tuple(experiments)
        self.aggregation = aggregate
        #: What failed, and how often.
        self.failures = FailureCounts()
        self._box = black_box(simulator)
        self._loss = loss
        self._on, self._workers = on, workers
        self._at_work: Coordinator | None = None

    def __call__(self, points: _Floats) -> _Floats:
        """The loss at each point; NaN where the simulator failed in any experiment."""
        return self._losses([self.space.decode_one(point) for point in points])

    def at(self, values: Mapping[str, Any]) -> float:
        """The loss with these values."""
        return float(self._losses([values])[0])

    def outputs(self, points: _Floats) -> _Floats | None:
        """The relative errors of all figures at each point; None with a loss of one's own."""
        if self._loss is not None:
            return None
        width = sum(np.size(value) for each in self.experiments for value in each.truth.values())
        rows = np.full((len(points), width), np.nan)
        for row, said in zip(
            rows, self._said([self.space.decode_one(point) for point in points]), strict=True
        ):
            errors = [self._errors(e, one) for e, one in enumerate(said)]
            known = [each for each in errors if each is not None]
            if len(known) == len(errors):
                row[:] = np.concatenate(known)
        return rows

    def describe(self) -> str:
        """What it runs, in words."""
        return self._box.describe()

    def close(self) -> None:
        """Send the workers home."""
        if self._at_work is not None:
            self._at_work.close()
            self._at_work = None

    def _said(self, candidates: Sequence[Mapping[str, Any]]) -> list[list[_Figures | None]]:
        """What the simulator says of each candidate in each experiment; None: it failed."""
        if self._at_work is None:
            self._at_work = coordinator(self._on, workers=self._workers)
        given = [self.space.format_value(values) for values in candidates]
        calls = [(values, each.case or None) for values in given for each in self.experiments]
        found = [
            self._taken(call, outcome)
            for call, outcome in zip(
                calls, self._at_work.map(partial(_called, self._box), calls), strict=True
            )
        ]
        each = len(self.experiments)
        return [found[i : i + each] for i in range(0, len(found), each)]

    def _taken(self, call: tuple[Any, Any], outcome: Outcome) -> _Figures | None:
        if outcome.error is not None:
            self.failures.add([outcome.error.split(", for ")[0]])
            return None
        value = outcome.value
        return value if isinstance(value, Mapping) else {"": value}

    def _errors(self, experiment: int, said: _Figures | None) -> _Floats | None:
        """The relative errors in one experiment; None: there are none, and why is counted."""
        if said is None:
            return None
        parts = []
        for name, value in self.experiments[experiment].truth.items():
            # A simulator that says one number says the one figure that was measured.
            if name not in said and "" not in said:
                self.failures.add([f"it does not say '{name}'"])
                return None
            real = np.atleast_1d(np.asarray(value, dtype=np.float64))
            try:
                found = np.atleast_1d(np.asarray(said.get(name, said.get("")), dtype=np.float64))
            except (TypeError, ValueError):
                self.failures.add([f"'{name}' is no number"])
                return None
            if real.shape != found.shape:
                self.failures.add([f"'{name}' has {found.size} figures, {real.size} were measured"])
                return None
            scale = np.abs(real)
            parts.append((found - real) / np.where(scale > 0, scale, 1.0))
        return np.concatenate(parts)

    def _own(self, loss: ExperimentLoss, experiment: int, said: _Figures) -> float:
        try:
            return float(loss(self.experiments[experiment].truth, said))
        except Exception as error:  # of a function that the user wrote
            self.failures.add([f"the loss: {type(error).__name__}: {error}"])
            return np.nan

    def _losses(self, candidates: Sequence[Mapping[str, Any]]) -> _Floats:
        losses = np.full((len(self.experiments), len(candidates)), np.nan)
        for i, row in enumerate(self._said(candidates)):
            for e, said in enumerate(row):
                if self._loss is not None and said is not None:
                    losses[e, i] = self._own(self._loss, e, said)
                elif (errors := self._errors(e, said)) is not None and self._loss is None:
                    losses[e, i] = np.abs(errors).mean()
        return aggregate(losses, self.aggregation)


def _name(loss: ExperimentLoss | None) -> str:
    return "relative error" if loss is None else getattr(loss, "__qualname__", "own")


def calibrate_black_box(
    simulator: BlackBox | Callable[..., Any],
    experiments: Sequence[Experiment],
    parameters: Any,
    *,
    loss: ExperimentLoss | None = None,
    aggregate: str = "avg",
    optimiser: str = "auto",
    budget: str | float | SearchBudget = 500,
    seed: int = 0,
    on: str | None = None,
    workers: int | None = None,
    analysis: int = 0,
    folder: str | Path | None = None,
    progress: ProgressCallback | None = None,
    report: Callable[[Fit], None] | None = None,
) -> Fit:
    """Calibrate a simulator that is none of ours.

    Args:
        simulator: A command, or a function of the values and of the case of an experiment.
        experiments: What was measured.
        parameters: The values to move and their ranges, or a file that says them.
        loss: What is made small in each experiment; by default the mean relative error.
        aggregate: How the losses of several experiments become one: `avg` or `max`.
        optimiser: The name of an optimiser.
        budget: A number of evaluations, or a time such as `60s`.
        seed: Where the randomness of the search starts.
        on: Where it runs: `processes`, `threads`, `serial`, `dask`, or `tls://host:port`.
        workers: How many at the same time.
        analysis: Evaluations that may be spent on what the data can tell; 0: leave it out.
        folder: Where to keep it; an interrupted calibration goes on from there.
        progress: Told what is being done and how far it is.
        report: Given the fit before it counts as kept, to write what is to lie beside it.

    >>> def truck(values, case):
    ...     return {"time": case["distance"] / values["speed"]}
    >>> fit = calibrate_black_box(truck, [Experiment(case={"distance": 60.0}, truth={"time": 2.0})],
    ...     {"speed": {"linear": [10, 100]}}, on="serial", budget=200)
    >>> round(fit.values["speed"], 2)
    30.0
    """
    space = make_space(parameters)
    kept = None if folder is None else Path(folder)
    refuse_existing(kept)
    objective = BlackBoxObjective(
        space, simulator, experiments, loss=loss, aggregate=aggregate, on=on, workers=workers
    )
    effort = SearchSettings(optimiser, SearchBudget.of(budget), seed, analysis, progress)
    journal = None if kept is None else kept / JOURNAL
    box = black_box(simulator)
    code = [each for each in (box, loss) if callable(each)]
    header: dict[str, Any] = {
        "parameters": [journal_text(parameter) for parameter in space],
        "aggregation": aggregate,
        "loss": _name(loss),
        "simulator": box.describe(),
        "evaluations": effort.budget.evaluations,
        "experiments": [each.to_dict() for each in experiments],
        "code": identify_code(code, journal, "simulator"),
    }
    if isinstance(box, Command):
        header["programs"] = box.programs([each.case for each in experiments])
    try:
        found = run_stage(
            objective,
            effort,
            journal=journal,
            header=header,
        )
        middle = objective(np.full((1, len(space)), 0.5))
    finally:
        objective.close()
    fit = Fit(
        values=found.history.best_values,
        defaults=space.decode_one(np.full(len(space), 0.5)),
        loss=found.history.best_loss,
        loss_before=float(middle[0]),
        loss_name=_name(loss),
        aggregation=aggregate,
        optimiser=found.history.optimiser,
        seed=seed,
        evaluations=len(found.history.losses),
        failed=found.history.failed,
        seconds=found.history.seconds,
        history=found.history.table(),
        confidence_region=found.frame,
        identifiability=found.identifiability,
        runs=tuple(
            {"name": f"experiment {i + 1}", "used": "training", **each.to_dict()}
            for i, each in enumerate(experiments)
        ),
        warnings=tuple(found.warnings()),
        asked=effort.asked([space]) | {"simulator": objective.describe()},
    )
    if report is not None:
        report(fit)
    if kept is not None:
        fit.save(kept)
    return fit


def _called(box: BlackBox, call: tuple[Mapping[str, Any], Mapping[str, Any] | None]) -> Any:
    values, case = call
    return box(values, case)
