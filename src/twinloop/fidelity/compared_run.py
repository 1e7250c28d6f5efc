"""One of the two runs of a comparison, with the data that the metrics need."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics import per_task
from twinloop.metrics.measurement_window import to_float
from twinloop.metrics.tasks import finite_column
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.host_placements import place_on_hosts
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace, require_trace

#: Decimals to which times in s are compared.
DECIMALS = 6


class ComparedRun:
    """The real run or the twin; its properties are computed on first use.

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
        self._not_completed_in_real = pl.Series([], dtype=pl.String)

    def as_twin_of(self, real: ComparedRun) -> ComparedRun:
        """Return the run as the twin of a real run, without the tasks that did not complete there.

        A simulator that does not model these failures completes such tasks; this is not an error.
        """
        twin = ComparedRun(self.trace, self.label)
        twin.__dict__["tasks"] = self.tasks
        completed = real.completed["id"].implode()
        twin._not_completed_in_real = real.tasks.filter(~pl.col("id").is_in(completed))["id"]
        return twin

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """The figures of each task, with kind, cores and the machines of all attempts."""
        trace = self.trace
        kinds = trace.tasks["kind"]
        tasks = per_task(trace).with_columns(kind=kinds, cores=collect_runs(trace)["processors"])
        duplicates = tasks.filter(pl.col("id").is_not_null() & pl.col("id").is_duplicated())["id"]
        if duplicates.len():
            raise InputError(
                f"two tasks of {self.label} have the ID '{duplicates[0]}'",
                kind="duplicate-name",
                field="id",
                remedy="twinloop check lists such tasks",
            )
        return tasks.join(
            _join_machines(trace), left_on="id", right_on="task", how="left", maintain_order="left"
        )

    @cached_property
    def completed(self) -> pl.DataFrame:
        """The completed tasks, including ended tasks of unknown status.

        For a twin, without tasks that did not complete in the real run.
        """
        if not self._not_completed_in_real.len():
            return self._all_completed
        excluded = pl.col("id").is_in(self._not_completed_in_real.implode())
        return self._all_completed.filter(~excluded)

    @property
    def left_out(self) -> int:
        """The number of tasks completed here that did not complete in the real run."""
        return self._all_completed.height - self.completed.height

    @cached_property
    def _all_completed(self) -> pl.DataFrame:
        ended_unknown = pl.col("status").is_null() & pl.col("end").is_not_null()
        return self.tasks.filter((pl.col("status") == "completed") | ended_unknown)

    @cached_property
    def waits(self) -> Floats:
        """The waits of the completed tasks in s, sorted."""
        waits: Floats = np.sort(np.round(self.completed["wait"].drop_nulls().to_numpy(), DECIMALS))
        return waits

    @cached_property
    def ends(self) -> Floats:
        """The ends of the completed tasks in s, sorted."""
        ends: Floats = np.sort(self.completed["end"].drop_nulls().to_numpy())
        return ends

    @cached_property
    def origin(self) -> float | None:
        """The time of the first submission (s); None if no submission is known."""
        return to_float(self.tasks["submit"].min())

    @cached_property
    def makespan(self) -> float | None:
        """Time from the first submission to the last end of the compared tasks that ran (s)."""
        ran = self.completed.filter("ran")
        first, last = to_float(ran["submit"].min()), to_float(ran["end"].max())
        return None if first is None or last is None else last - first

    @cached_property
    def windows(self) -> pl.DataFrame:
        """The valid usage windows, with times relative to the start of their task.

        `task`, `stream` (process and machine), `begin` and `end` (s since the start of the task),
        `rate` (CPU s per s). The CPU time of a window that begins before its task is attributed to
        the part of the window after the start of the task.
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
    """Return the origin of the common time axis in each run: its first submission.

    If a run has no submission time, both origins are t = 0.

    >>> empty = ComparedRun(Trace(), "the twin")
    >>> find_origins(empty, empty)
    (0.0, 0.0)
    """
    if real.origin is None or twin.origin is None:
        return 0.0, 0.0
    return real.origin, twin.origin


def _join_machines(trace: Trace) -> pl.DataFrame:
    """Return the names of the machines of each task as one text; null if one is unknown."""
    placed = place_on_hosts(trace).placements.select("task", "machine").unique()
    on_one = placed.filter(~pl.col("task").is_duplicated())
    on_several = placed.filter(pl.col("task").is_duplicated()).group_by("task")
    known = pl.col("machine").null_count() == 0
    joined = on_several.agg(machine=pl.when(known).then(pl.col("machine").sort().str.join(", ")))
    return pl.concat([on_one, joined])
