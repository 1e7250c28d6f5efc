"""Energy, carbon and money of instances, their users, their hosts and their clouds.

The power of a host is divided among its instances by Equation 6 of G. Kecskemeti, "DISSECT-CF: a
simulator to foster energy-aware scheduling in infrastructure clouds" (Simulation Modelling Practice
and Theory 58, 2015): the power above idle by their core use, the idle power in equal parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.electricity import load_intensities
from twinloop.metrics.energy_and_carbon import JOULES_PER_KWH, CarbonIntensity
from twinloop.metrics.host_timelines import HostTimelines, build_host_timelines, load_platform
from twinloop.metrics.weighted_intervals import Floats, Rows
from twinloop.scenario import Prices
from twinloop.trace.trace import Trace, require_trace

if TYPE_CHECKING:
    from twinloop.platform import Platform

#: The subjects by which energy can be added up.
_SUBJECTS: Final = ("instance", "user", "cloud", "host")


def energy_of_instances(
    trace: Trace,
    *,
    by: Literal["instance", "user", "cloud", "host"] = "instance",
    platform: Platform | None = None,
    intensity: float | pl.DataFrame | None = None,
    prices: Prices | None = None,
) -> pl.DataFrame:
    """Compute the energy, the carbon and the money of instances, from the tables of a run.

    A host of power P with n instances divides min(P, idle) into n equal parts, and the rest of P
    among them by the cores that they use. Without any use, the rest is divided equally as well. An
    instance is on its host from its allocation to its end. The energy of the instances of a host is
    that of the host while it has instances; the energy at other times is `unattributed_j`.

    Columns: the subject; `energy_j`, the sum of `idle_j` and `variable_j`; `carbon_g` and
    `energy_cost` of this energy, null if the intensity or the price is unknown; `bill`, the prices
    of the instances. By cloud and by host there are also `unattributed_j` and `unattributed_g`. An
    energy is null on hosts without a power model. Instances that never had a host have none.

    Args:
        trace: The trace of a run with instances.
        by: The subject: a row for each instance, user, cloud or host.
        platform: The platform; by default that of the scenario in the manifest.
        intensity: Carbon intensity, as in `carbon`; by default those of the clusters.
        prices: Price of the energy; by default that of the scenario.

    >>> import twinloop as tl
    >>> scenario = tl.Scenario.from_dict({
    ...     "platform": {"clusters": [{"carbon": 360, "hosts": [{"cores": 4, "power":
    ...         {"model": "linear", "idle": 100, "max": 200}}]}], "clouds": [{"name": "east"}]},
    ...     "workload": {"tasks": [{"id": "a", "user": "ann", "run_time": 60},
    ...         {"id": "b", "user": "bob", "cores": 2, "run_time": 30}]},
    ...     "policy": "one-per-task"})
    >>> energy_of_instances(tl.simulate(scenario), by="user").select(
    ...     "user", "energy_j", "idle_j", "carbon_g").rows()
    [('ann', 6000.0, 4500.0, 0.6), ('bob', 3000.0, 1500.0, 0.3)]
    """
    trace = require_trace(trace)
    if by not in _SUBJECTS:
        raise InputError(
            f"must be one of {', '.join(_SUBJECTS)}, not {by!r}", kind="unknown-name", field="by"
        )
    described = load_platform(trace) if platform is None else platform
    timelines = build_host_timelines(trace, described)
    grams = _integrate_intensity(trace, timelines, intensity)
    kwh = _find_price(trace, prices)
    hosted = _attribute(timelines, grams)
    if by in ("instance", "user"):
        each = _join_instances(trace, hosted)
        table = each if by == "instance" else _group(each, "user")
    else:
        table = _sum_by_place(trace, described, timelines, grams, hosted, by)
    cost = pl.lit(kwh, dtype=pl.Float64) * pl.col("energy_j") / JOULES_PER_KWH
    columns = table.with_columns(energy_cost=cost)
    last = [name for name in ("unattributed_j", "unattributed_g") if name in table.columns]
    order = ("energy_j", "idle_j", "variable_j", "carbon_g", "energy_cost", "bill", *last)
    return columns.select(*(name for name in table.columns if name not in order), *order)


@dataclass(frozen=True)
class _Shares:
    """Integrals over the time of each host, up to each step."""

    #: Of one instance: its part of the idle power, and its part of the rest without any use.
    idle: Floats
    rest: Floats
    #: Of one used core: its part of the power above idle.
    per_core: Floats

    @classmethod
    def of(cls, timelines: HostTimelines, weight: Floats) -> _Shares:
        """Integrate the shares of the power with a weight per step, such as its length."""
        watts, idle = _split_power(timelines)
        count = timelines.instances
        is_hosted, is_used = count > 0, (timelines.use > 0) & (count > 0)
        each = np.divide(weight, count, out=np.zeros(count.size), where=is_hosted)
        core = np.divide(weight, timelines.use, out=np.zeros(count.size), where=is_used)
        above = watts - idle
        return cls(
            timelines.integrate(idle * each),
            timelines.integrate(np.where(is_used, 0.0, above) * each),
            timelines.integrate(above * core),
        )

    def attribute(self, timelines: HostTimelines) -> tuple[Floats, Floats]:
        """Return the idle part and the variable part of each period of an instance."""
        start, end = timelines.period_steps
        idle = self.idle[end] - self.idle[start]
        rest = self.rest[end] - self.rest[start]
        begin, stop = timelines.use_steps
        own = timelines.use_period >= 0
        amount = timelines.use_cores * (self.per_core[stop] - self.per_core[begin])
        variable = np.bincount(timelines.use_period[own], amount[own], start.size)
        return idle, rest + variable


def _split_power(timelines: HostTimelines) -> tuple[Floats, Floats]:
    """Return the power of each step and its idle part; 0 for hosts without a power model."""
    watts = np.nan_to_num(timelines.watts)
    # In a state with less power than idle, all of it counts as idle.
    return watts, np.minimum(watts, np.nan_to_num(timelines.idle)[timelines.host])


def _attribute(timelines: HostTimelines, grams: Floats | None) -> pl.DataFrame:
    """Return the periods of instances on hosts with their energy and carbon."""
    idle, variable = _Shares.of(timelines, timelines.length).attribute(timelines)
    rows = timelines.host[timelines.period_steps[0]]
    known = ~np.isnan(timelines.idle[rows])
    columns: dict[str, Any] = {
        "idle_j": idle,
        "variable_j": variable,
        "energy_j": idle + variable,
        "carbon_g": np.full(idle.size, np.nan),
    }
    if grams is not None:
        parts = _Shares.of(timelines, grams / JOULES_PER_KWH).attribute(timelines)
        columns["carbon_g"] = parts[0] + parts[1]
    return timelines.periods.with_columns(
        pl.Series(name, np.where(known, values, np.nan)).fill_nan(None)
        for name, values in columns.items()
    )


def _sum_unattributed(timelines: HostTimelines, weight: Floats, place: Rows, size: int) -> Floats:
    """Return the amount of each place that no instance has, with a weight per step.

    It is that of the times without instances, and the part above idle of tasks on the host itself.
    `place` is the number of the place of each step, such as its host.
    """
    watts, _ = _split_power(timelines)
    empty = timelines.instances == 0
    total: Floats = np.zeros(size)
    total += np.bincount(place[empty], (watts * weight)[empty], total.size)
    own = timelines.use_period < 0
    if own.any():
        begin, stop = (steps[own] for steps in timelines.use_steps)
        per_core = _Shares.of(timelines, weight).per_core
        amount = timelines.use_cores[own] * (per_core[stop] - per_core[begin])
        # A host that is registered in a cloud has no tasks of its own.
        total += np.bincount(place[begin], amount, total.size)
    return total


def _sum_known(*names: str) -> list[pl.Expr]:
    """Sum columns; null if a value is unknown."""
    return [
        pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).alias(name)
        for name in names
    ]


_AMOUNTS: Final = ("energy_j", "idle_j", "variable_j", "carbon_g")


def _join_instances(trace: Trace, hosted: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each instance, with its cloud, user, energy and bill."""
    energy = hosted.group_by("instance").agg(_sum_known(*_AMOUNTS))
    price = pl.col("price").drop_nulls()
    rented = trace.instances.group_by("instance", maintain_order=True).agg(
        pl.col("cloud").first(),
        pl.col("user").first(),
        pl.col("host").is_not_null().any().alias("hosted"),
        pl.when(price.len() > 0).then(price.sum().round_sig_figs(15)).alias("bill"),
    )
    joined = rented.join(energy, on="instance", how="left", maintain_order="left")
    # An instance that was refused has no energy.
    never = ~pl.col("hosted")
    return joined.with_columns(
        pl.when(never).then(0.0).otherwise(name).alias(name) for name in _AMOUNTS
    ).drop("hosted")


