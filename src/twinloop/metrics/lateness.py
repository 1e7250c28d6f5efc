"""Lateness of submissions: difference to the submission times of the replayed record.

The three measures are defined by Madon, Da Costa and Pierson, "Replay with feedback: how does the
performance of HPC system impact user submission behavior?", Future Generation Computer Systems
155 (2024), section 6.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from twinloop.metrics.tasks import SLOWDOWN_BOUND, per_task
from twinloop.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Lateness:
    """Lateness of the `tasks` that ran and have a recorded submission.

    `mean` in seconds (equation 3); `relative`, 1 + mean / (last - first recorded submission)
    (equation 4), None if all were recorded at the same time; `additional`, 2 mean / (tasks - 1)
    in seconds (equation 6), None for one task.

    >>> frame = pl.DataFrame({"submit_recorded": [0.0, 10.0, 20.0], "lateness": [0.0, 1.0, 2.0]})
    >>> Lateness.of(frame)
    Lateness(tasks=3, mean=1.0, relative=1.05, additional=1.0)
    """

    tasks: int
    mean: float
    relative: float | None
    additional: float | None

    @classmethod
    def of(cls, tasks: pl.DataFrame) -> Lateness | None:
        """Compute the lateness of the tasks of `per_task`; None if none is known."""
        known = tasks.select("lateness", "submit_recorded").drop_nulls()
        if not known.height:
            return None
        count, mean, relative, additional = known.select(
            pl.len(),
            *(expression.alias(name) for name, expression in _MEASURES.items()),
        ).row(0)
        return cls(count, mean, relative, additional)


_KNOWN = pl.col("lateness").is_not_null()
_RECORDED = pl.col("submit_recorded").filter(_KNOWN)
_SPAN = _RECORDED.max() - _RECORDED.min()
_MEAN = pl.col("lateness").mean()
_COUNT = pl.col("lateness").count().cast(pl.Float64)
_MEASURES = {
    "lateness_mean": _MEAN,
    "lateness_relative": pl.when(_SPAN > 0).then(1 + _MEAN / _SPAN),
    "lateness_additional": pl.when(_COUNT > 1).then(2 * _MEAN / (_COUNT - 1)),
}


def per_user(trace: Trace, *, bound: float = SLOWDOWN_BOUND) -> pl.DataFrame:
    """Compute the figures of each user, sorted by name; tasks without a user have user null.

    Columns: `user`; `tasks`, all tasks, and `jobs`, the tasks that ran; `wait_mean`, `wait_p95`,
    `wait_max`, `turnaround_mean` in s; `bounded_slowdown_mean`; `lateness_mean` in s,
    `lateness_relative`, `lateness_additional` in s, as `Lateness` defines them, over the jobs of
    the user. Null if unknown.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b", "c"], "user": ["u", "v", "u"],
    ...         "submit": [0.0, 0.0, 14.0], "submit_recorded": [0.0, 0.0, 10.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b", "c"], "start": [0.0, 5.0, 15.0],
    ...         "end": [5.0, 15.0, 20.0]}),
    ... )
    >>> per_user(trace).select("user", "jobs", "wait_mean", "lateness_additional").rows()
    [('u', 2, 0.5, 4.0), ('v', 1, 5.0, None)]
    """
    tasks = per_task(trace, bound=bound)
    return (
        tasks.group_by("user")
        .agg(
            tasks=pl.len().cast(pl.Int64),
            jobs=pl.col("ran").sum().cast(pl.Int64),
            wait_mean=pl.col("wait").mean(),
            wait_p95=pl.col("wait").quantile(0.95, "linear"),
            wait_max=pl.col("wait").max(),
            turnaround_mean=pl.col("turnaround").mean(),
            bounded_slowdown_mean=pl.col("bounded_slowdown").mean(),
            **_MEASURES,
        )
        .sort("user")
    )
