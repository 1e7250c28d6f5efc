"""The columns that a table in text can be mapped to, and the conversion of their cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import parse_unix_us
from twinloop.trace.formats.text_rows import (
    MAX_LOG_TIME,
    CellCheck,
    make_number_check,
    parse_number,
    parse_text,
)
from twinloop.trace.tables import STATUSES, TABLES

#: Units of time in seconds.
TIME_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
#: A point in time, not a number.
DATETIME: Final = "datetime"
#: Units of memory in bytes.
MEMORY_UNITS: Final = {
    "B": 1.0,
    "bytes": 1.0,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}

#: Columns of the execution of a task, for the table `placements`.
PLACEMENT_COLUMNS: Final = ("start", "end", "wait", "machine", "allocated_cores")
#: Times, all on one clock.
CLOCK_COLUMNS: Final = ("submit_recorded", "submit", "ready", "start", "end", "deadline")
DURATION_COLUMNS: Final = ("requested_time", "run_time", "cpu_time", "think_time", "wait")
MEMORY_COLUMNS: Final = ("requested_memory", "memory_used")
_INTEGER_COLUMNS: Final = ("requested_nodes", "exit_code", "pid")
_NUMBER_COLUMNS: Final = ("requested_cores", "requested_mhz", "allocated_cores")

#: All names that a column can be mapped to.
TARGETS: Final = tuple(name for name in TABLES["tasks"] if name not in ("line", "resources")) + (
    PLACEMENT_COLUMNS
)


@dataclass(frozen=True)
class Target:
    """A mapped column: its name, the column of the file, and the unit."""

    name: str
    #: Name of the column in the file, and its column in a batch of rows.
    field: str
    column: str
    unit: str | None

    def units(self) -> tuple[str, ...]:
        """Return the units in which it can be given."""
        if self.name in CLOCK_COLUMNS:
            return (*TIME_UNITS, DATETIME)
        if self.name in DURATION_COLUMNS:
            return tuple(TIME_UNITS)
        return tuple(MEMORY_UNITS) if self.name in MEMORY_COLUMNS else ()

    def choose_unit(self, rows: pl.DataFrame, tally: Tally) -> Target:
        """Return the target with a unit; a unit that was not given is chosen by these rows."""
        if self.unit is not None or not self.units():
            return self
        if self.name in MEMORY_COLUMNS:
            unit = "B"
        elif self.name in CLOCK_COLUMNS and _has_mostly_datetimes(rows, self.column):
            unit = DATETIME
        else:
            unit = "s"
        tally.note("assumed", f"the column '{self.field}' is in {unit}")
        return replace(self, unit=unit)

    def parse(self, rows: pl.DataFrame) -> pl.Series:
        """Parse the column to the units of a Trace; date-times to Unix microseconds."""
        if self.unit == DATETIME:
            text = rows.select(parse_text(self.column)).to_series()
            return parse_unix_us(text).alias(self.name)
        return rows.select(self._parse_cells().alias(self.name)).to_series()

    def check(self) -> CellCheck | None:
        """Return the check for unreadable cells after parsing; None if every text is valid."""
        if self.unit == DATETIME:
            bad = parse_text(self.column).is_not_null() & pl.col(self.name).is_null()
            return CellCheck(self.field, "is not a date and time", bad, self.column)
        if self.name in (*CLOCK_COLUMNS, *DURATION_COLUMNS):
            latest = MAX_LOG_TIME / TIME_UNITS[self.unit or "s"]
            return make_number_check(self.column, self.field, latest)
        if self.name in _INTEGER_COLUMNS:
            number_check = make_number_check(self.column, self.field)
            value = parse_number(self.column)
            not_whole = (value != value.floor()) | (value.abs() > 2**53)
            bad = number_check.bad.fill_null(False) | not_whole.fill_null(False)
            return CellCheck(self.field, "is not a whole number", bad, self.column)
        if self.name in (*MEMORY_COLUMNS, *_NUMBER_COLUMNS):
            return make_number_check(self.column, self.field)
        return None

    def _parse_cells(self) -> pl.Expr:
        if self.name in (*CLOCK_COLUMNS, *DURATION_COLUMNS):
            return parse_number(self.column) * TIME_UNITS[self.unit or "s"]
        if self.name in MEMORY_COLUMNS:
            return parse_number(self.column) * MEMORY_UNITS[self.unit or "B"]
        if self.name in _INTEGER_COLUMNS:
            return parse_number(self.column).cast(pl.Int64, strict=False)
        if self.name in _NUMBER_COLUMNS:
            return parse_number(self.column)
        if self.name == "parents":
            names = pl.col(self.column).str.replace_all(r"[\s,;|]+", " ").str.strip_chars()
            return names.str.split(" ").list.filter(pl.element() != "")
        if self.name == "status":
            return parse_text(self.column).str.to_lowercase()
        return parse_text(self.column)


def clear_unknown_statuses(jobs: pl.DataFrame, file: str, tally: Tally) -> pl.DataFrame:
    """Replace undefined statuses by null, and count them."""
    if "status" not in jobs.columns:
        return jobs
    unknown = jobs.filter(~pl.col("status").is_in(STATUSES))
    what = f"values of status that are none of {', '.join(STATUSES)}"
    tally.note_lines("ignored", what, file, unknown["line"])
    return jobs.with_columns(pl.when(pl.col("status").is_in(STATUSES)).then(pl.col("status")))


def list_time_columns(targets: Iterable[Target], unit: str) -> list[str]:
    """List the columns with times given as date-times, or (for any other unit) as numbers."""
    return [
        t.name
        for t in targets
        if t.name in CLOCK_COLUMNS and (t.unit == DATETIME) == (unit == DATETIME)
    ]


def _has_mostly_datetimes(rows: pl.DataFrame, column: str) -> bool:
    text = rows.select(parse_text(column)).to_series()
    numbers = rows.select(parse_number(column)).to_series()
    return parse_unix_us(text).count() > numbers.count()
