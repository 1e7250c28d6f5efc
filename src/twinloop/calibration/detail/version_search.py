"""The work of a study, as workers do it: one search, or one analysis, of a version."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.detail.refinement import refine_search, reserve_evaluations
from twinloop.calibration.detail.version_runs import VersionRuns
from twinloop.calibration.identifiability import analyse_identifiability
from twinloop.calibration.search.minimisation import History, SearchBudget, minimise
from twinloop.calibration.search.objective import FailureCounts, TwinObjective
from twinloop.description.errors import TwinloopError

_Floats = NDArray[np.float64]
#: The positions of the range at which the effect of a parameter is tested.
_POSITIONS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
#: The largest number of reasons of failures in a message.
_MAX_REASONS: Final = 3


@dataclass(frozen=True)
class SearchTask:
    """One search: a version, the seed of the study, its own seed, and the values to start from."""

    key: str
    version: int
    seed: int
    search_seed: int
    #: Values of another version; None: the search starts without them.
    start: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class AnalysisTask:
    """The analysis of the best fit of a version."""

    key: str
    version: int
    point: Sequence[float]
    evaluations: int
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class EvaluationTask:
    """The losses of a version, run by run, with these values."""

    key: str
    version: int
    values: Mapping[str, Any]


Task = SearchTask | EvaluationTask | AnalysisTask


class _StoppedError(Exception):
    """The study was interrupted."""


@dataclass(frozen=True)
class VersionWorker:
    """Does the tasks of a study, one at a time, on one thread.

    `journals` is the folder for the journals of searches, from which an interrupted search resumes;
    None if the workers may be on machines without it.
    """

    versions: Mapping[int, VersionRuns]
    optimiser: str
    budget: SearchBudget
    journals: Path | None = None
    _stop: threading.Event = field(default_factory=threading.Event, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.versions, self.optimiser, self.budget, self.journals)

    def stop(self) -> None:
        """Let running tasks on threads of this process end at their next evaluation."""
        self._stop.set()

    def __call__(self, task: Task) -> dict[str, Any]:
        """Do a task; an input error is part of its result."""
        try:
            if isinstance(task, SearchTask):
                return {"key": task.key, **self._search(task)}
            if isinstance(task, EvaluationTask):
                losses = self.versions[task.version].compute_losses(task.values)
                return {"key": task.key, **losses}
            return {"key": task.key, **self._analyse(task)}
        except TwinloopError as error:
            return {"key": task.key, "error": str(error)}

    def get_journal(self, key: str) -> Path | None:
        """Return the journal of a search."""
        return None if self.journals is None else self.journals / f"{key}.jsonl"

    def _search(self, task: SearchTask) -> dict[str, Any]:
        objective = _StoppableObjective(self.versions[task.version].training, self._stop)
        start = None
        if task.start:
            space = objective.space
            middle = space.decode_one(np.full(len(space), 0.5))
            start = np.clip(space.encode({**middle, **task.start}), 0.0, 1.0)
        total = self.budget.evaluations or 0
        reserve = reserve_evaluations(objective, total)
        history = minimise(
            objective,
            optimiser=self.optimiser,
            budget=total - reserve,
            seed=task.search_seed,
            journal=self.get_journal(task.key),
            header={"key": task.key},
            start=start,
        )
        row: dict[str, Any] = {
            "optimiser": history.optimiser,
            "losses": history.losses.tolist(),
            "evaluations": len(history.losses),
            "failed": history.failed,
            "seconds": history.seconds,
        }
        if history.failed == len(history.losses):
            return row | {"error": _describe_failures(objective, history)}
        began, before = perf_counter(), objective.evaluations
        # One of the reserved evaluations was the test for residuals.
        history = refine_search(objective, history, reserve - 1)
        row |= {
            "losses": history.losses.tolist(),
            "evaluations": row["evaluations"] + objective.evaluations - before,
            "seconds": row["seconds"] + perf_counter() - began,
        }
        return row | {
            "values": history.best_values,
            "point": history.best_point.tolist(),
            "loss": history.best_loss,
        }

    def _analyse(self, task: AnalysisTask) -> dict[str, Any]:
        objective = _StoppableObjective(self.versions[task.version].training, self._stop)
        best = np.array(task.point)
        row: dict[str, Any] = {"no_effect": find_parameters_without_effect(objective, best)}
        if task.evaluations:
            found = analyse_identifiability(
                objective, best, budget=task.evaluations, facts=task.facts
            ).to_dict()
            found.pop("profiles")
            row["identifiability"] = found
        return row


def find_parameters_without_effect(objective: TwinObjective, best: _Floats) -> list[str]:
    """Find the parameters that change nothing: no residual differs anywhere in their range.

    The other parameters keep their fitted values.
    """
    dimensions = len(best)
    points = np.repeat(best[np.newaxis], 1 + dimensions * len(_POSITIONS), axis=0)
    for axis in range(dimensions):
        first = 1 + axis * len(_POSITIONS)
        points[first : first + len(_POSITIONS), axis] = _POSITIONS
    found = None
    with suppress(TwinloopError):
        found = objective.outputs(points)
    if found is None:
        found = objective(points)[:, np.newaxis]
    # A simulation that fails differs from one that does not.
    outputs = np.nan_to_num(found, nan=1e300, posinf=1e300)
    changed = (abs(outputs - outputs[0]) > 1e-10 * (1.0 + abs(outputs[0]))).any(axis=1)[1:]
    effects = changed.reshape(dimensions, len(_POSITIONS)).any(axis=1)
    return [name for name, effect in zip(objective.space.names, effects, strict=True) if not effect]


def _describe_failures(objective: TwinObjective, history: History) -> str:
    reasons = objective.failures.most_common(_MAX_REASONS)
    causes = "; ".join(f"{reason} ({count:,})" for reason, count in reasons)
    return f"all {len(history.losses):,} evaluations failed: {causes or 'infinite losses'}"


class _StoppableObjective(TwinObjective):
    """A copy of an objective, with its own counts, that a flag can stop."""

    def __init__(self, objective: TwinObjective, stop: threading.Event) -> None:
        self.__dict__.update(copy(objective).__dict__)
        self.failures = FailureCounts()
        self.evaluations = 0
        self._stop = stop

    def __call__(self, points: _Floats) -> _Floats:
        self._count(points)
        return super().__call__(points)

    def outputs(self, points: _Floats) -> _Floats | None:
        self._count(points)
        return super().outputs(points)

    def _count(self, points: _Floats) -> None:
        self.evaluations += len(points)
        if self._stop.is_set():
            raise _StoppedError
