"""Cycles in the dependencies between tasks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def find_blocked_tasks(parent_rows: Rows, child_rows: Rows, count: int) -> tuple[Rows, list[int]]:
    """Find the tasks that can never become ready, and one cycle; both are empty if there is none.

    The cycle lists tasks from child to parent, and ends with the task that it begins with.

    Args:
        parent_rows: The row of the parent of each dependency.
        child_rows: The row of the child of each dependency.
        count: Number of tasks.

    >>> find_blocked_tasks(np.array([0, 1, 0]), np.array([1, 2, 2]), 3)
    (array([], dtype=int64), [])
    >>> find_blocked_tasks(np.array([2, 0, 1, 1]), np.array([0, 1, 2, 3]), 5)
    (array([0, 1, 2, 3]), [0, 2, 1, 0])
    """
    # In most logs all parents precede their children, so that there is no cycle.
    if (parent_rows < child_rows).all():
        return np.zeros(0, dtype=np.int64), []
    order = np.argsort(parent_rows, kind="stable")
    children = child_rows[order].tolist()
    first_child = np.searchsorted(parent_rows[order], np.arange(count + 1)).tolist()
    unfinished_parents = np.bincount(child_rows, minlength=count).tolist()
    ready = [row for row, number in enumerate(unfinished_parents) if not number]
    while ready:
        row = ready.pop()
        for child in children[first_child[row] : first_child[row + 1]]:
            unfinished_parents[child] -= 1
            if not unfinished_parents[child]:
                ready.append(child)
    is_blocked = np.array(unfinished_parents) > 0
    rows = np.flatnonzero(is_blocked)
    if not rows.size:
        return rows, []
    # Every blocked task has a blocked parent, so that following parents leads into a cycle.
    between_blocked = is_blocked[parent_rows]
    blocked_parent = np.full(count, count)
    np.minimum.at(blocked_parent, child_rows[between_blocked], parent_rows[between_blocked])
    position: dict[int, int] = {}
    row = int(rows[0])
    while row not in position:
        position[row] = len(position)
        row = int(blocked_parent[row])
    return rows, [*list(position)[position[row] :], row]
