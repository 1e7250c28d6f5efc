"""Scatter plot of two objectives: a point per configuration, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.exploration.study.intervals import PREDICTION_LEVEL
from twinloop.report.figures import colours
from twinloop.report.figures.configuration_labels import (
    add_labels,
    format_level,
    label_configuration,
)
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.objective_axis import POSITIONS, ObjectiveAxis
from twinloop.report.kpi_text import MONEY, label_kpi, name_kpi, scale_value
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from twinloop.exploration.ranking.objectives import Objective
    from twinloop.exploration.study.study import Study

#: Maximum number of points that are drawn, in addition to the front.
MAX_POINTS: Final = 4000
#: Maximum number of points with error bars; more have none.
MAX_ERROR_BARS: Final = 60

_DEVIATION: Final = "standard deviation"
_X, _Y = POSITIONS
_SYMBOLS: Final = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "pentagon")


def choose_two_objectives(
    study: Study, objectives: Sequence[str | Objective]
) -> tuple[Objective, Objective]:
    """Return the given objectives, or those of the study; an error if there are not two."""
    from twinloop.exploration.ranking.objectives import Objective

    chosen = [Objective.of(each) for each in objectives or study.objectives]
    if len(chosen) != 2:
        raise InputError(
            f"{len(chosen)} objectives cannot be drawn",
            kind="wrong-count",
            field="objectives",
            remedy="give two objectives",
        )
    return chosen[0], chosen[1]


def plot_pareto(study: Study, *objectives: str | Objective) -> Figure:
    """Plot a point per configuration over two objectives, and the Pareto front.

    The first factor sets the colour of a point, the second its symbol; the hover text has all
    KPIs. By default the objectives are those of `Study.objectives`: the KPI of the study, and the
    energy per task or, if it is unknown, the wait.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> figure = plot_pareto(study)
    >>> [(points.name, list(points.x)) for points in figure.data if points.name == "easy"]
    [('easy', [50.0])]
    """
    one, other = choose_two_objectives(study, objectives)
    best = _scale_table(study.pareto(one, other), study)
    table = _add_intervals(study.configurations, study, (one.kpi, other.kpi))
    table = _scale_table(table, study).drop_nulls([one.kpi, other.kpi])
    if not table.height:
        raise InputError(
            "there is no Pareto front to draw: no configuration has both objectives",
            kind="nothing-to-draw",
        )
    table = table.with_columns(
        front=pl.col("configuration").is_in(best["configuration"].implode()),
        fewer=pl.col("configuration").is_in(study.fewer_tasks),
    )
    bars = _name_error_bars(table, one.kpi, other.kpi)
    axes = tuple(_make_axis(each, table, bars) for each in (one, other))
    table, best = (_add_positions(each, axes) for each in (table, best))
    notes = []
    if table.height > MAX_POINTS:
        notes.append(
            f"the front and {MAX_POINTS:,} of {table.height:,} configurations, sampled at equal "
            "steps"
        )
        rest = table.filter(~pl.col("front"))
        picked = np.linspace(0, rest.height - 1, MAX_POINTS).round().astype(int)
        table = pl.concat([rest[np.unique(picked).tolist()], table.filter("front")])
    figure = create_figure("Trade-off and Pareto front")
    _add_front(figure, best, axes)
    _add_points(figure, study, table, axes, bars)
    _add_baseline(figure, study, axes)
    _add_recommendation(figure, study, table, axes)
    add_labels(figure, study.factors, table, axes)
    figure.update_layout(
        xaxis={"title": {"text": axes[0].title}, "type": axes[0].kind},
        yaxis={"title": {"text": axes[1].title}, "type": axes[1].kind},
        hovermode="closest",
    )
    notes.insert(0, f"{format_count(best.height, 'configuration')} on the front: none is better in "
                    "one without being worse in the other")  # fmt: skip
    if bars:
        notes.append(f"bars are {bars}s over the seeds")
    if table["fewer"].any():
        notes.append("open: fewer tasks complete than in other configurations")
    return attach_notes(figure, notes)


def _scale_table(table: pl.DataFrame, study: Study) -> pl.DataFrame:
    """Convert a table of configurations to the units of the labels."""
    names = [
        (kpi, name)
        for kpi in study.kpis
        for name in (kpi, f"{kpi}_sd", f"{kpi}_low", f"{kpi}_high")
        if name in table.columns
    ]
    return table.with_columns(scale_value(kpi, pl.col(name)).alias(name) for kpi, name in names)


def _add_intervals(table: pl.DataFrame, study: Study, kpis: Sequence[str]) -> pl.DataFrame:
    """Add the limits of the prediction intervals of KPIs to a table of configurations."""
    intervals = study.intervals(*kpis)
    for kpi in kpis:
        limits = intervals.filter(kpi=kpi).select(
            "configuration",
            pl.col("low").alias(f"{kpi}_low"),
            pl.col("high").alias(f"{kpi}_high"),
        )
        table = table.join(limits, on="configuration", how="left", maintain_order="left")
    return table


def _make_axis(objective: Objective, table: pl.DataFrame, bars: str | None) -> ObjectiveAxis:
    """Make the axis that contains all values of an objective with their bars."""
    kpi = objective.kpi
    ends = [table[kpi]]
    if bars == _DEVIATION:
        spread = table[f"{kpi}_sd"].fill_null(0.0)
        ends += [table[kpi] - spread, table[kpi] + spread]
    elif bars:
        ends += [table[f"{kpi}_low"], table[f"{kpi}_high"]]
    values = pl.concat([each.cast(pl.Float64).alias(kpi) for each in ends]).drop_nulls()
    return ObjectiveAxis.of(objective, float(values.min()), float(values.max()))  # type: ignore[arg-type]


def _add_positions(table: pl.DataFrame, axes: Sequence[ObjectiveAxis]) -> pl.DataFrame:
    """Add the values of the objectives, and of their bars, in the units of the axes."""
    return table.with_columns(
        (pl.col(f"{axis.objective.kpi}{end}") / axis.divisor).alias(f"{name}{end}")
        for name, axis in zip((_X, _Y), axes, strict=True)
        for end in ("", "_sd", "_low", "_high")
        if f"{axis.objective.kpi}{end}" in table.columns
    )


def _add_front(figure: Figure, best: pl.DataFrame, axes: Sequence[ObjectiveAxis]) -> None:
    both_lower = all(axis.objective.lower for axis in axes)
    figure.add_scatter(
        x=best[_X].to_list(), y=best[_Y].to_list(),
        name="Pareto front", mode="lines", hoverinfo="skip", meta={"aside": True},
        line={"color": colours.LIMIT, "dash": "dot", "width": 1.5,
              "shape": "hv" if both_lower else "linear"},
    )  # fmt: skip


def _add_points(
    figure: Figure,
    study: Study,
    table: pl.DataFrame,
    axes: Sequence[ObjectiveAxis],
    bars: str | None,
) -> None:
    """Add the points with error bars."""
    factors = study.factors
    by = factors[0] if factors else None
    groups = _split_groups(table, by)
    symbols = _assign_symbols(table, factors[1]) if len(factors) > 1 else {}
    columns = [*factors, *study.kpis, "front", "fewer"]
    x, y = (axis.label for axis in axes)
    common = {
        "hovertemplate": "<b>%{text}</b><br>"
        + "<br>".join(
            f"{escape_label(label_kpi(kpi))} "
            f"%{{customdata[{len(factors) + index}]:{',.2f' if kpi in MONEY else '.4~g'}}}"
            for index, kpi in enumerate(study.kpis)
        )
        + "<extra></extra>",
        "meta": {
            "columns": {
                "x": x, "y": y, "text": "configuration",
                "error_x": f"{bars} of {x}", "error_y": f"{bars} of {y}",
                "customdata": [
                    *map(escape_label, factors), *(f"{label_kpi(kpi)}, mean" for kpi in study.kpis),
                    "on the front", "fewer tasks",
                ],
            }
        },
    }  # fmt: skip
    for index, (name, rows) in enumerate(groups.items()):
        colour = colours.GROUPS[index] if index < len(colours.GROUPS) else colours.OTHERS
        marker: dict[str, Any] = {"color": colour, "opacity": 0.85}
        marker["size"] = np.where(rows["front"].to_numpy(), 13, 9).tolist()
        shapes = [_SYMBOLS[0]] * rows.height
        if symbols:
            shapes = [symbols[format_level(value)] for value in rows[factors[1]]]
        marker["symbol"] = [
            f"{shape}-open" if fewer else shape
            for shape, fewer in zip(shapes, rows["fewer"], strict=True)
        ]
        error_bars = _make_error_bars(rows) if bars else {}
        figure.add_scatter(
            x=rows[_X].to_list(), y=rows[_Y].to_list(), name=escape_label(name), mode="markers",
            marker=marker, text=[escape_label(each) for each in rows["name"]],
            customdata=[
                [_shorten_value(value) for value in row] for row in rows.select(columns).rows()
            ],
            **error_bars, **common,
        )  # fmt: skip
    for value, symbol in symbols.items():
        figure.add_scatter(
            x=[None], y=[None], mode="markers", name=escape_label(f"{factors[1]}: {value}"),
            marker={"symbol": symbol, "color": colours.OTHERS, "size": 8}, hoverinfo="skip",
        )  # fmt: skip


def _split_groups(table: pl.DataFrame, by: str | None) -> dict[str, pl.DataFrame]:
    """Split the rows by the level of a factor; many numbers are grouped by quartile."""
    if by is None:
        return {"configurations": table}
    column = table[by]
    if column.dtype.is_numeric() and column.n_unique() > len(colours.GROUPS):
        edges = np.quantile(column.drop_nulls().to_numpy(), np.linspace(0.0, 1.0, 5))
        quarters = np.searchsorted(edges[1:-1], column.fill_null(math.nan).to_numpy(), side="right")
        labels = pl.Series(
            [f"{by} {edges[quarter]:.3g} to {edges[quarter + 1]:.3g}" for quarter in quarters]
        )
    else:
        labels = pl.Series([format_level(value) for value in column])
    names = labels.unique(maintain_order=True).to_list()
    groups = {name: table.filter(labels == name) for name in names[: len(colours.GROUPS)]}
    if len(names) > len(colours.GROUPS):
        rest = names[len(colours.GROUPS) :]
        groups[f"others ({len(rest)})"] = table.filter(labels.is_in(rest))
    return groups


def _assign_symbols(table: pl.DataFrame, factor: str) -> dict[str, str]:
    """Assign a symbol to each level; none if there are more levels than symbols."""
    levels = [format_level(value) for value in table[factor].unique(maintain_order=True)]
    return dict(zip(levels, _SYMBOLS, strict=False)) if len(levels) <= len(_SYMBOLS) else {}


def _name_error_bars(table: pl.DataFrame, one: str, other: str) -> str | None:
    """Name what the error bars are: intervals if all points have one; None without bars."""
    if table.height > MAX_ERROR_BARS:
        return None
    if not table.select(f"{one}_low", f"{other}_low").null_count().sum_horizontal().item():
        return f"{100 * PREDICTION_LEVEL:g} % prediction interval"
    has_spread = any(table[f"{kpi}_sd"].max() for kpi in (one, other))
    return _DEVIATION if has_spread else None


def _make_error_bars(rows: pl.DataFrame) -> dict[str, Any]:
    error_bars: dict[str, Any] = {}
    for axis, position in (("error_x", _X), ("error_y", _Y)):
        common = {"type": "data", "thickness": 0.7, "width": 3}
        spread, low, high = (rows[f"{position}_{name}"] for name in ("sd", "low", "high"))
        if not low.null_count():
            # The interval may not contain the mean, if a single run is far from the others.
            error_bars[axis] = common | {
                "symmetric": False,
                "array": (high - rows[position]).clip(0.0).to_list(),
                "arrayminus": (rows[position] - low).clip(0.0).to_list(),
            }
        elif spread.null_count() < rows.height and spread.max():
            error_bars[axis] = common | {"array": spread.fill_null(0.0).to_list()}
    return error_bars


def _add_baseline(figure: Figure, study: Study, axes: Sequence[ObjectiveAxis]) -> None:
    base = study.baseline
    kpis = [axis.objective.kpi for axis in axes]
    if all(kpi in base.predicted for kpi in kpis):
        x, y = (
            scale_value(kpi, base.predicted[kpi]) / axis.divisor
            for kpi, axis in zip(kpis, axes, strict=True)
        )
        figure.add_scatter(
            x=[x], y=[y],
            mode="markers",
            name="baseline: the unchanged scenario",
            text=[escape_label(base.name)], hovertemplate="<b>baseline</b>: %{text}<extra></extra>",
            marker={"symbol": "circle-open", "size": 17, "color": colours.LIMIT,
                    "line": {"width": 2}},
            meta={"columns": {"x": axes[0].label, "y": axes[1].label, "text": "configuration"}},
        )  # fmt: skip


def _add_recommendation(
    figure: Figure, study: Study, table: pl.DataFrame, axes: Sequence[ObjectiveAxis]
) -> None:
    """Mark the configuration that the study ranks first, by its first objective."""
    from twinloop.exploration.ranking.objectives import Objective

    by = next((kpi for kpi in (*study.objectives, *study.kpis) if kpi in study.kpis), None)
    if by is None:
        return
    first = study.top(1, by)[0].name
    row = table.filter(pl.col("name") == first)
    if row.height:
        label = label_configuration(study.factors, row.row(0, named=True))
        best = f"best by {escape_label(name_kpi(Objective.of(by).kpi))}"
        figure.add_scatter(
            x=row[_X].to_list(), y=row[_Y].to_list(), mode="markers",
            name=f"{best}: {escape_label(label)}",
            text=[escape_label(first)], hovertemplate=f"<b>{best}</b>: %{{text}}<extra></extra>",
            marker={"symbol": "circle-open", "size": 24, "color": colours.GROUPS[3],
                    "line": {"width": 3}},
            meta={"columns": {"x": axes[0].label, "y": axes[1].label, "text": "configuration"}},
        )  # fmt: skip


def _shorten_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return None if value is None else escape_label(str(value))
