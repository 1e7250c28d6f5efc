"""What a column of a table in text can mean, and how its cells become values."""

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

#: Seconds of one of a unit of time.
TIME_UNITS: Final = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
#: A point in time, not a number.
DATETIME: Final = "datetime"
#: Bytes of one of a unit of memory.
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

#: Where a task ran and when: columns of `placements` that a row of a task may have.
PLACEMENT_COLUMNS: Final = ("start", "end", "wait", "machine", "allocated_cores")
#: Points in time, all on one clock.
CLOCK_COLUMNS: Final = ("submit_recorded", "submit", "ready", "start", "end", "deadline")
DURATION_COLUMNS: Final = ("requested_time", "run_time", "cpu_time", "think_time", "wait")
MEMORY_COLUMNS: Final = ("requested_memory", "memory_used")
_WHOLE: Final = ("requested_nodes", "exit_code", "pid")
_NUMBERS: Final = ("requested_cores", "requested_mhz", "allocated_cores")

#: All that a column can be read as.
TARGETS: Final = tuple(name for name in TABLES["tasks"] if name not in ("line", "resources")) + (
    PLACEMENT_COLUMNS
)


@dataclass(frozen=True)
class Target:
    """One thing to be read: what it is, from which column, in which unit."""

    name: str
    #: Name of the column in the file, and its place in a batch of rows.
    field: str
    column: str
    unit: str | None

    def units(self) -> tuple[str, ...]:
        """The units in which it can be given."""
        if self.name in CLOCK_COLUMNS:
            return (*TIME_UNITS, DATETIME)
        if self.name in DURATION_COLUMNS:
            return tuple(TIME_UNITS)
        return tuple(MEMORY_UNITS) if self.name in MEMORY_COLUMNS else ()

    def settled(self, rows: pl.DataFrame, tally: Tally) -> Target:
        """The same with a unit; one that was not given is chosen by these rows, and noted."""
        if self.unit is not None or not self.units():
            return self
        if self.name in MEMORY_COLUMNS:
            unit = "B"
        elif self.name in CLOCK_COLUMNS and _mostly_datetimes(rows, self.column):
            unit = DATETIME
        else:
            unit = "s"
        tally.note("assumed", f"the column '{self.field}' is in {unit}")
        return replace(self, unit=unit)

    def parsed(self, rows: pl.DataFrame) -> pl.Series:
        """The column under the target's name, in the units of a Trace; date-times in Unix us."""
        if self.unit == DATETIME:
            text = rows.select(parse_text(self.column)).to_series()
            return parse_unix_us(text).alias(self.name)
        return rows.select(self._value().alias(self.name)).to_series()

    def check(self) -> CellCheck | None:
        """Finds cells that cannot be read, once they are parsed; None: every text is fine."""
        if self.unit == DATETIME:
            bad = parse_text(self.column).is_not_null() & pl.col(self.name).is_null()
            return CellCheck(self.field, "is no date and time", bad, self.column)
        if self.name in (*CLOCK_COLUMNS, *DURATION_COLUMNS):
            latest = MAX_LOG_TIME / TIME_UNITS[self.unit or "s"]
            return make_number_check(self.column, self.field, latest)
        if self.name in _WHOLE:
            found = make_number_check(self.column, self.field)
            value = parse_number(self.column)
            part = (value != value.floor()) | (value.abs() > 2**53)
            bad = found.bad.fill_null(False) | part.fill_null(False)
            return CellCheck(self.field, "is no whole number", bad, self.column)
        if self.name in (*MEMORY_COLUMNS, *_NUMBERS):
            return make_number_check(self.column, self.field)
        return None

    def _value(self) -> pl.Expr:
        if self.name in (*CLOCK_COLUMNS, *DURATION_COLUMNS):
            return parse_number(self.column) * TIME_UNITS[self.unit or "s"]
        if self.name in MEMORY_COLUMNS:
            return parse_number(self.column) * MEMORY_UNITS[self.unit or "B"]
        if self.name in _WHOLE:
            return parse_number(self.column).cast(pl.Int64, strict=False)
        if self.name in _NUMBERS:
            return parse_number(self.column)
        if self.name == "parents":
            names = pl.col(self.column).str.replace_all(r"[\s,;|]+", " ").str.strip_chars()
            return names.str.split(" ").list.filter(pl.element() != "")
        if self.name == "status":
            return parse_text(self.column).str.to_lowercase()
        return parse_text(self.column)


def clear_unknown_statuses(jobs: pl.DataFrame, file: str, tally: Tally) -> pl.DataFrame:
    """Only statuses that a Trace knows; others become unknown, and are counted."""
    if "status" not in jobs.columns:
        return jobs
    odd = jobs.filter(~pl.col("status").is_in(STATUSES))
    what = f"values of status that are none of {', '.join(STATUSES)}"
    tally.note_lines("ignored", what, file, odd["line"])
    return jobs.with_columns(pl.when(pl.col("status").is_in(STATUSES)).then(pl.col("status")))


def list_time_columns(targets: Iterable[Target], unit: str) -> list[str]:
    """The points in time that are given as date-times, or (for any other unit) as numbers."""
    return [
        t.name
        for t in targets
        if t.name in CLOCK_COLUMNS and (t.unit == DATETIME) == (unit == DATETIME)
    ]


def _mostly_datetimes(rows: pl.DataFrame, column: str) -> bool:
    text = rows.select(parse_text(column)).to_series()
    numbers = rows.select(parse_number(column)).to_series()
    return parse_unix_us(text).count() > numbers.count()
