"""Readings of the meters of clouds: their power over time and their energy.

The power of a meter is constant between the events of the run and the times of the temperature, so
that it is computed once per step, and its energy is exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.description.class_registry import CodeNotAllowed
from twinloop.description.errors import InputError
from twinloop.description.plugins import describe_error, import_code
from twinloop.metrics.host_timelines import HostTimelines, build_host_timelines, load_platform
from twinloop.metrics.weighted_intervals import Floats, Rows
from twinloop.platform.clouds import Cloud, list_cloud_hosts
from twinloop.platform.meters import CloudMeter, order_meters
from twinloop.platform.temperature import load_temperature
from twinloop.trace.trace import Trace, require_trace

if TYPE_CHECKING:
    from twinloop.platform import Platform

#: Rounding error of a sum over hosts, relative to its largest value.
_ROUNDING: Final = 1e-12


def energy_by_meter(
    trace: Trace, *, platform: Platform | None = None, allow_code: bool = False
) -> pl.DataFrame:
    """Compute the energy of each meter of the clouds of a run, from its tables.

    The first meter of each cloud is `it`, all its hosts. Columns: cloud, meter, kind, `energy_j`,
    and the mean, smallest and largest power.

    Args:
        trace: The trace of a run.
        platform: The platform; by default that of the scenario in the manifest.
        allow_code: Whether the functions of meters may be imported and run.

    >>> import twinloop as tl
    >>> scenario = tl.Scenario.from_dict({
    ...     "platform": {"clusters": [{"hosts": [{"cores": 4, "power":
    ...         {"model": "linear", "idle": 100, "max": 200}}]}], "clouds": [{"name": "east",
    ...         "meters": [{"name": "hvac", "watts": "max(40, 0.3 * it)"}]}]},
    ...     "workload": {"tasks": [{"id": "a", "cores": 4, "run_time": 60},
    ...         {"id": "b", "submit": 60, "run_time": 40}]},
    ...     "policy": "one-per-task"})
    >>> energy_by_meter(tl.simulate(scenario)).select("meter", "energy_j", "max_w").rows()
    [('it', 17000.0, 200.0), ('hvac', 5200.0, 60.0)]
    """
    steps = meter_readings(trace, platform=platform, allow_code=allow_code)
    length = pl.col("end") - pl.col("start")
    joules = (pl.col("watts") * length).sum()
    return steps.group_by("cloud", "meter", "kind", maintain_order=True).agg(
        joules.alias("energy_j"),
        pl.when(length.sum() > 0).then(joules / length.sum()).alias("mean_w"),
        pl.col("watts").min().alias("min_w"),
        pl.col("watts").max().alias("max_w"),
    )


def meter_readings(
    trace: Trace, *, platform: Platform | None = None, allow_code: bool = False
) -> pl.DataFrame:
    """Compute the power of each meter over time: a row per period of constant power.

    Columns: cloud, meter, kind (direct, indirect or aggregated), `start`, `end`, `watts`. The
    arguments are those of `energy_by_meter`.

    >>> import twinloop as tl
    >>> scenario = tl.Scenario.from_dict({
    ...     "platform": {"clusters": [{"hosts": [{"cores": 4, "power":
    ...         {"model": "linear", "idle": 100, "max": 200}}]}], "clouds": [{"name": "east"}]},
    ...     "workload": {"tasks": [{"id": "a", "cores": 4, "run_time": 60},
    ...         {"id": "b", "submit": 60, "run_time": 40}]},
    ...     "policy": "one-per-task"})
    >>> meter_readings(tl.simulate(scenario)).select("meter", "start", "end", "watts").rows()
    [('it', 0.0, 60.0, 200.0), ('it', 60.0, 100.0, 125.0)]
    """
    trace = require_trace(trace)
    described = load_platform(trace) if platform is None else platform
    functions = [
        _load_functions(cloud, allow_code=allow_code) for cloud in described.clouds
    ]  # before any work
    frames = [pl.DataFrame(schema=_SCHEMA)]
    if described.clouds:
        timelines = build_host_timelines(trace, described)
        for number, loaded in enumerate(functions):
            frames += _read_cloud(trace, described, number, timelines, loaded)
    return pl.concat(frames)


_SCHEMA: Final = {
    "cloud": pl.String,
    "meter": pl.String,
    "kind": pl.String,
    "start": pl.Float64,
    "end": pl.Float64,
    "watts": pl.Float64,
}


@dataclass(frozen=True)
class _CloudSteps:
    """The steps of a cloud: times, of which the last one is the end of the run."""

    timelines: HostTimelines
    t: Floats
    #: The steps of the hosts of the cloud, and the steps of the cloud at these times.
    rows: Rows
    places: Rows

    #: Whether the host belongs to the cloud at each of the rows.
    is_member: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, timelines: HostTimelines, number: int, times: Floats) -> _CloudSteps | None:
        """Create the steps of a cloud, by its number; None if the run has no length."""
        is_member = timelines.cloud == number
        hosts = np.unique(timelines.host[is_member])
        rows = np.flatnonzero(np.isin(timelines.host, hosts))
        own = timelines.t[rows]
        if np.unique(own).size < 2:
            return None
        first, last = own.min(), own.max()
        t = np.unique(np.concatenate([own, times[(times > first) & (times < last)]]))
        return cls(timelines, t, rows, np.searchsorted(t, own), is_member[rows])

    def sum_hosts(self, values: Floats, hosts: list[str] | None = None) -> Floats:
        """Return the sum over the hosts of a step function, at the steps of the cloud.

        A host counts while it belongs to the cloud.
        """
        rows, places, is_member = self.rows, self.places, self.is_member
        if hosts is not None:
            chosen = self.timelines.select_hosts(hosts)[rows]
            rows, places, is_member = rows[chosen], places[chosen], is_member[chosen]
        level, host = np.where(is_member, values[rows], 0.0), self.timelines.host[rows]
        is_first = np.diff(host, prepend=-1) != 0
        change = np.where(is_first, level, np.diff(level, prepend=0.0))
        total: Floats = np.cumsum(np.bincount(places, change, self.t.size))
        total[np.abs(total) <= _ROUNDING * np.abs(total).max(initial=0.0)] = 0.0
        return total[:-1]


def _read_cloud(
    trace: Trace,
    platform: Platform,
    number: int,
    timelines: HostTimelines,
    functions: Mapping[str, Any],
) -> list[pl.DataFrame]:
    cloud = platform.clouds[number]
    hosts: dict[str, list[str]] = {}
    for cluster, host in list_cloud_hosts(platform, cloud):
        hosts.setdefault(cluster.name, []).extend(host.node_names(cluster.name))
    _check_power(cloud, number, timelines)
    degrees: tuple[Floats, Floats] | None = None
    times = np.empty(0)
    if any("temperature" in meter.uses for meter in cloud.meters):
        degrees = _load_degrees(trace, cloud, float(timelines.t.min(initial=0.0)))
        times = degrees[0]
    steps = _CloudSteps.of(timelines, number, times)
    if steps is None:
        return []
    values: dict[str, Floats] = {"it": steps.sum_hosts(timelines.watts)}
    if any("load" in meter.uses for meter in cloud.meters):
        cores = steps.sum_hosts(timelines.cores)
        used = steps.sum_hosts(np.minimum(timelines.use, timelines.cores))
        values["load"] = np.divide(used, cores, out=np.zeros(cores.size), where=cores > 0)
    if degrees is not None:
        place = np.searchsorted(degrees[0], steps.t[:-1], side="right") - 1
        values["temperature"] = degrees[1][place]
    for meter in order_meters(cloud.meters):
        if meter.kind == "direct":
            chosen = hosts[meter.cluster] if meter.cluster is not None else list(meter.hosts)
            values[meter.name] = steps.sum_hosts(timelines.watts, chosen)
        elif meter.function is not None:
            values[meter.name] = _call(meter, functions[meter.name], values, steps.t.size - 1)
        else:
            value = meter.expression.evaluate(values, meter=f"{cloud.name}.{meter.name}")
            values[meter.name] = np.broadcast_to(value, steps.t.size - 1)
    kinds = {"it": "direct"} | {meter.name: meter.kind for meter in cloud.meters}
    return [
        _make_frame(cloud.name, name, kind, steps.t, values[name]) for name, kind in kinds.items()
    ]


def _make_frame(cloud: str, meter: str, kind: str, t: Floats, watts: Floats) -> pl.DataFrame:
    """Return the periods of a meter, those of equal power together."""
    first = np.flatnonzero(np.diff(watts, prepend=np.nan) != 0)
    return pl.DataFrame(
        {"start": t[first], "end": np.append(t[first[1:]], t[-1]), "watts": watts[first]}
    ).select(
        pl.lit(cloud).alias("cloud"),
        pl.lit(meter).alias("meter"),
        pl.lit(kind).alias("kind"),
        "start",
        "end",
        "watts",
    )


def _check_power(cloud: Cloud, number: int, timelines: HostTimelines) -> None:
    hosts = np.unique(timelines.host[timelines.cloud == number])
    unknown = hosts[np.isnan(timelines.idle[hosts])]
    if unknown.size:
        name = timelines.hosts[int(unknown[0])]
        raise InputError(
            f"host '{name}' of cloud '{cloud.name}' has no power model: the power of the "
            "cloud is unknown",
            kind="missing-data",
            field="power",
            remedy="give all hosts of the cloud a `power`",
        )


def _load_degrees(trace: Trace, cloud: Cloud, begin: float) -> tuple[Floats, Floats]:
    if cloud.temperature is None:
        raise InputError(
            f"cloud '{cloud.name}' has no temperature, but a meter uses it",
            kind="missing-field",
            field="temperature",
            remedy="give the temperature of the cloud, such as 20 °C",
        )
    times, values = load_temperature(cloud.temperature, trace.manifest.epoch_ms)
    if times[0] > begin:
        raise InputError(
            f"the temperature of cloud '{cloud.name}' starts at t = {times[0]:g} s, after the "
            f"start of the run, t = {begin:g} s",
            kind="missing-data",
            field="temperature",
            remedy="give a series that covers the run",
        )
    return times, values


# --- functions -----------------------------------------------------------------------------------


def _load_functions(cloud: Cloud, *, allow_code: bool) -> dict[str, Any]:
    """Import the functions of the meters of a cloud, if code is allowed."""
    functions: dict[str, Any] = {}
    for meter in cloud.meters:
        if meter.function is None:
            continue
        if not allow_code:
            raise CodeNotAllowed(
                f"meter '{meter.name}': '{meter.function}' is Python code, which needs permission "
                "to run",
                kind="code-not-allowed",
                remedy="--allow-code on the command line, allow_code=True in Python",
            )
        functions[meter.name] = import_code(meter.function, "function")
    return functions


def _call(meter: CloudMeter, function: Any, values: Mapping[str, Floats], size: int) -> Floats:
    """Compute the power of a meter with its function."""
    inputs = {name: values[name].copy() for name in meter.inputs}
    try:
        result = np.asarray(function(**inputs), dtype=np.float64)
    except Exception as error:  # any error of a foreign function
        raise InputError(
            f"meter '{meter.name}': '{meter.function}' fails: {describe_error(error)}",
            kind="wrong-interface",
        ) from error
    if result.shape not in ((), (size,)) or not np.isfinite(result).all():
        raise InputError(
            f"meter '{meter.name}': '{meter.function}' must return a finite number, or an array of "
            f"{size} of them, as long as its inputs",
            kind="wrong-interface",
        )
    power: Floats = np.broadcast_to(result, (size,))
    return power
