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
from twinloop.report.figures.bands import MAX_LABELS, UNRECORDED, Bands
from twinloop.report.figures.colours import ColourBy
from twinloop.report.figures.curves import count_waiting, sum_available_cores, sum_cores_in_use
from twinloop.report.figures.executions import find_absences, require_executions, select_executions
from twinloop.report.figures.steps import Steps
from twinloop.report.figures.time_axis import TimeAxis
from twinloop.report.figures.usage import Lane, make_lanes
from twinloop.report.quantity_text import format_count, format_duration, format_number, shorten_name
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

#: Maximum number of tasks that are legible in a static picture.
MAX_TASKS: Final = 300

_WIDTH, _LEFT, _RIGHT = 800.0, 76.0, 12.0
#: Width of a letter in pixels, and maximum number of characters of the name of a machine.
_LETTER_WIDTH, _MAX_NAME_LENGTH = 7.0, 20
_GANTT_HEIGHT, _CURVE_HEIGHT, _GAP, _TOP = 260.0, 70.0, 34.0, 24.0
#: Height of the CPU use of one of several nodes, and maximum number of nodes with a curve each.
_LANE_HEIGHT, _MAX_LANES = 36.0, 4
#: Maximum number of ticks of the time axis, and the possible distances between two ticks (s).
_MAX_TICKS: Final = 8
_TICK_STEPS: Final = (
    *(10.0**power * factor for power in (-3, -2, -1) for factor in (1, 2, 5)),
    *(unit * factor for unit in (1.0, 60.0) for factor in (1, 2, 5, 10, 20, 30)),
    *(3600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(86400.0 * 10**power * factor for power in range(6) for factor in (1, 2, 5)),
)
#: Legible on white and on black.
INK: Final = "#7d858f"


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
    executions = require_executions(select_executions(require_trace(trace)))
    tasks = executions["task"].n_unique()
    if tasks > MAX_TASKS:
        raise InputError(
            f"{tasks:,} tasks are too many for a static picture of at most {MAX_TASKS}",
            kind="too-large",
            remedy="use write_run_page, which has no limit",
        )
    in_use = sum_cores_in_use(executions)
    queue = Steps(in_use.t[:0], in_use.level[:0])
    with suppress(InputError):  # no submission times
        queue, _ = count_waiting(trace)
    lanes: list[Lane] = []
    with suppress(InputError):  # no samples
        lanes, _ = make_lanes(trace, _MAX_LANES)
    times = np.concatenate([in_use.t, queue.t, *(lane.cpu_use.t for lane in lanes)])
    first, last = float(times.min()), float(times.max())
    bands = Bands.of(trace, executions)
    names = (shorten_name(name, _MAX_NAME_LENGTH) for name in bands.rows if name != UNRECORDED)
    time_scale = _HorizontalScale(
        first, last, max(_LEFT, 12 + _LETTER_WIDTH * max(map(len, names), default=0))
    )
    available = sum_available_cores(trace, first, last)
    parts = [
        *_draw_gantt(
            bands,
            executions,
            time_scale,
            colours.choose_grouping(executions, colour),
            find_absences(trace, last),
        )
    ]
    top = _TOP + _GANTT_HEIGHT + _GAP
    parts += _draw_curve("cores in use", in_use, time_scale, top, colours.CURVE, available)
    top += _CURVE_HEIGHT + _GAP
    lane_height = _CURVE_HEIGHT if len(lanes) == 1 else _LANE_HEIGHT
    for lane in lanes:
        title = f"CPU use, cores of {shorten_name(lane.name, _MAX_NAME_LENGTH)}"
        parts += _draw_curve(
            title, lane.cpu_use, time_scale, top, colours.USED, lane.limit, lane_height
        )
        top += lane_height + _GAP
    parts += _draw_curve("waiting tasks", queue, time_scale, top, colours.SECOND, None)
    top += _CURVE_HEIGHT
    parts += _draw_times(TimeAxis.of(trace, last - first), first, last, time_scale, top)
    height = top + (26 if trace.manifest.epoch_ms is None else 40)
    summary = f"{format_count(tasks, 'task')} over {format_duration(last - first)}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="11" fill="{INK}">\n'
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
        """Return the horizontal position of a time (s), in pixels."""
        return self.left + (t - self._first) * self._scale


def _draw_times(
    axis: TimeAxis, first: float, last: float, time_scale: _HorizontalScale, top: float
) -> Iterator[str]:
    if axis.epoch_ms is not None:
        yield draw_text(time_scale.left, top + 30, axis.format_time(first), "start")
        yield draw_text(_WIDTH - _RIGHT, top + 30, axis.format_time(last), "end")
    step = next((step for step in _TICK_STEPS if (last - first) / step <= _MAX_TICKS), last - first)
    for tick in np.arange(np.ceil(first / step), np.floor(last / step) + 1) * step:
        x = time_scale.x(tick)
        yield draw_line(x, top, x, top + 4)
        anchor = "end" if x > _WIDTH - 2 * _RIGHT else "middle"
        yield draw_text(x, top + 16, format_duration(tick), anchor)


def _draw_gantt(
    bands: Bands,
    executions: pl.DataFrame,
    time_scale: _HorizontalScale,
    by: ColourBy,
    absences: pl.DataFrame,
) -> Iterator[str]:
    groups = colours.group_executions(executions, by)
    shades = [
        colours.get_colour(by, label, index, members)
        for index, (label, members) in enumerate(groups.select("label", "members").rows())
    ]
    is_single = groups["members"] == 1
    colour = dict(zip(groups["group"].filter(is_single), shades, strict=False))
    top = max(high for _, high in bands.rows.values()) or 1.0
    scale = _GANTT_HEIGHT / top
    title = f"tasks on machines, coloured by {by}"
    yield draw_text(time_scale.left, _TOP - 8, title, "start")
    yield from _draw_legend(
        groups["label"].to_list(), shades, time_scale.left + _LETTER_WIDTH * len(title)
    )
    keys = executions.select(colours.get_group_key(by))[:, 0].to_list()
    rows = executions.with_columns(outcome=pl.coalesce("reason", "status")).rows(named=True)
    for number, low, high in bands.pieces.rows():
        row = rows[number]
        x, y = time_scale.x(row["start"]), _TOP + low * scale
        width, height = max(time_scale.x(row["end"]) - x, 0.5), max((high - low) * scale, 0.3)
        shade = colour.get(keys[number], colours.OTHERS)
        yield (
            f'<rect class="task" x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" '
            f'height="{height:.2f}" fill="{shade}" stroke="{INK}" stroke-width="0.4">'
            f"<title>{escape(_describe_execution(row))}</title></rect>"
        )
        name = row["task"] or ""
        if _LETTER_WIDTH * len(name) < width and height > 12:
            yield (
                f'<text class="name" x="{x + width / 2:.2f}" y="{y + height / 2 + 4:.2f}" '
                f'text-anchor="middle" fill="#ffffff">{escape(name)}</text>'
            )
    yield from _draw_absences(bands, absences, time_scale, scale)
    stride = -(-len(bands.rows) // min(MAX_LABELS, int(_GANTT_HEIGHT / 12)))
    for index, (name, (low, high)) in enumerate(bands.rows.items()):
        if index:
            y = _TOP + low * scale
            yield draw_line(time_scale.left, y, _WIDTH - _RIGHT, y, 'stroke-opacity="0.35"')
        if name == UNRECORDED:
            yield draw_text(
                time_scale.left - 6, _TOP + 10, f"{format_number(high - low)} cores", "end"
            )
        elif index % stride == 0:
            label = shorten_name(name, _MAX_NAME_LENGTH)
            yield draw_text(time_scale.left - 6, _TOP + (low + high) / 2 * scale + 4, label, "end")
    yield draw_line(time_scale.left, _TOP, time_scale.left, _TOP + _GANTT_HEIGHT)
    yield draw_line(time_scale.left, _TOP + _GANTT_HEIGHT, _WIDTH - _RIGHT, _TOP + _GANTT_HEIGHT)


def _describe_execution(row: dict[str, Any]) -> str:
    """Describe an execution for its tooltip."""
    attempt = f", attempt {row['attempt'] + 1}" if row["attempt"] else ""
    duration = format_duration(row["end"] - row["start"])
    outcome = f", {row['outcome']}" if row["outcome"] else ""
    return f"{row['task']}{attempt}: {format_number(row['cores'])} cores, {duration}{outcome}"


def _draw_absences(
    bands: Bands, absences: pl.DataFrame, time_scale: _HorizontalScale, scale: float
) -> Iterator[str]:
    """Draw the periods in which a node was not available."""
    for node, start, end, _ in absences.rows():
        if node in bands.rows:
            low, high = bands.rows[node]
            x = max(time_scale.x(start), time_scale.left)
            width = max(time_scale.x(end) - x, 0.5)
            yield (
                f'<rect class="away" x="{x:.2f}" y="{_TOP + low * scale:.2f}" '
                f'width="{width:.2f}" height="{(high - low) * scale:.2f}" '
                f'fill="{INK}" fill-opacity="0.45"><title>{escape(node)}: not available'
                "</title></rect>"
            )


def _draw_legend(labels: list[str], shades: list[str], x: float) -> Iterator[str]:
    """Draw the legend of the colours, as far as there is space."""
    for label, shade in zip(labels, shades, strict=True):
        text = shorten_name(label, _MAX_NAME_LENGTH)
        end = x + 24 + _LETTER_WIDTH * len(text)
        if end > _WIDTH - _RIGHT:
            return
        yield f'<rect x="{x:.2f}" y="{_TOP - 17:.2f}" width="9" height="9" fill="{shade}"/>'
        yield draw_text(x + 13, _TOP - 8, text, "start")
        x = end


def _draw_curve(
    title: str,
    steps: Steps,
    time_scale: _HorizontalScale,
    top: float,
    colour: str,
    limit: Steps | None,
    height: float = _CURVE_HEIGHT,
) -> Iterator[str]:
    highest = float(steps.level.max(initial=0.0))
    top_level = max(highest, float(limit.level.max()) if limit is not None else 0.0) or 1.0
    bottom = top + height

    def path(curve: Steps) -> str:
        x = np.repeat([time_scale.x(t) for t in curve.t], 2)[1:]
        y = np.repeat(bottom - curve.level / top_level * height, 2)[:-1]
        return " ".join(f"{a:.2f},{b:.2f}" for a, b in zip(x, y, strict=True))

    yield draw_text(time_scale.left, top - 8, title, "start")
    yield draw_text(time_scale.left - 6, top + 8, format_number(top_level), "end")
    yield draw_text(time_scale.left - 6, bottom, "0", "end")
    if steps.t.size:
        start, end = time_scale.x(steps.t[0]), time_scale.x(steps.t[-1])
        area = f"{start:.2f},{bottom:.2f} {path(steps)} {end:.2f},{bottom:.2f}"
        yield f'<polygon points="{area}" fill="{colour}" fill-opacity="0.25"/>'
        yield f'<polyline points="{path(steps)}" fill="none" stroke="{colour}"/>'
    if limit is not None:
        yield (
            f'<polyline points="{path(limit)}" fill="none" stroke="{INK}" stroke-dasharray="3 3"/>'
        )
    yield draw_line(time_scale.left, top, time_scale.left, bottom)
    yield draw_line(time_scale.left, bottom, _WIDTH - _RIGHT, bottom)


def draw_text(x: float, y: float, text: str, anchor: str) -> str:
    """Draw a text at a position, aligned at its start, middle or end.

    >>> draw_text(10, 20, "1 < 2", "end")
    '<text x="10.00" y="20.00" text-anchor="end">1 &lt; 2</text>'
    """
    return f'<text x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(text)}</text>'


def draw_line(x1: float, y1: float, x2: float, y2: float, attributes: str = "") -> str:
    """Draw a line between two positions.

    >>> draw_line(0, 0, 5, 5)
    '<line x1="0.00" y1="0.00" x2="5.00" y2="5.00" stroke="#7d858f"/>'
    """
    ends = f'x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"'
    return f'<line {ends} stroke="{INK}" {attributes}/>'.replace(" />", "/>")
