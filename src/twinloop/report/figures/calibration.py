"""Figures of a calibration: convergence, acceptable set, intervals of the values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.weighted_intervals import Floats
from twinloop.report.calibration_result import CalibrationResult
from twinloop.report.figures import colours
from twinloop.report.figures.confidence_region import plot_confidence_region
from twinloop.report.figures.figure_base import attach_notes, create_figure, escape_label
from twinloop.report.figures.scales import Scale, format_value
from twinloop.report.quantity_text import format_count

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Number of parts into which a long history is split; each is reduced to its lowest and highest
#: loss.
PARTS: Final = 500
#: Number of evaluations above which their axis is logarithmic.
_LOG_AXIS_EVALUATIONS: Final = 1000


def plot_calibration(fit: CalibrationResult) -> dict[str, Figure]:
    """Plot the figures of a calibration, by name; figures without data are left out.

    `convergence` has the loss of each evaluation and the lowest so far. `confidence_region` has
    points around the fit, coloured by their loss. `intervals` has the acceptable interval of each
    parameter, within the range that was searched.

    >>> from types import SimpleNamespace
    >>> history = pl.DataFrame({"evaluation": [0, 1], "loss": [4.0, 2.0], "best": [4.0, 2.0],
    ...     "failed": False, "speed": [1.0, 1.1]})
    >>> fit = SimpleNamespace(values={"speed": 1.1}, defaults={"speed": 1.0}, history=history,
    ...     confidence_region=None, identifiability=None, loss_before=4.0)
    >>> list(plot_calibration(fit))
    ['convergence']
    """
    return plot_available(fit)[0]


def plot_available(fit: CalibrationResult) -> tuple[dict[str, Figure], list[str]]:
    """Plot the figures that have data, and list the reason for each omitted figure."""
    draw: dict[str, Callable[[CalibrationResult], Figure]] = {
        "convergence": plot_convergence,
        "confidence_region": plot_confidence_region,
        "intervals": plot_intervals,
    }
    figures, missing = {}, []
    for name, function in draw.items():
        try:
            figures[name] = function(fit)
        except InputError as error:
            missing.append(error.problem)
    return figures, missing


def plot_convergence(fit: CalibrationResult) -> Figure:
    """Plot the loss of each evaluation, and the lowest so far.

    >>> from types import SimpleNamespace
    >>> history = pl.DataFrame({"loss": [4.0, None, 2.0], "best": [4.0, 4.0, 2.0]})
    >>> fit = SimpleNamespace(history=history, loss_before=5.0)
    >>> [[float(loss) for loss in curve.y] for curve in plot_convergence(fit).data]
    [[4.0, 2.0], [4.0, 4.0, 2.0], [5.0, 5.0]]
    """
    history = fit.history
    if not {"loss", "best"} <= set(history.columns) or not history.height:
        raise InputError(
            "there is no convergence to draw: no evaluation was recorded", kind="nothing-to-draw"
        )
    loss, best = (
        history[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        for name in ("loss", "best")
    )
    is_finite = np.isfinite(loss)
    if not is_finite.any():
        raise InputError(
            "there is no convergence to draw: every evaluation failed", kind="nothing-to-draw"
        )
    notes = []
    if failed := int((~is_finite).sum()):
        notes.append(f"not drawn: {format_count(failed, 'failed evaluation')}")
    drawn = np.flatnonzero(is_finite)
    if drawn.size > 4 * PARTS:
        drawn = _find_extremes(drawn, loss)
        notes.append(
            f"of each 1/{PARTS} of the evaluations only the lowest and the highest loss are drawn; "
            "the lowest loss so far is exact"
        )
    figure = create_figure("Convergence of the calibration")
    figure.add_scatter(
        x=drawn + 1, y=loss[drawn], name="loss", mode="markers",
        marker={"color": colours.OTHERS, "size": 4, "opacity": 0.6},
    )  # fmt: skip
    searches = _split_searches(history)
    for number, part in enumerate(searches):
        corners = _find_corners(best[part]) + part.start
        figure.add_scatter(
            x=corners + 1, y=best[corners], name="lowest so far", mode="lines", line_shape="hv",
            line={"color": colours.CURVE, "width": 2}, showlegend=not number,
        )  # fmt: skip
    notes += [
        f"evaluation {part.start + 1:,} starts a search of other parameters, with another loss"
        for part in searches[1:]
    ]
    before = fit.loss_before
    if len(searches) == 1 and math.isfinite(before):
        figure.add_scatter(
            x=[1, loss.size], y=[before, before], name="before calibration", mode="lines",
            line={"color": colours.LIMIT, "dash": "dash", "width": 1.5}, meta={"aside": True},
        )  # fmt: skip
    positive = bool((loss[is_finite] > 0).all())
    figure.update_layout(
        xaxis={
            "title": {"text": "evaluations"},
            "type": "log" if loss.size > _LOG_AXIS_EVALUATIONS else "linear",
        },
        yaxis={"title": {"text": "loss"}, "type": "log" if positive else "linear"},
        hovermode="closest",
    )
    return attach_notes(figure, notes)


def _split_searches(history: pl.DataFrame) -> list[slice]:
    """Split the history into searches; a falling evaluation number starts another one."""
    edges = [0, history.height]
    if "evaluation" in history.columns:
        edges[1:1] = (np.flatnonzero(np.diff(history["evaluation"].to_numpy()) < 0) + 1).tolist()
    return [slice(first, last) for first, last in pairwise(edges)]


def _find_corners(best: Floats) -> Any:
    """Return the indices at which the curve must be drawn: all, or the steps of a long curve."""
    indices = np.arange(best.size)
    if best.size <= 4 * PARTS:
        return indices
    return indices[(np.diff(best, prepend=np.nan) != 0) | (indices == best.size - 1)]


def _find_extremes(indices: np.ndarray[Any, np.dtype[np.int64]], loss: Floats) -> Any:
    """Return the indices of the lowest and the highest loss of each part."""
    parts = np.array_split(indices, PARTS)
    kept = [part[pick(loss[part])] for part in parts for pick in (np.argmin, np.argmax)]
    return np.unique(kept)


def plot_intervals(fit: CalibrationResult) -> Figure:
    """Plot the acceptable interval of each parameter, within the range that was searched.

    >>> from types import SimpleNamespace
    >>> table = pl.DataFrame({"parameter": ["speed"], "value": [1.0], "low": [0.5], "high": [2.0],
    ...     "identifiable": [True], "why": [""]})
    >>> fit = SimpleNamespace(identifiability=SimpleNamespace(table=table), defaults={},
    ...     history=pl.DataFrame({"speed": [0.0, 4.0]}))
    >>> plot_intervals(fit).data[0].x
    (0.125, 0.5, None)
    """
    table = None if fit.identifiability is None else fit.identifiability.table
    if table is None or not table.height:
        raise InputError(
            "there are no intervals to draw: identifiability was not analysed",
            kind="nothing-to-draw",
        )
    numeric = [row for row in table.rows(named=True) if _is_number(row["value"])]
    if not numeric:
        raise InputError(
            "there are no intervals to draw: no parameter is numeric", kind="nothing-to-draw"
        )
    notes = []
    if categorical := table.height - len(numeric):
        notes.append(f"not drawn: {format_count(categorical, 'categorical parameter')}")
    rows = [_make_row(fit, row, len(numeric) - index) for index, row in enumerate(numeric)]
    if unbounded := [each.name for each in rows if each.ends is None]:
        notes.append(f"interval unknown: {', '.join(unbounded)}")
    figure = create_figure("Acceptable intervals of the values")
    for name, colour, identifiable in (
        ("identifiable", colours.CURVE, True),
        ("not identifiable", colours.SECOND, False),
    ):
        _add_bars(figure, name, colour, [row for row in rows if row.identifiable is identifiable])
    _add_markers(
        figure, "fitted value", "circle", [(row.value, row.row_number, row.hover) for row in rows]
    )
    _add_markers(
        figure, "value before", "diamond-open",
        [(row.before, row.row_number, "before") for row in rows if row.before is not None],
    )  # fmt: skip
    figure.update_layout(
        xaxis={
            "title": {"text": "position in the searched range"},
            "range": [-0.02, 1.02],
            "tickformat": ".0%",
        },
        yaxis={
            "tickvals": [row.row_number for row in rows],
            "ticktext": [escape_label(row.name) for row in rows],
            "range": [0.4, len(rows) + 0.6],
            "showgrid": False,
        },
        hovermode="closest",
        height=130 + 34 * len(rows),
    )
    return attach_notes(figure, notes)


class _IntervalRow:
    """Interval of a parameter, as fractions of the range that was searched.

    `row_number` is the height of the row in the figure; `before` and `ends` are None if unknown.
    """

    def __init__(self, name: str, row_number: int, identifiable: bool | None) -> None:
        self.name, self.row_number, self.identifiable = name, row_number, identifiable
        self.value: float = 0.0
        self.before: float | None = None
        self.ends: tuple[float, float] | None = None
        self.hover = ""


def _make_row(fit: CalibrationResult, table_row: dict[str, Any], row_number: int) -> _IntervalRow:
    name = str(table_row["parameter"])
    row = _IntervalRow(name, row_number, table_row["identifiable"])
    ends = [table_row[end] for end in ("low", "high") if _is_number(table_row[end])]
    before = fit.defaults.get(name)
    tried = fit.history[name].to_list() if name in fit.history.columns else []
    range_values = [
        value for value in (*tried, *ends, table_row["value"], before) if _is_number(value)
    ]
    scale = Scale.of(pl.Series(range_values, dtype=pl.Float64, strict=False))
    row.value = scale.get_position(table_row["value"])
    row.before = scale.get_position(before) if _is_number(before) else None
    row.hover = f"{escape_label(name)}: {format_value(table_row['value'])}"
    if len(ends) == 2:
        row.ends = scale.get_position(ends[0]), scale.get_position(ends[1])
        row.hover += f", from {format_value(ends[0])} to {format_value(ends[1])}"
    return row


def _add_bars(figure: Figure, name: str, colour: str, rows: Sequence[_IntervalRow]) -> None:
    x: list[float | None] = []
    y: list[int | None] = []
    for row in rows:
        if row.ends is not None:
            x += [*row.ends, None]
            y += [row.row_number, row.row_number, None]
    if x:
        figure.add_scatter(
            x=x, y=y, name=name, mode="lines", line={"color": colour, "width": 8}, opacity=0.7,
            hoverinfo="skip",
        )  # fmt: skip


def _add_markers(
    figure: Figure, name: str, symbol: str, marks: list[tuple[float, int, str]]
) -> None:
    if marks:
        x, y, text = zip(*marks, strict=True)
        figure.add_scatter(
            x=x, y=y, name=name, mode="markers", text=text, hovertemplate="%{text}<extra></extra>",
            marker={"symbol": symbol, "size": 9, "color": colours.LIMIT},
        )  # fmt: skip


def _is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    is_numeric_type = isinstance(value, (int, float, np.integer, np.floating))
    return is_numeric_type and not isinstance(value, bool) and bool(np.isfinite(value))
