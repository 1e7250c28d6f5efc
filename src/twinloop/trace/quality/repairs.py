"""Repair of traces: defects with a defined fix are fixed and counted; others are unchanged."""

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
    """Repair the defects that have a defined fix; count every row changed or removed.

    Args:
        trace: The trace; it is not changed.
        skew: Tolerated clock skew in seconds: a task that starts before its submission, or ends
            before its start, by at most this is repaired. By default one sampling period; if it
            is unknown, such tasks are not repaired.

    >>> import polars as pl
    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [0.0]})
    >>> usage = pl.DataFrame({"task": ["a", "a", "b"], "t": [2.0, 1.0, 1.0], "dt": 1.0, "cpu": 0.5})
    >>> fixed = repair(Trace(tasks=tasks, usage=usage))
    >>> fixed.usage["t"].to_list()
    [1.0, 2.0]
    >>> for note in fixed.manifest.cleaned:
    ...     print(note)
    removed 1: samples of no task (usage row 3)
    repaired 1: samples out of order, sorted (usage row 2)
    """
    if skew is not None and not (math.isfinite(skew) and skew >= 0):
        raise InputError(
            f"{skew} is not a length of time",
            kind="out-of-range",
            field="skew",
            remedy="seconds, 0 or more",
        )
    notes: list[Cleaning] = []
    prepared = PreparedTables(trace)
    for fix in (
        _remove_equal_tasks,
        _remove_orphans,
        _remove_duplicate_samples,
        _sort_samples,
        _shorten_overlaps,
    ):
        prepared = _prepare_again(fix(prepared, notes), prepared)
    # After the samples are sorted, so that a second repair computes the same period.
    skew = skew if skew is not None else prepared.period
    if skew is not None:
        prepared = _prepare_again(_move_ends(prepared, skew, notes), prepared)
        prepared = _prepare_again(_move_submissions(prepared, skew, notes), prepared)
    edit = Edit(operation="repair", parameters={"skew": skew})
    return prepared.trace.with_manifest(cleaned=notes, edit=edit)


def _prepare_again(trace: Trace, prepared: PreparedTables) -> PreparedTables:
    """Prepare the tables of a trace; reuse the old ones if the trace is unchanged."""
    return prepared if trace is prepared.trace else PreparedTables(trace)


