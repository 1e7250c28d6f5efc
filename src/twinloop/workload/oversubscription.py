"""Correction of the demand of tasks that were sampled on oversubscribed nodes.

The samples of tasks that share too few cores contain their share, not their demand. A replay with
these samples would hide the contention. Therefore, if more cores of a busy node were allocated than
it has, and a task got about its fair share, the sample keeps its work and its limit becomes the
cores of the task. A task that used clearly less than its share had no higher demand.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description.cleaning import Cleaning
from twinloop.trace.trace import Trace
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import Floats, Fragments, Rows, find_rows

#: A node that uses this share of its cores is busy. It is below 1, because the windows of samples
#: are not exact.
BUSY: Final = 0.9
#: A task with at least this part of its fair share is assumed to have had a higher demand.
NEARLY_FAIR: Final = 0.8

_RAISED_LIMITS: Final = (
    "tasks sampled on oversubscribed nodes: their work is kept, and their limit is all their cores"
)


class _Integral(NamedTuple):
    """The integral of a rate over time, at a sequence of times."""

    times: Floats
    sums: Floats

    @classmethod
    def from_intervals(cls, begin: Floats, end: Floats, rate: Floats) -> _Integral:
        """Integrate the sum of rates, each constant from a begin to an end."""
        times = np.concatenate([begin, end])
        order = np.argsort(times, kind="stable")
        times = times[order]
        slopes = np.cumsum(np.concatenate([rate, -rate])[order])
        steps = np.diff(times) * slopes[:-1]
        return cls(times, np.concatenate([[0.0], np.cumsum(steps)]))

    def mean(self, begin: Floats, end: Floats) -> Floats:
        """Return the mean rate between two times."""
        difference = np.interp(end, self.times, self.sums) - np.interp(begin, self.times, self.sums)
        result: Floats = difference / (end - begin)
        return result


def lift_limits(
    trace: Trace, tasks: pl.DataFrame, fragments: Fragments
) -> tuple[Fragments, Cleaning]:
    """Raise the limits of fragments that were sampled on oversubscribed nodes.

    Args:
        trace: The recorded run.
        tasks: A row per task, with its `id`, `cores`, `speed` and the `start` of its last attempt.
        fragments: The sampled demand of these tasks, from their start on.

    >>> times = {"start": [0.0, 0.0], "end": [4.0, 4.0]}
    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n"], "cores": [1.0]}),
    ...     placements=pl.DataFrame(
    ...         {"task": ["a", "b"], "machine": ["n", "n"], "cores": [1.0, 1.0], **times}),
    ...     usage=pl.DataFrame({"task": ["a", "b"], "machine": ["n", "n"], "t": [4.0, 4.0],
    ...                         "dt": [4.0, 4.0], "cpu": [2.0, 2.0]}))
    >>> tasks = pl.DataFrame({"id": ["a", "b"], "cores": [1.0, 1.0], "speed": [1.0, 1.0],
    ...                       "start": [0.0, 0.0]})
    >>> sampled = Fragments.from_rows([0, 1], [4.0, 4.0], [0.5, 0.5])
    >>> raised, note = lift_limits(trace, tasks, sampled)
    >>> raised.durations.tolist(), raised.rates.tolist(), note.count
    ([2.0, 2.0], [1.0, 1.0], 2)
    """
    placements = trace.placements.drop_nulls(["machine", "cores", "start", "end"])
    oversubscribed = find_oversubscribed_nodes(trace.nodes, placements)
    if not oversubscribed:
        return fragments, note("assumed", _RAISED_LIMITS)
    task_rows = np.repeat(fragments.tasks, np.diff(fragments.offsets))
    single_node = placements.filter(pl.col("machine").n_unique().over("task") == 1)
    placement_rows = find_rows(single_node["task"], tasks["id"])
    machine = pl.Series([*single_node["machine"], None], dtype=pl.String).gather(
        np.where(placement_rows < 0, single_node.height, placement_rows)
    )
    durations, rates = fragments.durations.copy(), fragments.rates.copy()
    cores = (tasks["cores"] * tasks["speed"].fill_null(1.0)).fill_null(np.nan).to_numpy()
    begin = _compute_begins(tasks["start"].fill_null(np.nan).to_numpy(), fragments)
    changed = np.zeros(len(durations), dtype=bool)
    placements_by_node = placements.partition_by("machine", as_dict=True)
    usage = trace.usage.filter(pl.col("dt") > 0).drop_nulls(["machine", "t", "cpu"])
    usage_by_node = usage.partition_by("machine", as_dict=True)
    numbers = find_rows(pl.Series([name for name, _ in oversubscribed]), machine)
    rows_by_node = _group_rows(numbers[task_rows], durations > 0, len(oversubscribed))
    for (name, size), rows in zip(oversubscribed, rows_by_node, strict=True):
        node_placements = placements_by_node[name,]
        allocation = _Integral.from_intervals(
            *(node_placements[column].to_numpy() for column in ("start", "end", "cores"))
        )
        begins, ends = begin[rows], begin[rows] + durations[rows]
        allocated = allocation.mean(begins, ends)
        used = _integrate_usage(usage_by_node.get((name,))).mean(begins, ends)
        full_rate = cores[task_rows][rows]
        fair_share = full_rate * size / np.maximum(allocated, size)
        limited = (
            (allocated > size * (1 + 1e-9))
            & (used >= BUSY * size)
            & (rates[rows] >= NEARLY_FAIR * fair_share)
            & (rates[rows] < full_rate)
        )
        changed[rows[limited]] = True
    full_rate = cores[task_rows][changed]
    durations[changed] *= rates[changed] / full_rate
    rates[changed] = full_rate
    names = tasks["id"].gather(np.unique(task_rows[changed]))
    return Fragments.from_rows(task_rows, durations, rates), note("assumed", _RAISED_LIMITS, names)


def find_oversubscribed_nodes(
    nodes: pl.DataFrame, placements: pl.DataFrame
) -> list[tuple[str, float]]:
    """Find the nodes with more allocated cores than they have, at any time, with their cores.

    Args:
        nodes: The nodes, with their `node` and `cores`.
        placements: Placements whose `machine`, `cores`, `start` and `end` are known.

    >>> nodes = pl.DataFrame({"node": ["n", "m"], "cores": [1.0, 1.0]})
    >>> find_oversubscribed_nodes(nodes, pl.DataFrame({"machine": ["n", "n"], "cores": [1.0, 1.0],
    ...                                     "start": [0.0, 1.0], "end": [2.0, 3.0]}))
    [('n', 1.0)]
    """
    begins = placements.select("machine", t="start", change="cores")
    ends = placements.select("machine", t="end", change=-pl.col("cores"))
    max_allocated = (
        pl.concat([begins, ends])
        .sort("t", "change")
        .group_by("machine")
        .agg(pl.col("change").cum_sum().max().alias("max_allocated"))
    )
    nodes = nodes.filter(pl.col("cores") > 0).select("node", "cores")
    joined = nodes.join(max_allocated, left_on="node", right_on="machine", maintain_order="left")
    return (
        joined.filter(pl.col("max_allocated") > pl.col("cores") * (1 + 1e-9))
        .select(nodes.columns)
        .rows()
    )


def _group_rows(numbers: Rows, wanted: NDArray[np.bool_], count: int) -> list[Rows]:
    """List the wanted rows of each number from 0 to `count` - 1."""
    rows = np.flatnonzero(wanted & (numbers >= 0))
    order = rows[np.argsort(numbers[rows], kind="stable")]
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]


def _integrate_usage(samples: pl.DataFrame | None) -> _Integral:
    """Integrate the CPU usage of a node."""
    if samples is None:
        return _Integral(np.zeros(1), np.zeros(1))
    t, dt, cpu = (samples[column].to_numpy() for column in ("t", "dt", "cpu"))
    return _Integral.from_intervals(t - dt, t, cpu / dt)


def _compute_begins(start: Floats, fragments: Fragments) -> Floats:
    """Compute the start of each fragment; they are consecutive from the start of their task."""
    ends = np.cumsum(fragments.durations)
    lengths = np.diff(fragments.offsets)
    before = np.repeat(np.concatenate([[0.0], ends])[fragments.offsets[:-1]], lengths)
    begins: Floats = np.repeat(start[fragments.tasks], lengths) + (
        ends - fragments.durations - before
    )
    return begins
