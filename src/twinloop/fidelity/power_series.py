"""Total power of both runs in windows of equal length on a common time axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from twinloop.fidelity.compared_run import ComparedRun, find_origins
from twinloop.fidelity.criteria import Criteria
from twinloop.metrics.energy_and_carbon import find_power_intervals
from twinloop.metrics.tasks import finite_column
from twinloop.metrics.weighted_intervals import Floats, WeightedIntervals
from twinloop.trace.trace import Trace

#: Minimum share of a window that measurements must cover; the power of other windows is unknown.
_MIN_COVERAGE = 0.99
#: Maximum coefficient of variation of a power that is treated as constant.
CONSTANT_TOLERANCE = 1e-5
#: Maximum number of windows of a run.
_MAX_WINDOWS = 20_000_000
_EMPTY_POWER_FRAME = pl.DataFrame(
    schema=dict.fromkeys(("t", "real_w", "twin_w", "real", "twin", "residual"), pl.Float64)
)


@dataclass(frozen=True, slots=True)
class PowerSeries:
    """Mean total power (W) in windows of equal length, starting at window `first`; NaN if unknown.

    >>> table = pl.DataFrame({"t": [2.0, 4.0], "dt": [2.0, 2.0], "watts": [10.0, 20.0]})
    >>> PowerSeries.from_trace(Trace(power=table), origin=0.0, step=1.0).watts.tolist()
    [10.0, 10.0, 20.0, 20.0]
    """

    first: int
    watts: Floats

    @classmethod
    def from_trace(cls, trace: Trace, origin: float, step: float) -> PowerSeries | None:
        """Compute the series of a trace in windows of `step` seconds; window 0 starts at `origin`.

        None if no power is known or there are too many windows.
        """
        intervals, _ = find_power_intervals(trace)
        if intervals is None or not intervals.start.size:
            return None
        start, end = (intervals.start - origin) / step, (intervals.end - origin) / step
        first, last = math.floor(start.min()), math.ceil(end.max())
        if last - first > _MAX_WINDOWS:
            return None
        edges = np.arange(first, last + 1, dtype=np.float64)
        energy, coverage = (
            np.diff(_integrate(WeightedIntervals(start, end, weight), edges))
            for weight in (intervals.weight, np.ones(start.size))
        )
        coverage /= _count_summed_series(trace)
        complete = coverage >= _MIN_COVERAGE
        unknown = np.full_like(coverage, np.nan)
        return cls(first, np.divide(energy, coverage, out=unknown, where=complete))

    def slice(self, first: int, last: int) -> Floats:
        """Return the windows from `first` to before `last`, NaN beyond the ends."""
        part = np.full(last - first, np.nan)
        begin, end = max(first, self.first), min(last, self.first + self.watts.size)
        if begin < end:
            part[begin - first : end - first] = self.watts[begin - self.first : end - self.first]
        return part


def build_power_frame(real: ComparedRun, twin: ComparedRun, criteria: Criteria) -> pl.DataFrame:
    """Build the frame `power` of `Verdict.series`: the power of both runs, with z-scores.

    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> build_power_frame(*sides, Criteria()).height
    0
    """
    step = criteria.power.step
    series = align_power_series(real, twin, step, 0.0)
    if isinstance(series, str):
        return _EMPTY_POWER_FRAME
    first = min(run.first for run in series)
    last = max(run.first + run.watts.size for run in series)
    watts = [run.slice(first, last) for run in series]
    scores = [_compute_z_scores(values) for values in watts]
    frame = pl.DataFrame(
        {
            "t": np.arange(first, last) * step,
            "real_w": watts[0],
            "twin_w": watts[1],
            "real": scores[0],
            "twin": scores[1],
            "residual": scores[1] - scores[0],
        }
    )
    return frame.fill_nan(None).filter(~pl.all_horizontal(pl.col("real_w", "twin_w").is_null()))


def align_power_series(
    real: ComparedRun, twin: ComparedRun, step: float, offset: float
) -> tuple[PowerSeries, PowerSeries] | str:
    """Return the power of both runs on a common time axis, or the reason why there is none.

    Args:
        real: The real run.
        twin: The twin.
        step: Length of the windows (s).
        offset: Time added to the times of the real run (s).

    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> align_power_series(*sides, 1.0, 0.0)
    'the real run and the twin have no power'
    """
    real_origin, twin_origin = find_origins(real, twin)
    real_series = PowerSeries.from_trace(real.trace, real_origin - offset, step)
    twin_series = PowerSeries.from_trace(twin.trace, twin_origin, step)
    if real_series is not None and twin_series is not None:
        return real_series, twin_series
    both = ((real, real_series), (twin, twin_series))
    without = [run for run, series in both if series is None]
    if all(run.trace.power.height for run in without):
        return "a power table has no known value, or has too many windows of power.step"
    have = "have" if len(without) > 1 else "has"
    return f"{' and '.join(run.label for run in without)} {have} no power"


def is_constant(watts: Floats) -> bool:
    """Whether a power is constant within the tolerance.

    >>> is_constant(np.array([100.0, 100.0001])), is_constant(np.array([100.0, 101.0]))
    (True, False)
    """
    return bool(watts.std() <= CONSTANT_TOLERANCE * np.abs(watts).mean())


def _compute_z_scores(watts: Floats) -> Floats:
    """Compute the z-scores of the known values; 0 if they are constant."""
    known = watts[~np.isnan(watts)]
    if not known.size or is_constant(known):
        return np.where(np.isnan(watts), np.nan, 0.0)
    scores: Floats = (watts - known.mean()) / known.std()
    return scores


def _integrate(intervals: WeightedIntervals, edges: Floats) -> Floats:
    """Integrate the intervals up to each of the edges."""
    times, level = intervals.steps()
    if not times.size:
        return np.zeros(edges.size)
    integral = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
    up_to_edges: Floats = np.interp(edges, times, integral)
    return up_to_edges


def _count_summed_series(trace: Trace) -> int:
    """Count the series whose sum is the total power: one of the cluster, or one per node."""
    table = trace.power.select(
        "node", finite_column("t"), finite_column("dt"), finite_column("watts")
    )
    nodes = table.drop_nulls(["t", "dt", "watts"])["node"]
    return 1 if table["node"].null_count() else max(1, nodes.n_unique())
