"""Gantt chart: tasks on machines over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures import colours
from twinloop.report.figures.bands import Bands
from twinloop.report.figures.colours import ColourBy
from twinloop.report.figures.executions import (
    describe_omissions,
    find_absences,
    require_executions,
    select_executions,
)
from twinloop.report.figures.figure_base import escape_label
from twinloop.report.figures.occupancy import make_occupancy_map
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count, format_duration, format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of bars and of rows; more are drawn as a heat map, because a browser is slow with
#: more bars, and more rows are not legible.
MAX_BARS: Final = 5000
MAX_ROWS: Final = 200


def plot_gantt(
    trace: Trace, *, colour: ColourBy | None = None, window: tuple[float, float] | None = None
) -> Figure:
    """Plot tasks on machines over time; the height of a bar is the number of cores of the task.

    A trace does not record the cores of a task within a machine, so a task is drawn on the lowest
    free cores. More than 5,000 executions or 200 machines are drawn as a heat map: the utilisation
    of each machine, or group of adjacent machines; without machines, the cores in use by each
    user (or queue, status, kind).

    Args:
        trace: Any trace with executions, real or simulated.
        colour: `user`, `queue`, `status` or `kind`; by default the first of `user`, `queue` and
            `status` that is known.
        window: Draw only the executions between these two times (s).

    >>> import polars as pl
    >>> trace = Trace(placements=pl.DataFrame({"task": ["a", "b"], "machine": ["n1", "n2"],
    ...     "cores": [1.0, 2.0], "start": [0.0, 1.0], "end": [2.0, 5.0], "reason": "completed"}))
    >>> [(bars.name, len(bars.x)) for bars in plot_gantt(trace).data]
    [('completed', 2)]
    """
    # Imported here because Plotly is slow to load and only figures need it.
    import plotly.graph_objects as go

    all_executions = select_executions(require_trace(trace))
    executions = require_executions(_select_window(all_executions, window))
    by = colours.choose_grouping(executions, colour)
    first, last = window or (float(executions["start"].min()), float(executions["end"].max()))  # type: ignore[arg-type]
    axis = TimeAxis.of(trace, last - first if window else None)
    machines = executions["machine"].n_unique()
    if executions.height > MAX_BARS or max(machines, trace.nodes.height) > MAX_ROWS:
        figure = go.Figure(make_occupancy_map(trace, executions, by, axis, first, last, MAX_ROWS))
        figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
        figure.update_xaxes(showgrid=False)
        has_no_machines = executions["machine"].null_count() == executions.height
        title = f"Cores in use by {by}" if has_no_machines else "Utilisation of the machines"
        on_machines = (
            ""
            if has_no_machines
            else f" on {format_count(max(machines, trace.nodes.height), 'machine')}"
        )
        notes = [
            f"{format_count(executions.height, 'execution')}{on_machines} are too many for a bar "
            "each: the heat map shows the cores in use per row"
        ]
    else:
        figure = _plot_bars(trace, executions, by, axis, last)
        title, notes = "Tasks on machines", []
    figure.update_layout(
        title_text=title, bargap=0, barmode="overlay", hovermode="closest",
        meta={"notes": notes + describe_omissions(trace, all_executions)},
    )  # fmt: skip
    ends = axis.at(np.array([first, last]))
    figure.update_xaxes(range=ends.tolist() if last > first else None, **axis.layout())
    return figure


def _select_window(executions: pl.DataFrame, window: tuple[float, float] | None) -> pl.DataFrame:
    if window is None:
        return executions
    first, last = window
    if not first < last:
        raise InputError(
            f"a window from {first} to {last} s is empty",
            kind="wrong-order",
            field="window",
            remedy="give the start before the end",
        )
    return executions.filter((pl.col("start") < last) & (pl.col("end") >= first))


def _plot_bars(
    trace: Trace, executions: pl.DataFrame, by: ColourBy, axis: TimeAxis, last: float
) -> Figure:
    import plotly.graph_objects as go

    bands = Bands.of(trace, executions)
    groups = colours.group_executions(executions, by)
    single_groups = groups.filter(pl.col("members") == 1)
    group_indices = dict(zip(single_groups["group"], range(single_groups.height), strict=True))
    others_index = groups.height - 1
    pieces = bands.pieces.with_columns(
        group_index=executions.select(colours.get_group_key(by))[:, 0]
        .map_elements(
            lambda group: group_indices.get(group, others_index),
            return_dtype=pl.Int64,
            skip_nulls=False,
        )
        .gather(bands.pieces["number"])
    )
    text = np.array(_make_hover_texts(executions, axis), dtype=object)
    start, end = executions["start"].to_numpy(), executions["end"].to_numpy()
    figure = go.Figure()
    for index, (label, members) in enumerate(groups.select("label", "members").rows()):
        group_pieces = pieces.filter(pl.col("group_index") == index)
        numbers = group_pieces["number"].to_numpy()
        low, high = group_pieces["low"].to_numpy(), group_pieces["high"].to_numpy()
        figure.add_bar(
            orientation="h",
            name=escape_label(label),
            base=axis.at(start[numbers]),
            x=axis.length(end[numbers] - start[numbers]),
            y=(low + high) / 2,
            width=high - low,
            hovertext=text[numbers].tolist(),
            hoverinfo="text",
            meta={"columns": name_bar_columns(axis, "task", "machine")},
            marker={
                "color": colours.get_colour(by, label, index, members),
                "line": {"width": 0.5, "color": "rgba(128, 128, 128, 0.7)"},
            },
        )
    _add_absences(figure, trace, bands, axis, last)
    figure.update_yaxes(**bands.layout())
    figure.update_layout(legend_title_text=by, showlegend=True)
    return figure


def name_bar_columns(axis: TimeAxis, subject: str, place: str) -> dict[str, str]:
    """Name the columns of the data of a bar of a subject in a place, for the CSV file.

    >>> name_bar_columns(TimeAxis("hours since the start", 3600.0, None), "task", "machine")["x"]
    'length (hours)'
    """
    unit = "ms" if axis.epoch_ms is not None else axis.title.split()[0]
    return {
        "base": f"start ({axis.title})", "x": f"length ({unit})", "width": "cores",
        "y": f"middle of the bar, in cores from the first {place} on", "text": subject,
    }  # fmt: skip


def _add_absences(figure: Figure, trace: Trace, bands: Bands, axis: TimeAxis, last: float) -> None:
    absences = find_absences(trace, last).filter(pl.col("node").is_in(list(bands.rows)))
    if not absences.height:
        return
    spans = np.array([bands.rows[node] for node in absences["node"]])
    start, end = absences["start"].to_numpy(), absences["end"].to_numpy()
    labels = [f"{escape_label(node)}: not available" for node in absences["node"]]
    figure.add_bar(
        orientation="h", name="not available",
        base=axis.at(start), x=axis.length(end - start),
        y=spans.mean(axis=1), width=spans[:, 1] - spans[:, 0],
        hovertext=labels, hoverinfo="text",
        meta={"columns": name_bar_columns(axis, "task", "machine")},
        marker={"color": colours.UNAVAILABLE, "pattern": {"shape": "/", "size": 6}},
    )  # fmt: skip


def _make_hover_texts(executions: pl.DataFrame, axis: TimeAxis) -> list[str]:
    texts = []
    for row in executions.iter_rows(named=True):
        lines: list[tuple[str, Any]] = [
            ("user", row["user"]),
            ("queue", row["queue"]),
            ("machine", row["machine"]),
            ("cores", format_number(row["cores"])),
            ("submit", axis.format_time(row["submit"])),
            ("start", axis.format_time(row["start"])),
            ("end", axis.format_time(row["end"])),
            ("wait", format_duration(row["wait"])),
            ("ended", row["reason"] or row["status"]),
            ("attempt", row["attempt"] or None),
        ]
        parts = (f"{name} {escape_label(str(value))}" for name, value in lines if value is not None)
        texts.append(f"<b>{escape_label(row['task'] or '?')}</b><br>{'<br>'.join(parts)}")
    return texts
