"""The kinds of parameters, each with a mapping from the interval 0..1 to values and back.

The kinds are those of Simcal (J. McDonald, "A systematic and automated methodology for calibrating
simulators of parallel and distributed computing systems", dissertation, University of Hawaii, 2026,
section 4.2.2): categorical, ordered, ordinal, linear, exponential.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from twinloop.description.errors import InputError
from twinloop.description.quantities import number_to_text, quote_value

Floats = npt.NDArray[np.float64]
#: A format string such as "{:.3g}Mbps", or a function from the value to a text.
Format = str | Callable[[Any], Any]

#: The largest absolute value of an integer: cells of larger ranges are too narrow for a float.
MAX_INTEGER: Final = 10**12


@dataclass(frozen=True)
class Parameter(ABC):
    """The base of all kinds: a name, and metadata, which are stored but not used."""

    name: str
    metadata: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError(
                f"the name of a parameter must be a text, not {quote_value(self.name)}",
                kind="wrong-type",
            )

    @property
    @abstractmethod
    def levels(self) -> int | None:
        """The number of values; None if the parameter is continuous."""

    @property
    def discrete(self) -> bool:
        """Whether the number of values is finite."""
        return self.levels is not None

    @property
    def ordered(self) -> bool:
        """Whether the values have an order that positions in 0..1 preserve."""
        return True

    @abstractmethod
    def decode_many(self, positions: Floats) -> Any:
        """Return the values at these positions in 0..1: an array of numbers, or a list."""

    @abstractmethod
    def encode(self, value: Any) -> float:
        """Return the position of a value in 0..1; for a discrete value the centre of its cell."""

    def decode(self, position: float) -> Any:
        """Return the value at this position in 0..1."""
        values = self.decode_many(require_unit_interval(np.array([position], dtype=np.float64)))
        return values[0].item() if isinstance(values, np.ndarray) else values[0]

    def format_value(self, value: Any) -> Any:
        """Format the value for the simulator."""
        return value

    def find_cells(self, positions: Floats) -> npt.NDArray[np.int64]:
        """Return the index of the cell of a discrete parameter at each position."""
        return find_equal_cells(positions, self._require_levels())

    def middles(self) -> Floats:
        """Return the middles of all cells of a discrete parameter."""
        levels = self._require_levels()
        return (np.arange(levels) + 0.5) / levels

    def _require_levels(self) -> int:
        if self.levels is None:
            raise self._refuse("is continuous and has no cells", kind="out-of-range")
        return self.levels

    def _refuse(self, problem: str, remedy: str | None = None, *, kind: str) -> InputError:
        return InputError(problem, kind=kind, field=self.name, remedy=remedy)


@dataclass(frozen=True)
class CategoricalParameter(Parameter):
    """One of several values without an order.

    >>> mode = CategoricalParameter("network", ["shared", "star", "tree"])
    >>> mode.decode(0.5), mode.encode("tree"), mode.ordered
    ('star', 0.8333333333333334, False)
    """

    values: Sequence[Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.values, str | bytes) or not isinstance(self.values, Sequence):
            raise self._refuse(
                f"must have a list of values, not {quote_value(self.values)}", kind="wrong-type"
            )
        values = tuple(self.values)
        if not values:
            raise self._refuse("must have at least one value", kind="wrong-count")
        for position, value in enumerate(values):
            if value in values[:position]:
                raise self._refuse(f"has {quote_value(value)} twice", kind="duplicate-name")
        object.__setattr__(self, "values", values)

    @property
    def levels(self) -> int:
        """The number of values."""
        return len(self.values)

    @property
    def ordered(self) -> bool:
        """False: the values have no order."""
        return False

    def decode_many(self, positions: Floats) -> Any:
        """Return the value of the cell at each position."""
        return [self.values[cell] for cell in find_equal_cells(positions, self.levels).tolist()]

    def encode(self, value: Any) -> float:
        """Return the centre of the cell of this value."""
        try:
            return (self.values.index(value) + 0.5) / self.levels
        except ValueError:
            known = ", ".join(quote_value(each) for each in self.values[:10])
            raise self._refuse(
                f"has no value {quote_value(value)}", f"values: {known}", kind="not-a-choice"
            ) from None


@dataclass(frozen=True)
class OrderedParameter(CategoricalParameter):
    """One of several ordered values; each has an equal share of 0..1.

    >>> level = OrderedParameter("parallelism", ["low", "medium", "high"])
    >>> level.decode(0.3), level.decode(0.7), level.ordered
    ('low', 'high', True)
    """

    @property
    def ordered(self) -> bool:
        """True: the values have an order."""
        return True


@dataclass(frozen=True)
class OrdinalParameter(OrderedParameter):
    """One of several numbers, in the order given.

    >>> rate = OrdinalParameter("rate", [10, 100, 1000], format="{}Mbps")
    >>> rate.decode(0.9), rate.format_value(rate.decode(0.9))
    (1000, '1000Mbps')
    """

    values: Sequence[float]
    format: Format | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for value in self.values:
            _check_number(self, value)

    def decode_many(self, positions: Floats) -> npt.NDArray[Any]:
        """Return the number of the cell at each position."""
        return np.asarray(self.values)[find_equal_cells(positions, self.levels)]

    def format_value(self, value: Any) -> Any:
        """Format the number."""
        return _format_number(self.format, value)


@dataclass(frozen=True)
class _RangeParameter(Parameter):
    """A number between two ends."""

    low: float
    high: float
    integer: bool = False
    format: Format | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = _check_number(self, self.low), _check_number(self, self.high)
        if not low < high:
            raise self._refuse(
                f"must have its lower end below its upper end, not {number_to_text(low)} and "
                f"{number_to_text(high)}",
                kind="out-of-range",
            )
        if self.integer:
            for end in (low, high):
                if not end.is_integer():
                    raise self._refuse(
                        f"must have whole numbers as ends, not {number_to_text(end)}",
                        kind="out-of-range",
                    )
                if abs(end) > MAX_INTEGER:
                    raise self._refuse(
                        f"must have ends of at most {MAX_INTEGER:,}, not {number_to_text(end)}",
                        kind="out-of-range",
                    )
        kind = int if self.integer else float
        object.__setattr__(self, "low", kind(low))
        object.__setattr__(self, "high", kind(high))

    @property
    def levels(self) -> int | None:
        """The number of integers in the range; None if the parameter is continuous."""
        return int(self.high - self.low) + 1 if self.integer else None

    def format_value(self, value: Any) -> Any:
        """Format the number."""
        return _format_number(self.format, value)

    def _check_value(self, value: Any) -> float:
        number = _check_number(self, value)
        if not self.low <= number <= self.high:
            raise self._refuse(
                f"must be between {number_to_text(float(self.low))} and "
                f"{number_to_text(float(self.high))}, not {number_to_text(number)}",
                kind="out-of-range",
            )
        if self.integer and not number.is_integer():
            raise self._refuse(
                f"must be a whole number, not {number_to_text(number)}", kind="wrong-type"
            )
        return number


@dataclass(frozen=True)
class LinearParameter(_RangeParameter):
    """A number from a range, with a uniform scale.

    Integers have equal cells, also at the ends.

    >>> LinearParameter("speed_factor", 0.5, 2).decode(0.5)
    1.25
    >>> cores = LinearParameter("cores", 1, 4, integer=True)
    >>> [cores.decode(u) for u in (0, 0.24, 0.26, 0.74, 0.76, 1)]
    [1, 1, 2, 3, 4, 4]
    """

    def decode_many(self, positions: Floats) -> npt.NDArray[Any]:
        """Return the numbers at these positions."""
        if self.levels is not None:
            return int(self.low) + find_equal_cells(positions, self.levels)
        numbers = (1.0 - positions) * self.low + positions * self.high
        return np.clip(numbers, self.low, self.high)

    def encode(self, value: Any) -> float:
        """Return the position of a number."""
        number = self._check_value(value)
        if self.levels is not None:
            return (number - self.low + 0.5) / self.levels
        # Halves, because the width of a range may exceed the largest float.
        return (number / 2 - self.low / 2) / (self.high / 2 - self.low / 2)


@dataclass(frozen=True)
class ExponentialParameter(_RangeParameter):
    """A positive number from a range, with a logarithmic scale.

    An integer k has the cell of the numbers that round to it, also at the ends: its share is
    log((k + 1/2) / (k - 1/2)).

    >>> bandwidth = ExponentialParameter("bandwidth", 1e6, 1e10, format="{:.0f}Bps")
    >>> bandwidth.format_value(bandwidth.decode(0.5))
    '100000000Bps'
    >>> ExponentialParameter.from_exponents("buffer", 0, 10).decode(0.5)
    32.0
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low > 0:
            raise self._refuse(
                f"must have positive ends, not {number_to_text(float(self.low))}",
                "a linear parameter may be zero or negative",
                kind="out-of-range",
            )

    @classmethod
    def from_exponents(
        cls,
        name: str,
        start: float,
        end: float,
        integer: bool = False,
        format: Format | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> ExponentialParameter:
        """Make a parameter from the exponents of two powers of 2.

        >>> ExponentialParameter.from_exponents("cores", 0, 6, integer=True).high
        64
        """
        try:
            low, high = 2.0**start, 2.0**end
        except (OverflowError, TypeError):
            raise InputError(
                f"must have exponents of 2 as ends, not {quote_value(start)} and "
                f"{quote_value(end)}",
                kind="out-of-range",
                field=name,
            ) from None
        return cls(name, low, high, integer, format, metadata=metadata or {})

    def _find_outer_ends(self) -> tuple[float, float]:
        """Return the lower end of the first cell and the upper end of the last."""
        return (self.low - 0.5, self.high + 0.5) if self.integer else (self.low, self.high)

    def decode_many(self, positions: Floats) -> npt.NDArray[Any]:
        """Return the numbers at these positions."""
        low, high = self._find_outer_ends()
        numbers = low * np.exp2(positions * (math.log2(high) - math.log2(low)))
        if self.integer:
            return np.clip(np.rint(numbers), self.low, self.high).astype(np.int64)
        return np.clip(np.where(positions == 1.0, high, numbers), low, high)

    def encode(self, value: Any) -> float:
        """Return the position of a number."""
        number = self._check_value(value)
        low, high = (math.log2(end) for end in self._find_outer_ends())
        if self.integer:
            inside = (math.log2(number - 0.5) + math.log2(number + 0.5)) / 2
        else:
            inside = math.log2(number)
        return min(max((inside - low) / (high - low), 0.0), 1.0)

    def find_cells(self, positions: Floats) -> npt.NDArray[np.int64]:
        """Return the index of the cell at each position; cells are narrower at larger numbers."""
        self._require_levels()
        return self.decode_many(positions) - int(self.low)

    def middles(self) -> Floats:
        """Return the middles of all cells."""
        return np.array(
            [self.encode(int(self.low) + cell) for cell in range(self._require_levels())]
        )


def find_equal_cells(positions: Floats, levels: int) -> npt.NDArray[np.int64]:
    """Find the index of the cell at each position, for `levels` equal cells of 0..1.

    >>> find_equal_cells(np.array([0.0, 0.49, 0.5, 1.0]), 2).tolist()
    [0, 0, 1, 1]
    """
    return np.minimum((positions * levels).astype(np.int64), levels - 1)


def require_unit_interval(positions: Floats) -> Floats:
    """Return the positions if all of them are in 0..1.

    >>> require_unit_interval(np.array([0.5, 1.5]))
    Traceback (most recent call last):
    twinloop.InputError: a position must be between 0 and 1, not 1.5 [TL0206]
    """
    inside = (positions >= 0.0) & (positions <= 1.0)
    if not inside.all():
        wrong = float(positions[~inside].flat[0])
        raise InputError(f"a position must be between 0 and 1, not {wrong}", kind="out-of-range")
    return positions


def _check_number(parameter: Parameter, value: Any) -> float:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise parameter._refuse(f"must be a number, not {quote_value(value)}", kind="wrong-type")
    if not abs(value) < math.inf:
        raise parameter._refuse(
            f"must be a finite number, not {quote_value(value)}", kind="out-of-range"
        )
    return float(value)


def _format_number(format_text: Format | None, value: Any) -> Any:
    if format_text is None:
        return value
    if not isinstance(format_text, str):
        return format_text(value)
    try:
        return format_text.format(value)
    except (ValueError, IndexError, KeyError, AttributeError) as error:
        raise InputError(
            f"cannot format {quote_value(value)} with {quote_value(format_text)}: {error}",
            kind="invalid-template",
            remedy='give a format such as "{:.3g}Mbps"',
        ) from None
