"""Figures 2 to 5 and 7 to 11 of "Replay with feedback" for the KTH log, drawn from our runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots
from replay_experiments import DAY, EXPERIMENTS, REPLAYS, ReplayRun

Runs = Mapping[tuple[str, str], ReplayRun]

COLOURS = {"rigid": "#3b75af", "a0": "#559e83", "a60": "#dd8047"}
WEEK_HOURS = 7 * 24
#: Monday, 5 January 1970, in seconds of Unix time.
A_MONDAY = 4 * DAY


def days(run: ReplayRun, column: str) -> np.ndarray:
    return run.jobs[column].sort().to_numpy() / DAY


def grid(titles: list[str], rows: int, columns: int, **options: object) -> go.Figure:
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles, **options)
    figure.update_layout(
        height=120 + 210 * rows,
        margin={"l": 60, "r": 20, "t": 60, "b": 50},
        template="plotly_white",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 1, "xanchor": "right"},
    )
    return figure


def lines(name: str, first: bool = True) -> dict:
    """Style of the line of a replay; only the first of several subplots is in the legend."""
    return {"name": name, "line": {"color": COLOURS[name], "width": 1.5}, "showlegend": first}


def submissions(runs: Runs) -> go.Figure:
    """Fig. 2: jobs submitted per day."""
    figure = grid(list(EXPERIMENTS), 3, 2)
    for place, name in enumerate(EXPERIMENTS):
        for replay in ("rigid", "a60"):
            counts = np.bincount((days(runs[name, replay], "submit")).astype(int))
            line = go.Scatter(y=counts, mode="lines", **lines(replay, place == 0))
            figure.add_trace(line, place // 2 + 1, place % 2 + 1)
    return figure.update_xaxes(title="day", row=3)


def cumulative(runs: Runs) -> go.Figure:
    """Fig. 3: cumulative numbers of submitted (left) and finished (right) jobs."""
    titles = [f"{name}, {what}" for name in EXPERIMENTS for what in ("submitted", "finished")]
    figure = grid(titles, 6, 2)
    for row, name in enumerate(EXPERIMENTS, start=1):
        for column, what in enumerate(("submit", "end"), start=1):
            for replay in ("rigid", "a60"):
                at = days(runs[name, replay], what)
                edges = np.arange(0, np.ceil(at[-1]) + 1)
                counts = np.searchsorted(at, edges, side="right")
                style = lines(replay, row == column == 1)
                figure.add_trace(go.Scatter(x=edges, y=counts, mode="lines", **style), row, column)
    return figure.update_xaxes(title="day", row=6)


def per_user(runs: Runs, column: str, unit: str) -> go.Figure:
    figure = grid(list(EXPERIMENTS), 3, 2)
    for place, name in enumerate(EXPERIMENTS):
        users = runs[name, "a60"].users.drop_nulls(column)
        for sign, colour in ((1, COLOURS["a60"]), (-1, COLOURS["rigid"])):
            mine = users.filter(pl.col(column).sign() == sign)
            dots = go.Scatter(
                x=mine["jobs"],
                y=mine[column].abs(),
                text=mine["user"],
                mode="markers",
                name="later" if sign > 0 else "earlier",
                marker={"color": colour, "size": 5, "opacity": 0.6},
                showlegend=place == 0,
            )
            figure.add_trace(dots, place // 2 + 1, place % 2 + 1)
    figure.update_xaxes(type="log")
    figure.update_xaxes(title="jobs of the user", row=3)
    return figure.update_yaxes(type="log", title=unit, col=1).update_yaxes(type="log", col=2)


def lateness_per_user(runs: Runs) -> go.Figure:
    """Fig. 4: mean lateness per user, a60, on logarithmic scales; sign by colour."""
    return per_user(runs, "lateness", "|days|")


def additional_per_user(runs: Runs) -> go.Figure:
    """Fig. 5: additional lateness per user, a60, on logarithmic scales; sign by colour."""
    return per_user(runs, "additional", "|seconds|")


def differences(runs: Runs) -> go.Figure:
    """Fig. 7: submission in a60 minus rigid (top), in a0 minus a60 (bottom), over the jobs."""
    figure = grid(["a60 - rigid", "a0 - a60"], 2, 1)
    for row, (late, early) in enumerate((("a60", "rigid"), ("a0", "a60")), start=1):
        for name in EXPERIMENTS:
            one, other = (runs[name, replay].jobs.sort("id")["submit"] for replay in (late, early))
            steps = ((one - other) / DAY).quantile(np.linspace(0, 1, 201).tolist())
            box = go.Scatter(x=steps, y=np.linspace(0, 1, 201), name=name, showlegend=row == 1)
            figure.add_trace(box, row, 1)
    figure.update_yaxes(title="share of jobs")
    return figure.update_xaxes(title="days", row=2)


def by_hour_of_week(run: ReplayRun, epoch: float) -> np.ndarray:
    """Jobs submitted in each hour of the week, summed over all weeks; Monday 0:00 is first."""
    hour = (run.jobs["submit"].to_numpy() + epoch - A_MONDAY) // 3600
    return np.bincount(hour.astype(int) % WEEK_HOURS, minlength=WEEK_HOURS)


def weekly(runs: Runs, epoch: float) -> go.Figure:
    """Fig. 8: submissions in each hour of the week, per week of the log."""
    figure = grid([f"EASY, {replay}" for replay in REPLAYS], 3, 1, shared_xaxes=True)
    for row, replay in enumerate(REPLAYS, start=1):
        run = runs["EASY", replay]
        weeks = (run.jobs["submit"].max() - run.jobs["submit"].min()) / (7 * DAY)
        counts = by_hour_of_week(run, epoch) / weeks
        bars = go.Bar(y=counts, marker_color=COLOURS[replay], name=replay, showlegend=False)
        figure.add_trace(bars, row, 1)
    names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    return figure.update_xaxes(tickvals=[24 * day for day in range(7)], ticktext=names)


def windows(runs: Runs) -> go.Figure:
    """Fig. 9: jobs ended per day (left) and busy nodes (right), windows of 4, 6 and 8 months."""
    titles = [f"{what}, {m} months" for m in (4, 6, 8) for what in ("jobs per day", "busy nodes")]
    figure = grid(titles, 3, 2)
    for row, months in enumerate((4, 6, 8), start=1):
        for replay in REPLAYS:
            found = [runs[name, replay].window(months) for name in EXPERIMENTS]
            for column in (1, 2):
                bars = go.Bar(
                    x=list(EXPERIMENTS),
                    y=[pair[column - 1] for pair in found],
                    name=replay,
                    marker_color=COLOURS[replay],
                    showlegend=row == column == 1,
                )
                figure.add_trace(bars, row, column)
    return figure


def arrivals(runs: Runs) -> go.Figure:
    """Fig. 10: the first submission of every user."""
    first = runs["EASY", "rigid"].jobs.group_by("user").agg(pl.col("submit").min())
    figure = grid(["first submission of each user"], 1, 1)
    marks = {"symbol": "line-ns", "size": 40, "line": {"width": 1, "color": COLOURS["rigid"]}}
    figure.add_trace(
        go.Scatter(
            x=first["submit"] / DAY,
            y=[0] * first.height,
            text=first["user"],
            mode="markers",
            marker=marks,
            showlegend=False,
        )
    )
    submits = days(runs["EASY", "rigid"], "submit")
    for end in (submits[0], submits[-1]):
        figure.add_vline(x=end, line_color="#b5332c")
    return figure.update_xaxes(title="day").update_yaxes(visible=False)


def growth(found: Mapping[str, Mapping[int, float]]) -> go.Figure:
    """Fig. 11: additional lateness of the first n jobs alone, a60."""
    figure = grid(["additional lateness of the first jobs"], 1, 1)
    for name, points in found.items():
        line = go.Scatter(x=list(points), y=list(points.values()), name=name, mode="lines+markers")
        figure.add_trace(line)
    return figure.update_xaxes(title="jobs").update_yaxes(title="s")


FIGURES: dict[str, Callable[[Runs], go.Figure]] = {
    "2": submissions,
    "3": cumulative,
    "4": lateness_per_user,
    "5": additional_per_user,
    "7": differences,
    "9": windows,
    "10": arrivals,
}
