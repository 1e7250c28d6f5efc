"""Time series: queue length, cores in use, submissions, completions."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task
from twinloop.metrics.weighted_intervals import (
    Floats,
    WeightedIntervals,
    find_core_intervals,
    find_machine_intervals,
)
from twinloop.trace.trace import Trace, require_trace

_MAX_BINS = 10_000_000


def queue_length(trace: Trace) -> pl.DataFrame:
    """Compute the queue length: a row per change, `waiting` from `t` until the next row.

    A task waits from its submission (with parents: from its ready time) until its first start;
    tasks that never started are excluded. The area under the curve is the sum of the waits.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [2.0, 5.0], "end": [3.0, 9.0]}),
    ... )
    >>> queue_length(trace).rows()
    [(0.0, 1), (1.0, 2), (2.0, 1), (5.0, 0)]
    """
    waits = per_task(trace).drop_nulls("wait")
    start, end = waits["queued"].to_numpy(), waits["start"].to_numpy()
    t, level = WeightedIntervals.of(start, end, np.ones(start.size)).steps()
    return pl.DataFrame({"t": t, "waiting": np.rint(level).astype(np.int64)})


def cores_in_use(trace: Trace) -> pl.DataFrame:
    """Compute the allocated cores: a row per change, `cores` from `t` until the next row.

    For a placement without cores the request of the task counts; executions of unknown size are
    excluded. The area under the curve is the core-seconds.

    >>> trace = Trace(placements=pl.DataFrame({"task": ["a", "b"], "cores": [2.0, 1.0],
    ...     "start": [0.0, 5.0], "end": [10.0, 15.0]}))
    >>> cores_in_use(trace).rows()
    [(0.0, 2.0), (5.0, 3.0), (10.0, 1.0), (15.0, 0.0)]
    """
    allocated, _ = find_core_intervals(require_trace(trace))
    t, level = allocated.steps() if allocated else ([], [])
    return pl.DataFrame({"t": t, "cores": level}, schema={"t": pl.Float64, "cores": pl.Float64})


def submissions(trace: Trace, bin: float | None = None) -> pl.DataFrame:
    """Count the submitted tasks over time, including rejected ones.

    Columns: `t`, `count` and `total` (cumulative). Without `bin` a row per time; with it a row per
    bin of that many seconds from the first submission on, where `t` is the end of the bin
    (inclusive).

    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a", "b", "c"], "submit": [0.0, 1.0, 25.0]}))
    >>> submissions(trace, bin=10).rows()
    [(10.0, 2, 2), (20.0, 0, 2), (30.0, 1, 3)]
    """
    tasks = per_task(trace)
    return _count_events(tasks["submit"], tasks, bin)


def completions(trace: Trace, bin: float | None = None) -> pl.DataFrame:
    """Count the completed tasks over time by their last end, in the columns of `submissions`.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0],
    ...         "status": ["completed", "failed"]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 0.0], "end": [3.0, 4.0]}),
    ... )
    >>> completions(trace).rows()
    [(3.0, 1, 1)]
    """
    tasks = per_task(trace)
    done = tasks.filter(pl.col("status") == "completed")
    return _count_events(done["end"], tasks, bin)


def terminations(trace: Trace, bin: float | None = None) -> pl.DataFrame:
    """Count the ended tasks over time, with any status, in the columns of `submissions`.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0],
    ...         "status": ["completed", "failed"]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 0.0], "end": [3.0, 4.0]}),
    ... )
    >>> terminations(trace)["total"].to_list()
    [1, 2]
    """
    tasks = per_task(trace)
    return _count_events(tasks["end"], tasks, bin)


def throughput(trace: Trace, start: float, end: float) -> float:
    """Compute the ended tasks per second, with any status, after `start` and up to `end`.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 0.0], "end": [3.0, 40.0]}),
    ... )
    >>> throughput(trace, 0, 10)
    0.1
    """
    length = _check_interval(start, end)
    return count_ends_between(per_task(trace)["end"], start, end) / length


def busy_cores(trace: Trace, start: float, end: float) -> float | None:
    """Compute the mean number of allocated cores between two times; None if unknown.

    >>> trace = Trace(placements=pl.DataFrame({"task": ["a"], "cores": [4.0], "start": [5.0],
    ...     "end": [20.0]}))
    >>> busy_cores(trace, 0, 10)
    2.0
    """
    length = _check_interval(start, end)
    allocated, _ = find_core_intervals(require_trace(trace))
    return None if allocated is None else allocated.area(start, end) / length


def busy_nodes(trace: Trace, start: float, end: float) -> float | None:
    """Compute the mean number of nodes with a task between two times; None if unknown.

    >>> trace = Trace(placements=pl.DataFrame({"task": ["a", "b"], "machine": ["n1", "n1"],
    ...     "start": [5.0, 6.0], "end": [10.0, 8.0]}))
    >>> busy_nodes(trace, 0, 10)
    0.5
    """
    length = _check_interval(start, end)
    intervals = find_machine_intervals(require_trace(trace))
    return None if intervals is None else intervals.area(start, end) / length


def count_ends_between(ends: pl.Series, start: float, end: float) -> int:
    """Count the ends after `start` and up to `end`.

    >>> count_ends_between(pl.Series([0.0, 5.0, None]), 0.0, 5.0)
    1
    """
    return int(((ends > start) & (ends <= end)).sum())


def _check_interval(start: float, end: float) -> float:
    if not (math.isfinite(start) and math.isfinite(end) and start < end):
        raise InputError(
            f"{start} s to {end} s is not a valid interval",
            kind="wrong-order",
            field="start and end",
            remedy="the end must be after the start",
        )
    return end - start


def _count_events(times: pl.Series, tasks: pl.DataFrame, bin: float | None) -> pl.DataFrame:
    known_times: Floats = times.drop_nulls().to_numpy()
    event_times: Floats
    if bin is None:
        event_times, count = np.unique(known_times, return_counts=True)
    else:
        if not (math.isfinite(bin) and bin > 0):
            raise InputError(
                f"must be a positive duration in s, not {bin}", kind="out-of-range", field="bin"
            )
        origin = tasks["submit"].min()
        begin = (
            float(origin) if isinstance(origin, float) else float(known_times.min(initial=np.inf))
        )
        # A time on the edge of two bins belongs to the first, so that `total` is correct at `t`.
        bin_index = np.maximum(np.ceil((known_times - begin) / bin).astype(np.int64) - 1, 0)
        if bin_index.max(initial=0) >= _MAX_BINS:
            raise InputError(
                f"{bin} s would make {bin_index.max() + 1:,} bins, more than {_MAX_BINS:,}",
                kind="too-many",
                field="bin",
                remedy="use longer bins",
            )
        count = np.bincount(bin_index)
        event_times = begin + bin * np.arange(1, count.size + 1, dtype=np.float64)
    return pl.DataFrame(
        {"t": event_times, "count": count, "total": np.cumsum(count)},
        schema={"t": pl.Float64, "count": pl.Int64, "total": pl.Int64},
    )
