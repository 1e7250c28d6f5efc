"""The two tables of a study: a row per run, and a row per configuration."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.files import write_atomically

if TYPE_CHECKING:
    from twinloop.exploration.study.study import Study

#: The tables that are exported, each as CSV and as Parquet.
TABLES: Final = ("runs", "configurations")


def make_runs_table(study: Study) -> pl.DataFrame:
    """A row per run that is over, with the level of each factor and the KPIs."""
    numeric = _numeric(study)
    labels = [
        {name: _column(each.labels.get(name), numeric=numeric[name]) for name in numeric}
        for each in study.planned_configurations
    ]
    rows = []
    for number, run in enumerate(study.planned_runs):
        found = study.results.get(run.key)
        if found is not None:
            kpis = found["kpis"] or {}
            rows.append(
                {
                    "run": number,
                    "configuration": run.configuration,
                    **labels[run.configuration],
                    "seed": run.seed,
                    **{name: _number(kpis.get(name)) for name in study.kpis},
                    "seconds": found["seconds"],
                    "error": found["error"],
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
    """A row per configuration of which a run is over: means over the seeds, and their spread.

    The seeds are those that all configurations have: over other seeds, one that fails with the hard
    ones would look better than it is. A KPI is null where a run with one of these seeds lacks it.
    `runs` and `failed_runs` count all runs.
    """
    here = is_compared(study)
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
            _whole(name, _mean, here).alias(name),
            _whole(name, _deviation, here).alias(f"{name}_sd"),
            _whole(name, pl.Expr.min, here).alias(f"{name}_min"),
            _whole(name, pl.Expr.max, here).alias(f"{name}_max"),
        )
    ]
    found = study.runs.group_by("configuration", maintain_order=True).agg(
        *(pl.col(name).first() for name in study.factors),
        pl.len().cast(pl.Int64).alias("runs"),
        pl.col("error").is_not_null().sum().cast(pl.Int64).alias("failed_runs"),
        *spread,
    )
    return names.join(found, on="configuration", how="inner").sort("configuration")


def is_compared(study: Study) -> pl.Expr:
    """Whether a row of `runs` counts: it did not fail, and all have its seed, if they share any."""
    well = pl.col("error").is_null()
    return well & pl.col("seed").is_in(study.seeds) if study.seeds else well


def _whole(name: str, figure: Callable[[pl.Expr], pl.Expr], here: pl.Expr) -> pl.Expr:
    """A figure of the runs that count; null where one of them lacks the KPI."""
    values = pl.col(name).filter(here)
    return pl.when(values.null_count() == 0).then(figure(values))


def _mean(values: pl.Expr) -> pl.Expr:
    """The mean; of equal values one of them, which a sum would miss by a last digit."""
    return pl.when(values.min() == values.max()).then(values.min()).otherwise(values.mean())


def _deviation(values: pl.Expr) -> pl.Expr:
    """The standard deviation; exactly 0 for equal values."""
    several = values.count() > 1
    equal = several & (values.min() == values.max())
    return pl.when(equal).then(pl.lit(0.0)).otherwise(values.std())


def export(study: Study, folder: Path) -> tuple[Path, ...]:
    """Write both tables as CSV and as Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for name in TABLES:
        table: pl.DataFrame = getattr(study, name)
        for suffix in ("csv", "parquet"):
            path = folder / f"{name}.{suffix}"
            with write_atomically(path) as stream:
                if suffix == "csv":
                    table.write_csv(stream)
                else:
                    table.write_parquet(stream)
            made.append(path)
    return tuple(made)


def _numeric(study: Study) -> dict[str, bool]:
    """Which factors have numbers for levels."""
    return {
        name: all(
            isinstance(each.labels[name], float)
            for each in study.planned_configurations
            if name in each.labels
        )
        for name in study.factors
    }


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _column(label: Any, *, numeric: bool) -> Any:
    if label is None or numeric:
        return label
    return f"{label:g}" if isinstance(label, float) else label
