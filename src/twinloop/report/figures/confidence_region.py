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

#: Maximum number of parameters with a panel per pair; more get parallel axes.
MAX_PAIRED: Final = 6
#: Maximum number of points that are drawn.
MAX_POINTS: Final = 500

# From the lowest loss to the highest; visible on white and on black.
_COLOUR_STOPS: Final = ("#2f6db3", "#3fa7a0", "#e3b23c", "#9aa0a6")
_MAX_LABEL_LENGTH: Final = 22
# The common prefix of the contention parameters, left out of labels to save space.
_CONTENTION_PREFIX: Final = "contention.kinds."


def plot_confidence_region(fit: CalibrationResult) -> Figure:
    """Plot evaluated points around the fit, coloured by their loss, with the fitted values marked.

    Points with a loss close to the lowest form the acceptable set. One parameter gets a panel of
    its loss. Two to six parameters get a panel per pair, where an oblique ridge shows that two
    parameters compensate each other. More parameters get parallel axes, with a line per point.

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
    if len(names) > MAX_PAIRED:
        _plot_parallel_axes(figure, fit, points, names)
    elif len(names) > 1:
        _plot_pairs(figure, fit, points, names)
    else:
        _plot_single_parameter(figure, fit, points, names[0])
    figure.update_layout(
        hovermode="closest",
        showlegend=False,
        coloraxis=_make_colour_axis(points["loss"].to_numpy()),
    )
    marking = "red circles mark" if len(names) > 1 else "the dotted line marks"
    return attach_notes(figure, [f"{marking} the fitted values", *notes])


def explain_confidence_region(fit: CalibrationResult) -> str:
    """Explain how to read the figure; its form depends on the number of parameters.

    >>> from types import SimpleNamespace
    >>> explain_confidence_region(SimpleNamespace(values=dict.fromkeys("abcdefg", 1.0)))
    'Each line is an evaluated set of parameter values. ...'
    >>> explain_confidence_region(SimpleNamespace(values={"a": 1.0}))
    'Each point is an evaluated parameter value. ...'
    """
    if len(fit.values) > MAX_PAIRED:
        return (
            "Each line is an evaluated set of parameter values. Blue lines form the acceptable "
            "set: their loss is close to that of the fit. Where blue lines lie close together, the "
            "data determine the parameter; where they spread, the data do not."
        )
    if len(fit.values) == 1:
        return (
            "Each point is an evaluated parameter value. Blue points form the acceptable set: "
            "their loss is close to that of the fit. The narrower their range, the better the data "
            "determine the parameter."
        )
    return (
        "Each point is an evaluated set of parameter values. Blue points form the acceptable set: "
        "their loss is close to that of the fit. A long ridge of blue points shows parameters that "
        "compensate each other."
    )


def _select_points(fit: CalibrationResult) -> tuple[pl.DataFrame, list[str]]:
    """Select the points to draw, with the best last, and note the points left out."""
    region = fit.confidence_region
    names = [] if region is None else [name for name in region.columns if name in fit.values]
    if region is None or not region.height or not names:
        raise InputError(
            "there is no acceptable set to draw: no points around the fit were evaluated",
            kind="nothing-to-draw",
        )
    loss = pl.col("loss").cast(pl.Float64)
    points = region.select(*names, loss).filter(loss.is_finite()).sort("loss", descending=True)
    if not points.height:
        raise InputError(
            "there is no acceptable set to draw: every evaluation failed", kind="nothing-to-draw"
        )
    notes, noun = [], "point" if len(names) <= MAX_PAIRED else "line"
    if failed := region.height - points.height:
        notes.append(f"not drawn: {format_count(failed, noun)} whose evaluation failed")
    if points.height > MAX_POINTS:
        notes.append(f"{MAX_POINTS} of {points.height:,} {noun}s, at equal steps from the "
                     "highest loss to the lowest")  # fmt: skip
        points = points[np.linspace(0, points.height - 1, MAX_POINTS).round().astype(int).tolist()]
    labels = [
        pl.Series(each.name, [_format_category(value) for value in each], dtype=pl.String)
        for each in points
        if not each.dtype.is_numeric()
    ]
    return points.with_columns(labels), notes


def _format_category(value: Any) -> str:
    """Format a categorical value as a label."""
    return escape_label(format_value(value))


def _get_fitted_value(fit: CalibrationResult, points: pl.DataFrame, name: str) -> Any:
    """Return the fitted value of a parameter; a categorical one as its label."""
    value = fit.values[name]
    return value if points.schema[name].is_numeric() else _format_category(value)


def _plot_single_parameter(
    figure: Figure, fit: CalibrationResult, points: pl.DataFrame, name: str
) -> None:
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
        y_name = names[row + 1]
        for column in range(row + 1):
            x_name = names[column]
            axes = {"xaxis": f"x{column + 1}", "yaxis": f"y{row + 1}"}
            figure.add_scatter(
                **marks, **axes,
                x=points[x_name].to_list(), y=points[y_name].to_list(),
            )  # fmt: skip
            figure.add_scatter(
                **_make_fit_marker(), **axes, x=[_get_fitted_value(fit, points, x_name)],
                y=[_get_fitted_value(fit, points, y_name)],
            )  # fmt: skip
        low, high = 1 - (row + 0.88) / panels, 1 - row / panels
        figure.update_layout(
            {
                f"yaxis{row + 1}": {
                    **_make_axis(points[y_name], y_name),
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
        # The name is above its column, where there are no panels and a long name has space.
        is_last = row == panels - 1
        figure.add_annotation(
            text=_shorten(names[row]), xref="paper", yref="paper", y=high, yanchor="bottom",
            x=(row + 0.94) / panels if is_last and row else row / panels,
            xanchor="right" if is_last and row else "left", showarrow=False, font={"size": 12},
        )  # fmt: skip
    figure.update_layout(height=max(400, 180 + 150 * panels))


def _plot_parallel_axes(
    figure: Figure, fit: CalibrationResult, points: pl.DataFrame, names: list[str]
) -> None:
    """Plot a line per point across all parameters, in one Plotly trace per class of losses.

    The parameters are rows, because their names fit to the left of a row also on a phone.
    """
    scales = {name: Scale.of(points[name]) for name in names}
    positions = np.column_stack(
        [[scales[name].get_position(value) for value in points[name]] for name in names]
    )
    scaled_loss = _scale_losses(points["loss"].to_numpy())
    classes = np.minimum((scaled_loss * 8).astype(int), 7)
    for loss_class in range(7, -1, -1):
        rows = positions[classes == loss_class]
        x_with_breaks = np.column_stack([rows, np.full(len(rows), np.nan)]).ravel()
        figure.add_scatter(
            y=list(range(len(names) + 1)) * len(rows), x=x_with_breaks, mode="lines",
            hoverinfo="skip",
            line={"color": _interpolate_colour((loss_class + 0.5) / 8), "width": 1.2},
            opacity=0.9 - 0.1 * loss_class,
        )  # fmt: skip
    # An empty trace that adds the colour bar.
    figure.add_scatter(**_make_markers(points[:1], names), x=[None], y=[None])
    fitted = [scales[name].get_position(_get_fitted_value(fit, points, name)) for name in names]
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
    return escape_label(shorten_name(name.removeprefix(_CONTENTION_PREFIX), _MAX_LABEL_LENGTH))


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
    transformed = _transform_losses(loss)
    span = transformed.max() - transformed.min()
    return (transformed - transformed.min()) / span if span > 0 else np.zeros(loss.size)


def _interpolate_colour(part: float) -> str:
    """Interpolate the colour at a fraction of the range from the lowest loss to the highest."""
    colours_rgb = np.array(
        [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in _COLOUR_STOPS]
    )
    positions = np.linspace(0, 1, len(_COLOUR_STOPS))
    levels = (np.interp(part, positions, channel) for channel in colours_rgb.T)
    return "rgb({:.0f}, {:.0f}, {:.0f})".format(*levels)


def _make_colour_axis(loss: Floats) -> dict[str, Any]:
    transformed = _transform_losses(loss)
    ticks = np.linspace(
        transformed.min(), transformed.max(), 2
    )  # more ticks would overlap on a phone
    losses = 10**ticks if (loss > 0).all() else ticks
    return {
        "cmin": float(transformed.min()), "cmax": float(transformed.max()),
        "colorscale": [
            [index / (len(_COLOUR_STOPS) - 1), colour] for index, colour in enumerate(_COLOUR_STOPS)
        ],
        "colorbar": {
            "title": {"text": "loss", "side": "top"}, "orientation": "h", "len": 0.4,
            "thickness": 10, "x": 1, "xanchor": "right", "y": 1.0, "yanchor": "bottom",
            "tickangle": 0, "tickvals": ticks.tolist(),
            "ticktext": [f"{value:.3g}" for value in losses],
        },
    }  # fmt: skip
