"""Dependencies between tasks: who can never be ready, because tasks wait for each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def find_blocked_tasks(parent_rows: Rows, child_rows: Rows, count: int) -> tuple[Rows, list[int]]:
    """The tasks that can never be ready, and one cycle among them; both empty if there is none.

    The cycle goes from each task to a parent of it, and ends with the task it begins with.

    Args:
        parent_rows: The row of the parent of each dependency.
        child_rows: The row of the task that waits for it.
        count: How many tasks there are.

    >>> find_blocked_tasks(np.array([0, 1, 0]), np.array([1, 2, 2]), 3)
    (array([], dtype=int64), [])
    >>> find_blocked_tasks(np.array([2, 0, 1, 1]), np.array([0, 1, 2, 3]), 5)
    (array([0, 1, 2, 3]), [0, 2, 1, 0])
    """
    # In most logs parents come first, and then there is nothing to search.
    if (parent_rows < child_rows).all():
        return np.zeros(0, dtype=np.int64), []
    order = np.argsort(parent_rows, kind="stable")
    children = child_rows[order].tolist()
    first = np.searchsorted(parent_rows[order], np.arange(count + 1)).tolist()
    waiting = np.bincount(child_rows, minlength=count).tolist()
    ready = [row for row, number in enumerate(waiting) if not number]
    while ready:
        row = ready.pop()
        for child in children[first[row] : first[row + 1]]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    held = np.array(waiting) > 0
    rows = np.flatnonzero(held)
    if not rows.size:
        return rows, []
    # Whoever is held has a parent that is held: going up from one must come round.
    inside = held[parent_rows]
    above = np.full(count, count)
    np.minimum.at(above, child_rows[inside], parent_rows[inside])
    place: dict[int, int] = {}
    row = int(rows[0])
    while row not in place:
        place[row] = len(place)
        row = int(above[row])
    return rows, [*list(place)[place[row] :], row]
