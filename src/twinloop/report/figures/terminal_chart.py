"""Charts of block characters for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import polars as pl

from twinloop.description import InputError
from twinloop.report.figures.curves import count_waiting, sum_cores_in_use
from twinloop.report.figures.executions import get_capacity, select_executions
from twinloop.report.figures.steps import Steps
from twinloop.report.figures.usage import make_lanes
from twinloop.report.quantity_text import format_duration, format_number
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

_BLOCKS = " ▁▂▃▄▅▆▇█"


def render_load_chart(load: pl.DataFrame, *, height: int = 7) -> str:
    """Render the load over time as a chart of block characters, one column per bin.

    The chart shows the first of these that is known: cores in use, CPU use, submitted work,
    submitted tasks.

    Args:
        load: The table of `compute_load_over_time`.
        height: The height of the chart, in lines.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"t": [0.0, 5.0], "dt": [5.0, 5.0], "submitted": [1.0, 0.0],
    ...     "offered": [2.0, 0.0], "running": [1.0, 4.0], "used": [None, None]})
    >>> print(render_load_chart(frame, height=2))
    cores in use
           4 ┤ █
           0 ┤▄█
             └──
              0 s to 10 s
    """
    if not load.height:
        return "nothing to draw: no task has a submission or start time"
    name, title = choose_load_column(load)
    values = load[name].fill_null(0.0).to_list()
    end = load["t"][-1] + load["dt"][-1]
    return _render_chart(title, values, max(values), load["t"][0], end, height)


def render_run_chart(trace: Trace, width: int = 80, *, height: int = 5) -> str:
    """Render the cores in use and the waiting tasks over time, as charts of block characters.

    A column is the mean over its bin of time; the maximum in the title is exact. A trace with
    samples has a chart of the CPU use between the two. A trace in which no task has a known wait
    has no chart of the waiting tasks.

    >>> import polars as pl
    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0], "requested_cores": 2.0}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 5.0], "end": [5.0, 10.0]}),
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    ... )
    >>> print(render_run_chart(trace, width=14, height=2))
    cores in use: 2 of 4 on average, at most 2
           4 ┤
           0 ┤████
             └────
              0 s to 10 s
    waiting tasks: 0.5 on average, at most 1
           1 ┤██
           0 ┤██
             └────
              0 s to 10 s
    """
    in_use = sum_cores_in_use(select_executions(require_trace(trace)))
    queue: Steps | None = None
    with suppress(InputError):  # no task has a known wait
        queue, _ = count_waiting(trace)
    cpu_use: Steps | None = None
    with suppress(InputError):  # no samples
        cpu_use = make_lanes(trace, 0)[0][0].cpu_use  # one lane of all nodes
    times = [steps.t for steps in (in_use, cpu_use, queue) if steps is not None and steps.t.size]
    first, last = min(t[0] for t in times), max(t[-1] for t in times)
    edges = np.linspace(first, last, max(width - 10, 4) + 1)
    mean, highest = in_use.area / (last - first), float(in_use.level.max())
    capacity = get_capacity(trace)
    of_capacity = "" if capacity is None else f" of {format_number(capacity)}"
    average = f"{format_number(mean)}{of_capacity}"
    title = f"cores in use: {average} on average, at most {format_number(highest)}"
    levels = in_use.means(edges).tolist()
    charts = [_render_chart(title, levels, max(capacity or 0.0, *levels), first, last, height)]
    if cpu_use is not None:
        mean = cpu_use.area / (last - first)
        title = f"CPU use: {format_number(mean)}{of_capacity} cores on average"
        levels = cpu_use.means(edges).tolist()
        charts.append(
            _render_chart(title, levels, max(capacity or 0.0, *levels), first, last, height)
        )
    if queue is not None:
        mean = queue.area / (last - first)
        highest = float(queue.level.max(initial=0.0))
        title = f"waiting tasks: {format_number(mean)} on average, at most {format_number(highest)}"
        levels = queue.means(edges).tolist()
        charts.append(_render_chart(title, levels, max(levels), first, last, height))
    return "\n".join(charts)


def _render_chart(
    title: str, values: Sequence[float], top: float, first: float, last: float, height: int
) -> str:
    top = top or 1.0
    lines = [title]
    for row in reversed(range(height)):
        label = format_number(top) if row == height - 1 else "0" if row == 0 else ""
        cells = (_choose_block(value / top * height - row) for value in values)
        lines.append(f"{label:>8} ┤{''.join(cells)}".rstrip())
    lines.append(f"{'':>8} └{'─' * len(values)}")
    lines.append(f"{'':>10}{format_duration(first)} to {format_duration(last)}")
    return "\n".join(lines)


def choose_load_column(load: pl.DataFrame) -> tuple[str, str]:
    """Choose the first known column of a load table, and return it with its title."""
    if load["running"].null_count() < load.height:
        return "running", "cores in use"
    if load["used"].null_count() < load.height:
        return "used", "CPU use, in cores"
    if load["offered"].sum() > 0:
        return "offered", "submitted work, in cores"
    return "submitted", "submitted tasks"


def _choose_block(fill: float) -> str:
    return _BLOCKS[round(min(max(fill, 0.0), 1.0) * 8)]
