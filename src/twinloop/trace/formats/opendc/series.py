"""Reader of time series of OpenDC: carbon intensity of the power, and failures of hosts.

Source of names and units: OpenDC's documentation of its inputs (opendc.org).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.formats import parquet
from twinloop.trace.formats.clock import scale_ticks_expr
from twinloop.trace.formats.text_rows import MAX_LOG_TIME, MAX_NUMBER


def read_carbon(path: str | Path) -> pl.DataFrame:
    """Read the carbon intensity over time: `unix_ms` (int64), ascending, and `grams_per_kwh`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     file = temporary + "/carbon.parquet"
    ...     pl.DataFrame({"timestamp": [0, 900_000], "carbon_intensity": [168.0, 167.5]}
    ...                  ).write_parquet(file)
    ...     read_carbon(file).rows()
    [(0, 168.0), (900000, 167.5)]
    """
    path = Path(path)
    columns = {name: (name,) for name in ("timestamp", "carbon_intensity")}
    raw = parquet.load_columns(path, columns, required=tuple(columns))
    series = raw.select(
        "line",
        unix_ms=parquet.cast_milliseconds(raw, "timestamp", path),
        grams_per_kwh=parquet.cast_number(raw, "carbon_intensity", path),
    )
    _refuse(
        series, ~pl.col("unix_ms").abs().le(MAX_LOG_TIME * 1000), path, "timestamp", "is not a time"
    )
    _refuse_negative(series, "grams_per_kwh", path, "carbon_intensity")
    backwards = pl.col("unix_ms") <= pl.col("unix_ms").shift(1)
    _refuse(series, backwards, path, "timestamp", "is not later than the one before")
    return series.select(pl.col("unix_ms").cast(pl.Int64), "grams_per_kwh")


def read_failures(path: str | Path) -> pl.DataFrame:
    """Read failures in order: `interval` since the last one, `duration` (s), `share` of hosts.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     file = temporary + "/failures.parquet"
    ...     pl.DataFrame({"failure_interval": [1000], "failure_duration": [500],
    ...                   "failure_intensity": [0.1]}).write_parquet(file)
    ...     read_failures(file).rows()
    [(1.0, 0.5, 0.1)]
    """
    path = Path(path)
    columns = {
        name: (name,) for name in ("failure_interval", "failure_duration", "failure_intensity")
    }
    raw = parquet.load_columns(path, columns, required=tuple(columns))
    failures = raw.select(
        "line",
        interval=scale_ticks_expr(parquet.cast_milliseconds(raw, "failure_interval", path)),
        duration=scale_ticks_expr(parquet.cast_milliseconds(raw, "failure_duration", path)),
        share=parquet.cast_number(raw, "failure_intensity", path),
    )
    for name in ("interval", "duration"):
        _refuse_negative(failures, name, path, f"failure_{name}")
    outside = ~pl.col("share").is_between(0, 1)
    _refuse(failures, outside, path, "failure_intensity", "is not between 0 and 1")
    return failures.drop("line")


def _refuse_negative(frame: pl.DataFrame, name: str, path: Path, field: str) -> None:
    possible = pl.col(name).is_between(0, MAX_NUMBER)
    _refuse(frame, ~possible, path, field, "is not a number of 0 or more")


def _refuse(frame: pl.DataFrame, bad: pl.Expr, path: Path, field: str, problem: str) -> None:
    column = {
        "timestamp": "unix_ms",
        "carbon_intensity": "grams_per_kwh",
        "failure_intensity": "share",
    }.get(field, field.removeprefix("failure_"))
    # The condition is null in the first row, which has no predecessor; a null value is an error.
    is_bad = (bad & pl.col(column).is_not_null()) | pl.col(column).is_null()
    rows = frame.filter(is_bad.fill_null(False))
    if rows.height:
        raise InputError(
            f"{rows[column][0]} {problem}",
            kind="invalid-value",
            file=path,
            line=rows["line"][0],
            field=field,
        )
