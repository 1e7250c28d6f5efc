"""Rules on single values: present, finite, in range, defined, unique."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_

import polars as pl

from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import Violations, name_conditions, select_rows
from twinloop.trace.tables import (
    INSTANCE_ENDS,
    INSTANCE_PERIOD_ENDS,
    INSTANCE_STATES,
    STATUSES,
    TABLES,
    TARIFFS,
    TRANSFER_ENDS,
    TRANSFER_KINDS,
)

REASONS = (*STATUSES, "preempted", "migrated")

_REQUIRED = {
    "tasks": ("id",),
    "placements": ("task",),
    "usage": ("t", "dt", "cpu"),
    "nodes": ("node",),
    "node_states": ("node", "start", "state"),
    "instances": ("instance",),
    "instance_states": ("instance", "start", "state"),
    "transfers": ("kind", "start"),
    "node_periods": ("node", "start"),
    "power": ("t", "dt", "watts"),
    "decisions": ("t",),
    "files": ("file",),
    "task_files": ("task", "file"),
    "boots": ("boot_time",),
    "task_times": ("task", "wall_time"),
}
# In a simulation, a task may not have been submitted yet.
_REQUIRED_UNLESS_SIMULATED = {"tasks": ("submit",)}
_REQUIRED_WHEN_RECORDED = {"placements": ("start", "end")}
_REQUIRED_IN_CTS = {
    "tasks": ("pid",),
    "usage": ("pid", "rss"),
    "nodes": ("cores", "memory", "mhz"),
}

# Lengths of windows have their own rule, and times may be before t = 0.
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
    ("instances", "start"),
    ("instances", "end"),
    ("instances", "requested"),
    ("instances", "ready"),
    ("instance_states", "start"),
    ("instance_states", "end"),
    ("transfers", "start"),
    ("transfers", "end"),
    ("node_periods", "start"),
    ("node_periods", "end"),
    ("power", "t"),
    ("power", "dt"),
    ("decisions", "t"),
    ("boots", "provisioned"),
}


def check_has_tasks(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `has-tasks`."""
    count = prepared.trace.tasks.height
    rows = pl.DataFrame({"row": [] if count else [0]}, schema={"row": pl.UInt32})
    yield Violations("tasks", count, rows, "there is no task")


