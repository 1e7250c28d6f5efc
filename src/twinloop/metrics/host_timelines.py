"""Power, core use and number of instances of every host, as step functions of time.

The steps are the events of the tables, so that integrals are exact. The power is that of the power
models of the platform at the use of the tables. This use is verified: its energy must be the
recorded one at all times of the table `power`. If it is not, because the use of a task changed
while it ran, the recorded power of each node is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.energy_and_carbon import find_power_intervals
from twinloop.metrics.instance_use import InstanceUse, find_instance_use, find_run_end
from twinloop.metrics.weighted_intervals import Floats, Rows
from twinloop.platform import Platform
from twinloop.platform.clouds import list_cloud_hosts
from twinloop.platform.states import OFF, RUNNING, list_transitions, transition_name

if TYPE_CHECKING:
    from twinloop.platform.parts import Cluster, Host
    from twinloop.trace.trace import Trace

#: Relative difference between the computed and the recorded energy of the run.
_TOLERANCE: Final = 1e-6
#: Rounding error of a sum of core uses, relative to the cores of the host.
_ROUNDING: Final = 1e-9
#: States in which a host has no power.
_WITHOUT_POWER: Final = ("down", "removed")


@dataclass(frozen=True)
class HostTimelines:
    """The steps of all hosts, sorted by host and time; the values hold until the next step.

    The last step of a host is the end of the run and has no length.
    """

    #: Names of the hosts, their clusters and idle powers (W; NaN: without a power model).
    hosts: pl.Series
    clusters: pl.Series
    idle: Floats
    #: Of each step: row of its host, time (s), length (s).
    host: Rows
    t: Floats
    length: Floats
    #: Of each step: the cores of the host, and the number of its cloud in the platform (-1: none).
    cores: Floats
    cloud: Rows
    #: Of each step: cores in use, number of instances, power (W; NaN: without a power model).
    use: Floats
    instances: Rows
    watts: Floats
    #: The periods of instances on hosts, and the steps of their starts and ends.
    periods: pl.DataFrame
    period_steps: tuple[Rows, Rows]
    #: The intervals of use: row of the period (-1: none), cores, steps of start and end.
    use_period: Rows
    use_cores: Floats
    use_steps: tuple[Rows, Rows]
    #: Whether the power was computed with the power models, or taken from the table `power`.
    source: Literal["model", "recorded"]

    def integrate(self, values: Floats) -> Floats:
        """Sum the values of the steps of each host before each step; 0 at its first one."""
        frame = pl.DataFrame({"host": self.host, "value": values})
        before = pl.col("value").shift(1, fill_value=0.0)
        total: Floats = frame.select(before.cum_sum().over("host"))["value"].to_numpy()
        return total

    def select_hosts(self, names: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which steps are those of the named hosts."""
        chosen = self.hosts.is_in(list(names)).to_numpy()
        result: npt.NDArray[np.bool_] = chosen[self.host]
        return result


def build_host_timelines(trace: Trace, platform: Platform | None = None) -> HostTimelines:
    """Compute the timelines of the hosts of a run.

    Args:
        trace: The trace of the run.
        platform: The platform; by default that of the scenario in the manifest.
    """
    described = load_platform(trace) if platform is None else platform
    fleet = _Fleet.of(trace, described)
    end = find_run_end(trace)
    changes = _find_changes(trace, described, fleet, end)
    grid: _Grid | None = None
    for is_measured in (False, True):
        use = _find_use(trace, described, fleet, is_measured=is_measured)
        grid = _Grid.of(
            fleet, use, _find_states(trace, fleet, end), changes, _find_begin(trace), end
        )
        watts = grid.compute_watts(fleet)
        if trace.manifest.kind != "recorded" and _is_recorded_energy(trace, grid, watts):
            return grid.to_timelines(fleet, watts, "model")
    recorded = _find_recorded_power(trace, fleet)
    grid = _Grid.of(
        fleet,
        use,
        _find_states(trace, fleet, end),
        changes,
        _find_begin(trace),
        end,
        recorded=recorded,
    )
    return grid.to_timelines(fleet, grid.read_watts(fleet, recorded), "recorded")


