"""Tasks by the machine they ran on, in the real run and in every run of the twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from twinloop.calibration.run_columns import Floats, Indices, RunBatch, RunColumns
from twinloop.description.errors import InputError


class MachineTasks(NamedTuple):
    """The tasks of one machine: the columns that are compared, the twin's with a row per run."""

    real: tuple[Floats, ...]
    twin: tuple[Floats, ...]
    #: How much it weighs: one over the number of machines.
    weight: float
    run: RunColumns


class ComparableRows(NamedTuple):
    """Rows of the twin that have as many tasks on each machine, and these tasks."""

    rows: Indices
    groups: list[MachineTasks]


def group_all_tasks(
    real: RunColumns, twin: RunBatch, columns: Sequence[str], reasons: dict[int, str]
) -> Iterator[ComparableRows]:
    """All tasks as if they had run on one machine."""
    known, rows = _comparable(real, twin, columns, reasons)
    if rows.size:
        here = tuple(getattr(real, name)[known] for name in columns)
        there = tuple(_taken(getattr(twin, name), rows, known) for name in columns)
        yield ComparableRows(rows, [MachineTasks(here, there, 1.0, real)])


def group_by_machine(
    real: RunColumns,
    twin: RunBatch,
    columns: Sequence[str],
    reasons: dict[int, str],
    *,
    paired: bool,
) -> Iterator[ComparableRows]:
    """The tasks of each machine; rows in which some machine cannot be compared get a reason.

    Args:
        real: The real run.
        twin: The runs of the twin.
        columns: What is compared.
        reasons: Takes, by row, why it is in no batch.
        paired: Whether a machine must have as many tasks in the twin as in the real run; else it
            is enough that it has some in both or in neither.
    """
    known, rows = _comparable(real, twin, columns, reasons)
    of_task = real.machine[known]
    if (of_task < 0).all() and (twin.machine is None or (twin.machine < 0).all()):
        yield from group_all_tasks(real, twin, columns, reasons)
        return
    _refuse_unknown(real, known)
    if twin.machine is None:
        raise InputError(
            "the runs of the twin have no machine", remedy="ask for it: outputs_for(loss.needs)"
        )
    rows = _placed(twin, rows, known, reasons)
    placed = _taken(twin.machine, rows, known)
    machines = len(real.machines)
    wanted = np.bincount(of_task, minlength=machines)
    order = np.argsort(of_task, kind="stable")
    here = tuple(getattr(real, name)[known][order] for name in columns)
    for members, has, same in _alike(placed, machines):
        problem = _problem(real, wanted, has, paired)
        if problem:
            reasons.update((int(row), problem) for row in rows[members])
            continue
        there = [_taken(getattr(twin, name), rows[members], known) for name in columns]
        if not same:
            # Few machines are told apart by small numbers, which sort in no time.
            small = placed[members].astype(np.int16 if machines < 2**15 else np.intp)
            sorting = np.argsort(small, axis=1, kind="stable")
            there = [np.take_along_axis(column, sorting, axis=1) for column in there]
        elif (np.diff(placed[0]) < 0).any():
            chosen = np.argsort(placed[0], kind="stable")
            there = [np.take(column, chosen, axis=1) for column in there]
        yield ComparableRows(rows[members], _groups(real, here, there, wanted, has))


def count_used_machines(real: RunColumns) -> int:
    """How many machines a real run has tasks on; 1 where it does not say.

    >>> runs = RunBatch.of({"task_machine": [[0, 2, 2]]}, "abc", ["n1", "n2", "n3"])
    >>> count_used_machines(runs[0])
    2
    """
    return max(1, np.unique(real.machine[real.machine >= 0]).size)


