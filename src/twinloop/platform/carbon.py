"""Carbon intensity of electricity: a constant, or the path of a time series."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from twinloop.description.description import FilePath
from twinloop.description.errors import InputError
from twinloop.description.quantities import quote_value

_CONSTANT = re.compile(
    r"\s*([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*(g|kg)\s*/\s*kWh\s*", re.ASCII
)
_REMEDY = "give a constant such as 300 g/kWh, or the path of a file"


def read_constant(value: Any) -> float | None:
    """Parse a constant carbon intensity (g/kWh); None if the value is the path of a file.

    >>> read_constant("300 g/kWh"), read_constant("0.3 kg/kWh"), read_constant(250)
    (300.0, 300.0, 250.0)
    >>> read_constant("carbon.parquet") is None
    True
    """
    if isinstance(value, str):
        match = _CONSTANT.fullmatch(value)
        if match is None:
            return None
        grams = float(match[1]) * (1000.0 if match[2] == "kg" else 1.0)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        grams = float(value)
    else:
        raise InputError(
            f"is not a carbon intensity: {quote_value(value)}",
            kind="invalid-quantity",
            remedy=_REMEDY,
        )
    if not (math.isfinite(grams) and grams >= 0):
        raise InputError(
            f"must be 0 g/kWh or more, not {quote_value(value)}",
            kind="out-of-range",
            remedy=_REMEDY,
        )
    return grams


def _parse_intensity(value: Any) -> Any:
    if value is None:
        return None
    constant = read_constant(value)
    return value if constant is None else constant


#: A constant (g/kWh), or the path of a file with the intensity over time.
CarbonIntensity = Annotated[
    float | FilePath,
    BeforeValidator(_parse_intensity),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "minLength": 1}]}
    ),
]
