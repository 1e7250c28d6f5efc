"""Weighted intervals of time and their sum as a step function, exact at every event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.metrics.tasks import remove_infinite
from twinloop.trace.host_placements import place_on_hosts
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

#: The columns of placements in which infinite and NaN values are unknown.
_NUMBERS: Final = frozenset({"start", "end", "cores"})


@dataclass(frozen=True, slots=True)
class WeightedIntervals:
    """Intervals from `start` to `end` with a weight, such as cores, watts or a count.

    >>> start, end, weight = (np.array(row) for row in ([0.0, 2.0], [4.0, 3.0], [1.0, 5.0]))
    >>> intervals = WeightedIntervals.of(start, end, weight)
    >>> intervals.area(), intervals.area(1.0, 2.5)
    (9.0, 4.0)
    >>> [part.tolist() for part in intervals.steps()]
    [[0.0, 2.0, 3.0, 4.0], [1.0, 6.0, 1.0, 0.0]]
    """

    start: Floats
    end: Floats
    weight: Floats

    @classmethod
    def of(cls, start: Floats, end: Floats, weight: Floats) -> WeightedIntervals:
        """Create the intervals, without those that do not end after their start."""
        keep = end > start
        return cls(start, end, weight) if keep.all() else cls(start[keep], end[keep], weight[keep])

    def area(self, start: float = -np.inf, end: float = np.inf) -> float:
        """Integrate the sum of the weights between two times."""
        if self.start.min(initial=np.inf) >= start and self.end.max(initial=-np.inf) <= end:
            inside = self.end - self.start
        else:
            inside = np.minimum(self.end, end)
            inside -= np.maximum(self.start, start)
            np.maximum(inside, 0.0, out=inside)
        inside *= self.weight
        return float(inside.sum())

    def steps(self) -> tuple[Floats, Floats]:
        """Return the times at which the sum of the weights changes, and the sum from each on."""
        times = np.concatenate([self.start, self.end])
        change = np.concatenate([self.weight, -self.weight])
        event_times, time_index = np.unique(times, return_inverse=True)
        level = np.cumsum(np.bincount(time_index, change, minlength=event_times.size))
        # Remove the rounding errors of sums that are zero.
        level[np.abs(level) <= 1e-12 * self.weight.sum()] = 0.0
        changed = np.diff(level, prepend=0.0) != 0.0
        return event_times[changed], level[changed]


def find_core_intervals(trace: Trace) -> tuple[WeightedIntervals | None, int]:
    """Return the allocated cores over time, and the number of executions of unknown size.

    None if the size of every execution is unknown. Placements without cores share the remaining
    cores of the request of their task.
    """
    placements = _select_finite(trace.placements, "task", "attempt", "start", "end", "cores")
    if placements["cores"].null_count():
        placements = _fill_cores(trace, placements)
    known = placements.drop_nulls("cores")
    if placements.height and not known.height:
        return None, placements.height
    start, end, cores = (known[name].to_numpy() for name in ("start", "end", "cores"))
    return WeightedIntervals.of(start, end, cores), placements.height - known.height


def _fill_cores(trace: Trace, placements: pl.DataFrame) -> pl.DataFrame:
    unknown = placements.filter(pl.col("cores").is_null())["task"].unique().implode()
    is_unknown = pl.col("task").is_in(unknown).fill_null(False)
    requested = collect_runs(trace).select("id", "processors").filter(pl.col("id").is_in(unknown))
    rest = pl.col("processors") - pl.col("cores").sum()
    share = pl.when(rest > 0).then(rest / pl.col("cores").null_count())
    filled = (
        placements.filter(is_unknown)
        .join(requested.unique("id", keep="first"), left_on="task", right_on="id", how="left")
        .with_columns(pl.coalesce("cores", share.over("task", "attempt")))
    )
    return pl.concat([placements.filter(~is_unknown), filled.select(placements.columns)])


def find_machine_intervals(trace: Trace) -> WeightedIntervals | None:
    """Return the intervals in which each machine had a task.

    None if there is no placement, or if the machine of one is unknown.
    """
    trace = place_on_hosts(trace)
    placements = _select_finite(trace.placements, "machine", "start", "end")
    if not placements.height or placements["machine"].null_count():
        return None
    known = trace.machine_rows
    if known is not None and known.size == placements.height:
        machine: npt.NDArray[Any] = number_by_appearance(known, trace.nodes.height)
    else:
        machine = placements["machine"].cast(pl.Categorical).to_physical().to_numpy()
    start, end = (placements[name].to_numpy() for name in ("start", "end"))
    counts = np.bincount(machine)
    key = machine.astype(np.uint16) if counts.size <= 2**16 else machine
    return unite_overlaps(*sort_by_machine(key, start, end), np.cumsum(counts[counts > 0]))


def number_by_appearance(rows: npt.NDArray[Any], limit: int) -> npt.NDArray[Any]:
    """Number the values below a limit by their first appearance, as Polars numbers categories.

    Mostly all values appear near the beginning.

    >>> number_by_appearance(np.array([7, 7, 2, 5, 2]), 8).tolist()
    [0, 0, 1, 2, 1]
    """
    size = 1024
    values, first = np.unique(rows[:size], return_index=True)
    while values.size < limit and size < rows.size:
        size *= 8
        values, first = np.unique(rows[:size], return_index=True)
    values = values[np.argsort(first)]
    if (values == np.arange(values.size)).all():
        return rows
    numbers: npt.NDArray[Any] = np.zeros(limit, dtype=rows.dtype)
    numbers[values] = np.arange(values.size)
    return np.take(numbers, rows)


def sort_by_machine(machine: npt.NDArray[Any], start: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Sort intervals by machine and start, those with equal ones in their order.

    The executions of a task on many machines are adjacent and have the same times, so such groups
    are sorted by their start, and then the rows by their machine.
    """
    is_new = (start[1:] != start[:-1]) | (end[1:] != end[:-1])
    first = np.concatenate([[0], np.flatnonzero(is_new) + 1])
    by_start = np.argsort(start[first], kind="stable")
    counts = np.diff(first, append=start.size)[by_start]
    rows = np.repeat(first[by_start] - np.cumsum(counts) + counts, counts)
    rows += np.arange(rows.size)
    group = np.repeat(np.arange(counts.size), counts)
    group = group[np.argsort(machine[rows], kind="stable")]
    first = first[by_start]
    return start[first][group], end[first][group]


