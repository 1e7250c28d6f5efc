"""Varying demand: the fragments of all tasks, as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.errors import InputError

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


def find_rows(ids: pl.Series, names: pl.Series, *, unique: bool = False) -> Rows:
    """Find the first row of each name in `ids`; -1 if a name is not among them.

    `unique` states that no name is missing or occurs twice, as the ids of a workload: if these are
    `ids` themselves, nothing is counted.

    >>> find_rows(pl.Series(["a", "b", "b"]), pl.Series(["b", "b", "x", None])).tolist()
    [1, 1, -1, -1]
    """
    if not names.len():
        return np.zeros(0, dtype=np.int64)
    if unique and ids.equals(names):
        return np.arange(ids.len(), dtype=np.int64)
    has_duplicates = ids.n_unique() < ids.len()
    if not has_duplicates and not ids.null_count() and ids.equals(names):
        return np.arange(ids.len(), dtype=np.int64)
    # Equal names are mostly adjacent, so each run of equal names is looked up once.
    starts = names[1:].ne_missing(names[:-1]).arg_true().to_numpy() + 1
    starts = np.concatenate([[0], starts])
    table = pl.DataFrame({"id": ids, "row": np.arange(ids.len(), dtype=np.int64)})
    if has_duplicates:
        table = table.unique("id", keep="first", maintain_order=True)
    runs = pl.DataFrame({"id": names.gather(starts)}).join(
        table, on="id", how="left", maintain_order="left"
    )
    rows = runs["row"].fill_null(-1).to_numpy()
    return np.repeat(rows, np.diff(np.concatenate([starts, [names.len()]])))


@dataclass(frozen=True, slots=True)
class Fragments:
    """The fragments of tasks, grouped by task in the order of their first fragment.

    >>> fragments = Fragments.from_rows([1, 1, 0], [10.0, 20.0, 5.0], [1.0, 0.5, 2.0])
    >>> fragments.tasks.tolist(), fragments.offsets.tolist()
    ([1, 0], [0, 2, 3])
    >>> fragments.work().tolist(), fragments.limit().tolist(), fragments.length().tolist()
    ([20.0, 10.0], [1.0, 2.0], [30.0, 5.0])
    """

    #: Row of each task with fragments.
    tasks: Rows
    #: Offset of the fragments of each of these tasks, and the number of all fragments.
    offsets: Rows
    #: Duration of each fragment (s).
    durations: Floats
    #: Rate of each fragment (reference cores).
    rates: Floats

    @classmethod
    def from_rows(cls, rows: object, durations: object, rates: object) -> Fragments:
        """Create from a row per fragment: the row of its task, its duration and its rate."""
        row = np.asarray(rows, dtype=np.int64)
        duration = np.asarray(durations, dtype=np.float64)
        rate = np.asarray(rates, dtype=np.float64)
        tasks, starts = _find_runs(row)
        if len(np.unique(tasks)) < len(tasks):
            # Move the fragments of a task to its first fragment.
            _, first, inverse = np.unique(row, return_index=True, return_inverse=True)
            order = np.argsort(first[inverse], kind="stable")
            row, duration, rate = row[order], duration[order], rate[order]
            tasks, starts = _find_runs(row)
        offsets = np.concatenate([starts, [len(row)]]).astype(np.int64)
        for column in (tasks, offsets, duration, rate):
            column.flags.writeable = False
        return cls(tasks, offsets, duration, rate)

    def renumber(self, rows: Rows) -> Fragments:
        """Renumber the tasks: task i gets row `rows[i]`; with a negative row it is removed.

        >>> fragments = Fragments.from_rows([1, 1, 0], [10.0, 20.0, 5.0], [1.0, 0.5, 2.0])
        >>> moved = fragments.renumber(np.array([-1, 4]))
        >>> moved.tasks.tolist(), moved.durations.tolist()
        ([4], [10.0, 20.0])
        """
        tasks = rows[self.tasks]
        if (tasks >= 0).all():
            tasks.flags.writeable = False
            return Fragments(tasks, self.offsets, self.durations, self.rates)
        fragment_rows = np.repeat(tasks, np.diff(self.offsets))
        kept = fragment_rows >= 0
        return Fragments.from_rows(fragment_rows[kept], self.durations[kept], self.rates[kept])

    def check(self, ids: pl.Series) -> None:
        """Check tasks, durations and rates; an error names the task."""
        unknown = self.tasks[(self.tasks < 0) | (self.tasks >= ids.len())]
        if len(unknown):
            raise InputError(
                f"belong to the task in row {unknown[0]}, but there are {ids.len():,} tasks",
                kind="unknown-reference",
                field="fragments",
                remedy="give them as a table with the ids of their tasks",
            )
        for field, values in (("duration", self.durations), ("rate", self.rates)):
            if len(values) and not (values.min() >= 0 and np.isfinite(values.max())):
                index = int(np.argmax(~(np.isfinite(values) & (values >= 0))))
                task = self.tasks[np.searchsorted(self.offsets, index, side="right") - 1]
                raise InputError(
                    f"{values[index]} is not a finite, non-negative number",
                    kind="out-of-range",
                    field=f"fragment of task {ids[int(task)]!r}: {field}",
                )

    def work(self) -> Floats:
        """The work of each task (reference core-seconds), in the order of `tasks`."""
        return self._reduce(np.add, self.durations * self.rates)

    def limit(self) -> Floats:
        """The highest rate of each task (reference cores), in the order of `tasks`."""
        return self._reduce(np.maximum, self.rates)

    def length(self) -> Floats:
        """The run time of each task on unshared cores (s), in the order of `tasks`."""
        return self._reduce(np.add, self.durations)

    def capacity(self) -> Floats:
        """The 95th percentile of the rates of each task, in the order of `tasks`.

        It is interpolated linearly between two ranks (type 7 of Hyndman and Fan, the default of
        NumPy). Fragments are not weighted by their duration.
        """
        if not len(self.tasks):
            return np.zeros(0)
        counts = np.diff(self.offsets)
        order = np.lexsort((self.rates, np.repeat(np.arange(len(counts)), counts)))
        rank = 0.95 * (counts - 1)
        low = np.floor(rank).astype(np.int64)
        high = np.minimum(low + 1, counts - 1)
        below = self.rates[order[self.offsets[:-1] + low]]
        above = self.rates[order[self.offsets[:-1] + high]]
        result: Floats = below + (above - below) * (rank - low)
        return result

    def by_task(self, count: int) -> tuple[Rows, Floats, Floats]:
        """Return offsets for each of `count` tasks, and durations and rates sorted by task."""
        lengths = np.zeros(count, dtype=np.int64)
        lengths[self.tasks] = np.diff(self.offsets)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        if len(self.tasks) < 2 or (np.diff(self.tasks) > 0).all():
            return offsets, self.durations, self.rates
        starts = np.zeros(count, dtype=np.int64)
        starts[self.tasks] = self.offsets[:-1]
        indices = np.repeat(starts - offsets[:-1], lengths)
        indices += np.arange(len(indices))
        return offsets, self.durations[indices], self.rates[indices]

    def frame(self, ids: pl.Series) -> pl.DataFrame:
        """Convert to a table with the ids of the tasks."""
        names = ids.gather(np.repeat(self.tasks, np.diff(self.offsets)))
        return pl.DataFrame({"task": names, "duration": self.durations, "rate": self.rates})

    def _reduce(self, operation: np.ufunc, values: Floats) -> Floats:
        if not len(self.tasks):
            return np.zeros(0)
        result: Floats = operation.reduceat(values, self.offsets[:-1])
        return result


def _find_runs(rows: Rows) -> tuple[Rows, Rows]:
    if not len(rows):
        return rows.copy(), rows.copy()
    starts = np.concatenate([[0], np.flatnonzero(rows[1:] != rows[:-1]) + 1]).astype(np.int64)
    return rows[starts], starts
