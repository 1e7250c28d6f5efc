"""Rules on single values: they are there, they are numbers, they are possible, they are unique."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

import polars as pl

from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import Violations, name_conditions, select_rows
from twinloop.trace.tables import STATUSES, TABLES

REASONS = (*STATUSES, "preempted", "migrated")

_REQUIRED = {
    "tasks": ("id", "submit"),
    "placements": ("task",),
    "usage": ("t", "dt", "cpu"),
    "nodes": ("node",),
    "node_states": ("node", "start", "state"),
    "power": ("t", "dt", "watts"),
    "decisions": ("t",),
    "files": ("file",),
    "task_files": ("task", "file"),
}
_REQUIRED_WHEN_RECORDED = {"placements": ("start", "end")}
_REQUIRED_IN_CTS = {
    "tasks": ("pid",),
    "usage": ("pid", "rss"),
    "nodes": ("cores", "memory", "mhz"),
}

# The lengths of windows have a rule of their own, and times may lie before t = 0.
_MAY_BE_NEGATIVE = {
    ("tasks", "submit_recorded"),
    ("tasks", "submit"),
    ("tasks", "ready"),
    ("tasks", "deadline"),
    ("tasks", "exit_code"),
    ("placements", "start"),
    ("placements", "end"),
    ("usage", "t"),
    ("usage", "dt"),
    ("node_states", "start"),
    ("node_states", "end"),
    ("power", "t"),
    ("power", "dt"),
    ("decisions", "t"),
}


def check_has_tasks(facts: PreparedTables) -> Iterator[Violations]:
    """A trace has at least one task."""
    count = facts.trace.tasks.height
    rows = pl.DataFrame({"row": [] if count else [0]}, schema={"row": pl.UInt32})
    yield Violations("tasks", count, rows, "there is no task")


def check_readable(facts: PreparedTables) -> Iterator[Violations]:
    """Every row of the source could be read."""
    source = facts.manifest.source
    if source is not None:
        skipped = tuple(note for note in facts.manifest.cleaned if note.kind == "skipped")
        read = sum(facts.table(table).height for table in ("tasks", "usage"))
        count = read + sum(note.count for note in skipped)
        none = pl.DataFrame(schema={"row": pl.UInt32})
        yield Violations("tasks", count, none, "", noted=skipped)


def check_complete(facts: PreparedTables) -> Iterator[Violations]:
    """What every row must say is there."""
    for table, columns in _REQUIRED.items():
        frame = facts.raw(table)
        if facts.recorded:
            columns += _REQUIRED_WHEN_RECORDED.get(table, ())
        if facts.is_cts:
            columns += _REQUIRED_IN_CTS.get(table, ())
        missing = {name: pl.col(name).is_null() for name in columns}
        if table == "usage" and "pid" not in columns:
            missing["task or pid"] = pl.col("task").is_null() & pl.col("pid").is_null()
        yield from _bad_fields(table, frame, missing, "has no {fields}")


def check_times_known(facts: PreparedTables) -> Iterator[Violations]:
    """A log says when each execution started and ended."""
    if not facts.recorded:
        missing = {name: pl.col(name).is_null() for name in ("start", "end")}
        says = "task '{task}': {fields} not recorded"
        yield from _bad_fields("placements", facts.table("placements"), missing, says)


def check_placed(facts: PreparedTables) -> Iterator[Violations]:
    """A task that completed or has an exit code has been executed."""
    if not facts.table("placements").height:
        return
    tasks = facts.table("tasks")
    # One that failed or was killed may never have got so far.
    ended = (pl.col("status") == "completed") | pl.col("exit_code").is_not_null()
    if facts.recorded:
        ended = ended | pl.col("status").is_null()
    rows = select_rows(tasks, ended).join(
        facts.placements.select("task"), left_on="id", right_on="task", how="anti"
    )
    yield Violations("tasks", tasks.height, rows.select("row"), "task '{id}' has no execution")


def check_finite(facts: PreparedTables) -> Iterator[Violations]:
    """A number is a number: not NaN, not infinite."""
    for table, columns in TABLES.items():
        frame = facts.raw(table)
        bad = {
            name: pl.col(name).is_finite().not_()
            for name, column in columns.items()
            if column.dtype == pl.Float64
        }
        if "resources" in columns and frame["resources"].null_count() < frame.height:
            amount = pl.element().struct.field("amount")
            bad["resources"] = pl.col("resources").list.eval(~amount.is_finite()).list.any()
        if bad:
            yield from _bad_fields(table, frame, bad, "{fields}: not a finite number")


def check_not_negative(facts: PreparedTables) -> Iterator[Violations]:
    """Lengths, amounts and sizes are not negative."""
    for table, columns in TABLES.items():
        frame = facts.table(table)
        bad = {
            name: pl.col(name) < 0
            for name, column in columns.items()
            if column.dtype in (pl.Float64, pl.Int64) and (table, name) not in _MAY_BE_NEGATIVE
        }
        if "resources" in columns and frame["resources"].null_count() < frame.height:
            amount = pl.element().struct.field("amount")
            bad["resources"] = pl.col("resources").list.eval(amount < 0).list.any()
        if bad:
            yield from _bad_fields(table, frame, bad, "{fields}: negative")


def check_requested_cores_positive(facts: PreparedTables) -> Iterator[Violations]:
    """A task asks for more than no cores and no nodes."""
    none = {name: pl.col(name) == 0 for name in ("requested_cores", "requested_nodes")}
    tasks = facts.table("tasks")
    known = tasks.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in none))
    yield from _bad_fields("tasks", known, none, "task '{id}' has {fields} of 0")


def check_known_words(facts: PreparedTables) -> Iterator[Violations]:
    """A status, a reason or an access is one of the words that are defined."""
    for table, column, words in (
        ("tasks", "status", STATUSES),
        ("placements", "reason", REASONS),
        ("task_files", "access", ("read", "write")),
    ):
        known = facts.table(table).filter(pl.col(column).is_not_null())
        if known.height:
            rows = select_rows(known, ~pl.col(column).is_in(words))
            says = f"{column} is '{{{column}}}', not one of: {', '.join(words)}"
            yield Violations(table, known.height, rows.select("row"), says)


def check_unique_names(facts: PreparedTables) -> Iterator[Violations]:
    """No two tasks, nodes or files have the same name."""
    for table, column in (("tasks", "id"), ("nodes", "node"), ("files", "file")):
        frame = facts.table(table).filter(pl.col(column).is_not_null())
        if frame.height:
            again = select_rows(frame, ~pl.col(column).is_first_distinct())
            says = f"{column} '{{{column}}}' stands there before"
            yield Violations(table, frame.height, again.select("row"), says)


def _bad_fields(
    table: str, frame: pl.DataFrame, bad: dict[str, pl.Expr], says: str
) -> Iterator[Violations]:
    if frame.height:
        rows = select_rows(frame, reduce(or_, (part.fill_null(False) for part in bad.values())))
        yield Violations(table, frame.height, rows.select("row", fields=name_conditions(bad)), says)
