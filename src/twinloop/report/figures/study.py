"""Figures of a study: Pareto front, effects of factors, interactions of factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import unescape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.exploration.study.effects import INACTIVE
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.pareto import plot_pareto
from twinloop.report.kpi_text import get_unit, label_kpi, label_mean, name_kpi, scale_value
from twinloop.report.quantity_text import format_count, format_number, shorten_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.exploration.study.study import Study

#: Maximum number of levels for which the map of interactions has a row or a column per level.
MAX_LEVELS: Final = 30
#: Minimum number of runs of a level with an interval.
MIN_RUNS: Final = 4
#: The label of an inactive factor.
_INACTIVE: Final = {INACTIVE: "not active"}
_NO_RESULTS: Final = "there is nothing to draw: no run of the study has succeeded yet"
# Cells near zero are transparent, for light and dark pages.
_DIVERGING_COLOURS: Final = [
    [0.0, "rgba(47, 109, 179, 1)"],
    [0.5, "rgba(140, 140, 140, 0.08)"],
    [1.0, "rgba(224, 122, 31, 1)"],
]


def plot_study(study: Study) -> dict[str, Figure]:
    """Plot the figures of a study, by name; figures without data are left out.

    `pareto` has a point per configuration, and the Pareto front; `effects` has the main effect of
    each level on the first objective; `interactions` has the interactions of two factors.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10 + i, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"], "platform": ["2x4", "1x8"]})
    >>> list(plot_study(study))
    ['pareto', 'effects', 'interactions']
    """
    return plot_available(study)[0]


def plot_available(study: Study) -> tuple[dict[str, Figure], list[str]]:
    """Plot the figures that have data, and list the reason for each omitted figure."""
    draw: dict[str, Callable[[Study], Figure]] = {
        "pareto": plot_pareto,
        "effects": plot_effects,
        "interactions": plot_interactions,
    }
    if not study.kpis:
        return {}, [_NO_RESULTS]
    figures, missing = {}, []
    for name, function in draw.items():
        try:
            figures[name] = function(study)
        except InputError as error:
            missing.append(error.problem)
    return figures, missing


def plot_effects(study: Study, kpi: str | None = None) -> Figure:
    """Plot the mean of a KPI at each level of each factor, with its 95 % interval.

    Factors are sorted by the share of the variance that they explain.

    Args:
        study: A study with results.
        kpi: The KPI to explain; by default the first objective.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> list(plot_effects(study).data[0].x)
    [100.0, 50.0]
    """
    kpi = _choose_kpi(study) if kpi is None else kpi
    effects = study.effects(kpi).with_columns(
        scale_value(kpi, pl.col(name)) for name in ("mean", "effect", "low", "high")
    )
    shares = dict(effects.select("factor", "share").unique("factor").iter_rows())
    order = sorted(shares, key=lambda name: -(shares[name] or 0.0))
    figure = create_figure(f"Effects of the factors on {name_kpi(kpi)}")
    next_y, ticks, names = 0.0, [], []
    for index, factor in enumerate(order):
        rows = effects.filter(pl.col("factor") == factor)
        y = next_y + np.arange(rows.height)
        next_y = float(y[-1]) + 1.6
        ticks += y.tolist()
        labels = [
            _label_level(factor, level) + (" (fewer tasks)" if fewer else "")
            for level, fewer in rows.select("level", "fewer_tasks").rows()
        ]
        symbols = ["circle-open" if fewer else "circle" for fewer in rows["fewer_tasks"]]
        names += labels
        figure.add_scatter(
            x=rows["mean"].to_list(), y=y, mode="markers",
            name=f"{escape_label(factor)} ({_format_percent(shares[factor])} of the variance)",
            marker={
                "color": colours.GROUPS[index % len(colours.GROUPS)], "size": 9, "symbol": symbols,
            },
            error_x=_make_error_bars(rows), text=_make_hover_texts(rows, labels, kpi),
            customdata=rows.select("runs", "effect", "low", "high").rows(),
            hovertemplate="%{text}<extra></extra>",
            meta={"columns": {
                "x": label_mean(kpi), "y": "level", "error_x": "95 % interval",
                "customdata": ["runs", "effect", "95 % interval from", "95 % interval to"],
            }},
        )  # fmt: skip
    _add_mean(figure, study, kpi, next_y)
    figure.update_layout(
        xaxis={"title": {"text": label_mean(kpi)}},
        yaxis={
            "tickvals": ticks, "ticktext": names, "range": [next_y - 0.8, -0.8], "showgrid": False,
            "zeroline": False,
        },
        hovermode="closest",
        height=170 + round(26 * next_y),
    )  # fmt: skip
    note = "bars are 95 % intervals of the means over all runs with that level"
    without_bar = effects.filter(pl.col("runs") < MIN_RUNS).height
    extra = (
        [f"{format_count(without_bar, 'level')} with fewer than {MIN_RUNS} runs: no bar"]
        if without_bar
        else []
    )
    if effects["fewer_tasks"].any():
        extra.append("open: fewer tasks complete than with another level, so do not compare them")
    return attach_notes(figure, [note, *extra])


def _add_mean(figure: Figure, study: Study, kpi: str, next_y: float) -> None:
    mean = scale_value(kpi, study.runs[kpi].drop_nulls().mean())
    figure.add_scatter(
        x=[mean, mean], y=[-0.8, next_y - 0.8], mode="lines", name="mean of all runs",
        line={"color": colours.LIMIT, "dash": "dot", "width": 1.5}, hoverinfo="skip",
        meta={"aside": True},
    )  # fmt: skip


def _make_error_bars(rows: pl.DataFrame) -> dict[str, Any] | None:
    has_bar = pl.col("runs") >= MIN_RUNS
    limits = rows.with_columns(
        pl.when(has_bar).then(name).otherwise(None).fill_null(pl.col("mean")).alias(name)
        for name in ("low", "high")
    )
    if (limits["low"] == limits["high"]).all():
        return None
    return {
        "type": "data", "symmetric": False, "thickness": 2,
        "array": (limits["high"] - limits["mean"]).to_list(),
        "arrayminus": (limits["mean"] - limits["low"]).to_list(),
    }  # fmt: skip


def _make_hover_texts(rows: pl.DataFrame, labels: Sequence[str], kpi: str) -> list[str]:
    texts = []
    for label, row in zip(labels, rows.rows(named=True), strict=True):
        text = f"<b>{label}</b><br>{label_mean(kpi)} {format_number(row['mean'])}"
        if row["low"] is not None:
            text += f"<br>95 % from {format_number(row['low'])} to {format_number(row['high'])}"
        texts.append(f"{text}<br>{format_count(row['runs'], 'run')}")
    return texts


def plot_interactions(study: Study, kpi: str | None = None) -> Figure:
    """Plot the interactions of pairs of factors as a heat map.

    A cell is the deviation of the mean of the runs with both levels from the sum of the two main
    effects. With more than 30 levels, the map has a row and a column per factor, and a cell is the
    share of the variance that the pair explains.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"], "platform": ["2x4", "1x8"]})
    >>> plot_interactions(study).data[0].z
    ([-25.0, 25.0], [25.0, -25.0])
    """
    kpi = _choose_kpi(study) if kpi is None else kpi
    interactions = study.interactions(kpi)
    interactions = interactions.with_columns(
        scale_value(kpi, pl.col(name)) for name in ("interaction", "mean")
    )
    if not interactions.height:
        why = "the study has fewer than two factors"
        if len(study.factors) > 1:
            why = "no pair of factors varies independently"
        raise InputError(f"there are no interactions to draw: {why}", kind="nothing-to-draw")
    levels = interactions.select("factor", "level").unique().height
    others = interactions.select("other", "other_level").unique().height
    by_level = levels + others <= MAX_LEVELS
    table = (
        interactions if by_level else interactions.unique(["factor", "other"], maintain_order=True)
    )
    column = "interaction" if by_level else "share"
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for row in table.rows(named=True):
        row_label = (
            _label_level(row["factor"], row["level"]) if by_level else escape_label(row["factor"])
        )
        column_label = (
            _label_level(row["other"], row["other_level"])
            if by_level
            else escape_label(row["other"])
        )
        cells[row_label, column_label] = row
    rows, columns = (list(dict.fromkeys(pair[side] for pair in cells)) for side in (0, 1))
    grid = [
        [cells.get((row_label, column_label)) for column_label in columns] for row_label in rows
    ]
    z = [[None if c is None else _round_value(c[column]) for c in line] for line in grid]
    largest = max((abs(c) for line in z for c in line if c is not None), default=0.0) or 1.0
    figure = create_figure(f"Interactions of factors in {name_kpi(kpi)}")
    unit = label_kpi(kpi) if by_level else "share of the variance"
    # The title has the name; on a phone the colour bar has space for the unit alone.
    bar_title = get_unit(kpi) if by_level else "share"
    figure.add_heatmap(
        x=columns, y=rows, z=z, zmin=-largest if by_level else 0.0, zmax=largest,
        colorscale=_DIVERGING_COLOURS, colorbar={"title": {"text": bar_title}}, xgap=2, ygap=2,
        text=[[_format_cell(cell, kpi, by_level=by_level) for cell in line] for line in grid],
        hovertemplate="%{y}, %{x}<br>%{text}<extra></extra>",
        meta={"columns": {"x": "other", "y": "factor", "z": f"{column} ({unit})"}},
    )  # fmt: skip
    figure.update_layout(
        xaxis={
            "type": "category", "showgrid": False, "tickvals": columns,
            "ticktext": [escape_label(shorten_name(unescape(each), 22)) for each in columns],
        },
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        hovermode="closest",
        showlegend=False,
        height=230 + 30 * len(rows),
    )  # fmt: skip
    return attach_notes(figure, [_describe_largest_share(interactions)])


def _describe_largest_share(interactions: pl.DataFrame) -> str:
    pairs = interactions.unique(["factor", "other"]).sort("share", descending=True, nulls_last=True)
    largest = pairs.row(0, named=True)
    return (
        f"largest interaction: {largest['factor']} and {largest['other']}, "
        f"{_format_percent(largest['share'])} of the variance"
    )


def _format_cell(cell: dict[str, Any] | None, kpi: str, *, by_level: bool) -> str:
    if cell is None:
        return "no run"
    if not by_level:
        return f"{_format_percent(cell['share'])} of the variance"
    return (
        f"{_round_value(cell['interaction']):+.3g} beyond the sum of the main effects"
        f"<br>{label_mean(kpi)} {format_number(cell['mean'])}, {format_count(cell['runs'], 'run')}"
    )


def _round_value(value: float) -> float:
    """Round to six significant digits; rounding errors around zero become zero."""
    return 0.0 if abs(value) < 1e-9 else float(f"{value:.6g}")


def _label_level(factor: str, level: str) -> str:
    return escape_label(f"{factor}: {_INACTIVE.get(level, level)}")


def _format_percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2g} %"


def _choose_kpi(study: Study) -> str:
    if not study.kpis:
        raise InputError(_NO_RESULTS, kind="nothing-to-draw")
    objectives = [kpi for kpi in study.objectives if kpi in study.kpis]
    return objectives[0] if objectives else study.kpis[0]
