"""Tasks completed in both runs: errors by task and by group."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.fidelity.compared_run import ComparedRun

QUANTITIES: Final = ("wait", "turnaround", "run_time")
#: Number of tasks with the largest errors that are listed for each quantity.
WORST_COUNT: Final = 3
#: Size classes by cores and by real run time (s); upper bounds are inclusive.
CORES: Final = ((1.0, "1"), (4.0, "2-4"), (16.0, "5-16"), (64.0, "17-64"))
CORES_BEYOND: Final = "over 64"
RUN_TIMES: Final = (
    (10.0, "up to 10 s"),
    (60.0, "10 s - 1 min"),
    (600.0, "1 - 10 min"),
    (3600.0, "10 min - 1 h"),
    (36000.0, "1 - 10 h"),
)
RUN_TIMES_BEYOND: Final = "over 10 h"


def match_tasks(real: ComparedRun, twin: ComparedRun) -> pl.DataFrame:
    """Match the tasks completed in both runs; the result is `Errors.tasks`.

    >>> from twinloop.trace import Trace
    >>> match_tasks(ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")).height
    0
    """
    kept = ["id", "user", "kind", "cores", "machine", *QUANTITIES]
    both = real.completed.select(kept).join(
        twin.completed.select("id", "machine", *QUANTITIES),
        on="id", how="inner", suffix="_twin", maintain_order="left",
    )  # fmt: skip
    parts: list[str | pl.Expr] = []
    for name in QUANTITIES:
        error = (pl.col(f"{name}_twin") - pl.col(name)).round(6)
        parts += [pl.col(name).alias(f"{name}_real"), f"{name}_twin", error.alias(f"{name}_error")]
    return both.select(
        *("id", "user", "kind", "cores"),
        pl.col("machine").alias("machine_real"),
        "machine_twin",
        *parts,
        cores_class=_classify("cores", CORES, CORES_BEYOND),
        run_time_class=_classify("run_time", RUN_TIMES, RUN_TIMES_BEYOND),
    )


def _classify(column: str, ends: tuple[tuple[float, str], ...], beyond: str) -> pl.Expr:
    size_class = pl.lit(beyond)
    for end, name in reversed(ends):
        size_class = pl.when(pl.col(column) <= end).then(pl.lit(name)).otherwise(size_class)
    return pl.when(pl.col(column).is_null()).then(pl.lit("unknown")).otherwise(size_class)


def select_worst_tasks(tasks: pl.DataFrame) -> pl.DataFrame:
    """Select the tasks with the largest errors; the result is `Errors.worst`.

    >>> from twinloop.trace import Trace
    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> select_worst_tasks(match_tasks(*sides)).columns[:2]
    ['quantity', 'id']
    """
    parts = []
    for name in QUANTITIES:
        size = pl.col(f"{name}_error").abs()
        parts.append(
            tasks.filter(size > 0)
            .sort([size, "id"], descending=[True, False])
            .head(WORST_COUNT)
            .select(
                pl.lit(name).alias("quantity"),
                *("id", "user", "kind", "machine_real", "machine_twin"),
                real=f"{name}_real",
                twin=f"{name}_twin",
                error=f"{name}_error",
            )
        )
    return pl.concat(parts)


def average_by_group(tasks: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Compute means and errors of groups of tasks, as in `Errors.users` and `Errors.sizes`.

    >>> from twinloop.trace import Trace
    >>> tasks = match_tasks(ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin"))
    >>> average_by_group(tasks, "user").columns[:3]
    ['user', 'tasks', 'wait_real']
    """
    parts = []
    for name in QUANTITIES:
        error = pl.col(f"{name}_error")
        parts += [
            pl.col(f"{name}_real").mean(),
            pl.col(f"{name}_twin").mean(),
            error.mean(),
            error.abs().mean().alias(f"{name}_off"),
        ]
    return tasks.group_by(*by).agg(pl.len().cast(pl.Int64).alias("tasks"), *parts)


def sort_size_classes(sizes: pl.DataFrame) -> pl.DataFrame:
    """Sort the size classes in ascending order, unknown sizes last.

    >>> classes = {"cores_class": ["over 64", "1"], "run_time_class": ["1 - 10 h", "1 - 10 h"]}
    >>> sort_size_classes(pl.DataFrame(classes))["cores_class"].to_list()
    ['1', 'over 64']
    """
    orders = []
    for column, ends, beyond in (
        ("cores_class", CORES, CORES_BEYOND),
        ("run_time_class", RUN_TIMES, RUN_TIMES_BEYOND),
    ):
        names = [name for _, name in ends] + [beyond, "unknown"]
        orders.append(pl.col(column).replace_strict(names, range(len(names)), default=None))
    return sizes.sort(orders)