def read_use(
    trace: Trace, platform: Platform, *, is_measured: bool
) -> tuple[InstanceUse, pl.DataFrame]:
    """Collect the core use of instances, and the hosts: `host`, `cluster`, `cores`."""
    fleet = _Fleet.of(trace, platform)
    hosts = pl.DataFrame({"host": fleet.names, "cluster": fleet.clusters, "cores": fleet.cores})
    return _find_use(trace, platform, fleet, is_measured=is_measured), hosts


def _find_use(trace: Trace, platform: Platform, fleet: _Fleet, *, is_measured: bool) -> InstanceUse:
    use = find_instance_use(
        trace,
        platform,
        fleet.speeds,
        end=find_run_end(trace),
        startup_overhead=float(_get_model(trace).get("startup_overhead") or 0.0),
        is_measured=is_measured,
    )
    _check_hosts(use.periods["host"], fleet)
    return use


def load_platform(trace: Trace) -> Platform:
    """Create the platform of the scenario of a run, with the overrides of its model.

    >>> from twinloop.trace import Manifest, Trace
    >>> scenario = {"platform": {"clusters": [{"hosts": [{"cores": 4}]}]}}
    >>> load_platform(Trace(manifest=Manifest(scenario=scenario))).total_cores
    4.0
    """
    scenario = trace.manifest.scenario or {}
    described = scenario.get("platform")
    if described is None:
        raise InputError(
            "the trace has no description of its platform",
            kind="missing-platform",
            remedy="give the platform, as platform=",
        )
    platform = Platform.from_dict(described)
    overrides = _get_model(trace).get("overrides")
    return platform.replace(**overrides) if overrides else platform


def _get_model(trace: Trace) -> Mapping[str, Any]:
    model = (trace.manifest.scenario or {}).get("model")
    return model if isinstance(model, Mapping) else {}


def _find_begin(trace: Trace) -> float:
    first = (trace.power["t"] - trace.power["dt"]).min()
    return float(first) if isinstance(first, float) else 0.0


# --- hosts ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Fleet:
    """The hosts of a platform, in the order of their groups."""

    names: pl.Series
    clusters: pl.Series
    groups: tuple[Host, ...]
    #: Row of the group, cores, idle power (NaN: no power model) and number of the cloud (-1: none)
    #: of each host, as described.
    group: Rows
    cores: Floats
    idle: Floats
    cloud: Rows
    speeds: Mapping[str, float]

    @classmethod
    def of(cls, trace: Trace, platform: Platform) -> _Fleet:
        groups: list[tuple[Cluster, Host]] = list(platform.hosts())
        names = [host.node_names(cluster.name) for cluster, host in groups]
        counts = [len(each) for each in names]
        group = np.repeat(np.arange(len(groups)), counts)
        idle = [
            np.nan if host.power is None else float(host.power.watts(0.0)) for _, host in groups
        ]
        factor = float(_get_model(trace).get("speed_factor") or 1.0)
        speeds = _find_speeds(trace, platform)
        clusters = [cluster.name for cluster, _ in groups]
        owners = {
            cluster.name: number
            for number, cloud in enumerate(platform.clouds)
            for cluster, _ in list_cloud_hosts(platform, cloud)
        }
        return cls(
            pl.Series("host", [name for each in names for name in each], dtype=pl.String),
            pl.Series("cluster", clusters, dtype=pl.String).gather(group),
            tuple(host for _, host in groups),
            group,
            np.array([host.cores for _, host in groups], dtype=np.float64)[group],
            np.array(idle)[group],
            np.array([owners.get(name, -1) for name in clusters], dtype=np.int64)[group],
            {
                name: speed * factor
                for each, speed in zip(names, speeds, strict=True)
                for name in each
            },
        )

    def find_rows(self, names: pl.Series) -> Rows:
        """Return the row of each named host; -1 for a name that no host has."""
        known = pl.DataFrame({"host": self.names}).with_row_index("row")
        asked = pl.DataFrame({"host": names}, schema={"host": pl.String})
        found = asked.join(known, on="host", how="left", maintain_order="left")["row"]
        rows: Rows = found.cast(pl.Int64).fill_null(-1).to_numpy()
        return rows


