"""Figure of the lateness of each user: late submissions and missed deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.lateness import per_user
from twinloop.metrics.tasks import per_task
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of users with a row.
MAX_USERS: Final = 30
#: Lateness (s) below which nothing is shown, because users do not notice it.
MIN_SHOWN_LATENESS: Final = 0.1

_LATE_SUBMISSION, _MISSED_DEADLINE = (
    "submitted later than recorded, mean",
    "ended after the deadline, mean",
)


def plot_lateness(trace: Trace) -> Figure:
    """Plot the mean lateness of the submissions of each user, and the mean delay after deadlines.

    The first exists for a replay with feedback, where a user who waits for a task submits the next
    one later. The second is the mean over the ended tasks with a deadline; a task that met its
    deadline counts as 0.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "user": ["u", "u"], "submit": [0.0, 14.0],
    ...         "submit_recorded": [0.0, 10.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 15.0], "end": [5.0, 20.0]}),
    ... )
    >>> [(bars.name, list(bars.x), list(bars.y)) for bars in plot_lateness(trace).data]
    [('submitted later than recorded, mean', [2.0], ['u'])]
    """
    rows = _summarise_users(require_trace(trace))
    drawn = {
        name: rows[name].null_count() < rows.height for name in (_LATE_SUBMISSION, _MISSED_DEADLINE)
    }
    if not any(drawn.values()):
        raise InputError(
            "there is no lateness to draw: no task has a recorded submission or a deadline",
            kind="nothing-to-draw",
            remedy="simulate a replay with feedback, or give the tasks deadlines",
        )
    notes = []
    if rows.height > MAX_USERS:
        notes.append(f"the {MAX_USERS} users with most tasks of {rows.height:,}")
        rows = rows[:MAX_USERS]
    figure = create_figure("Lateness of each user")
    names = [escape_label(name) for name in rows["user"].fill_null("user unknown")]
    for name, colour in ((_LATE_SUBMISSION, colours.CURVE), (_MISSED_DEADLINE, colours.SECOND)):
        if drawn[name]:
            figure.add_bar(
                orientation="h", y=names, x=rows[name].to_list(), name=name,
                marker={"color": colour},
                text=[format_count(count, "task") for count in rows["tasks"]], textposition="none",
                hovertemplate="%{y}: %{x:.4g} s, %{text}<extra></extra>",
                meta={"columns": {"x": f"{name} (s)", "y": "user", "text": "tasks"}},
            )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "s"}},
        yaxis={
            "type": "category", "autorange": "reversed", "showgrid": False,
            "tickvals": names, "ticktext": names,
        },
        hovermode="closest",
        height=150 + 24 * rows.height * sum(drawn.values()),
    )  # fmt: skip
    return attach_notes(figure, notes)


def has_noticeable_lateness(trace: Trace) -> bool:
    """Whether users are known and one has a mean lateness of at least `MIN_SHOWN_LATENESS`.

    >>> tasks = pl.DataFrame({"id": ["a"], "user": ["u"], "submit": 2.0, "submit_recorded": 1.99})
    >>> ran = pl.DataFrame({"task": ["a"], "start": 2.0, "end": 3.0})
    >>> has_noticeable_lateness(Trace(tasks=tasks, placements=ran))
    False
    >>> later = tasks.with_columns(submit_recorded=1.0)
    >>> has_noticeable_lateness(Trace(tasks=later, placements=ran))
    True
    """
    if trace.tasks["user"].null_count() == trace.tasks.height:
        return False
    lateness = _summarise_users(trace).select(pl.max_horizontal(_LATE_SUBMISSION, _MISSED_DEADLINE))
    return bool((lateness.to_series() >= MIN_SHOWN_LATENESS).any())


def _summarise_users(trace: Trace) -> pl.DataFrame:
    """Summarise the lateness of each user (s), sorted by falling number of tasks.

    A mean is null if no task of the user has a recorded submission or a deadline.
    """
    tasks = per_task(trace)
    delay = (pl.col("end") - pl.col("deadline")).clip(lower_bound=0.0)
    missed = tasks.group_by("user").agg(delay.mean().alias(_MISSED_DEADLINE))
    late = per_user(trace).select("user", "tasks", pl.col("lateness_mean").alias(_LATE_SUBMISSION))
    return late.join(missed, on="user", how="left", nulls_equal=True).sort(
        ["tasks", "user"], descending=[True, False]
    )
