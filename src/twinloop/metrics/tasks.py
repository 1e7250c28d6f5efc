"""The figures of each task: how long it waited, how long it took, how late it was submitted."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace, require_trace

#: Run times below this many seconds count as this long in a bounded slowdown.
SLOWDOWN_BOUND = 10.0


def per_task(trace: Trace, *, bound: float = SLOWDOWN_BOUND) -> pl.DataFrame:
    """The figures of each task, in the order of `tasks`; what is not known is null.

    - `id`, `user`, `status`, `submit`, `submit_recorded`, `deadline`: as the trace has them.
    - `ran`: was it started? A rejected task never was.
    - `start`, `end`: its first start; its last end, unless it still runs.
    - `queued`: from when it waited: `ready` for a task with parents, else `submit`.
    - `run_time`: of its last attempt.
    - `wait`: `start` - `queued`; `turnaround`: `end` - `submit`.
    - `slowdown`: turnaround / run time; null where the run time is 0.
    - `bounded_slowdown`: the larger of 1 and turnaround / max(run time, `bound`).
    - `lateness`: `submit` - `submit_recorded`, for a task that ran.

    Args:
        trace: Any trace, of a real run or a simulated one.
        bound: The threshold of the bounded slowdown in seconds.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 10.0], "end": [8.0, 30.0]}),
    ... )
    >>> per_task(trace).select("wait", "turnaround", "slowdown", "bounded_slowdown").rows()
    [(0.0, 8.0, 1.0, 1.0), (5.0, 25.0, 1.25, 1.25)]
    """
    trace = require_trace(trace)
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(f"{bound} is no length of time", field="bound", remedy="seconds above 0")
    ran_as = collect_runs(_merged(trace)).select("submit", "start", "end", "run_time")
    known = trace.tasks.select(
        *("id", "user", "status"),
        *(finite_column(name) for name in ("submit_recorded", "ready", "deadline")),
        has_parents=pl.col("parents").list.len().fill_null(0) > 0,
        still_runs=_still_running(trace),
    )
    waits_for = pl.when("has_parents").then(pl.coalesce("ready", "submit")).otherwise("submit")
    turnaround = pl.col("end") - pl.col("submit")
    run_time = pl.col("run_time")
    return (
        known.hstack(ran_as)
        .with_columns(
            ran=pl.col("start").is_not_null() & pl.col("status").ne_missing("rejected"),
        )
        .with_columns(
            start=pl.when("ran").then("start"),
            end=pl.when(pl.col("ran") & ~pl.col("still_runs")).then("end"),
            queued=waits_for,
        )
        .select(
            *("id", "user", "status", "submit", "submit_recorded", "deadline", "has_parents"),
            *("ready", "ran", "queued", "start", "end", "run_time"),
            wait=pl.col("start") - pl.col("queued"),
            turnaround=turnaround,
            slowdown=pl.when(run_time > 0).then(turnaround / run_time),
            bounded_slowdown=(turnaround / run_time.clip(lower_bound=bound)).clip(lower_bound=1.0),
            lateness=pl.when("ran").then(pl.col("submit") - pl.col("submit_recorded")),
        )
    )


def finite_column(name: str) -> pl.Expr:
    """The column, null where it is no number.

    >>> pl.DataFrame({"x": [1.0, float("inf")]}).select(finite_column("x"))["x"].to_list()
    [1.0, None]
    """
    return pl.when(pl.col(name).is_finite()).then(name).alias(name)


def _still_running(trace: Trace) -> pl.Expr:
    """Which tasks have an execution that began and has no end in the trace."""
    placements = trace.placements.select("task", finite_column("start"), finite_column("end"))
    begun = placements.filter(pl.col("end").is_null() & pl.col("start").is_not_null())
    last = placements.group_by("task").agg(last_end=pl.col("end").max()) if begun.height else None
    if last is None:
        return pl.lit(False)
    # An attempt whose end was lost is over once a later one has ended.
    going_on = begun.join(last, on="task", how="left").filter(
        pl.col("last_end").is_null() | (pl.col("start") >= pl.col("last_end"))
    )
    return pl.col("id").is_in(going_on["task"].drop_nulls().unique().implode())


def _merged(trace: Trace) -> Trace:
    """The trace with the neighbouring rows of one attempt as one, from first start to last end.

    A simulated task on a hundred nodes has a hundred rows, and one pass over them here is far
    cheaper than grouping them by name.
    """
    placements = trace.placements.select("task", "attempt", "start", "end")
    numbers = placements.select("start", "end")
    if not placements.height or sum(numbers.null_count().row(0)):
        return trace
    task, attempt = placements["task"], placements["attempt"]
    begins = task.ne_missing(task.shift()) | attempt.ne_missing(attempt.shift())
    begins[0] = True
    first = np.flatnonzero(begins.to_numpy())
    start, end = (numbers[name].to_numpy() for name in numbers.columns)
    if first.size == task.len() or not all(np.isfinite(c).all() for c in (start, end)):
        return trace
    merged = pl.DataFrame(
        {
            "task": task.gather(first),
            "attempt": attempt.gather(first),
            "start": np.minimum.reduceat(start, first),
            "end": np.maximum.reduceat(end, first),
        }
    )
    return trace.replace(placements=merged)
