"""The acceptable set of a calibration: parameter values around the fit, coloured by their loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.weighted_intervals import Floats
from twinloop.report.calibration_result import CalibrationResult
from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.scales import Scale, format_value
from twinloop.report.quantity_text import format_count, shorten_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Up to this number of parameters there is a panel per pair; more get parallel axes.
PAIRED: Final = 6
#: The most points that are drawn.
POINTS: Final = 500

# From the lowest loss to the highest; visible on white and on black.
_SHADES: Final = ("#2f6db3", "#3fa7a0", "#e3b23c", "#9aa0a6")
_LONGEST: Final = 22
# The common prefix of the contention parameters, left out of labels for lack of space.
_OF_KINDS: Final = "contention.kinds."


def plot_confidence_region(fit: CalibrationResult) -> Figure:
    """Plot evaluated points around the fit, coloured by their loss, with the fitted values marked.

    Points with a loss close to the lowest form the acceptable set. Up to six parameters get a
    panel per pair, where an oblique ridge shows that two parameters compensate each other. More
    parameters get parallel axes, with a line per point.

    >>> from types import SimpleNamespace
    >>> points = pl.DataFrame({"a": [1.0, 2.0], "b": [5.0, 4.0], "loss": [0.3, 0.1]})
    >>> fit = SimpleNamespace(confidence_region=points, values={"a": 2.0, "b": 4.0})
    >>> drawn = plot_confidence_region(fit)
    >>> drawn.data[0].x, drawn.data[0].y
    ((1.0, 2.0), (5.0, 4.0))
    """
    points, notes = _select_points(fit)
    names = [name for name in points.columns if name != "loss"]
    figure = create_figure("Parameter values around the fit, coloured by loss")
    if len(names) > PAIRED:
        _plot_parallel_axes(figure, fit, points, names)
    elif len(names) > 1:
        _plot_pairs(figure, fit, points, names)
    else:
        _plot_one(figure, fit, points, names[0])
    figure.update_layout(
        hovermode="closest",
        showlegend=False,
        coloraxis=_make_colour_axis(points["loss"].to_numpy()),
    )
    mark = "red circles mark" if len(names) > 1 else "the dotted line marks"
    return attach_notes(figure, [f"{mark} the fitted values", *notes])


def explain_confidence_region(fit: CalibrationResult) -> str:
    """Explain how to read the figure, which has one of two forms.

    >>> from types import SimpleNamespace
    >>> explain_confidence_region(SimpleNamespace(values=dict.fromkeys("abcdefg", 1.0)))
    'Each line is an evaluated set of parameter values. ...'
    """
    if len(fit.values) > PAIRED:
        return (
            "Each line is an evaluated set of parameter values. Blue lines form the acceptable "
            "set: their loss is close to that of the fit. Where blue lines lie close together, the "
            "data determine the parameter; where they spread, the data do not."
        )
    return (
        "Each point is an evaluated set of parameter values. Blue points form the acceptable set: "
        "their loss is close to that of the fit. A long ridge of blue points shows parameters that "
        "compensate each other."
    )


def _select_points(fit: CalibrationResult) -> tuple[pl.DataFrame, list[str]]:
    """Select the points to draw, with the best last, and note the points left out."""
    found = fit.confidence_region
    names = [] if found is None else [name for name in found.columns if name in fit.values]
    if found is None or not found.height or not names:
        raise InputError(
            "there is no acceptable set to draw: no points around the fit were evaluated",
            kind="nothing-to-draw",
        )
    loss = pl.col("loss").cast(pl.Float64)
    points = found.select(*names, loss).filter(loss.is_finite()).sort("loss", descending=True)
    if not points.height:
        raise InputError(
            "there is no acceptable set to draw: every evaluation failed", kind="nothing-to-draw"
        )
    notes, what = [], "point" if len(names) <= PAIRED else "line"
    if failed := found.height - points.height:
        notes.append(f"not drawn: {format_count(failed, what)} that failed")
    if points.height > POINTS:
        notes.append(f"{POINTS} of {points.height:,} {what}s, at equal steps from the "
                     "highest loss to the lowest")  # fmt: skip
        points = points[np.linspace(0, points.height - 1, POINTS).round().astype(int).tolist()]
    texts = [
        pl.Series(each.name, [_escape_value(value) for value in each], dtype=pl.String)
        for each in points
        if not each.dtype.is_numeric()
    ]
    return points.with_columns(texts), notes


def _escape_value(value: Any) -> str:
    """Format a categorical value as a label."""
    return escape_label(format_value(value))


def _get_fitted_value(fit: CalibrationResult, points: pl.DataFrame, name: str) -> Any:
    value = fit.values[name]
    return value if points.schema[name].is_numeric() else _escape_value(value)


def _plot_one(figure: Figure, fit: CalibrationResult, points: pl.DataFrame, name: str) -> None:
    figure.add_scatter(**_make_markers(points, [name]), x=points[name].to_list(), y=points["loss"])
    figure.add_vline(
        x=_get_fitted_value(fit, points, name), line={"color": colours.LIMIT, "dash": "dot"}
    )
    figure.update_layout(
        xaxis=_make_axis(points[name], name),
        yaxis={"title": {"text": "loss"}, "type": Scale.of(points["loss"]).kind},
        height=360,
    )


def _plot_pairs(
    figure: Figure, fit: CalibrationResult, points: pl.DataFrame, names: list[str]
) -> None:
    """Plot a panel per pair of parameters; columns share their x axis, rows their y axis."""
    panels = len(names) - 1
    marks = _make_markers(points, names)
    for row in range(panels):
        below = names[row + 1]
        for column in range(row + 1):
            across = names[column]
            place = {"xaxis": f"x{column + 1}", "yaxis": f"y{row + 1}"}
            figure.add_scatter(
                **marks, **place,
                x=points[across].to_list(), y=points[below].to_list(),
            )  # fmt: skip
            figure.add_scatter(
                **_make_fit_marker(), **place, x=[_get_fitted_value(fit, points, across)],
                y=[_get_fitted_value(fit, points, below)],
            )  # fmt: skip
        low, high = 1 - (row + 0.88) / panels, 1 - row / panels
        figure.update_layout(
            {
                f"yaxis{row + 1}": {
                    **_make_axis(points[below], below),
                    "domain": [max(low, 0.0), high],
                    "anchor": "x1",
                },
                f"xaxis{row + 1}": {
                    **_make_axis(points[names[row]], ""),
                    "domain": [row / panels, (row + 0.94) / panels],
                    "anchor": f"y{panels}",
                    "tickangle": 0,
                },
            }
        )
        # Above the column, where the triangle without panels has space for a long name.
        last = row == panels - 1
        figure.add_annotation(
            text=_shorten(names[row]), xref="paper", yref="paper", y=high, yanchor="bottom",
            x=(row + 0.94) / panels if last and row else row / panels,
            xanchor="right" if last and row else "left", showarrow=False, font={"size": 12},
        )  # fmt: skip
    figure.update_layout(height=max(400, 180 + 150 * panels))


def _plot_parallel_axes(
    figure: Figure, fit: CalibrationResult, points: pl.DataFrame, names: list[str]
) -> None:
    """Plot a line per point across all parameters, in one Plotly trace per shade.

    The parameters are rows, because their names fit to the left of a row also on a phone.
    """
    scales = {name: Scale.of(points[name]) for name in names}
    parts = np.column_stack(
        [[scales[name].part(value) for value in points[name]] for name in names]
    )
    shade = _scale_losses(points["loss"].to_numpy())
    steps = np.minimum((shade * 8).astype(int), 7)
    for step in range(7, -1, -1):
        rows = parts[steps == step]
        broken = np.column_stack([rows, np.full(len(rows), np.nan)]).ravel()
        figure.add_scatter(
            y=list(range(len(names) + 1)) * len(rows), x=broken, mode="lines", hoverinfo="skip",
            line={"color": _interpolate_colour((step + 0.5) / 8), "width": 1.2},
            opacity=0.9 - 0.1 * step,
        )  # fmt: skip
    # An empty trace that adds the colour bar.
    figure.add_scatter(**_make_markers(points[:1], names), x=[None], y=[None])
    fitted = [scales[name].part(_get_fitted_value(fit, points, name)) for name in names]
    figure.add_scatter(
        **_make_fit_marker(), y=list(range(len(names))), x=fitted,
        hovertemplate="%{text}<extra></extra>",
        text=[
            f"{escape_label(name)}: {_get_fitted_value(fit, points, name)}"
            for name in names
        ],
    )  # fmt: skip
    figure.update_layout(
        yaxis={
            "tickvals": list(range(len(names))),
            "ticktext": [_shorten(name) for name in names],
            "range": [len(names) - 0.7, -0.3],
            "zeroline": False,
        },
        xaxis={
            "title": {"text": "position in the evaluated range"},
            "range": [-0.02, 1.02],
            "tickformat": ".0%",
        },
        height=200 + 44 * len(names),
    )


def _make_axis(values: pl.Series, name: str) -> dict[str, Any]:
    return {
        "title": {"text": _shorten(name), "font": {"size": 12}},
        "type": Scale.of(values).kind,
        "nticks": 3,
    }


def _shorten(name: str) -> str:
    return escape_label(shorten_name(name.removeprefix(_OF_KINDS), _LONGEST))


def _make_markers(points: pl.DataFrame, names: list[str]) -> dict[str, Any]:
    text = [
        "<br>".join(f"{escape_label(name)}: {format_value(row[name])}" for name in names)
        + f"<br>loss: {format_value(row['loss'])}"
        for row in points.rows(named=True)
    ]
    marker = {
        "color": _transform_losses(points["loss"].to_numpy()),
        "coloraxis": "coloraxis",
        "size": 5,
    }
    return {
        "mode": "markers", "marker": marker, "text": text,
        "hovertemplate": "%{text}<extra></extra>",
    }  # fmt: skip


def _make_fit_marker() -> dict[str, Any]:
    line = {"color": "#e15759", "width": 2}
    return {
        "mode": "markers", "name": "fitted value",
        "marker": {"symbol": "circle-open", "size": 12, "line": line, "color": "#e15759"},
    }  # fmt: skip


def _transform_losses(loss: Floats) -> Floats:
    """Transform losses for colouring: to their logarithm if all are positive."""
    return np.log10(loss) if (loss > 0).all() else loss


def _scale_losses(loss: Floats) -> Floats:
    measure = _transform_losses(loss)
    span = measure.max() - measure.min()
    return (measure - measure.min()) / span if span > 0 else np.zeros(loss.size)


def _interpolate_colour(part: float) -> str:
    """Interpolate the colour at a fraction of the range from the lowest loss to the highest."""
    stops = np.array([[int(shade[at : at + 2], 16) for at in (1, 3, 5)] for shade in _SHADES])
    at = np.linspace(0, 1, len(_SHADES))
    return "rgb({:.0f}, {:.0f}, {:.0f})".format(*(np.interp(part, at, stop) for stop in stops.T))


def _make_colour_axis(loss: Floats) -> dict[str, Any]:
    measure = _transform_losses(loss)
    ticks = np.linspace(measure.min(), measure.max(), 2)  # more overlap on a phone
    back = 10**ticks if (loss > 0).all() else ticks
    return {
        "cmin": float(measure.min()), "cmax": float(measure.max()),
        "colorscale": [[at / (len(_SHADES) - 1), shade] for at, shade in enumerate(_SHADES)],
        "colorbar": {
            "title": {"text": "loss", "side": "top"}, "orientation": "h", "len": 0.4,
            "thickness": 10, "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom",
            "tickangle": 0, "tickvals": ticks.tolist(),
            "ticktext": [f"{value:.3g}" for value in back],
        },
    }  # fmt: skip
