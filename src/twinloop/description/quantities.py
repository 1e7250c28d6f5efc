"""Numbers with units: frequencies in MHz, memory in bytes, bandwidths in bytes per second, power in
W, durations in s.

A number without a unit is in the unit of its field. A text is a number and a unit (`2.1 GHz`);
a duration may have several (`1h30m`). Units are case-sensitive.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_PART = re.compile(rf"\s*({_NUMBER})\s*([A-Za-zµ]*(?:/[A-Za-z]+)?)\s*")
_MAX_TEXT = 80

#: Larger times (s) and powers (W) are rejected: in a sum with them, the other values of a run would
#: lose their precision.
MAX_TIME: Final = 1e15
MAX_POWER: Final = 1e15
#: Larger prices are rejected: bills and sums of them must stay finite.
MAX_PRICE: Final = 1e15
#: Largest number of items.
MAX_COUNT: Final = 1_000_000


@dataclass(frozen=True)
class Unit:
    """A kind of quantity: its units, and the unit of stored values and of bare numbers."""

    #: The quantity with its article, for messages: `a frequency`.
    what: str
    #: The unit of stored values and of numbers without a unit.
    stored: str
    #: The size of each unit, in the stored unit.
    factors: Mapping[str, Decimal]
    #: Whether a text may be a sum: `1h30m`.
    is_sum_allowed: bool = False
    #: The largest absolute value that is accepted, in the stored unit.
    max_value: float = math.inf

    def read(self, value: Any) -> float:
        """Convert a number or a text to the stored unit.

        >>> FREQUENCY.read("2.1 GHz"), MEMORY.read("64GiB"), DURATION.read("1h30m")
        (2100.0, 68719476736.0, 5400.0)
        """
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise InputError(
                f"must be {self.what}, not {quote_value(value)}",
                kind="invalid-quantity",
                remedy=self._make_remedy(),
            )
        if not isinstance(value, str):
            try:
                return self._check_range(float(value))
            except OverflowError:
                raise InputError("is a number out of range", kind="out-of-range") from None
        parts = self._split(value)
        if len(parts) == 1 and not parts[0][1]:
            parts = [(parts[0][0], self.stored)]
        total = sum(
            (Decimal(number) * self._find_factor(unit) for number, unit in parts), Decimal()
        )
        return self._check_range(float(total))

    def _check_range(self, value: float) -> float:
        if math.isfinite(value) and abs(value) > self.max_value:
            raise InputError(
                f"{value:g} {self.stored} is beyond {self.max_value:g} {self.stored}, the largest "
                f"{self.what.split(' ', 1)[1]}",
                kind="out-of-range",
            )
        return value

    def _split(self, text: str) -> list[tuple[str, str]]:
        parts, end = [], 0
        while end < len(text) <= _MAX_TEXT and (part := _PART.match(text, end)):
            parts.append((part[1], part[2]))
            end = part.end()
        if not parts or end < len(text) or (len(parts) > 1 and not self.is_sum_allowed):
            raise InputError(
                f"must be {self.what}, not {quote_value(text)}",
                kind="invalid-quantity",
                remedy=self._make_remedy(),
            )
        if not all(math.isfinite(float(number)) for number, _ in parts):
            raise InputError("is a number out of range", kind="out-of-range")
        return parts

    def _find_factor(self, unit: str) -> Decimal:
        if unit in self.factors:
            return self.factors[unit]
        if not unit:
            raise InputError(
                "has a number without a unit", kind="invalid-quantity", remedy=self._make_remedy()
            )
        raise InputError(
            f"'{unit}' is not a unit for {self.what}",
            kind="invalid-quantity",
            remedy=self._suggest_unit(unit),
        )

    def _suggest_unit(self, unit: str) -> str:
        """Return the remedy for an unknown unit; a unit of another kind is no misspelling."""
        if f"{unit}/s" in self.factors:  # an amount in place of a rate
            return f"did you mean '{unit}/s'?"
        if any(unit in other.factors for other in UNITS):
            return self._make_remedy()
        alike = [known for known in self.factors if known.casefold() == unit.casefold()]
        names = " or ".join(f"'{known}'" for known in alike)
        return f"did you mean {names}?" if alike else suggest_name(unit, list(self.factors))

    def _make_remedy(self) -> str:
        return f"write a number in {self.stored}, or with a unit: {', '.join(self.factors)}"

    def schema(self, *, positive: bool = False, minimum: float = 0) -> dict[str, Any]:
        """Return the JSON Schema of such a field."""
        bound = {"exclusiveMinimum": 0} if positive else {"minimum": minimum}
        unit = f"({'|'.join(self.factors)})"
        part = rf"[0-9.]+([eE][-+]?[0-9]+)?\s*{unit}"
        pattern = (
            rf"^\s*(({part}\s*)+|[0-9.eE+-]+)\s*$"
            if self.is_sum_allowed
            else (rf"^\s*({part}|[0-9.eE+-]+)\s*$")
        )
        return {"anyOf": [{"type": "number", **bound}, {"type": "string", "pattern": pattern}]}


def _make_factors(**factors: str) -> dict[str, Decimal]:
    return {unit: Decimal(factor) for unit, factor in factors.items()}


FREQUENCY = Unit("a frequency", "MHz", _make_factors(Hz="1e-6", kHz="1e-3", MHz="1", GHz="1e3"))
MEMORY = Unit(
    "an amount of memory",
    "B",
    _make_factors(B="1", kB="1e3", KB="1e3", MB="1e6", GB="1e9", TB="1e12", PB="1e15")
    | {f"{prefix}iB": Decimal(1024) ** power for power, prefix in enumerate("KMGTP", start=1)},
)
#: Bits (b) and bytes (B) are different units, with decimal prefixes; binary ones for bytes only.
BANDWIDTH = Unit(
    "a bandwidth",
    "B/s",
    {
        f"{prefix}{unit}/s": Decimal(10) ** power / parts
        for power, prefix in ((0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"))
        for unit, parts in (("b", 8), ("bit", 8), ("B", 1))
    }
    | {f"{prefix}iB/s": Decimal(1024) ** power for power, prefix in enumerate("KMGT", start=1)},
)
POWER = Unit(
    "a power", "W", _make_factors(mW="1e-3", W="1", kW="1e3", MW="1e6"), max_value=MAX_POWER
)
DURATION = Unit(
    "a duration",
    "s",
    _make_factors(ms="1e-3", s="1", sec="1", min="60", m="60", h="3600", d="86400", w="604800"),
    is_sum_allowed=True,
    max_value=MAX_TIME,
)
#: All kinds of quantities.
UNITS: Final = (DURATION, MEMORY, FREQUENCY, POWER, BANDWIDTH)


def find_unit(stored: str) -> Unit | None:
    """Find the kind of quantity with this unit of stored values; None if there is none.

    >>> find_unit("MHz").what, find_unit("")
    ('a frequency', None)
    """
    return next((unit for unit in UNITS if unit.stored == stored), None)


MHz = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(FREQUENCY.read),
    WithJsonSchema(FREQUENCY.schema(positive=True)),
]
Bytes = Annotated[
    float, Field(gt=0), BeforeValidator(MEMORY.read), WithJsonSchema(MEMORY.schema(positive=True))
]
Bandwidth = Annotated[
    float,
    Field(gt=0),
    BeforeValidator(BANDWIDTH.read),
    WithJsonSchema(BANDWIDTH.schema(positive=True)),
]
Watts = Annotated[
    float, Field(ge=0), BeforeValidator(POWER.read), WithJsonSchema(POWER.schema(positive=False))
]
Seconds = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(DURATION.read),
    WithJsonSchema(DURATION.schema(positive=False)),
]


def _check_number(value: Any) -> Any:
    # Pydantic would accept numbers in quotes and truth values; here they are errors.
    if isinstance(value, bool | str):
        raise InputError(f"must be a number, not {quote_value(value)}", kind="wrong-type")
    return value


def _check_whole(value: Any) -> Any:
    if isinstance(value, bool | str) or (isinstance(value, float) and not value.is_integer()):
        raise InputError(f"must be a whole number, not {quote_value(value)}", kind="wrong-type")
    return value


Number = Annotated[float, BeforeValidator(_check_number)]
NotNegative = Annotated[float, Field(ge=0), BeforeValidator(_check_number)]
Positive = Annotated[float, Field(gt=0), BeforeValidator(_check_number)]
Price = Annotated[float, Field(ge=0, le=MAX_PRICE), BeforeValidator(_check_number)]
#: Work in seconds of a reference core, with the bound of a time.
CoreSeconds = Annotated[float, Field(ge=0, le=MAX_TIME), BeforeValidator(_check_number)]
#: A factor on work that can only increase it.
Inflation = Annotated[float, Field(ge=1), BeforeValidator(_check_number)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(_check_number)]
#: The standard deviation of a logarithm; e^3 is a factor of 20.
LogSpread = Annotated[float, Field(ge=0, le=3), BeforeValidator(_check_number)]
Whole = Annotated[int, Field(ge=0, le=2**63 - 1), BeforeValidator(_check_whole)]
#: A number of items in a description.
Count = Annotated[int, Field(ge=1, le=MAX_COUNT), BeforeValidator(_check_whole)]
Flag = Annotated[bool, Strict()]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^\S([^\x00-\x1f\x7f]*\S)?$")]


#: A name that may be left out.
Label = Annotated[str, Field(max_length=200, pattern=r"^(\S([^\x00-\x1f\x7f]*\S)?)?$")]


def quote_value(value: Any) -> str:
    """Format a value for an error message, shortened."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def number_to_text(number: float) -> str:
    """Format a number so that it reads back as the same value, without a redundant fraction.

    >>> number_to_text(2400.0), number_to_text(0.5)
    ('2400', '0.5')
    """
    whole = number.is_integer() and abs(number) < 1e15 and repr(number) != "-0.0"
    return str(int(number)) if whole else repr(number)


def memory_to_text(amount: float) -> str:
    """Format an amount of memory in the largest binary unit of which it is a whole multiple.

    >>> memory_to_text(2.0**36), memory_to_text(1e9)
    ('64GiB', '1000000000B')
    """
    for power, prefix in reversed(list(enumerate("KMGTP", start=1))):
        if amount >= 1024**power and (amount / 1024**power).is_integer():
            return f"{number_to_text(amount / 1024**power)}{prefix}iB"
    return f"{number_to_text(amount)}B"
