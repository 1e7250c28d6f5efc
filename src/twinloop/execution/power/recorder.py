"""Recorder of the energy counters of a machine during a run."""

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
    """Reads energy counters periodically.

    If there is no counter, it is never due, and `facts` contains a note.

    Args:
        meters: The counters, as found by `find_meters`.
        period: Time between two readings (s).

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     file = Path(parent, "energy_uj")
    ...     recorder = PowerRecorder([Meter(None, "package-0", file, None)])
    ...     _ = file.write_text("5000000")
    ...     _ = recorder.sample(0.0)
    ...     _ = file.write_text("9500000")
    ...     recorder.sample(1.0), recorder.due
    ([[None, 'package-0', 4.5, None]], 2.0)
    """

    def __init__(self, meters: Sequence[Meter], *, period: float = 1.0) -> None:
        self._period = period
        self._meters = [_RecordedMeter(meter) for meter in meters]
        #: Time of the next reading (s); infinite without a counter.
        self.due = 0.0 if meters else math.inf

    def sample(self, now: float) -> list[PowerRow]:
        """Read all counters; returns the rows for the journal.

        A row without joules is a gap: the energy until the next row of the counter is unknown.
        """
        rows = [row for meter in self._meters for row in meter.read_rows(now)]
        if self._meters:
            # A multiple of the period, so that a late reading does not delay the next one.
            self.due = (math.floor(now / self._period) + 1) * self._period
        return rows

    def facts(self) -> dict[str, Any]:
        """Return the sources with their wrap-arounds and gaps, and problems, for the manifest.

        >>> PowerRecorder([]).facts()
        {'sources': [], 'said': ['no power counter on this machine']}
        """
        problems = [text for meter in self._meters for text in meter.list_problems()]
        if not self._meters:
            problems = [NO_COUNTER]
        return {"sources": [meter.facts() for meter in self._meters], "said": problems}


class _RecordedMeter:
    """One counter with its readings and gaps."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._counter = EnergyCounter(meter.wraps_at)
        self._reads = 0
        self._gaps = 0
        self._is_unreadable = False
        self._first_error: str | None = None

    def read_rows(self, now: float) -> list[PowerRow]:
        try:
            value = self._meter.read()
        except (OSError, ValueError) as error:
            return self._handle_error(now, error)
        if value is None:
            return []
        self._reads += 1
        self._is_unreadable = False
        known = self._counter.add_reading(now, value)
        row = [self._meter.node, self._meter.source, self._counter.joules, None]
        return [row] if known else [self._gap_row(), row]

    def _handle_error(self, now: float, error: OSError | ValueError) -> list[PowerRow]:
        if self._is_unreadable:
            return []
        self._is_unreadable = True
        self._gaps += 1
        self._counter.mark_gap()
        if self._first_error is None:
            problem = error.strerror if isinstance(error, OSError) else None
            self._first_error = f"cannot be read at t = {now:.3f} s: {problem or error}"
        return [self._gap_row()]

    def _gap_row(self) -> PowerRow:
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

    def list_problems(self) -> list[str]:
        counter = self._counter
        name = " ".join(part for part in (self._meter.node, self._meter.source) if part)
        texts = [] if self._first_error is None else [f"{name}: {self._first_error}"]
        if counter.resets:
            texts.append(f"{name}: decreased {counter.resets} times, and its range is unknown")
        if counter.unsure:
            texts.append(
                f"{name}: was not read for more than {counter.max_gap:.0f} s {counter.unsure} "
                "times, so that its number of wrap-arounds is unknown"
            )
        return texts
