"""An energy counter followed from reading to reading, across its wrap-arounds."""

from __future__ import annotations

from typing import Final

#: No package, memory or machine that a single counter is for draws more than this (W). It bounds
#: how long a counter may go unread before nobody can say how often it has wrapped.
MAX_WATTS: Final = 1000.0


class EnergyCounter:
    """The energy since a counter was first read.

    A counter of limited range starts again at zero; one reading that is lower than the last means
    one wrap, provided that it was read often enough. Where that is not so, and where a counter
    without a range goes down, what was used in between is unknown: the count is broken there.

    Args:
        wraps_at: The range of the counter in its own unit; None: it has none.
        per_joule: How many of its units are a joule.

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
        #: How often it started again at zero as it must.
        self.wraps = 0
        #: How often it went down for another reason.
        self.resets = 0
        #: How often it was left alone for so long that it may have wrapped more than once.
        self.unsure = 0
        #: How often it was found changed.
        self.updates = 0

    @property
    def joules(self) -> float:
        """The energy that is known to have been used since the first reading."""
        return self._total / self._per_joule

    @property
    def max_gap(self) -> float:
        """How long it may go unread (s)."""
        if self._wraps_at is None:
            return float("inf")
        return self._wraps_at / self._per_joule / MAX_WATTS

    def add_reading(self, t: float, value: float) -> bool:
        """Take a reading; false where the energy since the one before is unknown."""
        before, since = self._value, t - self._t
        self._value, self._t = value, t
        if before is None:
            return True
        used = value - before
        self.updates += used != 0
        if since > self.max_gap:
            self.unsure += 1
            return False
        if used < 0:
            if self._wraps_at is None:
                self.resets += 1
                return False
            self.wraps += 1
            used += self._wraps_at
        self._total += used
        return True

    def mark_gap(self) -> None:
        """There was no reading: what is used until the next one is unknown.

        >>> counter = EnergyCounter(None, per_joule=1)
        >>> _ = counter.add_reading(0.0, 5)
        >>> counter.mark_gap()
        >>> counter.add_reading(1.0, 500), counter.joules
        (True, 0.0)
        """
        self._value = None
