"""Losses that hold the sorted times of real tasks against those of the twin, or their means."""

from __future__ import annotations

import numpy as np

from twinloop.calibration.losses.mean_absolute import Differences, Part, both, relative, scale
from twinloop.calibration.losses.tasks_by_machine import Group
from twinloop.calibration.run_columns import Floats, Run, Runs


def lexical(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Pairs sorted along each row: by `first`, equal ones by `second`.

    >>> lexical(np.array([[2.0, 1.0, 1.0]]), np.array([[5.0, 7.0, 6.0]]))
    (array([[1., 1., 2.]]), array([[6., 7., 5.]]))
    """
    rows, size = first.shape
    # The place of a task in the last bits of its time sorts times and places at once, three times
    # as fast as argsort. Times that these bits would have told apart are put right below.
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


def _pairs(group: Group) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    (real_time, real_cpu), (time, cpu) = group.real, group.twin
    here = lexical(real_time[np.newaxis], real_cpu[np.newaxis])
    return (here[0][0], here[1][0]), lexical(time, cpu)


def one_sort(group: Group) -> list[Part]:
    """Run and CPU times of tasks in the order of their run times."""
    here, there = _pairs(group)
    return [Part(twin - real) for real, twin in zip(here, there, strict=True)]


def one_sort_relative(group: Group) -> list[Part]:
    """The same, each relative to the real one."""
    here, there = _pairs(group)
    return [
        Part(relative(twin, real, what, group.run))
        for what, real, twin in zip(("run time", "CPU time"), here, there, strict=True)
    ]


def each_sorted(group: Group) -> list[Part]:
    """Run times in their own order, and CPU times in theirs."""
    return [
        Part(np.sort(twin, axis=1) - np.sort(real))
        for real, twin in zip(group.real, group.twin, strict=True)
    ]


def each_sorted_relative(group: Group) -> list[Part]:
    """The same, each relative to the real one."""
    return [
        Part(relative(np.sort(twin, axis=1), np.sort(real), what, group.run))
        for what, real, twin in zip(("run time", "CPU time"), group.real, group.twin, strict=True)
    ]


def means(group: Group) -> list[Part]:
    """The mean of each column, relative to the real one."""
    found = []
    for what, real, twin in zip(("run time", "CPU time"), group.real, group.twin, strict=False):
        whole = scale(float(real.mean()), f"the mean {what}", group.run)
        mean = np.ascontiguousarray(twin).mean(axis=1, keepdims=True)
        found.append(Part((mean - real.mean()) / whole))
    return found


def _sorted_over(real: Run, twin: Runs, column: str, whole: float) -> Part:
    here, there = both(real, twin, column)
    return Part((np.sort(there, axis=1) - np.sort(here)) / whole)


def _ends(real: Run, twin: Runs) -> list[Part]:
    return [_sorted_over(real, twin, "end", scale(real.makespan, "the makespan", real))]


def _times(real: Run, twin: Runs) -> list[Part]:
    makespan = scale(real.makespan, "the makespan", real)
    usual = scale(float(np.nanmean(real.run_time)), "the mean run time", real)
    return [
        _sorted_over(real, twin, "start", makespan),
        _sorted_over(real, twin, "end", makespan),
        _sorted_over(real, twin, "run_time", usual),
    ]


def _waits(real: Run, twin: Runs) -> list[Part]:
    turnaround = float(np.nanmean(real.end - real.submit))
    return [_sorted_over(real, twin, "wait", scale(turnaround, "the mean turnaround", real))]


#: The losses of this module that know no machines.
ORDERED = (
    Differences(
        "ends-sorted", frozenset({"end"}), "sorted ends over the makespan", compare=_ends
    ),
    Differences(
        "sorted-times", frozenset({"start", "end", "run_time"}),
        "starts, ends and run times, each sorted", compare=_times,
    ),
    Differences(
        "waits", frozenset({"wait"}), "sorted waits over the mean turnaround", compare=_waits
    ),
)  # fmt: skip
