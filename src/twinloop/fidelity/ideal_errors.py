"""Errors of an ideal simulator: one that gives the mean of the repetitions of a real run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.noise_floor import check_distinct
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import Trace, format_count

#: The label that differs between repetitions.
REPETITION = "repetition"


@dataclass(frozen=True, slots=True, repr=False)
class IdealErrors:
    """Errors of a deterministic simulator that always gives the mean of the repetitions.

    A simulator that gives the same result for each repetition has errors even if its model is
    right. They are mean |x - mean x| / x over the repetitions x: the limit to which the error of a
    simulation is to be compared.

    - `makespans`: the makespan of each run (s), `makespan`: its ideal error, as a share.
    - `tasks`: a row per task that completed in two runs or more: `id`, `kind`, `runs`, the mean
      run time `mean` (s) and its ideal `error`; null if a run time is zero.

    Source: McDonald (2026), section 5.5, for makespans.
    """

    makespans: tuple[float, ...]
    makespan: float
    tasks: pl.DataFrame

    def average_tasks(self, kind: str | None = None) -> float | None:
        """Return the mean of the errors of all tasks, or of those of a kind; None without one.

        >>> tasks = pl.DataFrame({"kind": ["io", "cpu"], "error": [0.5, 0.1]})
        >>> errors = IdealErrors((1.0, 1.0), 0.0, tasks)
        >>> errors.average_tasks(), errors.average_tasks("cpu"), errors.average_tasks("gpu")
        (0.3, 0.1, None)
        """
        tasks = self.tasks if kind is None else self.tasks.filter(pl.col("kind") == kind)
        known = tasks["error"].drop_nulls()
        return float(np.mean(known.to_numpy())) if known.len() else None

    def __repr__(self) -> str:
        tasks = self.average_tasks()
        text = "" if tasks is None else f", run times {tasks:.3g}"
        runs = format_count(len(self.makespans), "run")
        return f"<errors of an ideal simulator of {runs}: makespan {self.makespan:.3g}{text}>"


def estimate_ideal_errors(runs: Sequence[Trace]) -> IdealErrors:
    """Estimate the errors of an ideal simulator from repetitions of a real run.

    >>> def run(length):
    ...     return Trace(
    ...         tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
    ...         placements=pl.DataFrame({"task": ["a"], "start": [10.0], "end": [10.0 + length]}))
    >>> errors = estimate_ideal_errors([run(30.0), run(90.0)])
    >>> errors.makespan  # (30 / 40 + 30 / 100) / 2
    0.525
    >>> errors.tasks.select("id", "runs", "mean").row(0)
    ('a', 2, 60.0)
    """
    compared = [ComparedRun(trace, f"run {number}") for number, trace in enumerate(runs, start=1)]
    check_distinct(compared)
    if len(compared) < 2:
        raise InputError(
            f"needs two repetitions or more, not {len(compared)}",
            kind="too-few-values",
            field="runs",
            remedy="give all repetitions of one real run",
        )
    makespans = [_measure_makespan(run) for run in compared]
    return IdealErrors(tuple(makespans), _compute_error(np.array(makespans)), _make_tasks(compared))


def group_repetitions(runs: Sequence[Trace]) -> dict[tuple[tuple[str, str], ...], list[Trace]]:
    """Group runs whose labels are equal except for the repetition, in the order of the first.

    >>> from twinloop.trace import Manifest
    >>> def run(anomaly, repetition):
    ...     labels = {"anomaly": anomaly, "repetition": repetition}
    ...     return Trace(manifest=Manifest(facts={"labels": labels}))
    >>> groups = group_repetitions([run("normal", "1"), run("slow", "1"), run("normal", "2")])
    >>> {labels: len(group) for labels, group in groups.items()}
    {(('anomaly', 'normal'),): 2, (('anomaly', 'slow'),): 1}
    """
    groups: dict[tuple[tuple[str, str], ...], list[Trace]] = {}
    for number, run in enumerate(runs, start=1):
        labels = run.manifest.facts.get("labels")
        if not isinstance(labels, dict) or not labels:
            raise InputError(
                f"run {number} has no labels",
                kind="missing-field",
                field="manifest.facts.labels",
                remedy="readers of formats with labels set them from the name of the file",
            )
        key = tuple(sorted((str(k), str(v)) for k, v in labels.items() if k != REPETITION))
        groups.setdefault(key, []).append(run)
    return groups


def _measure_makespan(run: ComparedRun) -> float:
    if run.makespan is None or run.makespan <= 0:
        raise InputError(
            f"{run.label} has no positive makespan",
            kind="missing-data",
            field="runs",
            remedy="leave out runs without a task that ran",
        )
    return run.makespan


def _make_tasks(runs: Sequence[ComparedRun]) -> pl.DataFrame:
    times = pl.concat(run.completed.select("id", "kind", "run_time") for run in runs)
    known = times.drop_nulls(["id", "run_time"])
    mean = pl.col("run_time").mean()
    error = ((pl.col("run_time") - mean).abs() / pl.col("run_time")).mean()
    return (
        known.group_by("id", maintain_order=True)
        .agg(
            kind=pl.col("kind").first(),
            runs=pl.len(),
            mean=mean,
            error=pl.when((pl.col("run_time") > 0).all()).then(error),
        )
        .filter(pl.col("runs") > 1)
    )


def _compute_error(values: Floats) -> float:
    return float(np.mean(np.abs(values - values.mean()) / values))
