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

#: A curve is exact at a width of so many pixels.
PIXELS: Final = 1000
#: The number of bins of the mean that is drawn over a curve with too many steps.
MEANS: Final = 250
#: The most points of a distribution.
POINTS: Final = 2000
#: A logarithmic axis of wait times.
LOG_WAITS: Final[dict[str, Any]] = {
    "type": "log",
    "tickvals": [1, 10, 60, 600, 3600, 6 * 3600, 86400, 10 * 86400, 100 * 86400],
    "ticktext": ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "10 d", "100 d"],
}

_THINNED = (
    "of each 1/1000 of the time only the first, last, lowest and highest value are kept; "
    "the means are exact"
)


def plot_queue(trace: Trace) -> Figure:
    """Plot the waiting tasks and their requested cores over time.

    A task waits from its submission (with parents: from when it was ready) to its first start.

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
    never = int(per_task(trace)["wait"].null_count())
    if never:
        notes.append(
            f"not counted: {format_count(never, 'task')} of unknown wait, or never started"
        )
    return attach_notes(figure, notes)


def count_waiting(trace: Trace) -> tuple[Steps, Steps]:
    """Count the waiting tasks and their requested cores; a task of unknown size adds no core."""
    tasks = per_task(trace).with_columns(collect_runs(trace)["processors"].fill_null(0.0))
    tasks = tasks.drop_nulls("wait")
    if not tasks.height:
        raise InputError(
            "there is no queue to draw: no task has both a submission and a start",
            kind="nothing-to-draw",
            remedy="simulate the workload first, or read a log with start and end times",
        )
    since, start = tasks["queued"].to_numpy(), tasks["start"].to_numpy()
    one = Steps.of(WeightedIntervals.of(since, start, np.ones(since.size)))
    many = Steps.of(WeightedIntervals.of(since, start, tasks["processors"].to_numpy()))
    span = np.unique([since.min(), start.max()])
    none = Steps(span, np.zeros(span.size))
    return one if one.t.size else none, many if many.t.size else none


def plot_utilisation(trace: Trace) -> Figure:
    """Plot the cores in use and the available cores over time.

    Nodes that are down, off, booting or under maintenance are not available.

    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    ...     placements=pl.DataFrame({"task": ["a"], "cores": [3.0], "start": [0.0], "end": [5.0]}),
    ... )
    >>> [(curve.name, curve.y.tolist()) for curve in plot_utilisation(trace).data]
    [('in use', [3.0, 0.0]), ('available', [4.0, 4.0])]
    """
    ran = select_executions(require_trace(trace))
    steps = sum_cores_in_use(ran)
    axis = TimeAxis.of(trace)
    figure = create_figure("Cores in use", axis)
    notes = _add_curve(figure, steps, axis, "in use", colours.CURVE)
    there = sum_available_cores(trace, steps.t[0], steps.t[-1])
    if there is not None:
        figure.add_scatter(
            x=axis.at(there.t), y=there.level, name="available", mode="lines", line_shape="hv",
            line={"color": colours.LIMIT, "dash": "dot", "width": 1.5}, hoverinfo="skip",
        )  # fmt: skip
    figure.update_layout(yaxis={"title": {"text": "cores"}, "rangemode": "tozero"})
    return attach_notes(figure, notes + describe_omissions(trace, ran))


def sum_cores_in_use(ran: pl.DataFrame) -> Steps:
    """Sum the cores of these executions over time."""
    start, end, cores = (
        require_executions(ran)[name].to_numpy() for name in ("start", "end", "cores")
    )
    steps = Steps.of(WeightedIntervals.of(start, end, cores))
    if not steps.t.size:
        raise InputError(
            "there is nothing to draw: no execution uses a core for any time",
            kind="nothing-to-draw",
        )
    return steps


def sum_available_cores(trace: Trace, first: float, last: float) -> Steps | None:
    """Sum the cores of the available nodes over time; None if the capacity is unknown."""
    total = get_capacity(trace)
    if total is None:
        return None
    away = find_absences(trace, last)
    start, end = (away[name].clip(first, last).to_numpy() for name in ("start", "end"))
    gone = Steps.of(WeightedIntervals.of(start, end, away["cores"].to_numpy()))
    t = np.concatenate([[first], gone.t, [last]])
    level = total - np.concatenate([[0.0], gone.level, gone.level[-1:] if gone.t.size else [0.0]])
    return Steps(t, level)


def plot_power(trace: Trace) -> Figure:
    """Plot the total power of all nodes over time, from the windows of the trace.

    The curve is interrupted where the trace has no window.

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
            "there is no power to draw: the trace has no window of power",
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

    The axis is logarithmic if the longest wait is above ten minutes; the curve then starts with
    the share of tasks whose wait is below the left end of the axis.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 1.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 5.0], "end": [3.0, 9.0]}),
    ... )
    >>> curve = plot_waits(trace).data[0]
    >>> curve.x.tolist(), curve.y.tolist()
    ([0.0, 4.0], [0.5, 1.0])
    """
    known = per_task(require_trace(trace))["wait"].drop_nulls()
    if not len(known):
        raise InputError(
            "there are no waits to draw: no task has both a submission and a start",
            kind="nothing-to-draw",
            remedy="simulate the workload first, or read a log with start and end times",
        )
    wait, count = np.unique(known.to_numpy(), return_counts=True)
    share = np.cumsum(count) / len(known)
    notes = []
    if wait.size > POINTS:
        kept = np.unique(
            np.searchsorted(share, np.linspace(0.0, 1.0, POINTS)).clip(max=wait.size - 1)
        )
        wait, share = wait[kept], share[kept]
        notes = ["every point is exact; at most 1/1000 of the tasks lie between two points"]
    axis: dict[str, Any] = {"title": {"text": "wait"}}
    if wait[-1] > 600:
        left = np.searchsorted(wait, 1.0, side="right")
        at_most = share[left - 1] if left else 0.0
        wait, share = np.append(1.0, wait[left:]), np.append(at_most, share[left:])
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
    """Add a step curve to a figure; too many steps are thinned and pale, below their means.

    With `windows`, the curve is interrupted where their level is zero.
    """
    thin = steps.thin(PIXELS)
    pale = thin.t.size < steps.t.size
    if windows is not None:
        thin = _insert_gaps(thin, windows)
    figure.add_scatter(
        x=axis.at(thin.t), y=thin.level, name=name, mode="lines", line_shape="hv",
        line={"color": colour, "width": 1 if pale else 1.5}, opacity=0.35 if pale else 1.0, **more,
    )  # fmt: skip
    if not pale:
        return []
    edges = np.linspace(steps.t[0], steps.t[-1], MEANS + 1)
    means = steps.means(edges)
    if windows is not None:
        known = Steps(windows.t, np.minimum(windows.level, 1.0)).means(edges)
        means = np.divide(means, known, out=np.full(means.size, np.nan), where=known > 1e-9)
    figure.add_scatter(
        x=axis.at(edges), y=np.append(means, means[-1]), name=f"{name}, mean", mode="lines",
        line_shape="hv", line={"color": colour, "width": 2}, **more,
    )  # fmt: skip
    return [_THINNED]


def _insert_gaps(steps: Steps, windows: Steps) -> Steps:
    """Insert a gap (NaN) where the level of the windows is zero."""
    there = windows.level[np.searchsorted(windows.t, steps.t, side="right") - 1]
    breaks = np.flatnonzero(there <= 0)
    level = np.where(there > 0, steps.level, np.nan)
    # The level before a gap lasts until its start.
    before = np.where(breaks > 0, level[breaks - 1], np.nan)
    t, level = np.insert(steps.t, breaks, steps.t[breaks]), np.insert(level, breaks, before)
    end = level.size - int(np.isnan(level[-1:]).sum())
    return Steps(t[:end], level[:end])
