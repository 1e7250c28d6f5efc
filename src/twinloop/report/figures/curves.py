"""Figures of the queue, the utilisation, the power and the wait times of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task
from twinloop.metrics.weighted_intervals import WeightedIntervals
from twinloop.report.figures import colours
from twinloop.report.figures.executions import (
    describe_omissions,
    find_absences,
    get_capacity,
    require_executions,
    select_executions,
)
from twinloop.report.figures.figure_base import attach_notes, create_figure
from twinloop.report.figures.steps import Steps
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count, format_duration
from twinloop.trace import Trace
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum width in pixels at which a thinned curve looks exactly like the whole one.
MAX_EXACT_WIDTH: Final = 1000
#: Number of bins of the means that are drawn over a thinned curve.
MEAN_BINS: Final = 250
#: Maximum number of points of a distribution.
MAX_POINTS: Final = 2000
#: A logarithmic axis of wait times.
LOG_WAITS: Final[dict[str, Any]] = {
    "type": "log",
    "tickvals": [1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400, 100 * 86400],
    "ticktext": ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "10 d", "100 d"],
}

_THINNING_NOTE = (
    "of each 1/1000 of the time only the first, last, lowest and highest value are kept; "
    "the means are exact"
)


def plot_queue(trace: Trace) -> Figure:
    """Plot the waiting tasks and their requested cores over time.

    A task waits from its submission, or from the end of its parents if that is later, to its first
    start.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.0], "requested_cores": 2.0}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [2.0, 5.0], "end": [3.0, 9.0]}),
    ... )
    >>> [(curve.name, curve.y.tolist()) for curve in plot_queue(trace).data]
    [('tasks', [1.0, 2.0, 1.0, 0.0]), ('cores', [2.0, 4.0, 2.0, 0.0])]
    """
    tasks, cores = count_waiting(trace)
    axis = TimeAxis.of(trace)
    figure = create_figure("Queue", axis)
    notes = _add_curve(figure, tasks, axis, "tasks", colours.CURVE, yaxis="y")
    notes += _add_curve(figure, cores, axis, "cores", colours.SECOND, yaxis="y2")
    figure.update_layout(
        xaxis={"anchor": "y2"},
        yaxis={"title": {"text": "tasks"}, "rangemode": "tozero", "domain": [0.54, 1.0]},
        yaxis2={"title": {"text": "cores"}, "rangemode": "tozero", "domain": [0.0, 0.46]},
    )
    without_wait = int(per_task(trace)["wait"].null_count())
    if without_wait:
        count = format_count(without_wait, "task")
        notes.append(f"not counted: {count} that never started or whose wait is unknown")
    return attach_notes(figure, notes)


def count_waiting(trace: Trace) -> tuple[Steps, Steps]:
    """Count the waiting tasks and their requested cores over time.

    A task of unknown size adds no core. If no task waits, both are zero.
    """
    tasks = per_task(trace).with_columns(collect_runs(trace)["processors"].fill_null(0.0))
    tasks = tasks.drop_nulls("wait")
    if not tasks.height:
        raise InputError(
            "there is no queue to draw: no task has both a submission and a start",
            kind="nothing-to-draw",
            remedy="simulate the workload first, or read a log with start and end times",
        )
    queued, start = tasks["queued"].to_numpy(), tasks["start"].to_numpy()
    task_steps = Steps.of(WeightedIntervals.of(queued, start, np.ones(queued.size)))
    core_steps = Steps.of(WeightedIntervals.of(queued, start, tasks["processors"].to_numpy()))
    span = np.unique([queued.min(), start.max()])
    zero = Steps(span, np.zeros(span.size))
    return task_steps if task_steps.t.size else zero, core_steps if core_steps.t.size else zero


def plot_utilisation(trace: Trace) -> Figure:
    """Plot the cores in use and the available cores over time.

    Nodes that are down, off, switching on or off, or under maintenance are not available.

    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    ...     placements=pl.DataFrame({"task": ["a"], "cores": [3.0], "start": [0.0], "end": [5.0]}),
    ... )
    >>> [(curve.name, curve.y.tolist()) for curve in plot_utilisation(trace).data]
    [('in use', [3.0, 0.0]), ('available', [4.0, 4.0])]
    """
    executions = select_executions(require_trace(trace))
    steps = sum_cores_in_use(executions)
    axis = TimeAxis.of(trace)
    figure = create_figure("Cores in use", axis)
    notes = _add_curve(figure, steps, axis, "in use", colours.CURVE)
    available = sum_available_cores(trace, steps.t[0], steps.t[-1])
    if available is not None:
        figure.add_scatter(
            x=axis.at(available.t), y=available.level, name="available", mode="lines",
            line_shape="hv",
            line={"color": colours.LIMIT, "dash": "dot", "width": 1.5}, hoverinfo="skip",
        )  # fmt: skip
    figure.update_layout(yaxis={"title": {"text": "cores"}, "rangemode": "tozero"})
    return attach_notes(figure, notes + describe_omissions(trace, executions))


def sum_cores_in_use(executions: pl.DataFrame) -> Steps:
    """Sum the cores of these executions over time; raise an error if none uses a core."""
    start, end, cores = (
        require_executions(executions)[name].to_numpy() for name in ("start", "end", "cores")
    )
    steps = Steps.of(WeightedIntervals.of(start, end, cores))
    if not steps.t.size:
        raise InputError(
            "there is nothing to draw: no execution uses a core for any time",
            kind="nothing-to-draw",
        )
    return steps


def sum_available_cores(trace: Trace, first: float, last: float) -> Steps | None:
    """Sum the cores of the available nodes from `first` to `last`; None: the capacity is unknown.

    The level at `last` is the one until then, since nothing is drawn after it.
    """
    total = get_capacity(trace)
    if total is None:
        return None
    absences = find_absences(trace, last)
    start, end = (absences[name].clip(first, last).to_numpy() for name in ("start", "end"))
    t, absent = WeightedIntervals.of(start, end, absences["cores"].to_numpy()).steps()
    inside = (t > first) & (t < last)
    at_first = absent[t <= first][-1:].sum()
    level = total - np.concatenate([[at_first], absent[inside]])
    return Steps(np.concatenate([[first], t[inside], [last]]), np.append(level, level[-1]))


def plot_power(trace: Trace) -> Figure:
    """Plot the total power of all nodes over time, from the windows of the trace.

    The curve is interrupted where the trace has no window. If the trace has rows for the whole
    platform, which have no node, only these are drawn.

    >>> trace = Trace(power=pl.DataFrame({"t": [10.0, 20.0], "dt": 10.0, "watts": [90.0, 120.0]}))
    >>> plot_power(trace).data[0].y.tolist()
    [90.0, 120.0, 120.0]
    """
    rows = require_trace(trace).power.drop_nulls(["t", "dt", "watts"])
    total = rows.filter(pl.col("node").is_null())
    rows = total if total.height else rows
    end = rows["t"].to_numpy()
    begin = end - rows["dt"].to_numpy()
    steps = Steps.of(WeightedIntervals.of(begin, end, rows["watts"].to_numpy()))
    if not steps.t.size:
        raise InputError(
            "there is no power to draw: the power table has no known value",
            kind="nothing-to-draw",
            remedy="give the hosts of the platform a power model",
        )
    axis = TimeAxis.of(trace)
    figure = create_figure("Power", axis)
    windows = Steps.of(WeightedIntervals.of(begin, end, np.ones(end.size)))
    notes = _add_curve(figure, steps, axis, "power", colours.CURVE, windows)
    figure.update_layout(yaxis={"title": {"text": "power (W)"}, "rangemode": "tozero"})
    return attach_notes(figure, notes)


def plot_waits(trace: Trace) -> Figure:
    """Plot the cumulative distribution of the wait times.

    The axis is logarithmic if the longest wait is above ten minutes; the curve then starts at 1 s,
    with the share of tasks that waited at most 1 s.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 5.0], "end": [3.0, 9.0]}),
    ... )
    >>> curve = plot_waits(trace).data[0]
    >>> curve.x.tolist(), curve.y.tolist()
    ([0.0, 4.0], [0.5, 1.0])
    """
    waits = per_task(require_trace(trace))["wait"].drop_nulls()
    if not len(waits):
        raise InputError(
            "there are no waits to draw: no task has both a submission and a start",
            kind="nothing-to-draw",
            remedy="simulate the workload first, or read a log with start and end times",
        )
    wait, count = np.unique(waits.to_numpy(), return_counts=True)
    share = np.cumsum(count) / len(waits)
    notes = []
    if wait.size > MAX_POINTS:
        kept = np.unique(
            np.searchsorted(share, np.linspace(0.0, 1.0, MAX_POINTS)).clip(max=wait.size - 1)
        )
        wait, share = wait[kept], share[kept]
        notes = ["every point is exact; at most 1/1000 of the tasks lie between two points"]
    axis: dict[str, Any] = {"title": {"text": "wait"}}
    if wait[-1] > 600:
        first_kept = np.searchsorted(wait, 1.0, side="right")
        share_at_1_s = share[first_kept - 1] if first_kept else 0.0
        wait, share = np.append(1.0, wait[first_kept:]), np.append(share_at_1_s, share[first_kept:])
        axis |= LOG_WAITS
    else:
        axis["title"] = {"text": "wait (s)"}
    figure = create_figure("Wait times", None)
    figure.add_scatter(
        x=wait, y=share, mode="lines", line_shape="hv", line={"color": colours.CURVE},
        text=[format_duration(value) for value in wait],
        hovertemplate="%{y:.1%} waited at most %{text}<extra></extra>",
        name="tasks", meta={"columns": {"x": "wait (s)", "text": "wait"}},
    )  # fmt: skip
    figure.update_layout(
        xaxis=axis,
        yaxis={"title": {"text": "share of tasks"}, "tickformat": ".0%", "range": [0, 1.02]},
        hovermode="closest",
        showlegend=False,
    )
    return attach_notes(figure, notes)


def _add_curve(
    figure: Figure,
    steps: Steps,
    axis: TimeAxis,
    name: str,
    colour: str,
    windows: Steps | None = None,
    **more: Any,
) -> list[str]:
    """Add a step curve to a figure, and return notes on it.

    A curve with too many steps is thinned and drawn pale, with its means on top. With `windows`,
    the curve is interrupted where their level is zero.
    """
    drawn = steps.thin(MAX_EXACT_WIDTH)
    is_thinned = drawn.t.size < steps.t.size
    if windows is not None:
        drawn = _insert_gaps(drawn, windows)
    figure.add_scatter(
        x=axis.at(drawn.t), y=drawn.level, name=name, mode="lines", line_shape="hv",
        line={"color": colour, "width": 1 if is_thinned else 1.5},
        opacity=0.35 if is_thinned else 1.0, **more,
    )  # fmt: skip
    if not is_thinned:
        return []
    edges = np.linspace(steps.t[0], steps.t[-1], MEAN_BINS + 1)
    means = steps.means(edges)
    if windows is not None:
        coverage = Steps(windows.t, np.minimum(windows.level, 1.0)).means(edges)
        means = np.divide(means, coverage, out=np.full(means.size, np.nan), where=coverage > 1e-9)
    figure.add_scatter(
        x=axis.at(edges), y=np.append(means, means[-1]), name=f"{name}, mean", mode="lines",
        line_shape="hv", line={"color": colour, "width": 2}, **more,
    )  # fmt: skip
    return [_THINNING_NOTE]


def _insert_gaps(steps: Steps, windows: Steps) -> Steps:
    """Insert a gap (NaN) where the level of the windows is zero."""
    window_level = windows.level[np.searchsorted(windows.t, steps.t, side="right") - 1]
    breaks = np.flatnonzero(window_level <= 0)
    level = np.where(window_level > 0, steps.level, np.nan)
    # The level before a gap lasts until its start.
    before = np.where(breaks > 0, level[breaks - 1], np.nan)
    t, level = np.insert(steps.t, breaks, steps.t[breaks]), np.insert(level, breaks, before)
    end = level.size - int(np.isnan(level[-1:]).sum())
    return Steps(t[:end], level[:end])
