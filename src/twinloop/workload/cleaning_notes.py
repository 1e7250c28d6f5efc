"""Notes on the cleaning of data: counts and examples."""

from __future__ import annotations

import polars as pl

from twinloop.description.cleaning import EXAMPLES, Cleaning, CleaningKind


def note(
    kind: CleaningKind, what: str, names: pl.Series | None = None, *, count: int | None = None
) -> Cleaning:
    """Create a Cleaning with the first names as examples; `count` is by default their number.

    >>> print(note("skipped", "tasks", pl.Series(["a", "b", "c", "d"])))
    skipped 4: tasks (a, b, c, ...)
    """
    examples = () if names is None else tuple(map(str, names.head(EXAMPLES)))
    number = (0 if names is None else names.len()) if count is None else count
    return Cleaning(kind=kind, what=what, count=number, examples=examples)
