"""Figures of an assessment: the real run, its twin and their difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures import colours
from twinloop.report.figures.curves import LOG_WAITS
from twinloop.report.figures.figure_base import attach_notes, create_figure
from twinloop.report.figures.residual import plot_comparison, stack_axes
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.fidelity.verdict import Verdict

#: Maximum number of pairs that are drawn.
MAX_PAIRS: Final = 4000
#: The axis of long waits is logarithmic if half of them are below this fraction of the longest.
_LOG_AXIS_SHARE: Final = 0.05


def plot_assessment(verdict: Verdict) -> dict[str, Figure]:
    """Plot the figures of an assessment, by name; figures without data are left out.

    `waits` has the distributions of the wait times, `completions` the completed tasks over time,
    `trend` the z-scores of the power, each with twin minus real below; `usage` has the CPU usage
    of the twin over that of the real run; `segments` has the highest correlation of each segment
    of the power, and its lag.

    >>> from types import SimpleNamespace
    >>> waits = pl.DataFrame({"wait": [0.0, 2.0], "real": [0.5, 1.0], "twin": [0.25, 1.0],
    ...                       "residual": [-0.25, 0.0]})
    >>> figures = plot_assessment(SimpleNamespace(series={"waits": waits}, findings=()))
    >>> [(curve.name, curve.y.tolist()) for curve in figures["waits"].data]
    [('real', [0.5, 1.0]), ('twin', [0.25, 1.0]), ('twin - real', [-0.25, 0.0])]
    """
    return plot_available(verdict)[0]


def plot_available(verdict: Verdict) -> tuple[dict[str, Figure], list[str]]:
    """Plot the figures that have data, and list the reason for each omitted figure."""
    figures, missing = {}, []
    for name, draw in PLOTS.items():
        try:
            figures[name] = draw(verdict)
        except InputError as error:
            missing.append(error.problem)
    return figures, missing


def plot_wait_comparison(verdict: Verdict) -> Figure:
    """Plot the cumulative distribution of the wait times, with twin minus real below.

    The axis is logarithmic if the longest wait is above ten minutes and half of the real waits are
    below a twentieth of it; the curves then start at 1 s, with the share of tasks that waited at
    most 1 s.
    """
    rows = _get_series(verdict, "waits", "wait times", ("wait",))
    longest = float(rows["wait"].tail(1).item())
    median = rows.filter(pl.col("real") >= 0.5)["wait"].head(1)
    axis: dict[str, Any] = {"title": {"text": "wait (s)"}}
    if longest > 600 and len(median) and median.item() < _LOG_AXIS_SHARE * longest:
        axis = {"title": {"text": "wait"}} | LOG_WAITS
        left = rows.filter(pl.col("wait") <= 1.0).tail(1).with_columns(wait=pl.lit(1.0))
        rows = pl.concat([left, rows.filter(pl.col("wait") > 1.0)])
    figure, notes = plot_comparison("Wait times", rows, rows["wait"])
    figure.update_layout(
        xaxis=axis,
        yaxis={"title": {"text": "share of tasks"}, "tickformat": ".0%"},
        yaxis2={"tickformat": ".1%"},
    )
    return attach_notes(figure, notes)


def plot_completions(verdict: Verdict) -> Figure:
    """Plot the completed tasks over time, with twin minus real below."""
    rows = _get_series(verdict, "completions", "completions", ("t",))
    axis = _make_time_axis(rows["t"])
    figure, notes = plot_comparison("Completed tasks", rows, axis.at(rows["t"].to_numpy()))
    figure.update_layout(xaxis=axis.layout(), yaxis={"title": {"text": "tasks"}})
    return attach_notes(figure, notes)


def plot_usage_comparison(verdict: Verdict) -> Figure:
    """Plot the CPU usage of the twin over that of the real run, a point per window of a task."""
    rows = _get_series(verdict, "usage", "cpu usage", ("real", "twin"))
    notes = []
    if rows.height > MAX_PAIRS:
        notes.append(f"{MAX_PAIRS:,} of {rows.height:,} pairs, sampled at equal steps")
        rows = rows[np.linspace(0, rows.height - 1, MAX_PAIRS).round().astype(int).tolist()]
    figure = create_figure("CPU usage of the tasks")
    figure.add_scatter(
        x=rows["real"], y=rows["twin"], name="windows of tasks", mode="markers",
        marker={"color": colours.CURVE, "size": 5, "opacity": 0.4},
        hovertemplate="real %{x:.4g}, twin %{y:.4g}<extra></extra>",
    )  # fmt: skip
    unit = _find_usage_unit(verdict)
    limit = max(float(rows[name].max() or 0.0) for name in ("real", "twin"))  # type: ignore[arg-type]
    figure.add_scatter(
        x=[0.0, limit], y=[0.0, limit], name="twin = real", mode="lines", hoverinfo="skip",
        line={"color": colours.LIMIT, "dash": "dot", "width": 1.5},
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": f"real{unit}"}, "rangemode": "tozero"},
        yaxis={"title": {"text": f"twin{unit}"}, "rangemode": "tozero"},
        hovermode="closest",
    )
    return attach_notes(figure, notes)


def plot_power_trend(verdict: Verdict) -> Figure:
    """Plot the z-scores of the total power over time, with twin minus real below."""
    rows = _insert_gaps(_get_series(verdict, "power", "power", ("t",)))
    axis = _make_time_axis(rows["t"])
    figure, notes = plot_comparison("Power trend", rows, axis.at(rows["t"].to_numpy()))
    figure.update_layout(xaxis=axis.layout(), yaxis={"title": {"text": "z-score"}})
    return attach_notes(figure, notes)


def plot_power_segments(verdict: Verdict) -> Figure:
    """Plot the highest correlation of each segment of the power, and its lag."""
    rows = _get_series(verdict, "segments", "power", ("start",))
    used = rows.filter(pl.col("status") == "used")
    counts = rows["status"].value_counts(sort=True).rows()
    notes = [
        f"{format_count(count, 'segment')} not used: {reason}"
        for reason, count in counts
        if reason != "used"
    ]
    if not used.height:
        raise InputError(
            f"there are no segments of power to draw: {'; '.join(notes)}", kind="nothing-to-draw"
        )
    length = verdict.criteria.power.segment
    axis = _make_time_axis(rows["start"] + length)
    position = {
        "x": axis.at(used["start"].to_numpy() + length / 2),
        "width": float(axis.length(np.array(length))),
    }
    figure = create_figure("Power correlation by segment")
    figure.add_bar(
        y=used["r"], name="highest correlation", marker={"color": colours.CURVE}, **position
    )
    figure.add_bar(
        y=used["lag"],
        name="lag of the twin",
        marker={"color": colours.SECOND},
        yaxis="y2",
        **position,
    )
    threshold = verdict.criteria.power.correlation
    span = axis.at(np.array([0.0, float(rows["start"][-1]) + length]))
    figure.add_scatter(
        x=span, y=[threshold, threshold], name="threshold of the mean", mode="lines",
        hoverinfo="skip", line={"color": colours.LIMIT, "dash": "dot", "width": 1.5},
    )  # fmt: skip
    stack_axes(figure, "lag (s)")
    figure.update_layout(
        xaxis=axis.layout(),
        yaxis={"title": {"text": "r"}, "range": [min(0.0, float(used["r"].min())) * 1.05, 1.02]},  # type: ignore[arg-type]
        bargap=0.1,
    )
    return attach_notes(figure, notes)


#: The function that plots each figure.
PLOTS: Final[Mapping[str, Callable[[Verdict], Figure]]] = {
    "waits": plot_wait_comparison,
    "completions": plot_completions,
    "usage": plot_usage_comparison,
    "trend": plot_power_trend,
    "segments": plot_power_segments,
}


def _get_series(verdict: Verdict, name: str, metric: str, columns: tuple[str, ...]) -> pl.DataFrame:
    """Return the rows of a series that can be drawn; raise an error if there are none."""
    rows: pl.DataFrame = verdict.series.get(name, pl.DataFrame())
    if rows.height:
        rows = rows.drop_nulls(columns)
    if not rows.height:
        notes = [each.note for each in verdict.findings if each.metric == metric and each.note]
        raise InputError(
            f"no figure of {name}: {notes[0] if notes else 'there are no data'}",
            kind="nothing-to-draw",
        )
    return rows


def _insert_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Insert an empty row at each gap in time, so that the curve is interrupted there."""
    distances = rows["t"].diff().drop_nulls()
    if not len(distances):
        return rows
    step = float(distances.min())  # type: ignore[arg-type]
    last = rows.filter((pl.col("t").shift(-1) - pl.col("t") > 1.5 * step).fill_null(False))
    empty = last.select(t=pl.col("t") + step)
    return pl.concat([rows, empty], how="diagonal").sort("t")


def _find_usage_unit(verdict: Verdict) -> str:
    """Return the unit of the CPU usage from the names of figures such as `median_cores`."""
    units = (
        name.removeprefix("median_")
        for finding in verdict.findings
        if finding.metric == "cpu usage"
        for name in finding.figures
        if name.startswith("median_")
    )
    unit = next(units, "")
    return f" ({unit})" if unit else ""


def _make_time_axis(t: pl.Series) -> TimeAxis:
    return TimeAxis.of(Trace(), span=float(t.max() or 0.0))  # type: ignore[arg-type]
