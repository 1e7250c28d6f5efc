"""How OpenDC writes quantities: a number, bare or with one of its ways to write a unit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from twinloop.description.errors import InputError

_PREFIXES = {
    "": 1, "k": 10**3, "kilo": 10**3, "m": 10**6, "mega": 10**6, "g": 10**9, "giga": 10**9,
    "t": 10**12, "tera": 10**12, "ki": 2**10, "kibi": 2**10, "mi": 2**20, "mebi": 2**20,
    "gi": 2**30, "gibi": 2**30, "ti": 2**40, "tebi": 2**40,
}  # fmt: skip
_NUMBER = re.compile(r"\s*([-+0-9.eE]+)\s*")


@dataclass(frozen=True)
class Quantity:
    """A kind of quantity: its units, and what a number without one is in.

    >>> FREQUENCY.read("2.1 GHz"), FREQUENCY.read("2100 megahertz"), FREQUENCY.read(2100)
    (2100.0, 2100.0, 2100.0)
    >>> SIZE.read("1 KiB"), SIZE.read(1), POWER.read("0.2 KWatts")
    (1024.0, 1048576.0, 200.0)
    """

    #: The unit of a bare number, and how much of ours that is.
    bare: str
    worth: float
    #: How much of our own unit each of OpenDC's is.
    units: Mapping[str, str]
    ignore_case: bool = True

    def read(self, value: Any) -> float:
        """The quantity in our own unit: MHz, bytes, W."""
        found = self._found(value)
        if found is None or not math.isfinite(found):
            raise InputError(
                f"{_shown(value)} is no quantity", remedy=f"write it like '100 {self.bare}'"
            )
        return found

    def _found(self, value: Any) -> float | None:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._bare(str(value))
        if isinstance(value, str) and (number := _NUMBER.match(value)):
            rest = value[number.end() :].strip()
            word = rest.casefold() if self.ignore_case else rest
            for unit, factor in self.units.items():
                prefix = word.removesuffix(unit).strip().casefold()
                if word.endswith(unit) and prefix in _PREFIXES:
                    return float(_decimal(number[1]) * _PREFIXES[prefix] * Decimal(factor))
            if not rest:
                return self._bare(number[1])
        return None

    def _bare(self, number: str) -> float:
        return float(_decimal(number)) * self.worth


FREQUENCY: Final = Quantity("MHz", 1.0, {"hz": "1e-6", "hertz": "1e-6"})
SIZE: Final = Quantity(
    "MiB",
    2.0**20,
    dict.fromkeys(("B", "Bytes", "bytes", "Byte", "byte"), "1")
    | dict.fromkeys(("b", "bits", "Bits", "bit", "Bit"), "0.125"),
    ignore_case=False,
)
POWER: Final = Quantity("W", 1.0, dict.fromkeys(("watts", "watt", "w"), "1"))


def _decimal(text: str) -> Decimal:
    """The number as it is written, so that changing its unit rounds once."""
    try:
        if math.isfinite(float(text)):
            return Decimal(text)
    except ValueError:
        pass
    raise InputError(f"'{text[:40]}' is no number")


def _shown(value: Any) -> str:
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
