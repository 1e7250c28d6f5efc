"""Readings of power and energy, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from twinloop.trace.manifest import Cleaning, SourceFile

#: The columns of a table of readings.
SCHEMA: Final = {
    "node": pl.String,
    "source": pl.String,
    "t": pl.Float64,
    "joules": pl.Float64,
    "watts": pl.Float64,
}


@dataclass(frozen=True)
class Readings:
    """What meters showed, and when.

    A row is a reading of one source (a counter, a sensor) of one node; a null node is all nodes
    together. `joules` never goes down within a source; `watts` is the power at that moment. A row
    with neither breaks the source: what lies between its neighbours is unknown.

    >>> Readings.recorded([(0.0, [[None, "package-0", 0.0, None]]),
    ...                    (1.0, [[None, "package-0", 55.5, None]])]).table["joules"].to_list()
    [0.0, 55.5]
    """

    table: pl.DataFrame
    #: Unix time in milliseconds from which `t` counts; None: from t = 0 of the run.
    epoch_ms: int | None = None
    files: tuple[SourceFile, ...] = ()
    cleaned: tuple[Cleaning, ...] = ()

    @classmethod
    def recorded(cls, passes: Iterable[tuple[float, Sequence[Sequence[Any]]]]) -> Readings:
        """The readings of a run, from the times and rows of a `PowerRecorder`."""
        rows = [
            (node, source, t, joules, watts)
            for t, readings in passes
            for node, source, joules, watts in readings
        ]
        return cls(pl.DataFrame(rows, schema=SCHEMA, orient="row"))

    @property
    def sources(self) -> list[tuple[str | None, str]]:
        """The node and the source of each series, in the order in which they appear."""
        return self.table.select("node", "source").unique(maintain_order=True).rows()
