"""Energy over time from readings of counters and sensors, with gaps where it is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: If a gap between readings of a sensor is longer than this multiple of the median gap, the power
#: in it is unknown.
MAX_GAP_FACTOR: Final = 3.0
#: Ends of windows that differ by less are equal (s).
_TIME_TOLERANCE: Final = 1e-6


@dataclass(frozen=True)
class EnergyInterval:
    """An interval in which the energy is known, as the sum from its start to each time.

    Between two times the power is constant.

    >>> EnergyInterval(np.array([0.0, 2.0, 3.0]), np.array([0.0, 10.0, 40.0])).windows()[2].tolist()
    [5.0, 5.0, 30.0]
    """

    t: Floats
    joules: Floats

    @property
    def length(self) -> float:
        """Length of the interval (s)."""
        return float(self.t[-1] - self.t[0])

    def clip(self, start: float, end: float) -> EnergyInterval | None:
        """Return the part between two times; None if there is none."""
        begin, stop = max(self.t[0], start), min(self.t[-1], end)
        if not stop > begin:
            return None
        inside = self.t[(self.t > begin) & (self.t < stop)]
        times = np.concatenate([[begin], inside, [stop]])
        joules = np.interp(times, self.t, self.joules)
        return EnergyInterval(times, joules - joules[0])

    def windows(self) -> tuple[Floats, Floats, Floats]:
        """Return end (s), length (s) and mean power (W) of windows that end at full seconds.

        The last window ends at the end of the interval.
        """
        first, last = self.t[0], self.t[-1]
        seconds = np.arange(np.ceil(first + _TIME_TOLERANCE), last - _TIME_TOLERANCE + 1.0)
        edges = np.concatenate([[first], seconds[seconds < last - _TIME_TOLERANCE], [last]])
        lengths = np.diff(edges)
        # Rounding must not make a power of zero negative.
        joules = np.maximum(np.diff(np.interp(edges, self.t, self.joules)), 0.0)
        return edges[1:], lengths, joules / lengths


@dataclass(frozen=True)
class EnergySeries:
    """The intervals in which an energy is known, in the order of time.

    >>> t, joules = np.array([0.0, 1.0, 2.0, 3.0]), np.array([5.0, 5.0, 9.0, 15.0])
    >>> counted = EnergySeries.from_counter(t, joules)
    >>> [(interval.t.tolist(), interval.joules.tolist()) for interval in counted.intervals]
    [([2.0, 3.0], [0.0, 6.0])]
    """

    intervals: tuple[EnergyInterval, ...] = ()

    @classmethod
    def from_counter(cls, t: Floats, joules: Floats) -> EnergySeries:
        """Make a series from readings of a counter at these times; NaN is a gap.

        Only a reading that differs from the one before shows when the counter was updated. The
        first reading does not, and is used only if every reading differs, so that the counter is
        updated more often than it is read.
        """
        intervals = []
        for begin, end in _find_unbroken_ranges(joules, np.diff(joules) < 0):
            times, values = _keep_last_of_each_time(t[begin:end], joules[begin:end])
            changed = np.diff(values) > 0
            updated = np.concatenate([[changed.all()], changed])
            if np.count_nonzero(updated) > 1:
                times, values = times[updated], values[updated]
                intervals.append(EnergyInterval(times, values - values[0]))
        return cls(tuple(intervals))

    @classmethod
    def from_sensor(cls, t: Floats, watts: Floats) -> EnergySeries:
        """Make a series from readings of a power sensor at these times; NaN is a gap.

        A reading is the power since the one before, unless the time between them is much longer
        than the median.
        """
        gaps = np.diff(t)
        median_gap = float(np.median(gaps)) if gaps.size else 0.0
        intervals = []
        for begin, end in _find_unbroken_ranges(watts, gaps > MAX_GAP_FACTOR * median_gap):
            times, values = _keep_last_of_each_time(t[begin:end], watts[begin:end])
            if times.size > 1:
                joules = np.concatenate([[0.0], np.cumsum(values[1:] * np.diff(times))])
                intervals.append(EnergyInterval(times, joules))
        return cls(tuple(intervals))

    @property
    def length(self) -> float:
        """Length of all intervals (s)."""
        return sum(interval.length for interval in self.intervals)

    def clip(self, start: float, end: float) -> EnergySeries:
        """Return the part between two times.

        >>> sensed = EnergySeries.from_sensor(np.array([0.0, 4.0]), np.array([1.0, 5.0]))
        >>> sensed.clip(1.0, 9.0).length
        3.0
        """
        parts = (interval.clip(start, end) for interval in self.intervals)
        return EnergySeries(tuple(part for part in parts if part is not None))

    @classmethod
    def sum_of(cls, parts: Sequence[EnergySeries]) -> EnergySeries:
        """Return the sum of several series, for the times at which all of them are known.

        >>> one = EnergySeries.from_sensor(np.array([0.0, 4.0]), np.array([1.0, 5.0]))
        >>> two = EnergySeries.from_sensor(np.array([3.0, 7.0]), np.array([1.0, 2.0]))
        >>> [interval.joules.tolist() for interval in EnergySeries.sum_of([one, two]).intervals]
        [[0.0, 7.0]]
        """
        return reduce(_sum_pair, parts) if parts else cls()


def sum_known_time(parts: Sequence[EnergySeries]) -> float:
    """Return the length of the time in which any of the series is known (s).

    >>> one = EnergySeries.from_sensor(np.array([0.0, 4.0]), np.array([1.0, 5.0]))
    >>> two = EnergySeries.from_sensor(np.array([3.0, 7.0]), np.array([1.0, 2.0]))
    >>> sum_known_time([one, two])
    7.0
    """
    total, until = 0.0, -np.inf
    ends = sorted((s.t[0], s.t[-1]) for part in parts for s in part.intervals)
    for start, end in ends:
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return float(total)


def _sum_pair(first: EnergySeries, second: EnergySeries) -> EnergySeries:
    intervals = []
    left, right = list(first.intervals), list(second.intervals)
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        begin, end = max(a.t[0], b.t[0]), min(a.t[-1], b.t[-1])
        if end > begin:
            times = np.union1d(a.t, b.t)
            inside = times[(times > begin) & (times < end)]
            t = np.concatenate([[begin], inside, [end]])
            joules = np.interp(t, a.t, a.joules) + np.interp(t, b.t, b.joules)
            intervals.append(EnergyInterval(t, joules - joules[0]))
        if a.t[-1] <= b.t[-1]:
            i += 1
        else:
            j += 1
    return EnergySeries(tuple(intervals))


def _find_unbroken_ranges(
    values: Floats, break_before_next: npt.NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Return the ranges of rows without missing values and without a break between two rows."""
    is_known = ~np.isnan(values)
    is_linked = is_known[1:] & is_known[:-1] & ~break_before_next
    starts = np.flatnonzero(is_known & ~np.concatenate([[False], is_linked]))
    ends = np.flatnonzero(is_known & ~np.concatenate([is_linked, [False]])) + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _keep_last_of_each_time(t: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the readings without those that are followed by another of the same time."""
    keep = np.concatenate([np.diff(t) > 0, [True]])
    return t[keep], values[keep]
