"""Rules on the coverage of tasks by usage samples.

If executions were recorded, samples are compared with them; if a log has only usage (the fragments
of OpenDC), with the run time.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import TIME_TOLERANCE, Violations, select_rows


def _list_executed_tasks(prepared: PreparedTables) -> tuple[pl.DataFrame, float]:
    """List the executed tasks with the range of their samples; return the maximum gap (s) as well.

    The list is empty if the trace has no usage. Executions of zero length need no samples, so they
    do not extend the interval of a task that has others.
    """
    positive = prepared.placements.filter(pl.col("start") < pl.col("end"))
    intervals = positive.group_by("task_row").agg(first=pl.min("start"), last=pl.max("end"))
    spans = prepared.spans.join(intervals, on="task_row", how="left", maintain_order="left").select(
        "task_row", start=pl.coalesce("first", "start"), end=pl.coalesce("last", "end")
    )
    period = prepared.period
    if period is None or not prepared.table("usage").height:
        spans, period = spans.clear(), 0.0
    tasks = spans.join(prepared.sampled, on="task_row", how="left").rename({"task_row": "row"})
    return tasks, period + TIME_TOLERANCE


def check_sampled(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `sampled`."""
    tasks, limit = _list_executed_tasks(prepared)
    length = pl.col("end") - pl.col("start")
    if tasks.height:
        rows = select_rows(tasks, pl.col("last").is_null() & (length > limit))
        message = "task '{id}' ran for {length} s without a sample"
        yield Violations("tasks", tasks.height, rows.select("row", length=length), message)


def check_too_short_to_sample(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `too-short-to-sample`."""
    tasks, limit = _list_executed_tasks(prepared)
    length = pl.col("end") - pl.col("start")
    if tasks.height:
        rows = select_rows(tasks, pl.col("last").is_null() & (length <= limit))
        message = "task '{id}' ran for {length} s, too short to have a sample"
        yield Violations("tasks", tasks.height, rows.select("row", length=length), message)


def check_samples_within(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `samples-within`."""
    if not prepared.spans.height or not prepared.samples.height:
        return
    samples = prepared.samples.join(prepared.spans, on="task_row")
    before, begin = pl.col("t") < pl.col("start") - TIME_TOLERANCE, pl.col("t") - pl.col("dt")
    rows = select_rows(samples, before | (begin > pl.col("end") + TIME_TOLERANCE))
    message = "task '{task}' ran from {start} s to {end} s; the window ends at {t} s"
    yield Violations("usage", samples.height, rows.select("row", "start", "end"), message)


def check_samples_reach_ends(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `samples-reach-ends`."""
    yield from _check_ends(prepared, beyond_limit=True)


def check_samples_cover(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `samples-cover`."""
    yield from _check_ends(prepared, beyond_limit=False)


def _check_ends(prepared: PreparedTables, *, beyond_limit: bool) -> Iterator[Violations]:
    executed, limit = _list_executed_tasks(prepared)
    tasks = executed.drop_nulls("last")
    if not tasks.height:
        return
    late, early = pl.col("first") - pl.col("start"), pl.col("end") - pl.col("last")
    missing = pl.max_horizontal(late, early)
    broken = missing > limit if beyond_limit else (missing > TIME_TOLERANCE) & (missing <= limit)
    rows = select_rows(tasks, broken).select("row", "start", "end", "first", "last")
    message = "task '{id}' ran from {start} s to {end} s, was sampled from {first} s to {last} s"
    yield Violations("tasks", tasks.height, rows, message)


def _list_tasks_without_executions(prepared: PreparedTables) -> pl.DataFrame:
    """List the tasks without recorded executions, with the total length of their samples.

    The list is empty if the trace has no usage. The length is null for a task without samples.
    """
    if not prepared.table("usage").height:
        return prepared.table("tasks").clear().with_columns(total=0.0)
    status = pl.col("status")
    ran = status.is_null() | status.is_in(("completed", "failed", "killed"))
    return (
        prepared.table("tasks")
        .filter(ran)
        .join(
            prepared.placements.select("task").unique(), left_on="id", right_on="task", how="anti"
        )
        .join(prepared.sampled, left_on="row", right_on="task_row", how="left")
    )


def check_usage_of_every_task(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `usage-of-every-task`."""
    tasks = _list_tasks_without_executions(prepared)
    if prepared.placements.height:
        # A task that failed without an execution never started.
        failed = pl.col("status").is_in(("failed", "killed")).fill_null(value=False)
        unknown = pl.col("run_time").is_null() & pl.col("total").is_null()
        tasks = tasks.filter(~(failed & unknown))
    if tasks.height:
        rows = select_rows(tasks, pl.col("total").is_null()).select("row")
        yield Violations("tasks", tasks.height, rows, "task '{id}' has no usage")


def check_run_time_matches_usage(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `run-time-matches-usage`."""
    both = _list_tasks_without_executions(prepared).filter(
        pl.col("run_time").is_not_null() & pl.col("total").is_not_null()
    )
    if both.height:
        rows = select_rows(both, (pl.col("run_time") - pl.col("total")).abs() > TIME_TOLERANCE)
        message = "task '{id}' has a run time of {run_time} s, but {total} s of usage"
        yield Violations("tasks", both.height, rows.select("row", "total"), message)
