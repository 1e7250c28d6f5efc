"""Figure of the CPU use over time per node, from the samples of a recorded run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.weighted_intervals import Floats, WeightedIntervals
from twinloop.report.figures import colours
from twinloop.report.figures.bands import UNRECORDED
from twinloop.report.figures.curves import sum_available_cores
from twinloop.report.figures.figure_base import escape_label
from twinloop.report.figures.steps import Steps, average_by_row
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count, format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of windows of a curve.
MAX_WINDOWS: Final = 1000
#: Maximum number of nodes with a curve each; more are summed.
MAX_LANES: Final = 8
ALL_NODES: Final = "all nodes"
#: The gap between two lanes, as a fraction of the height of a lane.
_GAP: Final = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """CPU use over time, in cores, on one node or on all nodes together.

    >>> lane = Lane("n1", Steps(np.array([0.0, 2.0]), np.array([0.5, 0.0])), limit=None)
    >>> lane.cpu_use.area, lane.top
    (1.0, 0.5)
    """

    name: str
    cpu_use: Steps
    #: The available cores over time; None: not known.
    limit: Steps | None

    @property
    def top(self) -> float:
        """The highest level of the lane."""
        highest = max(steps.level.max(initial=0.0) for steps in (self.cpu_use, self.limit) if steps)
        return float(highest) or 1.0


def plot_usage(trace: Trace) -> Figure:
    """Plot the CPU use over time, in cores, and the available cores of each node.

    A sample has the CPU seconds of a task in a window of time, which are spread evenly over the
    window. The area under the curves is the sum of the CPU seconds of all samples. More than eight
    nodes are summed. With many or very short windows, a curve has the mean of each thousandth of
    the time, and the same area.

    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [2.0]}),
    ...     usage=pl.DataFrame({"task": ["a", "a", "b"], "machine": "n1", "t": [1.0, 2.0, 2.0],
    ...                         "dt": 1.0, "cpu": [1.0, 0.5, 0.75]}),
    ... )
    >>> [(curve.name, curve.y.tolist()) for curve in plot_usage(trace).data]
    [('n1', [1.0, 1.25, 0.0]), ('cores of n1', [2.0, 2.0])]
    """
    # Imported here because Plotly is slow to load and only figures need it.
    import plotly.graph_objects as go

    lanes, notes = make_lanes(trace, MAX_LANES)
    axis = TimeAxis.of(trace)
    figure = go.Figure()
    height = 1.0 / (len(lanes) + _GAP * (len(lanes) - 1))
    for index, lane in enumerate(lanes):
        number = str(index + 1) if index else ""
        name, top = escape_label(lane.name), 1.0 - index * height * (1.0 + _GAP)
        figure.add_scatter(
            x=axis.at(lane.cpu_use.t), y=lane.cpu_use.level, name=name, yaxis=f"y{number}",
            mode="lines", line_shape="hv", line={"color": colours.USED, "width": 1},
            fill="tozeroy", showlegend=False,
        )  # fmt: skip
        if lane.limit is not None:
            figure.add_scatter(
                x=axis.at(lane.limit.t), y=lane.limit.level, name=f"cores of {name}",
                yaxis=f"y{number}", mode="lines", line_shape="hv", hoverinfo="skip",
                line={"color": colours.LIMIT, "dash": "dot", "width": 1.5}, showlegend=False,
            )  # fmt: skip
        figure.update_layout(
            {
                f"yaxis{number}": {
                    "domain": [max(top - height, 0.0), top],
                    "range": [0.0, 1.05 * lane.top],
                    "title": {"text": "cores" if len(lanes) == 1 else ""},
                    "nticks": 5 if len(lanes) < 3 else 3,
                }
            }
        )
        if len(lanes) > 1:
            figure.add_annotation(
                text=name, xref="paper", x=0.005, yref="paper", y=top, xanchor="left",
                yanchor="bottom", showarrow=False,
            )  # fmt: skip
    figure.update_layout(title_text="CPU use", hovermode="x unified", meta={"notes": notes})
    figure.update_xaxes(anchor=f"y{len(lanes)}" if len(lanes) > 1 else "y", **axis.layout())
    return figure


def make_lanes(trace: Trace, max_lanes: int) -> tuple[list[Lane], list[str]]:
    """Make a lane per node, or one lane of all nodes if there are more than `max_lanes`; and notes.

    >>> trace = Trace(usage=pl.DataFrame({"task": ["a", "b"], "machine": ["n1", "n2"],
    ...                                   "t": 2.0, "dt": 2.0, "cpu": [1.0, 3.0]}))
    >>> [(lane.name, lane.cpu_use.area) for lane in make_lanes(trace, max_lanes=2)[0]]
    [('n1', 1.0), ('n2', 3.0)]
    >>> [(lane.name, lane.cpu_use.area) for lane in make_lanes(trace, max_lanes=1)[0]]
    [('all nodes', 4.0)]
    """
    rows, notes = _select_samples(require_trace(trace))
    machines = rows["machine"].unique().sort().to_list()
    names = list(dict.fromkeys([*trace.nodes["node"].drop_nulls(), *machines]))
    is_summed = machines == [UNRECORDED] or len(names) > max_lanes
    row_by_name = {name: 0 if is_summed else index for index, name in enumerate(names)}
    row = rows["machine"].replace_strict(row_by_name, return_dtype=pl.Int64).to_numpy()
    start, end, level = (rows[name].to_numpy() for name in ("start", "t", "level"))
    cpu_use, is_averaged = _compute_cpu_use(row, start, end, level, 1 if is_summed else len(names))
    if is_averaged:
        notes.insert(0, f"means of at most {MAX_WINDOWS:,} windows; the CPU seconds are exact")
    first, last = float(start.min()), float(end.max())
    if is_summed:
        return [Lane(ALL_NODES, cpu_use[0], sum_available_cores(trace, first, last))], notes
    return [
        Lane(name, steps, _find_limit(trace, name, first, last))
        for name, steps in zip(names, cpu_use, strict=True)
    ], notes


def _select_samples(trace: Trace) -> tuple[pl.DataFrame, list[str]]:
    """Select the valid samples: machine, start and end of the window, CPU use in it (cores)."""
    rows = trace.usage.select(
        pl.col("machine").fill_null(UNRECORDED), "t", "cpu", start=pl.col("t") - pl.col("dt")
    ).with_columns(level=pl.col("cpu") / (pl.col("t") - pl.col("start")))
    is_valid = pl.all_horizontal(
        pl.col("start").is_finite(), pl.col("start") < pl.col("t"),
        pl.col("level").is_finite(), pl.col("level") >= 0,
    ).fill_null(False)  # fmt: skip
    drawn, invalid = rows.filter(is_valid), rows.filter(~is_valid)
    if not drawn.height:
        raise InputError(
            "there is no CPU use to draw: the trace has no valid samples",
            kind="nothing-to-draw",
            remedy="record a run: `twinloop execute` and `twinloop record` sample their tasks",
        )
    notes = []
    if invalid.height:
        lost = float(invalid["cpu"].filter(invalid["cpu"].is_finite()).sum())
        notes.append(
            f"not drawn: {format_count(invalid.height, 'sample')} without a time, a length or CPU "
            f"seconds, {format_number(lost)} CPU s in total"
        )
    return drawn, notes


def _compute_cpu_use(
    row: npt.NDArray[np.int64], start: Floats, end: Floats, height: Floats, rows: int
) -> tuple[list[Steps], bool]:
    """Compute the CPU use of each row over time, and whether it is averaged in windows."""
    first, last = start.min(), end.max()
    times = np.unique(np.concatenate([start, end]))
    if np.diff(times).min() >= (last - first) / MAX_WINDOWS:
        exact = [
            Steps.of(
                WeightedIntervals.of(start[row == index], end[row == index], height[row == index])
            )
            for index in range(rows)
        ]
        return [steps if steps.t.size else _make_zero_steps(first, last) for steps in exact], False
    edges = np.linspace(first, last, MAX_WINDOWS + 1)
    means = average_by_row(row, start, end, height, rows, edges)
    # Remove rounding errors of sums that are zero.
    means[np.abs(means) <= 1e-12 * height.sum()] = 0.0
    return [Steps(edges, np.append(levels, 0.0)) for levels in means], True


def _make_zero_steps(first: float, last: float) -> Steps:
    return Steps(np.array([first, last]), np.zeros(2))


def _find_limit(trace: Trace, name: str, first: float, last: float) -> Steps | None:
    """Return the available cores of a node over time; None if its size is unknown."""
    node = trace.nodes.filter((pl.col("node") == name) & (pl.col("cores") > 0))
    return sum_available_cores(trace.replace(nodes=node), first, last) if node.height else None
