"""Energy and carbon emission from the power table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import finite_column
from twinloop.metrics.weighted_intervals import Floats, WeightedIntervals
from twinloop.trace.trace import Trace, require_trace

JOULES_PER_KWH = 3.6e6


def energy(trace: Trace, start: float = -math.inf, end: float = math.inf) -> float | None:
    """Compute the energy in J between two times from the power table; None if unknown.

    Rows of the total power are used if there are any, otherwise the rows of the nodes. A window
    that is partly outside the interval counts proportionally.

    >>> trace = Trace(power=pl.DataFrame({"t": [10.0, 20.0], "dt": [10.0, 10.0],
    ...     "watts": [100.0, 50.0]}))
    >>> energy(trace), energy(trace, 5, 12)
    (1500.0, 600.0)
    """
    intervals, _ = find_power_intervals(require_trace(trace))
    return None if intervals is None else integrate_power(intervals, start, end)


def integrate_power(
    power: WeightedIntervals, start: float = -math.inf, end: float = math.inf
) -> float | None:
    """Compute the energy in J of a power series between two times; None if unknown.

    >>> power = WeightedIntervals.of(np.array([0.0]), np.array([10.0]), np.array([5.0]))
    >>> integrate_power(power, 8, 20), integrate_power(power, 10, 20)
    (10.0, None)
    """
    return power.area(start, end) if _is_known(power, start, end) else None


def _is_known(power: WeightedIntervals, start: float, end: float) -> bool:
    """Whether the power is known at some time between two times, or the series is empty."""
    inside = (power.start < end) & (power.end > start)
    return bool(inside.any()) or not power.start.size


def find_power_intervals(trace: Trace) -> tuple[WeightedIntervals | None, int]:
    """Return the power over time and the number of windows with unknown power.

    The power is None if it is unknown in every window.

    >>> find_power_intervals(Trace())
    (None, 0)
    """
    if trace.power.is_empty():
        return None, 0
    power = trace.power.select(
        "node", finite_column("t"), finite_column("dt"), finite_column("watts")
    )
    total = power.filter(pl.col("node").is_null())
    power = total if total.height else power
    known = power.drop_nulls(["t", "dt", "watts"])
    if not known.height:
        return None, power.height
    t, dt, watts = (known[name].to_numpy() for name in ("t", "dt", "watts"))
    return WeightedIntervals.of(t - dt, t, watts), power.height - known.height


@dataclass(frozen=True, slots=True)
class CarbonIntensity:
    """Carbon intensity of electricity over time in g/kWh, constant between its times.

    The last value has no end; the intensity before the first time is unknown.

    >>> CarbonIntensity.of(250.0).integral(np.array([4.0]))
    array([1000.])
    """

    t: Floats
    grams_per_kwh: Floats

    @classmethod
    def of(cls, given: float | pl.DataFrame, epoch_ms: int | None = None) -> CarbonIntensity:
        """Create it from a constant or a frame of `grams_per_kwh` and `t` (s) or `unix_ms`."""
        if not isinstance(given, pl.DataFrame):
            series = pl.DataFrame({"t": [-math.inf], "grams_per_kwh": [float(given)]})
        else:
            series = _convert_times(given, epoch_ms)
        t, grams = (series[name].cast(pl.Float64).to_numpy() for name in ("t", "grams_per_kwh"))
        if not t.size or not np.isfinite(grams).all() or (grams < 0).any():
            raise InputError(
                "must be a series of g/kWh, each 0 or more", kind="wrong-columns", field="intensity"
            )
        if np.isnan(t).any() or (np.diff(t) <= 0).any():
            raise InputError(
                "the times must increase",
                kind="wrong-order",
                field="intensity",
                remedy="sort the series",
            )
        return cls(t, grams)

    def integral(self, times: Floats) -> Floats:
        """Integrate the intensity from the first time (a constant: from 0) to each time."""
        if self.t.size == 1:
            origin = self.t[0] if np.isfinite(self.t[0]) else 0.0
            constant: Floats = (times - origin) * self.grams_per_kwh[0]
            return constant
        cumulative = np.concatenate([[0.0], np.cumsum(self.grams_per_kwh[:-1] * np.diff(self.t))])
        index = np.searchsorted(self.t, times, side="right") - 1
        area: Floats = cumulative[index] + self.grams_per_kwh[index] * (times - self.t[index])
        return area


def carbon(
    trace: Trace,
    intensity: float | pl.DataFrame,
    start: float = -math.inf,
    end: float = math.inf,
) -> float | None:
    """Compute the emission of the energy between two times in g of CO2 equivalent; None if unknown.

    The energy of each window of the power table is multiplied by the mean intensity during the
    window. This is exact if the power or the intensity is constant within each window.

    Args:
        trace: A trace with a power table.
        intensity: Carbon intensity in g/kWh: a constant, or a frame of `grams_per_kwh` and `t` (s
            since t = 0) or `unix_ms`, as returned by the reader of OpenDC carbon traces.
        start: Start of the interval (s).
        end: End of the interval (s).

    >>> trace = Trace(power=pl.DataFrame({"t": [7200.0], "dt": [7200.0], "watts": [1000.0]}))
    >>> carbon(trace, pl.DataFrame({"t": [0.0, 3600.0], "grams_per_kwh": [100.0, 300.0]}))
    400.0
    """
    trace = require_trace(trace)
    series = CarbonIntensity.of(intensity, trace.manifest.epoch_ms)
    intervals, _ = find_power_intervals(trace)
    if intervals is None or not _is_known(intervals, start, end):
        return None
    starts, ends = np.maximum(intervals.start, start), np.minimum(intervals.end, end)
    inside = ends > starts
    starts, ends, watts = starts[inside], ends[inside], intervals.weight[inside]
    first = starts.min(initial=np.inf)
    if first < series.t[0]:
        raise InputError(
            f"starts at t = {series.t[0]:g} s, after the power at t = {first:g} s",
            kind="carbon-unavailable",
            field="intensity",
            remedy="use a series that covers the run; unix_ms needs the correct epoch",
        )
    mean_times_length = series.integral(ends) - series.integral(starts)
    return float((watts * mean_times_length).sum()) / JOULES_PER_KWH


def note_extrapolated_intensity(
    trace: Trace, intensity: float | pl.DataFrame | None, end: float
) -> tuple[str, ...]:
    """Return a note if there is power before `end` but after the last time of an intensity series.

    >>> trace = Trace(power=pl.DataFrame({"t": [9.0], "dt": [9.0], "watts": [1.0]}))
    >>> series = pl.DataFrame({"t": [0.0, 5.0], "grams_per_kwh": [100.0, 300.0]})
    >>> note_extrapolated_intensity(trace, series, 20.0)
    ('power after t = 5 s is taken at the last carbon intensity',)
    """
    intervals, _ = find_power_intervals(trace)
    if not isinstance(intensity, pl.DataFrame) or intervals is None:
        return ()
    last = CarbonIntensity.of(intensity, trace.manifest.epoch_ms).t[-1]
    if min(intervals.end.max(initial=-math.inf), end) <= last:
        return ()
    return (f"power after t = {last:g} s is taken at the last carbon intensity",)


def _convert_times(given: pl.DataFrame, epoch_ms: int | None) -> pl.DataFrame:
    remedy = "use a frame of grams_per_kwh and t (s since t = 0) or unix_ms"
    if "grams_per_kwh" not in given.columns or not {"t", "unix_ms"} & set(given.columns):
        raise InputError(
            f"lacks a column: it has {given.columns}",
            kind="wrong-columns",
            field="intensity",
            remedy=remedy,
        )
    series = given.select([name for name in ("t", "unix_ms", "grams_per_kwh") if name in given])
    if not all(dtype.is_numeric() for dtype in series.dtypes) or sum(series.null_count().row(0)):
        raise InputError(
            "has values that are not numbers",
            kind="wrong-columns",
            field="intensity",
            remedy=remedy,
        )
    if "t" in given.columns:
        return series
    if epoch_ms is None:
        raise InputError(
            "is in unix_ms, but the trace has no date of t = 0",
            kind="unknown-date",
            field="intensity",
            remedy="give t in seconds since t = 0",
        )
    return series.with_columns(t=(pl.col("unix_ms") - epoch_ms) / 1000)
