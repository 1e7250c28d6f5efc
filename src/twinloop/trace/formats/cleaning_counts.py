"""Counting what a reader could not take as it stood."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from twinloop.description.cleaning import EXAMPLES, Cleaning, CleaningKind


class Tally:
    """Counts by kind and description, and keeps the first places of each.

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
        """Count something that happened; nothing is noted for a count of zero."""
        if count == 0:
            return
        key = (kind, what)
        self._counts[key] = self._counts.get(key, 0) + count
        places = self._examples.setdefault(key, [])
        for example in examples:
            if len(places) == EXAMPLES:
                break
            places.append(example)

    def note_lines(self, kind: CleaningKind, what: str, file: str, lines: pl.Series) -> None:
        """Count the lines of a file that something happened in.

        >>> tally = Tally()
        >>> tally.note_lines("skipped", "lines of noise", "log.gwf", pl.Series([7, 9]))
        >>> print(*tally.cleanings())
        skipped 2: lines of noise (log.gwf:7, log.gwf:9)
        """
        examples = [f"{file}:{line}" for line in lines.head(EXAMPLES)]
        self.note(kind, what, count=lines.len(), examples=examples)

    def cleanings(self) -> tuple[Cleaning, ...]:
        """All that was counted, in the order in which it first happened."""
        return tuple(
            Cleaning(kind=kind, what=what, count=count, examples=tuple(self._examples[kind, what]))
            for (kind, what), count in self._counts.items()
        )
