"""Pictures that a terminal can show."""

from __future__ import annotations

import polars as pl

from twinloop.report import words

_BLOCKS = " ▁▂▃▄▅▆▇█"


def load_chart(load: pl.DataFrame, *, height: int = 7) -> str:
    """The load over time as a chart of blocks, one column per bin, with its axes.

    Takes what `load_over_time` gives, and shows the cores in use where placements are known, else
    the work that was submitted.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"t": [0.0, 5.0], "dt": [5.0, 5.0], "submitted": [1.0, 0.0],
    ...     "offered": [2.0, 0.0], "running": [1.0, 4.0], "used": [None, None]})
    >>> print(load_chart(frame, height=2))
    cores in use
           4 ┤ █
           0 ┤▄█
             └──
              0 s to 10 s
    """
    if not load.height:
        return "nothing to draw: no task has a time"
    name, title = shown(load)
    values = load[name].fill_null(0.0).to_list()
    top = max(values) or 1.0
    lines = [title]
    for row in reversed(range(height)):
        label = words.number(top) if row == height - 1 else "0" if row == 0 else ""
        cells = (_cell(value / top * height - row) for value in values)
        lines.append(f"{label:>8} ┤{''.join(cells)}".rstrip())
    lines.append(f"{'':>8} └{'─' * load.height}")
    end = load["t"][-1] + load["dt"][-1]
    lines.append(f"{'':>10}{words.duration(load['t'][0])} to {words.duration(end)}")
    return "\n".join(lines)


def shown(load: pl.DataFrame) -> tuple[str, str]:
    """The column of a load table that tells most, and what to call it."""
    if load["running"].null_count() < load.height:
        return "running", "cores in use"
    if load["used"].null_count() < load.height:
        return "used", "cores busy"
    if load["offered"].sum() > 0:
        return "offered", "cores' worth of work submitted"
    return "submitted", "tasks submitted"


def _cell(fill: float) -> str:
    return _BLOCKS[round(min(max(fill, 0.0), 1.0) * 8)]
