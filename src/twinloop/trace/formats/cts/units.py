"""Conversion of the units of a Trace to the integer units of the schema."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.clock import scale_ticks

KB: Final = 1 << 10
MB: Final = 1 << 20

#: Whole milliseconds up to this limit convert to seconds in float64 and back without change.
MAX_INTEGER: Final = 1 << 49


def to_milliseconds(values: pl.Series, what: str, tally: Tally, *, zero: int = 0) -> pl.Series:
    """Convert seconds to whole milliseconds after `zero`; changed values are counted."""
    rounded = _clear_out_of_range((values * 1000.0).round(), MAX_INTEGER - abs(zero), what, tally)
    _note_changed(scale_ticks(rounded), values, f"{what} rounded to milliseconds", tally)
    return rounded.cast(pl.Int64) + zero


def to_whole_units(values: pl.Series, unit: int, what: str, tally: Tally) -> pl.Series:
    """Convert values to whole multiples of a power of two; changed values are counted."""
    rounded = _clear_out_of_range((values / unit).round(), MAX_INTEGER, what, tally)
    _note_changed(rounded * unit, values, f"{what} rounded to whole units", tally)
    return rounded.cast(pl.Int64)


def _clear_out_of_range(values: pl.Series, limit: int, what: str, tally: Tally) -> pl.Series:
    beyond = ~values.is_between(-limit, limit)
    tally.note("ignored", f"{what} out of range", count=int(beyond.sum()))
    return values.set(beyond.fill_null(False), None)


def _note_changed(written: pl.Series, values: pl.Series, what: str, tally: Tally) -> None:
    tally.note("repaired", what, count=int((written != values).sum()))
