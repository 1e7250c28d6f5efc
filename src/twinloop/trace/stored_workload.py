"""Storage of the workload of a scenario with the trace of its run.

A workload that a scenario had in memory is stored in the trace folder, as files such as
`workload-tasks.parquet`. A column that is equal to a column of the run is not written twice: the
manifest names the column of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl

from twinloop.description.errors import DamagedTraceError
from twinloop.trace.tables import TABLES

#: The kinds of object that can be stored.
KINDS: Final = ("Trace", "Workload")
#: All tables of these kinds.
STORED_TABLES: Final = (*TABLES, "fragments")


@dataclass(frozen=True, eq=False)
class StoredWorkload:
    """A Trace or a Workload as plain tables and plain data.

    >>> StoredWorkload("Trace", {}, {"tasks": pl.DataFrame({"id": ["a"]})}).to_stored().kind
    'Trace'
    """

    #: The kind of the stored object: one of `KINDS`.
    kind: str
    #: The manifest of a Trace, or the clock, epoch and notes of a Workload.
    facts: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]

    def to_stored(self) -> StoredWorkload:
        """Return the object itself, so that a workload read from a folder can be stored again."""
        return self


class StorableWorkload(Protocol):
    """A Trace, a Workload or a StoredWorkload, which can be stored with a run."""

    def to_stored(self) -> StoredWorkload:
        """Convert to plain tables."""
        ...


def workload_file_name(table: str) -> str:
    """Return the file name of a table of the workload in a trace folder.

    >>> workload_file_name("tasks")
    'workload-tasks.parquet'
    """
    return f"workload-{table}.parquet"


#: All files that a stored workload can have.
FILES: Final = tuple(map(workload_file_name, STORED_TABLES))


def write_workload(
    workload: StoredWorkload,
    tables: Mapping[str, pl.DataFrame],
    write: Callable[[pl.DataFrame, str], dict[str, Any]],
) -> dict[str, Any]:
    """Write the tables of a workload beside those of its run; return its entry in the manifest.

    Args:
        workload: The workload.
        tables: The tables of the run.
        write: Writes a table under a file name, and returns its entry in the manifest.
    """
    entries: dict[str, Any] = {}
    for name, frame in workload.tables.items():
        if not frame.height:
            continue
        same = _find_equal_columns(frame, tables.get(name))
        own = [c for c in frame.columns if c not in same and frame[c].null_count() < frame.height]
        written = (
            write(frame.select(own), workload_file_name(name)) if own else {"rows": frame.height}
        )
        entries[name] = written | {"same": same}
    return {"kind": workload.kind, "facts": dict(workload.facts), "tables": entries}


def read_workload(
    entry: Any,
    tables: Mapping[str, pl.DataFrame],
    file: Path,
    read: Callable[[str, Any], pl.DataFrame],
) -> StoredWorkload:
    """Read the workload that the manifest of a trace folder describes.

    Args:
        entry: The entry of the workload in the manifest.
        tables: The tables of the run.
        file: The manifest, for messages.
        read: Reads a file by its name, checked against its entry in the manifest.
    """
    try:
        kind, facts, described = entry["kind"], entry["facts"], entry["tables"]
        if kind not in KINDS or not isinstance(facts, dict) or set(described) - set(STORED_TABLES):
            raise ValueError("its kind or a table is unknown")
        stored = {}
        for name, description in described.items():
            rows, same = description["rows"], description["same"]
            frame = (
                read(workload_file_name(name), description)
                if "sha256" in description
                else pl.DataFrame()
            )
            run = tables.get(name, pl.DataFrame())
            heights = {run.height} if same else set()
            heights |= {frame.height} if "sha256" in description else set()
            if heights != {rows} or set(same) & set(frame.columns):
                raise ValueError(f"its table {name} does not match the run")
            shared = [run[run_column].alias(column) for column, run_column in same.items()]
            stored[name] = pl.DataFrame([*frame.get_columns(), *shared])
    except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise DamagedTraceError(
            f"does not describe a workload: {error}",
            kind="damaged-file",
            file=file,
            field="workload",
        ) from None
    return StoredWorkload(kind, facts, stored)


def _find_equal_columns(frame: pl.DataFrame, run: pl.DataFrame | None) -> dict[str, str]:
    """Find the columns that are equal to a column of the run; map each to that column."""
    equal: dict[str, str] = {}
    if run is None or run.height != frame.height:
        return equal
    for column in frame.columns:
        values = frame[column]
        if values.null_count() == values.len():
            continue
        for run_column in (column, f"{column}_recorded", f"requested_{column}"):
            if (
                run_column in run.columns
                and run[run_column].dtype == values.dtype
                and values.equals(run[run_column])
            ):
                equal[column] = run_column
                break
    return equal
