"""Parsing of the values of Nextflow: with units for people, or raw numbers (`trace.raw = true`).

Raw numbers are milliseconds for durations and dates, and bytes for memory. Values for people are
rounded: a duration to 0.1 s up to a minute, to whole seconds above; memory to a tenth of its unit.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.trace.formats.clock import parse_unix_us
from twinloop.trace.formats.text_rows import parse_text

#: The final status in a Trace of each status of Nextflow.
STATUS_OF: Final = {
    "COMPLETED": "completed",
    "CACHED": "completed",
    "FAILED": "failed",
    "ABORTED": "killed",
}
#: Status of tasks that have not ended.
UNFINISHED: Final = ("NEW", "SUBMITTED", "RUNNING")

_RAW: Final = r"^[0-9]{1,18}$"
_NUMBER: Final = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"
_DURATION: Final = rf"^(?:{_NUMBER}\s*(?:ms|s|m|h|d)\s*)+$"
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# Powers of 1024, whatever the name of the unit: "1 KB" are 1,024 bytes.
_MEMORY: Final = rf"^{_NUMBER}\s*([KMGTPEZ]?)B$"
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6, "Z": 7}


def parse_cell(column: str) -> pl.Expr:
    """Parse the text of a column; null for `-`, the missing value."""
    text = parse_text(column)
    return pl.when(text != "-").then(text)


def duration_to_seconds(column: str) -> pl.Expr:
    """Convert `1m 3s` or milliseconds to seconds; null for any other text.

    >>> frame = pl.DataFrame({"t": ["1d 2h 3m 4s", "352ms", "4.5s", "1500", "-", "soon"]})
    >>> frame.select(t=duration_to_seconds("t"))["t"].to_list()
    [93784.0, 0.352, 4.5, 1.5, None, None]
    """
    text = parse_cell(column)
    parts = [
        text.str.extract(rf"(?:^|[a-z ]){_NUMBER}\s*{unit}(?:[^a-z]|$)", 1)
        .cast(pl.Float64, strict=False)
        .fill_null(0.0)
        * factor
        for unit, factor in _UNITS.items()
    ]
    raw = text.cast(pl.Float64, strict=False) / 1000.0
    return (
        pl.when(text.str.contains(_RAW))
        .then(raw)
        .when(text.str.contains(_DURATION))
        .then(sum(parts[1:], parts[0]))
    )


def memory_to_bytes(column: str) -> pl.Expr:
    """Convert `29.8 MB` or bytes to bytes; null for any other text.

    >>> frame = pl.DataFrame({"m": ["1.5 KB", "2 GB", "0", "300", "-", "much"]})
    >>> frame.select(m=memory_to_bytes("m"))["m"].to_list()
    [1536.0, 2147483648.0, 0.0, 300.0, None, None]
    """
    text = parse_cell(column)
    power = text.str.extract(_MEMORY, 2).replace_strict(
        _POWERS, default=None, return_dtype=pl.Int64
    )
    scaled = text.str.extract(_MEMORY, 1).cast(pl.Float64) * pl.lit(1024.0).pow(power)
    raw = text.cast(pl.Float64, strict=False)
    return pl.when(text.str.contains(_RAW)).then(raw).otherwise(scaled.round())


def percent_to_share(column: str) -> pl.Expr:
    """Convert `35.7%` or `35.7` to a share; null for any other text.

    >>> frame = pl.DataFrame({"p": ["130.1%", "50", "-"]})
    >>> frame.select(p=percent_to_share("p"))["p"].to_list()
    [1.301, 0.5, None]
    """
    text = parse_cell(column)
    number = text.str.extract(rf"^{_NUMBER}\s*%?$", 1).cast(pl.Float64)
    return number / pl.lit(100.0)


def parse_dates(text: pl.Series, utc_offset: float) -> pl.Series:
    """Parse dates as Unix microseconds: milliseconds since 1970, or a date and time without zone.

    >>> dates = pl.Series(["1700000000123", "2023-11-14 22:13:20.123", None, "now"])
    >>> parse_dates(dates, 0.0).to_list()
    [1700000000123000, 1700000000123000, None, None]
    """
    is_raw = text.str.contains(_RAW).fill_null(False)
    dates = parse_unix_us(text.set(is_raw, None), utc_offset=utc_offset)
    raw = text.set(~is_raw, None).cast(pl.Int64, strict=False) * 1000
    return pl.select(pl.coalesce(dates, raw)).to_series().rename(text.name)
