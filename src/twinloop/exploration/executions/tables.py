"""The tables of a study over real executions: runs, statistics and frequencies of errors.

Source of the metrics, the weights and the differences: section 5.4 of the draft on SCHIaaS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from twinloop.exploration.executions.cross_validation import REPETITION
from twinloop.exploration.executions.observations import (
    COMPARED,
    COUNTS,
    INTERVAL,
    INTERVALS,
    MEASURED,
    MEASURED_PREFIX,
    METRICS,
    SCHEDERROR,
    SIMULATED,
)

if TYPE_CHECKING:
    from twinloop.exploration.executions.study import ExecutionStudy

#: The exported tables, each as CSV and as Parquet.
EXECUTION_TABLES: Final = (
    *("runs", "statistics", "frequencies"),
    *("histogram", "differences", "repetitions", "coverage"),
)
#: The name of the row of all cells together.
ALL_CELLS: Final = "all"
STATISTICS: Final = ("min", "mean", "median", "max")
#: The limits of the frequencies of errors.
LIMITS: Final = {
    "under_0.05": pl.col("error") < 0.05,
    "under_0.10": pl.col("error") < 0.10,
    "over_0.30": pl.col("error") > 0.30,
}
#: The lower ends of the intervals of the histogram; the last one has no upper end.
BINS: Final = tuple(index / 20 for index in range(21))
#: The column of the absolute error of each metric.
ERROR_COLUMNS: Final = {metric: f"{metric}_error" for metric in METRICS}
#: The relative difference up to which a value counts as the end of an interval.
_ROUNDING: Final = 1e-9
_KEY: Final = ("set", "mode", "cell", "metric")


# --- runs ------------------------------------------------------------------------------------


def make_execution_runs(study: ExecutionStudy) -> pl.DataFrame:
    """Make the table of ended runs: labels, set, simulated and measured values, errors."""
    labels = _list_labels(study)
    factors = {
        name: f"{name} (factor)" if name in labels else name
        for name in study.factors
        if name != "run"
    }
    intervals = INTERVALS if any(each.fitted for each in study.sets) else ()
    rows = []
    for number, run in enumerate(study.planned_runs):
        result = study.results.get(run.key)
        if result is not None:
            execution, simulation_set = study.executions[run.execution], study.sets[run.set]
            measured = study.measured.values.get(execution.name, {})
            rows.append(
                {
                    "run": number,
                    "execution": execution.name,
                    **{label: execution.labels.get(label) for label in labels},
                    "set": simulation_set.name,
                    "mode": simulation_set.mode,
                    **{column: simulation_set.labels.get(name) for name, column in factors.items()},
                    **_select_values(result["kpis"] or {}, measured, intervals),
                    "seconds": result["seconds"],
                    "error": result["error"],
                }
            )
    names = ("execution", *labels, "set", "mode", *factors.values())
    schema = {
        "run": pl.Int64,
        **dict.fromkeys(names, pl.String),
        **dict.fromkeys((*SIMULATED, *intervals, *MEASURED, *COUNTS, SCHEDERROR), pl.Float64),
        "seconds": pl.Float64,
        "error": pl.String,
    }
    return _add_errors(pl.DataFrame(rows, schema=schema))


def _list_labels(study: ExecutionStudy) -> list[str]:
    return list(dict.fromkeys(label for each in study.executions for label in each.labels))


def _select_values(
    kpis: Mapping[str, float | None], measured: Mapping[str, float], intervals: Sequence[str]
) -> dict[str, float | None]:
    """Select the values of a run; a table of measured results takes precedence over its trace."""
    given = {f"{MEASURED_PREFIX}{name}": value for name, value in measured.items()}
    values = {**kpis, **given}
    return {
        name: _finite_or_none(values.get(name))
        for name in (*SIMULATED, *intervals, *MEASURED, *COUNTS, SCHEDERROR)
    }


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _add_errors(runs: pl.DataFrame) -> pl.DataFrame:
    """Add the absolute errors of the metrics that were simulated and measured."""
    errors = {
        metric: _compute_error(pl.col(name), pl.col(f"{MEASURED_PREFIX}{name}"))
        for metric, name in COMPARED.items()
    }
    return runs.with_columns(
        expression.alias(ERROR_COLUMNS[metric])
        for metric, expression in (errors | {SCHEDERROR: pl.col(SCHEDERROR)}).items()
    ).select(pl.exclude(SCHEDERROR, "seconds", "error"), "seconds", "error")


def _compute_error(simulated: pl.Expr, measured: pl.Expr) -> pl.Expr:
    """Compute |S - R| / R; null where R is not positive."""
    return pl.when(measured > 0).then((simulated - measured).abs() / measured)


# --- errors and their statistics -------------------------------------------------------------


def make_error_rows(study: ExecutionStudy) -> pl.DataFrame:
    """Make a row per run and metric with an error: set, mode, cell, execution, metric, error."""
    return _melt_errors(_add_cells(study.runs, study), ["set", "mode", "cell", "execution"])


def _add_cells(rows: pl.DataFrame, study: ExecutionStudy) -> pl.DataFrame:
    """Add the column `cell`: the labels by which errors are grouped."""
    labels = [pl.col(label).fill_null("unknown") for label in study.cells]
    cell = pl.concat_str(labels, separator=" / ") if labels else pl.lit(ALL_CELLS)
    return rows.with_columns(cell=cell)


def _melt_errors(rows: pl.DataFrame, index: list[str]) -> pl.DataFrame:
    """Make a row per metric of the columns with errors."""
    columns = [name for name in ERROR_COLUMNS.values() if name in rows.columns]
    values = rows.select(*index, *columns)
    long = values.unpivot(columns, index=index, variable_name="metric", value_name="error")
    return long.with_columns(pl.col("metric").str.strip_suffix("_error")).drop_nulls("error")


def _add_all_cells(rows: pl.DataFrame) -> pl.DataFrame:
    """Add the rows again for all cells together, and the weight of each row.

    The weights of a group add up to 1; all cells together, each cell has the same weight, whatever
    its number of executions.
    """
    group = [name for name in ("set", "mode", "metric") if name in rows.columns]
    own = rows.with_columns(weight=1 / pl.len().over([*group, "cell"]))
    if set(rows["cell"]) == {ALL_CELLS}:
        return own
    cells = pl.col("cell").n_unique().over(group)
    together = own.with_columns(cell=pl.lit(ALL_CELLS), weight=pl.col("weight") / cells)
    return pl.concat([together, own])


def _sort(table: pl.DataFrame, study: ExecutionStudy) -> pl.DataFrame:
    """Sort by set, cell and metric, in the order of the study."""
    names = sorted(set(table["cell"]) - {ALL_CELLS})
    orders = {
        "set": [each.name for each in study.sets],
        "cell": [ALL_CELLS, *names],
        "metric": METRICS,
    }
    return table.sort(
        [pl.col(k).cast(pl.Enum(v)) for k, v in orders.items() if k in table.columns],
        maintain_order=True,
    )


def _compute_statistics(values: pl.Expr, prefix: str = "") -> list[pl.Expr]:
    return [getattr(values, name)().alias(f"{prefix}{name}") for name in STATISTICS]


def _count() -> pl.Expr:
    return pl.len().cast(pl.Int64).alias("executions")


def make_statistics(study: ExecutionStudy) -> pl.DataFrame:
    """Make the unweighted statistics of the errors of each set, cell and metric."""
    groups = _add_all_cells(study.execution_errors).group_by(_KEY)
    return _sort(groups.agg(_count(), *_compute_statistics(pl.col("error"))), study)


def make_frequencies(study: ExecutionStudy) -> pl.DataFrame:
    """Make the shares of executions with errors below and above limits, by set, cell and metric.

    In the row of all cells, each cell has the same weight, whatever its number of executions.
    """
    shares = [(pl.col("weight") * is_in).sum().alias(name) for name, is_in in LIMITS.items()]
    counts = [is_in.sum().cast(pl.Int64).alias(f"{name}_count") for name, is_in in LIMITS.items()]
    groups = _add_all_cells(study.execution_errors).group_by(_KEY)
    return _sort(groups.agg(_count(), *shares, *counts), study)


def make_histogram(study: ExecutionStudy) -> pl.DataFrame:
    """Make the weighted share of executions in each interval of the error."""
    intervals = pl.DataFrame(
        {"from": BINS, "to": [*BINS[1:], None]}, schema={"from": pl.Float64, "to": pl.Float64}
    )
    rows = _add_all_cells(study.execution_errors)
    index = np.searchsorted(BINS, rows["error"].to_numpy(), side="right") - 1
    rows = rows.with_columns(pl.Series("from", BINS, dtype=pl.Float64).gather(index))
    shares = rows.group_by(*_KEY, "from").agg(_count(), share=pl.col("weight").sum())
    found = (
        rows.select(_KEY)
        .unique(maintain_order=True)
        .join(intervals, how="cross")
        .join(shares, on=[*_KEY, "from"], how="left", maintain_order="left")
        .with_columns(pl.col("executions", "share").fill_null(0))
    )
    return _sort(found, study)


def make_differences(study: ExecutionStudy) -> pl.DataFrame:
    """Make the differences between the errors of each set and those of the first set.

    `delta_mean` is the difference of the means, each over all executions of its set; `paired_mean`
    is the mean of the differences per execution, over the `executions` in both sets.
    """
    first = pl.col("set") == study.sets[0].name
    on = ["cell", "metric"]
    base = study.statistics.filter(first).select(*on, *STATISTICS)
    delta = (
        study.statistics.filter(~first)
        .join(base, on=on, suffix="_first")
        .select(
            *_KEY, *((pl.col(n) - pl.col(f"{n}_first")).alias(f"delta_{n}") for n in STATISTICS)
        )
    )
    rows = study.execution_errors
    reference = rows.filter(first).select(*on, "execution", reference="error")
    changes = rows.filter(~first).join(reference, on=[*on, "execution"])
    change = _compute_statistics(pl.col("error") - pl.col("reference"), "paired_")
    paired = _add_all_cells(changes).group_by(_KEY).agg(_count(), *change)
    both = delta.join(paired, on=_KEY, how="left").with_columns(pl.col("executions").fill_null(0))
    return _sort(both, study)


def make_repetitions(study: ExecutionStudy) -> pl.DataFrame:
    """Make the statistics of the errors of the mean of the other repetitions as a prediction."""
    labels = [name for name in _list_labels(study) if name != REPETITION]
    measured = [f"{MEASURED_PREFIX}{name}" for name in COMPARED.values()]
    rows = _add_cells(study.runs, study).filter(pl.col("error").is_null())
    if REPETITION in rows.columns and labels:
        # The sum over the configuration without the execution itself.
        rows = rows.unique("execution", keep="first", maintain_order=True).with_columns(
            _predict_by_others(pl.col(name), labels).alias(f"others_{name}") for name in measured
        )
    else:
        rows = rows.clear().with_columns(
            pl.lit(None, dtype=pl.Float64).alias(f"others_{name}") for name in measured
        )
    errors = {
        ERROR_COLUMNS[metric]: _compute_error(pl.col(f"others_{name}"), pl.col(name))
        for metric, name in zip(COMPARED, measured, strict=True)
    }
    long = _melt_errors(rows.select("cell", "execution", **errors), ["cell", "execution"])
    groups = _add_all_cells(long).group_by("cell", "metric")
    return _sort(groups.agg(_count(), *_compute_statistics(pl.col("error"))), study)


def _predict_by_others(value: pl.Expr, labels: Sequence[str]) -> pl.Expr:
    """Return the mean of the other rows with the same labels; null if there are none."""
    total, count = value.sum().over(labels), value.count().over(labels)
    return pl.when(value.is_not_null() & (count > 1)).then((total - value) / (count - 1))


# --- intervals -------------------------------------------------------------------------------


def make_coverage(study: ExecutionStudy) -> pl.DataFrame:
    """Make the shares of measured values within the intervals that were predicted for them.

    `share` is that of the `executions` with a measured value in its interval: 0.9 if the models are
    right. `width` is the median width of the intervals, relative to the measured values.
    """
    key = ["set", "mode", "cell", "value"]
    schema = dict.fromkeys(key, pl.String) | {"within": pl.Boolean, "width": pl.Float64}
    rows = _add_cells(study.runs, study)
    parts = [pl.DataFrame(schema=schema)]
    for name in SIMULATED if INTERVALS[0] in rows.columns else ():
        low, high = (pl.col(f"{name}{end}") for end in INTERVAL)
        measured = pl.col(f"{MEASURED_PREFIX}{name}")
        parts.append(
            rows.filter(measured > 0)
            .drop_nulls([f"{name}{end}" for end in INTERVAL])
            .select(
                *key[:3],
                value=pl.lit(name),
                # A whole number of units may differ from its double in the last digits.
                within=measured.is_between(low * (1 - _ROUNDING), high * (1 + _ROUNDING)),
                width=(high - low) / measured,
            )
        )
    table = pl.concat(parts)
    together = table.with_columns(cell=pl.lit(ALL_CELLS)) if study.cells else table.clear()
    shares = (
        pl.concat([together, table])
        .group_by(key)
        .agg(_count(), share=pl.col("within").mean(), width=pl.col("width").median())
    )
    return _sort(shares, study).sort(
        [
            pl.col("set").cast(pl.Enum([each.name for each in study.sets])),
            pl.col("value").cast(pl.Enum(SIMULATED)),
        ],
        maintain_order=True,
    )
