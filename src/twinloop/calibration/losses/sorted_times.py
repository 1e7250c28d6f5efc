"""Losses of sorted times of tasks, or of their means, without matching tasks by ID."""

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
    indices = np.arange(size, dtype=np.int64)
    keys = (np.ascontiguousarray(first).view(np.int64) & ~((1 << bits) - 1)) | indices
    keys.sort(axis=1)
    keys &= (1 << bits) - 1
    keys += np.arange(rows, dtype=np.int64)[:, np.newaxis] * size
    sorted_first, sorted_second = (
        np.ascontiguousarray(each).take(keys) for each in (first, second)
    )
    step = sorted_first[:, 1:] - sorted_first[:, :-1]
    unsorted_rows = np.flatnonzero(~(step.min(axis=1, initial=np.inf) > 0))
    if unsorted_rows.size:
        wrong = (step[unsorted_rows] < 0) | (
            (step[unsorted_rows] == 0) & (np.diff(sorted_second[unsorted_rows], axis=1) < 0)
        )
        unsorted_rows = unsorted_rows[wrong.any(axis=1)]
    if unsorted_rows.size:
        order = np.lexsort((second[unsorted_rows], first[unsorted_rows]), axis=1)
        sorted_first[unsorted_rows] = np.take_along_axis(first[unsorted_rows], order, axis=1)
        sorted_second[unsorted_rows] = np.take_along_axis(second[unsorted_rows], order, axis=1)
    return sorted_first, sorted_second


def _sort_both(group: MachineTasks) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    (real_time, real_cpu), (time, cpu) = group.real, group.twin
    real_values = sort_pairs(real_time[np.newaxis], real_cpu[np.newaxis])
    return (real_values[0][0], real_values[1][0]), sort_pairs(time, cpu)


def compare_sorted_pairs(group: MachineTasks) -> list[LossTerm]:
    """Compare run and CPU times of tasks in the order of their run times."""
    real_values, twin_values = _sort_both(group)
    return [LossTerm(twin - real) for real, twin in zip(real_values, twin_values, strict=True)]


def compare_sorted_pairs_relative(group: MachineTasks) -> list[LossTerm]:
    """Compare the same times, each relative to the real one."""
    real_values, twin_values = _sort_both(group)
    return [
        LossTerm(compute_relative_errors(twin, real, what, group.run))
        for what, real, twin in zip(("run time", "CPU time"), real_values, twin_values, strict=True)
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
    terms = []
    for what, real, twin in zip(("run time", "CPU time"), group.real, group.twin, strict=False):
        scale = require_positive(float(real.mean()), f"the mean {what}", group.run)
        mean = np.ascontiguousarray(twin).mean(axis=1, keepdims=True)
        terms.append(LossTerm((mean - real.mean()) / scale))
    return terms


def _compare_sorted_column(real: RunColumns, twin: RunBatch, column: str, scale: float) -> LossTerm:
    real_values, twin_values = select_known(real, twin, column)
    return LossTerm((np.sort(twin_values, axis=1) - np.sort(real_values)) / scale)


def _compare_sorted_ends(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    return [
        _compare_sorted_column(
            real, twin, "end", require_positive(real.makespan, "the makespan", real)
        )
    ]


def _compare_sorted_times(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    makespan = require_positive(real.makespan, "the makespan", real)
    mean = require_positive(float(np.nanmean(real.run_time)), "the mean run time", real)
    return [
        _compare_sorted_column(real, twin, "start", makespan),
        _compare_sorted_column(real, twin, "end", makespan),
        _compare_sorted_column(real, twin, "run_time", mean),
    ]


def _compare_sorted_waits(real: RunColumns, twin: RunBatch) -> list[LossTerm]:
    turnaround = float(np.nanmean(real.end - real.submit))
    return [
        _compare_sorted_column(
            real, twin, "wait", require_positive(turnaround, "the mean turnaround", real)
        )
    ]


#: The losses of this module that do not depend on machines.
SORTED_TIME_LOSSES = (
    AbsoluteDifferenceLoss(
        "ends-sorted", frozenset({"end"}), "sorted ends over the makespan",
        compare=_compare_sorted_ends,
    ),
    AbsoluteDifferenceLoss(
        "sorted-times", frozenset({"start", "end", "run_time"}),
        "starts, ends and run times, each sorted", compare=_compare_sorted_times,
    ),
    AbsoluteDifferenceLoss(
        "waits", frozenset({"wait"}), "sorted waits over the mean turnaround",
        compare=_compare_sorted_waits,
    ),
)  # fmt: skip
