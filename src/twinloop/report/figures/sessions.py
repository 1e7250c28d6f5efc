"""Figure of the session graph of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.quantity_text import format_count, format_duration
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace
from twinloop.workload.session_graph import SessionGraphs

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of sessions that are drawn.
MAX_SESSIONS: Final = 200


def plot_sessions(trace: Trace, user: str | None = None, *, threshold: float = 3600.0) -> Figure:
    """Plot the sessions of a user over time, and the dependencies between them.

    A session is a period of continuous work. A line leads from a session to each dependent one,
    which started after its end; the pause between them is the think time. See `SessionGraphs`.

    Args:
        trace: Any trace with users.
        user: By default the user with most tasks.
        threshold: The pause between two submissions (s) that ends a session.

    >>> log = Trace(tasks=pl.DataFrame({
    ...     "id": ["1", "2", "3"], "user": ["ann"] * 3, "submit": [0.0, 10.0, 7200.0],
    ...     "requested_cores": [1.0] * 3, "run_time": [30.0, 890.0, 900.0]}))
    >>> figure = plot_sessions(log)
    >>> list(figure.data[1].x)
    [0.0, 0.25, None, 2.0, 2.25, None]
    >>> [label.split("<br>")[0] for label in figure.data[2].text]
    ['session 0: 2 tasks', 'session 1: 1 task']
    """
    if require_trace(trace).tasks["user"].null_count() == trace.tasks.height:
        raise InputError(
            "there are no sessions to draw: the users of the tasks are not recorded",
            kind="nothing-to-draw",
        )
    graphs = SessionGraphs.from_log(trace, threshold=threshold)
    if not len(graphs):
        raise InputError(
            "there are no sessions to draw: no task of a known user can be run",
            kind="nothing-to-draw",
        )
    if user is None:
        counts = np.diff(graphs.partition.offsets[graphs.partition.user_offsets])
        user = graphs.users[int(np.argmax(counts))]
    graph = graphs[user]
    sessions, edges = graph.sessions, graph.edges.drop_nulls("before")
    notes = [
        f"a pause of {format_duration(threshold)} between two submissions ends a session; "
        "a line leads from a finished session to a session that started after it"
    ]
    if sessions.height > MAX_SESSIONS:
        notes.append(f"the first {MAX_SESSIONS} of {sessions.height:,} sessions")
        sessions, edges = sessions[:MAX_SESSIONS], edges.filter(pl.col("after") < MAX_SESSIONS)
    start, finish = sessions["start"].to_numpy(), sessions["finish"].to_numpy()
    axis = TimeAxis.of(trace, float(finish.max() - start.min()))
    row = _assign_rows(start, finish)
    figure = create_figure(f"Sessions of user '{escape_label(user)}'")
    _add_links(figure, axis, edges, start, finish, row)
    x = np.column_stack([axis.at(start), axis.at(finish), np.full(start.size, np.nan)]).ravel()
    figure.add_scatter(
        x=[None if np.isnan(each) else each for each in x], y=np.repeat(row, 3), mode="lines",
        name="session", line={"color": colours.CURVE, "width": 9}, hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=axis.at((start + finish) / 2), y=row, mode="markers", name="middle of the session",
        marker={"color": colours.CURVE, "size": 9}, text=_make_labels(sessions, axis),
        showlegend=False, hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis=axis.layout(),
        yaxis={"visible": False, "range": [row.max() + 1.0, -1.0], "title": {"text": "row"}},
        hovermode="closest",
        height=190 + 22 * int(row.max() + 1),
    )
    return attach_notes(figure, notes)


def _assign_rows(start: Any, finish: Any) -> Any:
    """Assign each session to the first row that is free at its start.

    A short session occupies its row for at least 1/250 of the time, because its bar has a width.
    """
    min_length = (finish.max() - start.min()) / 250
    free_from: list[float] = []
    rows = []
    for begin, end in zip(start, finish, strict=True):
        row = next(
            (index for index, end_of_row in enumerate(free_from) if end_of_row <= begin),
            len(free_from),
        )
        free_from[row : row + 1] = [max(end, begin + min_length)]
        rows.append(row)
    return np.array(rows)


def _add_links(
    figure: Figure, axis: TimeAxis, edges: pl.DataFrame, start: Any, finish: Any, row: Any
) -> None:
    before, after = edges["before"].to_numpy(), edges["after"].to_numpy()
    x = np.column_stack([axis.at(finish[before]), axis.at(start[after])])
    y = np.column_stack([row[before], row[after]])
    figure.add_scatter(
        x=[each for pair in x.tolist() for each in (*pair, None)],
        y=[each for pair in y.tolist() for each in (*pair, None)],
        mode="lines", name="depends on", line={"color": colours.LIMIT, "width": 1},
        hoverinfo="skip",
    )  # fmt: skip


def _make_labels(sessions: pl.DataFrame, axis: TimeAxis) -> list[str]:
    return [
        f"session {row['session']}: {format_count(len(row['jobs']), 'task')}"
        f"<br>{axis.format_time(row['start'])} to {axis.format_time(row['finish'])}"
        for row in sessions.rows(named=True)
    ]
