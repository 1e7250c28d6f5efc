"""A version of a scenario beside the real runs: its objectives, and its losses run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np

from twinloop.calibration.cases import Case
from twinloop.calibration.losses import Loss, evaluate
from twinloop.calibration.run_columns import RunBatch, RunColumns
from twinloop.calibration.search.objective import TwinObjective
from twinloop.description.errors import InputError, TwinloopError

TRAINING: Final = "training"
VALIDATION: Final = "validation"
#: A simulation is timed this often, until this time (s) has passed.
_TIMINGS, _TIMING_SECONDS = 3, 0.2


@dataclass(frozen=True)
class VersionRuns:
    """The objectives of a version on the training and on the validation runs.

    `names` are the names of the runs of each case of an objective.
    """

    number: int
    training: TwinObjective
    validation: TwinObjective | None
    names: Mapping[str, tuple[tuple[str, ...], ...]]

    def compute_losses(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Compute the losses with these values: of all runs together, and of each run."""
        losses: dict[str, Any] = {"runs": []}
        for used, objective in ((TRAINING, self.training), (VALIDATION, self.validation)):
            if objective is None:
                losses[used] = None
                continue
            losses[used] = objective.at(values)
            losses["runs"] += [
                {"run": run, "workload": workload, "used": used, "loss": loss}
                for run, workload, loss in list_run_losses(objective, self.names[used], values)
            ]
        return losses

    def measure_seconds(self, values: Mapping[str, Any]) -> float:
        """Measure the time of a simulation of one run on one thread (s): the shortest of a few."""
        began, times = perf_counter(), []
        for _ in range(_TIMINGS):
            start = perf_counter()
            self.training.at(values)
            times.append(perf_counter() - start)
            if perf_counter() - began > _TIMING_SECONDS:
                break
        return min(times) / len(self.training.cases)


def list_run_losses(
    objective: TwinObjective, names: Sequence[Sequence[str]], values: Mapping[str, Any]
) -> list[tuple[str, str, float]]:
    """List name, workload and loss of each real run; the loss is NaN if the simulation failed.

    A loss that compares the spread of repetitions has one entry for all runs of a workload.
    """
    columns = {name: np.array([value]) for name, value in values.items()}
    found = []
    for case, runs in zip(objective.cases, names, strict=True):
        try:
            twin = case.runs(1, columns, objective.loss.needs, objective.threads)
        except TwinloopError:
            found += [(run, case.name, np.nan) for run in runs]
            continue
        found += compare_runs(objective.loss, case, runs, twin)
    return found


def compare_runs(
    loss: Loss, case: Case, names: Sequence[str], twin: RunBatch
) -> list[tuple[str, str, float]]:
    """Compare each real run of a case with one run of the twin: name, workload and loss."""
    try:
        losses = [_evaluate_one(loss, [real], twin) for real in case.reals]
    except InputError:
        return [(", ".join(names), case.name, _evaluate_one(loss, case.reals, twin))]
    return [(name, case.name, each) for name, each in zip(names, losses, strict=True)]


def _evaluate_one(loss: Loss, reals: Sequence[RunColumns], twin: RunBatch) -> float:
    return float(evaluate(loss, reals, twin).losses[0])
