"""Temperature at a cloud over time: a constant, pairs of times and values, or a file."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import BeforeValidator, WithJsonSchema

from twinloop.description.description import FilePath
from twinloop.description.errors import InputError
from twinloop.description.quantities import DURATION, quote_value

_CONSTANT: Final = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*(?:°?C)?\s*", re.ASCII)
_REMEDY: Final = "give a constant such as 20 °C, pairs of time and temperature, or a file"
_FILE_REMEDY: Final = (
    "write a table with the columns temperature (°C) and t (s since t = 0) or unix_ms"
)


def _read_degrees(value: Any) -> float | None:
    """Read a temperature in °C; None if the value is none."""
    if isinstance(value, str):
        match = _CONSTANT.fullmatch(value)
        return None if match is None else float(match[1])
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return None


def _check_finite(value: float) -> float:
    if not math.isfinite(value):
        raise InputError("must be a finite number", kind="out-of-range", remedy=_REMEDY)
    return value


def _read_pair(pair: Any, position: int) -> tuple[float, float]:
    values = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
    degrees = _read_degrees(values[1])
    if degrees is None:
        raise InputError(
            f"entry {position + 1} must be a time and a temperature, not {quote_value(pair)}",
            kind="wrong-type",
            remedy="such as [6h, 18.5]",
        )
    return DURATION.read(values[0]), _check_finite(degrees)


def _read_temperature(value: Any) -> Any:
    """Read a constant or pairs; a text that is no number is the path of a file."""
    if value is None:
        return None
    degrees = _read_degrees(value)
    if degrees is not None:
        return _check_finite(degrees)
    if isinstance(value, str) and value.strip():
        return value
    if not isinstance(value, list | tuple) or not value:
        raise InputError(
            f"is not a temperature: {quote_value(value)}", kind="wrong-type", remedy=_REMEDY
        )
    pairs = tuple(_read_pair(pair, i) for i, pair in enumerate(value))
    for i in range(1, len(pairs)):
        if not pairs[i][0] > pairs[i - 1][0]:
            raise InputError(
                f"the time of entry {i + 1} must be after that of the entry before",
                kind="wrong-order",
                remedy="sort the entries by time",
            )
    return pairs


#: A constant (°C), pairs of time (s) and temperature, or the path of a file.
Temperature = Annotated[
    float | FilePath | tuple[tuple[float, float], ...],
    BeforeValidator(_read_temperature),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                {"type": "string", "minLength": 1},
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "array",
                        "minItems": 2,
                        "maxItems": 2,
                        "items": {"type": ["number", "string"]},
                    },
                },
            ]
        }
    ),
]


def load_temperature(
    given: float | str | tuple[tuple[float, float], ...], epoch_ms: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the times (s since t = 0) of a temperature and its values from each time on (°C).

    The last value has no end. The first time of a constant is minus infinity.

    >>> [each.tolist() for each in load_temperature(((0.0, 15.0), (3600.0, 18.5)))]
    [[0.0, 3600.0], [15.0, 18.5]]
    """
    if isinstance(given, str):
        return _read_file(Path(given), epoch_ms)
    pairs = ((-math.inf, float(given)),) if isinstance(given, int | float) else given
    times, values = np.array(pairs, dtype=np.float64).T
    return times, values


def _read_file(path: Path, epoch_ms: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    def refuse(problem: str, line: int | None = None, remedy: str = _FILE_REMEDY) -> NoReturn:
        raise InputError(problem, kind="wrong-columns", file=path, line=line, remedy=remedy)

    try:
        header, *rows = list(csv.reader(path.read_text().splitlines())) or [[]]
        table = pl.DataFrame(rows, schema=dict.fromkeys(header, pl.String), orient="row")
    except (OSError, UnicodeError, csv.Error, pl.exceptions.PolarsError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else str(error)
        refuse(f"cannot be read: {reason.splitlines()[0] if reason else 'no data'}")
    clock = next((name for name in ("t", "unix_ms") if name in table.columns), None)
    if clock is None or "temperature" not in table.columns:
        refuse(f"lacks a column: it has {', '.join(table.columns)}", 1)
    numbers = table.select(
        pl.col(clock, "temperature").str.strip_chars().cast(pl.Float64, strict=False)
    )
    for name in (clock, "temperature"):
        is_bad = numbers.select((~pl.col(name).is_finite()).fill_null(True))[name]
        if is_bad.any():
            row = int(is_bad.arg_true()[0])
            refuse(f"{name} is not a number: {quote_value(table[name][row])}", row + 2)
    times, values = numbers[clock].to_numpy(), numbers["temperature"].to_numpy()
    if not times.size:
        refuse("has no rows")
    is_late = np.diff(times) <= 0
    if is_late.any():
        refuse("the times must increase", int(np.argmax(is_late)) + 3, "sort the rows by time")
    if clock == "unix_ms":
        if epoch_ms is None:
            raise InputError(
                "is in unix_ms, but the trace has no date of t = 0",
                kind="unknown-date",
                file=path,
                remedy="give t in seconds since t = 0",
            )
        times = (times - epoch_ms) / 1000
    return times, values
