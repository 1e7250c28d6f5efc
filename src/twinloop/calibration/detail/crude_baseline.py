"""The crude baseline of a study: list scheduling with mean run times, without any overhead."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.cases import Case
from twinloop.calibration.run_columns import RunBatch

_Floats = NDArray[np.float64]

#: The needs of a loss that a schedule has.
SCHEDULED: Final = frozenset({"makespan", "start", "end", "run_time", "wait"})


@dataclass(frozen=True)
class MeanRunTimes:
    """Mean run times of the tasks of training runs.

    A task has the mean of the same task in runs of the same workload; else that of all tasks with
    its name, else with its kind, else of all tasks.
    """

    by_task: Mapping[str, _Floats]
    by_name: Mapping[str, float]
    by_kind: Mapping[str, float]
    overall: float

    @classmethod
    def of(cls, cases: Sequence[Case]) -> MeanRunTimes:
        """Average the run times in the real runs of these cases."""
        by_task: dict[str, list[_Floats]] = defaultdict(list)
        by_name: dict[str, list[float]] = defaultdict(list)
        by_kind: dict[str, list[float]] = defaultdict(list)
        every: list[float] = []
        for case in cases:
            names, kinds = _list_texts(case, "name"), _list_texts(case, "kind")
            workload = case.compiled.workload.content_hash()
            for real in case.reals:
                by_task[workload].append(real.run_time)
                for name, kind, seconds in zip(names, kinds, real.run_time.tolist(), strict=True):
                    if np.isfinite(seconds):
                        by_name[name].append(seconds)
                        by_kind[kind].append(seconds)
                        every.append(seconds)
        for unknown in (by_name, by_kind):
            unknown.pop("", None)
        return cls(
            {workload: _average(np.stack(rows)) for workload, rows in by_task.items()},
            {name: float(np.mean(found)) for name, found in by_name.items()},
            {kind: float(np.mean(found)) for kind, found in by_kind.items()},
            float(np.mean(every)) if every else np.nan,
        )

    def predict(self, case: Case) -> tuple[_Floats, dict[str, int]]:
        """Predict the run time of each task of a case, and count the sources of the means."""
        count = len(case.reals[0].tasks)
        same = self.by_task.get(case.compiled.workload.content_hash(), np.full(count, np.nan))
        counts = dict.fromkeys(("task", "name", "kind", "all"), 0)
        times = np.empty(count)
        names, kinds = _list_texts(case, "name"), _list_texts(case, "kind")
        for place, (known, name, kind) in enumerate(zip(same.tolist(), names, kinds, strict=True)):
            if np.isfinite(known):
                times[place], source = known, "task"
            elif name in self.by_name:
                times[place], source = self.by_name[name], "name"
            elif kind in self.by_kind:
                times[place], source = self.by_kind[kind], "kind"
            else:
                times[place], source = self.overall, "all"
            counts[source] += 1
        return times, counts


def simulate_baseline(case: Case, run_times: _Floats, total: float) -> RunBatch:
    """Schedule the tasks of a case on a number of cores, in the order of the workload."""
    arrays = case.compiled.arrays
    parents = [
        arrays.parents[arrays.parent_offsets[i] : arrays.parent_offsets[i + 1]].tolist()
        for i in range(len(arrays))
    ]
    cores = arrays.cores * np.maximum(arrays.nodes, 1)
    submit = np.nan_to_num(arrays.submit)
    start, end = schedule_list(submit, cores, run_times, parents, total)
    ran = case.part if case.part is not None else np.ones(len(arrays), dtype=bool)
    return RunBatch.of(
        {
            "makespan_s": [end[ran].max() - submit[ran].min()],
            "task_submit": submit[np.newaxis],
            "task_start": start[np.newaxis],
            "task_end": end[np.newaxis],
        },
        tasks=case.reals[0].tasks,
        machines=case.reals[0].machines,
    )


def schedule_list(
    submit: _Floats,
    cores: _Floats,
    run_times: _Floats,
    parents: Sequence[Sequence[int]],
    total: float,
) -> tuple[_Floats, _Floats]:
    """Schedule tasks on a pool of cores: whenever cores are free, the first ready tasks that fit.

    A task is ready when it is submitted and its parents have ended. A task that is larger than the
    pool takes all of it.

    Args:
        submit: The submission of each task (s).
        cores: The cores of each task.
        run_times: The run time of each task (s).
        parents: The places of the parents of each task.
        total: The cores of the pool.

    Returns:
        The start and the end of each task.

    >>> start, end = schedule_list(np.zeros(3), np.ones(3), np.array([5.0, 3.0, 2.0]),
    ...                            [[], [], [1]], 2.0)
    >>> start.tolist(), end.tolist()
    ([0.0, 0.0, 3.0], [5.0, 3.0, 5.0])
    """
    count = len(submit)
    start, end = np.full(count, np.nan), np.full(count, np.nan)
    wide = np.minimum(cores, total)
    missing = np.array([len(each) for each in parents])
    children: list[list[int]] = [[] for _ in range(count)]
    for task, needed in enumerate(parents):
        for parent in needed:
            children[parent].append(task)
    #: Times of events with the kind 0 (the end of a task) or 1 (a submission).
    events = [(float(submit[task]), 1, task) for task in range(count)]
    heapq.heapify(events)
    submitted = np.zeros(count, dtype=bool)
    ready: list[int] = []
    free = float(total)
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, kind, task = heapq.heappop(events)
            if kind:
                submitted[task] = True
                released = [task]
            else:
                free += wide[task]
                released = children[task]
                for each in released:
                    missing[each] -= 1
            for each in released:
                if submitted[each] and not missing[each]:
                    heapq.heappush(ready, each)
        waiting = []
        while ready and free > 0:
            task = heapq.heappop(ready)
            if wide[task] > free + 1e-9:
                waiting.append(task)
                continue
            free -= wide[task]
            start[task], end[task] = now, now + run_times[task]
            heapq.heappush(events, (float(end[task]), 0, task))
        for task in waiting:
            heapq.heappush(ready, task)
    return start, end


def _list_texts(case: Case, column: str) -> list[str]:
    """List a text of each task, in the order of the case; empty where there is none."""
    by_id = dict(case.compiled.workload.tasks.select("id", column).rows())
    return [by_id.get(task) or "" for task in case.reals[0].tasks]


def _average(rows: _Floats) -> _Floats:
    known = np.isfinite(rows)
    counts = known.sum(axis=0)
    sums = np.where(known, rows, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
