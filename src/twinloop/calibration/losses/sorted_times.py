"""Losses of sorted times of tasks, or of their means, without matching of tasks by id."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.losses.mean_absolute import (
    AbsoluteDifferenceLoss,
    LossTerm,
    compute_relative_errors,
    require_positive,
    select_known,
)
from twinloop.calibration.losses.tasks_by_machine import MachineTasks
from twinloop.calibration.run_columns import Floats, RunBatch, RunColumns


def sort_pairs(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Sort pairs along each row: by `first`, equal ones by `second`.

    >>> sort_pairs(np.array([[2.0, 1.0, 1.0]]), np.array([[5.0, 7.0, 6.0]]))
    (array([[1., 1., 2.]]), array([[6., 7., 5.]]))
    """
    rows, size = first.shape
    # The index of a task in the last bits of its time sorts times and indices together, three times
    # as fast as argsort. Times that differ only in these bits are sorted again below.
    bits = max(1, (size - 1).bit_length())
    places = np.arange(size, dtype=np.int64)
    keys = (np.ascontiguousarray(first).view(np.int64) & ~((1 << bits) - 1)) | places
    keys.sort(axis=1)
    keys &= (1 << bits) - 1
    keys += np.arange(rows, dtype=np.int64)[:, np.newaxis] * size
    ordered, along = (np.ascontiguousarray(each).take(keys) for each in (first, second))
    step = ordered[:, 1:] - ordered[:, :-1]
    bad = np.flatnonzero(~(step.min(axis=1, initial=np.inf) > 0))
    if bad.size:
        wrong = (step[bad] < 0) | ((step[bad] == 0) & (np.diff(along[bad], axis=1) < 0))
        bad = bad[wrong.any(axis=1)]
    if bad.size:
        order = np.lexsort((second[bad], first[bad]), axis=1)
        ordered[bad] = np.take_along_axis(first[bad], order, axis=1)
        along[bad] = np.take_along_axis(second[bad], order, axis=1)
    return ordered, along


def _pairs(group: MachineTasks) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    (real_time, real_cpu), (time, cpu) = group.real, group.twin
    here = sort_pairs(real_time[np.newaxis], real_cpu[np.newaxis])
    return (here[0][0], here[1][0]), sort_pairs(time, cpu)


def compare_sorted_pairs(group: MachineTasks) -> list[LossTerm]:
    """Compare run and CPU times of tasks in the order of their run times."""
    here, there = _pairs(group)
    return [LossTerm(twin - real) for real, twin in zip(here, there, strict=True)]


def compare_sorted_pairs_relative(group: MachineTasks) -> list[LossTerm]:
    """Compare the same times, each relative to the real one."""
    here, there = _pairs(group)
    return [
        LossTerm(compute_relative_errors(twin, real, what, group.run))
        for what, real, twin in zip(("run time", "CPU time"), here, there, strict=True)
    ]


def compare_sorted_columns(group: MachineTasks) -> list[LossTerm]:
    """Compare sorted run times and sorted CPU times."""
    return [
        LossTerm(np.sort(twin, axis=1) - np.sort(real))
        for real, twin in zip(group.real, group.twin, strict=True)
    ]


def compare_sorted_columns_relative(group: MachineTasks) -> list[LossTerm]:
    """Compare the same times, each relative to the real one."""
    return [
        LossTerm(compute_relative_errors(np.sort(twin, axis=1), np.sort(real), what, group.run))
        for what, real, twin in zip(("run time", "CPU time"), group.real, group.twin, strict=True)
    ]


def compare_means(group: MachineTasks) -> list[LossTerm]:
    """Compare the means of each column, relative to the real mean."""
    found = []
    for what, real, twin in zip(("run time", "CPU time"), group.real, group.twin, strict=False):
        whole = require_positive(float(real.mean()), f"the mean {what}", group.run)
        mean = np.ascontiguousarray(twin).mean(axis=1, keepdims=True)
        found.append(LossTerm((mean - real.mean()) / whole))
    return found


def _sorted_over(real: RunColumns, twin: RunBatch, column: str, whole: float) -> LossTerm:
    here, there = select_known(real, twin, column)
    return LossTerm((np.sort(there, axis=1) - np.sort(here)) / whole)


def _ends(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    return [_sorted_over(real, twin, "end", require_positive(real.makespan, "the makespan", real))]


def _times(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    makespan = require_positive(real.makespan, "the makespan", real)
    usual = require_positive(float(np.nanmean(real.run_time)), "the mean run time", real)
    return [
        _sorted_over(real, twin, "start", makespan),
        _sorted_over(real, twin, "end", makespan),
        _sorted_over(real, twin, "run_time", usual),
    ]


def _waits(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    turnaround = float(np.nanmean(real.end - real.submit))
    return [
        _sorted_over(real, twin, "wait", require_positive(turnaround, "the mean turnaround", real))
    ]


#: The losses of this module that do not depend on machines.
SORTED_TIME_LOSSES = (
    AbsoluteDifferenceLoss(
        "ends-sorted", frozenset({"end"}), "sorted ends over the makespan", compare=_ends
    ),
    AbsoluteDifferenceLoss(
        "sorted-times", frozenset({"start", "end", "run_time"}),
        "starts, ends and run times, each sorted", compare=_times,
    ),
    AbsoluteDifferenceLoss(
        "waits", frozenset({"wait"}), "sorted waits over the mean turnaround", compare=_waits
    ),
)  # fmt: skip
