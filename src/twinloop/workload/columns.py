"""The columns of a Workload: type, unit and meaning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.quantities import MAX_TIME
from twinloop.trace.tables import (
    COMMAND_COLUMNS,
    RESOURCES,
    TABLES,
    Column,
    conform_columns,
    seconds_column,
    text_column,
)
from twinloop.workload.speedup_laws import LAW_COLUMNS

COLUMNS: Final[Mapping[str, Mapping[str, Column]]] = {
    "tasks": {
        "id": text_column("id of the task, unique in the workload"),
        "name": text_column("program or application"),
        "user": text_column("user who submits it"),
        "group": text_column("group of the user"),
        "queue": text_column("queue"),
        "partition": text_column("requested partition"),
        "array": text_column("job array of the task"),
        "submit": seconds_column("submission time (rigid source)"),
        "cores": Column(pl.Float64, "cores", "allocated cores, over all nodes"),
        "nodes": Column(pl.Int64, "nodes", "requested nodes; null: any"),
        "memory": Column(pl.Float64, "bytes", "allocated memory, over all nodes; null: unknown"),
        "resources": Column(RESOURCES, "", "other allocated resources: gpu, licences..."),
        "requested_time": seconds_column(
            "requested run time: an upper bound, visible to the scheduler"
        ),
        "requested_mhz": Column(pl.Float64, "MHz", "requested CPU capacity, over all its cores"),
        "work": Column(pl.Float64, "core s", "work in seconds of a reference core; null: unknown"),
        "limit": Column(
            pl.Float64, "cores", "maximum number of reference cores in use at any time"
        ),
        "speed": Column(
            pl.Float64,
            "",
            "speed of the core that the values refer to, in reference cores; null: 1",
        ),
        "kind": text_column("contention kind: its pressure on neighbours and sensitivity to them"),
        "deadline": seconds_column("deadline"),
        "parents": Column(pl.List(pl.String), "", "tasks that must end before it can start"),
        "think_time": seconds_column("pause from the end of the parents to its submission"),
        "run_time": seconds_column("recorded run time, if known"),
        "end_recorded": seconds_column("recorded end, if known"),
        **COMMAND_COLUMNS,
        **LAW_COLUMNS,
    },
    "fragments": {
        "task": text_column("id of the task; its fragments are consecutive"),
        "duration": seconds_column("duration on unshared cores"),
        "rate": Column(pl.Float64, "cores", "reference cores in use"),
    },
    "files": TABLES["files"],
    "task_files": TABLES["task_files"],
    "boots": {name: TABLES["boots"][name] for name in ("provisioned", "boot_time", "lag")},
}

_TIMES = ("submit", "requested_time", "think_time", "run_time", "deadline", "end_recorded")
_NUMBERS = ("submit", "cores", "memory", "requested_time", "work", "limit", "speed", "run_time")


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return the frame with all columns of a table of a workload, in order and with their types.

    >>> import polars as pl
    >>> conform("tasks", pl.DataFrame({"id": ["a"]}))["work"].to_list()
    [None]
    """
    return conform_columns(frame, COLUMNS[table], f"'{table}' of a Workload")


def check(tasks: pl.DataFrame) -> None:
    """Check the tasks of a workload: unique ids, submissions, finite numbers."""
    for field in ("id", "submit"):
        if tasks[field].null_count():
            row = int(tasks[field].is_null().arg_true()[0])
            name = repr(tasks["id"][row]) if field == "submit" else f"in row {row + 1}"
            raise InputError("is missing", kind="missing-field", field=f"task {name}: {field}")
    if tasks["id"].n_unique() < tasks.height:
        duplicates = tasks["id"].is_duplicated()
        name = tasks["id"].filter(duplicates)[0]
        raise InputError(
            f"is not unique: {int(duplicates.sum())} tasks share an id, such as {name!r}",
            kind="duplicate-name",
            field="id",
            remedy="give each task an id of its own",
        )
    rules = [(field, _is_too_late(field), _describe_too_late) for field in _TIMES]
    rules += [(field, _is_invalid(field), _describe_invalid) for field in _NUMBERS]
    # All rules in one pass, because query planning dominates for small tables.
    broken = tasks.select(rule.any().alias(str(index)) for index, (_, rule, _) in enumerate(rules))
    for (field, rule, describe), (is_broken,) in zip(rules, broken.iter_columns(), strict=True):
        if is_broken:
            row = int(tasks.select(rule.arg_true().first()).item())
            raise InputError(
                describe(field, tasks[field][row]),
                kind="out-of-range",
                field=f"task {tasks['id'][row]!r}: {field}",
            )


def _is_too_late(field: str) -> pl.Expr:
    return (pl.col(field).abs() > MAX_TIME) & pl.col(field).is_finite()


def _describe_too_late(field: str, value: float) -> str:
    return f"{value:g} s is beyond {MAX_TIME:g} s, the latest time"


def _is_invalid(field: str) -> pl.Expr:
    """Whether a number is not finite, or negative where this is not allowed; null is allowed."""
    not_finite = ~pl.col(field).is_finite()
    return not_finite if field == "submit" else not_finite | (pl.col(field) < 0)


def _describe_invalid(field: str, value: float) -> str:
    return f"{value} is not a finite{'' if field == 'submit' else ', non-negative'} number"
