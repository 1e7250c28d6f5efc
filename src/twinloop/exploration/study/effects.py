"""Main effects and two-factor interactions of the factors of a study (analysis of variance)."""

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

#: The level of a factor in runs in which it is not active.
INACTIVE: Final = "-"
#: Numeric factors with more levels than this are binned by quartile.
MAX_LEVELS: Final = 8
_BINS: Final = 4

_MAIN_SCHEMA: Final = {
    "factor": pl.String,
    "level": pl.String,
    "runs": pl.Int64,
    **dict.fromkeys(("mean", "effect", "low", "high", "share"), pl.Float64),
    "fewer_tasks": pl.Boolean,
}
_PAIR_SCHEMA: Final = {
    **dict.fromkeys(("factor", "other", "level", "other_level"), pl.String),
    "runs": pl.Int64,
    **dict.fromkeys(("mean", "interaction", "share"), pl.Float64),
}


def compute_main_effects(runs: pl.DataFrame, factors: Sequence[str], kpi: str) -> pl.DataFrame:
    """Compute the main effects on a KPI: a row per factor and level.

    `mean` is the mean of all runs with the level, `low` and `high` its 95 % confidence interval
    (null for a single run), and `effect` its difference from the mean of all runs in which the
    factor is active. Runs in which it is not active have the level `-`, without an effect. In an
    unbalanced design these means include effects of other factors; `share` does not.

    `share` is the fraction of the variance between the runs that the factor explains: the type II
    sum of squares, i.e. the difference between the least-squares fits with and without the factor,
    divided by the total sum of squares. In a balanced factorial design it is that of the classical
    analysis of variance, and the shares of factors, interactions and residuals add up to 1. A
    factor that is active in some runs only explains differences between these runs; the difference
    from the other runs belongs to the factor in its condition `when`.

    `fewer_tasks`: the runs with the level complete a smaller share of their tasks than those with
    another level of the factor, so that their KPIs cannot be compared; false if the runs have no
    columns `tasks` and `completed`.

    A numeric factor with more than eight levels, as in a Latin hypercube, is binned by quartile,
    for example `1 to 1.23`. Failed runs, which have no KPI, are left out.

    Args:
        runs: A row per run: a column for each factor, null if it is not active, and the KPI.
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
    model = _LinearModel(runs, factors, kpi)
    all_squares = model.compute_explained_squares(model.factors)
    rows: list[dict[str, Any]] = []
    for name, factor in model.factors.items():
        others = {other: each for other, each in model.factors.items() if other != name}
        share = model.compute_share(all_squares - model.compute_explained_squares(others))
        active = model.values[factor.active]
        active_mean = _compute_mean(active) if len(active) else 0.0
        fewer = model.find_fewer_tasks(factor)
        for code, label in (*enumerate(factor.labels), (-1, INACTIVE)):
            values = model.values[factor.codes == code]
            if not len(values):
                continue
            low, high = _compute_interval(values)
            rows.append(
                {
                    "factor": name,
                    "level": label,
                    "runs": len(values),
                    "mean": _compute_mean(values),
                    "effect": None if code < 0 else _compute_mean(values) - active_mean,
                    "low": low,
                    "high": high,
                    "share": share,
                    "fewer_tasks": code in fewer,
                }
            )
    return pl.DataFrame(rows, schema=_MAIN_SCHEMA)


def compute_interactions(runs: pl.DataFrame, factors: Sequence[str], kpi: str) -> pl.DataFrame:
    """Compute two-factor interactions: a row per pair of factors and pair of levels.

    Pairs without an interaction that can be estimated are left out, for example a factor and
    another one that is active with one of its levels only.

    `mean` is the mean of the runs with both levels; pairs of levels without a run are left out.
    `interaction` is the mean of the residuals of the additive least-squares fit of all factors. In
    a balanced factorial design it is mean - mean of the level - mean of the other level + overall
    mean. `share` is the fraction of the variance that the pair of factors explains beyond the
    additive fit. Levels are as in `compute_main_effects`.

    >>> runs = pl.DataFrame({"policy": ["fifo", "fifo", "easy", "easy"], "cores": [8, 16, 8, 16],
    ...                      "makespan_s": [100.0, 60.0, 60.0, 100.0]})
    >>> table = compute_interactions(runs, ["policy", "cores"], "makespan_s")
    >>> table.select("level", "other_level", "interaction").rows()
    [('fifo', '8', 20.0), ('fifo', '16', -20.0), ('easy', '8', -20.0), ('easy', '16', 20.0)]
    >>> round(table["share"][0], 3)
    1.0
    """
    model = _LinearModel(runs, factors, kpi)
    residuals = model.compute_residuals()
    all_squares = model.compute_explained_squares(model.factors)
    rows: list[dict[str, Any]] = []
    for (name, one), (other_name, other) in combinations(model.factors.items(), 2):
        both = _multiply_columns(one.columns, other.columns)
        if not model.can_estimate(both):
            continue
        share = model.compute_share(
            model.compute_explained_squares(model.factors, both) - all_squares
        )
        for code, label in enumerate(one.labels):
            for other_code, other_label in enumerate(other.labels):
                is_chosen = (one.codes == code) & (other.codes == other_code)
                if not is_chosen.any():
                    continue
                rows.append(
                    {
                        "factor": name,
                        "other": other_name,
                        "level": label,
                        "other_level": other_label,
                        "runs": int(is_chosen.sum()),
                        "mean": _compute_mean(model.values[is_chosen]),
                        "interaction": _compute_mean(residuals[is_chosen]),
                        "share": share,
                    }
                )
    return pl.DataFrame(rows, schema=_PAIR_SCHEMA)


class _Factor:
    """A factor with its levels coded as integers in order of occurrence; -1: not active."""

    def __init__(self, column: pl.Series) -> None:
        self.active = column.is_not_null().to_numpy()
        self.codes = np.full(len(column), -1, dtype=np.int64)
        present = column.drop_nulls()
        if present.dtype.is_numeric() and present.n_unique() > MAX_LEVELS:
            self.labels, codes = _bin_by_quartile(present)
        else:
            levels = present.unique(maintain_order=True)
            self.labels = [_format_level(level) for level in levels]
            code_by_level = {level: code for code, level in enumerate(levels)}
            codes = np.array([code_by_level[level] for level in present], dtype=np.int64)
        self.codes[self.active] = codes

    @property
    def columns(self) -> Floats:
        """A column per level, centred over the runs in which the factor is active, else 0.

        A factor that is active in some runs only therefore explains no difference between these
        runs and the others.
        """
        dummies = (self.codes[:, np.newaxis] == np.arange(len(self.labels))).astype(np.float64)
        if len(self.labels):
            dummies[self.active] -= dummies[self.active].mean(axis=0)
        return np.asarray(dummies, dtype=np.float64)


class _LinearModel:
    """Additive linear models of a KPI, fitted by least squares to the runs that have it."""

    def __init__(self, runs: pl.DataFrame, factors: Sequence[str], kpi: str) -> None:
        for name in (kpi, *factors):
            if name not in runs.columns:
                raise InputError(
                    f"the runs have no column '{name}'",
                    kind="unknown-name",
                    field="kpi" if name == kpi else "factors",
                    remedy=f"one of: {', '.join(runs.columns)}",
                )
        if not runs[kpi].dtype.is_numeric():
            raise InputError(f"'{kpi}' is not numeric", kind="wrong-type", field="kpi")
        measured = runs.filter(pl.col(kpi).cast(pl.Float64).is_finite())
        if not measured.height:
            raise InputError(
                f"no run has '{kpi}'",
                kind="missing-data",
                field="kpi",
                remedy="see the column `error` of the runs",
            )
        self.values = measured[kpi].cast(pl.Float64).to_numpy()
        self.factors = {name: _Factor(measured[name]) for name in factors}
        has_counts = {"tasks", "completed"} <= set(measured.columns)
        self._counts = measured.select("tasks", "completed") if has_counts else None
        self._centred = self.values - self.values.mean()
        self._total = float(self._centred @ self._centred)

    def compute_share(self, squares: float) -> float:
        """Divide a sum of squares by the total sum; 0 if all runs have the same value."""
        # With equal values, rounding errors leave a sum of squares above 0.
        if self._total <= 1e-24 * float(self.values @ self.values):
            return 0.0
        return min(max(squares / self._total, 0.0), 1.0)

    def compute_explained_squares(
        self, factors: dict[str, _Factor], more: Floats | None = None
    ) -> float:
        """Return the sum of squares that the additive model of these factors explains."""
        fitted = self._predict(factors, more)
        return float(fitted @ fitted)

    def compute_residuals(self) -> Floats:
        """Return the residuals of the additive model of all factors."""
        residuals: Floats = self._centred - self._predict(self.factors, None)
        return residuals

    def can_estimate(self, more: Floats) -> bool:
        """Whether these columns differ from all combinations of the columns of the factors."""
        without, with_them = (self._make_design(self.factors, each) for each in (None, more))
        return _compute_rank(with_them) > _compute_rank(without)

    def find_fewer_tasks(self, factor: _Factor) -> set[int]:
        """Find the codes of the levels whose runs complete a smaller share of tasks than others."""
        if self._counts is None:
            return set()
        sums = self._counts.with_columns(code=pl.Series(factor.codes)).group_by("code").sum()
        shares = {
            code: round(completed / tasks, 12)
            for code, tasks, completed in sums.select("code", "tasks", "completed").iter_rows()
            if tasks and completed is not None
        }
        return {code for code, share in shares.items() if share < max(shares.values())}

    def _make_design(self, factors: dict[str, _Factor], more: Floats | None) -> Floats:
        parts = [factor.columns for factor in factors.values()]
        design = np.hstack([np.zeros((len(self.values), 0)), *parts, *_list_columns(more)])
        return np.asarray(design - design.mean(axis=0), dtype=np.float64)

    def _predict(self, factors: dict[str, _Factor], more: Floats | None) -> Floats:
        design = self._make_design(factors, more)
        # The columns are collinear, so the minimum-norm solution is taken. There are few columns
        # and many rows, so the normal equations are solved.
        solution = np.linalg.pinv(design.T @ design, rcond=1e-10, hermitian=True)
        fitted: Floats = design @ (solution @ (design.T @ self._centred))
        return fitted


def _compute_rank(design: Floats) -> int:
    """Compute the rank by the matrix of the normal equations, as there are many rows."""
    squares = np.linalg.eigvalsh(design.T @ design)
    return int((squares > 1e-10 * squares.max(initial=0.0)).sum())


def _list_columns(more: Floats | None) -> Iterable[Floats]:
    return () if more is None else (more,)


def _multiply_columns(one: Floats, other: Floats) -> Floats:
    products: Floats = (one[:, :, np.newaxis] * other[:, np.newaxis, :]).reshape(len(one), -1)
    return products


def _bin_by_quartile(numbers: pl.Series) -> tuple[list[str], NDArray[np.int64]]:
    """Return the labels and codes of quartile bins; equal values are in the same bin."""
    values = numbers.cast(pl.Float64).to_numpy()
    edges = np.quantile(values, np.arange(1, _BINS) / _BINS)
    quarters = np.searchsorted(np.unique(edges), values, side="left")
    bins, codes = np.unique(quarters, return_inverse=True)
    labels = []
    for quarter in bins:
        members = values[quarters == quarter]
        labels.append(f"{members.min():.4g} to {members.max():.4g}")
    return labels, codes.ravel()


def _format_level(level: Any) -> str:
    return f"{level:.6g}" if isinstance(level, float) else str(level)


def _compute_mean(values: Floats) -> float:
    return float(values.mean())


def _compute_interval(values: Floats) -> tuple[float | None, float | None]:
    """Return the 95 % confidence interval of a mean by Student's t; None for a single value."""
    from scipy import special

    if len(values) < 2:
        return None, None
    mean, deviation = moments(values)
    half_width = float(special.stdtrit(len(values) - 1, 0.975)) * deviation / np.sqrt(len(values))
    return mean - half_width, mean + half_width
