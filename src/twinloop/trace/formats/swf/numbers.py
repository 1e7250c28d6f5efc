"""Formatting of numbers for SWF: few digits that read back to the same value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_DECIMALS = 15


def find_shortest_decimal(estimate: pl.Series, holds: Callable[[Floats], Bools]) -> pl.Series:
    """Find the value with the fewest decimals next to the estimate for which `holds` is true.

    The products and sums of the reader are inverted so that reading gives the same bits again: the
    plain quotient can be off by one bit, and then has sixteen digits where the log had five. If no
    value is found, the estimate is returned. Null stays null.

    >>> total = 552.21 * 40
    >>> find_shortest_decimal(pl.Series([total / 40]), lambda each: each * 40 == total).item()
    552.21
    """
    known = estimate.is_not_null().to_numpy()
    target = estimate.fill_null(0.0).to_numpy()
    result = target.copy()
    done = ~known
    with np.errstate(over="ignore", invalid="ignore"):
        for values in _iterate_candidates(target):
            fits = holds(values) & ~done
            result[fits] = values[fits]
            done |= fits
            if done.all():
                break
    return pl.Series(estimate.name, result).set(pl.Series(~known), None)


def _iterate_candidates(estimate: Floats) -> Iterator[Floats]:
    for decimals in range(_DECIMALS + 1):
        yield np.round(estimate, decimals)
    yield estimate
    yield np.nextafter(estimate, -np.inf)
    yield np.nextafter(estimate, np.inf)


def format_column(name: str) -> pl.Expr:
    """Format a column as text: integers without a point, other numbers shortest, null as -1.

    >>> pl.DataFrame({"x": [3.0, 0.25, None]}).select(format_column("x"))["x"].to_list()
    ['3', '0.25', '-1']
    """
    value = pl.col(name)
    whole = (value == value.floor()) & (value.abs() < 2.0**53)
    return (
        pl.when(value.is_null())
        .then(pl.lit("-1"))
        .when(whole)
        .then(pl.when(whole).then(value).cast(pl.Int64).cast(pl.String))
        .otherwise(value.cast(pl.String))
    ).alias(name)