def _remove_equal_tasks(prepared: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = prepared.trace
    tasks = trace.tasks.with_row_index("row")
    duplicates = tasks.filter(pl.col("id").is_duplicated() & pl.col("id").is_not_null())
    if not duplicates.height:
        return trace
    columns = [name for name in trace.tasks.columns if name != "line"]
    kinds = duplicates.unique(columns).group_by("id").len("kinds")
    copies = duplicates.group_by("id").len("copies")
    equal = copies.join(kinds.filter(pl.col("kinds") == 1), on="id")
    executions = trace.placements.join(equal, left_on="task", right_on="id")
    repeated = executions.group_by(trace.placements.columns).agg(
        pl.len().alias("times"), pl.col("copies").first()
    )
    # Each copy has the same executions, or there is only one execution in total.
    same = repeated.group_by("task").agg(
        same=(pl.col("times") == pl.col("copies")).all() | (pl.col("times").sum() == 1)
    )
    equal = equal.join(same.filter(~pl.col("same")), left_on="id", right_on="task", how="anti")
    is_copied = pl.col("id").is_in(equal["id"].implode())
    task_copies = tasks.filter(is_copied & ~pl.col("id").is_first_distinct())["row"]
    notes.append(note_rows(trace, "removed", "copies of earlier tasks", "tasks", task_copies))
    placements = trace.placements.with_row_index("row")
    of_copy = pl.col("task").is_in(equal["id"].implode())
    execution_copies = placements.filter(
        of_copy & ~pl.struct(trace.placements.columns).is_first_distinct()
    )["row"]
    what = "copies of executions of such tasks"
    notes.append(note_rows(trace, "removed", what, "placements", execution_copies))
    return trace.replace(
        tasks=_remove_rows(trace.tasks, task_copies),
        placements=_remove_rows(trace.placements, execution_copies),
    )


def _remove_orphans(prepared: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = prepared.trace
    named = prepared.table("usage").filter(
        pl.col("task").is_not_null() | pl.col("pid").is_not_null()
    )
    rows = named.join(prepared.ids, on="task", how="anti")["row"]
    if not rows.len():
        return trace
    notes.append(note_rows(trace, "removed", "samples of no task", "usage", rows))
    return trace.replace(usage=_remove_rows(trace.usage, rows))


def _remove_duplicate_samples(prepared: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = prepared.trace
    for table, frame in _list_series(prepared):
        if (frame["t"] <= frame["previous"]).any():
            rows = frame.filter(~pl.struct("series", "t").is_last_distinct())["row"]
            what = f"rows of {table} with the same time as a later row"
            notes.append(note_rows(trace, "removed", what, table, rows))
            trace = _replace_table(trace, table, _remove_rows(trace.tables[table], rows))
    return trace


def _sort_samples(prepared: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = prepared.trace
    for table, frame in _list_series(prepared):
        misplaced = frame.filter(pl.col("t") < pl.col("previous"))["row"]
        if misplaced.len():
            what = (
                "samples out of order, sorted" if table == "usage" else "power out of order, sorted"
            )
            notes.append(note_rows(trace, "repaired", what, table, misplaced))
            # Samples are permuted only among the rows of their own series.
            rows = pl.DataFrame({"to": frame["row"], "row": sort_by_time(frame)["row"]})
            all_rows = pl.int_range(trace.tables[table].height, dtype=pl.UInt32, eager=True)
            source = pl.DataFrame({"to": all_rows}).join(
                rows, on="to", how="left", maintain_order="left"
            )
            order = source.select(pl.coalesce("row", "to")).to_series()
            trace = _replace_table(trace, table, trace.tables[table][order])
    return trace


def _shorten_overlaps(prepared: PreparedTables, notes: list[Cleaning]) -> Trace:
    trace = prepared.trace
    for table, frame in _list_series(prepared):
        begin = pl.col("t") - pl.col("dt")
        rows = select_rows(frame, pl.col("previous") - begin > TIME_TOLERANCE)
        rows = rows.select("row", value=pl.col("t") - pl.col("previous"))
        if rows.height:
            what = f"windows of {table} that overlap the one before, shortened"
            notes.append(note_rows(trace, "repaired", what, table, rows["row"]))
            trace = _replace_table(trace, table, _set_values(trace.tables[table], "dt", rows))
    return trace


def _move_ends(prepared: PreparedTables, skew: float, notes: list[Cleaning]) -> Trace:
    trace, placements = prepared.trace, prepared.placements
    short = (pl.col("end") < pl.col("start")) & (pl.col("start") - pl.col("end") <= skew)
    rows = select_rows(placements, short).select("row", value="start")
    if not rows.height:
        return trace
    what = "executions that ended slightly before their start: the end is set to it"
    notes.append(note_rows(trace, "repaired", what, "placements", rows["row"]))
    return trace.replace(placements=_set_values(trace.placements, "end", rows))


def _move_submissions(prepared: PreparedTables, skew: float, notes: list[Cleaning]) -> Trace:
    trace, placements = prepared.trace, prepared.placements
    first = placements.drop_nulls(["task_row", "submit", "start"]).group_by("task_row")
    starts = first.agg(pl.col("start").min(), pl.col("submit").first())
    early = (pl.col("start") < pl.col("submit")) & (pl.col("submit") - pl.col("start") <= skew)
    rows = select_rows(starts, early).select(row="task_row", value="start")
    if not rows.height:
        return trace
    what = "submissions slightly after the start, set to the start"
    notes.append(note_rows(trace, "repaired", what, "tasks", rows["row"]))
    return trace.replace(tasks=_set_values(trace.tasks, "submit", rows))


def _list_series(prepared: PreparedTables) -> list[tuple[str, pl.DataFrame]]:
    series = (("usage", prepared.samples), ("power", prepared.power))
    return [(table, frame) for table, frame in series if frame.height]


def _replace_table(trace: Trace, table: str, frame: pl.DataFrame) -> Trace:
    return trace.replace(manifest=trace.manifest, **{table: frame})


def _remove_rows(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    index = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return frame.filter(~index.is_in(rows.implode()))


def _set_values(frame: pl.DataFrame, column: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Set the values (`value`) of a column in some rows (`row`)."""
    values = (
        frame.select(column)
        .with_row_index("row")
        .join(rows, on="row", how="left", maintain_order="left")
        .select(pl.coalesce("value", column).alias(column))
    )
    return frame.with_columns(values)
