"""The recorded runs of the tasks of a trace: times, processors, and whether they are runnable."""

from __future__ import annotations

import polars as pl

from twinloop.trace.trace import Trace


def collect_runs(trace: Trace) -> pl.DataFrame:
    """Collect the recorded run of each task, in the order of `tasks`; unknown values are null.

    - `id`, `submit`.
    - `start`, `end`: first start and last end of its executions; `wait`: from `submit` to `start`.
    - `last_start`, `last_end`: of its last attempt that has both.
    - `processors`: the requested number if it is positive, else the allocated number of the last
      attempt for which it is known, if it is positive.
    - `run_time`: as recorded, else the length of the last attempt with start and end, because a
      task that was restarted needs one complete run. Null if negative.
    - `runnable`: whether `processors` and `run_time` are known. Tasks of zero seconds and failed
      tasks are runnable.

    A number that is not finite is unknown.

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
    tasks = trace.tasks.select(
        "id", *map(_finite_or_null, ("submit", "requested_cores", "run_time"))
    )
    processors = pl.coalesce("requested_cores", "allocated")
    run_time = pl.coalesce("run_time", pl.col("last_end") - pl.col("last_start"))
    tasks = tasks.with_columns(pl.when(pl.col("requested_cores") > 0).then("requested_cores"))
    return (
        _join_attempts(tasks, _aggregate_attempts(trace))
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


def _join_attempts(tasks: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Join the tasks with a row per task that was started, by id.

    In a simulated run these are often the same tasks in the same order, which needs no join.
    """
    ids, started = tasks["id"], attempts["task"]
    if not started.null_count() and started.equals(ids):
        return tasks.hstack(attempts.drop("task"))
    return tasks.join(attempts, left_on="id", right_on="task", how="left", maintain_order="left")


def _aggregate_attempts(trace: Trace) -> pl.DataFrame:
    """Aggregate the placements of each task: its times, its last attempt, its processors."""
    placements = trace.placements.select(
        "task", pl.col("attempt").fill_null(0), *map(_finite_or_null, ("start", "end", "cores"))
    )
    complete = pl.col("start").is_not_null() & pl.col("end").is_not_null()
    last_times = {f"last_{name}": pl.when(complete).then(name) for name in ("start", "end")}
    if placements["task"].n_unique() == placements.height:  # nothing to aggregate
        return placements.select("task", "start", "end", allocated="cores", **last_times)
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
    return (
        attempts.with_columns(**last_times)
        .group_by("task")
        .agg(
            pl.col("start").min(),
            pl.col("end").max(),
            pl.col("allocated", "last_start", "last_end").drop_nulls().last(),
        )
    )


def _finite_or_null(name: str) -> pl.Expr:
    return pl.when(pl.col(name).is_finite()).then(name)
