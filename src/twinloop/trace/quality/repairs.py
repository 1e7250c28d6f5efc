"""Repair: what has a defined fix is fixed, and counted; everything else is left alone."""

from __future__ import annotations

import math

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.manifest import Edit
from twinloop.trace.quality.prepared_tables import PreparedTables, sort_by_time
from twinloop.trace.quality.rule import TIME_TOLERANCE, select_rows
from twinloop.trace.quality.source_positions import note_rows
from twinloop.trace.trace import Trace


def repair(trace: Trace, *, skew: float | None = None) -> Trace:
    """Fix what has a defined fix; count every row that was changed or left out.

    Args:
        trace: The trace; it is not changed.
        skew: How far two clocks may disagree, in seconds: by so much a task may start before its
            submission, or end before its start, and be put right. One sampling period if not
            given; without samples, nothing.

    >>> import polars as pl
    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [0.0]})
    >>> usage = pl.DataFrame({"task": ["a", "a", "b"], "t": [2.0, 1.0, 1.0], "dt": 1.0, "cpu": 0.5})
    >>> fixed = repair(Trace(tasks=tasks, usage=usage))
    >>> fixed.usage["t"].to_list()
    [1.0, 2.0]
    >>> for note_rows in fixed.manifest.cleaned:
    ...     print(note_rows)
    removed 1: samples of no task (usage row 3)
    repaired 1: samples out of order, sorted (usage row 2)
    """
    if skew is not None and not (math.isfinite(skew) and skew >= 0):
        raise InputError(f"{skew} is no length of time", field="skew", remedy="seconds, 0 or more")
    notes: list[Cleaning] = []
    facts = PreparedTables(trace)
    for fix in (_equal_tasks, _orphans, _doubles, _order, _overlaps):
        facts = _facts_of(fix(facts, notes), facts)
    # The samples are in order now, so a second repair would find the same period.
    skew = skew if skew is not None else facts.period
    if skew is not None:
        facts = _facts_of(_ends(facts, skew, notes), facts)
        facts = _facts_of(_submissions(facts, skew, notes), facts)
    edit = Edit(operation="repair", parameters={"skew": skew})
    return facts.trace.with_manifest(cleaned=notes, edit=edit)


def _facts_of(trace: Trace, facts: PreparedTables) -> PreparedTables:
    """The facts of a trace; what is known already, if nothing was changed."""
    return facts if trace is facts.trace else PreparedTables(trace)


