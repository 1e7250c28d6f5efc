"""The columns of a Workload: every one, its type, its unit and what it means."""

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

COLUMNS: Final[Mapping[str, Mapping[str, Column]]] = {
    "tasks": {
        "id": text_column("name of the task, unique in the workload"),
        "name": text_column("program or application it runs"),
        "user": text_column("who submits it"),
        "group": text_column("the group of that user"),
        "queue": text_column("queue it is submitted to"),
        "partition": text_column("partition of the machine it asks for"),
        "array": text_column("the job array it is a member of"),
        "submit": seconds_column("submission, where nobody reacts to anything"),
        "cores": Column(pl.Float64, "cores", "cores it occupies, over all nodes"),
        "nodes": Column(pl.Int64, "nodes", "nodes it asks for; null: anywhere"),
        "memory": Column(pl.Float64, "bytes", "memory it occupies, over all nodes; null: unknown"),
        "resources": Column(RESOURCES, "", "other resources it occupies: gpu, licences..."),
        "requested_time": seconds_column("upper bound of the run time, as a scheduler is told"),
        "requested_mhz": Column(pl.Float64, "MHz", "CPU capacity asked for, over all its cores"),
        "work": Column(pl.Float64, "core s", "CPU seconds of a reference core; null: unknown"),
        "limit": Column(pl.Float64, "cores", "reference cores it uses at most at any time"),
        "speed": Column(
            pl.Float64, "", "speed, in reference cores, of the core that this holds for; null: 1"
        ),
        "kind": text_column("contention kind: how it presses on neighbours and suffers from them"),
        "deadline": seconds_column("when it should have ended"),
        "parents": Column(pl.List(pl.String), "", "tasks that must end before it is ready"),
        "think_time": seconds_column("pause between the end of the parents and its submission"),
        "run_time": seconds_column("how long it ran in the record, if there is one"),
        "end_recorded": seconds_column("when it ended in the record, if there is one"),
        **COMMAND_COLUMNS,
    },
    "fragments": {
        "task": text_column("the task; its fragments follow each other"),
        "duration": seconds_column("length of the fragment on cores that nobody shares"),
        "rate": Column(pl.Float64, "cores", "reference cores used meanwhile"),
    },
    "files": TABLES["files"],
    "task_files": TABLES["task_files"],
}

_TIMES = ("submit", "requested_time", "think_time", "run_time", "deadline", "end_recorded")
_NUMBERS = ("submit", "cores", "memory", "requested_time", "work", "limit", "speed", "run_time")


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns of the workload's table, in order and of their types.

    >>> import polars as pl
    >>> conform("tasks", pl.DataFrame({"id": ["a"]}))["work"].to_list()
    [None]
    """
    return conform_columns(frame, COLUMNS[table], f"'{table}' of a Workload")


def check(tasks: pl.DataFrame) -> None:
    """What must hold for tasks that anything can be done with."""
    for field in ("id", "submit"):
        if tasks[field].null_count():
            row = int(tasks[field].is_null().arg_true()[0])
            name = repr(tasks["id"][row]) if field == "submit" else f"in row {row}"
            raise InputError("is missing", field=f"task {name}: {field}")
    twice = tasks["id"].is_duplicated()
    if twice.any():
        name = tasks["id"].filter(twice)[0]
        raise InputError(
            f"{int(twice.sum())} tasks share a name with another one, such as {name!r}",
            field="id",
            remedy="give each task a name of its own",
        )
    rules = [(field, _is_too_late(field), _say_too_late) for field in _TIMES]
    rules += [(field, _is_wrong(field), _say_wrong) for field in _NUMBERS]
    # All rules in one pass: one by one, small tables would spend their time on planning.
    broken = tasks.select(rule.any().alias(str(at)) for at, (_, rule, _) in enumerate(rules))
    for (field, rule, say), (is_broken,) in zip(rules, broken.iter_columns(), strict=True):
        if is_broken:
            row = int(tasks.select(rule.arg_true().first()).item())
            raise InputError(
                say(field, tasks[field][row]), field=f"task {tasks['id'][row]!r}: {field}"
            )


def _is_too_late(field: str) -> pl.Expr:
    return (pl.col(field).abs() > MAX_TIME) & pl.col(field).is_finite()


def _say_too_late(field: str, value: float) -> str:
    return f"{value:g} s is beyond {MAX_TIME:g} s, the latest time"


def _is_wrong(field: str) -> pl.Expr:
    """Whether a number is none, or below 0 where it may not be; unknown is not wrong."""
    wrong = ~pl.col(field).is_finite()
    return wrong if field == "submit" else wrong | (pl.col(field) < 0)


def _say_wrong(field: str, value: float) -> str:
    return f"{value} is not {'finite' if field == 'submit' else 'finite and not negative'}"
