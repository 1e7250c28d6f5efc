"""The progress of a study, reported after each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """The progress of a study.

    >>> StudyProgress(50, 100, 2, 10.0).left
    10.0
    """

    #: The number of runs that have ended, including `before`; of all runs; and of failed runs.
    done: int
    total: int
    failed: int
    #: The time since the study was started or resumed (s).
    seconds: float
    #: The number of runs that were stored already at the start.
    before: int = 0

    @property
    def left(self) -> float | None:
        """The estimated remaining time (s); None before the first run has ended."""
        simulated = self.done - self.before
        return None if not simulated else self.seconds / simulated * (self.total - self.done)


class ProgressReporter:
    """Call a function with the progress of a study after each run.

    Args:
        keys: The keys of all runs.
        results: The results that were stored already at the start.
        callback: The function.

    >>> report = ProgressReporter({"a", "b"}, {}, lambda state: print(state.done, state.total))
    >>> report({"key": "a", "error": None})
    1 2
    """

    def __init__(
        self,
        keys: Set[str],
        results: Mapping[str, Mapping[str, Any]],
        callback: Callable[[StudyProgress], None] | None,
    ) -> None:
        self._callback = callback
        self._started = time.monotonic()
        self._total = len(keys)
        self._before = self._done = len(keys & results.keys())
        self._failed = sum(results[key]["error"] is not None for key in keys & results.keys())

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Report the progress after the run with this result."""
        self._done += 1
        self._failed += row["error"] is not None
        if self._callback is not None:
            spent = time.monotonic() - self._started
            self._callback(
                StudyProgress(self._done, self._total, self._failed, spent, self._before)
            )
