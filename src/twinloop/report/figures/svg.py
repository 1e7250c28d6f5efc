"""Static SVG picture of a small run: Gantt chart, cores in use, CPU use and queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from html import escape
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.report.figures import colours
from twinloop.report.figures.bands import LABELS, UNRECORDED, Bands
from twinloop.report.figures.colours import ColourBy
from twinloop.report.figures.curves import count_waiting, sum_available_cores, sum_cores_in_use
from twinloop.report.figures.executions import find_absences, require_executions, select_executions
from twinloop.report.figures.steps import Steps
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.figures.usage import Lane, make_lanes
from twinloop.report.quantity_text import format_count, format_duration, format_number, shorten_name
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

#: The most tasks that are legible in a static picture.
TASKS: Final = 300

_WIDTH, _LEFT, _RIGHT = 800.0, 76.0, 12.0
#: The width of a letter in pixels, and the most characters of the name of a machine.
_LETTER, _LONGEST = 7.0, 20
_GANTT, _CURVE, _GAP, _TOP = 260.0, 70.0, 34.0, 24.0
#: The height of the CPU use of one of several nodes, and the most nodes with a curve each.
_LANE, _LANES = 36.0, 4
#: The most ticks of the time axis, and the steps between two ticks in seconds.
_TICKS: Final = 8
_STEPS: Final = (
    *(10.0**power * many for power in (-3, -2, -1) for many in (1, 2, 5)),
    *(unit * many for unit in (1.0, 60.0) for many in (1, 2, 5, 10, 20, 30)),
    *(3600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(86400.0 * 10**power * many for power in range(6) for many in (1, 2, 5)),
)
#: Legible on white and on black.
_INK: Final = "#7d858f"


def render_run_svg(trace: Trace, *, colour: ColourBy | None = None) -> str:
    """Render a run of at most 300 tasks as SVG: Gantt chart, cores in use, waiting tasks.

    A trace with samples also has the CPU use of each node, or of all nodes together if there are
    more than four.

    The picture has no background, and its colours are legible on light and dark pages. It has no
    animation and loads nothing.

    >>> import polars as pl
    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 5.0], "end": [5.0, 9.0]}),
    ... )
    >>> picture = render_run_svg(trace)
    >>> picture.count('class="task"')
    2
    """
    ran = require_executions(select_executions(require_trace(trace)))
    tasks = ran["task"].n_unique()
    if tasks > TASKS:
        raise InputError(
            f"{tasks:,} tasks are too many for a static picture of at most {TASKS}",
            kind="too-large",
            remedy="use write_run_page, which has no limit",
        )
    busy = sum_cores_in_use(ran)
    queue = Steps(busy.t[:0], busy.level[:0])
    with suppress(InputError):  # no submission times
        queue, _ = count_waiting(trace)
    used: list[Lane] = []
    with suppress(InputError):  # no samples
        used, _ = make_lanes(trace, _LANES)
    moments = np.concatenate([busy.t, queue.t, *(lane.busy.t for lane in used)])
    first, last = float(moments.min()), float(moments.max())
    bands = Bands.of(trace, ran)
    names = (shorten_name(name, _LONGEST) for name in bands.rows if name != UNRECORDED)
    place = _HorizontalScale(
        first, last, max(_LEFT, 12 + _LETTER * max(map(len, names), default=0))
    )
    there = sum_available_cores(trace, first, last)
    parts = [
        *_draw_gantt(
            bands, ran, place, colours.choose_grouping(ran, colour), find_absences(trace, last)
        )
    ]
    top = _TOP + _GANTT + _GAP
    parts += _draw_curve("cores in use", busy, place, top, colours.CURVE, there)
    top += _CURVE + _GAP
    lane_height = _CURVE if len(used) == 1 else _LANE
    for lane in used:
        title = f"CPU use, cores of {shorten_name(lane.name, _LONGEST)}"
        parts += _draw_curve(title, lane.busy, place, top, colours.USED, lane.limit, lane_height)
        top += lane_height + _GAP
    parts += _draw_curve("waiting tasks", queue, place, top, colours.SECOND, None)
    top += _CURVE
    parts += _draw_times(TimeAxis.of(trace, last - first), first, last, place, top)
    height = top + (26 if trace.manifest.epoch_ms is None else 40)
    summary = f"{format_count(tasks, 'task')} over {format_duration(last - first)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="11" fill="{_INK}">\n'
        f"<title>{escape(summary)}: tasks on machines, cores in use, waiting tasks</title>\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


class _HorizontalScale:
    """Scale from times to horizontal positions."""

    def __init__(self, first: float, last: float, left: float) -> None:
        self.left = left
        self._first, self._scale = first, (_WIDTH - left - _RIGHT) / ((last - first) or 1.0)

    def x(self, t: float) -> float:
        return self.left + (t - self._first) * self._scale


def _draw_times(
    axis: TimeAxis, first: float, last: float, place: _HorizontalScale, top: float
) -> Iterator[str]:
    if axis.epoch_ms is not None:
        yield _draw_text(place.left, top + 30, axis.format_time(first), "start")
        yield _draw_text(_WIDTH - _RIGHT, top + 30, axis.format_time(last), "end")
    step = next((step for step in _STEPS if (last - first) / step <= _TICKS), last - first)
    for tick in np.arange(np.ceil(first / step), np.floor(last / step) + 1) * step:
        x = place.x(tick)
        yield _draw_line(x, top, x, top + 4)
        anchor = "end" if x > _WIDTH - 2 * _RIGHT else "middle"
        yield _draw_text(x, top + 16, format_duration(tick), anchor)


def _draw_gantt(
    bands: Bands, ran: pl.DataFrame, place: _HorizontalScale, by: ColourBy, away: pl.DataFrame
) -> Iterator[str]:
    groups = colours.group_executions(ran, by)
    shades = [
        colours.get_colour(by, label, at, members)
        for at, (label, members) in enumerate(groups.select("label", "members").rows())
    ]
    own = groups["members"] == 1
    colour = dict(zip(groups["group"].filter(own), shades, strict=False))
    top = max(high for _, high in bands.rows.values()) or 1.0
    scale = _GANTT / top
    title = f"tasks on machines, coloured by {by}"
    yield _draw_text(place.left, _TOP - 8, title, "start")
    yield from _draw_legend(groups["label"].to_list(), shades, place.left + _LETTER * len(title))
    keys = ran.select(colours.get_group_key(by))[:, 0].to_list()
    rows = ran.with_columns(ended=pl.coalesce("reason", "status")).rows(named=True)
    for number, low, high in bands.pieces.rows():
        row = rows[number]
        x, y = place.x(row["start"]), _TOP + low * scale
        width, height = max(place.x(row["end"]) - x, 0.5), max((high - low) * scale, 0.3)
        shade = colour.get(keys[number], colours.OTHERS)
        yield (
            f'<rect class="task" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" '
            f'height="{height:.2f}" fill="{shade}" stroke="{_INK}" stroke-width="0.4">'
            f"<title>{escape(_describe_execution(row))}</title></rect>"
        )
        name = row["task"] or ""
        if _LETTER * len(name) < width and height > 12:
            yield (
                f'<text class="name" x="{x + width / 2:.2f}" y="{y + height / 2 + 4:.2f}" '
                f'text-anchor="middle" fill="#ffffff">{escape(name)}</text>'
            )
    yield from _draw_absences(bands, away, place, scale)
    every = -(-len(bands.rows) // min(LABELS, int(_GANTT / 12)))
    for at, (name, (low, high)) in enumerate(bands.rows.items()):
        if at:
            y = _TOP + low * scale
            yield _draw_line(place.left, y, _WIDTH - _RIGHT, y, 'stroke-opacity="0.35"')
        if name == UNRECORDED:
            yield _draw_text(place.left - 6, _TOP + 10, f"{format_number(high - low)} cores", "end")
        elif at % every == 0:
            label = shorten_name(name, _LONGEST)
            yield _draw_text(place.left - 6, _TOP + (low + high) / 2 * scale + 4, label, "end")
    yield _draw_line(place.left, _TOP, place.left, _TOP + _GANTT)
    yield _draw_line(place.left, _TOP + _GANTT, _WIDTH - _RIGHT, _TOP + _GANTT)


def _describe_execution(row: dict[str, Any]) -> str:
    """Describe an execution for its tooltip."""
    again = f", attempt {row['attempt'] + 1}" if row["attempt"] else ""
    lasted = format_duration(row["end"] - row["start"])
    ended = f", {row['ended']}" if row["ended"] else ""
    return f"{row['task']}{again}: {format_number(row['cores'])} cores, {lasted}{ended}"


def _draw_absences(
    bands: Bands, away: pl.DataFrame, place: _HorizontalScale, scale: float
) -> Iterator[str]:
    """Draw the periods in which a node was not available."""
    for node, start, end, _ in away.rows():
        if node in bands.rows:
            low, high = bands.rows[node]
            x = max(place.x(start), place.left)
            yield (
                f'<rect class="away" x="{x:.2f}" y="{_TOP + low * scale:.2f}" '
                f'width="{max(place.x(end) - x, 0.5):.2f}" height="{(high - low) * scale:.2f}" '
                f'fill="{_INK}" fill-opacity="0.45"><title>{escape(node)}: not available'
                "</title></rect>"
            )


def _draw_legend(labels: list[str], shades: list[str], x: float) -> Iterator[str]:
    """Draw the legend of the colours, as far as there is space."""
    for label, shade in zip(labels, shades, strict=True):
        text = shorten_name(label, _LONGEST)
        end = x + 24 + _LETTER * len(text)
        if end > _WIDTH - _RIGHT:
            return
        yield f'<rect x="{x:.2f}" y="{_TOP - 17:.2f}" width="9" height="9" fill="{shade}"/>'
        yield _draw_text(x + 13, _TOP - 8, text, "start")
        x = end


def _draw_curve(
    title: str,
    steps: Steps,
    place: _HorizontalScale,
    top: float,
    colour: str,
    limit: Steps | None,
    height: float = _CURVE,
) -> Iterator[str]:
    most = float(steps.level.max(initial=0.0))
    high = max(most, float(limit.level.max()) if limit is not None else 0.0) or 1.0
    bottom = top + height

    def path(curve: Steps) -> str:
        x = np.repeat([place.x(t) for t in curve.t], 2)[1:]
        y = np.repeat(bottom - curve.level / high * height, 2)[:-1]
        return " ".join(f"{a:.2f},{b:.2f}" for a, b in zip(x, y, strict=True))

    yield _draw_text(place.left, top - 8, title, "start")
    yield _draw_text(place.left - 6, top + 8, format_number(high), "end")
    yield _draw_text(place.left - 6, bottom, "0", "end")
    if steps.t.size:
        start, end = place.x(steps.t[0]), place.x(steps.t[-1])
        area = f"{start:.2f},{bottom:.2f} {path(steps)} {end:.2f},{bottom:.2f}"
        yield f'<polygon points="{area}" fill="{colour}" fill-opacity="0.25"/>'
        yield f'<polyline points="{path(steps)}" fill="none" stroke="{colour}"/>'
    if limit is not None:
        yield (
            f'<polyline points="{path(limit)}" fill="none" stroke="{_INK}" stroke-dasharray="3 3"/>'
        )
    yield _draw_line(place.left, top, place.left, bottom)
    yield _draw_line(place.left, bottom, _WIDTH - _RIGHT, bottom)


def _draw_text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def _draw_line(x1: float, y1: float, x2: float, y2: float, more: str = "") -> str:
    at = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line {at} stroke="{_INK}" {more}/>'.replace(" />", "/>")
