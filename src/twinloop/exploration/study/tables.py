"""The tables of a study: a row per run, and a row per configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.files import write_atomically
from twinloop.exploration.factors.factors import format_level

if TYPE_CHECKING:
    from twinloop.exploration.study.study import Study

#: The exported tables, each as CSV and as Parquet.
TABLES: Final = ("runs", "configurations")


def make_runs_table(study: Study) -> pl.DataFrame:
    """Make the table of ended runs, with the level of each factor and the KPIs."""
    numeric = _find_numeric_factors(study)
    labels = [
        {name: _format_label(each.labels.get(name), numeric=numeric[name]) for name in numeric}
        for each in study.planned_configurations
    ]
    rows = []
    for number, run in enumerate(study.planned_runs):
        result = study.results.get(run.key)
        if result is not None:
            kpis = result["kpis"] or {}
            rows.append(
                {
                    "run": number,
                    "configuration": run.configuration,
                    **labels[run.configuration],
                    "seed": run.seed,
                    **{name: _finite_or_none(kpis.get(name)) for name in study.kpis},
                    "seconds": result["seconds"],
                    "error": result["error"],
                }
            )
    schema = {
        "run": pl.Int64,
        "configuration": pl.Int64,
        **{name: pl.Float64 if numeric[name] else pl.String for name in numeric},
        "seed": pl.Int64,
        **dict.fromkeys(study.kpis, pl.Float64),
        "seconds": pl.Float64,
        "error": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, infer_schema_length=None)


def make_configurations_table(study: Study) -> pl.DataFrame:
    """Make the table of configurations: means over the seeds, and their spread.

    Only seeds that all configurations have are used; otherwise, a configuration whose runs fail for
    difficult seeds would appear too good. A KPI is null if a run with one of these seeds lacks it.
    `runs` and `failed_runs` count all runs.
    """
    compared = is_compared(study)
    names = pl.DataFrame(
        {
            "configuration": [each.number for each in study.planned_configurations],
            "name": [each.name for each in study.planned_configurations],
        },
        schema={"configuration": pl.Int64, "name": pl.String},
    )
    spread = [
        expression
        for name in study.kpis
        for expression in (
            _aggregate(name, _compute_mean, compared).alias(name),
            _aggregate(name, _compute_deviation, compared).alias(f"{name}_sd"),
            _aggregate(name, pl.Expr.min, compared).alias(f"{name}_min"),
            _aggregate(name, pl.Expr.max, compared).alias(f"{name}_max"),
        )
    ]
    statistics = study.runs.group_by("configuration", maintain_order=True).agg(
        *(pl.col(name).first() for name in study.factors),
        pl.len().cast(pl.Int64).alias("runs"),
        pl.col("error").is_not_null().sum().cast(pl.Int64).alias("failed_runs"),
        *spread,
    )
    return names.join(statistics, on="configuration", how="inner").sort("configuration")


def is_compared(study: Study) -> pl.Expr:
    """Whether a row of `runs` is compared: a successful run with a shared seed, if there is one."""
    successful = pl.col("error").is_null()
    return successful & pl.col("seed").is_in(study.seeds) if study.seeds else successful


def _aggregate(name: str, statistic: Callable[[pl.Expr], pl.Expr], compared: pl.Expr) -> pl.Expr:
    """Compute a statistic of the compared runs; null if one of them lacks the KPI."""
    values = pl.col(name).filter(compared)
    return pl.when(values.null_count() == 0).then(statistic(values))


def _compute_mean(values: pl.Expr) -> pl.Expr:
    """Compute the mean; exact for equal values, without the rounding error of a sum."""
    return pl.when(values.min() == values.max()).then(values.min()).otherwise(values.mean())


def _compute_deviation(values: pl.Expr) -> pl.Expr:
    """Compute the standard deviation; exactly 0 for equal values."""
    several = values.count() > 1
    equal = several & (values.min() == values.max())
    return pl.when(equal).then(pl.lit(0.0)).otherwise(values.std())


def export(study: Study, folder: Path) -> tuple[Path, ...]:
    """Write both tables as CSV and as Parquet."""
    return write_study_tables({name: getattr(study, name) for name in TABLES}, folder)


def write_study_tables(tables: Mapping[str, pl.DataFrame], folder: Path) -> tuple[Path, ...]:
    """Write tables as CSV and as Parquet, named by their keys; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, table in tables.items():
        for suffix in ("csv", "parquet"):
            path = folder / f"{name}.{suffix}"
            with write_atomically(path) as stream:
                if suffix == "csv":
                    table.write_csv(stream)
                else:
                    table.write_parquet(stream)
            paths.append(path)
    return tuple(paths)


def _find_numeric_factors(study: Study) -> dict[str, bool]:
    """Return for each factor whether all its levels are numbers."""
    return {
        name: all(
            isinstance(each.labels[name], float)
            for each in study.planned_configurations
            if name in each.labels
        )
        for name in study.factors
    }


def _finite_or_none(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _format_label(label: Any, *, numeric: bool) -> Any:
    return label if label is None or numeric else format_level(label)
