"""The tables of a Trace: every column, its type, its unit and what it means.

All times are seconds since t = 0 of the run (the epoch in the manifest says when that was); all
memory is bytes; all CPU time is seconds of one core. A value that is not known is null, never -1
and never zero. Every table of a Trace has all of its columns, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl
from polars.datatypes import DataType, DataTypeClass

from twinloop.trace.errors import TwinloopError

#: Raised by one when a table changes in a way that older readers would misunderstand.
SCHEMA_VERSION: Final = 1

RESOURCES: Final = pl.List(pl.Struct({"name": pl.String, "amount": pl.Float64}))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, its unit and its meaning."""

    dtype: DataType | DataTypeClass
    unit: str
    meaning: str


def _text(meaning: str) -> Column:
    return Column(pl.String, "", meaning)


def _seconds(meaning: str) -> Column:
    return Column(pl.Float64, "s", meaning)


def _bytes(meaning: str) -> Column:
    return Column(pl.Float64, "bytes", meaning)


_LINE = Column(pl.UInt32, "", "line (text) or row (Parquet) of the source file, counted from 1")

TABLES: Final[Mapping[str, Mapping[str, Column]]] = {
    "tasks": {
        "id": _text("name of the task, unique in the trace"),
        "name": _text("program or application it runs"),
        "user": _text("who submitted it"),
        "group": _text("the group of that user"),
        "queue": _text("queue it was submitted to"),
        "partition": _text("partition of the machine it ran in"),
        "array": _text("the job array it is a member of"),
        "submit_recorded": _seconds("submission in the record that this run replays"),
        "submit": _seconds("submission in this run"),
        "ready": _seconds("when everything it waits for was there"),
        "requested_cores": Column(pl.Float64, "cores", "cores asked for, over all nodes"),
        "requested_nodes": Column(pl.Int64, "nodes", "nodes asked for; null: anywhere"),
        "requested_memory": _bytes("memory asked for, over all nodes"),
        "requested_time": _seconds("upper bound of the run time that the user gave"),
        "requested_mhz": Column(pl.Float64, "MHz", "CPU capacity asked for, over all its cores"),
        "resources": Column(RESOURCES, "", "other resources asked for: gpu, licences..."),
        "run_time": _seconds("how long it ran, where the record says so, also without its start"),
        "cpu_time": _seconds("CPU seconds it used, over all its cores"),
        "memory_used": _bytes("memory it used, over all nodes"),
        "kind": _text("contention kind: how it presses on neighbours and suffers from them"),
        "status": _text("how it ended, one of STATUSES; null: unknown"),
        "exit_code": Column(pl.Int64, "", "exit status of its process; minus the signal if killed"),
        "deadline": _seconds("when it should have ended"),
        "parents": Column(pl.List(pl.String), "", "tasks that must end before it is ready"),
        "think_time": _seconds("pause of the user between the end of the parents and submission"),
        "pid": Column(pl.Int64, "", "process id on its machine; the system may use one again"),
        "line": _LINE,
    },
    "placements": {
        "task": _text("the task"),
        "attempt": Column(pl.Int64, "", "0 for the first time it was started, then 1, 2..."),
        "machine": _text("node it ran on; null: not recorded"),
        "cores": Column(pl.Float64, "cores", "cores it was given there"),
        "memory": _bytes("memory it was given there"),
        "start": _seconds("begin of the execution"),
        "end": _seconds("end of the execution"),
        "reason": _text("why it ended, one of STATUSES or 'preempted', 'migrated'"),
    },
    "usage": {
        "task": _text("the task; null: no task has this process"),
        "machine": _text("node it was sampled on; null: not recorded"),
        "pid": Column(pl.Int64, "", "process id that was sampled"),
        "t": _seconds("end of the sampling window"),
        "dt": _seconds("length of the sampling window"),
        "cpu": Column(pl.Float64, "CPU s", "CPU time used in the window"),
        "rss": _bytes("resident memory at the end of the window"),
        "line": _LINE,
    },
    "nodes": {
        "node": _text("name of the node, unique"),
        "cluster": _text("cluster it belongs to"),
        "cores": Column(pl.Float64, "cores", "cores it has"),
        "mhz": Column(pl.Float64, "MHz", "clock of one core"),
        "memory": _bytes("memory it has"),
        "resources": Column(RESOURCES, "", "other resources it has: gpu, licences..."),
    },
    "node_states": {
        "node": _text("the node"),
        "start": _seconds("begin of the state"),
        "end": _seconds("end of the state; null: until the end of the run"),
        "state": _text("up, down, off, booting, draining, maintenance..."),
    },
    "power": {
        "node": _text("the node; null: all of them together"),
        "t": _seconds("end of the window"),
        "dt": _seconds("length of the window"),
        "watts": Column(pl.Float64, "W", "mean power in the window"),
    },
    "decisions": {
        "t": _seconds("when it was taken"),
        "policy": _text("who took it"),
        "kind": _text("place, reserve, preempt, kill, set-state..."),
        "subject": _text("what it is about: a task or a machine"),
        "target": _text("what was chosen: a machine, a state"),
    },
    "files": {
        "file": _text("name of the file, unique"),
        "size": _bytes("its size; null: not recorded"),
    },
    "task_files": {
        "task": _text("the task"),
        "file": _text("the file"),
        "access": _text("read or write"),
    },
}

#: How a task can end. `lost`: nobody knows, its machine died; `rejected`: it could never fit.
STATUSES: Final = ("completed", "failed", "cancelled", "killed", "rejected", "lost")


def empty(table: str) -> pl.DataFrame:
    """The named table without rows."""
    return pl.DataFrame(schema={name: column.dtype for name, column in TABLES[table].items()})


def conform(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns of the table, in order and of their types.

    Columns that are missing are added as unknown; one that the table does not have, or that
    cannot be cast without loss, is an error.

    >>> conform("files", pl.DataFrame({"file": ["a.txt"]}))["size"].to_list()
    [None]
    """
    columns = TABLES[table]
    unknown = [name for name in frame.columns if name not in columns]
    if unknown:
        raise TwinloopError(f"table '{table}' has no column {', '.join(map(repr, unknown))}")
    parts = []
    for name, column in columns.items():
        if name not in frame.columns:
            parts.append(pl.lit(None, dtype=column.dtype).alias(name))
        elif frame.schema[name] != column.dtype:
            parts.append(pl.col(name).cast(column.dtype, strict=True))
        else:
            parts.append(pl.col(name))
    try:
        return frame.select(parts)
    except pl.exceptions.PolarsError as error:
        raise TwinloopError(f"table '{table}': {error}") from None
