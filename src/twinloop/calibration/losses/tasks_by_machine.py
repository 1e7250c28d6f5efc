"""Grouping of tasks by machine, in the real run and in every run of the twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from twinloop.calibration.run_columns import Floats, Indices, RunBatch, RunColumns
from twinloop.description.errors import InputError


class MachineTasks(NamedTuple):
    """The compared columns of the tasks of one machine; those of the twin have a row per run."""

    real: tuple[Floats, ...]
    twin: tuple[Floats, ...]
    #: One over the number of machines.
    weight: float
    run: RunColumns


class ComparableRows(NamedTuple):
    """Rows of the twin with equal numbers of tasks on each machine, and these tasks."""

    rows: Indices
    groups: list[MachineTasks]


def group_all_tasks(
    real: RunColumns, twin: RunBatch, columns: Sequence[str], reasons: dict[int, str]
) -> Iterator[ComparableRows]:
    """Group all tasks together, as if there were one machine."""
    known, rows = _select_comparable(real, twin, columns, reasons)
    if rows.size:
        real_columns = tuple(getattr(real, name)[known] for name in columns)
        twin_columns = tuple(_select(getattr(twin, name), rows, known) for name in columns)
        yield ComparableRows(rows, [MachineTasks(real_columns, twin_columns, 1.0, real)])


def group_by_machine(
    real: RunColumns,
    twin: RunBatch,
    columns: Sequence[str],
    reasons: dict[int, str],
    *,
    paired: bool,
) -> Iterator[ComparableRows]:
    """Group tasks by machine; a row with a machine that cannot be compared gets a reason.

    Args:
        real: The real run.
        twin: The runs of the twin.
        columns: The compared columns.
        reasons: Receives, by row, the reason why it is left out.
        paired: Whether a machine must have as many tasks in the twin as in the real run; else it
            must have tasks in both or in neither.
    """
    known, rows = _select_comparable(real, twin, columns, reasons)
    real_machines = real.machine[known]
    if (real_machines < 0).all() and (twin.machine is None or (twin.machine < 0).all()):
        yield from group_all_tasks(real, twin, columns, reasons)
        return
    _refuse_unknown_machines(real, known)
    if twin.machine is None:
        raise InputError(
            "the runs of the twin have no machine",
            kind="missing-data",
            remedy="simulate with select_outputs(loss.needs)",
        )
    rows = _require_machines(twin, rows, known, reasons)
    placed = _select(twin.machine, rows, known)
    machines = len(real.machines)
    real_counts = np.bincount(real_machines, minlength=machines)
    order = np.argsort(real_machines, kind="stable")
    real_columns = tuple(getattr(real, name)[known][order] for name in columns)
    for members, twin_counts, same in _group_rows(placed, machines):
        problem = _find_mismatch(real, real_counts, twin_counts, paired)
        if problem:
            reasons.update((int(row), problem) for row in rows[members])
            continue
        twin_columns = [_select(getattr(twin, name), rows[members], known) for name in columns]
        if not same:
            # Small integers sort faster.
            small = placed[members].astype(np.int16 if machines < 2**15 else np.intp)
            sorting = np.argsort(small, axis=1, kind="stable")
            twin_columns = [np.take_along_axis(column, sorting, axis=1) for column in twin_columns]
        elif (np.diff(placed[0]) < 0).any():
            chosen = np.argsort(placed[0], kind="stable")
            twin_columns = [np.take(column, chosen, axis=1) for column in twin_columns]
        yield ComparableRows(
            rows[members], _make_groups(real, real_columns, twin_columns, real_counts, twin_counts)
        )


def count_used_machines(real: RunColumns) -> int:
    """Count the machines with tasks in a real run; 1 if they are unknown.

    >>> runs = RunBatch.of({"task_machine": [[0, 2, 2]]}, "abc", ["n1", "n2", "n3"])
    >>> count_used_machines(runs[0])
    2
    """
    return max(1, np.unique(real.machine[real.machine >= 0]).size)


def _make_groups(
    real: RunColumns,
    real_columns: Sequence[Floats],
    twin_columns: Sequence[Floats],
    real_counts: Indices,
    twin_counts: Indices,
) -> list[MachineTasks]:
    ends, twin_ends = np.cumsum(real_counts), np.cumsum(twin_counts)
    used = np.flatnonzero(real_counts)
    return [
        MachineTasks(
            tuple(column[ends[m] - real_counts[m] : ends[m]] for column in real_columns),
            tuple(
                column[:, twin_ends[m] - twin_counts[m] : twin_ends[m]] for column in twin_columns
            ),
            1.0 / used.size,
            real,
        )
        for m in used
    ]


def _select_comparable(
    real: RunColumns, twin: RunBatch, columns: Sequence[str], reasons: dict[int, str]
) -> tuple[slice | Indices, Indices]:
    """Select tasks with all columns in the real run, and rows of the twin with all of these."""
    unknown = np.isnan(np.stack([getattr(real, name) for name in columns])).any(axis=0)
    known = np.flatnonzero(~unknown) if unknown.any() else slice(None)
    if unknown.all():
        raise InputError(
            f"{real.label} has no task with known {' and '.join(columns)}", kind="missing-data"
        )
    rows = np.arange(len(twin))
    for name in columns:
        values = getattr(twin, name)
        if np.isnan(values.sum()):
            missing = np.isnan(values[:, known])
            for row in np.flatnonzero(missing.any(axis=1)):
                task = np.arange(len(real.tasks))[known][missing[row].argmax()]
                why = f"task '{real.tasks[task]}' did not complete in the twin: no {name}"
                reasons.setdefault(int(row), why)
            rows = rows[~missing[rows].any(axis=1)]
    return known, rows


def _select(values: np.ndarray, rows: Indices, known: slice | Indices) -> np.ndarray:
    """Select rows and columns; rows are copied only if not all are selected."""
    if rows.size < len(values):
        values = values[rows]
    return values[:, known]


def _refuse_unknown_machines(real: RunColumns, known: slice | Indices) -> None:
    remedy = "use a loss over all machines: its name ends with -all"
    if real.unknown_machines:
        raise InputError(
            f"machine '{real.unknown_machines[0]}' of {real.label} is not in the scenario",
            kind="unknown-reference",
            remedy=remedy,
        )
    missing = real.machine[known] < 0
    if missing.any():
        task = np.arange(len(real.tasks))[known][missing.argmax()]
        raise InputError(
            f"the machine of task '{real.tasks[task]}' of {real.label} is unknown",
            kind="missing-data",
            remedy=remedy,
        )


def _require_machines(
    twin: RunBatch, rows: Indices, known: slice | Indices, reasons: dict[int, str]
) -> Indices:
    """Select the rows in which every task has a machine."""
    assert twin.machine is not None
    placed = _select(twin.machine, rows, known)
    if placed.min(initial=0) >= 0:
        return rows
    unplaced = placed < 0
    has_unplaced = unplaced.any(axis=1)
    for row, row_unplaced in zip(rows[has_unplaced], unplaced[has_unplaced], strict=True):
        task = np.arange(len(twin.tasks))[known][row_unplaced.argmax()]
        reasons[int(row)] = f"task '{twin.tasks[task]}' has no machine in the twin"
    return rows[~has_unplaced]


def _group_rows(placed: Indices, machines: int) -> Iterator[tuple[slice | Indices, Indices, bool]]:
    """Group rows with equal numbers of tasks on each machine.

    Yields the rows, their numbers of tasks by machine, and whether all rows are equal.
    """
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
    for kind, twin_counts in enumerate(kinds):
        yield np.flatnonzero(which.ravel() == kind), twin_counts, False


def _find_mismatch(
    real: RunColumns, real_counts: Indices, twin_counts: Indices, paired: bool
) -> str | None:
    wrong = real_counts != twin_counts if paired else (real_counts > 0) != (twin_counts > 0)
    if not wrong.any():
        return None
    machine = int(wrong.argmax())
    return (
        f"machine '{real.machines[machine]}' has {real_counts[machine]} tasks in {real.label} "
        f"and {twin_counts[machine]} in the twin"
    )
