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

#: A node that uses this share of its cores is busy; below 1, because samples have blurred ends.
BUSY: Final = 0.9
#: A task with at least this part of its fair share had a higher demand.
NEARLY_FAIR: Final = 0.8

_SUPPLY: Final = (
    "tasks sampled on oversubscribed nodes: their work is kept, and their limit is all their cores"
)


class _Integral(NamedTuple):
    """The integral of a rate over time, at a sequence of times."""

    times: Floats
    sums: Floats

    @classmethod
    def from_intervals(cls, begin: Floats, end: Floats, rate: Floats) -> _Integral:
        """The integral of rates, each constant from a begin to an end."""
        times = np.concatenate([begin, end])
        order = np.argsort(times, kind="stable")
        times = times[order]
        slopes = np.cumsum(np.concatenate([rate, -rate])[order])
        steps = np.diff(times) * slopes[:-1]
        return cls(times, np.concatenate([[0.0], np.cumsum(steps)]))

    def mean(self, begin: Floats, end: Floats) -> Floats:
        """The mean rate between two times."""
        found = np.interp(end, self.times, self.sums) - np.interp(begin, self.times, self.sums)
        result: Floats = found / (end - begin)
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
    >>> found, note = lift_limits(trace, tasks, Fragments.from_rows([0, 1], [4.0, 4.0], [0.5, 0.5]))
    >>> found.durations.tolist(), found.rates.tolist(), note.count
    ([2.0, 2.0], [1.0, 1.0], 2)
    """
    placements = trace.placements.drop_nulls(["machine", "cores", "start", "end"])
    crowded = find_oversubscribed_nodes(trace.nodes, placements)
    if not crowded:
        return fragments, note("assumed", _SUPPLY)
    each = np.repeat(fragments.tasks, np.diff(fragments.offsets))
    alone = placements.filter(pl.col("machine").n_unique().over("task") == 1)
    place = find_rows(alone["task"], tasks["id"])
    machine = pl.Series([*alone["machine"], None], dtype=pl.String).gather(
        np.where(place < 0, alone.height, place)
    )
    durations, rates = fragments.durations.copy(), fragments.rates.copy()
    cores = (tasks["cores"] * tasks["speed"].fill_null(1.0)).fill_null(np.nan).to_numpy()
    begin = _begins(tasks["start"].fill_null(np.nan).to_numpy(), fragments)
    changed = np.zeros(len(durations), dtype=bool)
    by_node = placements.partition_by("machine", as_dict=True)
    usage = trace.usage.filter(pl.col("dt") > 0).drop_nulls(["machine", "t", "cpu"])
    used_by = usage.partition_by("machine", as_dict=True)
    numbers = find_rows(pl.Series([name for name, _ in crowded]), machine)
    mine_by = _group_rows(numbers[each], durations > 0, len(crowded))
    for (name, size), mine in zip(crowded, mine_by, strict=True):
        placements_here = by_node[name,]
        placed = _Integral.from_intervals(
            *(placements_here[column].to_numpy() for column in ("start", "end", "cores"))
        )
        a, b = begin[mine], begin[mine] + durations[mine]
        asked = placed.mean(a, b)
        used = _integrate_usage(used_by.get((name,))).mean(a, b)
        wanted = cores[each][mine]
        fair = wanted * size / np.maximum(asked, size)
        short = (
            (asked > size * (1 + 1e-9))
            & (used >= BUSY * size)
            & (rates[mine] >= NEARLY_FAIR * fair)
            & (rates[mine] < wanted)
        )
        changed[mine[short]] = True
    wanted = cores[each][changed]
    durations[changed] *= rates[changed] / wanted
    rates[changed] = wanted
    names = tasks["id"].gather(np.unique(each[changed]))
    return Fragments.from_rows(each, durations, rates), note("assumed", _SUPPLY, names)


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
    begins = placements.select("machine", t="start", by="cores")
    ends = placements.select("machine", t="end", by=-pl.col("cores"))
    most = (
        pl.concat([begins, ends])
        .sort("t", "by")
        .group_by("machine")
        .agg(pl.col("by").cum_sum().max().alias("most"))
    )
    nodes = nodes.filter(pl.col("cores") > 0).select("node", "cores")
    found = nodes.join(most, left_on="node", right_on="machine", maintain_order="left")
    return found.filter(pl.col("most") > pl.col("cores") * (1 + 1e-9)).select(nodes.columns).rows()


def _group_rows(numbers: Rows, wanted: NDArray[np.bool_], count: int) -> list[Rows]:
    """The wanted rows of each number from 0 on."""
    places = np.flatnonzero(wanted & (numbers >= 0))
    order = places[np.argsort(numbers[places], kind="stable")]
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]


def _integrate_usage(samples: pl.DataFrame | None) -> _Integral:
    """The integral of the CPU usage of a node."""
    if samples is None:
        return _Integral(np.zeros(1), np.zeros(1))
    t, dt, cpu = (samples[column].to_numpy() for column in ("t", "dt", "cpu"))
    return _Integral.from_intervals(t - dt, t, cpu / dt)


def _begins(start: Floats, fragments: Fragments) -> Floats:
    """The start of each fragment; fragments are consecutive from the start of their task."""
    ends = np.cumsum(fragments.durations)
    lengths = np.diff(fragments.offsets)
    before = np.repeat(np.concatenate([[0.0], ends])[fragments.offsets[:-1]], lengths)
    begins: Floats = np.repeat(start[fragments.tasks], lengths) + (
        ends - fragments.durations - before
    )
    return begins
