"""Cores that instances leased, used and did not get, by instance, user, cloud and host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.host_timelines import load_platform, read_use
from twinloop.metrics.instance_use import InstanceUse, find_run_end
from twinloop.metrics.measurement_window import to_float
from twinloop.trace.trace import Trace, require_trace

if TYPE_CHECKING:
    from twinloop.platform import Platform

#: The subjects by which cores can be added up.
_SUBJECTS: Final = ("instance", "user", "cloud", "host")
#: Rounding error of core-seconds, relative to those of the lease.
_ROUNDING: Final = 1e-9


def use_of_instances(
    trace: Trace,
    *,
    by: Literal["instance", "user", "cloud", "host"] = "instance",
    platform: Platform | None = None,
) -> pl.DataFrame:
    """Compute the core-seconds that instances leased and used, and those that they did not get.

    Columns: the subject; `leased_core_s`, the cores of the instances from their allocation to their
    end; `used_core_s`, what their tasks and boots used; `utilisation`, used over leased;
    `shortfall_core_s`, what tasks and boots could have used in addition, had the host not been
    overcommitted. By host there are also `cores`, `capacity_core_s`, the cores from the first
    submission to the end of the run, and `leased`, leased over capacity; the utilisation is then
    used over capacity. Hosts without instances have a row, instances without a host none.

    A task could use the cores that it was given. The use of a task on several hosts is divided by
    the time on each.

    Args:
        trace: The trace of a run with instances.
        by: The subject: a row for each instance, user, cloud or host.
        platform: The platform; by default that of the scenario in the manifest.

    >>> import twinloop as tl
    >>> run = tl.simulate(tl.Scenario.from_dict({
    ...     "platform": {"clusters": [{"hosts": [{"name": "pm", "cores": 4}]}],
    ...                  "clouds": [{"name": "east", "controllers": {"placement":
    ...                      {"name": "pack-ic", "options": {"overcommit": 2}}}}]},
    ...     "workload": {"tasks": [{"id": name, "cores": 4, "run_time": 10} for name in "ab"]},
    ...     "policy": "one-per-task"}))
    >>> use_of_instances(run).select("instance", "leased_core_s", "used_core_s",
    ...     "shortfall_core_s").rows()
    [('instance-1', 80.0, 40.0, 40.0), ('instance-2', 80.0, 40.0, 40.0)]
    """
    if by not in _SUBJECTS:
        raise InputError(
            f"must be one of {', '.join(_SUBJECTS)}, not {by!r}", kind="wrong-argument", field="by"
        )
    require_trace(trace)
    described = load_platform(trace) if platform is None else platform
    given, hosts = read_use(trace, described, is_measured=False)
    used, _ = read_use(trace, described, is_measured=True)
    rented = trace.instances.drop_nulls(["instance", "host", "start"]).select(
        "cores", "cloud", "user"
    )
    periods = pl.concat([given.periods, rented], how="horizontal").with_columns(
        leased_core_s=pl.col("cores") * (pl.col("end") - pl.col("start")),
        used_core_s=_add_up_use(used),
        wanted=_add_up_use(given),
    )
    lost = (pl.col("wanted") - pl.col("used_core_s")).clip(0.0)
    is_short = pl.col("is_crowded") & (lost > _ROUNDING * pl.col("leased_core_s"))
    periods = periods.with_columns(is_crowded=_find_crowded(periods, hosts)).with_columns(
        shortfall_core_s=pl.when(is_short).then(lost).otherwise(0.0)
    )
    sums = ("leased_core_s", "used_core_s", "shortfall_core_s")
    kept = ["cloud", "user"] if by == "instance" else []
    found = periods.group_by(by, *kept, maintain_order=True).agg(pl.col(sums).sum())
    if by != "host":
        ratio = pl.col("used_core_s") / pl.col("leased_core_s")
        return found.select(
            by, *kept, *sums[:2], ratio.fill_nan(None).alias("utilisation"), sums[2]
        )
    return _add_hosts(found, hosts, trace)


def _add_up_use(use: InstanceUse) -> pl.Series:
    """Return the core-seconds of each period."""
    amounts = (
        use.use.drop_nulls("period")
        .group_by("period")
        .agg(amount=(pl.col("cores") * (pl.col("end") - pl.col("start"))).sum())
    )
    rows = pl.DataFrame({"period": pl.int_range(use.periods.height, dtype=pl.UInt32, eager=True)})
    joined = rows.join(amounts, on="period", how="left", maintain_order="left")
    return joined["amount"].fill_null(0.0)


def _find_crowded(periods: pl.DataFrame, hosts: pl.DataFrame) -> pl.Series:
    """Return whether a host had more cores leased than it has, at some time of each period."""
    changes = pl.concat(
        periods.select("host", t=time, change=sign * pl.col("cores"))
        for time, sign in (("start", 1.0), ("end", -1.0))
    )
    # At one time, what ends makes room for what starts.
    levels = (
        changes.group_by("host", "t")
        .agg(pl.col("change").sum())
        .sort("host", "t")
        .with_columns(
            leased=pl.col("change").cum_sum().over("host"),
            until=pl.col("t").shift(-1).over("host"),
        )
        .join(hosts.select("host", limit=pl.col("cores") * (1 + _ROUNDING)), on="host", how="left")
    )
    is_above = pl.col("leased") > pl.col("limit")
    # The first time from which a host is crowded that ends after the start of the period.
    crowded = levels.filter(is_above).select("host", "t", "until").sort("until")
    numbered = periods.with_row_index("row").select("row", "host", "start", "end")
    found = numbered.sort("start").join_asof(
        crowded.with_columns(key=pl.col("until")),
        left_on="start",
        right_on="key",
        by="host",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    return found.sort("row").select((pl.col("t") < pl.col("end")).fill_null(value=False))["t"]


def _add_hosts(found: pl.DataFrame, hosts: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    first = to_float(trace.tasks["submit"].min()) or 0.0
    end = find_run_end(trace)
    capacity = pl.col("capacity_core_s")
    length = pl.min_horizontal(pl.col("end").fill_null(end), end) - pl.max_horizontal(
        "start", pl.lit(first)
    )
    changed = (
        trace.node_periods.rename({"node": "host"})
        .group_by("host")
        .agg(changed_core_s=(pl.col("cores") * length.clip(0.0)).sum())
    )
    whole = pl.col("cores") * max(0.0, end - first)
    return (
        hosts.join(found, on="host", how="left", maintain_order="left")
        .join(changed, on="host", how="left", maintain_order="left")
        .with_columns(pl.col("leased_core_s", "used_core_s", "shortfall_core_s").fill_null(0.0))
        .with_columns(capacity_core_s=pl.coalesce("changed_core_s", whole))
        .select(
            *("host", "cluster", "cores", "capacity_core_s", "leased_core_s", "used_core_s"),
            (pl.col("leased_core_s") / capacity).fill_nan(None).alias("leased"),
            (pl.col("used_core_s") / capacity).fill_nan(None).alias("utilisation"),
            "shortfall_core_s",
        )
    )
