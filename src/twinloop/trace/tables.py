"""The tables of a Trace: type, unit and meaning of every column.

All times are seconds since t = 0 of the run (the manifest has its Unix time); all memory is bytes;
all CPU time is seconds of one core. An unknown value is null, never -1 and never zero. Every table
of a Trace has all of its columns, in this order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

import polars as pl
from polars.datatypes import DataType, DataTypeClass

from twinloop.description.errors import InputError

#: Incremented when a table changes in a way that older readers would misinterpret.
SCHEMA_VERSION: Final = 1

RESOURCES: Final = pl.List(pl.Struct({"name": pl.String, "amount": pl.Float64}))
ENVIRONMENT: Final = pl.List(pl.Struct({"name": pl.String, "value": pl.String}))


class Column(NamedTuple):
    """One column: its type, its unit and its meaning."""

    dtype: DataType | DataTypeClass
    unit: str
    meaning: str


def text_column(meaning: str) -> Column:
    """Make a column of text.

    >>> text_column("user that submits it").dtype
    String
    """
    return Column(pl.String, "", meaning)


def seconds_column(meaning: str) -> Column:
    """Make a column of times or durations.

    >>> seconds_column("latest end that was requested").unit
    's'
    """
    return Column(pl.Float64, "s", meaning)


def _bytes_column(meaning: str) -> Column:
    return Column(pl.Float64, "bytes", meaning)


def _count_column(meaning: str) -> Column:
    return Column(pl.Int64, "", f"{meaning}; null: not counted")


#: Columns of the command of a task.
COMMAND_COLUMNS: Final[Mapping[str, Column]] = {
    "command": Column(pl.List(pl.String), "", "program it runs and its arguments; no shell"),
    "environment": Column(ENVIRONMENT, "", "variables that are set for it"),
    "folder": text_column("folder it runs in"),
}

#: Columns of the performance counters of a task.
COUNTER_COLUMNS: Final[Mapping[str, Column]] = {
    "voluntary_switches": _count_column("times it gave up a CPU to wait"),
    "involuntary_switches": _count_column("times a CPU was taken from it"),
    "minor_faults": _count_column("page faults served from memory"),
    "major_faults": _count_column("page faults that read from a disk"),
    "instructions": _count_column("instructions it retired"),
    "cycles": _count_column("cycles of CPUs that it ran for"),
    "cache_misses": _count_column("accesses that missed the last cache"),
}

_LINE = Column(pl.UInt32, "", "line (text) or row (Parquet) of the source file, counted from 1")

TABLES: Final[Mapping[str, Mapping[str, Column]]] = {
    "tasks": {
        "id": text_column("name of the task, unique in the trace"),
        "name": text_column("program or application it runs"),
        "user": text_column("user that submitted it"),
        "group": text_column("the group of that user"),
        "queue": text_column("queue it was submitted to"),
        "partition": text_column("partition of the machine it ran in"),
        "array": text_column("the job array it is a member of"),
        "submit_recorded": seconds_column("submission in the record that this run replays"),
        "submit": seconds_column("submission in this run"),
        "ready": seconds_column("when all its dependencies had ended"),
        "requested_cores": Column(pl.Float64, "cores", "requested cores, over all nodes"),
        "requested_nodes": Column(pl.Int64, "nodes", "requested nodes; null: any number"),
        "requested_memory": _bytes_column("requested memory, over all nodes"),
        "requested_time": seconds_column("upper bound of the run time that the user gave"),
        "planned_time": seconds_column(
            "run time that a scheduler planned with, where none was requested"
        ),
        "requested_mhz": Column(pl.Float64, "MHz", "requested CPU capacity, over all its cores"),
        "resources": Column(RESOURCES, "", "other requested resources: gpu, licences..."),
        "run_time": seconds_column("how long it ran, also if its start is unknown"),
        "cpu_time": seconds_column("CPU seconds it used, over all its cores"),
        "memory_used": _bytes_column("memory it used, over all nodes"),
        "energy": Column(pl.Float64, "J", "energy of its machines, by its share of their use"),
        "kind": text_column("contention kind, which sets its pressure and its sensitivity"),
        "status": text_column("how it ended, one of STATUSES; null: unknown"),
        "exit_code": Column(pl.Int64, "", "exit status of its process; minus the signal if killed"),
        "deadline": seconds_column("latest end that was requested"),
        "parents": Column(pl.List(pl.String), "", "tasks that must end before it is ready"),
        "think_time": seconds_column(
            "pause of the user between the end of the parents and submission"
        ),
        "pid": Column(pl.Int64, "", "process id on its machine; the system may use one again"),
        **COMMAND_COLUMNS,
        **COUNTER_COLUMNS,
        "line": _LINE,
    },
    "placements": {
        "task": text_column("the task"),
        "attempt": Column(pl.Int64, "", "0 for the first time it was started, then 1, 2..."),
        "machine": text_column("node or instance it ran on; null: not recorded"),
        "cores": Column(pl.Float64, "cores", "cores it was given there"),
        "memory": _bytes_column("memory it was given there"),
        "start": seconds_column("begin of the execution"),
        "end": seconds_column("end of the execution; null: unknown, or after the end of the run"),
        "reason": text_column("why it ended, one of STATUSES or 'preempted', 'migrated'"),
    },
    "usage": {
        "task": text_column("the task; null: no task has this process"),
        "machine": text_column("node or instance it was sampled on; null: not recorded"),
        "pid": Column(pl.Int64, "", "process id that was sampled"),
        "t": seconds_column("end of the sampling window"),
        "dt": seconds_column("length of the sampling window"),
        "cpu": Column(pl.Float64, "CPU s", "CPU time used in the window"),
        "rss": _bytes_column("resident memory at the end of the window"),
        "line": _LINE,
    },
    "nodes": {
        "node": text_column("name of the node, unique"),
        "cluster": text_column("cluster it belongs to"),
        "cores": Column(pl.Float64, "cores", "cores it has"),
        "mhz": Column(pl.Float64, "MHz", "clock of one core"),
        "memory": _bytes_column("memory it has"),
        "resources": Column(RESOURCES, "", "other resources it has: gpu, licences..."),
    },
    "node_states": {
        "node": text_column("the node"),
        "start": seconds_column("begin of the state"),
        "end": seconds_column("end of the state; null: until the end of the run"),
        "state": text_column("up, down, off, booting, draining, maintenance..."),
    },
    "node_periods": {
        "node": text_column("a node that was changed in the run; other nodes have no row"),
        "start": seconds_column("begin of a period without a change"),
        "end": seconds_column("end of it, by a change or the removal; null: the end of the run"),
        "cores": Column(pl.Float64, "cores", "cores it had"),
        "cloud": text_column("cloud it was registered in; null: none"),
    },
    "instances": {
        "instance": text_column("name of the instance; it has a row for each host and size"),
        "host": text_column("node it was on"),
        "cores": Column(pl.Float64, "cores", "cores it had"),
        "memory": _bytes_column("memory it had; null: not limited"),
        "start": seconds_column("since when it was on this host with this size"),
        "end": seconds_column("until when; null: until the end of the run"),
        "reason": text_column(
            "why this period ended: moved, resized or removed; of a rented instance also "
            "suspended, shut-down or left, and at its end released, refused, lost, "
            "expired or interrupted"
        ),
        "cloud": text_column("cloud from which it was rented"),
        "type": text_column("type of the instance in that cloud"),
        "image": text_column("image from which it was started"),
        "user": text_column("user for whom it was rented"),
        "requested": seconds_column("when it was requested; `start` is when it got its host"),
        "ready": seconds_column("when its boot had ended"),
        "price": Column(pl.Float64, "", "price of the instance; null: it is not billed"),
        "tariff": text_column("on-demand, reserved or spot; null: it is not billed"),
        "bid": Column(pl.Float64, "", "its bid at spot prices; null: it has none"),
    },
    "instance_states": {
        "instance": text_column("the instance"),
        "start": seconds_column("begin of the state"),
        "end": seconds_column("end of the state; null: until the end of the run"),
        "state": text_column(
            "down, off, suspended...; of a rented instance: requested, queued, allocated, "
            "initial-transfer, startup, running, migrating, stopped, suspend-transfer, "
            "resume-transfer, shutdown"
        ),
    },
    "power": {
        "node": text_column("the node; null: all of them together"),
        "t": seconds_column("end of the window"),
        "dt": seconds_column("length of the window"),
        "watts": Column(pl.Float64, "W", "mean power in the window"),
    },
    "decisions": {
        "t": seconds_column("when it was taken"),
        "policy": text_column("policy that took it"),
        "kind": text_column(
            "place, reserve, preempt, kill, set-state...; in real runs also notifications"
        ),
        "subject": text_column("the task or machine that it concerns"),
        "target": text_column("chosen machine or state; of a notification, its reason"),
    },
    "transfers": {
        "kind": text_column(
            "read or write by a task; stage-in, stage-out: to the store of its host before, and "
            "from it; image: an instance gets its image; migration: it moves; suspend, "
            "resume: its memory is saved and restored; message: between client and controller of "
            "its cloud; put, get, duplicate, move: requests to a store"
        ),
        "subject": text_column("the task, or the instance, that it is for"),
        "file": text_column("the file; null: no named file"),
        "from": text_column("node, instance or store it comes from"),
        "to": text_column("node, instance or store it goes to"),
        "bytes": _bytes_column("bytes that were moved"),
        "start": seconds_column("when it was requested: it may wait for its store, then latency"),
        "end": seconds_column("its end"),
        "reason": text_column("why it ended: completed or cancelled"),
    },
    "files": {
        "file": text_column("name of the file, unique"),
        "size": _bytes_column("its size; null: not recorded"),
        "store": text_column(
            "store it is in and is written to: a store, a node or `local`; null: the first store"
        ),
    },
    "task_files": {
        "task": text_column("the task"),
        "file": text_column("the file"),
        "access": text_column("read or write"),
    },
    "boots": {
        "instance": text_column("name of the instance that was booted; null: not recorded"),
        "provisioned": seconds_column("provisioning date: when the request was sent"),
        "boot_time": seconds_column("from the request to the end of the boot"),
        "lag": seconds_column("from the end of the boot to the start of its first task"),
        "line": _LINE,
    },
    "task_times": {
        "task": text_column("the task"),
        "wall_time": seconds_column("from its submission to the node to its completion there"),
        "run_time": seconds_column("of the wall time: the computation alone"),
        "management_time": seconds_column(
            "of the wall time: all that is neither computation, input nor output"
        ),
        "before": seconds_column("from ready until a workflow manager had it submitted"),
        "after": seconds_column("from its end until a workflow manager had its children ready"),
    },
}

#: Why a period of an instance on one host with one size can end, and its life.
INSTANCE_PERIOD_ENDS: Final = ("moved", "resized", "suspended", "shut-down", "left")
INSTANCE_ENDS: Final = ("removed", "released", "refused", "lost", "expired", "interrupted")

#: The prices at which an instance can be rented.
TARIFFS: Final = ("on-demand", "reserved", "spot")

#: The states of a rented instance.
INSTANCE_STATES: Final = (
    "requested", "queued", "allocated", "initial-transfer", "startup", "running", "migrating",
    "stopped", "suspend-transfer", "suspended", "resume-transfer", "shutdown",
)  # fmt: skip

#: The kinds of transfers, and how they can end.
TRANSFER_KINDS: Final = (
    "read", "write", "stage-in", "stage-out", "image", "migration", "suspend", "resume", "message",
    "put", "get", "duplicate", "move",
)  # fmt: skip
TRANSFER_ENDS: Final = ("completed", "cancelled")

#: The transfers by which tasks get their files, and by which they give them back.
TASK_READS: Final = ("read", "stage-in")
TASK_WRITES: Final = ("write", "stage-out")

#: How a task can end. `lost`: unknown, because its machine failed; `rejected`: it fits no machine.
STATUSES: Final = ("completed", "failed", "cancelled", "killed", "rejected", "lost")


def make_empty_table(table: str) -> pl.DataFrame:
    """Make the named table without rows."""
    return _cached_empty_table(table).clone()


@cache
def _cached_empty_table(table: str) -> pl.DataFrame:
    return pl.DataFrame(schema={name: column.dtype for name, column in TABLES[table].items()})


def conform_table(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Convert a frame to all columns of a table, in their order and with their types.

    Missing columns are added as null; an unknown column, or one that cannot be cast without loss,
    is an error.

    >>> conform_table("files", pl.DataFrame({"file": ["a.txt"]}))["size"].to_list()
    [None]
    """
    return conform_columns(frame, TABLES[table], f"table '{table}'")


