"""The Workload: tasks with their demand, dependencies, files and users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.tables import make_empty_table
from twinloop.trace.trace import Trace
from twinloop.workload import columns
from twinloop.workload.fragments import Floats, Fragments, find_rows

if TYPE_CHECKING:
    from twinloop.trace.stored_workload import StoredWorkload
    from twinloop.workload.arrays import WorkloadArrays

#: Treatment of tasks without samples in a trace with usage.
Missing = Literal["synthetic", "drop", "leave"]


class Workload:
    """A workload: tasks with their work and limits, dependencies, files and users.

    A task has `work` core-seconds to do on at most `limit` cores, both in cores of the reference
    clock; for a varying demand they follow from its fragments. A Workload is immutable. `COLUMNS`
    lists the columns and units.

    >>> import polars as pl
    >>> workload = Workload(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0], "cores": [4.0, 1.0],
    ...                         "work": [400.0, None], "limit": [4.0, None]}),
    ...     fragments=pl.DataFrame({"task": ["b", "b"], "duration": [10.0, 20.0],
    ...                             "rate": [1.0, 0.5]}))
    >>> workload
    <Workload of 2 tasks, 1 of them in 2 fragments>
    >>> workload.tasks.select("id", "work", "limit").rows()
    [('a', 400.0, 4.0), ('b', 20.0, 1.0)]
    >>> workload.durations().tolist()
    [100.0, 30.0]
    """

    __slots__ = (
        "_boots",
        "_files",
        "_fragments",
        "_hash",
        "_task_files",
        "_tasks",
        "cleaned",
        "epoch_ms",
        "injected",
        "reference_mhz",
        "skipped",
    )

    def __init__(
        self,
        *,
        tasks: pl.DataFrame,
        fragments: pl.DataFrame | Fragments | None = None,
        files: pl.DataFrame | None = None,
        task_files: pl.DataFrame | None = None,
        boots: pl.DataFrame | None = None,
        reference_mhz: float | None = None,
        epoch_ms: int | None = None,
        cleaned: tuple[Cleaning, ...] = (),
        injected: tuple[str, ...] = (),
        skipped: int = 0,
    ) -> None:
        tasks = columns.conform("tasks", tasks)
        if not isinstance(fragments, Fragments):
            fragments = _make_fragments(tasks["id"], fragments)
        fragments.check(tasks["id"])
        self._fragments = fragments
        self._tasks = _add_totals(tasks, fragments)
        columns.check(self._tasks)
        self._files = columns.conform(
            "files", make_empty_table("files") if files is None else files
        )
        self._task_files = columns.conform(
            "task_files", make_empty_table("task_files") if task_files is None else task_files
        )
        self._boots = columns.conform("boots", pl.DataFrame() if boots is None else boots)
        self._hash: str | None = None
        #: Clock of the reference core of work and rates (MHz); None if unknown.
        self.reference_mhz = reference_mhz
        #: Unix time of t = 0 in milliseconds; None if unknown.
        self.epoch_ms = epoch_ms
        #: Notes on the data cleaning of the Trace that it was created from.
        self.cleaned = cleaned
        #: The quantities that come from a recorded run, and are replayed rather than predicted.
        self.injected = injected
        #: The number of tasks of that Trace that are left out because they cannot be run.
        self.skipped = skipped

    @classmethod
    def from_trace(
        cls, trace: Trace, *, missing: Missing = "synthetic", reference_mhz: float | None = None
    ) -> Workload:
        """Create the workload of a trace, for a replay.

        Samples of usage become demand; without usage, a task has constant demand on all its cores.
        `cleaned` counts omitted and assumed data.

        Args:
            trace: The log or recorded run.
            missing: Treatment of tasks without samples in a trace with usage. `synthetic`: half a
                core for their run time; `drop`: they are left out; `leave`: they stay without
                work, so they can be written but not run.
            reference_mhz: Clock of the reference core (MHz); by default that of the manifest, else
                the highest clock of a node.

        >>> import polars as pl
        >>> log = Trace(tasks=pl.DataFrame({"id": ["1", "2"], "submit": [0.0, 9.0],
        ...     "requested_cores": [8.0, 1.0], "run_time": [60.0, None]}))
        >>> workload = Workload.from_trace(log)
        >>> workload.tasks.select("id", "work", "limit", "requested_time").rows()
        [('1', 480.0, 8.0, 60.0)]
        >>> print(workload.cleaned[0])
        skipped 1: tasks that cannot be run: no run time (2)
        """
        from twinloop.workload.replay import workload_from_trace

        return workload_from_trace(trace, missing=missing, reference_mhz=reference_mhz)

    @property
    def tasks(self) -> pl.DataFrame:
        """The task table: a row per task."""
        return self._tasks.clone()

    @property
    def fragments(self) -> pl.DataFrame:
        """The fragment table: a row per fragment of the tasks with varying demand."""
        return self._fragments.frame(self._tasks["id"])

    @property
    def fragment_arrays(self) -> Fragments:
        """The fragments as arrays, without a copy."""
        return self._fragments

    @property
    def files(self) -> pl.DataFrame:
        """The file table: a row per data file."""
        return self._files.clone()

    @property
    def task_files(self) -> pl.DataFrame:
        """The table of file accesses: a row per file that a task reads or writes."""
        return self._task_files.clone()

    @property
    def boots(self) -> pl.DataFrame:
        """The injected boots: a row per instance, in the order of the requests."""
        return self._boots.clone()

    def durations(self) -> Floats:
        """Compute the run time of each task on unshared cores of its `speed` (s); NaN: unknown."""
        work = self._tasks["work"].fill_null(np.nan).to_numpy()
        limit = self._tasks["limit"].fill_null(np.nan).to_numpy()
        result = np.full(len(work), np.nan)
        np.divide(work, limit, out=result, where=limit > 0)
        result[work == 0] = 0.0
        result[self._fragments.tasks] = self._fragments.length()
        return result

    def capacities(self) -> Floats:
        """Compute the 95th percentile of the demand of each task (reference cores); NaN if unknown.

        See `Fragments.capacity` for the percentile. For a constant demand it is the limit.
        """
        result = self._tasks["limit"].fill_null(np.nan).to_numpy().copy()
        result[self._fragments.tasks] = self._fragments.capacity()
        return result

    def to_arrays(self) -> WorkloadArrays:
        """Convert to arrays for the engine; a cycle or a task without work is an error."""
        from twinloop.workload.arrays import workload_to_arrays

        return workload_to_arrays(self)

    def to_trace(self) -> Trace:
        """Convert to a Trace of kind `generated`; `from_trace` converts it back.

        Work, limits and fragments survive the round trip; a constant demand below all cores
        becomes one fragment. A Trace cannot represent the `speed` and the `end_recorded` of a
        task, its speed-up law, nor the `run_time` of a task without work: they are lost, and
        counted in the manifest. `injected` is lost, too. `from_trace` fills in unknown values
        (requested times, numbers of cores). A task of zero length gets another limit, and a task
        with unknown work survives only with `missing="leave"`.

        >>> import polars as pl
        >>> workload = Workload(tasks=pl.DataFrame(
        ...     {"id": ["a"], "submit": [0.0], "cores": [2.0], "work": [60.0], "limit": [2.0]}))
        >>> workload.to_trace().tasks.select("requested_cores", "run_time").rows()
        [(2.0, 30.0)]
        """
        from twinloop.workload.trace_export import workload_to_trace

        return workload_to_trace(self)

    def to_stored(self) -> StoredWorkload:
        """Convert to plain tables, for storage with the trace of a run.

        >>> import polars as pl
        >>> Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})).to_stored().kind
        'Workload'
        """
        from twinloop.workload.stored_workload import to_stored

        return to_stored(self)

    def content_hash(self) -> str:
        """Return a hash of all values that influence a run; equal workloads have equal hashes."""
        from twinloop.workload.stored_workload import content_hash

        if self._hash is None:
            self._hash = content_hash(self)
        return self._hash

    def replace(self, *, tasks: pl.DataFrame) -> Workload:
        """Return a Workload with another task table, in any order of its rows.

        Fragments and files belong to a task by its id: they follow it to another row and are
        removed with it. A task with a new id has the work and limit of its row. For a task with
        fragments, work and limit follow from them; other values are an error.

        >>> import polars as pl
        >>> workload = Workload(
        ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [5.0, 0.0]}),
        ...     fragments=pl.DataFrame({"task": ["a", "b"], "duration": [9.0, 1.0],
        ...                             "rate": [2.0, 1.0]}))
        >>> sooner = workload.replace(tasks=workload.tasks.sort("submit"))
        >>> sooner.tasks.select("id", "submit", "work").rows()
        [('b', 0.0, 1.0), ('a', 5.0, 18.0)]
        """
        tasks = columns.conform("tasks", tasks)
        columns.check(tasks)
        fragments = self._fragments.renumber(find_rows(tasks["id"], self._tasks["id"]))
        _check_totals(tasks, fragments)
        removed = set(self._tasks["id"]) - set(tasks["id"])
        return Workload(
            tasks=tasks,
            fragments=fragments,
            files=self._files,
            task_files=self._task_files.filter(~pl.col("task").is_in(list(removed)))
            if removed
            else self._task_files,
            boots=self._boots,
            reference_mhz=self.reference_mhz,
            epoch_ms=self.epoch_ms,
            cleaned=self.cleaned,
            injected=self.injected,
            skipped=self.skipped,
        )

    def __len__(self) -> int:
        return self._tasks.height

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workload):
            return NotImplemented
        return (
            self.reference_mhz == other.reference_mhz
            and self.epoch_ms == other.epoch_ms
            and self.cleaned == other.cleaned
            and self.injected == other.injected
            and self._tasks.equals(other._tasks)
            and self.fragments.equals(other.fragments)
            and self._files.equals(other._files)
            and self._task_files.equals(other._task_files)
            and self._boots.equals(other._boots)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        count, varying = self._tasks.height, len(self._fragments.tasks)
        text = f"{count:,} task{'' if count == 1 else 's'}"
        if varying:
            text += f", {varying:,} of them in {len(self._fragments.rates):,} fragments"
        return f"<Workload of {text}>"


def _make_fragments(ids: pl.Series, frame: pl.DataFrame | None) -> Fragments:
    if frame is None:
        return Fragments.from_rows([], [], [])
    frame = columns.conform("fragments", frame)
    rows = find_rows(ids, frame["task"])
    if (rows < 0).any():
        name = frame["task"][int(np.argmax(rows < 0))]
        raise InputError(
            f"contains fragments of {name!r}, which is not a task",
            kind="unknown-reference",
            field="fragments",
        )
    for field in ("duration", "rate"):
        if frame[field].null_count():
            name = frame["task"][int(frame[field].is_null().arg_true()[0])]
            raise InputError(
                "is missing", kind="missing-field", field=f"fragment of task {name!r}: {field}"
            )
    return Fragments.from_rows(rows, frame["duration"].to_numpy(), frame["rate"].to_numpy())


def _check_totals(tasks: pl.DataFrame, fragments: Fragments) -> None:
    """Raise an error if the work or limit of a task differs from that of its fragments."""
    for field, totals in (("work", fragments.work()), ("limit", fragments.limit())):
        given = tasks[field].gather(fragments.tasks).fill_null(np.nan).to_numpy()
        wrong = ~np.isnan(given) & ~np.isclose(given, totals, rtol=1e-9, atol=0.0)
        if wrong.any():
            index = int(np.argmax(wrong))
            raise InputError(
                f"is {given[index]:g}, but its fragments give {totals[index]:g}",
                kind="inconsistent-values",
                field=f"task {tasks['id'][int(fragments.tasks[index])]!r}: {field}",
                remedy="create a Workload(tasks=..., fragments=...) with other fragments",
            )


def _add_totals(tasks: pl.DataFrame, fragments: Fragments) -> pl.DataFrame:
    if not len(fragments.tasks):
        return tasks
    totals = pl.DataFrame(
        {"_row": fragments.tasks, "_work": fragments.work(), "_limit": fragments.limit()}
    )
    order = pl.int_range(pl.len(), dtype=pl.Int64).alias("_row")
    return (
        tasks.with_columns(order)
        .join(totals, on="_row", how="left", maintain_order="left")
        .with_columns(pl.coalesce("_work", "work").alias("work"))
        .with_columns(pl.coalesce("_limit", "limit").alias("limit"))
        .drop("_row", "_work", "_limit")
    )