def _group(each: pl.DataFrame, subject: str) -> pl.DataFrame:
    bill = pl.col("bill").drop_nulls()
    return (
        each.group_by(subject, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("instances"),
            *_sum_known(*_AMOUNTS),
            pl.when(bill.len() > 0).then(bill.sum().round_sig_figs(15)).alias("bill"),
        )
        .sort(subject, nulls_last=True)
    )


def _sum_by_place(
    trace: Trace,
    platform: Platform,
    timelines: HostTimelines,
    grams: Floats | None,
    hosted: pl.DataFrame,
    by: str,
) -> pl.DataFrame:
    """Return a row for each host or cloud, with the energy that no instance has."""
    clouds = pl.Series([*(cloud.name for cloud in platform.clouds), None], dtype=pl.String)
    # No cloud has the last number.
    cloud = np.where(timelines.cloud < 0, len(platform.clouds), timelines.cloud)
    if by == "host":
        place, names = timelines.host, timelines.hosts
    else:
        place, names = cloud, clouds
    is_known = np.ones(names.len(), dtype=np.bool_)
    has_length = (timelines.length > 0) | (by == "host")
    is_known[place[np.isnan(timelines.idle[timelines.host]) & has_length]] = False
    joules = _sum_unattributed(timelines, timelines.length, place, names.len())
    carbon = np.full(names.len(), np.nan)
    if grams is not None:
        carbon = _sum_unattributed(timelines, grams / JOULES_PER_KWH, place, names.len())
    number = pl.int_range(names.len(), dtype=pl.Int64, eager=True)
    places = pl.DataFrame(
        {
            "place": number,
            by: names,
            "unattributed_j": np.where(is_known, joules, np.nan),
            "unattributed_g": np.where(is_known, carbon, np.nan),
        }
    ).with_columns(pl.col("unattributed_j", "unattributed_g").fill_nan(None))
    amounts = (
        hosted.with_columns(place=pl.Series(place[timelines.period_steps[0]], dtype=pl.Int64))
        .group_by("place")
        .agg(_sum_known(*_AMOUNTS))
    )
    # A place without instances has none of the energy, if that is known.
    is_unused = pl.col("energy_j").is_null() & ~pl.col("place").is_in(amounts["place"].implode())
    joined = places.join(amounts, on="place", how="left", maintain_order="left").with_columns(
        pl.when(pl.col(f"unattributed_{unit}").is_null())
        .then(None)
        .when(is_unused)
        .then(0.0)
        .otherwise(name)
        .alias(name)
        for name, unit in zip(_AMOUNTS, "jjjg", strict=True)
    )
    # The bill of an instance that moved belongs to its last host.
    price = pl.col("price").drop_nulls()
    rented = trace.instances if by == "cloud" else trace.instances.drop_nulls("host")
    counts = rented.group_by(by).agg(
        pl.col("instance").n_unique().cast(pl.Int64).alias("instances"),
        pl.when(price.len() > 0).then(price.sum().round_sig_figs(15)).alias("bill"),
    )
    found = joined.join(counts, on=by, how="left", nulls_equal=True, maintain_order="left")
    found = found.with_columns(pl.col("instances").fill_null(0))
    last = ("bill", "unattributed_j", "unattributed_g")
    if by == "host":
        member = timelines.cloud >= 0
        # The last one of its clouds remains.
        own = np.full(names.len(), len(platform.clouds))
        own[timelines.host[member]] = timelines.cloud[member]
        return found.with_columns(cloud=clouds.gather(own)).select(
            "host", "cloud", "instances", *_AMOUNTS, *last
        )
    is_billed = [cloud.billing is not None for cloud in platform.clouds] + [False]
    present = np.unique(place[timelines.length > 0])
    return (
        found.with_columns(
            bill=pl.when(pl.Series(is_billed)).then(pl.col("bill").fill_null(0.0)).otherwise("bill")
        )
        # Hosts that belong to no cloud have a row, if there are any.
        .filter(pl.col("place").is_in(present) | pl.col("cloud").is_not_null())
        .select("cloud", "instances", *_AMOUNTS, *last)
    )


