"""Figures of a study over real executions: errors of simulations with several injected sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.exploration.executions.observations import COMPARED, INTERVAL
from twinloop.exploration.executions.tables import ALL_CELLS
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.exploration.executions.study import ExecutionStudy

#: Errors below this are drawn there on logarithmic axes.
MIN_DRAWN_ERROR: Final = 1e-4


def plot_execution_errors(study: ExecutionStudy) -> dict[str, Figure]:
    """Plot the figures of all metrics of a study, by name; figures without data are left out.

    For each metric: `frequencies`, `cells`, `distributions`, `changes` and `comparison`.
    """
    draw: dict[str, Callable[[ExecutionStudy, str], Figure]] = {
        "frequencies": plot_error_frequencies,
        "cells": plot_cell_frequencies,
        "distributions": plot_error_distributions,
        "changes": plot_error_changes,
        "comparison": plot_simulated_over_measured,
    }
    figures = {}
    for metric in study.metrics:
        for name, function in draw.items():
            try:
                figures[f"{name}-{metric}"] = function(study, metric)
            except InputError:
                continue
    return figures


def plot_error_frequencies(study: ExecutionStudy, metric: str = "makespan") -> Figure:
    """Plot the share of executions in each interval of the error, for each set.

    Every cell has the same weight, whatever its number of executions.
    """
    bins = study.histogram.filter((pl.col("metric") == metric) & (pl.col("cell") == ALL_CELLS))
    _require_data(bins, metric)
    figure = create_figure(f"Frequencies of errors: {metric}")
    for rows, name, colour in _list_sets(study, bins):
        _add_bars(figure, rows, name, colour)
    _label_frequencies(figure, metric)
    return attach_notes(figure, ["each cell of labels has the same weight"])


def plot_cell_frequencies(study: ExecutionStudy, metric: str = "makespan") -> Figure:
    """Plot the share of executions in each interval of the error, by cell of the first set."""
    first = study.sets[0]
    bins = study.histogram.filter(
        (pl.col("metric") == metric) & (pl.col("set") == first.name) & (pl.col("cell") != ALL_CELLS)
    )
    _require_data(bins, metric)
    figure = create_figure(f"Frequencies of errors by cell: {metric}, {first.name} ({first.mode})")
    for index, ((cell,), rows) in enumerate(bins.group_by("cell", maintain_order=True)):
        colour = colours.GROUPS[index % len(colours.GROUPS)]
        _add_bars(figure, rows, escape_label(str(cell)), colour)
    _label_frequencies(figure, metric)
    return figure


def _add_bars(figure: Figure, bins: pl.DataFrame, name: str, colour: Any) -> None:
    """Add the bars of a histogram."""
    labels = [_label_bin(row["from"], row["to"]) for row in bins.iter_rows(named=True)]
    figure.add_bar(
        x=labels, y=bins["share"].to_list(), name=name, marker={"color": colour},
        customdata=bins.select("executions").rows(),
        hovertemplate="%{x}: %{y:.1%}, %{customdata[0]} executions<extra></extra>",
        meta={"columns": {"x": "absolute error", "y": "weighted share",
                          "customdata": ["executions"]}},
    )  # fmt: skip


def _label_frequencies(figure: Figure, metric: str) -> None:
    figure.update_layout(
        barmode="group",
        xaxis={"title": {"text": f"absolute error of the {metric}"}, "type": "category"},
        yaxis={"title": {"text": "share of executions"}, "tickformat": ".0%"},
        hovermode="closest",
    )


def plot_error_distributions(study: ExecutionStudy, metric: str = "makespan") -> Figure:
    """Plot the cumulative distribution of the error over the executions, for each set."""
    errors = study.execution_errors.filter(pl.col("metric") == metric)
    _require_data(errors, metric)
    figure = create_figure(f"Distribution of errors: {metric}")
    for rows, name, colour in _list_sets(study, errors):
        ordered = rows.sort("error", "execution")
        error = ordered["error"].to_numpy()
        figure.add_scatter(
            x=np.maximum(error, MIN_DRAWN_ERROR), y=_rank(error), mode="lines", line_shape="hv",
            line={"color": colour}, name=name,
            text=[escape_label(each) for each in ordered["execution"]],
            customdata=ordered.select("error").rows(),
            hovertemplate="%{y:.1%} have at most %{customdata[0]:.4f} (%{text})<extra></extra>",
            meta={"columns": {"x": "drawn error", "y": "share of executions",
                              "text": "execution", "customdata": ["absolute error"]}},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": f"absolute error of the {metric}"}, "type": "log"},
        yaxis={"title": {"text": "share of executions"}, "tickformat": ".0%"},
        hovermode="closest",
    )
    return attach_notes(figure, [f"errors below {MIN_DRAWN_ERROR:g} are drawn there"])


def plot_error_changes(study: ExecutionStudy, metric: str = "makespan") -> Figure:
    """Plot the distribution of the change of the error per execution, against the first set."""
    errors = study.execution_errors.filter(pl.col("metric") == metric)
    first = study.sets[0].name
    reference = errors.filter(pl.col("set") == first).select("execution", first="error")
    changes = errors.filter(pl.col("set") != first).join(reference, on="execution")
    _require_data(changes, metric)
    figure = create_figure(f"Change of the error against {first}: {metric}")
    for rows, name, colour in _list_sets(study, changes):
        ordered = rows.with_columns(change=pl.col("error") - pl.col("first"))
        ordered = ordered.sort("change", "execution")
        change = ordered["change"].to_numpy()
        figure.add_scatter(
            x=change, y=_rank(change), mode="lines", line_shape="hv", line={"color": colour},
            name=name, text=[escape_label(each) for each in ordered["execution"]],
            hovertemplate="%{y:.1%} change by at most %{x:+.4f} (%{text})<extra></extra>",
            meta={"columns": {"x": "change of the error", "y": "share of executions",
                              "text": "execution"}},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": f"change of the absolute error of the {metric}"}},
        yaxis={"title": {"text": "share of executions"}, "tickformat": ".0%"},
        hovermode="closest",
    )
    return attach_notes(figure, ["over the executions with an error in both sets"])


def plot_simulated_over_measured(study: ExecutionStudy, metric: str = "makespan") -> Figure:
    """Plot the simulated value of each execution over the measured one, for each set.

    Sets with models that are fitted to other executions have bars: the 90 % intervals.
    """
    if metric not in COMPARED:
        raise InputError(f"there is no measured {metric} to draw", kind="nothing-to-draw")
    column = COMPARED[metric]
    label = f"{metric} (s)" if column.endswith("_s") else metric
    points = study.runs.drop_nulls([column, f"measured_{column}"])
    _require_data(points, metric)
    figure = create_figure(f"Simulated over measured: {metric}")
    measured = points[f"measured_{column}"]
    ends = [measured.min(), measured.max()]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", name="equal", hoverinfo="skip", meta={"aside": True},
        line={"color": colours.LIMIT, "dash": "dot", "width": 1.5},
    )  # fmt: skip
    for rows, name, colour in _list_sets(study, points):
        figure.add_scatter(
            x=rows[f"measured_{column}"].to_list(), y=rows[column].to_list(), mode="markers",
            name=name, marker={"color": colour, "size": 6, "opacity": 0.7},
            error_y=_make_bars(rows, column),
            text=[escape_label(each) for each in rows["execution"]],
            hovertemplate="%{text}<br>measured %{x:.5g}, simulated %{y:.5g}<extra></extra>",
            meta={"columns": {"x": f"measured {label}", "y": f"simulated {label}",
                              "text": "execution"}},
        )  # fmt: skip
    kind = "linear" if metric == "usage" else "log"
    figure.update_layout(
        xaxis={"title": {"text": f"measured {label}"}, "type": kind},
        yaxis={"title": {"text": f"simulated {label}"}, "type": kind},
        hovermode="closest",
    )
    return figure


def _make_bars(rows: pl.DataFrame, column: str) -> dict[str, Any] | None:
    """Make the bars from the ends of the intervals of a value; None without intervals."""
    names = [f"{column}{end}" for end in INTERVAL]
    if not set(names) <= set(rows.columns) or rows[names[0]].null_count() == rows.height:
        return None
    low, high = (rows[name].fill_null(rows[column]) for name in names)
    return {
        "type": "data",
        "symmetric": False,
        "array": (high - rows[column]).to_list(),
        "arrayminus": (rows[column] - low).to_list(),
        "thickness": 0.8,
        "width": 0,
    }


def _list_sets(
    study: ExecutionStudy, rows: pl.DataFrame
) -> Iterator[tuple[pl.DataFrame, str, Any]]:
    """Yield the rows of each set, its label with the mode, and its colour."""
    for index, each in enumerate(study.sets):
        own = rows.filter(pl.col("set") == each.name)
        if own.height:
            label = escape_label(f"{each.name} ({each.mode})")
            yield own, label, colours.GROUPS[index % len(colours.GROUPS)]


def _rank(ordered: Any) -> Any:
    """Return the cumulative share at each of the ordered values."""
    return np.arange(1, len(ordered) + 1) / len(ordered)


def _label_bin(low: float, high: float | None) -> str:
    return f"{low:g} or more" if high is None else f"{low:g} to {high:g}"


def _require_data(rows: pl.DataFrame, metric: str) -> None:
    """Raise an error if there are no rows."""
    if not rows.height:
        raise InputError(
            f"there are no errors to draw: the {metric} of no execution was measured",
            kind="nothing-to-draw",
            remedy="name a table of measured results: measured: results.csv",
        )
