"""Figure of rented instances on hosts over time, coloured by their state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.metrics.weighted_intervals import Floats
from twinloop.report.figures import colours
from twinloop.report.figures.bands import MAX_LABELS, Bands
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.gantt import MAX_BARS, name_bar_columns
from twinloop.report.figures.rented_periods import RentedPeriods
from twinloop.report.figures.steps import average_by_row
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count, format_duration, format_number
from twinloop.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of lanes, and number of bins of time of a lane with means.
MAX_LANES: Final = MAX_LABELS
BINS: Final = 300
#: The gap between two lanes, as a fraction of the highest lane.
_GAP: Final = 0.08
_TITLE: Final = "Instances on hosts"


def plot_instances(trace: Trace, *, window: tuple[float, float] | None = None) -> Figure:
    """Plot the rented instances on each host over time, coloured by their state.

    A bar is a period of an instance on a host in one state; its height is the cores of the
    instance. More than 5,000 bars or 40 hosts are drawn as areas: the mean cores of all instances
    in each state, in each three-hundredth of the time. More than 40 hosts are drawn in groups of
    adjacent hosts. The time before an instance has a host is not drawn.

    Args:
        trace: A run with clouds.
        window: Draw only the time between these two times (s).

    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    ...     instances=pl.DataFrame({"instance": ["i"], "host": ["n1"], "cores": [2.0],
    ...                             "start": [1.0], "end": [9.0], "cloud": ["east"]}),
    ...     instance_states=pl.DataFrame({"instance": "i", "start": [1.0, 4.0], "end": [4.0, 9.0],
    ...                                   "state": ["startup", "running"]}),
    ... )
    >>> [(bars.name, bars.x.tolist()) for bars in plot_instances(trace).data]
    [('startup', [3.0]), ('running', [5.0])]
    """
    periods = RentedPeriods.of(trace).select_window(window)
    hosts = _list_hosts(trace, periods)
    axis = TimeAxis.of(trace)
    figure = create_figure(_TITLE, axis)
    if periods.parts.height <= MAX_BARS and hosts.height <= MAX_LANES:
        height, note = _add_bars(figure, trace, hosts, periods, axis), ""
    else:
        height, note = _add_areas(figure, hosts, periods, axis)
    first, last = periods.stays["start"].min(), periods.stays["end"].max()
    figure.update_xaxes(range=axis.at(np.array([first, last])).tolist())
    figure.update_layout(hovermode="closest", legend_title_text="state", height=height)
    notes = [*([note] if note else []), *_describe_hosts(trace, hosts), *periods.notes]
    return attach_notes(figure, notes)


def _list_hosts(trace: Trace, periods: RentedPeriods) -> pl.DataFrame:
    """List the lanes' hosts with their cores: all nodes if they fit, else those with instances."""
    used = periods.stays.select(node="host").unique()
    nodes = trace.nodes.select("node", "cores").unique("node", keep="first", maintain_order=True)
    if nodes.height > MAX_LANES:
        nodes = nodes.join(used, on="node", how="semi", maintain_order="left")
    others = used.join(nodes, on="node", how="anti").sort("node")
    return pl.concat([nodes, others.with_columns(cores=pl.lit(None, dtype=pl.Float64))])


def _describe_hosts(trace: Trace, hosts: pl.DataFrame) -> list[str]:
    idle = trace.nodes.join(hosts, on="node", how="anti").height
    if not idle:
        return []
    total = format_count(trace.nodes["node"].n_unique(), "host")
    return [f"{hosts.height:,} of {total} are drawn: the others had no instance"]


def _get_colours(states: list[str]) -> dict[str, str]:
    """Return the colours of these states, in the order of the life cycle, then of other states."""
    known = {name: shade for name, shade in colours.INSTANCE_STATE.items() if name in states}
    return known | {name: colours.OTHERS for name in states if name not in known}


