"""Mean power in windows of equal length."""

from __future__ import annotations

import numpy as np

from twinloop.description.errors import InputError
from twinloop.metrics.energy_and_carbon import find_power_intervals
from twinloop.metrics.weighted_intervals import Floats, WeightedIntervals
from twinloop.trace.trace import Trace, require_trace


def average_power(trace: Trace, step: float, begin: float = 0.0) -> Floats:
    """Average the power of all nodes in windows of `step` seconds from `begin` on, in W.

    The average of a window is over its measured part; NaN if less than half of it was measured.

    >>> import polars as pl
    >>> trace = Trace(power=pl.DataFrame({"t": [10.0, 20.0], "dt": [10.0, 10.0],
    ...     "watts": [100.0, 50.0]}))
    >>> average_power(trace, 8.0).tolist()
    [100.0, 62.5, 50.0]
    """
    if not (np.isfinite(step) and step > 0):
        raise InputError(f"must be positive, not {step}", kind="out-of-range", field="power_step")
    intervals, _ = find_power_intervals(require_trace(trace))
    if intervals is None or not intervals.end.size or intervals.end.max() <= begin:
        return np.empty(0)
    count = np.ceil((intervals.end.max() - begin) / step * (1 - 1e-12))
    edges = begin + np.arange(count + 1) * step
    nodes = trace.power["node"]
    sources = nodes.n_unique() if not nodes.null_count() else 1
    measured = (
        _integrate_windows(
            WeightedIntervals(intervals.start, intervals.end, np.ones(intervals.start.size)), edges
        )
        / sources
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        watts: Floats = _integrate_windows(intervals, edges) / measured
    # The last window ends with the last measurement.
    length = np.minimum(edges[1:], intervals.end.max()) - edges[:-1]
    return np.where(measured >= 0.5 * length, watts, np.nan)


def _integrate_windows(intervals: WeightedIntervals, edges: Floats) -> Floats:
    """Integrate the intervals over each of the windows between the edges."""
    times, level = intervals.steps()
    if not times.size:
        return np.zeros(edges.size - 1)
    integral = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    areas: Floats = np.diff(np.interp(edges, times, integral))
    return areas
