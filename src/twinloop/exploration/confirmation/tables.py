"""The tables of a confirmation: runs, metrics, pairs and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.comparison import (
    PairedDifference,
    compute_ranks,
    compute_tau,
    judge_difference,
)
from twinloop.exploration.ranking.objectives import Objective
from twinloop.metrics.confidence import moments

#: The columns of `Confirmation.runs` that are not metrics.
_RUN_COLUMNS: Final[dict[str, Any]] = {
    "order": pl.Int64,
    "candidate": pl.String,
    "baseline": pl.Boolean,
    "repetition": pl.Int64,
    "trace": pl.String,
    "seconds": pl.Float64,
    "error": pl.String,
}


def make_run_table(
    runs: Sequence[Mapping[str, Any]], metrics: list[str], base: str
) -> pl.DataFrame:
    """Make the table of runs; null where a run has no value."""
    rows = [
        {
            **dict.fromkeys(_RUN_COLUMNS),
            "order": number,
            **run,
            "baseline": run["candidate"] == base,
        }
        for number, run in enumerate(runs, start=1)
    ]
    schema = _RUN_COLUMNS | dict.fromkeys(metrics, pl.Float64)
    selected = [{name: row.get(name) for name in schema} for row in rows]
    return pl.DataFrame(selected, schema=schema, strict=False)


def get_repetitions(frame: pl.DataFrame, name: str, metric: str) -> list[float]:
    """Return the metric in each repetition, NaN where it was not measured."""
    measured = dict(frame.filter(candidate=name).select("repetition", metric).iter_rows())
    last = int(frame["repetition"].max() or 0)  # type: ignore[arg-type]
    values = (measured.get(repetition) for repetition in range(1, last + 1))
    return [np.nan if value is None else float(value) for value in values]


def compute_mean(values: Sequence[float]) -> float | None:
    """Compute the mean of the values that are not NaN; None if there are none.

    >>> compute_mean([1.0, np.nan, 3.0]), compute_mean([np.nan])
    (2.0, None)
    """
    measured = [each for each in values if not np.isnan(each)]
    return float(np.mean(measured)) if measured else None


def get_prediction(candidate: Candidate, metric: str) -> float | None:
    """Return the prediction of a metric; None if there is none."""
    value = candidate.predicted.get(metric)
    return None if value is None or not np.isfinite(value) else float(value)


#: By metric and configuration: the value in each repetition, NaN where there is none.
Columns = Mapping[str, Mapping[str, Sequence[float]]]


def make_metric_table(
    configurations: Sequence[Candidate],
    baseline: Candidate,
    objectives: Sequence[Objective],
    columns: Columns,
) -> pl.DataFrame:
    """Make the table of metrics: a row per metric and configuration."""
    rows = []
    for objective in objectives:
        metric = objective.kpi
        predicted = [get_prediction(each, metric) for each in configurations]
        real = [compute_mean(columns[metric][each.name]) for each in configurations]
        ranks = [_rank_values(values, objective.lower) for values in (predicted, real)]
        for i, each in enumerate(configurations):
            measured = [value for value in columns[metric][each.name] if not np.isnan(value)]
            rows.append(
                {
                    "metric": metric,
                    "unit": objective.unit,
                    "candidate": each.name,
                    "baseline": each is baseline,
                    "predicted": predicted[i],
                    "real": real[i],
                    "real_sd": moments(np.array(measured))[1] if len(measured) > 1 else None,
                    "repetitions": len(measured),
                    "predicted_rank": ranks[0][i],
                    "real_rank": ranks[1][i],
                }
            )
    names = ("predicted", "real", "real_sd", "predicted_rank", "real_rank")
    schema: dict[str, Any] = {"metric": pl.String, "unit": pl.String, "candidate": pl.String}
    schema |= {"baseline": pl.Boolean, "predicted": pl.Float64, "real": pl.Float64}
    schema |= {"real_sd": pl.Float64, "repetitions": pl.Int64}
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(names, pl.Float64))


def _rank_values(values: Sequence[float | None], lower: bool) -> list[float | None]:
    """Compute ranks from 1, the best; None for a missing value."""
    numbers = [np.nan if value is None else value for value in values]
    ranks = compute_ranks(numbers, lower=lower).tolist()
    return [None if np.isnan(each) else each for each in ranks]


def make_pair_table(
    configurations: Sequence[Candidate], objectives: Sequence[Objective], columns: Columns
) -> pl.DataFrame:
    """Make the table of pairs: a row per metric and pair of configurations."""
    rows = []
    for metric in (each.kpi for each in objectives):
        for one, other in combinations(configurations, 2):
            difference = predict_difference(one, other, metric)
            repetitions = columns[metric]
            real = PairedDifference.of(
                repetitions[one.name], repetitions[other.name], all_runs=repetitions.values()
            )
            rows.append(
                {
                    "metric": metric,
                    "one": one.name,
                    "other": other.name,
                    "predicted": difference,
                    "real": None if real is None else real.mean,
                    "low": None if real is None else real.low,
                    "high": None if real is None else real.high,
                    "verdict": judge_difference(difference, real),
                }
            )
    texts = dict.fromkeys(("metric", "one", "other"), pl.String)
    numbers = dict.fromkeys(("predicted", "real", "low", "high"), pl.Float64)
    return pl.DataFrame(rows, schema={**texts, **numbers, "verdict": pl.String})


def predict_difference(one: Candidate, other: Candidate, metric: str) -> float | None:
    """Return the predicted difference of two candidates; None if one has no prediction."""
    own, others = get_prediction(one, metric), get_prediction(other, metric)
    return None if own is None or others is None else own - others


def make_rank_table(
    configurations: Sequence[Candidate],
    objectives: Sequence[Objective],
    columns: Columns,
    pairs: pl.DataFrame,
) -> pl.DataFrame:
    """Make the table of ranks: a row per metric, which compares predicted and measured order."""
    rows = []
    for objective in objectives:
        metric = objective.kpi
        predicted = [get_prediction(each, metric) for each in configurations]
        real = [compute_mean(columns[metric][each.name]) for each in configurations]
        complete = [i for i in range(len(configurations)) if None not in (predicted[i], real[i])]
        both = [[values[i] or 0.0 for i in complete] for values in (predicted, real)]
        verdicts = pairs.filter(metric=metric)["verdict"].to_list()
        rows.append(
            {
                "metric": metric,
                "same": _rank_values(both[0], True) == _rank_values(both[1], True)
                if complete
                else None,
                "tau": compute_tau(both[0], both[1]),
                "pairs": len(verdicts),
                "agree": verdicts.count("holds"),
                "disagree": verdicts.count("reversed"),
                "ties": len(verdicts) - verdicts.count("holds") - verdicts.count("reversed"),
            }
        )
    counts = dict.fromkeys(("pairs", "agree", "disagree", "ties"), pl.Int64)
    start = {"metric": pl.String, "same": pl.Boolean, "tau": pl.Float64}
    return pl.DataFrame(rows, schema={**start, **counts})