def _find_speeds(trace: Trace, platform: Platform) -> list[float]:
    """Return the speed of a core of each group of hosts, as the scenario of the run has it."""
    described = ((trace.manifest.scenario or {}).get("platform") or {}).get("clusters") or []
    clocks = [host.get("mhz") for cluster in described for host in cluster.get("hosts") or []]
    groups = [host for _, host in platform.hosts()]
    if len(clocks) != len(groups):
        clocks = [None] * len(groups)
    reference = trace.manifest.reference_mhz
    return [
        host.speed_of_core(reference or clock) for host, clock in zip(groups, clocks, strict=True)
    ]


def _check_hosts(hosts: pl.Series, fleet: _Fleet) -> None:
    rows = fleet.find_rows(hosts.unique(maintain_order=True))
    if (rows < 0).any():
        name = hosts.unique(maintain_order=True)[int(np.flatnonzero(rows < 0)[0])]
        raise InputError(
            f"an instance was on host '{name}', which the platform does not have",
            kind="unknown-reference",
            field="platform",
            remedy="give the platform of this run",
        )


def _find_changes(trace: Trace, platform: Platform, fleet: _Fleet, end: float) -> pl.DataFrame:
    """Return the periods of the hosts that were changed: row of the host, times, cores, cloud."""
    table = trace.node_periods.with_columns(pl.col("end").fill_null(end))
    numbers = {cloud.name: number for number, cloud in enumerate(platform.clouds)}
    return (
        table.with_columns(
            host=pl.Series(fleet.find_rows(table["node"]), dtype=pl.Int64),
            cloud=pl.col("cloud").replace_strict(numbers, default=-1, return_dtype=pl.Int64),
        )
        .filter(pl.col("host") >= 0)
        .select("host", "start", "end", "cores", "cloud")
    )


def _find_states(trace: Trace, fleet: _Fleet, end: float) -> pl.DataFrame:
    """Return the periods in which hosts were not running: row of the host, start, end, power."""
    table = trace.node_states.with_columns(pl.col("end").fill_null(end)).filter(
        (pl.col("end") > pl.col("start")) & (pl.col("state") != RUNNING)
    )
    rows = fleet.find_rows(table["node"])
    table = table.with_columns(host=pl.Series(rows)).filter(pl.col("host") >= 0)
    group = fleet.group[table["host"].to_numpy()]
    powers = [_find_state_powers(host) for host in fleet.groups]
    known = pl.DataFrame(
        [
            (number, state, watts)
            for number, each in enumerate(powers)
            for state, watts in each.items()
        ],
        schema={"group": pl.Int64, "state": pl.String, "watts": pl.Float64},
        orient="row",
    )
    # A state without a power of its own, such as maintenance, does not change that of its use.
    return (
        table.with_columns(group=pl.Series(group, dtype=pl.Int64))
        .join(known, on=["group", "state"], how="inner", maintain_order="left")
        .select("host", "start", "end", "watts")
        .sort("host", "start")
    )


def _find_state_powers(host: Host) -> dict[str, float]:
    """Return the power of a host in its states, without hidden work in transitions."""
    if host.power is None:
        return {}
    idle = float(host.power.watts(0.0))
    powers = {**dict.fromkeys(_WITHOUT_POWER, 0.0), OFF: 0.0}
    for name, state in host.states.items():
        default = 0.0 if name == OFF else idle
        powers[name] = default if state.power is None else float(state.power.watts(0.0))
        for way, transition in list_transitions(state):
            own = transition.power
            powers[transition_name(name, way, transition)] = (
                idle if own is None else float(own.watts(0.0))
            )
    return powers


