"""Prediction intervals of the runs of a study: the range in which a further run is expected."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from twinloop.description.errors import InputError

if TYPE_CHECKING:
    from twinloop.exploration.ranking.candidate import Candidate

#: The level of the intervals in texts and figures.
PREDICTION_LEVEL: Final = 0.9

_SCHEMA: Final = {
    "configuration": pl.Int64,
    "name": pl.String,
    "kpi": pl.String,
    "runs": pl.Int64,
    **dict.fromkeys(("median", "low", "high"), pl.Float64),
}


def count_required_runs(level: float = PREDICTION_LEVEL) -> int:
    """Count the runs that a prediction interval of this level needs.

    >>> count_required_runs(0.9), count_required_runs(0.5)
    (19, 3)
    """
    if not 0.0 < level < 1.0:
        raise InputError(
            f"must be between 0 and 1, not {level}", kind="out-of-range", field="level"
        )
    return math.ceil(round(2.0 / (1.0 - level), 9)) - 1


def compute_prediction_interval(
    values: ArrayLike, level: float = PREDICTION_LEVEL
) -> tuple[float, float] | None:
    """Compute the interval that contains a further run with this probability.

    It needs no assumption on the distribution: of n + 1 independent runs, the last one has each
    rank with the same probability, so that it is below the k-th smallest of the others with
    probability k / (n + 1). The limits are the values at the ranks (n + 1) (1 - level) / 2 from
    both ends, interpolated between two ranks. None with too few runs, whose whole range is
    narrower, or if a value is not a number.

    >>> compute_prediction_interval(range(1, 20))
    (1.0, 19.0)
    >>> compute_prediction_interval(range(1, 19)) is None
    True
    """
    runs = np.asarray(values, dtype=np.float64)
    if runs.size < count_required_runs(level) or np.isnan(runs).any():
        return None
    ordered = np.sort(runs)
    # Rounded, so that a whole rank is that run itself.
    rank = round((runs.size + 1) * (1.0 - level) / 2.0, 9)
    ranks = np.arange(1.0, runs.size + 1.0)
    low, high = np.interp([rank, runs.size + 1 - rank], ranks, ordered)
    return float(low), float(high)


def make_intervals_table(
    candidates: Sequence[Candidate], runs: pl.DataFrame, kpis: Sequence[str], level: float
) -> pl.DataFrame:
    """Make a table of the median and the interval of each KPI of each configuration.

    `runs` counts those with a value. If one of them has none, such as the makespan of a run that
    did not complete a task, median and interval are null: the others are a selection.

    Args:
        candidates: The configurations.
        runs: Their compared runs, with the column `configuration` and the KPIs.
        kpis: The KPIs.
        level: The level of the intervals.
    """
    count_required_runs(level)
    groups = {number: group for (number,), group in runs.group_by("configuration")}
    rows: list[dict[str, Any]] = []
    for each in candidates:
        group = groups[each.configuration]
        for kpi in kpis:
            known = group[kpi].drop_nulls()
            is_known = known.len() == group.height
            interval = compute_prediction_interval(known, level) if is_known else None
            low, high = interval or (None, None)
            rows.append(
                {
                    "configuration": each.configuration,
                    "name": each.name,
                    "kpi": kpi,
                    "runs": known.len(),
                    "median": known.median() if is_known else None,
                    "low": low,
                    "high": high,
                }
            )
    return pl.DataFrame(rows, schema=_SCHEMA)
