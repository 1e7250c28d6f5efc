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
    found = np.zeros(len(rows), dtype=np.bool_)
    known = np.flatnonzero(~np.isnan(rows).any(axis=1))
    if not len(known):
        return found
    # Only the order in each column matters; integers are compared and added exactly.
    signed = np.where(np.asarray(lower, dtype=np.bool_), rows[known], -rows[known])
    places = np.stack(
        [np.unique(column, return_inverse=True)[1].ravel() for column in signed.T], axis=1
    )
    distinct, back = np.unique(places, axis=0, return_inverse=True)
    kept = _find_front_of_two(distinct) if distinct.shape[1] <= 2 else _find_front_of_many(distinct)
    found[known] = kept[back.ravel()]
    return found


def _find_front_of_two(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Select sorted distinct rows whose last column is lower than in all earlier rows."""
    if rows.shape[1] == 1:
        alone: NDArray[np.bool_] = rows[:, 0] == rows[0, 0]
        return alone
    least = np.minimum.accumulate(rows[:, 1])
    kept = np.ones(len(rows), dtype=np.bool_)
    kept[1:] = rows[1:, 1] < least[:-1]
    return kept


def _find_front_of_many(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Select the front of distinct rows, in blocks by increasing sum.

    A row that dominates another one has a lower sum, so only earlier rows must be compared.
    """
    order = np.argsort(rows.sum(axis=1), kind="stable")
    small = np.int16 if len(rows) < np.iinfo(np.int16).max else np.int64
    columns = np.ascontiguousarray(rows[order].T.astype(small))
    kept = np.zeros(len(rows), dtype=np.bool_)
    best = columns[:, :0]
    for first in range(0, len(rows), _BLOCK):
        block = columns[:, first : first + _BLOCK]
        rest = np.flatnonzero(~_is_dominated(block, best, strict=False))
        rest = rest[~_is_dominated(block[:, rest], block[:, rest], strict=True)]
        kept[first + rest] = True
        best = np.concatenate([best, block[:, rest]], axis=1)
    answer = np.zeros(len(rows), dtype=np.bool_)
    answer[order] = kept
    return answer


def _is_dominated(
    rows: NDArray[np.integer], by: NDArray[np.integer], *, strict: bool
) -> NDArray[np.bool_]:
    """Find the columns of `rows` that a column of `by` dominates.

    `strict`: both have the same columns, and a column does not dominate itself.
    """
    as_good = np.ones((rows.shape[1], by.shape[1]), dtype=np.bool_)
    for own, other in zip(rows, by, strict=True):
        as_good &= other[np.newaxis, :] <= own[:, np.newaxis]
    if strict:
        np.fill_diagonal(as_good, val=False)
    return np.asarray(as_good.any(axis=1), dtype=np.bool_)
