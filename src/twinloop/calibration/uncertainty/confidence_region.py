"""The confidence region of a calibration: the points whose loss is at most a bound.

With the bound of `compute_loss_bound` it is the approximate confidence region of nonlinear
regression (Beale, "Confidence regions in non-linear estimation", 1960); with any other bound, a
sublevel set of the loss. The search is that of Simcal's Loss Cloud (J. McDonald, "A systematic and
automated methodology for calibrating parallel and distributed computing simulators", section
4.2.4): a box around the calibration reaches along each axis to a second, higher loss, and contains
the region. Such a box is too narrow if parameters compensate each other, so here it is enlarged
where the region touches its sides, and if the region is a small part of it, points are sampled
from the region by MCMC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.calibration.uncertainty.evaluation_count import (
    BudgetSpentError,
    Evaluations,
    check_point,
)
from twinloop.calibration.uncertainty.region_search import RegionSearch
from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.calibration.parameters.space import Space
    from twinloop.calibration.search.objective import SearchObjective

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConfidenceRegion:
    """Points whose loss is at most a bound, with their extent and correlation.

    `weights` make the points uniform over the region. Points that were found during the search have
    weight 0; they affect only the ends of the region.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> space = Space([LinearParameter("x", 0, 10)])
    >>> found = ConfidenceRegion(space, np.array([0.5]), 0.0, 0.1, 0.2,
    ...     points=np.array([[0.4], [0.5], [0.6]]), losses=np.array([0.1, 0.0, 0.1]),
    ...     weights=np.full(3, 1 / 3), box=np.array([[0.3], [0.7]]), method="grid", evaluations=3)
    >>> found.frame["x"].to_list(), found.spread["min"].to_list()
    ([4.0, 5.0, 6.0], [4.0])
    """

    space: Space = field(repr=False)
    best: Floats = field(repr=False)
    best_loss: float
    loss_bound: float
    outer_bound: float
    points: Floats = field(repr=False)
    losses: Floats = field(repr=False)
    weights: Floats = field(repr=False)
    box: Floats = field(repr=False)
    method: str
    evaluations: int
    #: Whether the search was complete; if not, the region may be larger.
    complete: bool = True

    def __len__(self) -> int:
        return len(self.points)

    @cached_property
    def frame(self) -> pl.DataFrame:
        """A row per point: values, loss, weight, and coordinates `unit.*`."""
        columns = {
            name: _make_series(found) for name, found in self.space.decode(self.points).items()
        }
        columns |= {"loss": pl.Series(self.losses), "weight": pl.Series(self.weights)}
        columns |= {
            f"unit.{name}": pl.Series(self.points[:, i]) for i, name in enumerate(self.space.names)
        }
        return pl.DataFrame(columns)

    @cached_property
    def spread(self) -> pl.DataFrame:
        """A row per parameter: value, ends of the region, and 5 % and 95 % quantiles.

        `share` is the fraction of the parameter's range that the region covers. A parameter that
        is not a number has the `levels` in the region instead.
        """
        values = self.space.decode_one(self.best)
        rows = []
        for i, name in enumerate(self.space.names):
            column = self.frame[name]
            positions = self.points[:, i]
            row = {"parameter": name, "share": float(np.ptp(positions)) if len(positions) else 0.0}
            if column.dtype.is_numeric():
                numbers = column.cast(pl.Float64).to_numpy()
                low, high = (_quantile(numbers, self.weights, q) for q in (0.05, 0.95))
                row |= {"value": float(values[name]), "min": column.min(), "p5": low, "p95": high}
                row |= {"max": column.max(), "levels": None}
            else:
                row |= {"levels": column.unique(maintain_order=True).to_list()}
            rows.append(row)
        number_columns = dict.fromkeys(("value", "min", "p5", "p95", "max", "share"), pl.Float64)
        schema = {"parameter": pl.String} | number_columns | {"levels": pl.List(pl.String)}
        return pl.DataFrame(rows, schema=schema, infer_schema_length=None)

    @cached_property
    def correlation(self) -> pl.DataFrame:
        """Pearson's correlation of the parameters over the region, by name.

        Null for a parameter that is constant in the region.
        """
        centred = self.points - np.average(self.points, axis=0, weights=self.weights)
        covariance = (centred * self.weights[:, np.newaxis]).T @ centred
        scale = np.sqrt(np.diag(covariance))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations = covariance / np.outer(scale, scale)
        constant = scale < 1e-12
        correlations[constant, :] = correlations[:, constant] = np.nan
        columns = {name: correlations[:, i] for i, name in enumerate(self.space.names)}
        return pl.DataFrame({"parameter": self.space.names} | columns).fill_nan(None)


def compute_loss_bound(
    best_loss: float,
    *,
    observations: int,
    parameters: int,
    power: int = 1,
    level: float = 0.9,
) -> float:
    """Compute the loss bound of an approximate joint confidence region.

    For a loss that is a mean of squares, the confidence region of nonlinear regression
    (Beale, "Confidence regions in non-linear estimation", 1960): L (1 + p/(m-p) F), with m
    independent residuals, p parameters and F the quantile of F(p, m-p). For a mean of absolute
    values, the same region by the asymptotics of least absolute deviations under normal noise
    (Bassett and Koenker, 1978): L (1 + π/4 p/(m-p) F).

    Args:
        best_loss: The lowest loss.
        observations: The number of independent observations; figures of one run are often
            dependent.
        parameters: The number of fitted parameters.
        power: 1: the loss is proportional to the residuals; 2: to their squares.
        level: The confidence level.

    >>> round(compute_loss_bound(0.02, observations=20, parameters=2, power=2), 4)
    0.0258
    >>> round(compute_loss_bound(0.02, observations=20, parameters=2), 4)
    0.0246
    """
    from scipy import special

    if power not in (1, 2):
        raise InputError(f"must be 1 or 2, not {power}", kind="out-of-range", field="power")
    freedom = max(observations - parameters, 1)
    rise = parameters / freedom * float(special.fdtri(parameters, freedom, level))
    return best_loss * (1.0 + (rise if power == 2 else math.pi / 4 * rise))


def find_confidence_region(
    objective: SearchObjective,
    best: Floats,
    *,
    loss_bound: float | None = None,
    outer_bound: float | None = None,
    budget: int = 4000,
    seed: int = 0,
) -> ConfidenceRegion:
    """Find the points around `best` whose loss is at most `loss_bound`.

    Args:
        objective: A function from points of the unit cube to losses.
        best: The calibration, as a point.
        loss_bound: The largest loss in the region. By default 10 % above the best loss, and at
            least 0.001 above; `compute_loss_bound` gives the bound of a confidence region if the
            number of independent observations is known.
        outer_bound: The loss at which the box ends. By default as far above the bound as the bound
            is above the best loss.
        budget: The number of evaluations.
        seed: The random seed.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> from twinloop.calibration.parameters.space import Space
    >>> class Valley:
    ...     space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])
    ...     def __call__(self, points):
    ...         return abs(points.sum(axis=1) - 1)
    >>> found = find_confidence_region(Valley(), np.array([0.5, 0.5]), loss_bound=0.05, budget=2000)
    >>> found.correlation["b"][0] < -0.9, found.spread["share"].min() > 0.8
    (True, True)
    """
    evaluations = Evaluations(objective, budget)
    best = check_point(best, len(evaluations.space))
    best_loss = float(evaluations.losses(best[np.newaxis])[0])
    if not math.isfinite(best_loss):
        raise InputError("fails at the calibration", kind="evaluations-failed", field="objective")
    if loss_bound is None:
        loss_bound = best_loss + max(0.1 * best_loss, 1e-3)
    if not best_loss <= loss_bound:
        raise InputError(
            f"must be at least the loss of the calibration, {best_loss:g}, not {loss_bound:g}",
            kind="out-of-range",
            field="loss_bound",
        )
    if outer_bound is None:
        outer_bound = loss_bound + (loss_bound - best_loss)
    search = RegionSearch(evaluations, best, loss_bound, np.random.default_rng(seed))
    search.keep(best[np.newaxis], np.array([best_loss]))
    box, method = np.array([best, best]), "none"
    complete = False
    try:
        box = search.box(outer_bound)
        box, acceptance = search.enlarge(box)
        method = search.fill(box, acceptance)
        complete = True
    except BudgetSpentError:
        # The points found so far are a part of the region.
        pass
    points, losses, weights = search.collect()
    return ConfidenceRegion(
        evaluations.space,
        best,
        best_loss,
        loss_bound,
        outer_bound,
        points,
        losses,
        weights,
        box,
        method,
        evaluations.spent,
        complete,
    )


def _make_series(values: object) -> pl.Series:
    if isinstance(values, np.ndarray):
        return pl.Series(values)
    return pl.Series([str(value) for value in values], dtype=pl.String)  # type: ignore[attr-defined]


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(cumulative, share)), len(values) - 1)])
