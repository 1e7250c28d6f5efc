"""Pareto front: the rows that no other row dominates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinloop.description.errors import InputError

#: Number of rows that are compared at once with the front so far.
_BLOCK: Final = 256


def find_front(values: ArrayLike, lower: Sequence[bool]) -> NDArray[np.bool_]:
    """Find the rows on the Pareto front.

    A row dominates another one if it is at least as good in every column and better in one. Equal
    rows do not dominate each other, so all or none of them are on the front. A row with an unknown
    value (NaN) is not on the front and dominates no other row.

    Args:
        values: A row per configuration, a column per objective.
        lower: For each column whether a lower value is better.

    >>> find_front([[1, 9], [2, 5], [3, 6], [2, 5], [1, float("nan")]], [True, True]).tolist()
    [True, True, False, True, False]
    >>> find_front([[1, 9], [2, 5], [3, 6]], [True, False]).tolist()
    [True, False, False]
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(lower) or not len(lower):
        raise InputError(
            f"must have a row per configuration and {len(lower) or 'at least 1'} columns, one for "
            f"each objective, not shape {rows.shape}",
            kind="wrong-count",
            field="values",
        )
    on_front = np.zeros(len(rows), dtype=np.bool_)
    complete = np.flatnonzero(~np.isnan(rows).any(axis=1))
    if not len(complete):
        return on_front
    # Only the order in each column matters; integers are compared and added exactly.
    signed = np.where(np.asarray(lower, dtype=np.bool_), rows[complete], -rows[complete])
    ranks = np.stack(
        [np.unique(column, return_inverse=True)[1].ravel() for column in signed.T], axis=1
    )
    distinct, inverse = np.unique(ranks, axis=0, return_inverse=True)
    front = (
        _find_front_of_two(distinct) if distinct.shape[1] <= 2 else _find_front_of_many(distinct)
    )
    on_front[complete] = front[inverse.ravel()]
    return on_front


def _find_front_of_two(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Select sorted distinct rows whose last column is lower than in all earlier rows."""
    if rows.shape[1] == 1:
        is_lowest: NDArray[np.bool_] = rows[:, 0] == rows[0, 0]
        return is_lowest
    lowest = np.minimum.accumulate(rows[:, 1])
    kept = np.ones(len(rows), dtype=np.bool_)
    kept[1:] = rows[1:, 1] < lowest[:-1]
    return kept


def _find_front_of_many(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Select the front of distinct rows, in blocks by increasing sum.

    A row that dominates another one has a lower sum, so only earlier rows must be compared.
    """
    order = np.argsort(rows.sum(axis=1), kind="stable")
    dtype = np.int16 if len(rows) < np.iinfo(np.int16).max else np.int64
    columns = np.ascontiguousarray(rows[order].T.astype(dtype))
    kept = np.zeros(len(rows), dtype=np.bool_)
    front = columns[:, :0]
    for first in range(0, len(rows), _BLOCK):
        block = columns[:, first : first + _BLOCK]
        remaining = np.flatnonzero(~_is_dominated(block, front, exclude_self=False))
        remaining = remaining[
            ~_is_dominated(block[:, remaining], block[:, remaining], exclude_self=True)
        ]
        kept[first + remaining] = True
        front = np.concatenate([front, block[:, remaining]], axis=1)
    on_front = np.zeros(len(rows), dtype=np.bool_)
    on_front[order] = kept
    return on_front


def _is_dominated(
    rows: NDArray[np.integer], by: NDArray[np.integer], *, exclude_self: bool
) -> NDArray[np.bool_]:
    """Find the columns of `rows` that a column of `by` dominates.

    With `exclude_self`, both have the same columns, and a column does not dominate itself.
    """
    is_as_good = np.ones((rows.shape[1], by.shape[1]), dtype=np.bool_)
    for own, other in zip(rows, by, strict=True):
        is_as_good &= other[np.newaxis, :] <= own[:, np.newaxis]
    if exclude_self:
        np.fill_diagonal(is_as_good, val=False)
    return np.asarray(is_as_good.any(axis=1), dtype=np.bool_)
