"""Measurement window of a trace: from the end of the warm-up to a given time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from twinloop.description.errors import InputError


@dataclass(frozen=True, slots=True)
class MeasurementWindow:
    """Measurement window in s since t = 0; infinite bounds include everything.

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
        """Create the window from `warm_up` to `until`, in s after the first submission.

        Without a warm-up the window has no start, and without `until` it has no end.
        """
        for name, value in (("warm_up", warm_up), ("until", until)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(
                    f"must be a duration of 0 s or more, not {value}",
                    kind="out-of-range",
                    field=name,
                )
        if until is not None and until <= warm_up:
            raise InputError(
                f"must be after the warm-up of {warm_up} s, not {until} s",
                kind="out-of-range",
                field="until",
            )
        first = to_float(tasks["submit"].min()) or 0.0
        begin = first + warm_up if warm_up else -math.inf
        return cls(begin, math.inf if until is None else first + until)

    @property
    def is_unbounded(self) -> bool:
        """Whether the window includes everything."""
        return self.begin == -math.inf and self.end == math.inf

    def filter_tasks(self, tasks: pl.DataFrame) -> pl.DataFrame:
        """Return the tasks submitted in the window."""
        if self.is_unbounded:
            return tasks
        return tasks.filter((pl.col("submit") >= self.begin) & (pl.col("submit") < self.end))

    def span(self, tasks: pl.DataFrame) -> tuple[float, float] | None:
        """Return the window limited to the first submission and the last end of executed tasks.

        None if no such submission or end is known.
        """
        first = (
            self.begin if math.isfinite(self.begin) else to_float(_list_submissions(tasks).min())
        )
        last = to_float(tasks["end"].max())
        return None if first is None or last is None else (first, max(first, min(last, self.end)))


def to_float(value: object) -> float | None:
    """Convert a number to float; None for other values.

    >>> to_float(3), to_float(None)
    (3.0, None)
    """
    return float(value) if isinstance(value, (int, float)) else None


def _list_submissions(tasks: pl.DataFrame) -> pl.Series:
    return tasks.filter("ran")["submit"]
