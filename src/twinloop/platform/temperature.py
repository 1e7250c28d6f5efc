"""Temperature at a cloud over time: a constant, pairs of times and values, or a file."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, WithJsonSchema

from twinloop.description.description import FilePath
from twinloop.description.errors import InputError
from twinloop.platform.time_series import SERIES_SCHEMAS, load_series, read_series

_CONSTANT: Final = re.compile(r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*(?:°?C)?\s*", re.ASCII)
_REMEDY: Final = "give a constant such as 20 °C, pairs of time and temperature, or a file"


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


def _read_entry(value: Any) -> float | None:
    degrees = _read_degrees(value)
    return None if degrees is None else _check_finite(degrees)


def _read_temperature(value: Any) -> Any:
    """Read a constant or pairs; a text that is no number is the path of a file."""
    if value is None:
        return None
    degrees = _read_degrees(value)
    if degrees is not None:
        return _check_finite(degrees)
    return read_series(value, "temperature", _read_entry, (_REMEDY, "such as [6h, 18.5]"))


#: A constant (°C), pairs of time (s) and temperature, or the path of a file.
Temperature = Annotated[
    float | FilePath | tuple[tuple[float, float], ...],
    BeforeValidator(_read_temperature),
    WithJsonSchema({"anyOf": [{"type": "number"}, *SERIES_SCHEMAS]}),
]


def load_temperature(
    given: float | str | tuple[tuple[float, float], ...], epoch_ms: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the times (s since t = 0) of a temperature and its values from each time on (°C).

    The last value has no end. The first time of a constant is minus infinity.

    >>> [each.tolist() for each in load_temperature(((0.0, 15.0), (3600.0, 18.5)))]
    [[0.0, 3600.0], [15.0, 18.5]]
    """
    if isinstance(given, int | float):
        given = ((-math.inf, float(given)),)
    return load_series(given, "temperature", "°C", epoch_ms)
