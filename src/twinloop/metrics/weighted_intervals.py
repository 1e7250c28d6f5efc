"""Sums of intervals over time, exact at every event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from twinloop.metrics.tasks import finite_column
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.trace import Trace

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WeightedIntervals:
    """Things of some height from `start` to `end`; those of no length are nothing.

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
        """The intervals that have a length."""
        keep = end > start
        return cls(start, end, weight) if keep.all() else cls(start[keep], end[keep], weight[keep])

    def area(self, start: float = -np.inf, end: float = np.inf) -> float:
        """The area of the intervals between two moments."""
        inside = np.minimum(self.end, end) - np.maximum(self.start, start)
        return float((np.maximum(inside, 0.0) * self.weight).sum())

    def steps(self) -> tuple[Floats, Floats]:
        """The moments at which the sum of the heights changes, and the sum from each on."""
        at = np.concatenate([self.start, self.end])
        change = np.concatenate([self.weight, -self.weight])
        moments, where = np.unique(at, return_inverse=True)
        level = np.cumsum(np.bincount(where, change, minlength=moments.size))
        # What rounding leaves of a sum that has come down to nothing.
        level[np.abs(level) <= 1e-12 * self.weight.sum()] = 0.0
        changed = np.diff(level, prepend=0.0) != 0.0
        return moments[changed], level[changed]


def find_core_intervals(trace: Trace) -> tuple[WeightedIntervals | None, int]:
    """The cores that executions held, and of how many executions these are not known.

    None where no execution says.

    Where a placement does not say its cores, the rows of its attempt that do not say share those
    that the task asked for.
    """
    placements = trace.placements.select(
        "task", "attempt", finite_column("start"), finite_column("end"), finite_column("cores")
    ).drop_nulls(["start", "end"])
    if placements["cores"].null_count():
        placements = _with_cores(trace, placements)
    known = placements.drop_nulls("cores")
    if placements.height and not known.height:
        return None, placements.height
    start, end, cores = (known[name].to_numpy() for name in ("start", "end", "cores"))
    return WeightedIntervals.of(start, end, cores), placements.height - known.height


def _with_cores(trace: Trace, placements: pl.DataFrame) -> pl.DataFrame:
    unknown = placements.filter(pl.col("cores").is_null())["task"].unique().implode()
    concerned = pl.col("task").is_in(unknown).fill_null(False)
    asked = collect_runs(trace).select("id", "processors").filter(pl.col("id").is_in(unknown))
    rest = pl.col("processors") - pl.col("cores").sum()
    share = pl.when(rest > 0).then(rest / pl.col("cores").null_count())
    filled = (
        placements.filter(concerned)
        .join(asked.unique("id", keep="first"), left_on="task", right_on="id", how="left")
        .with_columns(pl.coalesce("cores", share.over("task", "attempt")))
    )
    return pl.concat([placements.filter(~concerned), filled.select(placements.columns)])


def find_machine_intervals(trace: Trace) -> WeightedIntervals | None:
    """When each machine held anything at all; None where executions do not say their machine."""
    placements = trace.placements.select("machine", finite_column("start"), finite_column("end"))
    placements = placements.drop_nulls(["start", "end"])
    if not placements.height or placements["machine"].null_count():
        return None
    machine = placements["machine"].cast(pl.Categorical).to_physical().to_numpy()
    start, end = (placements[name].to_numpy() for name in ("start", "end"))
    order = np.argsort(start, kind="stable")
    small = machine.astype(np.uint16) if machine.max() < 2**16 else machine
    order = order[np.argsort(small[order], kind="stable")]
    machine, start, end = machine[order], start[order], end[order]
    another = np.flatnonzero(np.diff(machine)) + 1
    before = np.full(start.size, -np.inf)
    for of_one in np.split(np.arange(start.size), another):
        before[of_one[1:]] = np.maximum.accumulate(end[of_one[:-1]])
    return WeightedIntervals.of(np.maximum(start, before), end, np.ones(start.size))
