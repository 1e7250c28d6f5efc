"""A described Workload as a Trace, to be kept, edited and exported like one."""

from __future__ import annotations

import numpy as np
import polars as pl

from twinloop.trace.manifest import Manifest
from twinloop.trace.trace import Trace
from twinloop.workload.workload import Workload

_SAME_NAME = (
    *("id", "name", "user", "group", "queue", "partition", "array", "submit", "requested_time"),
    *("requested_mhz", "resources", "kind", "deadline", "parents", "think_time"),
)


def as_trace(workload: Workload) -> Trace:
    """See `Workload.to_trace`."""
    tasks = workload.tasks
    durations = workload.durations()
    known = pl.Series(durations).fill_nan(None)
    # With usage in the trace, a task without any would be taken for one that nobody sampled.
    limits = tasks["limit"].ne_missing(tasks["cores"] * tasks["speed"].fill_null(1.0))
    sampled = len(workload.varying.tasks) > 0 or bool(limits.any())
    return Trace(
        manifest=Manifest(
            kind="generated",
            epoch_ms=workload.epoch_ms,
            reference_mhz=workload.reference_mhz,
            cleaned=workload.cleaned,
        ),
        tasks=tasks.select(
            *_SAME_NAME,
            pl.col("cores").alias("requested_cores"),
            pl.col("nodes").alias("requested_nodes"),
            pl.col("memory").alias("requested_memory"),
            pl.coalesce("run_time", known).alias("run_time"),
        ),
        files=workload.files,
        task_files=workload.task_files,
        **({"usage": _usage(workload, durations)} if sampled else {}),
    )


def _usage(workload: Workload, durations: np.ndarray) -> pl.DataFrame:
    """All demand as samples, laid end to end from the submission."""
    tasks = workload.tasks
    constant = np.ones(tasks.height, dtype=bool)
    constant[workload.varying.tasks] = False
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
