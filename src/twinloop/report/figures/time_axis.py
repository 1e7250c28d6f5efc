"""Time axis of a figure: dates if the epoch is known, else a suitable unit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from twinloop.metrics.weighted_intervals import Floats
from twinloop.report.quantity_text import format_duration
from twinloop.trace import Trace


def find_extent(trace: Trace) -> tuple[float, float]:
    """Find the first and the last time in a trace; (0, 0) if it has none.

    >>> import polars as pl
    >>> find_extent(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [3.0]}),
    ...     placements=pl.DataFrame({"task": ["a"], "start": [5.0], "end": [9.0]})))
    (3.0, 9.0)
    """
    placements = trace.placements
    times = [trace.tasks["submit"], placements["start"], placements["end"]]
    times += [
        part
        for table in (trace.usage, trace.power)
        for part in (table["t"], table["t"] - table["dt"])
    ]
    finite = np.concatenate([series.drop_nulls().to_numpy() for series in times])
    finite = finite[np.isfinite(finite)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


_UNITS = ((2 * 86400.0, 86400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (120.0, 60.0, "minutes"))
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Conversion of the times of a trace to positions on an axis.

    >>> axis = TimeAxis.of(Trace(), span=7200.0)
    >>> axis.title, axis.at(np.array([3600.0])).tolist()
    ('hours since the start', [1.0])
    """

    title: str
    #: The length of a unit of the axis (s).
    scale: float
    #: Unix time at t = 0 (ms); None: the axis has no dates.
    epoch_ms: int | None

    @classmethod
    def of(cls, trace: Trace, span: float | None = None) -> TimeAxis:
        """Make the axis of a figure that covers `span` seconds; by default the whole trace."""
        epoch = trace.manifest.epoch_ms
        if epoch is not None:
            return cls("date (UTC)", 0.001, epoch)
        if span is None:
            first, last = find_extent(trace)
            span = last - first
        _, scale, unit = next((u for u in _UNITS if span >= u[0]), (0.0, 1.0, "seconds"))
        return cls(f"{unit} since the start", scale, None)

    def at(self, t: Floats) -> Floats:
        """Convert times to positions on the axis."""
        return t / self.scale + (self.epoch_ms or 0)

    def length(self, seconds: Floats) -> Floats:
        """Convert durations to lengths on the axis."""
        return seconds / self.scale

    def layout(self) -> dict[str, Any]:
        """Return the axis as a Plotly layout."""
        kind = "linear" if self.epoch_ms is None else "date"
        return {"title": {"text": self.title}, "type": kind}

    def format_time(self, t: float | None) -> str:
        """Format a time as a date, or as the time since the start.

        >>> TimeAxis("", 0.001, 0).format_time(90.0)
        '1970-01-01 00:01:30'
        """
        if t is None or not np.isfinite(t):
            return "-"
        if self.epoch_ms is None:
            return f"{t:,.0f} s" if float(t).is_integer() else f"{t:,.3f} s"
        try:
            moment = _UNIX + timedelta(milliseconds=self.epoch_ms + 1000 * t)
        except OverflowError:
            return format_duration(t)
        return moment.isoformat(" ", timespec="seconds").removesuffix("+00:00")
