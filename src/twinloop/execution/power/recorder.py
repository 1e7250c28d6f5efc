"""Reading the counters of a machine while a run goes on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from twinloop.execution.power.energy_counter import EnergyCounter
from twinloop.execution.power.meters import Meter

#: A row of the journal: node, source, joules since the first reading, watts.
PowerRow = list[Any]

NO_COUNTER: Final = "no power counter on this machine"


class PowerRecorder:
    """Reads counters at a fixed pace.

    Where there is no counter, it is never due, and `facts` says so.

    Args:
        meters: The counters, as `find_meters` finds them.
        period: Seconds between two readings.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as there:
    ...     file = Path(there, "energy_uj")
    ...     recorder = PowerRecorder([Meter(None, "package-0", file, None)])
    ...     _ = file.write_text("5000000")
    ...     _ = recorder.sample(0.0)
    ...     _ = file.write_text("9500000")
    ...     recorder.sample(1.0), recorder.due
    ([[None, 'package-0', 4.5, None]], 2.0)
    """

    def __init__(self, meters: Sequence[Meter], *, period: float = 1.0) -> None:
        self._period = period
        self._followed = [_Followed(meter) for meter in meters]
        #: Run time of the next reading; infinite where there is nothing to read.
        self.due = 0.0 if meters else math.inf

    def sample(self, now: float) -> list[PowerRow]:
        """Read all counters; the rows for the journal.

        A row without joules says that what the counter counts until its next row is unknown.
        """
        rows = [row for followed in self._followed for row in followed.rows(now)]
        if self._followed:
            # On the grid of the period, so that a late reading does not make the next one late.
            self.due = (math.floor(now / self._period) + 1) * self._period
        return rows

    def facts(self) -> dict[str, Any]:
        """What was read, for the manifest: sources with their wraps and gaps, and what was amiss.

        >>> PowerRecorder([]).facts()
        {'sources': [], 'said': ['no power counter on this machine']}
        """
        said = [text for followed in self._followed for text in followed.said()]
        if not self._followed:
            said = [NO_COUNTER]
        return {"sources": [followed.facts() for followed in self._followed], "said": said}


class _Followed:
    """One counter, and what happened to it."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._counter = EnergyCounter(meter.wraps_at)
        self._reads = 0
        self._gaps = 0
        self._lost = False
        self._first_loss: str | None = None

    def rows(self, now: float) -> list[PowerRow]:
        try:
            value = self._meter.read()
        except (OSError, ValueError) as error:
            return self._no_reading(now, error)
        if value is None:
            return []
        self._reads += 1
        self._lost = False
        known = self._counter.add_reading(now, value)
        row = [self._meter.node, self._meter.source, self._counter.joules, None]
        return [row] if known else [self._unknown(), row]

    def _no_reading(self, now: float, error: OSError | ValueError) -> list[PowerRow]:
        if self._lost:
            return []
        self._lost = True
        self._gaps += 1
        self._counter.mark_gap()
        if self._first_loss is None:
            problem = error.strerror if isinstance(error, OSError) else None
            self._first_loss = f"cannot be read at t = {now:.3f} s: {problem or error}"
        return [self._unknown()]

    def _unknown(self) -> PowerRow:
        return [self._meter.node, self._meter.source, None, None]

    def facts(self) -> dict[str, Any]:
        counter = self._counter
        return {
            "node": self._meter.node,
            "source": self._meter.source,
            "reads": self._reads,
            "updates": counter.updates,
            "wraps": counter.wraps,
            "gaps": self._gaps + counter.resets + counter.unsure,
        }

    def said(self) -> list[str]:
        counter = self._counter
        name = " ".join(part for part in (self._meter.node, self._meter.source) if part)
        said = [] if self._first_loss is None else [f"{name}: {self._first_loss}"]
        if counter.resets:
            said.append(
                f"{name}: went down {counter.resets} times, and does not say where it wraps"
            )
        if counter.unsure:
            said.append(
                f"{name}: was not read for more than {counter.max_gap:.0f} s {counter.unsure} "
                "times, so that nobody knows how often it wrapped"
            )
        return said
