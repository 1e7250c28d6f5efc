"""Figure of the power of hosts over time, stacked by their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.energy_and_carbon import find_power_intervals
from twinloop.metrics.weighted_intervals import Floats, WeightedIntervals
from twinloop.platform.states import (
    OFF,
    SWITCHING_OFF,
    SWITCHING_ON,
    HostState,
    Transition,
    list_transitions,
    transition_name,
)
from twinloop.report.figures import colours
from twinloop.report.figures.described_platform import read_platform
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.steps import Steps
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.kpi_text import format_kpi
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.platform.parts import Host
    from twinloop.platform.power import PowerModel

#: Maximum number of windows of time.
MAX_WINDOWS: Final = 1000
IDLE_PART: Final = "running, idle part"
VARIABLE_PART: Final = "running, variable part"
#: Relative difference of powers that is a rounding error.
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class PowerParts:
    """Mean power of all hosts in windows of time, by part (W); the parts add up to the power.

    >>> parts = PowerParts(np.array([0.0, 10.0]), {"off": np.array([20.0])}, ())
    >>> parts.energies
    {'off': 200.0}
    """

    edges: Floats
    watts: Mapping[str, Floats]
    notes: tuple[str, ...]

    @property
    def energies(self) -> dict[str, float]:
        """The energy of each part (J)."""
        return {name: float(part @ np.diff(self.edges)) for name, part in self.watts.items()}


def plot_power_states(trace: Trace) -> Figure:
    """Plot the power of all hosts over time, stacked by the state of the hosts.

    The power of a state, such as off or switching-on, and the idle power of running hosts follow
    from the periods in the table `node_states` and the powers in the scenario of the run. What is
    left of the power table is the variable part, which depends on the load. The integral of all
    parts is therefore the energy of the power table.

    >>> from twinloop.trace import Manifest
    >>> host = {"cores": 4, "power": {"model": "linear", "idle": 100, "max": 200},
    ...         "states": {"off": {"power": 10}}}
    >>> trace = Trace(
    ...     power=pl.DataFrame({"t": [10.0, 20.0], "dt": 10.0, "watts": [55.0, 150.0]}),
    ...     nodes=pl.DataFrame({"node": ["C01-H01-001"], "cores": [4.0]}),
    ...     node_states=pl.DataFrame({"node": ["C01-H01-001"], "start": [0.0], "end": [5.0],
    ...                               "state": ["off"]}),
    ...     manifest=Manifest(scenario={"platform": {"clusters": [{"hosts": [host]}]}}),
    ... )
    >>> for part in plot_power_states(trace).data:
    ...     print(part.name, part.y[:2].tolist())
    off [5.0, 0.0]
    running, idle part [50.0, 100.0]
    running, variable part [0.0, 50.0]
    """
    parts = split_power(trace)
    axis = TimeAxis.of(trace)
    figure = create_figure("Power by state of the hosts", axis)
    x = axis.at(parts.edges)
    for name, watts in parts.watts.items():
        colour = colours.HOST_POWER.get(name, colours.OTHERS)
        figure.add_scatter(
            x=x, y=np.append(watts, watts[-1]), name=escape_label(name), mode="lines",
            line_shape="hv", line={"width": 0, "color": colour}, fillcolor=colour,
            stackgroup="power", hovertemplate="%{y:.4~s}W",
        )  # fmt: skip
    figure.update_layout(
        yaxis={"title": {"text": "power (W)"}, "rangemode": "tozero"}, legend_traceorder="reversed"
    )
    return attach_notes(figure, [_describe_energies(parts.energies), *parts.notes])


def split_power(trace: Trace) -> PowerParts:
    """Split the power of a run by the states of its hosts; raise an error if it is not possible."""
    power, _ = find_power_intervals(require_trace(trace))
    if power is None or not power.start.size:
        raise _refuse("the power table has no known value", "give the hosts a power model")
    platform = read_platform(trace)
    if platform is None:
        raise _refuse("the trace has no scenario with the powers of the states", "simulate the run")
    edges, is_averaged = _choose_edges(power)
    powers: dict[str, dict[str, float]] = {}
    for cluster, host in platform.hosts():
        if host.power is not None:
            by_state = dict(_list_powers(host))
            powers |= dict.fromkeys(host.node_names(cluster.name), by_state)
    parts, unknown = _sum_states(trace, powers, edges)
    total = Steps.of(power).means(edges)
    variable = total - sum(parts.values(), np.zeros(edges.size - 1))
    tolerance = _ROUNDING * float(np.abs(total).max(initial=0.0))
    variable[np.abs(variable) <= tolerance] = 0.0
    notes = [] if unknown is None else [unknown]
    negative = int((variable < 0).sum())
    if negative:
        windows = format_count(negative, "window")
        notes.append(
            f"in {windows} the power is below the sum of the states: the variable part is negative"
        )
    if any(_has_hidden_load(host) for _, host in platform.hosts()):
        notes.append(
            "the variable part includes what hidden tasks of transitions need above the idle power"
        )
    if is_averaged:
        notes.append(f"means of {MAX_WINDOWS:,} windows of time; the energy is exact")
    shown = {name: part for name, part in parts.items() if part.any()}
    return PowerParts(edges, shown | {VARIABLE_PART: variable}, tuple(notes))


def _refuse(reason: str, remedy: str) -> InputError:
    problem = f"there is no power by state to draw: {reason}"
    return InputError(problem, kind="nothing-to-draw", remedy=remedy)


def _choose_edges(power: WeightedIntervals) -> tuple[Floats, bool]:
    """Return the edges of the windows, and whether they are fewer than those of the table."""
    windows = Steps.of(WeightedIntervals.of(power.start, power.end, np.ones(power.start.size)))
    lengths = np.diff(windows.t)
    # The end of a window and the start of the next one may differ by a rounding error.
    rounding = 1e-9 * float(lengths.sum())
    if lengths[windows.level[:-1] <= 0].sum() > rounding:
        raise _refuse("the power table has gaps", "record the power of the whole run")
    edges = np.unique(np.concatenate([power.start, power.end]))
    edges = edges[np.append(np.diff(edges) > rounding, True)]
    if edges.size - 1 <= MAX_WINDOWS:
        return edges, False
    return np.linspace(edges[0], edges[-1], MAX_WINDOWS + 1), True


def _list_powers(host: Host) -> Iterator[tuple[str, float]]:
    """List the power of each state of a host without load (W), with the idle power of running."""
    assert host.power is not None
    idle = _get_idle(host.power)
    yield IDLE_PART, idle
    described = {OFF: HostState(), SWITCHING_ON: HostState(), SWITCHING_OFF: HostState()}
    for name, state in (described | host.states).items():
        model = state.power
        yield name, (0.0 if name == OFF else idle) if model is None else _get_idle(model)
        for way, transition in list_transitions(state):
            model = transition.power
            key = transition_name(name, way, transition)
            yield key, idle if model is None else _get_idle(model)


def _get_idle(model: PowerModel) -> float:
    return float(model.watts(0.0))


def _has_hidden_load(host: Host) -> bool:
    """Whether a transition of a host has hidden tasks."""
    transitions: list[HostState | Transition] = [*host.states.values()]
    transitions += [each for state in host.states.values() for _, each in list_transitions(state)]
    return any(each.tasks and each.tasks != "kept" for each in transitions)


def _sum_states(
    trace: Trace, powers: Mapping[str, Mapping[str, float]], edges: Floats
) -> tuple[dict[str, Floats], str | None]:
    """Sum the power of the states and the idle power over the hosts; and a note on unknown hosts.

    A host is running outside of its other states. In states that are not described, such as down,
    its power is 0.
    """
    table = pl.DataFrame(
        [(node, state, watts) for node, by in powers.items() for state, watts in by.items()],
        schema={"node": pl.String, "state": pl.String, "watts": pl.Float64},
        orient="row",
    )
    idle = table.filter(state=IDLE_PART).select("node", idle="watts")
    periods = (
        trace.node_states.filter(pl.col("start").is_finite())
        .with_columns(pl.col("end").fill_null(edges[-1]))
        .join(table, on=["node", "state"], how="left")
        .join(idle, on="node")
        .with_columns(pl.col("watts").fill_null(0.0))
    )
    parts = {}
    order = [name for name in colours.HOST_POWER if name not in (IDLE_PART, VARIABLE_PART)]
    found = periods["state"].drop_nulls().unique().sort().to_list()
    for name in [*order, *(each for each in found if each not in order)]:
        parts[name] = _average(periods.filter(state=name), "watts", edges)
    present = trace.nodes.select("node").join(idle, on="node")
    parts[IDLE_PART] = float(present["idle"].sum()) - _average(periods, "idle", edges)
    others = trace.nodes.height - present.height
    note = f"the variable part includes all power of {format_count(others, 'host')} whose power "
    return parts, f"{note}is not described" if others else None


def _average(periods: pl.DataFrame, column: str, edges: Floats) -> Floats:
    start, end, weight = (periods[name].to_numpy() for name in ("start", "end", column))
    return Steps.of(WeightedIntervals.of(start, end, weight)).means(edges)


def _describe_energies(energies: Mapping[str, float]) -> str:
    total = sum(energies.values())
    parts = (
        f"{name} {format_kpi('energy_j', energy)} ({100 * energy / (total or 1.0):.3g} %)"
        for name, energy in energies.items()
    )
    return f"energy: {'; '.join(parts)}; in total {format_kpi('energy_j', total)}"
