"""Counting what was not taken as it stood."""

from __future__ import annotations

import polars as pl

from twinloop.description.cleaning import EXAMPLES, Cleaning, CleaningKind


def note(
    kind: CleaningKind, what: str, names: pl.Series | None = None, *, count: int | None = None
) -> Cleaning:
    """A Cleaning with the first few names; how many there are, unless `count` says it.

    >>> print(note("skipped", "tasks", pl.Series(["a", "b", "c", "d"])))
    skipped 4: tasks (a, b, c)
    """
    examples = () if names is None else tuple(map(str, names.head(EXAMPLES)))
    number = (0 if names is None else names.len()) if count is None else count
    return Cleaning(kind=kind, what=what, count=number, examples=examples)
