"""What of a trace counts: without its warm-up, and up to a moment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from twinloop.description.errors import InputError


@dataclass(frozen=True, slots=True)
class MeasurementWindow:
    """The window of time that counts, in s since t = 0; infinite where nothing was window off.

    >>> tasks = pl.DataFrame({"submit": [100.0, 110.0, 120.0]})
    >>> window = MeasurementWindow.from_tasks(tasks, warm_up=5, until=20)
    >>> window.begin, window.end, window.filter_tasks(tasks)["submit"].to_list()
    (105.0, 120.0, [110.0])
    """

    begin: float
    end: float

    @classmethod
    def from_tasks(
        cls, tasks: pl.DataFrame, warm_up: float, until: float | None = None
    ) -> MeasurementWindow:
        """The window from `warm_up` to `until`, both in s after the first submission."""
        for name, value in (("warm_up", warm_up), ("until", until)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(
                    f"{value} is no length of time", field=name, remedy="seconds, 0 or more"
                )
        if until is not None and until <= warm_up:
            raise InputError(f"{until} s is not after the warm-up, {warm_up} s", field="until")
        first = to_float(tasks["submit"].min()) or 0.0
        begin = first + warm_up if warm_up else -math.inf
        return cls(begin, math.inf if until is None else first + until)

    @property
    def is_unbounded(self) -> bool:
        """Was nothing window off?"""
        return self.begin == -math.inf and self.end == math.inf

    def filter_tasks(self, tasks: pl.DataFrame) -> pl.DataFrame:
        """The tasks submitted in the window; all of them where nothing was window off."""
        if self.is_unbounded:
            return tasks
        return tasks.filter((pl.col("submit") >= self.begin) & (pl.col("submit") < self.end))

    def span(self, tasks: pl.DataFrame) -> tuple[float, float] | None:
        """The window, bounded by the first submission and the last end of the tasks that ran."""
        first = self.begin if math.isfinite(self.begin) else to_float(_submissions(tasks).min())
        last = to_float(tasks["end"].max())
        return None if first is None or last is None else (first, max(first, min(last, self.end)))


def to_float(value: object) -> float | None:
    """The value as a float, if it is a number.

    >>> to_float(3), to_float(None)
    (3.0, None)
    """
    return float(value) if isinstance(value, (int, float)) else None


def _submissions(tasks: pl.DataFrame) -> pl.Series:
    return tasks.filter("ran")["submit"]
