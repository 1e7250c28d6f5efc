"""Figures of each task: wait, turnaround, slowdown, lateness."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace, require_trace

#: Lower bound of the run time in the bounded slowdown (s).
SLOWDOWN_BOUND = 10.0


def per_task(trace: Trace, *, bound: float = SLOWDOWN_BOUND) -> pl.DataFrame:
    """Compute the figures of each task, in the order of `tasks`; null if unknown.

    - `id`, `user`, `status`, `submit`, `submit_recorded`, `deadline`: from the trace.
    - `ran`: whether it was started and not rejected.
    - `start`, `end`: first start, and last end unless the task is still running.
    - `queued`: start of the wait: `ready` for a task with parents, otherwise `submit`.
    - `run_time`: run time of the last attempt.
    - `wait`: `start` - `queued`; `turnaround`: `end` - `submit`.
    - `slowdown`: turnaround / run time; null if the run time is 0.
    - `bounded_slowdown`: the larger of 1 and turnaround / max(run time, `bound`).
    - `lateness`: `submit` - `submit_recorded`, for a task that ran.

    Args:
        trace: A trace of a real or a simulated run.
        bound: Lower bound of the run time in the bounded slowdown (s).

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 10.0], "end": [8.0, 30.0]}),
    ... )
    >>> per_task(trace).select("wait", "turnaround", "slowdown", "bounded_slowdown").rows()
    [(0.0, 8.0, 1.0, 1.0), (5.0, 25.0, 1.25, 1.25)]
    """
    trace = require_trace(trace)
    if not (math.isfinite(bound) and bound > 0):
        raise InputError(
            f"must be a positive duration in s, not {bound}", kind="out-of-range", field="bound"
        )
    runs = collect_runs(_merge_placements(trace)).select("submit", "start", "end", "run_time")
    recorded = trace.tasks.select(
        *("id", "user", "status"),
        *(finite_column(name) for name in ("submit_recorded", "ready", "deadline")),
        has_parents=pl.col("parents").list.len().fill_null(0) > 0,
        still_runs=_find_still_running(trace),
    )
    queued = pl.when("has_parents").then(pl.coalesce("ready", "submit")).otherwise("submit")
    turnaround = pl.col("end") - pl.col("submit")
    run_time = pl.col("run_time")
    return (
        recorded.hstack(runs)
        .with_columns(
            ran=pl.col("start").is_not_null() & pl.col("status").ne_missing("rejected"),
        )
        .with_columns(
            start=pl.when("ran").then("start"),
            end=pl.when(pl.col("ran") & ~pl.col("still_runs")).then("end"),
            queued=queued,
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
    """Return a column with null in place of infinite and NaN values.

    >>> pl.DataFrame({"x": [1.0, float("inf")]}).select(finite_column("x"))["x"].to_list()
    [1.0, None]
    """
    return pl.when(pl.col(name).is_finite()).then(name).alias(name)


def remove_infinite(column: pl.Series) -> pl.Series:
    """Return a column with null in place of infinite and NaN values; itself if it has none.

    >>> remove_infinite(pl.Series([1.0, float("inf"), None])).to_list()
    [1.0, None, None]
    """
    if not column.null_count() and np.isfinite(column.to_numpy()).all():
        return column
    return column.to_frame().select(finite_column(column.name)).to_series()


def _find_still_running(trace: Trace) -> pl.Expr:
    """Return an expression: whether the last execution of a task has no end in the trace."""
    placements = trace.placements.select("task", "start", "end")
    if not remove_infinite(placements["end"]).null_count():
        return pl.lit(False)
    placements = placements.select("task", finite_column("start"), finite_column("end"))
    unended = placements.filter(pl.col("end").is_null() & pl.col("start").is_not_null())
    if not unended.height:
        return pl.lit(False)
    last_ends = placements.group_by("task").agg(last_end=pl.col("end").max())
    # An attempt without an end is over once a later attempt has ended.
    running = unended.join(last_ends, on="task", how="left").filter(
        pl.col("last_end").is_null() | (pl.col("start") >= pl.col("last_end"))
    )
    return pl.col("id").is_in(running["task"].drop_nulls().unique().implode())


def _merge_placements(trace: Trace) -> Trace:
    """Merge the adjacent placements of an attempt into one, from first start to last end.

    A simulated task on a hundred nodes has a hundred rows; one pass over them is much faster than
    grouping by ID.
    """
    placements = trace.placements.select("task", "attempt", "start", "end")
    if not placements.height or sum(placements.select("start", "end").null_count().row(0)):
        return trace
    task, attempt, *_ = placements
    is_first = _find_changes(task)
    if attempt.null_count() or attempt.min() != attempt.max():
        is_first |= _find_changes(attempt)
    first_rows = np.flatnonzero(is_first)
    start, end = (placements[name].to_numpy() for name in ("start", "end"))
    if first_rows.size == task.len() or not all(np.isfinite(c).all() for c in (start, end)):
        return trace
    indices = pl.Series(first_rows.astype(np.uint32))
    merged = pl.DataFrame(
        {
            "task": task.gather(indices),
            "attempt": attempt.gather(indices),
            "start": reduce_groups(np.minimum, start, first_rows),
            "end": reduce_groups(np.maximum, end, first_rows),
        }
    )
    return trace.replace(placements=merged)


def _find_changes(column: pl.Series) -> npt.NDArray[np.bool_]:
    """Find the rows whose value is not that of the row before; the first row is one of them."""
    changes = np.ones(column.len(), dtype=np.bool_)
    changes[1:] = column[1:].ne_missing(column[:-1]).to_numpy()
    return changes


def reduce_groups(
    operation: np.ufunc, values: npt.NDArray[np.float64], first_rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the minimum or maximum of each group of adjacent rows, given their first rows.

    The executions of an attempt on many machines mostly have the same times, which are copied.

    >>> reduce_groups(np.minimum, np.array([2.0, 1.0, 3.0]), np.array([0, 2]))
    array([1., 3.])
    """
    is_same = values[1:] == values[:-1]
    is_same[first_rows[1:] - 1] = True
    if is_same.all():
        return values[first_rows]
    result: npt.NDArray[np.float64] = operation.reduceat(values, first_rows)
    return result