def _groups(
    real: RunColumns, here: Sequence[Floats], there: Sequence[Floats], wanted: Indices, has: Indices
) -> list[MachineTasks]:
    ends, twin_ends = np.cumsum(wanted), np.cumsum(has)
    used = np.flatnonzero(wanted)
    return [
        MachineTasks(
            tuple(column[ends[m] - wanted[m] : ends[m]] for column in here),
            tuple(column[:, twin_ends[m] - has[m] : twin_ends[m]] for column in there),
            1.0 / used.size,
            real,
        )
        for m in used
    ]


def _comparable(
    real: RunColumns, twin: RunBatch, columns: Sequence[str], reasons: dict[int, str]
) -> tuple[slice | Indices, Indices]:
    """The tasks that the real run knows all about, and the rows in which the twin does too."""
    unknown = np.isnan(np.stack([getattr(real, name) for name in columns])).any(axis=0)
    known = np.flatnonzero(~unknown) if unknown.any() else slice(None)
    if unknown.all():
        raise InputError(f"{real.called} has no task of which {' and '.join(columns)} are known")
    rows = np.arange(len(twin))
    for name in columns:
        values = getattr(twin, name)
        if np.isnan(values.sum()):
            lacking = np.isnan(values[:, known])
            for row in np.flatnonzero(lacking.any(axis=1)):
                task = np.arange(len(real.tasks))[known][lacking[row].argmax()]
                why = f"task '{real.tasks[task]}' did not complete in the twin: no {name}"
                reasons.setdefault(int(row), why)
            rows = rows[~lacking[rows].any(axis=1)]
    return known, rows


def _taken(values: np.ndarray, rows: Indices, known: slice | Indices) -> np.ndarray:
    """These rows and columns; the array itself if that is all of it."""
    if rows.size < len(values):
        values = values[rows]
    return values[:, known]


def _refuse_unknown(real: RunColumns, known: slice | Indices) -> None:
    remedy = "a loss over all machines together: its name ends with -all"
    if real.strange:
        raise InputError(
            f"machine '{real.strange[0]}' of {real.called} is none of the scenario", remedy=remedy
        )
    lacking = real.machine[known] < 0
    if lacking.any():
        task = np.arange(len(real.tasks))[known][lacking.argmax()]
        raise InputError(
            f"{real.called} does not say the machine of task '{real.tasks[task]}'", remedy=remedy
        )


def _placed(
    twin: RunBatch, rows: Indices, known: slice | Indices, reasons: dict[int, str]
) -> Indices:
    """The rows in which every task has a machine."""
    assert twin.machine is not None
    placed = _taken(twin.machine, rows, known)
    if placed.min(initial=0) >= 0:
        return rows
    nowhere = placed < 0
    lost = nowhere.any(axis=1)
    for row, where in zip(rows[lost], nowhere[lost], strict=True):
        task = np.arange(len(twin.tasks))[known][where.argmax()]
        reasons[int(row)] = f"task '{twin.tasks[task]}' has no machine in the twin"
    return rows[~lost]


def _alike(placed: Indices, machines: int) -> Iterator[tuple[slice | Indices, Indices, bool]]:
    """Rows with the same number of tasks on each machine, and if all rows are the same."""
    if not len(placed):
        return
    if (placed == placed[0]).all():
        yield slice(None), np.bincount(placed[0], minlength=machines), True
        return
    flat = placed + np.arange(len(placed))[:, np.newaxis] * machines
    counts = np.bincount(flat.ravel(), minlength=len(placed) * machines).reshape(-1, machines)
    if (counts == counts[0]).all():
        yield slice(None), counts[0], False
        return
    kinds, which = np.unique(counts, axis=0, return_inverse=True)
    for kind, has in enumerate(kinds):
        yield np.flatnonzero(which.ravel() == kind), has, False


def _problem(real: RunColumns, wanted: Indices, has: Indices, paired: bool) -> str | None:
    wrong = wanted != has if paired else (wanted > 0) != (has > 0)
    if not wrong.any():
        return None
    machine = int(wrong.argmax())
    return (
        f"machine '{real.machines[machine]}' has {wanted[machine]} tasks in {real.called} "
        f"and {has[machine]} in the twin"
    )
