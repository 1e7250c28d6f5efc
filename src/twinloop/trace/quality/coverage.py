"""Rules on tasks and their samples: every task is watched from its start to its end.

Where executions were recorded, samples are held against them; where a log has only usage (the
fragments of OpenDC), against the run time.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import TIME_TOLERANCE, Violations, select_rows


def _watched(facts: PreparedTables) -> tuple[pl.DataFrame, float]:
    """Every executed task with the range of its samples, and the longest that may be missing.

    There are none where no usage was recorded. An execution of no length has nothing to sample: it
    makes no task longer.
    """
    lasting = facts.placements.filter(pl.col("start") < pl.col("end"))
    longest = lasting.group_by("task_row").agg(first=pl.min("start"), last=pl.max("end"))
    spans = facts.spans.join(longest, on="task_row", how="left", maintain_order="left").select(
        "task_row", start=pl.coalesce("first", "start"), end=pl.coalesce("last", "end")
    )
    period = facts.period
    if period is None or not facts.table("usage").height:
        spans, period = spans.clear(), 0.0
    tasks = spans.join(facts.sampled, on="task_row", how="left").rename({"task_row": "row"})
    return tasks, period + TIME_TOLERANCE


def check_sampled(facts: PreparedTables) -> Iterator[Violations]:
    """A task that is longer than a sampling period has a sample."""
    tasks, limit = _watched(facts)
    length = pl.col("end") - pl.col("start")
    if tasks.height:
        rows = select_rows(tasks, pl.col("last").is_null() & (length > limit))
        says = "task '{id}' ran for {length} s without a sample"
        yield Violations("tasks", tasks.height, rows.select("row", length=length), says)


def check_too_short_to_sample(facts: PreparedTables) -> Iterator[Violations]:
    """A task has a sample, however short it is."""
    tasks, limit = _watched(facts)
    length = pl.col("end") - pl.col("start")
    if tasks.height:
        rows = select_rows(tasks, pl.col("last").is_null() & (length <= limit))
        says = "task '{id}' ran for {length} s, too short to have a sample"
        yield Violations("tasks", tasks.height, rows.select("row", length=length), says)


def check_samples_within(facts: PreparedTables) -> Iterator[Violations]:
    """The window of a sample touches the execution of its task."""
    if not facts.spans.height or not facts.samples.height:
        return
    samples = facts.samples.join(facts.spans, on="task_row")
    before, begin = pl.col("t") < pl.col("start") - TIME_TOLERANCE, pl.col("t") - pl.col("dt")
    rows = select_rows(samples, before | (begin > pl.col("end") + TIME_TOLERANCE))
    says = "task '{task}' ran from {start} s to {end} s; the window ends at {t} s"
    yield Violations("usage", samples.height, rows.select("row", "start", "end"), says)


def check_samples_reach_ends(facts: PreparedTables) -> Iterator[Violations]:
    """Samples begin and end within one sampling period of the start and the end of their task."""
    yield from _ends(facts, far=True)


def check_samples_cover(facts: PreparedTables) -> Iterator[Violations]:
    """Samples cover their task from its start to its end."""
    yield from _ends(facts, far=False)


def _ends(facts: PreparedTables, *, far: bool) -> Iterator[Violations]:
    watched, limit = _watched(facts)
    tasks = watched.drop_nulls("last")
    if not tasks.height:
        return
    late, early = pl.col("first") - pl.col("start"), pl.col("end") - pl.col("last")
    missing = pl.max_horizontal(late, early)
    broken = missing > limit if far else (missing > TIME_TOLERANCE) & (missing <= limit)
    rows = select_rows(tasks, broken).select("row", "start", "end", "first", "last")
    says = "task '{id}' ran from {start} s to {end} s, was sampled from {first} s to {last} s"
    yield Violations("tasks", tasks.height, rows, says)


def _unwatched(facts: PreparedTables) -> pl.DataFrame:
    """The tasks of which only usage is known, not when they were executed."""
    if not facts.table("usage").height:
        return facts.table("tasks").clear().with_columns(total=0.0)
    status = pl.col("status")
    ran = status.is_null() | status.is_in(("completed", "failed", "killed"))
    return (
        facts.table("tasks")
        .filter(ran)
        .join(facts.placements.select("task").unique(), left_on="id", right_on="task", how="anti")
        .join(facts.sampled, left_on="row", right_on="task_row", how="left")
    )


def check_usage_of_every_task(facts: PreparedTables) -> Iterator[Violations]:
    """Where usage is all that is known, every task has some."""
    tasks = _unwatched(facts)
    if facts.placements.height:
        # Whoever failed there without an execution never began.
        failed = pl.col("status").is_in(("failed", "killed")).fill_null(value=False)
        unknown = pl.col("run_time").is_null() & pl.col("total").is_null()
        tasks = tasks.filter(~(failed & unknown))
    if tasks.height:
        rows = select_rows(tasks, pl.col("total").is_null()).select("row")
        yield Violations("tasks", tasks.height, rows, "task '{id}' has no usage")


def check_run_time_matches_usage(facts: PreparedTables) -> Iterator[Violations]:
    """Where usage is all that is known, it lasts as long as the run time."""
    both = _unwatched(facts).filter(
        pl.col("run_time").is_not_null() & pl.col("total").is_not_null()
    )
    if both.height:
        rows = select_rows(both, (pl.col("run_time") - pl.col("total")).abs() > TIME_TOLERANCE)
        says = "task '{id}' has a run time of {run_time} s, but {total} s of usage"
        yield Violations("tasks", both.height, rows.select("row", "total"), says)
