"""One of the two runs that are compared, with what the metrics need of it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics import per_task
from twinloop.metrics.measurement_window import to_float
from twinloop.metrics.tasks import finite_column
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace, require_trace

#: Times are compared to so many decimals of a second: what is closer is rounding.
DECIMALS = 6


class ComparedRun:
    """The real run or the twin; each part of it is worked out when it is first asked for.

    >>> side = ComparedRun(Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [3.0, 5.0]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "start": [3.0, 9.0], "end": [9.0, 19.0]}),
    ... ), "the real run")
    >>> side.waits.tolist(), side.origin, side.makespan
    ([0.0, 4.0], 3.0, 16.0)
    """

    def __init__(self, trace: Trace, label: str) -> None:
        self.trace = require_trace(trace)
        self.label = label
        self._failed_there = pl.Series([], dtype=pl.String)

    def as_twin_of(self, real: ComparedRun) -> ComparedRun:
        """The same side as the twin of a real run: without the tasks that did not complete there.

        A simulator that is not told why tasks fail completes them, and is not blamed for that.
        """
        twin = ComparedRun(self.trace, self.label)
        twin.__dict__["tasks"] = self.tasks
        completed = real.completed["id"].implode()
        twin._failed_there = real.tasks.filter(~pl.col("id").is_in(completed))["id"]
        return twin

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """The figures of each task, with its kind, its cores and the machines of all attempts."""
        trace = self.trace
        kinds = trace.tasks["kind"]
        tasks = per_task(trace).with_columns(kind=kinds, cores=collect_runs(trace)["processors"])
        twice = tasks.filter(pl.col("id").is_not_null() & pl.col("id").is_duplicated())["id"]
        if twice.len():
            raise InputError(
                f"two tasks of {self.label} are called '{twice[0]}', so that none can be matched",
                field="id",
                remedy="twinloop check names them",
            )
        return tasks.join(
            _machines(trace), left_on="id", right_on="task", how="left", maintain_order="left"
        )

    @cached_property
    def completed(self) -> pl.DataFrame:
        """The tasks that completed, and those of unknown status that ran to an end.

        Of a twin, without those that did not complete in the real run.
        """
        failed = pl.col("id").is_in(self._failed_there.implode())
        return self._ended.filter(~failed) if self._failed_there.len() else self._ended

    @property
    def left_out(self) -> int:
        """How many tasks completed here that the real run has and did not complete."""
        return self._ended.height - self.completed.height

    @cached_property
    def _ended(self) -> pl.DataFrame:
        ended = pl.col("status").is_null() & pl.col("end").is_not_null()
        return self.tasks.filter((pl.col("status") == "completed") | ended)

    @cached_property
    def waits(self) -> Floats:
        """The waits of the completed tasks in s, sorted."""
        known = self.completed["wait"].drop_nulls().to_numpy()
        found: Floats = np.sort(np.round(known, DECIMALS))
        return found

    @cached_property
    def ends(self) -> Floats:
        """The ends of the completed tasks, sorted."""
        found: Floats = np.sort(self.completed["end"].drop_nulls().to_numpy())
        return found

    @cached_property
    def origin(self) -> float | None:
        """The first submission."""
        return to_float(self.tasks["submit"].min())

    @cached_property
    def makespan(self) -> float | None:
        """First submission to last end of the tasks that are compared and ran."""
        ran = self.completed.filter("ran")
        first, last = to_float(ran["submit"].min()), to_float(ran["end"].max())
        return None if first is None or last is None else last - first

    @cached_property
    def windows(self) -> pl.DataFrame:
        """The windows of usage that can be used, on the axis of their task.

        `task`, `stream` (which process on which machine), `begin` and `end` (s since the start of
        the task), `rate` (CPU s per s). Of a window that begins before the task, all the CPU time
        belongs to the part after.
        """
        starts = self.completed.select("id", first="start").drop_nulls()
        usage = self.trace.usage.select(
            "task", "machine", "pid", *(finite_column(name) for name in ("t", "dt", "cpu"))
        )
        begin = pl.max_horizontal(pl.col("t") - pl.col("dt"), "first") - pl.col("first")
        return (
            usage.drop_nulls(["task", "t", "dt", "cpu"])
            .join(starts, left_on="task", right_on="id", how="inner")
            .with_columns(begin=begin, end=pl.col("t") - pl.col("first"))
            .filter((pl.col("end") > pl.col("begin")) & (pl.col("dt") > 0))
            .select(
                "task",
                "begin",
                "end",
                stream=pl.struct("machine", "pid").hash(),
                rate=pl.col("cpu") / (pl.col("end") - pl.col("begin")),
            )
        )


def find_origins(real: ComparedRun, twin: ComparedRun) -> tuple[float, float]:
    """Where the common axis of time begins on each side: the first submission of each.

    Where a side does not know any submission, both begin at t = 0.

    >>> empty = ComparedRun(Trace(), "the twin")
    >>> find_origins(empty, empty)
    (0.0, 0.0)
    """
    if real.origin is None or twin.origin is None:
        return 0.0, 0.0
    return real.origin, twin.origin


def _machines(trace: Trace) -> pl.DataFrame:
    """A row per task whose executions all say their machine: which these are."""
    placed = trace.placements.select("task", "machine").unique()
    alone = placed.filter(~pl.col("task").is_duplicated())
    several = placed.filter(pl.col("task").is_duplicated()).group_by("task")
    known = pl.col("machine").null_count() == 0
    shared = several.agg(machine=pl.when(known).then(pl.col("machine").sort().str.join(", ")))
    return pl.concat([alone, shared])
