"""The clock of a run: seconds since its t = 0, and what that is in the time of the world."""

from __future__ import annotations

import os
import time
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class RunClock:
    """Seconds since t = 0, by the clock that the kernel stamps processes with.

    That clock counts from the start of the machine and is never set. How far the time of the world
    is from it is measured once, when the run begins: a correction in the middle of a run moves no
    time of the run.

    >>> clock = RunClock()
    >>> earlier = clock.now()
    >>> clock.now() >= earlier >= 0.0
    True
    """

    def __init__(self) -> None:
        before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        world = time.clock_gettime_ns(time.CLOCK_REALTIME)
        after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._zero = before
        #: Time of the world minus time since the start of the machine (s).
        self.offset = (world - (before + after) // 2) / 1e9
        #: Unix time of t = 0 in milliseconds.
        self.epoch_ms = round(before / 1e6 + self.offset * 1e3)

    def now(self) -> float:
        """Seconds since t = 0."""
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self._zero) / 1e9

    def start_time(self, ticks: int, called: float, seen: float) -> tuple[float, bool]:
        """When a process started, and whether its ticks had to be corrected.

        Args:
            ticks: Its start as the kernel says it, in ticks since the start of the machine.
            called: When it was asked for.
            seen: When it was first there. It cannot have started outside these two.

        >>> clock = RunClock()
        >>> clock.start_time(0, called=1.0, seen=1.5)
        (1.0, True)
        """
        start = ticks / _TICKS - self._zero / 1e9
        inside = min(max(start, called), seen)
        return inside, inside != start
