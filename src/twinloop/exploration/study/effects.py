"""What each factor of a study does to a KPI, alone and together with another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError
from twinloop.metrics.confidence import moments

Floats = NDArray[np.float64]

#: What the level of a factor is called where it is not active.
INACTIVE: Final = "-"
#: Numbers with more levels than this are put into quarters.
MOST_LEVELS: Final = 8
_BINS: Final = 4

_MAIN: Final = {
    "factor": pl.String,
    "level": pl.String,
    "runs": pl.Int64,
    **dict.fromkeys(("mean", "effect", "low", "high", "share"), pl.Float64),
}
_PAIRS: Final = {
    **dict.fromkeys(("factor", "other", "level", "other_level"), pl.String),
    "runs": pl.Int64,
    **dict.fromkeys(("mean", "interaction", "share"), pl.Float64),
}


def compute_main_effects(runs: pl.DataFrame, factors: Sequence[str], kpi: str) -> pl.DataFrame:
    """What each level of each factor does to a KPI: a row per factor and level.

    `mean` is that over all runs with the level, `low` and `high` its 95 % confidence interval
    (null where there is one run), and `effect` how far it lies from the mean of all runs in which
    the factor is active. Where it is not, the level is called `-`, and has no effect. In a design
    that is not balanced these means contain what other factors do; `share` does not.

    `share` is the part of the variance between the runs that the factor explains: the sum of
    squares by which the least squares fit of all factors is better than that of all others (type
    II), over the whole. In a balanced factorial it is the classical one of the analysis of
    variance, and the shares of factors, interactions and noise add up to 1. A factor that is not
    active everywhere explains only differences between runs in which it is; that some have it and
    others not belongs to the factor on which that depends.

    A number with more than eight levels, as of a Latin hypercube, is put into quarters of as many
    runs each, such as `1 to 1.23`. Runs that failed, and so have no KPI, are left out.

    Args:
        runs: A row per run: a column for each factor, null where it is not active, and the KPI.
        factors: Names of the columns of factors.
        kpi: Name of the column to explain.

    >>> runs = pl.DataFrame({"policy": ["fifo", "fifo", "easy", "easy"], "cores": [8, 16, 8, 16],
    ...                      "makespan_s": [100.0, 60.0, 90.0, 50.0]})
    >>> table = compute_main_effects(runs, ["policy", "cores"], "makespan_s")
    >>> table.select("level", "mean", "effect").rows()
    [('fifo', 80.0, 5.0), ('easy', 70.0, -5.0), ('8', 95.0, 20.0), ('16', 55.0, -20.0)]
    >>> [round(share, 3) for share in table["share"].unique(maintain_order=True)]
    [0.059, 0.941]
    """
    known = _Known(runs, factors, kpi)
    whole = known.explained(known.factors)
    rows: list[dict[str, Any]] = []
    for name, factor in known.factors.items():
        others = {other: each for other, each in known.factors.items() if other != name}
        share = known.share(whole - known.explained(others))
        active = known.values[factor.active]
        middle = _mean(active) if len(active) else 0.0
        for code, label in (*enumerate(factor.labels), (-1, INACTIVE)):
            found = known.values[factor.codes == code]
            if not len(found):
                continue
            low, high = _limits(found)
            rows.append(
                {
                    "factor": name,
                    "level": label,
                    "runs": len(found),
                    "mean": _mean(found),
                    "effect": None if code < 0 else _mean(found) - middle,
                    "low": low,
                    "high": high,
                    "share": share,
                }
            )
    return pl.DataFrame(rows, schema=_MAIN)


def compute_interactions(runs: pl.DataFrame, factors: Sequence[str], kpi: str) -> pl.DataFrame:
    """What levels of two factors do together: a row per pair of factors and pair of levels.

    `mean` is that over the runs with both levels; pairs of levels that no run has are left out.
    `interaction` is what is left of it when all factors are taken to add up: the mean of the
    residuals of their least squares fit. In a balanced factorial that is mean - mean of the level
    - mean of the other level + mean of all. `share` is the part of the variance that this pair of
    factors explains beyond all factors alone. Levels are as in `compute_main_effects`.

    >>> runs = pl.DataFrame({"policy": ["fifo", "fifo", "easy", "easy"], "cores": [8, 16, 8, 16],
    ...                      "makespan_s": [100.0, 60.0, 60.0, 100.0]})
    >>> table = compute_interactions(runs, ["policy", "cores"], "makespan_s")
    >>> table.select("level", "other_level", "interaction").rows()
    [('fifo', '8', 20.0), ('fifo', '16', -20.0), ('easy', '8', -20.0), ('easy', '16', 20.0)]
    >>> round(table["share"][0], 3)
    1.0
    """
    known = _Known(runs, factors, kpi)
    left = known.residuals()
    whole = known.explained(known.factors)
    rows: list[dict[str, Any]] = []
    for (name, one), (other_name, other) in combinations(known.factors.items(), 2):
        both = _products(one.columns, other.columns)
        share = known.share(known.explained(known.factors, both) - whole)
        for code, label in enumerate(one.labels):
            for other_code, other_label in enumerate(other.labels):
                here = (one.codes == code) & (other.codes == other_code)
                if not here.any():
                    continue
                rows.append(
                    {
                        "factor": name,
                        "other": other_name,
                        "level": label,
                        "other_level": other_label,
                        "runs": int(here.sum()),
                        "mean": _mean(known.values[here]),
                        "interaction": _mean(left[here]),
                        "share": share,
                    }
                )
    return pl.DataFrame(rows, schema=_PAIRS)


class _Factor:
    """The levels of a factor by number, in the order in which they first occur; -1: not active."""

    def __init__(self, column: pl.Series) -> None:
        self.active = column.is_not_null().to_numpy()
        self.codes = np.full(len(column), -1, dtype=np.int64)
        present = column.drop_nulls()
        if present.dtype.is_numeric() and present.n_unique() > MOST_LEVELS:
            self.labels, codes = _quarters(present)
        else:
            levels = present.unique(maintain_order=True)
            self.labels = [_said(level) for level in levels]
            places = {level: code for code, level in enumerate(levels)}
            codes = np.array([places[level] for level in present], dtype=np.int64)
        self.codes[self.active] = codes

    @property
    def columns(self) -> Floats:
        """A column per level, each with a mean of 0 where the factor is active, and 0 elsewhere.

        So a factor that is active in some runs only says nothing about the difference between
        these and the others.
        """
        here = (self.codes[:, np.newaxis] == np.arange(len(self.labels))).astype(np.float64)
        if len(self.labels):
            here[self.active] -= here[self.active].mean(axis=0)
        return np.asarray(here, dtype=np.float64)


class _Known:
    """The runs that have the KPI, and what models of them explain."""

    def __init__(self, runs: pl.DataFrame, factors: Sequence[str], kpi: str) -> None:
        for name in (kpi, *factors):
            if name not in runs.columns:
                raise InputError(
                    f"the runs have no column '{name}'",
                    field="kpi" if name == kpi else "factors",
                    remedy=f"one of: {', '.join(runs.columns)}",
                )
        if not runs[kpi].dtype.is_numeric():
            raise InputError(f"'{kpi}' is no number", field="kpi")
        fine = runs.filter(pl.col(kpi).cast(pl.Float64).is_finite())
        if not fine.height:
            raise InputError(
                f"no run has '{kpi}'", field="kpi", remedy="see the column `error` of the runs"
            )
        self.values = fine[kpi].cast(pl.Float64).to_numpy()
        self.factors = {name: _Factor(fine[name]) for name in factors}
        self._centred = self.values - self.values.mean()
        self._total = float(self._centred @ self._centred)

    def share(self, squares: float) -> float:
        """A sum of squares as a part of the whole; of none at all: nothing."""
        # Rounding leaves something of a sum of squares where all runs are equal.
        if self._total <= 1e-24 * float(self.values @ self.values):
            return 0.0
        return min(max(squares / self._total, 0.0), 1.0)

    def explained(self, factors: dict[str, _Factor], more: Floats | None = None) -> float:
        """The sum of squares that these factors explain, if they add up."""
        fitted = self._fitted(factors, more)
        return float(fitted @ fitted)

    def residuals(self) -> Floats:
        """What all factors leave, if they add up."""
        left: Floats = self._centred - self._fitted(self.factors, None)
        return left

    def _fitted(self, factors: dict[str, _Factor], more: Floats | None) -> Floats:
        parts = [factor.columns for factor in factors.values()]
        design = np.hstack([np.zeros((len(self.values), 0)), *parts, *_given(more)])
        design -= design.mean(axis=0)
        # Columns repeat each other: the shortest solution is taken. They are few and the rows
        # many, so their products are solved for.
        solution = np.linalg.pinv(design.T @ design, rcond=1e-10, hermitian=True)
        fitted: Floats = design @ (solution @ (design.T @ self._centred))
        return fitted


def _given(more: Floats | None) -> Iterable[Floats]:
    return () if more is None else (more,)


def _products(one: Floats, other: Floats) -> Floats:
    found: Floats = (one[:, :, np.newaxis] * other[:, np.newaxis, :]).reshape(len(one), -1)
    return found


def _quarters(numbers: pl.Series) -> tuple[list[str], NDArray[np.int64]]:
    """Names and numbers of the quarters; equal numbers are in the same."""
    values = numbers.cast(pl.Float64).to_numpy()
    edges = np.quantile(values, np.arange(1, _BINS) / _BINS)
    found = np.searchsorted(np.unique(edges), values, side="left")
    kept, codes = np.unique(found, return_inverse=True)
    labels = []
    for quarter in kept:
        inside = values[found == quarter]
        labels.append(f"{inside.min():.4g} to {inside.max():.4g}")
    return labels, codes.ravel()


def _said(level: Any) -> str:
    return f"{level:.6g}" if isinstance(level, float) else str(level)


def _mean(values: Floats) -> float:
    return float(values.mean())


def _limits(values: Floats) -> tuple[float | None, float | None]:
    """The 95 % confidence interval of a mean, by Student's t."""
    from scipy import special

    if len(values) < 2:
        return None, None
    middle, deviation = moments(values)
    half = float(special.stdtrit(len(values) - 1, 0.975)) * deviation / np.sqrt(len(values))
    return middle - half, middle + half