# --- steps ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grid:
    """The steps of all hosts, and what happens at them."""

    host: Rows
    t: Floats
    length: Floats
    cores: Floats
    cloud: Rows
    use: Floats
    instances: Rows
    #: Power of the state of the host (W); NaN while it is running.
    state_watts: Floats
    #: Row of the recorded power at each step; -1: none.
    recorded_row: Rows
    periods: pl.DataFrame
    period_steps: tuple[Rows, Rows]
    use_period: Rows
    use_cores: Floats
    use_steps: tuple[Rows, Rows]

    @classmethod
    def of(
        cls,
        fleet: _Fleet,
        found: InstanceUse,
        states: pl.DataFrame,
        changes: pl.DataFrame,
        begin: float,
        end: float,
        recorded: pl.DataFrame | None = None,
    ) -> _Grid:
        every = np.arange(fleet.names.len())
        if recorded is None:
            recorded = pl.DataFrame(schema=_RECORDED_SCHEMA)
        parts = [
            (every, np.full(every.size, begin), np.full(every.size, max(begin, end))),
            *(
                (
                    hosts,
                    np.clip(frame["start"].to_numpy(), begin, end),
                    np.clip(frame["end"].to_numpy(), begin, end),
                )
                for hosts, frame in (
                    (fleet.find_rows(found.periods["host"]), found.periods),
                    (fleet.find_rows(found.use["host"]), found.use),
                    (states["host"].to_numpy(), states),
                    (recorded["host"].to_numpy(), recorded),
                    (changes["host"].to_numpy(), changes),
                )
            ),
        ]
        hosts = np.concatenate([part[0] for part in parts for _ in range(2)])
        times = np.concatenate([side for part in parts for side in part[1:]])
        order = np.lexsort((times, hosts))
        hosts, times = hosts[order], times[order]
        is_new = np.concatenate([[True], (np.diff(hosts) != 0) | (np.diff(times) != 0)])[
            : hosts.size
        ]
        step = np.empty(order.size, dtype=np.int64)
        step[order] = np.cumsum(is_new) - 1
        limits = np.cumsum([part[0].size for part in parts for _ in range(2)])[:-1]
        _, _, *steps = np.split(step, limits)
        placed, used, states_at, recorded_at, changed_at = (
            (steps[i], steps[i + 1]) for i in range(0, len(steps), 2)
        )
        host, t = hosts[is_new], times[is_new]
        is_last = np.concatenate([np.diff(host) != 0, [True]])[: host.size]
        length = np.where(is_last, 0.0, np.diff(t, append=t[-1:]))
        cores = found.use["cores"].to_numpy()
        use = _add_up(used, cores, host.size)
        change = _forward_fill(changed_at, host.size)
        is_absent = np.isin(host, changes["host"].to_numpy()) & (change < 0)
        is_known = change >= 0
        own_cores, cloud = fleet.cores[host], fleet.cloud[host]
        own_cores[is_known] = changes["cores"].to_numpy()[change[is_known]]
        cloud[is_known] = changes["cloud"].to_numpy()[change[is_known]]
        own_cores[is_absent], cloud[is_absent] = 0.0, -1
        use[np.abs(use) <= _ROUNDING * fleet.cores[host]] = 0.0
        ones = np.ones(found.periods.height)
        period = found.use["period"].cast(pl.Int64).fill_null(-1).to_numpy()
        states_row = _forward_fill(states_at, host.size)
        state_watts = np.append(states["watts"].to_numpy(), np.nan)[states_row]
        # Before it was added and after its removal, a host has no power.
        state_watts[is_absent] = 0.0
        return cls(
            host,
            t,
            length,
            own_cores,
            cloud,
            use,
            np.rint(_add_up(placed, ones, host.size)).astype(np.int64),
            state_watts,
            _forward_fill(recorded_at, host.size),
            found.periods,
            placed,
            period,
            cores,
            used,
        )

    def compute_watts(self, fleet: _Fleet) -> Floats:
        """Return the power of each step by the power models; NaN for hosts without one."""
        watts = np.full(self.host.size, np.nan)
        share = np.divide(self.use, self.cores, out=np.zeros(self.use.size), where=self.cores > 0)
        share = np.clip(share, 0.0, 1.0)
        group = fleet.group[self.host]
        for number, each in enumerate(fleet.groups):
            if each.power is not None:
                own = group == number
                watts[own] = each.power.watts(share[own])
        return np.where(np.isnan(self.state_watts) | np.isnan(watts), watts, self.state_watts)

    def read_watts(self, fleet: _Fleet, recorded: pl.DataFrame) -> Floats:
        """Return the recorded power of each step."""
        watts = np.append(recorded["watts"].to_numpy(), np.nan)[self.recorded_row]
        unknown = np.isnan(watts) & (self.length > 0) & ~np.isnan(fleet.idle[self.host])
        if unknown.any():
            first = int(np.flatnonzero(unknown)[0])
            raise InputError(
                f"the power of node '{fleet.names[int(self.host[first])]}' is unknown from "
                f"t = {self.t[first]:g} s",
                kind="missing-data",
                field="power",
                remedy="record the power of each node for the whole run",
            )
        result: Floats = np.where(np.isnan(fleet.idle[self.host]), np.nan, watts)
        return result

    def to_timelines(
        self, fleet: _Fleet, watts: Floats, source: Literal["model", "recorded"]
    ) -> HostTimelines:
        return HostTimelines(
            fleet.names,
            fleet.clusters,
            fleet.idle,
            self.host,
            self.t,
            self.length,
            self.cores,
            self.cloud,
            self.use,
            self.instances,
            watts,
            self.periods,
            self.period_steps,
            self.use_period,
            self.use_cores,
            self.use_steps,
            source,
        )