def _integrate_intensity(
    trace: Trace, timelines: HostTimelines, intensity: float | pl.DataFrame | None
) -> Floats | None:
    """Integrate the carbon intensity over each step (g s/kWh); None if it is unknown."""
    by_cluster = dict.fromkeys(timelines.clusters.unique(), intensity)
    if intensity is None:
        by_cluster = dict.fromkeys(by_cluster) | load_intensities(trace)
    result = np.zeros(timelines.t.size)
    step_ends = timelines.t + timelines.length
    for name, given in by_cluster.items():
        own = (timelines.clusters == name).to_numpy()[timelines.host]
        if not own.any() or np.isnan(timelines.watts[own]).all():
            continue
        if given is None:
            return None
        series = CarbonIntensity.of(given, trace.manifest.epoch_ms)
        first = float(timelines.t[own].min())
        if first < series.t[0]:
            raise InputError(
                f"starts at t = {series.t[0]:g} s, after the power at t = {first:g} s",
                kind="carbon-unavailable",
                field="intensity",
                remedy="use a series that covers the run; unix_ms needs the correct epoch",
            )
        result[own] = series.integral(step_ends[own]) - series.integral(timelines.t[own])
    return result


def _find_price(trace: Trace, prices: Prices | None) -> float | None:
    """Return the price of a kWh; None if neither the caller nor the scenario gives one."""
    if prices is None:
        given = (trace.manifest.scenario or {}).get("prices")
        prices = None if given is None else Prices.from_dict(given)
    return None if prices is None else prices.kwh
