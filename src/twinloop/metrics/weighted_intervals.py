"""Weighted intervals of time and their sum as a step function, exact at every event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.metrics.tasks import finite_column
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace

Floats = npt.NDArray[np.float64]


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
    placements = trace.placements.select(
        "task", "attempt", finite_column("start"), finite_column("end"), finite_column("cores")
    ).drop_nulls(["start", "end"])
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
    placements = trace.placements.select("machine", finite_column("start"), finite_column("end"))
    placements = placements.drop_nulls(["start", "end"])
    if not placements.height or placements["machine"].null_count():
        return None
    machine = placements["machine"].cast(pl.Categorical).to_physical().to_numpy()
    start, end = (placements[name].to_numpy() for name in ("start", "end"))
    order = np.argsort(start, kind="stable")
    sort_key = machine.astype(np.uint16) if machine.max() < 2**16 else machine
    order = order[np.argsort(sort_key[order], kind="stable")]
    machine, start, end = machine[order], start[order], end[order]
    boundaries = np.flatnonzero(machine[1:] != machine[:-1]) + 1
    previous_end = np.full(start.size, -np.inf)
    for first, last in pairwise([0, *boundaries.tolist(), start.size]):
        np.maximum.accumulate(end[first : last - 1], out=previous_end[first + 1 : last])
    np.maximum(start, previous_end, out=previous_end)
    return WeightedIntervals.of(previous_end, end, np.ones(start.size))