def _equal_tasks(facts: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = facts.trace
    tasks = trace.tasks.with_row_index("row")
    twice = tasks.filter(pl.col("id").is_duplicated() & pl.col("id").is_not_null())
    if not twice.height:
        return trace
    columns = [name for name in trace.tasks.columns if name != "line"]
    kinds = twice.unique(columns).group_by("id").len("kinds")
    copies = twice.group_by("id").len("copies")
    equal = copies.join(kinds.filter(pl.col("kinds") == 1), on="id")
    executions = trace.placements.join(equal, left_on="task", right_on="id")
    repeated = executions.group_by(trace.placements.columns).agg(
        pl.len().alias("times"), pl.col("copies").first()
    )
    # Each copy brought the same executions, or there is only one execution in all.
    same = repeated.group_by("task").agg(
        same=(pl.col("times") == pl.col("copies")).all() | (pl.col("times").sum() == 1)
    )
    equal = equal.join(same.filter(~pl.col("same")), left_on="id", right_on="task", how="anti")
    copied = pl.col("id").is_in(equal["id"].implode())
    again = tasks.filter(copied & ~pl.col("id").is_first_distinct())["row"]
    notes.append(
        note_rows(trace, "removed", "tasks that are there before, the same", "tasks", again)
    )
    placements = trace.placements.with_row_index("row")
    of_copy = pl.col("task").is_in(equal["id"].implode())
    double = placements.filter(of_copy & ~pl.struct(trace.placements.columns).is_first_distinct())[
        "row"
    ]
    what = "executions of tasks that are there before, the same"
    notes.append(note_rows(trace, "removed", what, "placements", double))
    return trace.replace(
        tasks=_without(trace.tasks, again), placements=_without(trace.placements, double)
    )


def _orphans(facts: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = facts.trace
    named = facts.table("usage").filter(pl.col("task").is_not_null() | pl.col("pid").is_not_null())
    rows = named.join(facts.ids, on="task", how="anti")["row"]
    if not rows.len():
        return trace
    notes.append(note_rows(trace, "removed", "samples of no task", "usage", rows))
    return trace.replace(usage=_without(trace.usage, rows))


def _doubles(facts: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = facts.trace
    for table, frame in _series_of(facts):
        if (frame["t"] <= frame["previous"]).any():
            rows = frame.filter(~pl.struct("series", "t").is_last_distinct())["row"]
            what = f"rows of {table} with the time of a later one"
            notes.append(note_rows(trace, "removed", what, table, rows))
            trace = _with(trace, table, _without(trace.tables[table], rows))
    return trace


def _order(facts: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = facts.trace
    for table, frame in _series_of(facts):
        early = frame.filter(pl.col("t") < pl.col("previous"))["row"]
        if early.len():
            what = (
                "samples out of order, sorted" if table == "usage" else "power out of order, sorted"
            )
            notes.append(note_rows(trace, "repaired", what, table, early))
            # A series keeps the rows it has in the table; only its samples change places.
            rows = pl.DataFrame({"to": frame["row"], "row": sort_by_time(frame)["row"]})
            every = pl.int_range(trace.tables[table].height, dtype=pl.UInt32, eager=True)
            source = pl.DataFrame({"to": every}).join(
                rows, on="to", how="left", maintain_order="left"
            )
            order = source.select(pl.coalesce("row", "to")).to_series()
            trace = _with(trace, table, trace.tables[table][order])
    return trace


def _overlaps(facts: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = facts.trace
    for table, frame in _series_of(facts):
        begin = pl.col("t") - pl.col("dt")
        rows = select_rows(frame, pl.col("previous") - begin > TIME_TOLERANCE)
        rows = rows.select("row", value=pl.col("t") - pl.col("previous"))
        if rows.height:
            what = f"windows of {table} that overlap the one before, shortened"
            notes.append(note_rows(trace, "repaired", what, table, rows["row"]))
            trace = _with(trace, table, _changed(trace.tables[table], "dt", rows))
    return trace


def _ends(facts: PreparedTables, skew: float, notes: list[Cleaning]) -> Trace:
    trace, placements = facts.trace, facts.placements
    short = (pl.col("end") < pl.col("start")) & (pl.col("start") - pl.col("end") <= skew)
    rows = select_rows(placements, short).select("row", value="start")
    if not rows.height:
        return trace
    what = "executions that ended a little before their start, now at it"
    notes.append(note_rows(trace, "repaired", what, "placements", rows["row"]))
    return trace.replace(placements=_changed(trace.placements, "end", rows))


def _submissions(facts: PreparedTables, skew: float, notes: list[Cleaning]) -> Trace:
    trace, placements = facts.trace, facts.placements
    first = placements.drop_nulls(["task_row", "submit", "start"]).group_by("task_row")
    starts = first.agg(pl.col("start").min(), pl.col("submit").first())
    early = (pl.col("start") < pl.col("submit")) & (pl.col("submit") - pl.col("start") <= skew)
    rows = select_rows(starts, early).select(row="task_row", value="start")
    if not rows.height:
        return trace
    what = "submissions a little after the start, now at it"
    notes.append(note_rows(trace, "repaired", what, "tasks", rows["row"]))
    return trace.replace(tasks=_changed(trace.tasks, "submit", rows))


def _series_of(facts: PreparedTables) -> list[tuple[str, pl.DataFrame]]:
    found = (("usage", facts.samples), ("power", facts.power))
    return [(table, frame) for table, frame in found if frame.height]


def _with(trace: Trace, table: str, frame: pl.DataFrame) -> Trace:
    return trace.replace(manifest=trace.manifest, **{table: frame})


def _without(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    index = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return frame.filter(~index.is_in(rows.implode()))


def _changed(frame: pl.DataFrame, column: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The frame with another value (`value`) of a column in some rows (`row`)."""
    values = (
        frame.select(column)
        .with_row_index("row")
        .join(rows, on="row", how="left", maintain_order="left")
        .select(pl.coalesce("value", column).alias(column))
    )
    return frame.with_columns(values)
