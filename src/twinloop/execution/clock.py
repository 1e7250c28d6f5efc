"""The clock of a run: seconds since its t = 0, and the Unix time of t = 0."""

from __future__ import annotations

import os
import time
from typing import Final

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_OFFSET_READINGS: Final = 5


def _measure_offset_ns() -> int:
    """Measure Unix time minus time since the start of the machine, in nanoseconds.

    Each reading of the Unix time lies between two of the other clock, and its error is at most half
    of their distance. On a busy machine the process can lose the processor between two readings, so
    the reading with the shortest distance is used.
    """
    readings = []
    for _ in range(_OFFSET_READINGS):
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        unix = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        readings.append((after - before, unix - (before + after) // 2))
    return min(readings)[1]


class RunClock:
    """Seconds since t = 0, by the clock of the start times of processes (CLOCK_BOOTTIME).

    That clock counts from the start of the machine and is never set. Its offset from Unix time is
    measured once, when the run begins: a correction of the system time during a run does not change
    times of the run.

    >>> clock = RunClock()
    >>> earlier = clock.now()
    >>> clock.now() >= earlier >= 0.0
    True
    """

    def __init__(self, zero_ns: int | None = None) -> None:
        """Begin at `zero_ns`, nanoseconds since the start of the machine, or now."""
        offset_ns = _measure_offset_ns()
        self._zero = time.clock_gettime_ns(time.CLOCK_BOOTTIME) if zero_ns is None else zero_ns
        #: Unix time minus time since the start of the machine (s).
        self.offset = offset_ns / 1e9
        #: Unix time of t = 0 in milliseconds, rounded once from nanoseconds.
        self.epoch_ms = round((self._zero + offset_ns) / 1e6)

    def now(self) -> float:
        """Return the seconds since t = 0."""
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._zero) / 1e9

    def start_time(self, ticks: int, called: float, seen: float) -> tuple[float, bool]:
        """Convert the start of a process to seconds since t = 0; return it and if it was corrected.

        It is corrected if rounding to ticks moves it outside the interval in which it must lie.

        Args:
            ticks: Start time in `/proc`, in ticks since the start of the machine.
            called: Time before the call that started it (s).
            seen: Time after the call (s). The start lies between these two.

        >>> clock = RunClock()
        >>> clock.start_time(0, called=1.0, seen=1.5)
        (1.0, True)
        """
        start = ticks / _TICKS_PER_SECOND - self._zero / 1e9
        corrected = min(max(start, called), seen)
        return corrected, corrected != start
