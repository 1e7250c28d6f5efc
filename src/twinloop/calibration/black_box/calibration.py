"""The calibration of an external simulator: a command or a Python function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from twinloop.calibration.black_box.experiment import Experiment
from twinloop.calibration.black_box.objective import BlackBoxObjective, ExperimentLoss
from twinloop.calibration.fit import JOURNAL, Fit, refuse_existing
from twinloop.calibration.parameters.defaults import make_space
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.search.minimisation import SearchBudget
from twinloop.calibration.search.stage import (
    ProgressCallback,
    SearchSettings,
    identify_code,
    run_stage,
)
from twinloop.campaign import BlackBox, Command, black_box


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
    """Calibrate an external simulator: fit its parameters to measured figures.

    Args:
        simulator: A command, or a function of the values and of the case of an experiment.
        experiments: Inputs and measured figures.
        parameters: The parameters to fit and their ranges, or a file with them.
        loss: The loss of an experiment; by default the mean relative error.
        aggregate: How the losses of several experiments are combined: `avg` or `max`.
        optimiser: The name of an optimiser.
        budget: A number of evaluations, or a time such as `60s`.
        seed: The random seed of the search.
        on: Where to run: `processes`, `threads`, `serial`, `dask`, or `tls://host:port`.
        workers: The number of workers there.
        analysis: The number of evaluations for the analysis of identifiability and uncertainty;
            0: no analysis.
        folder: The folder to store the fit in; an interrupted calibration resumes from it.
        progress: Called with the current activity and its progress.
        report: Called with the fit before it is stored, to write further files beside it.

    >>> def truck(values, case):
    ...     return {"time": case["distance"] / values["speed"]}
    >>> fit = calibrate_black_box(truck, [Experiment(case={"distance": 60.0}, truth={"time": 2.0})],
    ...     {"speed": {"linear": [10, 100]}}, on="serial", budget=200)
    >>> round(fit.values["speed"], 2)
    30.0
    """
    space = make_space(parameters)
    store = None if folder is None else Path(folder)
    refuse_existing(store)
    objective = BlackBoxObjective(
        space, simulator, experiments, loss=loss, aggregate=aggregate, on=on, workers=workers
    )
    settings = SearchSettings(optimiser, SearchBudget.of(budget), seed, analysis, progress)
    journal = None if store is None else store / JOURNAL
    box = black_box(simulator)
    code = [each for each in (box, loss) if callable(each)]
    header: dict[str, Any] = {
        "parameters": [journal_text(parameter) for parameter in space],
        "aggregation": aggregate,
        "loss": _name_loss(loss),
        "simulator": box.describe(),
        "evaluations": settings.budget.evaluations,
        "experiments": [each.to_dict() for each in experiments],
        "code": identify_code(code, journal, "simulator"),
    }
    if isinstance(box, Command):
        header["programs"] = box.programs([each.case for each in experiments])
    try:
        stage = run_stage(
            objective,
            settings,
            journal=journal,
            header=header,
        )
        middle_losses = objective(np.full((1, len(space)), 0.5))
    finally:
        objective.close()
    fit = Fit(
        values=stage.history.best_values,
        defaults=space.decode_one(np.full(len(space), 0.5)),
        loss=stage.history.best_loss,
        loss_before=float(middle_losses[0]),
        loss_name=_name_loss(loss),
        aggregation=aggregate,
        optimiser=stage.history.optimiser,
        seed=seed,
        evaluations=len(stage.history.losses),
        failed=stage.history.failed,
        seconds=stage.history.seconds,
        history=stage.history.table(),
        confidence_region=stage.frame,
        identifiability=stage.identifiability,
        runs=tuple(
            {"name": f"experiment {i + 1}", "used": "training", **each.to_dict()}
            for i, each in enumerate(experiments)
        ),
        warnings=tuple(stage.warnings()),
        settings=settings.to_dict([space]) | {"simulator": objective.describe()},
    )
    if report is not None:
        report(fit)
    if store is not None:
        fit.save(store)
    return fit


def _name_loss(loss: ExperimentLoss | None) -> str:
    return "relative error" if loss is None else getattr(loss, "__qualname__", "own")