def conform_columns(frame: pl.DataFrame, columns: Mapping[str, Column], label: str) -> pl.DataFrame:
    """Convert a frame to these columns as `conform_table` does; `label` is its name in errors.

    >>> size = {"size": Column(pl.Float64, "bytes", "size")}
    >>> conform_columns(pl.DataFrame({"size": [1]}), size, "it")
    shape: (1, 1)
    ...
    """
    schema = frame.schema
    if list(schema.items()) == [(name, column.dtype) for name, column in columns.items()]:
        return frame.clone()
    unknown = [name for name in schema if name not in columns]
    if unknown:
        raise InputError(
            f"{label} has no column {', '.join(map(repr, unknown))}", kind="wrong-columns"
        )
    casts = []
    for name, dtype in schema.items():
        target = columns[name].dtype
        if dtype == target:
            continue
        if (dtype.is_nested() or dtype == pl.Binary) and not target.is_nested():
            raise InputError(
                f"{label}: column '{name}' is {dtype}, not {target}", kind="wrong-columns"
            )
        casts.append(pl.col(name).cast(target, strict=True))
    try:
        frame = frame.with_columns(casts) if casts else frame
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{label}: {error}", kind="wrong-columns") from None
    # From series, which avoids the query planning of Polars for expressions.
    return pl.DataFrame(
        [
            frame[name]
            if name in schema
            else pl.Series(name, [None], column.dtype).new_from_index(0, frame.height)
            for name, column in columns.items()
        ]
    )
