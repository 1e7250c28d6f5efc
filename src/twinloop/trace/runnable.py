"""Which tasks of a log can be run again, and on what."""

from __future__ import annotations

import polars as pl

from twinloop.trace.trace import Trace


def runnable_tasks(trace: Trace) -> pl.DataFrame:
    """The tasks that can be run again, with `processors`, and with what a replay needs filled in.

    Processors are those requested, else those allocated. A task is runnable if they are more than
    none and its run time is known and not negative; tasks of zero seconds and tasks that failed
    are. A run time that is not recorded is that of the last attempt; a requested time that is
    missing is the run time. The Trace itself keeps what is missing as missing.

    >>> trace = Trace(tasks=pl.DataFrame({
    ...     "id": ["a", "b", "c"],
    ...     "requested_cores": [4.0, None, 1.0],
    ...     "run_time": [60.0, 60.0, 0.0],
    ... }))
    >>> runnable_tasks(trace).select("id", "processors", "requested_time").rows()
    [('a', 4.0, 60.0), ('c', 1.0, 0.0)]
    """
    last = pl.col("attempt") == pl.col("attempt").max().over("task")
    given = (
        trace.placements.filter(last | pl.col("attempt").is_null())
        .group_by("task")
        .agg(
            pl.when(pl.col("cores").null_count() == 0).then(pl.col("cores").sum()),
            took=pl.col("end").max() - pl.col("start").min(),
        )
    )
    return (
        trace.tasks.join(given, left_on="id", right_on="task", how="left", maintain_order="left")
        .with_columns(
            processors=pl.coalesce("requested_cores", "cores"),
            run_time=pl.coalesce("run_time", "took"),
        )
        .filter((pl.col("processors") > 0) & (pl.col("run_time") >= 0))
        .with_columns(requested_time=pl.coalesce("requested_time", "run_time"))
        .drop("cores", "took")
    )