def _add_bars(
    figure: Figure, trace: Trace, hosts: pl.DataFrame, periods: RentedPeriods, axis: TimeAxis
) -> int:
    """Add a bar per period, and return the height of the figure."""
    stays = periods.stays
    only_hosts = trace.replace(nodes=trace.nodes.join(hosts, on="node", how="semi"))
    bands = Bands.of(only_hosts, stays.drop("number").rename({"host": "machine"}))
    # An instance keeps its vertical position through all states on a host.
    pieces = bands.pieces.with_columns(number=stays["number"].gather(bands.pieces["number"]))
    bars = periods.parts.join(pieces, on="number", maintain_order="left").join(
        stays.select("number", "instance", "host", "cores", "type", "image", "user"),
        on="number",
        maintain_order="left",
    )
    for state, shade in _get_colours(periods.states).items():
        part = bars.filter(state=state)
        start, end, low, high = (part[name].to_numpy() for name in ("start", "end", "low", "high"))
        figure.add_bar(
            orientation="h",
            name=escape_label(state),
            base=axis.at(start),
            x=axis.length(end - start),
            y=(low + high) / 2,
            width=high - low,
            hovertext=_make_hover_texts(part, axis),
            hoverinfo="text",
            meta={"columns": name_bar_columns(axis, "instance", "host")},
            marker={"color": shade, "line": {"width": 0.5, "color": "rgba(128, 128, 128, 0.7)"}},
        )
    figure.update_layout(bargap=0, barmode="overlay")
    figure.update_yaxes(**bands.layout())
    return _choose_height(hosts.height)


def _choose_height(lanes: int) -> int:
    return 160 + min(max(40 * lanes, 120), 520)


def _make_hover_texts(bars: pl.DataFrame, axis: TimeAxis) -> list[str]:
    texts = []
    for row in bars.iter_rows(named=True):
        lines: list[tuple[str, Any]] = [
            ("state", row["state"]),
            ("host", row["host"]),
            ("cores", format_number(row["cores"])),
            ("type", row["type"]),
            ("image", row["image"]),
            ("user", row["user"]),
            ("from", axis.format_time(row["start"])),
            ("to", axis.format_time(row["end"])),
            ("duration", format_duration(row["end"] - row["start"])),
        ]
        parts = (f"{name} {escape_label(str(value))}" for name, value in lines if value is not None)
        texts.append(f"<b>{escape_label(row['instance'] or '?')}</b><br>{'<br>'.join(parts)}")
    return texts


