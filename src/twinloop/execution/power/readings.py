"""Readings of power and energy, of a run or of a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.files import SourceFile
from twinloop.trace.formats.cleaning_counts import Tally

#: Columns of a table of readings.
SCHEMA: Final = {
    "node": pl.String,
    "source": pl.String,
    "t": pl.Float64,
    "joules": pl.Float64,
    "watts": pl.Float64,
}


@dataclass(frozen=True)
class Readings:
    """Readings of meters over time.

    A row is a reading of one source (a counter, a sensor) of one node; a null node is all nodes
    together. `joules` never decreases within a source; `watts` is the power at that time. A row
    with neither is a gap: the energy between its neighbours is unknown.

    >>> Readings.from_passes([(0.0, [[None, "package-0", 0.0, None]]),
    ...                    (1.0, [[None, "package-0", 55.5, None]])]).table["joules"].to_list()
    [0.0, 55.5]
    """

    table: pl.DataFrame
    #: Unix time of `t` = 0 in milliseconds; None if `t` is relative to t = 0 of the run.
    epoch_ms: int | None = None
    files: tuple[SourceFile, ...] = ()
    cleaned: tuple[Cleaning, ...] = ()

    @classmethod
    def from_passes(cls, passes: Iterable[tuple[float, Sequence[Sequence[Any]]]]) -> Readings:
        """Make the readings of a run from the times and rows of a `PowerRecorder`."""
        rows = [
            (node, source, t, joules, watts)
            for t, readings in passes
            for node, source, joules, watts in readings
        ]
        return cls(pl.DataFrame(rows, schema=SCHEMA, orient="row"))

    @property
    def sources(self) -> list[tuple[str | None, str]]:
        """Node and source of each series, in the order of appearance."""
        return self.table.select("node", "source").unique(maintain_order=True).rows()


def sort_readings(rows: pl.DataFrame, path: Path, tally: Tally) -> pl.DataFrame:
    """Sort the rows of a file, with their `line`, to a table of readings: each source by time.

    If a source has several readings at the same time, the last is kept.

    >>> rows = pl.DataFrame({"node": ["n", "n"], "source": ["s", "s"], "t": [2.0, 1.0],
    ...                      "joules": [9.0, 4.0], "watts": [None, None], "line": [2, 3]})
    >>> sort_readings(rows, Path("power.csv"), Tally())["t"].to_list()
    [1.0, 2.0]
    """
    key = ["node", "source"]
    late = rows.filter(pl.col("t") < pl.col("t").shift(1).over(key))
    what = "readings that are older than the one before, sorted"
    tally.note_lines("repaired", what, path.name, late["line"])
    rows = rows.sort(*key, "t", maintain_order=True)
    again = rows.filter(pl.col("t") == pl.col("t").shift(-1).over(key))
    what = "readings with another of the same time after them"
    tally.note_lines("removed", what, path.name, again["line"])
    kept = rows.unique([*key, "t"], keep="last", maintain_order=True)
    return kept.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())
