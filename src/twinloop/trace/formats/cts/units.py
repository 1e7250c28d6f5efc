"""The whole units of the schema, and those of a Trace."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import scale_ticks

KB: Final = 1 << 10
MB: Final = 1 << 20

#: Milliseconds up to here, as seconds in a double, come back to the same integer.
MAX_INTEGER: Final = 1 << 49


def to_milliseconds(values: pl.Series, what: str, tally: Tally, *, zero: int = 0) -> pl.Series:
    """Seconds as whole milliseconds after `zero`; what that changes is counted."""
    whole = _bounded((values * 1000.0).round(), MAX_INTEGER - abs(zero), what, tally)
    _note_changed(scale_ticks(whole), values, f"{what} rounded to milliseconds", tally)
    return whole.cast(pl.Int64) + zero


def to_whole_units(values: pl.Series, unit: int, what: str, tally: Tally) -> pl.Series:
    """Values as whole multiples of a unit that is a power of two; what that changes is counted."""
    whole = _bounded((values / unit).round(), MAX_INTEGER, what, tally)
    _note_changed(whole * unit, values, f"{what} rounded to whole units", tally)
    return whole.cast(pl.Int64)


def _bounded(values: pl.Series, limit: int, what: str, tally: Tally) -> pl.Series:
    beyond = ~values.is_between(-limit, limit)
    tally.note("ignored", f"{what} out of range", count=int(beyond.sum()))
    return values.set(beyond.fill_null(False), None)


def _note_changed(written: pl.Series, given: pl.Series, what: str, tally: Tally) -> None:
    tally.note("repaired", what, count=int((written != given).sum()))