def check_readable(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `readable`."""
    source = prepared.manifest.source
    if source is not None:
        skipped = tuple(note for note in prepared.manifest.cleaned if note.kind == "skipped")
        read = sum(prepared.table(table).height for table in ("tasks", "usage"))
        count = read + sum(note.count for note in skipped)
        no_rows = pl.DataFrame(schema={"row": pl.UInt32})
        yield Violations("tasks", count, no_rows, "", notes=skipped)


def check_complete(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `complete`."""
    for table, columns in _REQUIRED.items():
        frame = prepared.raw(table)
        if prepared.manifest.kind != "simulated":
            columns += _REQUIRED_UNLESS_SIMULATED.get(table, ())
        if prepared.is_recorded:
            columns += _REQUIRED_WHEN_RECORDED.get(table, ())
        if prepared.is_cts:
            columns += _REQUIRED_IN_CTS.get(table, ())
        missing = {name: pl.col(name).is_null() for name in columns}
        if table == "usage" and "pid" not in columns:
            missing["task or pid"] = pl.col("task").is_null() & pl.col("pid").is_null()
        yield from _check_fields(table, frame, missing, "has no {fields}")


def check_times_known(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `times-known`."""
    if not prepared.is_recorded:
        # In a simulation that has not ended, an execution without an end still goes on.
        names = ("start",) if prepared.manifest.kind == "simulated" else ("start", "end")
        missing = {name: pl.col(name).is_null() for name in names}
        message = "task '{task}': {fields} not recorded"
        yield from _check_fields("placements", prepared.table("placements"), missing, message)


def check_placed(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `placed`."""
    if not prepared.table("placements").height:
        return
    tasks = prepared.table("tasks")
    # A task that failed or was killed may never have started.
    executed = (pl.col("status") == "completed") | pl.col("exit_code").is_not_null()
    if prepared.is_recorded:
        executed = executed | pl.col("status").is_null()
    rows = select_rows(tasks, executed).join(
        prepared.placements.select("task"), left_on="id", right_on="task", how="anti"
    )
    yield Violations("tasks", tasks.height, rows.select("row"), "task '{id}' has no execution")


def check_finite(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `finite`."""
    for table, columns in TABLES.items():
        frame = prepared.raw(table)
        bad = {
            name: pl.col(name).is_finite().not_()
            for name, column in columns.items()
            if column.dtype == pl.Float64
        }
        if "resources" in columns and frame["resources"].null_count() < frame.height:
            amount = pl.element().struct.field("amount")
            bad["resources"] = pl.col("resources").list.eval(~amount.is_finite()).list.any()
        if bad:
            yield from _check_fields(table, frame, bad, "{fields}: not a finite number")


def check_not_negative(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `not-negative`."""
    for table, columns in TABLES.items():
        frame = prepared.table(table)
        bad = {
            name: pl.col(name) < 0
            for name, column in columns.items()
            if column.dtype in (pl.Float64, pl.Int64) and (table, name) not in _MAY_BE_NEGATIVE
        }
        if "resources" in columns and frame["resources"].null_count() < frame.height:
            amount = pl.element().struct.field("amount")
            bad["resources"] = pl.col("resources").list.eval(amount < 0).list.any()
        if bad:
            yield from _check_fields(table, frame, bad, "{fields}: negative")


def check_requested_cores_positive(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `requested-cores-positive`."""
    is_zero = {name: pl.col(name) == 0 for name in ("requested_cores", "requested_nodes")}
    tasks = prepared.table("tasks")
    known = tasks.filter(pl.any_horizontal(pl.col(name).is_not_null() for name in is_zero))
    yield from _check_fields("tasks", known, is_zero, "task '{id}' has {fields} of 0")


def check_known_words(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `known-words`."""
    for table, column, words in (
        ("tasks", "status", STATUSES),
        ("placements", "reason", REASONS),
        ("task_files", "access", ("read", "write")),
        ("instances", "reason", (*INSTANCE_PERIOD_ENDS, *INSTANCE_ENDS)),
        ("instances", "tariff", TARIFFS),
        ("instance_states", "state", INSTANCE_STATES),
        ("transfers", "kind", TRANSFER_KINDS),
        ("transfers", "reason", TRANSFER_ENDS),
    ):
        known = prepared.table(table).filter(pl.col(column).is_not_null())
        if table == "instance_states":
            # The platform defines the states of instances that are not rented.
            known = known.join(prepared.rented_instances, on="instance", how="semi")
        if known.height:
            rows = select_rows(known, ~pl.col(column).is_in(words))
            message = f"{column} is '{{{column}}}', not one of: {', '.join(words)}"
            yield Violations(table, known.height, rows.select("row"), message)


def check_unique_names(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `unique-names`."""
    for table, column in (("tasks", "id"), ("nodes", "node"), ("files", "file")):
        frame = prepared.table(table).filter(pl.col(column).is_not_null())
        if frame.height:
            duplicates = select_rows(frame, ~pl.col(column).is_first_distinct())
            message = f"{column} '{{{column}}}' repeats an earlier row"
            yield Violations(table, frame.height, duplicates.select("row"), message)


def _check_fields(
    table: str, frame: pl.DataFrame, bad: dict[str, pl.Expr], message: str
) -> Iterator[Violations]:
    if frame.height:
        rows = select_rows(frame, reduce(or_, (part.fill_null(False) for part in bad.values())))
        yield Violations(
            table, frame.height, rows.select("row", fields=name_conditions(bad)), message
        )
