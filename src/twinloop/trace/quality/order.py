"""Rules on time: what comes first, and windows that follow each other."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from twinloop.trace.quality.prepared_tables import Facts, in_time
from twinloop.trace.quality.rule import TICK, Broken, rows_where


def check_lifecycle_order(facts: Facts) -> Iterator[Broken]:
    """Nothing starts before it is submitted, or ends before it starts."""
    placements = facts.placements
    if placements.height:
        early, ended = pl.col("start") < pl.col("submit"), pl.col("end") < pl.col("start")
        starts = "task '{task}' starts at {start} s, but is submitted at {submit} s"
        ends = "task '{task}' ends at {end} s, but starts at {start} s"
        rows = rows_where(placements, early | ended).select(
            "row",
            "submit",
            says=pl.when(early).then(pl.lit(starts)).otherwise(pl.lit(ends)),
        )
        yield Broken("placements", placements.height, rows, ends)
    states = facts.table("node_states")
    if states.height:
        rows = rows_where(states, pl.col("end") < pl.col("start")).select("row")
        says = "state '{state}' of node '{node}' ends at {end} s, but starts at {start} s"
        yield Broken("node_states", states.height, rows, says)


def check_samples_in_order(facts: Facts) -> Iterator[Broken]:
    """The samples of one process, and the power of one node, have strictly increasing times."""
    for table, frame, of in (
        ("usage", facts.samples, "task '{task}'"),
        ("power", facts.power, "node '{node}'"),
    ):
        if frame.height:
            rows = rows_where(frame, pl.col("t") <= pl.col("previous")).select("row", "previous")
            says = f"{of} at {{t}} s, after the sample at {{previous}} s"
            yield Broken(table, frame.height, rows, says)


def check_windows_positive(facts: Facts) -> Iterator[Broken]:
    """A sampling window has a length."""
    for table in ("usage", "power"):
        frame = facts.table(table)
        if frame.height:
            rows = rows_where(frame, pl.col("dt") <= 0).select("row")
            yield Broken(table, frame.height, rows, "the window that ends at {t} s is {dt} s long")


def check_windows_disjoint(facts: Facts) -> Iterator[Broken]:
    """A sampling window begins where the one before has ended, or later."""
    for table, frame in (("usage", facts.samples), ("power", facts.power)):
        if frame.height:
            overlap = pl.col("previous") - (pl.col("t") - pl.col("dt"))
            later = pl.col("previous") < pl.col("t")
            rows = rows_where(in_time(frame), later & (overlap > TICK)).select(
                "row", overlap=overlap
            )
            says = "the window that ends at {t} s reaches {overlap} s into the one before"
            yield Broken(table, frame.height, rows, says)


def check_gaps_in_samples(facts: Facts) -> Iterator[Broken]:
    """Between two samples of a process nothing is left out."""
    period = facts.period
    if not facts.samples.height or period is None:
        return
    gap = pl.col("t") - pl.col("dt") - pl.col("previous")
    rows = rows_where(in_time(facts.samples), gap > period + TICK).select("row", gap=gap)
    says = "task '{task}': {gap} s before the window that ends at {t} s were not sampled"
    yield Broken("usage", facts.samples.height, rows, says)


def check_after_zero(facts: Facts) -> Iterator[Broken]:
    """Nothing happens before t = 0."""
    for table, column in (("tasks", "submit"), ("placements", "start"), ("usage", "t")):
        known = facts.table(table).filter(pl.col(column).is_not_null())
        if known.height:
            rows = rows_where(known, pl.col(column) < 0).select("row")
            yield Broken(table, known.height, rows, f"{column} is {{{column}}} s")


def check_run_time_matches_execution(facts: Facts) -> Iterator[Broken]:
    """A run time is the length of the executions."""
    # Attempts follow each other; the placements of one attempt run side by side.
    lengths = (
        facts.placements.filter(pl.col("task_row").is_not_null())
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
        facts.table("tasks")
        .select("row", "run_time")
        .drop_nulls()
        .join(lengths, left_on="row", right_on="task_row")
    )
    if both.height:
        rows = rows_where(both, (pl.col("run_time") - pl.col("length")).abs() > TICK)
        says = "task '{id}' has a run time of {run_time} s, but ran from start to end {length} s"
        yield Broken("tasks", both.height, rows.select("row", "length"), says)
