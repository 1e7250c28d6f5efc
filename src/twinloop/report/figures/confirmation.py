"""Figures of a confirmation: predicted and measured results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.kpi_text import label_kpi, name_kpi, scale_value
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.exploration.confirmation.result import Confirmation

_BETTER, _WORSE = "better, as predicted", "worse, as predicted"
#: Labels of the verdicts that do not depend on the direction of the objective.
_LABELS: Final = {"reversed": "opposite to the prediction", "tie": "no significant difference"}
_COLOURS: Final = {
    _BETTER: colours.USED,
    _WORSE: colours.GROUPS[6],
    "opposite to the prediction": colours.GROUPS[3],
    "no significant difference": colours.SECOND,
}


def plot_differences(confirmation: Confirmation, metric: str | None = None) -> Figure:
    """Plot the measured difference of each candidate to the baseline, and the predicted one.

    A bar is the 90 % interval of the mean paired difference; the open diamond is the prediction.

    Args:
        confirmation: The measured runs.
        metric: The KPI; by default the KPI of the recommendation.

    >>> from twinloop.report.examples import make_confirmation
    >>> figure = plot_differences(make_confirmation())
    >>> [(each.name, [round(x, 6) for x in each.x]) for each in figure.data if each.name != "zero"]
    [('measured: better, as predicted', [-0.85]), ('predicted', [-1.0])]
    """
    metric = confirmation.by if metric is None else metric
    baseline = confirmation.baseline.name
    rows = confirmation.pairs.filter(
        (pl.col("metric") == metric) & (pl.col("other") == baseline)
    ).with_row_index("place")
    measured = rows.drop_nulls("real")
    if not measured.height:
        raise InputError(
            f"there are no differences to draw: {name_kpi(metric)} was not measured",
            kind="nothing-to-draw",
        )
    columns = ("predicted", "real", "low", "high")
    rows, measured = (
        each.with_columns(scale_value(metric, pl.col(name)) for name in columns)
        for each in (rows, measured)
    )
    figure = create_figure(f"Difference to the baseline: {name_kpi(metric)}")
    figure.add_scatter(
        x=[0.0, 0.0], y=[-0.6, rows.height - 0.4], mode="lines", name="zero", showlegend=False,
        line={"color": colours.LIMIT, "dash": "dot", "width": 1.5}, hoverinfo="skip",
        meta={"aside": True},
    )  # fmt: skip
    lower = next((each.lower for each in confirmation.objectives if each.kpi == metric), True)
    labels = pl.Series(
        [_label_verdict(row["verdict"], row["real"], lower) for row in measured.rows(named=True)]
    )
    for label in labels.unique(maintain_order=True):
        _add_measured(figure, measured.filter(labels == label), label, metric)
    predicted = rows.drop_nulls("predicted")
    figure.add_scatter(
        x=predicted["predicted"].to_list(), y=predicted["place"].to_list(), mode="markers",
        name="predicted", marker={"symbol": "diamond-open", "size": 12, "color": colours.LIMIT,
                                  "line": {"width": 2}},
        hovertemplate="predicted %{x:+.4~g}<extra></extra>",
        meta={"columns": _name_columns(metric)},
    )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": f"{label_kpi(metric)}, difference to {escape_label(baseline)}"}},
        yaxis={
            "tickvals": rows["place"].to_list(),
            "ticktext": [escape_label(name) for name in rows["one"]],
            "range": [rows.height - 0.4, -0.6], "showgrid": False, "zeroline": False,
        },
        hovermode="closest",
        height=190 + 46 * rows.height,
    )  # fmt: skip
    notes = ["bars are 90 % intervals of the mean difference over the repetitions"]
    if missing := rows.height - measured.height:
        notes.append(f"not measured: {format_count(missing, 'candidate')}")
    return attach_notes(figure, notes)


def _label_verdict(verdict: str, real: float, lower: bool) -> str:
    """Label a verdict; a confirmed difference can be an improvement or a deterioration."""
    if verdict == "holds":
        return _BETTER if (real < 0) == lower else _WORSE
    return _LABELS.get(verdict, verdict)


def _name_columns(metric: str) -> dict[str, Any]:
    return {
        "x": f"difference to the baseline in {label_kpi(metric)}",
        "y": "candidate",
        "error_x": "90 % interval",
        "customdata": ["interval from", "interval to"],
    }


def _add_measured(figure: Figure, rows: pl.DataFrame, label: str, metric: str) -> None:
    real = rows["real"]
    error_bars = None
    if rows["low"].null_count() < rows.height:
        error_bars = {
            "type": "data", "symmetric": False, "thickness": 6, "width": 0,
            "array": (rows["high"].fill_null(real) - real).to_list(),
            "arrayminus": (real - rows["low"].fill_null(real)).to_list(),
        }  # fmt: skip
    figure.add_scatter(
        x=real.to_list(), y=rows["place"].to_list(), mode="markers", name=f"measured: {label}",
        marker={"size": 11, "color": _COLOURS.get(label, colours.OTHERS)}, error_x=error_bars,
        customdata=rows.select("low", "high").rows(),
        hovertemplate="measured %{x:+.4~g}, from %{customdata[0]:+.4~g} to "
                      "%{customdata[1]:+.4~g}<extra></extra>",
        meta={"columns": _name_columns(metric)},
    )  # fmt: skip


def plot_ranks(confirmation: Confirmation, metric: str | None = None) -> Figure:
    """Plot the predicted rank of each configuration on the left, the measured one on the right.

    >>> from twinloop.report.examples import make_confirmation
    >>> [(line.name, list(line.y)) for line in plot_ranks(make_confirmation()).data]
    [('easy', [1.0, 1.0]), ('fifo (baseline)', [2.0, 2.0])]
    """
    metric = confirmation.by if metric is None else metric
    rows = confirmation.table.filter(pl.col("metric") == metric)
    rows = rows.drop_nulls(["predicted_rank", "real_rank"])
    if not rows.height:
        raise InputError(
            f"there are no ranks to draw: {name_kpi(metric)} was not measured",
            kind="nothing-to-draw",
        )
    figure = create_figure(f"Predicted and measured ranking by {name_kpi(metric)}")
    for index, row in enumerate(rows.rows(named=True)):
        name = f"{row['candidate']} (baseline)" if row["baseline"] else row["candidate"]
        colour = colours.LIMIT if row["baseline"] else colours.GROUPS[index % len(colours.GROUPS)]
        figure.add_scatter(
            x=["predicted", "real"], y=[row["predicted_rank"], row["real_rank"]],
            name=escape_label(name), mode="lines+markers",
            line={"color": colour, "width": 3}, marker={"size": 12},
            customdata=[[scale_value(metric, row[which])] for which in ("predicted", "real")],
            hovertemplate=f"%{{x}}: {label_kpi(metric)} %{{customdata[0]:.4~g}}",
            meta={"columns": {"x": "which", "y": "rank", "customdata": [label_kpi(metric)]}},
        )  # fmt: skip
    last_rank = float(np.nanmax(rows.select("predicted_rank", "real_rank").to_numpy()))
    figure.update_layout(
        xaxis={"type": "category", "showgrid": False, "range": [-0.3, 1.3]},
        yaxis={
            "title": {"text": "rank, 1 is best"}, "dtick": 1, "range": [last_rank + 0.5, 0.5],
            "zeroline": False,
        },
        hovermode="closest",
        height=210 + 44 * rows.height,
    )  # fmt: skip
    rank_row = confirmation.ranks.filter(pl.col("metric") == metric)
    notes = []
    if rank_row.height and (tau := rank_row["tau"][0]) is not None:
        notes.append(f"Kendall's tau {tau:.2g}: 1 is the same order, -1 the reverse order")
    return attach_notes(figure, notes)


def plot_course(confirmation: Confirmation, metric: str | None = None) -> Figure:
    """Plot the result of each run in the order of execution.

    >>> from twinloop.report.examples import make_confirmation
    >>> [(each.name, list(each.x)) for each in plot_course(make_confirmation()).data]
    [('easy', [1, 4]), ('fifo (baseline)', [2, 3])]
    """
    metric = confirmation.by if metric is None else metric
    runs = confirmation.runs
    if metric not in runs.columns or not runs[metric].count():
        raise InputError(
            f"there are no runs to draw: {name_kpi(metric)} was not measured",
            kind="nothing-to-draw",
        )
    measured = runs.drop_nulls(metric).sort("order")
    figure = create_figure(f"Runs in order of execution: {name_kpi(metric)}")
    names = [each.name for each in confirmation.candidates] + [confirmation.baseline.name]
    for index, name in enumerate(names):
        rows = measured.filter(pl.col("candidate") == name)
        is_baseline = name == confirmation.baseline.name
        label = f"{name} (baseline)" if is_baseline else name
        colour = colours.LIMIT if is_baseline else colours.GROUPS[index % len(colours.GROUPS)]
        figure.add_scatter(
            x=rows["order"].to_list(), y=scale_value(metric, rows[metric]).to_list(),
            mode="lines+markers", name=escape_label(label),
            line={"color": colour, "width": 1, "dash": "dot"},
            marker={"size": 10}, customdata=[[each] for each in rows["repetition"]],
            hovertemplate="run %{x}, repetition %{customdata[0]}: %{y:.4~g}",
            meta={"columns": {"y": label_kpi(metric), "customdata": ["repetition"]}},
        )  # fmt: skip
    figure.update_layout(
        xaxis={"title": {"text": "run"}, "dtick": 1 if runs.height <= 20 else None},
        yaxis={"title": {"text": label_kpi(metric)}},
        hovermode="closest",
    )
    failed = runs.height - measured.height
    notes = [f"not drawn: {format_count(failed, 'failed run')}"] if failed else []
    return attach_notes(figure, notes)
