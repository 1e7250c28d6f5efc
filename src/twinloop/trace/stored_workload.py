"""The workload that a scenario held in memory, kept with the trace of its run.

In a trace folder its tables are files beside those of the run, `workload-tasks.parquet` among them.
A column that the run has as well is not written twice: the manifest says which column it equals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import polars as pl

from twinloop.description.errors import DamagedTraceError
from twinloop.trace.tables import TABLES

#: The kinds of object that can be kept.
KINDS: Final = ("Trace", "Workload")
#: The tables that either of them has.
STORED_TABLES: Final = (*TABLES, "fragments")


@dataclass(frozen=True, eq=False)
class StoredWorkload:
    """A Trace or a Workload as plain tables, and what else belongs to it as plain data.

    >>> StoredWorkload("Trace", {}, {"tasks": pl.DataFrame({"id": ["a"]})}).to_stored().kind
    'Trace'
    """

    #: What it is made back into: one of `KINDS`.
    kind: str
    #: Of a Trace its manifest, of a Workload its clock, epoch and notes.
    facts: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]

    def to_stored(self) -> StoredWorkload:
        """Itself: what was read from a folder is kept again as it is."""
        return self


class StorableWorkload(Protocol):
    """What can be kept as the workload of a run: a Trace, a Workload, or one that was read."""

    def to_stored(self) -> StoredWorkload:
        """Itself as plain tables."""
        ...


def workload_file_name(table: str) -> str:
    """The name of the file of a table in a trace folder.

    >>> workload_file_name("tasks")
    'workload-tasks.parquet'
    """
    return f"workload-{table}.parquet"


#: All files that a kept workload can have.
FILES: Final = tuple(map(workload_file_name, STORED_TABLES))


def write_workload(
    kept: StoredWorkload,
    tables: Mapping[str, pl.DataFrame],
    write: Callable[[pl.DataFrame, str], dict[str, Any]],
) -> dict[str, Any]:
    """Write the tables of a workload beside those of its run; what the manifest says of it.

    Args:
        kept: The workload.
        tables: The tables of the run.
        write: Writes a table under a file name, and answers with its rows and its hash.
    """
    said: dict[str, Any] = {}
    for name, frame in kept.tables.items():
        if not frame.height:
            continue
        same = _shared(frame, tables.get(name))
        own = [c for c in frame.columns if c not in same and frame[c].null_count() < frame.height]
        written = (
            write(frame.select(own), workload_file_name(name)) if own else {"rows": frame.height}
        )
        said[name] = written | {"same": same}
    return {"kind": kept.kind, "facts": dict(kept.facts), "tables": said}


def read_workload(
    said: Any,
    tables: Mapping[str, pl.DataFrame],
    file: Path,
    read: Callable[[str, Any], pl.DataFrame],
) -> StoredWorkload:
    """The workload that the manifest of a trace folder describes.

    Args:
        said: What the manifest says of it.
        tables: The tables of the run.
        file: The manifest, for messages.
        read: Reads a file by its name, checked against what the manifest says of it.
    """
    try:
        kind, facts, described = said["kind"], said["facts"], said["tables"]
        if kind not in KINDS or not isinstance(facts, dict) or set(described) - set(STORED_TABLES):
            raise ValueError("it is of an unknown kind")
        found = {}
        for name, one in described.items():
            rows, same = one["rows"], one["same"]
            frame = read(workload_file_name(name), one) if "sha256" in one else pl.DataFrame()
            run = tables.get(name, pl.DataFrame())
            heights = {run.height} if same else set()
            heights |= {frame.height} if "sha256" in one else set()
            if heights != {rows} or set(same) & set(frame.columns):
                raise ValueError(f"its table {name} does not fit the run")
            shared = [run[of].alias(column) for column, of in same.items()]
            found[name] = pl.DataFrame([*frame.get_columns(), *shared])
    except (KeyError, TypeError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
        raise DamagedTraceError(
            f"describes no workload: {error}", file=file, field="workload"
        ) from None
    return StoredWorkload(kind, facts, found)


def _shared(frame: pl.DataFrame, run: pl.DataFrame | None) -> dict[str, str]:
    """The columns that the run has as well, each with the name that it has there."""
    found: dict[str, str] = {}
    if run is None or run.height != frame.height:
        return found
    for column in frame.columns:
        values = frame[column]
        if values.null_count() == values.len():
            continue
        for of in (column, f"{column}_recorded", f"requested_{column}"):
            if of in run.columns and run[of].dtype == values.dtype and values.equals(run[of]):
                found[column] = of
                break
    return found
