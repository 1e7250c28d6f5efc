"""The distribution of a quantity over tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

_QUANTILE_LEVELS = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Mean, percentiles and maximum of a quantity over the tasks with a known value.

    Percentiles are interpolated linearly (NumPy's default, method 7 of Hyndman and Fan 1996): of n
    sorted values, the p-quantile is at position p (n - 1).

    >>> Distribution.of(pl.Series([4.0, 0.0, None]))
    Distribution(known=2, mean=2.0, p50=2.0, p95=3.8, p99=3.96, max=4.0)
    """

    known: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: pl.Series) -> Distribution | None:
        """Compute the distribution of a column; None if it has no value."""
        sorted_values = values.drop_nulls().sort().to_numpy()
        if not sorted_values.size:
            return None
        p50, p95, p99 = (float(q) for q in np.quantile(sorted_values, _QUANTILE_LEVELS))
        # Clipped because rounding may move the mean of equal values away from them.
        mean = float(np.clip(sorted_values.mean(), sorted_values[0], sorted_values[-1]))
        return cls(int(sorted_values.size), mean, p50, p95, p99, float(sorted_values[-1]))
