"""Counting of data cleaning by readers and writers."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from twinloop.description.cleaning import EXAMPLES, Cleaning, CleaningKind


class Tally:
    """Counter of data cleaning by kind and description, with the first positions of each.

    >>> tally = Tally()
    >>> tally.note("skipped", "lines with too few fields", examples=["log.gwf:7"])
    >>> tally.note("skipped", "lines with too few fields", examples=["log.gwf:9"])
    >>> print(*tally.cleanings())
    skipped 2: lines with too few fields (log.gwf:7, log.gwf:9)
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[CleaningKind, str], int] = {}
        self._examples: dict[tuple[CleaningKind, str], list[str]] = {}

    def note(
        self, kind: CleaningKind, what: str, *, count: int = 1, examples: Iterable[str] = ()
    ) -> None:
        """Add to a count; a count of zero adds no note."""
        if count == 0:
            return
        key = (kind, what)
        self._counts[key] = self._counts.get(key, 0) + count
        positions = self._examples.setdefault(key, [])
        for example in examples:
            if len(positions) == EXAMPLES:
                break
            positions.append(example)

    def note_lines(self, kind: CleaningKind, what: str, file: str, lines: pl.Series) -> None:
        """Add the number of affected lines of a file.

        >>> tally = Tally()
        >>> tally.note_lines("skipped", "lines of noise", "log.gwf", pl.Series([7, 9]))
        >>> print(*tally.cleanings())
        skipped 2: lines of noise (log.gwf:7, log.gwf:9)
        """
        examples = [f"{file}:{line}" for line in lines.head(EXAMPLES)]
        self.note(kind, what, count=lines.len(), examples=examples)

    def cleanings(self) -> tuple[Cleaning, ...]:
        """Return all counts as notes, in the order of their first occurrence."""
        return tuple(
            Cleaning(kind=kind, what=what, count=count, examples=tuple(self._examples[kind, what]))
            for (kind, what), count in self._counts.items()
        )