@dataclass(frozen=True, slots=True, eq=False)
class _Lanes:
    """Lanes of areas: the hosts of each, and the mean cores by state, lane and bin of time."""

    names: list[str]
    states: list[str]
    edges: Floats
    #: Mean cores: state x lane x bin.
    level: npt.NDArray[np.float64]
    #: Upper end of each lane on the vertical axis, and its height, in cores.
    top: Floats
    height: Floats

    @classmethod
    def of(cls, hosts: pl.DataFrame, periods: RentedPeriods) -> _Lanes:
        size = -(-hosts.height // MAX_LANES)
        lane = pl.col("index").cast(pl.Int64) // size
        numbered = hosts.with_row_index("index").with_columns(lane=lane)
        groups = numbered.group_by("lane", maintain_order=True).agg(
            first=pl.col("node").first(),
            last=pl.col("node").last(),
            cores=pl.col("cores").sum(),
        )
        names = [a if a == b else f"{a} … {b}" for a, b in groups.select("first", "last").rows()]
        states = list(_get_colours(periods.states))
        boxes = periods.parts.join(
            periods.stays.select("number", "host", "cores"), on="number"
        ).join(numbered.select("lane", host="node"), on="host")
        state = boxes["state"].replace_strict(states, range(len(states)), return_dtype=pl.Int64)
        start, end, cores = (boxes[name].to_numpy() for name in ("start", "end", "cores"))
        edges = np.linspace(start.min(), end.max(), BINS + 1)
        row = (state * groups.height + boxes["lane"]).to_numpy()
        level = average_by_row(row, start, end, cores, len(states) * groups.height, edges)
        level[np.abs(level) <= 1e-9 * cores.max()] = 0.0  # rounding errors of sums that are zero
        level = level.reshape(len(states), groups.height, BINS)
        # Overcommitted hosts have more cores of instances than of their own.
        height = np.maximum(groups["cores"].to_numpy(), level.sum(axis=0).max(axis=1))
        distance = height + _GAP * height.max()
        return cls(names, states, edges, level, np.cumsum(distance) - distance, height)


def _add_areas(
    figure: Figure, hosts: pl.DataFrame, periods: RentedPeriods, axis: TimeAxis
) -> tuple[int, str]:
    """Add the mean cores by state of each lane, and return the height of the figure and a note."""
    lanes = _Lanes.of(hosts, periods)
    bottom = lanes.top + lanes.height
    shades = _get_colours(lanes.states)
    middle = axis.at((lanes.edges[:-1] + lanes.edges[1:]) / 2)
    names = [escape_label(name) for name in lanes.names]
    # Running instances, usually the largest area, are at the bottom of a lane.
    order = sorted(range(len(lanes.states)), key=lambda index: lanes.states[index] != "running")
    base = np.zeros(lanes.level.shape[1:])
    areas = {}
    for index in order:
        areas[index] = _outline(lanes.edges, bottom, base, base + lanes.level[index])
        base = base + lanes.level[index]
    for index, state in enumerate(lanes.states):
        x, y = areas[index]
        figure.add_scatter(
            x=axis.at(x), y=y, name=escape_label(state), mode="lines", fill="toself",
            fillcolor=shades[state], line={"width": 0, "color": shades[state]},
            hoveron="fills", hoverinfo="name",
            meta={"cells": {"x": middle, "y": names, "z": lanes.level[index].astype(np.float32)},
                  "columns": {"x": axis.title, "y": "host", "z": "cores, mean"}},
        )  # fmt: skip
    figure.update_yaxes(
        range=[float(bottom[-1]), 0.0], tickmode="array", tickvals=(lanes.top + bottom) / 2,
        ticktext=names, showgrid=False, zeroline=False,
    )  # fmt: skip
    floor = {"type": "line", "xref": "paper", "x0": 0, "x1": 1,
             "line": {"color": colours.LIMIT, "width": 0.5}}  # fmt: skip
    figure.update_layout(shapes=[{**floor, "y0": each, "y1": each} for each in bottom.tolist()])
    instances = format_count(periods.stays["instance"].n_unique(), "instance")
    note = (
        f"{instances} in {format_count(periods.parts.height, 'period')} are drawn together: mean "
        f"cores by state in each 1/{BINS} of the time, the height of a lane is the cores of its "
        "hosts"
    )
    if len(names) < hosts.height:
        note += f"; {hosts.height:,} hosts in {len(names)} groups of adjacent hosts"
    return _choose_height(len(names)), note


def _outline(edges: Floats, bottom: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the outlines of an area of each lane, where it has a height, separated by NaN."""
    gap = np.array([np.nan])
    xs, ys = [gap[:0]], [gap[:0]]
    for floor, under, above in zip(bottom, low, high, strict=True):
        change = np.diff((above > under).astype(np.int8), prepend=0, append=0)
        for first, last in zip(
            np.flatnonzero(change == 1), np.flatnonzero(change == -1), strict=True
        ):
            # Each bin has two points of its lower and two of its upper side.
            x = np.repeat(edges[first : last + 1], 2)[1:-1]
            lower, upper = (np.repeat(side[first:last], 2) for side in (under, above))
            xs += [x, x[::-1], gap]
            ys += [floor - lower, floor - upper[::-1], gap]
    return np.concatenate(xs), np.concatenate(ys)
