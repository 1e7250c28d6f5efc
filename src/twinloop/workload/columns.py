"""The columns of a Workload: every one, its type, its unit and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from twinloop.trace.errors import InputError
from twinloop.trace.tables import (
    LATEST_TIME,
    RESOURCES,
    STARTED,
    TABLES,
    Column,
    seconds,
    shaped,
    text,
)

COLUMNS: Final[Mapping[str, Mapping[str, Column]]] = {
    "tasks": {
        "id": text("name of the task, unique in the workload"),
        "name": text("program or application it runs"),
        "user": text("who submits it"),
        "group": text("the group of that user"),
        "queue": text("queue it is submitted to"),
        "partition": text("partition of the machine it asks for"),
        "array": text("the job array it is a member of"),
        "submit": seconds("submission, where nobody reacts to anything"),
        "cores": Column(pl.Float64, "cores", "cores it occupies, over all nodes"),
        "nodes": Column(pl.Int64, "nodes", "nodes it asks for; null: anywhere"),
        "memory": Column(pl.Float64, "bytes", "memory it occupies, over all nodes; null: unknown"),
        "resources": Column(RESOURCES, "", "other resources it occupies: gpu, licences..."),
        "requested_time": seconds("upper bound of the run time, as a scheduler is told"),
        "requested_mhz": Column(pl.Float64, "MHz", "CPU capacity asked for, over all its cores"),
        "work": Column(pl.Float64, "core s", "CPU seconds of a reference core; null: unknown"),
        "limit": Column(pl.Float64, "cores", "reference cores it uses at most at any time"),
        "speed": Column(
            pl.Float64, "", "speed, in reference cores, of the core that this holds for; null: 1"
        ),
        "kind": text("contention kind: how it presses on neighbours and suffers from them"),
        "deadline": seconds("when it should have ended"),
        "parents": Column(pl.List(pl.String), "", "tasks that must end before it is ready"),
        "think_time": seconds("pause between the end of the parents and its submission"),
        "run_time": seconds("how long it ran in the record, if there is one"),
        "end_recorded": seconds("when it ended in the record, if there is one"),
        **STARTED,
    },
    "fragments": {
        "task": text("the task; its fragments follow each other"),
        "duration": seconds("length of the fragment on cores that nobody shares"),
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
    return shaped(frame, COLUMNS[table], f"'{table}' of a Workload")


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
    for field in _TIMES:
        late = (tasks[field].abs() > LATEST_TIME) & tasks[field].is_finite()
        if late.fill_null(value=False).any():
            row = int(late.arg_true()[0])
            raise InputError(
                f"{tasks[field][row]:g} s is beyond {LATEST_TIME:g} s, the latest time",
                field=f"task {tasks['id'][row]!r}: {field}",
            )
    for field in _NUMBERS:
        column = tasks[field]
        wrong = ~column.is_finite()
        if field != "submit":
            wrong |= column < 0
        wrong = wrong.fill_null(value=False)
        if wrong.any():
            row = int(wrong.arg_true()[0])
            must = "finite" if field == "submit" else "finite and not negative"
            raise InputError(
                f"{column[row]} is not {must}", field=f"task {tasks['id'][row]!r}: {field}"
            )
