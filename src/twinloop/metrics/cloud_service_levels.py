"""Service levels of clouds: the share of instances or tasks that exceed a declared limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.metrics.host_timelines import load_platform
from twinloop.metrics.instance_use import find_run_end
from twinloop.metrics.tasks import per_task
from twinloop.trace.trace import Trace, require_trace

if TYPE_CHECKING:
    from twinloop.platform import Platform
    from twinloop.platform.service_level import ServiceLevel

_SCHEMA: Final = {
    "cloud": pl.String,
    "rule": pl.String,
    "metric": pl.String,
    "limit": pl.Float64,
    "allowed": pl.Float64,
    "count": pl.Int64,
    "exceeded": pl.Int64,
    "unknown": pl.Int64,
    "share": pl.Float64,
    "violated": pl.Boolean,
}
#: States in which a rented instance is stopped although it was ready.
_STOPPED: Final = ("stopped", "suspended", "suspend-transfer", "resume-transfer", "down")


def service_levels(trace: Trace, *, platform: Platform | None = None) -> pl.DataFrame:
    """Evaluate the service levels of the clouds of a run: a row per rule.

    A rule is violated if more than the `allowed` share of the instances or tasks exceed its limit.
    Columns: `count`, the instances or tasks that were judged; `exceeded`, those above the limit;
    `unknown`, those that are not judged, because they had not reached the limit when they were
    given up, or when the run ended; `share`, exceeded / count. Both `share` and `violated` are null
    if none was judged. An instance that was refused, or lost before its use, and a task that was
    rejected, or never started and did not survive, exceed every limit of a wait.

    Args:
        trace: The trace of a run with instances.
        platform: The platform; by default that of the scenario in the manifest.

    >>> import twinloop as tl
    >>> scenario = tl.Scenario.from_dict({
    ...     "platform": {"clusters": [{"hosts": [{"cores": 1}]}], "clouds": [{"name": "east",
    ...         "sla": [{"metric": "instance_wait", "limit": "1min", "share": "50 %"}]}]},
    ...     "workload": {"tasks": [{"id": name, "run_time": 60} for name in "abc"]},
    ...     "policy": "one-per-task"})
    >>> service_levels(tl.simulate(scenario)).select("rule", "share", "violated").rows()
    [('instance_wait > 60 s for at most 50 %', 0.3333333333333333, False)]
    """
    trace = require_trace(trace)
    described = load_platform(trace) if platform is None else platform
    tasks: pl.DataFrame | None = None
    rows = []
    for cloud in described.clouds:
        for level in cloud.sla:
            if level.subject == "instance":
                values = _measure_instances(trace, cloud.name, level)
            else:
                if tasks is None:
                    tasks = _find_clouds_of_tasks(trace, len(described.clouds) == 1)
                values = _measure_tasks(tasks, cloud.name, level, find_run_end(trace))
            rows.append((cloud.name, *_judge(level, values)))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _judge(level: ServiceLevel, values: pl.DataFrame) -> tuple[object, ...]:
    """Return the row of a rule; a value that is not `final` is a lower bound."""
    exceeded = values.select((pl.col("value") > level.limit).fill_null(False).sum()).item()
    is_unknown = pl.col("value").is_null() | (~pl.col("final") & (pl.col("value") <= level.limit))
    unknown = values.select(is_unknown.sum()).item()
    count = values.height - unknown
    share = exceeded / count if count else None
    violated = None if share is None else share > level.share
    return (
        level.title,
        level.metric,
        level.limit,
        level.share,
        count,
        exceeded,
        unknown,
        share,
        violated,
    )


def _measure_instances(trace: Trace, cloud: str, level: ServiceLevel) -> pl.DataFrame:
    """Return the value of each instance, and whether it is final."""
    end = find_run_end(trace)
    rented = (
        trace.instances.filter(pl.col("cloud") == cloud)
        .group_by("instance", maintain_order=True)
        .agg(
            pl.col("requested").drop_nulls().first(),
            pl.col("ready").drop_nulls().first(),
            pl.col("end").last(),
            pl.col("reason").last(),
        )
    )
    if level.metric == "instance_wait":
        is_hopeless = pl.col("reason").is_in(["refused", "lost"]).fill_null(False)
        return rented.select(
            value=pl.when(pl.col("ready").is_not_null())
            .then(pl.col("ready") - pl.col("requested"))
            .when(is_hopeless)
            .then(math.inf)
            .otherwise(pl.col("end").fill_null(end) - pl.col("requested")),
            final=pl.col("ready").is_not_null() | is_hopeless,
        )
    stopped = trace.instance_states.filter(pl.col("state").is_in(_STOPPED))
    length = (pl.col("end").fill_null(end) - pl.col("start")).sum()
    return (
        rented.join(
            stopped.group_by("instance").agg(length.alias("value")),
            on="instance",
            how="left",
            maintain_order="left",
        )
        .filter(pl.col("ready").is_not_null())
        .select(pl.col("value").fill_null(0.0), final=pl.col("end").is_not_null())
    )


def _find_clouds_of_tasks(trace: Trace, is_only_one: bool) -> pl.DataFrame:
    """Return the tasks with the cloud of their instances; null for a task without one."""
    clouds = trace.instances.select(machine="instance", cloud="cloud").unique("machine")
    first = (
        trace.placements.select("task", "machine")
        .join(clouds, on="machine")
        .unique("task", keep="first")
        .select(id="task", cloud="cloud")
    )
    tasks = per_task(trace).join(first, on="id", how="left", maintain_order="left")
    if is_only_one:
        names = trace.instances["cloud"].drop_nulls().unique()
        tasks = tasks.with_columns(pl.col("cloud").fill_null(names[0] if names.len() else None))
    return tasks


def _measure_tasks(
    tasks: pl.DataFrame, cloud: str, level: ServiceLevel, end: float
) -> pl.DataFrame:
    """Return the value of each task, and whether it is final."""
    own = tasks.filter(pl.col("cloud") == cloud)
    begin = {"wait": pl.col("queued"), "turnaround": pl.col("submit")}.get(level.metric)
    is_known = pl.col(level.metric).is_not_null()
    is_hopeless = (
        pl.col("status").is_in(["rejected", "killed", "failed", "lost"]) & ~pl.col("ran")
    ).fill_null(False)
    is_open = pl.col("status").is_null()
    elapsed = pl.lit(None) if begin is None else pl.when(is_open).then(end - begin)
    return own.select(
        value=pl.when(is_known)
        .then(level.metric)
        .when(is_hopeless)
        .then(math.inf)
        .otherwise(elapsed)
        .cast(pl.Float64),
        final=is_known | is_hopeless,
    )
