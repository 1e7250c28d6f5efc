"""What the tasks of a log ran as, and which of them can be run again."""

from __future__ import annotations

import polars as pl

from twinloop.trace.trace import Trace


def collect_runs(trace: Trace) -> pl.DataFrame:
    """What each task ran as, in the order of `tasks`; what is not known is null.

    - `id`, `submit`.
    - `start`, `end`: the first start and the last end of its executions; `wait`: until the first.
    - `last_start`, `last_end`: of its last attempt that has both.
    - `processors`: those requested or, where that is not more than none, those of the last attempt
      that says; null where that is none.
    - `run_time`: as recorded, else the length of the last attempt that has start and end: a task
      that was started again needs one whole run. Null where it is negative.
    - `runnable`: are `processors` and `run_time` known? Tasks of zero seconds and tasks that
      failed are runnable.

    A number that is none (not finite) is not known.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({
    ...         "id": ["a", "b", "c"],
    ...         "requested_cores": [4.0, 0.0, None],
    ...         "run_time": [0.0, None, 60.0],
    ...     }),
    ...     placements=pl.DataFrame({
    ...         "task": ["b", "b"], "attempt": [0, 1], "cores": [2.0, 2.0],
    ...         "start": [0.0, 20.0], "end": [10.0, 25.0],
    ...     }),
    ... )
    >>> collect_runs(trace).select("id", "processors", "run_time", "runnable").rows()
    [('a', 4.0, 0.0, True), ('b', 2.0, 5.0, True), ('c', None, 60.0, False)]
    """
    tasks = trace.tasks.select("id", *map(_finite, ("submit", "requested_cores", "run_time")))
    processors = pl.coalesce("requested_cores", "allocated")
    run_time = pl.coalesce("run_time", pl.col("last_end") - pl.col("last_start"))
    return (
        tasks.with_columns(pl.when(pl.col("requested_cores") > 0).then("requested_cores"))
        .join(_executed(trace), left_on="id", right_on="task", how="left", maintain_order="left")
        .select(
            *("id", "submit", "start", "end", "last_start", "last_end"),
            processors=pl.when(processors > 0).then(processors),
            run_time=pl.when(run_time >= 0).then(run_time),
            wait=pl.col("start") - pl.col("submit"),
        )
        .with_columns(
            runnable=pl.col("processors").is_not_null() & pl.col("run_time").is_not_null()
        )
    )


def _executed(trace: Trace) -> pl.DataFrame:
    """A row per task that has placements: when it ran, when it last ran, on how much."""
    placements = trace.placements.select(
        "task", pl.col("attempt").fill_null(0), *map(_finite, ("start", "end", "cores"))
    )
    # The nodes of one attempt are used together.
    attempts = (
        placements.group_by("task", "attempt")
        .agg(
            pl.col("start").min(),
            pl.col("end").max(),
            allocated=pl.when(pl.col("cores").count() > 0).then(pl.col("cores").sum()),
        )
        .sort("attempt")
    )
    whole = pl.col("start").is_not_null() & pl.col("end").is_not_null()
    return (
        attempts.with_columns(
            last_start=pl.when(whole).then("start"), last_end=pl.when(whole).then("end")
        )
        .group_by("task")
        .agg(
            pl.col("start").min(),
            pl.col("end").max(),
            pl.col("allocated", "last_start", "last_end").drop_nulls().last(),
        )
    )


def _finite(name: str) -> pl.Expr:
    return pl.when(pl.col(name).is_finite()).then(name)
