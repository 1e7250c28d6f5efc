"""Positions of the rows of a Trace in its source files."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from twinloop.description.cleaning import EXAMPLES, Cleaning, CleaningKind
from twinloop.trace.trace import Trace

#: Prefixes of the file names of a table, for sources with several files.
_FILE_PREFIXES = {
    "tasks": ("invocations.", "tasks."),
    "usage": ("proc_metrics.", "fragments.", "usage."),
}


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """A line of a source file if known, else a row of a table.

    >>> print(SourcePosition(file="log.swf", line=17), "and", SourcePosition(table="tasks", row=2))
    log.swf:17 and tasks row 3
    """

    table: str = ""
    row: int = 0
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.file is None:
            return f"{self.table} row {self.row + 1}"
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @classmethod
    def from_text(cls, text: str) -> SourcePosition:
        """Parse a position in a note of a manifest, such as 'log.swf:17'."""
        file, _, line = text.rpartition(":")
        return cls(file=file, line=int(line)) if file and line.isdecimal() else cls(file=text)


def locate_row(trace: Trace, table: str, row: int) -> SourcePosition:
    """Locate a row (from 0) of a table in the source.

    A row without a line of its own has the position of its task.

    >>> import polars as pl
    >>> locate_row(Trace(tasks=pl.DataFrame({"id": ["a", "b"]})), "tasks", 1)
    SourcePosition(table='tasks', row=1, file=None, line=None)
    """
    frame: pl.DataFrame = getattr(trace, table)
    source_table = table
    if table in ("placements", "task_files", "task_times"):
        source_table = "tasks"
        frame = trace.tasks.filter(pl.col("id").eq_missing(pl.lit(frame["task"][row])))
        line = frame["line"][0] if frame.height else None
    else:
        line = frame["line"][row] if "line" in frame.columns and row < frame.height else None
    file = _find_file(trace, source_table) if line is not None else None
    return SourcePosition(table, row) if file is None else SourcePosition(table, row, file, line)


def note_rows(trace: Trace, kind: CleaningKind, what: str, table: str, rows: pl.Series) -> Cleaning:
    """Make a cleaning note on some rows of a table, with their first positions."""
    first = rows.sort().head(EXAMPLES).to_list()
    return Cleaning(
        kind=kind,
        what=what,
        count=rows.len(),
        examples=tuple(str(locate_row(trace, table, row)) for row in first),
    )


def _find_file(trace: Trace, table: str) -> str | None:
    source = trace.manifest.source
    names = [] if source is None else [file.name for file in source.files]
    if len(names) == 1:
        return names[0]
    known = next((name for name in names if name.startswith(_FILE_PREFIXES.get(table, ()))), None)
    # A reader of several files without such names has the log first.
    return names[0] if known is None and names and table == "tasks" else known
