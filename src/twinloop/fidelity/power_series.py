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

#: Minimum covered share of a window with known power.
_COVERED = 0.99
#: Maximum coefficient of variation of a constant power.
CONSTANT = 1e-5
_MOST_STEPS = 20_000_000
TREND = pl.DataFrame(
    schema=dict.fromkeys(("t", "real_w", "twin_w", "real", "twin", "residual"), pl.Float64)
)


@dataclass(frozen=True, slots=True)
class PowerSeries:
    """Total power in windows of equal length, starting at window `first`; NaN if unknown.

    >>> table = pl.DataFrame({"t": [2.0, 4.0], "dt": [2.0, 2.0], "watts": [10.0, 20.0]})
    >>> PowerSeries.from_trace(Trace(power=table), origin=0.0, step=1.0).watts.tolist()
    [10.0, 10.0, 20.0, 20.0]
    """

    first: int
    watts: Floats

    @classmethod
    def from_trace(cls, trace: Trace, origin: float, step: float) -> PowerSeries | None:
        """Compute the series of a trace, with windows from `origin` on; None without power."""
        intervals, _ = find_power_intervals(trace)
        if intervals is None or not intervals.start.size:
            return None
        start, end = (intervals.start - origin) / step, (intervals.end - origin) / step
        first, last = math.floor(start.min()), math.ceil(end.max())
        if last - first > _MOST_STEPS:
            return None
        edges = np.arange(first, last + 1, dtype=np.float64)
        energy, known = (
            np.diff(_area(WeightedIntervals(start, end, weight), edges))
            for weight in (intervals.weight, np.ones(start.size))
        )
        known /= _count_meters(trace)
        complete = known >= _COVERED
        return cls(first, np.divide(energy, known, out=np.full_like(known, np.nan), where=complete))

    def slice(self, first: int, last: int) -> Floats:
        """Return the windows from `first` to before `last`, NaN beyond the ends."""
        found = np.full(last - first, np.nan)
        begin, end = max(first, self.first), min(last, self.first + self.watts.size)
        if begin < end:
            found[begin - first : end - first] = self.watts[begin - self.first : end - self.first]
        return found


def build_power_frame(real: ComparedRun, twin: ComparedRun, criteria: Criteria) -> pl.DataFrame:
    """Build the frame of the power of both runs with z-scores, for `Verdict.series`.

    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> build_power_frame(*sides, Criteria()).height
    0
    """
    step = criteria.power.step
    series = align_power_series(real, twin, step, 0.0)
    if isinstance(series, str):
        return TREND
    first = min(one.first for one in series)
    last = max(one.first + one.watts.size for one in series)
    watts = [one.slice(first, last) for one in series]
    scores = [_z_score(values) for values in watts]
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

    >>> sides = ComparedRun(Trace(), "the real run"), ComparedRun(Trace(), "the twin")
    >>> align_power_series(*sides, 1.0, 0.0)
    'the real run and the twin have no power'
    """
    first = find_origins(real, twin)
    a = PowerSeries.from_trace(real.trace, first[0] - offset, step)
    b = PowerSeries.from_trace(twin.trace, first[1], step)
    if a is not None and b is not None:
        return a, b
    without = [side for side, power in ((real, a), (twin, b)) if power is None]
    if all(side.trace.power.height for side in without):
        return "a power table has no known value, or is too long for power.step"
    have = "have" if len(without) > 1 else "has"
    return f"{' and '.join(side.label for side in without)} {have} no power"


def is_constant(watts: Floats) -> bool:
    """Whether a power is constant within the tolerance.

    >>> is_constant(np.array([100.0, 100.0001])), is_constant(np.array([100.0, 101.0]))
    (True, False)
    """
    return bool(watts.std() <= CONSTANT * np.abs(watts).mean())


def _z_score(watts: Floats) -> Floats:
    known = watts[~np.isnan(watts)]
    if not known.size or is_constant(known):
        return np.where(np.isnan(watts), np.nan, 0.0)
    scored: Floats = (watts - known.mean()) / known.std()
    return scored


def _area(intervals: WeightedIntervals, edges: Floats) -> Floats:
    """Integrate the intervals up to each of the edges."""
    at, level = intervals.steps()
    if not at.size:
        return np.zeros(edges.size)
    so_far = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(at))])
    found: Floats = np.interp(edges, at, so_far)
    return found


def _count_meters(trace: Trace) -> int:
    """Return the number of meters of the total power: one, or one per node."""
    known = trace.power.select(
        "node", finite_column("t"), finite_column("dt"), finite_column("watts")
    )
    nodes = known.drop_nulls(["t", "dt", "watts"])["node"]
    return 1 if known["node"].null_count() else max(1, nodes.n_unique())
