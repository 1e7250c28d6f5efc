"""Rules on the order of times and of sampling windows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import polars as pl

from twinloop.trace.quality.prepared_tables import PreparedTables, sort_by_time
from twinloop.trace.quality.rule import TIME_TOLERANCE, Violations, select_rows


def check_lifecycle_order(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `lifecycle-order`."""
    placements = prepared.placements
    if placements.height:
        starts_early = pl.col("start") < pl.col("submit")
        ends_early = pl.col("end") < pl.col("start")
        starts = "task '{task}' starts at {start} s, but is submitted at {submit} s"
        ends = "task '{task}' ends at {end} s, but starts at {start} s"
        rows = select_rows(placements, starts_early | ends_early).select(
            "row",
            "submit",
            message=pl.when(starts_early).then(pl.lit(starts)).otherwise(pl.lit(ends)),
        )
        yield Violations("placements", placements.height, rows, ends)
    states = prepared.table("node_states")
    if states.height:
        rows = select_rows(states, pl.col("end") < pl.col("start")).select("row")
        message = "state '{state}' of node '{node}' ends at {end} s, but starts at {start} s"
        yield Violations("node_states", states.height, rows, message)
    yield from _check_instance_order(prepared)
    for table, what in (
        ("instance_states", "state '{state}' of instance '{instance}'"),
        ("transfers", "the transfer ({kind}) of '{subject}'"),
    ):
        frame = prepared.table(table)
        if frame.height:
            rows = select_rows(frame, pl.col("end") < pl.col("start")).select("row")
            message = f"{what} ends at {{end}} s, but starts at {{start}} s"
            yield Violations(table, frame.height, rows, message)


def _check_instance_order(prepared: PreparedTables) -> Iterator[Violations]:
    instances = prepared.table("instances")
    if not instances.height:
        return
    # A step that the instance did not reach has no time.
    steps = ("requested", "start", "ready", "end")
    message = pl.lit(None, dtype=pl.String)
    for first, then in combinations(steps, 2):
        found = f"instance '{{instance}}': {then} at {{{then}}} s, but {first} at {{{first}}} s"
        is_early = (pl.col(then) < pl.col(first)).fill_null(False)
        message = pl.when(message.is_null() & is_early).then(pl.lit(found)).otherwise(message)
    rows = instances.select("row", message=message).drop_nulls()
    yield Violations("instances", instances.height, rows, "")


def check_samples_in_order(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `samples-in-order`."""
    for table, frame, series in (
        ("usage", prepared.samples, "task '{task}'"),
        ("power", prepared.power, "node '{node}'"),
    ):
        if frame.height:
            rows = select_rows(frame, pl.col("t") <= pl.col("previous")).select("row", "previous")
            message = f"the sample of {series} at {{t}} s follows the one at {{previous}} s"
            yield Violations(table, frame.height, rows, message)


def check_windows_positive(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `windows-positive`."""
    for table in ("usage", "power"):
        frame = prepared.table(table)
        if frame.height:
            rows = select_rows(frame, pl.col("dt") <= 0).select("row")
            yield Violations(
                table, frame.height, rows, "the window that ends at {t} s is {dt} s long"
            )


def check_windows_disjoint(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `windows-disjoint`."""
    for table, frame in (("usage", prepared.samples), ("power", prepared.power)):
        if frame.height:
            overlap = pl.col("previous") - (pl.col("t") - pl.col("dt"))
            later = pl.col("previous") < pl.col("t")
            rows = select_rows(sort_by_time(frame), later & (overlap > TIME_TOLERANCE)).select(
                "row", overlap=overlap
            )
            message = "the window that ends at {t} s overlaps the one before by {overlap} s"
            yield Violations(table, frame.height, rows, message)


def check_gaps_in_samples(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `gaps-in-samples`."""
    period = prepared.period
    if not prepared.samples.height or period is None:
        return
    gap = pl.col("t") - pl.col("dt") - pl.col("previous")
    rows = select_rows(sort_by_time(prepared.samples), gap > period + TIME_TOLERANCE).select(
        "row", gap=gap
    )
    message = "task '{task}': {gap} s before the window that ends at {t} s were not sampled"
    yield Violations("usage", prepared.samples.height, rows, message)


def check_after_zero(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `after-zero`."""
    for table, column in (("tasks", "submit"), ("placements", "start"), ("usage", "t")):
        known = prepared.table(table).filter(pl.col(column).is_not_null())
        if known.height:
            rows = select_rows(known, pl.col(column) < 0).select("row")
            yield Violations(table, known.height, rows, f"{column} is {{{column}}} s")


def check_run_time_matches_execution(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `run-time-matches-execution`."""
    # Attempts follow each other; the placements of one attempt run side by side.
    lengths = (
        prepared.placements.filter(pl.col("task_row").is_not_null())
        .group_by("task_row", "attempt")
        .agg(
            length=pl.col("end").max() - pl.col("start").min(),
            known=(pl.col("start").is_not_null() & pl.col("end").is_not_null()).all(),
        )
        .group_by("task_row")
        .agg(pl.col("length").sum(), pl.col("known").all())
        .filter("known")
    )
    both = (
        prepared.table("tasks")
        .select("row", "run_time")
        .drop_nulls()
        .join(lengths, left_on="row", right_on="task_row")
    )
    if both.height:
        rows = select_rows(both, (pl.col("run_time") - pl.col("length")).abs() > TIME_TOLERANCE)
        message = "task '{id}' has a run time of {run_time} s, but its executions took {length} s"
        yield Violations("tasks", both.height, rows.select("row", "length"), message)
