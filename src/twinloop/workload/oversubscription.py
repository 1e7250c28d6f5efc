"""Usage that was sampled while a node was oversubscribed: what a task got, not what it wanted.

Tasks that share too few cores use what they get. Replayed as their demand, that would hide that
they held each other up. So where a node had more cores placed on it than it has, was busy, and a
task got about its fair share, the work of the sample is kept and the limit becomes the cores of the
task. A task that used clearly less than its share wanted no more.
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

#: A node that uses this share of its cores is busy: samples are not sharp at their ends.
BUSY: Final = 0.9
#: A task that gets this much of its fair share would have taken more.
NEARLY_FAIR: Final = 0.8

_SUPPLY: Final = (
    "tasks sampled on oversubscribed nodes: their work is kept, and they could have used all their "
    "cores"
)


class _Total(NamedTuple):
    """What was there of something between the start of time and each of some moments."""

    times: Floats
    sums: Floats

    @classmethod
    def of(cls, begin: Floats, end: Floats, rate: Floats) -> _Total:
        """The total of amounts that each last from a begin to an end."""
        times = np.concatenate([begin, end])
        order = np.argsort(times, kind="stable")
        times = times[order]
        slopes = np.cumsum(np.concatenate([rate, -rate])[order])
        steps = np.diff(times) * slopes[:-1]
        return cls(times, np.concatenate([[0.0], np.cumsum(steps)]))

    def mean(self, begin: Floats, end: Floats) -> Floats:
        """The mean between two moments."""
        found = np.interp(end, self.times, self.sums) - np.interp(begin, self.times, self.sums)
        result: Floats = found / (end - begin)
        return result


def lift_limits(
    trace: Trace, tasks: pl.DataFrame, fragments: Fragments
) -> tuple[Fragments, Cleaning]:
    """The fragments, with the limits that tasks would have had on nodes of their own.

    Args:
        trace: What was recorded.
        tasks: A row per task, with its `id`, `cores`, `speed` and the `start` of its last attempt.
        fragments: The demand of these tasks as it was sampled, from their start on.

    >>> times = {"start": [0.0, 0.0], "end": [4.0, 4.0]}
    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n"], "cores": [1.0]}),
    ...     placements=pl.DataFrame(
    ...         {"task": ["a", "b"], "machine": ["n", "n"], "cores": [1.0, 1.0], **times}),
    ...     usage=pl.DataFrame({"task": ["a", "b"], "machine": ["n", "n"], "t": [4.0, 4.0],
    ...                         "dt": [4.0, 4.0], "cpu": [2.0, 2.0]}))
    >>> tasks = pl.DataFrame({"id": ["a", "b"], "cores": [1.0, 1.0], "speed": [1.0, 1.0],
    ...                       "start": [0.0, 0.0]})
    >>> found, said = lift_limits(trace, tasks, Fragments.from_rows([0, 1], [4.0, 4.0], [0.5, 0.5]))
    >>> found.durations.tolist(), found.rates.tolist(), said.count
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
    mine_by = _grouped(numbers[each], durations > 0, len(crowded))
    for (name, size), mine in zip(crowded, mine_by, strict=True):
        there = by_node[name,]
        placed = _Total.of(*(there[column].to_numpy() for column in ("start", "end", "cores")))
        a, b = begin[mine], begin[mine] + durations[mine]
        asked = placed.mean(a, b)
        used = _used(used_by.get((name,))).mean(a, b)
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
    """The nodes that ever had more cores placed on them than they have, and these.

    Args:
        nodes: The nodes, with their `node` and `cores`.
        placements: Executions whose `machine`, `cores`, `start` and `end` are known.

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


def _grouped(numbers: Rows, wanted: NDArray[np.bool_], count: int) -> list[Rows]:
    """The places of each number from 0 on, where wanted."""
    places = np.flatnonzero(wanted & (numbers >= 0))
    order = places[np.argsort(numbers[places], kind="stable")]
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    return [order[bounds[i] : bounds[i + 1]] for i in range(count)]


def _used(samples: pl.DataFrame | None) -> _Total:
    """What was used of a node."""
    if samples is None:
        return _Total(np.zeros(1), np.zeros(1))
    t, dt, cpu = (samples[column].to_numpy() for column in ("t", "dt", "cpu"))
    return _Total.of(t - dt, t, cpu / dt)


def _begins(start: Floats, fragments: Fragments) -> Floats:
    """When each fragment began; they follow each other from the start of their task."""
    ends = np.cumsum(fragments.durations)
    lengths = np.diff(fragments.offsets)
    before = np.repeat(np.concatenate([[0.0], ends])[fragments.offsets[:-1]], lengths)
    begins: Floats = np.repeat(start[fragments.tasks], lengths) + (
        ends - fragments.durations - before
    )
    return begins
