"""Accumulation of an energy counter across its wrap-arounds."""

from __future__ import annotations

from typing import Final

#: Maximum power of one counter (W). If a counter could wrap around at this power between two
#: readings, its number of wrap-arounds is unknown.
MAX_WATTS: Final = 1000.0


class EnergyCounter:
    """The energy since the first reading of a counter.

    A counter of limited range wraps around to zero: a reading that is lower than the last means one
    wrap-around, if the counter is read often enough. Otherwise, or if a counter without a range
    decreases, the energy between the two readings is unknown, and the series has a gap.

    Args:
        wraps_at: The range of the counter in its own unit; None if it has none.
        per_joule: Units of the counter per joule.

    >>> counter = EnergyCounter(wraps_at=1000, per_joule=10)
    >>> [counter.add_reading(t, value) for t, value in ((0.0, 950), (0.1, 990), (0.2, 20))]
    [True, True, True]
    >>> counter.joules, counter.wraps
    (7.0, 1)
    """

    def __init__(self, wraps_at: float | None, per_joule: float = 1e6) -> None:
        self._wraps_at = wraps_at
        self._per_joule = per_joule
        self._value: float | None = None
        self._t = 0.0
        self._total: float = 0
        #: Number of wrap-arounds.
        self.wraps = 0
        #: Number of decreases of a counter without a range, which are not wrap-arounds.
        self.resets = 0
        #: Number of gaps in which it may have wrapped around more than once.
        self.unsure = 0
        #: Number of readings that differ from the one before.
        self.updates = 0

    @property
    def joules(self) -> float:
        """The known energy since the first reading (J)."""
        return self._total / self._per_joule

    @property
    def max_gap(self) -> float:
        """Maximum time between two readings with a known number of wrap-arounds (s)."""
        if self._wraps_at is None:
            return float("inf")
        return self._wraps_at / self._per_joule / MAX_WATTS

    def add_reading(self, t: float, value: float) -> bool:
        """Add a reading; returns False if the energy since the one before is unknown."""
        previous, elapsed = self._value, t - self._t
        self._value, self._t = value, t
        if previous is None:
            return True
        increase = value - previous
        self.updates += increase != 0
        if elapsed > self.max_gap:
            self.unsure += 1
            return False
        if increase < 0:
            if self._wraps_at is None:
                self.resets += 1
                return False
            self.wraps += 1
            increase += self._wraps_at
        self._total += increase
        return True

    def mark_gap(self) -> None:
        """Mark a missing reading: the energy until the next reading is unknown.

        >>> counter = EnergyCounter(None, per_joule=1)
        >>> _ = counter.add_reading(0.0, 5)
        >>> counter.mark_gap()
        >>> counter.add_reading(1.0, 500), counter.joules
        (True, 0.0)
        """
        self._value = None
