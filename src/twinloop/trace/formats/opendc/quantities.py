"""Parsing of quantities in the spelling of OpenDC: a number, bare or with a unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from twinloop.description.errors import InputError

_PREFIXES = {
    "": 1, "k": 10**3, "kilo": 10**3, "m": 10**6, "mega": 10**6, "g": 10**9, "giga": 10**9,
    "t": 10**12, "tera": 10**12, "ki": 2**10, "kibi": 2**10, "mi": 2**20, "mebi": 2**20,
    "gi": 2**30, "gibi": 2**30, "ti": 2**40, "tebi": 2**40,
}  # fmt: skip
_NUMBER = re.compile(r"\s*([-+0-9.eE]+)\s*")


class Quantity(NamedTuple):
    """A kind of quantity: its units, and the unit of a number without one.

    >>> FREQUENCY.read("2.1 GHz"), FREQUENCY.read("2100 megahertz"), FREQUENCY.read(2100)
    (2100.0, 2100.0, 2100.0)
    >>> SIZE.read("1 KiB"), SIZE.read(1), POWER.read("0.2 KWatts")
    (1024.0, 1048576.0, 200.0)
    """

    #: The unit of a number without one, and its factor to the unit of Twinloop.
    default_unit: str
    default_factor: float
    #: The factor of each unit of OpenDC to the unit of Twinloop, as decimal text.
    units: Mapping[str, str]
    ignore_case: bool = True

    def read(self, value: Any) -> float:
        """Convert a quantity to the unit of Twinloop: MHz, bytes, W."""
        number = self._parse(value)
        if number is None or not math.isfinite(number):
            raise InputError(
                f"{_quote(value)} is not a quantity",
                kind="invalid-quantity",
                remedy=f"write it like '100 {self.default_unit}'",
            )
        return number

    def _parse(self, value: Any) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._convert_bare(str(value))
        if isinstance(value, str) and (number := _NUMBER.match(value)):
            rest = value[number.end() :].strip()
            word = rest.casefold() if self.ignore_case else rest
            for unit, factor in self.units.items():
                prefix = word.removesuffix(unit).strip().casefold()
                if word.endswith(unit) and prefix in _PREFIXES:
                    return float(_parse_decimal(number[1]) * _PREFIXES[prefix] * Decimal(factor))
            if not rest:
                return self._convert_bare(number[1])
        return None

    def _convert_bare(self, number: str) -> float:
        return float(_parse_decimal(number)) * self.default_factor


FREQUENCY: Final = Quantity("MHz", 1.0, {"hz": "1e-6", "hertz": "1e-6"})
SIZE: Final = Quantity(
    "MiB",
    2.0**20,
    dict.fromkeys(("B", "Bytes", "bytes", "Byte", "byte"), "1")
    | dict.fromkeys(("b", "bits", "Bits", "bit", "Bit"), "0.125"),
    ignore_case=False,
)
POWER: Final = Quantity("W", 1.0, dict.fromkeys(("watts", "watt", "w"), "1"))


def _parse_decimal(text: str) -> Decimal:
    """Parse a number exactly, so that the conversion of its unit rounds only once."""
    try:
        if math.isfinite(float(text)):
            return Decimal(text)
    except ValueError:
        pass
    raise InputError(f"'{text[:40]}' is not a number", kind="invalid-quantity")


def _quote(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
