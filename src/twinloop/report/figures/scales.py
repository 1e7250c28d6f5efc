"""Scale of the values of a parameter along an axis, and their format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

#: Ratio of the highest to the lowest positive value from which the scale is logarithmic.
_LOG_RATIO: Final = 30.0


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale from the lowest to the highest value of a parameter.

    >>> Scale.of(pl.Series([1.0, 100.0])).get_position(10.0)
    0.5
    >>> Scale.of(pl.Series([0.0, 20.0])).get_position(10.0)
    0.5
    >>> Scale.of(pl.Series(["a", "b", "c"])).get_position("b")
    0.5
    """

    kind: Literal["linear", "log", "category"]
    low: float
    high: float
    #: The categories of a categorical parameter.
    levels: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: pl.Series) -> Scale:
        """Choose the scale of these values: linear, logarithmic or categorical."""
        if not values.dtype.is_numeric():
            levels = tuple(dict.fromkeys(str(value) for value in values))
            return cls("category", 0.0, max(len(levels) - 1.0, 0.0), levels)
        numbers = values.cast(pl.Float64).to_numpy()
        numbers = numbers[np.isfinite(numbers)]
        if not numbers.size:
            return cls("linear", 0.0, 0.0)
        low, high = float(numbers.min()), float(numbers.max())
        return cls("log" if low > 0 and high >= _LOG_RATIO * low else "linear", low, high)

    def get_position(self, value: Any) -> float:
        """Return the position of a value, from 0 to 1; 0.5 if all are equal, NaN for None.

        A category that is not one of the levels has the position of the first.
        """
        if value is None:
            return float("nan")
        if self.kind == "category":
            number = float(self.levels.index(str(value))) if str(value) in self.levels else 0.0
        else:
            number = float(value)
        low, high = self.low, self.high
        if self.kind == "log":
            if number <= 0:
                return 0.0
            number, low, high = (float(np.log(each)) for each in (number, low, high))
        return (number - low) / (high - low) if high > low else 0.5


def format_value(value: Any) -> str:
    """Format a value of a parameter.

    >>> [format_value(value) for value in (1.0734567, "easy", None, 128, 1.2e7)]
    ['1.0735', 'easy', '-', '128', '1.2e+07']
    """
    if value is None:
        return "-"
    if isinstance(value, (float, np.floating)):
        return f"{value:.5g}"
    return str(value)
