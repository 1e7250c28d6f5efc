"""Core use of instances over time, from the tables of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.metrics.measurement_window import to_float
from twinloop.trace.tables import TASK_READS, TASK_WRITES

if TYPE_CHECKING:
    from twinloop.platform.platform import Platform
    from twinloop.trace.trace import Trace

#: States of an instance in which its tasks run, or in which it has none yet.
_WORKING: Final = (
    "requested", "queued", "allocated", "initial-transfer", "startup", "running", "migrating",
)  # fmt: skip


@dataclass(frozen=True)
class InstanceUse:
    """Where instances were, and the cores that they used.

    `periods` has a row for each host of an instance (`instance`, `host`, `start`, `end`); `use` has
    intervals of constant use (`period`, `host`, `start`, `end`, `cores`), where `period` is a row
    of `periods`, or null for a task that ran on the host itself. Uses of an interval add up, and
    may be negative: the part of a task in which it used none, such as during a transfer.
    """

    periods: pl.DataFrame
    use: pl.DataFrame


def find_instance_use(
    trace: Trace,
    platform: Platform,
    speeds: Mapping[str, float],
    *,
    end: float,
    startup_overhead: float = 0.0,
    is_measured: bool = False,
) -> InstanceUse:
    """Collect the periods of instances on hosts and their core use until the end of the run.

    Args:
        trace: The trace of a run with instances.
        platform: Its platform, which describes the boots.
        speeds: The speed of a core of each host, in reference cores.
        end: The end of the run (s).
        startup_overhead: Time from the start of a task to the start of its work (s).
        is_measured: Whether a task used its CPU time, spread evenly over its executions, and not
            all cores that it was given; and a boot its work.
    """
    periods = (
        trace.instances.drop_nulls(["instance", "host", "start"])
        .with_columns(pl.col("end").fill_null(end))
        .select("instance", "host", "start", "end", "cores", "cloud", "image", "ready")
        .with_row_index("period")
    )
    states = trace.instance_states.with_columns(pl.col("end").fill_null(end))
    executions = _find_task_use(trace, states, end, startup_overhead, is_measured=is_measured)
    boots = _find_boot_use(states, periods, platform, speeds, is_measured=is_measured)
    on_instances = executions.rename({"machine": "instance"})
    use = (
        pl.concat([on_instances, boots])
        .join(
            periods.select("period", "instance", "host", begin="start", stop="end"), on="instance"
        )
        .with_columns(
            start=pl.max_horizontal("start", "begin"), end=pl.min_horizontal("end", "stop")
        )
    )
    on_hosts = executions.join(trace.nodes.select(machine="node"), on="machine", how="semi")
    columns = ("period", "host", "start", "end", "cores")
    direct = on_hosts.select(
        pl.lit(None, dtype=pl.UInt32).alias("period"),
        pl.col("machine").alias("host"),
        "start",
        "end",
        "cores",
    )
    use = pl.concat([use.select(columns), direct]).filter(pl.col("end") > pl.col("start"))
    return InstanceUse(periods.select("instance", "host", "start", "end"), use)


def _find_task_use(
    trace: Trace,
    states: pl.DataFrame,
    end: float,
    startup_overhead: float,
    *,
    is_measured: bool,
) -> pl.DataFrame:
    """Return the intervals in which tasks used the cores of a machine."""
    executions = (
        trace.placements.select("task", "machine", "cores", "start", "end")
        .drop_nulls(["machine", "start"])
        .with_columns(
            pl.col("end").fill_null(end),
            pl.col("cores").fill_null(0.0),
            pl.col("start") + startup_overhead,
        )
        .filter(pl.col("end") > pl.col("start"))
    )
    pauses = _find_pauses(trace, executions, states, end)
    parts = pl.concat([executions, pauses])
    if is_measured:
        work = (pl.col("cores") * (pl.col("end") - pl.col("start"))).sum()
        share = (
            parts.group_by("task")
            .agg(work.alias("given"))
            .join(trace.tasks.select("id", "cpu_time"), left_on="task", right_on="id", how="left")
            .select("task", share=pl.col("cpu_time") / pl.col("given"))
            .with_columns(pl.when(pl.col("share").is_finite()).then("share").fill_null(1.0))
        )
        parts = parts.join(share, on="task", how="left").with_columns(
            pl.col("cores") * pl.col("share")
        )
    return parts.select("machine", "start", "end", "cores")


def _find_pauses(
    trace: Trace, executions: pl.DataFrame, states: pl.DataFrame, end: float
) -> pl.DataFrame:
    """Return the parts of executions without use, with the negative number of their cores.

    A task uses no core while its instance is stopped, and while its files are read or written.
    """
    stopped = states.filter(~pl.col("state").is_in(_WORKING)).select(
        machine="instance", begin="start", stop="end"
    )
    copies = trace.transfers.filter(pl.col("kind").is_in([*TASK_READS, *TASK_WRITES])).select(
        task="subject", begin="start", stop=pl.col("end").fill_null(end)
    )
    numbered = executions.with_row_index("execution")
    columns = (*numbered.columns, "begin", "stop")
    parts = pl.concat(
        numbered.join(each, on=on).select(columns)
        for each, on in ((stopped, "machine"), (copies, "task"))
    )
    # Each part without those before it, which may overlap it.
    earlier = pl.col("stop").cum_max().shift(1).over("execution")
    return (
        parts.sort("execution", "begin")
        .with_columns(
            start=pl.max_horizontal("start", "begin", earlier),
            end=pl.min_horizontal("end", "stop"),
        )
        .filter(pl.col("end") > pl.col("start"))
        .select("task", "machine", -pl.col("cores"), "start", "end")
    )


def _find_boot_use(
    states: pl.DataFrame,
    periods: pl.DataFrame,
    platform: Platform,
    speeds: Mapping[str, float],
    *,
    is_measured: bool,
) -> pl.DataFrame:
    """Return the intervals in which boots used cores: after their delay, until their end."""
    boots = pl.DataFrame(
        [
            (cloud.name, image.name, image.boot.work, image.boot.limit, image.boot.delay)
            for cloud in platform.clouds
            for image in cloud.images
            if image.boot.work > 0
        ],
        schema={"cloud": pl.String, "image": pl.String}
        | dict.fromkeys(("work", "limit", "delay"), pl.Float64),
        orient="row",
    )
    hosts = pl.DataFrame(
        {"host": list(speeds), "speed": list(speeds.values())},
        schema={"host": pl.String, "speed": pl.Float64},
    )
    first = periods.unique("instance", keep="first", maintain_order=True)
    begun = (
        states.filter(pl.col("state") == "startup")
        .join(first.drop("start", "end"), on="instance")
        .join(boots, on=["cloud", "image"])
        .join(hosts, on="host")
        .with_columns(pl.col("start") + pl.col("delay"))
        .filter(pl.col("end") > pl.col("start"))
    )
    limit = pl.min_horizontal("limit", "cores")
    # The mean number of cores of a complete boot, which may have shared them.
    mean = pl.col("work") / pl.col("speed") / (pl.col("end") - pl.col("start"))
    is_mean = pl.lit(is_measured) & (pl.col("end") == pl.col("ready"))
    return begun.select(
        "instance", "start", "end", cores=pl.when(is_mean).then(mean).otherwise(limit)
    )


def find_run_end(trace: Trace) -> float:
    """Return the end of a run (s): the last time of its tables; 0 for an empty trace.

    A simulation that has not ended, or whose last event is in no table, has stored its time.

    >>> from twinloop.trace import Trace
    >>> find_run_end(Trace(power=pl.DataFrame({"t": [7.0], "dt": [7.0], "watts": [1.0]})))
    7.0
    """
    columns = [trace.power["t"]]
    for table in (trace.placements, trace.instances, trace.instance_states, trace.node_states):
        columns += [table["start"], table["end"]]
    stored = trace.manifest.facts.get("run")
    last = to_float(stored.get("end_s")) if isinstance(stored, Mapping) else None
    # An edit may have shifted or cut the tables.
    ends = [] if last is None or trace.manifest.edits else [last]
    return max([0.0, *ends, *(to_float(column.max()) or 0.0 for column in columns)])
