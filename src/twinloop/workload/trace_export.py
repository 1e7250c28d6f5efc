"""Conversion of a Workload to a Trace."""

from __future__ import annotations

import numpy as np
import polars as pl

from twinloop.trace.manifest import Manifest
from twinloop.trace.tables import COMMAND_COLUMNS
from twinloop.trace.trace import Trace
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import Floats
from twinloop.workload.workload import Workload

_COMMON_COLUMNS = (
    *("id", "name", "user", "group", "queue", "partition", "array", "submit", "requested_time"),
    *("requested_mhz", "resources", "kind", "deadline", "parents", "think_time"),
    *COMMAND_COLUMNS,
)


def workload_to_trace(workload: Workload) -> Trace:
    """Convert a workload to a trace; see `Workload.to_trace`."""
    tasks = workload.tasks
    durations = workload.durations()
    known_durations = pl.Series(durations).fill_nan(None)
    # In a trace with usage, a task without samples would be treated as not sampled.
    sampled = not _has_default_demand(workload, durations)
    speeds = tasks["id"].filter(tasks["speed"].fill_null(1.0) != 1.0)
    laws = pl.any_horizontal(pl.col("parallel_fraction", "speedup_points").is_not_null())
    ends = tasks["id"].filter(tasks["end_recorded"].is_not_null())
    # A run time without samples would be treated as unknown work.
    idle = (known_durations == 0).fill_null(value=False)
    without_work = tasks["id"].filter(idle & (tasks["run_time"] > 0))
    losses = (
        note("ignored", "speeds of the reference cores of tasks", speeds),
        note("ignored", "recorded ends of tasks", ends),
        note("ignored", "speed-up laws of tasks", tasks.filter(laws)["id"]),
        note("ignored", "run times of tasks without work", without_work),
    )
    return Trace(
        manifest=Manifest(
            kind="generated",
            epoch_ms=workload.epoch_ms,
            reference_mhz=workload.reference_mhz,
            cleaned=(*workload.cleaned, *(cleaning for cleaning in losses if cleaning.count)),
        ),
        tasks=tasks.select(
            *_COMMON_COLUMNS,
            pl.col("cores").alias("requested_cores"),
            pl.col("nodes").alias("requested_nodes"),
            pl.col("memory").alias("requested_memory"),
            pl.when(idle)
            .then(0.0)
            .otherwise(pl.coalesce("run_time", known_durations))
            .alias("run_time"),
        ),
        files=workload.files,
        task_files=workload.task_files,
        **({"usage": _make_usage(workload, durations)} if sampled else {}),
    )


def _has_default_demand(workload: Workload, durations: Floats) -> bool:
    """Whether every task uses all its cores for its whole run time, as in a log without usage."""
    tasks = workload.tasks
    cores = tasks["cores"].fill_null(np.nan).to_numpy()
    limit = tasks["limit"].fill_null(np.nan).to_numpy()
    run_time = tasks["run_time"].fill_null(pl.Series(durations)).to_numpy()
    same = (limit == cores) & (cores > 0) & np.isclose(run_time, durations, rtol=1e-9, atol=0.0)
    return not len(workload.fragment_arrays.tasks) and bool(same.all())


def _make_usage(workload: Workload, durations: Floats) -> pl.DataFrame:
    """Convert the demand to consecutive samples from the submission on."""
    tasks = workload.tasks
    constant = np.ones(tasks.height, dtype=bool)
    constant[workload.fragment_arrays.tasks] = False
    constant &= durations > 0
    rate = tasks["limit"].fill_null(0.0).to_numpy()
    single = pl.DataFrame({"task": tasks["id"], "duration": durations, "rate": rate}).filter(
        pl.Series(constant)
    )
    pieces = pl.concat([workload.fragments, single])
    begin = pl.DataFrame({"task": tasks["id"], "submit": tasks["submit"]})
    return pieces.join(begin, on="task", how="left", maintain_order="left").select(
        "task",
        (pl.col("submit") + pl.col("duration").cum_sum().over("task")).alias("t"),
        pl.col("duration").alias("dt"),
        (pl.col("duration") * pl.col("rate")).alias("cpu"),
    )
