"""Labels of configurations in a figure over two objectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.report.figures.figure_base import escape_label
from twinloop.report.figures.label_boxes import Box, count_overlaps
from twinloop.report.figures.objective_axis import POSITIONS, ObjectiveAxis
from twinloop.report.quantity_text import shorten_name

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

#: Maximum number of points that all have a label, of those that have one of more points, and of
#: characters of a label.
MAX_ALL_NAMED: Final = 10
MAX_NAMED: Final = 6
#: Maximum number of points that labels avoid to hide.
MAX_AVOIDED: Final = 60
_MAX_LABEL_LENGTH: Final = 40
#: Size of a figure on a usual screen, and of a letter, in pixels.
_SIZE: Final = (900.0, 440.0)
_LETTER_WIDTH, _LINE_HEIGHT = 6.2, 13.0


def label_configuration(factors: Sequence[str], row: Mapping[str, Any]) -> str:
    """Label a configuration by the levels of its active factors, each with its ends.

    >>> label_configuration(["placement", "keep"], {"placement": "best-fit", "keep": 2.0})
    'best-fit, 2'
    """
    levels = [format_level(row[name]) for name in factors if row[name] is not None]
    if not levels:
        return shorten_name(row["name"], _MAX_LABEL_LENGTH)
    length = max(_MAX_LABEL_LENGTH // len(levels) - 2, 6)
    return ", ".join(shorten_name(level, length) for level in levels)


def format_level(value: Any) -> str:
    """Format the level of a factor; None: the factor is not active.

    >>> format_level(2.0), format_level(None)
    ('2', 'not active')
    """
    if value is None:
        return "not active"
    return f"{value:g}" if isinstance(value, float) else str(value)


def add_labels(
    figure: Figure, factors: Sequence[str], table: pl.DataFrame, axes: Sequence[ObjectiveAxis]
) -> None:
    """Label distinct points of the front, with the number of points that coincide.

    Points with fewer tasks have a label, too, if there is room for all of them.
    """
    marked = table.filter(pl.col("front") | pl.col("fewer"))
    if marked.select(POSITIONS).n_unique() > MAX_ALL_NAMED:
        marked = table.filter("front")
    names = [
        label_configuration(factors, row) + (" (fewer tasks)" if row["fewer"] else "")
        for row in marked.rows(named=True)
    ]
    grouped = marked.with_columns(name=pl.Series(names, dtype=pl.String)).group_by(
        POSITIONS, maintain_order=True
    )
    points = grouped.agg(pl.col("name").first(), pl.len().alias("equal")).sort(POSITIONS)
    texts = [
        f"\u2002{escape_label(name)}{f' +{equal - 1} equal' if equal > 1 else ''}\u2002"
        for name, equal in points.select("name", "equal").rows()
    ]
    keeps_all = points.height <= MAX_ALL_NAMED
    labels: list[tuple[float, float, str, str]] = []
    boxes: list[Box] = []
    if keeps_all and table.height <= MAX_AVOIDED:
        boxes = [(a - 6, b - 6, a + 6, b + 6) for a, b in _place_points(table, table, axes)]
    places = zip(points.select(POSITIONS).rows(), _place_points(points, table, axes), strict=True)
    for text, ((x, y), (a, b)) in zip(texts, places, strict=True):
        choices = _list_label_boxes(a, b, _LETTER_WIDTH * len(text))
        overlaps = {each: count_overlaps(box, boxes) for each, box in choices.items()}
        position = min(overlaps, key=lambda each: overlaps[each])
        if keeps_all or (len(labels) < MAX_NAMED and not overlaps[position]):
            boxes.append(choices[position])
            labels.append((x, y, text, position))
    figure.add_scatter(
        x=[x for x, *_ in labels], y=[y for _, y, *_ in labels],
        text=[text for *_, text, _ in labels],
        mode="text", textposition=[position for *_, position in labels], textfont={"size": 11},
        cliponaxis=False, name="names", showlegend=False, hoverinfo="skip", meta={"aside": True},
    )  # fmt: skip


def _place_points(
    points: pl.DataFrame, table: pl.DataFrame, axes: Sequence[ObjectiveAxis]
) -> Iterator[tuple[float, float]]:
    """Generate the approximate positions of points in pixels, in a figure of a table."""
    shares = []
    for name, axis in zip(POSITIONS, axes, strict=True):
        values, ends = points[name], table[name]
        if axis.is_log:
            values, ends = values.log(), ends.log()
        low, high = float(ends.min()), float(ends.max())  # type: ignore[arg-type]
        shares.append([(value - low) / ((high - low) or 1.0) for value in values])
    for x, y in zip(*shares, strict=True):
        yield x * _SIZE[0], (1.0 - y) * _SIZE[1]


def _list_label_boxes(a: float, b: float, width: float) -> dict[str, Box]:
    """List the boxes that a label beside a point would take by its position, the best first."""
    rows = {"top": (b - _LINE_HEIGHT - 2, b - 2), "bottom": (b + 2, b + _LINE_HEIGHT + 2)}
    columns = {"right": (a, a + width), "left": (a - width, a)}
    return {
        f"{row} {column}": (left, top, right, bottom)
        for column, (left, right) in columns.items()
        for row, (top, bottom) in rows.items()
    }
