"""Energy over time from readings of counters and sensors, with gaps where it is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: A gap between readings of a sensor that is longer than so many median gaps is unknown time.
MAX_GAP_FACTOR: Final = 3.0
#: Ends of windows that differ by less are equal (s).
_TINY: Final = 1e-6


@dataclass(frozen=True)
class EnergyInterval:
    """An interval in which the energy is known, as the sum from its begin to each time.

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
        """The part between two times; None: there is none."""
        begin, stop = max(self.t[0], start), min(self.t[-1], end)
        if not stop > begin:
            return None
        inside = self.t[(self.t > begin) & (self.t < stop)]
        times = np.concatenate([[begin], inside, [stop]])
        joules = np.interp(times, self.t, self.joules)
        return EnergyInterval(times, joules - joules[0])

    def windows(self) -> tuple[Floats, Floats, Floats]:
        """End, length and mean power of windows that end at every full second."""
        first, last = self.t[0], self.t[-1]
        seconds = np.arange(np.ceil(first + _TINY), last - _TINY + 1.0)
        cuts = np.concatenate([[first], seconds[seconds < last - _TINY], [last]])
        lengths = np.diff(cuts)
        # Rounding must not make a power of zero negative.
        used = np.maximum(np.diff(np.interp(cuts, self.t, self.joules)), 0.0)
        return cuts[1:], lengths, used / lengths


@dataclass(frozen=True)
class EnergySeries:
    """The intervals in which an energy is known, in the order of time.

    >>> t, joules = np.array([0.0, 1.0, 2.0, 3.0]), np.array([5.0, 5.0, 9.0, 15.0])
    >>> counted = EnergySeries.from_counter(t, joules)
    >>> [(stretch.t.tolist(), stretch.joules.tolist()) for stretch in counted.stretches]
    [([2.0, 3.0], [0.0, 6.0])]
    """

    stretches: tuple[EnergyInterval, ...] = ()

    @classmethod
    def from_counter(cls, t: Floats, joules: Floats) -> EnergySeries:
        """Make a series from readings of a counter at these times; NaN is a gap.

        Only a reading that differs from the one before shows when the counter was updated. The
        first reading does not, and is used only if every reading differs, so that the counter is
        updated more often than it is read.
        """
        stretches = []
        for begin, end in _unbroken(joules, np.diff(joules) < 0):
            times, values = _last_of_each(t[begin:end], joules[begin:end])
            changed = np.diff(values) > 0
            updated = np.concatenate([[changed.all()], changed])
            if np.count_nonzero(updated) > 1:
                times, values = times[updated], values[updated]
                stretches.append(EnergyInterval(times, values - values[0]))
        return cls(tuple(stretches))

    @classmethod
    def from_sensor(cls, t: Floats, watts: Floats) -> EnergySeries:
        """Make a series from readings of a power sensor at these times; NaN is a gap.

        A reading is the power since the one before, unless the time between them is much longer
        than the median.
        """
        pause = np.diff(t)
        usual = float(np.median(pause)) if pause.size else 0.0
        stretches = []
        for begin, end in _unbroken(watts, pause > MAX_GAP_FACTOR * usual):
            times, values = _last_of_each(t[begin:end], watts[begin:end])
            if times.size > 1:
                joules = np.concatenate([[0.0], np.cumsum(values[1:] * np.diff(times))])
                stretches.append(EnergyInterval(times, joules))
        return cls(tuple(stretches))

    @property
    def length(self) -> float:
        """Length of all intervals (s)."""
        return sum(stretch.length for stretch in self.stretches)

    def clip(self, start: float, end: float) -> EnergySeries:
        """The part between two times.

        >>> sensed = EnergySeries.from_sensor(np.array([0.0, 4.0]), np.array([1.0, 5.0]))
        >>> sensed.clip(1.0, 9.0).length
        3.0
        """
        parts = (stretch.clip(start, end) for stretch in self.stretches)
        return EnergySeries(tuple(part for part in parts if part is not None))

    @classmethod
    def sum_of(cls, parts: Sequence[EnergySeries]) -> EnergySeries:
        """The sum of several series, where all of them are known.

        >>> one = EnergySeries.from_sensor(np.array([0.0, 4.0]), np.array([1.0, 5.0]))
        >>> two = EnergySeries.from_sensor(np.array([3.0, 7.0]), np.array([1.0, 2.0]))
        >>> [stretch.joules.tolist() for stretch in EnergySeries.sum_of([one, two]).stretches]
        [[0.0, 7.0]]
        """
        return reduce(_sum, parts) if parts else cls()


def sum_known_time(parts: Sequence[EnergySeries]) -> float:
    """Return the length of the time in which any of the series is known (s).

    >>> one = EnergySeries.from_sensor(np.array([0.0, 4.0]), np.array([1.0, 5.0]))
    >>> two = EnergySeries.from_sensor(np.array([3.0, 7.0]), np.array([1.0, 2.0]))
    >>> sum_known_time([one, two])
    7.0
    """
    total, until = 0.0, -np.inf
    ends = sorted((s.t[0], s.t[-1]) for part in parts for s in part.stretches)
    for start, end in ends:
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return float(total)


def _sum(one: EnergySeries, other: EnergySeries) -> EnergySeries:
    stretches = []
    left, right = list(one.stretches), list(other.stretches)
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        begin, end = max(a.t[0], b.t[0]), min(a.t[-1], b.t[-1])
        if end > begin:
            times = np.union1d(a.t, b.t)
            inside = times[(times > begin) & (times < end)]
            t = np.concatenate([[begin], inside, [end]])
            joules = np.interp(t, a.t, a.joules) + np.interp(t, b.t, b.joules)
            stretches.append(EnergyInterval(t, joules - joules[0]))
        if a.t[-1] <= b.t[-1]:
            i += 1
        else:
            j += 1
    return EnergySeries(tuple(stretches))


def _unbroken(values: Floats, break_before_next: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The ranges of rows without missing values and without a break between two rows."""
    known = ~np.isnan(values)
    linked = known[1:] & known[:-1] & ~break_before_next
    starts = np.flatnonzero(known & ~np.concatenate([[False], linked]))
    ends = np.flatnonzero(known & ~np.concatenate([linked, [False]])) + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _last_of_each(t: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Keep the last of the readings at one time."""
    keep = np.concatenate([np.diff(t) > 0, [True]])
    return t[keep], values[keep]
