"""The dependencies between the tasks of a trace as a graph of rows, and its levels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from twinloop.trace.dependency_cycles import Rows


class Dependencies(NamedTuple):
    """The dependencies between tasks, each once.

    >>> list_dependencies(pl.DataFrame({"id": ["a", "b"], "parents": [[], ["a", "x"]]}))
    Dependencies(parents=array([0]), children=array([1]), unknown=1)
    """

    #: The row of the parent of each dependency.
    parents: Rows
    #: The row of the child of each dependency.
    children: Rows
    #: Number of parents that are not tasks of the trace.
    unknown: int


def list_dependencies(tasks: pl.DataFrame) -> Dependencies:
    """List the dependencies of a table of tasks with unique ids, in the order of the children."""
    rows = pl.int_range(pl.len(), dtype=pl.Int64)
    edges = (
        tasks.select(rows.alias("child"), parent="parents")
        .explode("parent")
        .drop_nulls("parent")
        .unique(maintain_order=True)
        .join(
            tasks.select(rows.alias("row"), parent="id").drop_nulls("parent"),
            on="parent",
            how="left",
            maintain_order="left",
        )
    )
    known = edges.drop_nulls("row")
    return Dependencies(
        known["row"].to_numpy(), known["child"].to_numpy(), edges.height - known.height
    )


def compute_levels(parents: Rows, children: Rows, count: int) -> Rows:
    """Compute the level of each task: 0 without parents, else one more than its highest parent.

    A task that waits for a cycle has the level -1.

    >>> compute_levels(np.array([0, 0, 1]), np.array([1, 2, 2]), 4)
    array([0, 1, 2, 0])
    >>> compute_levels(np.array([0, 1, 1]), np.array([1, 0, 2]), 3)
    array([-1, -1, -1])
    """
    order = np.argsort(parents, kind="stable")
    sorted_children = children[order].tolist()
    first = np.searchsorted(parents[order], np.arange(count + 1)).tolist()
    unfinished = np.bincount(children, minlength=count).tolist()
    levels = [0] * count
    ready = [row for row, number in enumerate(unfinished) if not number]
    for row in ready:  # grows in the loop
        following = levels[row] + 1
        for child in sorted_children[first[row] : first[row + 1]]:
            levels[child] = max(levels[child], following)
            unfinished[child] -= 1
            if not unfinished[child]:
                ready.append(child)
    blocked = np.array(unfinished, dtype=np.int64) > 0
    return np.where(blocked, -1, np.array(levels, dtype=np.int64))
