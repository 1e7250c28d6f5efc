"""Figure of two curves with their difference below."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from twinloop.report.figures import colours
from twinloop.report.figures.figure_base import create_figure

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Number of parts into which a long curve is split; of each, the rows with the first, last, lowest
#: and highest difference are drawn.
PARTS: Final = 500

_UPPER, _LOWER = (0.38, 1.0), (0.0, 0.3)


def plot_comparison(title: str, rows: pl.DataFrame, x: Any) -> tuple[Figure, list[str]]:
    """Plot real and twin above, their difference below, and return the figure with its notes.

    Of very many rows, only those that are visible at the width of a page are drawn.

    >>> rows = pl.DataFrame({"real": [1.0, 2.0], "twin": [1.0, 4.0], "residual": [0.0, 2.0]})
    >>> figure, notes = plot_comparison("Tasks", rows, [10.0, 20.0])
    >>> figure.data[2].x.tolist(), figure.data[2].y.tolist(), notes
    ([10.0, 20.0], [0.0, 2.0], [])
    """
    kept = _select_rows(rows)
    notes = []
    if len(kept) < rows.height:
        notes = [f"of each 1/{PARTS} of the curves only the rows with the first, last, lowest and "
                 "highest difference are drawn"]  # fmt: skip
    x, rows = np.asarray(x)[kept], rows[kept.tolist()]
    figure = create_figure(title)
    for name, colour in (("real", colours.CURVE), ("twin", colours.SECOND)):
        figure.add_scatter(
            x=x, y=_series_to_floats(rows[name]), name=name, mode="lines", line_shape="hv",
            line={"color": colour, "width": 1.8 if name == "real" else 1.4},
        )  # fmt: skip
    figure.add_scatter(
        x=x, y=_series_to_floats(rows["residual"]), name="twin - real", mode="lines",
        line_shape="hv", line={"color": colours.LIMIT, "width": 1.2}, fill="tozeroy", yaxis="y2",
    )  # fmt: skip
    stack_axes(figure, "twin - real")
    return figure, notes


def stack_axes(figure: Figure, below: str) -> None:
    """Place the second y axis below the first, with this title and the common x axis below both.

    >>> figure = create_figure("Tasks")
    >>> stack_axes(figure, "difference")
    >>> figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]
    True
    """
    figure.update_layout(
        xaxis={"anchor": "y2"},
        yaxis={"domain": _UPPER},
        yaxis2={"domain": _LOWER, "title": {"text": below}, "nticks": 4},
    )


def _series_to_floats(values: pl.Series) -> Any:
    return values.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _select_rows(rows: pl.DataFrame) -> Any:
    """Select the rows with the first, last, lowest and highest difference of each part."""
    indices = np.arange(rows.height)
    if rows.height <= 8 * PARTS:
        return indices
    residual = np.nan_to_num(_series_to_floats(rows["residual"]))
    picks: tuple[Callable[[Any], Any], ...] = (
        lambda part: 0, lambda part: -1,
        lambda part: residual[part].argmin(), lambda part: residual[part].argmax(),
    )  # fmt: skip
    return np.unique(
        [part[pick(part)] for part in np.array_split(indices, PARTS) for pick in picks]
    )