def unite_overlaps(start: Floats, end: Floats, limits: Rows) -> WeightedIntervals:
    """Return the united intervals of each machine, given its last row plus one.

    The intervals of a machine are sorted by their start. If each one ends before the next one
    starts, as on a machine with one core, they are united already.
    """
    is_apart = start[1:] >= end[:-1]
    is_apart[limits[:-1] - 1] = True
    if is_apart.all() and (end >= start).all():
        return WeightedIntervals.of(start, end, np.broadcast_to(1.0, start.shape))
    return cut_overlaps(start, end, limits)


def cut_overlaps(start: Floats, end: Floats, limits: Rows) -> WeightedIntervals:
    """Return the intervals, each without its part before the last end of the ones before it."""
    previous_end = np.full(start.size, -np.inf)
    for first, last in pairwise([0, *limits.tolist()]):
        np.maximum.accumulate(end[first : last - 1], out=previous_end[first + 1 : last])
    np.maximum(start, previous_end, out=previous_end)
    return WeightedIntervals.of(previous_end, end, np.broadcast_to(1.0, start.shape))


def _select_finite(placements: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Select columns of the placements with finite times; infinite numbers of cores are null."""
    columns = [
        remove_infinite(placements[name]) if name in _NUMBERS else placements[name]
        for name in names
    ]
    return pl.DataFrame(columns).drop_nulls(["start", "end"])