def _add_up(steps: tuple[Rows, Rows], values: Floats, size: int) -> Floats:
    """Return the sum of the values at each step, each between its two steps."""
    change = np.bincount(steps[0], values, size) - np.bincount(steps[1], values, size)
    total: Floats = np.cumsum(change)
    return total


def _forward_fill(steps: tuple[Rows, Rows], size: int) -> Rows:
    """Return the row of the interval that each step is in; -1 for none."""
    starts, ends = steps
    row = np.full(size, -2, dtype=np.int64)
    row[ends] = -1
    longer = ends > starts
    row[starts[longer]] = np.flatnonzero(longer)
    row[:1] = np.where(row[:1] == -2, -1, row[:1])
    last = np.maximum.accumulate(np.where(row == -2, 0, np.arange(size)))
    filled: Rows = row[last]
    return filled


# --- recorded power ------------------------------------------------------------------------------

_RECORDED_SCHEMA: Final = {
    "host": pl.Int64,
    "start": pl.Float64,
    "end": pl.Float64,
    "watts": pl.Float64,
}


def _is_recorded_energy(trace: Trace, grid: _Grid, watts: Floats) -> bool:
    """Whether the energy by the power models is the recorded one at all times of the record."""
    recorded, unknown = find_power_intervals(trace)
    if recorded is None:
        return not unknown
    is_first = np.concatenate([[True], np.diff(grid.host) != 0])[: grid.host.size]
    is_last = np.concatenate([is_first[1:], [True]])[: grid.host.size]
    power = np.where(np.isnan(watts) | is_last, 0.0, watts)
    change = np.where(is_first, power, np.diff(power, prepend=0.0))
    order = np.argsort(grid.t, kind="stable")
    t = grid.t[order]
    energy = np.concatenate([[0.0], np.cumsum(np.cumsum(change[order])[:-1] * np.diff(t))])
    times, level = recorded.steps()
    if not times.size:
        return not energy[-1]
    expected = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    difference = np.append(np.interp(times, t, energy) - expected, energy[-1] - expected[-1])
    return bool((np.abs(difference) <= _TOLERANCE * max(expected[-1], energy[-1])).all())


def _find_recorded_power(trace: Trace, fleet: _Fleet) -> pl.DataFrame:
    rows = trace.power.drop_nulls().filter(pl.col("dt") > 0)
    if rows.is_empty():
        raise InputError(
            "the power of each host at all times does not follow from the tables: the use of a "
            "task changed while it ran, or the power was measured",
            kind="missing-data",
            field="power",
            remedy="record the power of each node: use twinloop.simulate with power_per_node=True "
            "and a short power_step= (--power-per-node, --power-step), not a stepwise Simulation",
        )
    return (
        rows.with_columns(host=pl.Series(fleet.find_rows(rows["node"])))
        .filter(pl.col("host") >= 0)
        .select(
            "host", (pl.col("t") - pl.col("dt")).alias("start"), pl.col("t").alias("end"), "watts"
        )
        .sort("host", "start")
        # The end of a window is the start of the next one, without a rounding error.
        .with_columns(
            end=pl.when(
                (pl.col("start").shift(-1) - pl.col("end")).abs().over("host")
                <= _ROUNDING * (1 + pl.col("end").abs())
            )
            .then(pl.col("start").shift(-1).over("host"))
            .otherwise("end")
        )
    )
