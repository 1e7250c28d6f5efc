"""Prediction of another scenario with a calibrated twin, with prediction intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.calibration.cases import make_value_columns
from twinloop.calibration.parameters.values import declare_values, may_vary
from twinloop.calibration.uncertainty.prediction_intervals import compute_intervals
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario
from twinloop.metrics import FIGURES, figures
from twinloop.scenario import Scenario
from twinloop.trace import Trace

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit

#: Figures that can be predicted: their scatter is estimated from the fitted runs.
PREDICTED_FIGURES: Final = ("makespan_s", "wait_mean_s", "turnaround_mean_s", "energy_j")


@dataclass(frozen=True, repr=False)
class Prediction:
    """Predicted figures of a run: `figure`, `unit`, `median`, `low`, `high`.

    A new run lies between `low` and `high` with probability `level`, if the scatter of real runs
    is known.
    """

    table: pl.DataFrame
    level: float
    #: The number of calibrations in the sample of the posterior.
    calibrations: int
    #: Whether the intervals contain the scatter of real runs; if not, they are too narrow.
    scatter_known: bool = True

    def __getitem__(self, figure: str) -> tuple[float, float, float]:
        """Low, median and high of a figure."""
        found = self.table.filter(pl.col("figure") == figure)
        if not found.height:
            raise InputError(
                f"'{figure}' was not predicted",
                kind="unknown-name",
                field="figure",
                remedy=f"one of: {', '.join(self.table['figure'])}",
            )
        low, median, high = found.select("low", "median", "high").row(0)
        return low, median, high

    def __str__(self) -> str:
        population = "runs" if self.scatter_known else "the posterior sample"
        lines = [
            f"{row['figure']}: {row['median']:.4g} ({self.level:.0%} of {population} between "
            f"{row['low']:.4g} and {row['high']:.4g})"
            for row in self.table.iter_rows(named=True)
        ]
        if not self.scatter_known:
            lines.append(
                "the scatter of real runs is unknown: fewer runs than this will lie within these "
                "intervals (repeat a run, and calibrate again)"
            )
        return "\n".join(lines)

    __repr__ = __str__


def predict_figures(
    fit: Fit,
    scenario: Scenario,
    *,
    outputs: Sequence[str] = ("makespan_s", "wait_mean_s"),
    level: float = 0.9,
    threads: int | None = None,
    allow_code: bool = False,
) -> Prediction:
    """Predict figures of a scenario with a fit, with prediction intervals.

    The uncertainty has two sources: the posterior of the calibration, and the scatter of real runs
    about the twin.
    """
    if fit.draws is None:
        raise InputError(
            "the fit has no analysis: its uncertainty is unknown",
            kind="unknown-uncertainty",
            field="analysis",
            remedy="calibrate again with an analysis",
        )
    for name in outputs:
        if name not in fit.noise:
            raise InputError(
                f"the scatter of '{name}' is unknown",
                kind="unknown-uncertainty",
                field="outputs",
                remedy=f"one of: {', '.join(fit.noise) or 'none'}",
            )
    fitted = [name for name in fit.draws.columns if may_vary(name)]
    compiled = CompiledScenario(declare_values(fit.apply(scenario), fitted), allow_code=allow_code)
    draws = {name: fit.draws[name].to_numpy() for name in fitted if compiled.is_value(name)}
    rows = make_value_columns(compiled, fit.draws.height, draws)
    runs = compiled.run_many(rows, outputs=list(outputs), threads=threads)
    table_rows = []
    for name in outputs:
        scatter = fit.noise[name]
        limits = compute_intervals(
            runs[name][:, np.newaxis],
            noise=scatter["share"],
            freedom=scatter["freedom"],
            level=level,
        )
        table_rows.append(
            {
                "figure": name,
                "unit": FIGURES[name].unit,
                "low": max(float(limits.low[0]), 0.0),
                "median": float(limits.median[0]),
                "high": float(limits.high[0]),
            }
        )
    known = all(fit.noise[name].get("known", 1.0) for name in outputs)
    return Prediction(pl.DataFrame(table_rows), level, fit.draws.height, known)


def estimate_scatter(
    pairs: Sequence[tuple[Trace, Trace]], levels: int = 1
) -> dict[str, dict[str, float]]:
    """Estimate the scatter of real runs about their twins, relative to the twin's figure.

    Args:
        pairs: Real runs and their calibrated twins.
        levels: The number of fitted levels, which reduces the degrees of freedom: one per
            scenario, but no more than fitted values.

    Returns:
        For each figure that all runs have, `share` (a residual standard deviation), `freedom`
        (degrees of freedom), and `known`: 0 if no degree of freedom is left.
    """
    figures_of_pairs: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
        (figures(real).to_dict(), figures(twin).to_dict()) for real, twin in pairs
    ]
    scatter = {}
    for name in PREDICTED_FIGURES:
        both = [(real[name], twin[name]) for real, twin in figures_of_pairs]
        if any(real is None or not twin for real, twin in both):
            continue
        errors = np.array([real / twin - 1.0 for real, twin in both])
        freedom = max(len(errors) - levels, 1)
        share = float(np.sqrt((errors**2).sum() / freedom))
        known = float(len(errors) > levels)
        scatter[name] = {"share": share, "freedom": float(freedom), "known": known}
    return scatter
