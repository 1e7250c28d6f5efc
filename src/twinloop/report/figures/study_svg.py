"""Static SVG picture of the trade-off between two objectives of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from twinloop.description.errors import InputError
from twinloop.exploration.study.intervals import PREDICTION_LEVEL
from twinloop.report.figures import colours
from twinloop.report.figures.configuration_labels import label_configuration
from twinloop.report.figures.label_boxes import Box, count_overlaps, list_line_boxes
from twinloop.report.figures.objective_axis import is_logarithmic
from twinloop.report.figures.pareto import choose_two_objectives
from twinloop.report.figures.svg import INK, draw_line, draw_text
from twinloop.report.kpi_text import format_kpi, get_unit, name_kpi, scale_value
from twinloop.report.quantity_text import format_duration, format_number

if TYPE_CHECKING:
    from twinloop.exploration.ranking.objectives import Objective
    from twinloop.exploration.study.study import Study

#: Maximum number of configurations that are legible in a static picture.
MAX_CONFIGURATIONS: Final = 30

_WIDTH, _HEIGHT = 800.0, 460.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 24.0, 30.0, 48.0
_LETTER_WIDTH, _LINE_HEIGHT = 6.2, 13.0
_MAX_TICKS: Final = 7
#: Ticks of a logarithmic scale of times (s).
_TIMES: Final = (
    *(unit * factor for unit in (1.0, 60.0) for factor in (1, 2, 3, 5, 10, 20, 30)),
    *(3600.0 * hours for hours in (1, 2, 3, 4, 6, 12)),
    *(86400.0 * days for days in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)),
)


def render_study_svg(study: Study, *objectives: str | Objective) -> str:
    """Render a point per configuration over two objectives as SVG, with the Pareto front.

    A point is the mean over the seeds; filled points are on the front. Bars are the 90 % prediction
    intervals of a run, if there are enough seeds for them. The picture has no background and suits
    light and dark pages, as that of `render_run_svg`.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "easy"]})
    >>> render_study_svg(study, "makespan_s", "wait_mean_s").count('class="configuration"')
    2
    """
    chosen = choose_two_objectives(study, objectives)
    points = _list_points(study, chosen)
    if not points:
        raise InputError(
            "there is nothing to draw: no configuration has both objectives",
            kind="nothing-to-draw",
        )
    if len(points) > MAX_CONFIGURATIONS:
        raise InputError(
            f"{len(points):,} configurations are too many for a static picture of at most "
            f"{MAX_CONFIGURATIONS}",
            kind="too-large",
            remedy="use write_study_page, which has no limit",
        )
    x, y = (
        _Scale.of(points, axis, each.kpi, *ends)
        for axis, (each, ends) in enumerate(
            zip(chosen, ((_LEFT, _WIDTH - _RIGHT), (_HEIGHT - _BOTTOM, _TOP)), strict=True)
        )
    )
    names = [name_kpi(each.kpi) for each in chosen]
    parts = [*_draw_axes(x, y, chosen), *_draw_points(points, x, y), *_draw_labels(points, x, y)]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="11" fill="{INK}">\n'
        f"<title>{escape(' and '.join(names))} of {len(points)} configurations</title>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


class _Point:
    """A configuration: its label, colour, and (value, low, high) of each objective."""

    def __init__(self, row: dict[str, Any], label: str, colour: str) -> None:
        self.label, self.colour, self.name = label, colour, str(row["name"])
        self.values: list[tuple[float, float, float]] = []
        self.texts: list[str] = []
        self.on_front = False


def _list_points(study: Study, objectives: Sequence[Objective]) -> list[_Point]:
    kpis = [each.kpi for each in objectives]
    front = set(study.pareto(*objectives)["configuration"])
    intervals = {
        (row["configuration"], row["kpi"]): row
        for row in study.intervals(*kpis).drop_nulls("low").rows(named=True)
    }
    fewer = study.fewer_tasks
    table = study.configurations.drop_nulls(kpis)
    levels = [str(row[study.factors[0]]) if study.factors else "" for row in table.rows(named=True)]
    order = {level: number for number, level in enumerate(dict.fromkeys(levels))}
    points = []
    for level, row in zip(levels, table.rows(named=True), strict=True):
        number = order[level]
        colour = colours.GROUPS[number] if number < len(colours.GROUPS) else colours.OTHERS
        label = label_configuration(study.factors, row)
        if row["configuration"] in fewer:
            label += " (fewer tasks)"
        point = _Point(row, label, colour)
        for kpi in kpis:
            each = intervals.get((row["configuration"], kpi))
            limits = [row[kpi]] * 2 if each is None else [each["low"], each["high"]]
            ends = [row[kpi], *limits]
            value, low, high = (float(scale_value(kpi, end)) for end in ends)
            point.values.append((value, low, high))
            text = f"{name_kpi(kpi)} {format_kpi(kpi, ends[0])}"
            if each is not None:
                text += f" ({format_kpi(kpi, ends[1])} to {format_kpi(kpi, ends[2])})"
            point.texts.append(text)
        point.on_front = row["configuration"] in front
        points.append(point)
    return points


class _Scale:
    """A linear or logarithmic scale of a KPI, from values to positions in pixels."""

    def __init__(self, kpi: str, low: float, high: float, start: float, end: float) -> None:
        self.kpi, self.start, self.end = kpi, start, end
        self.is_log = is_logarithmic(low, high)
        if self.is_log:
            space = (high / low) ** 0.06
            self.low, self.high = low / space, high * space
        else:
            space = 0.06 * ((high - low) or abs(high) or 1.0)
            self.low, self.high = low - space, high + space

    @classmethod
    def of(cls, points: Sequence[_Point], axis: int, kpi: str, start: float, end: float) -> _Scale:
        """Make the scale that contains all values and intervals of an axis."""
        low = min(point.values[axis][1] for point in points)
        high = max(point.values[axis][2] for point in points)
        return cls(kpi, low, high, start, end)

    def place(self, value: float) -> float:
        """Return the position of a value."""
        ends = (value, self.low, self.high)
        v, low, high = (math.log(each) for each in ends) if self.is_log else ends
        return self.start + (v - low) / (high - low) * (self.end - self.start)

    def list_ticks(self) -> list[float]:
        """List the values of the ticks."""
        is_time = get_unit(self.kpi) == "s"
        if self.is_log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            numbers = [factor * 10.0**power for power in powers for factor in (1, 1.5, 2, 3, 5, 7)]
            return [
                each for each in (_TIMES if is_time else numbers) if self.low <= each <= self.high
            ]
        span = self.high - self.low
        steps = [factor * 10.0**power for power in range(-6, 12) for factor in (1, 2, 5)]
        step = next(
            (each for each in (_TIMES if is_time else steps) if span / each <= _MAX_TICKS), span
        )
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        return [number * step for number in range(first, last + 1)]

    def format_tick(self, value: float) -> str:
        """Format the label of a tick."""
        return format_duration(value) if get_unit(self.kpi) == "s" else format_number(value)


def _draw_axes(x: _Scale, y: _Scale, objectives: Sequence[Objective]) -> Iterator[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for tick in x.list_ticks():
        at = x.place(tick)
        yield draw_line(at, _TOP, at, bottom, 'stroke-opacity="0.2"')
        yield draw_text(at, bottom + 16, x.format_tick(tick), "middle")
    for tick in y.list_ticks():
        at = y.place(tick)
        yield draw_line(_LEFT, at, right, at, 'stroke-opacity="0.2"')
        yield draw_text(_LEFT - 6, at + 4, y.format_tick(tick), "end")
    yield draw_line(_LEFT, bottom, right, bottom)
    yield draw_line(_LEFT, _TOP, _LEFT, bottom)
    yield draw_text(right, bottom + 36, _title_axis(x, objectives[0]), "end")
    yield draw_text(8, _TOP - 14, _title_axis(y, objectives[1]), "start")


def _title_axis(scale: _Scale, objective: Objective) -> str:
    unit = get_unit(scale.kpi)
    name = name_kpi(scale.kpi) + (f" ({unit})" if unit not in ("", "s") else "")
    kind = ", logarithmic" if scale.is_log else ""
    return f"{name}{kind}, {'less' if objective.lower else 'more'} is better"


def _draw_points(points: Sequence[_Point], x: _Scale, y: _Scale) -> Iterator[str]:
    line = " ".join(f"{a:.2f},{b:.2f}" for a, b in _place_front(points, x, y))
    yield f'<polyline points="{line}" fill="none" stroke="{INK}" stroke-dasharray="2 4"/>'
    for each in points:
        (a, left, right), (b, low, high) = each.values
        at = (x.place(a), y.place(b))
        stroke = f'stroke="{each.colour}" stroke-opacity="0.7"'
        if left < right:
            yield (
                f'<line x1="{x.place(left):.2f}" y1="{at[1]:.2f}" x2="{x.place(right):.2f}" '
                f'y2="{at[1]:.2f}" {stroke}/>'
            )
        if low < high:
            yield (
                f'<line x1="{at[0]:.2f}" y1="{y.place(low):.2f}" x2="{at[0]:.2f}" '
                f'y2="{y.place(high):.2f}" {stroke}/>'
            )
        yield (
            f'<circle class="configuration" cx="{at[0]:.2f}" cy="{at[1]:.2f}" r="5" '
            f'fill="{each.colour}" fill-opacity="{1 if each.on_front else 0}" '
            f'stroke="{each.colour}" stroke-width="2"><title>{escape(each.name)}: '
            f"{escape(', '.join(each.texts))}</title></circle>"
        )
    has_bars = any(low < high for each in points for _, low, high in each.values)
    bars = f"bars: {100 * PREDICTION_LEVEL:g} % of runs; " if has_bars else ""
    yield draw_text(_WIDTH - _RIGHT, _TOP - 14, f"{bars}filled: on the Pareto front", "end")


def _place_front(points: Sequence[_Point], x: _Scale, y: _Scale) -> list[tuple[float, float]]:
    """Return the positions of the points of the Pareto front, from left to right."""
    return sorted(
        (x.place(each.values[0][0]), y.place(each.values[1][0])) for each in points if each.on_front
    )


def _draw_labels(points: Sequence[_Point], x: _Scale, y: _Scale) -> Iterator[str]:
    """Draw the label of each point where it hides no point, label or line, if possible."""
    places = [(x.place(each.values[0][0]), y.place(each.values[1][0])) for each in points]
    hidden: list[Box] = [(a - 7, b - 7, a + 7, b + 7) for a, b in places]
    line = list_line_boxes(_place_front(points, x, y))
    bars: list[Box] = []
    for each, (a, b) in zip(points, places, strict=True):
        (_, left, right), (_, low, high) = each.values
        bars += [(x.place(left), b, x.place(right), b), (a, y.place(high), a, y.place(low))]
    for each, (a, b) in zip(points, places, strict=True):
        corners, boxes = _list_label_boxes(a, b, _LETTER_WIDTH * len(each.label))
        # A label hides no point and no other label, and if possible neither the front nor a bar;
        # it may hide a bar rather than be far from its point.
        crossings = [
            100 * count_overlaps(box, hidden)
            + 10 * bool(count_overlaps(box, line))
            + count_overlaps(box, bars)
            + abs(corner[1] - b) / 12.0
            for corner, box in zip(corners, boxes, strict=True)
        ]
        chosen = crossings.index(min(crossings))
        hidden.append(boxes[chosen])
        yield draw_text(*corners[chosen], each.label, "start")


def _list_label_boxes(
    a: float, b: float, width: float
) -> tuple[list[tuple[float, float]], list[Box]]:
    """List the positions of a label near a point, the best first, and the boxes it would take."""
    sides = [left for left in (a + 9, a - 9 - width) if left > _LEFT and left + width < _WIDTH]
    corners = [
        (left, b + shift) for shift in (-9, 17, -22, 30, -35, 43) for left in sides or [a + 9]
    ]
    return corners, [(left, base - 10, left + width, base + 3) for left, base in corners]
