"""Journals of searches and studies: a header, then one row per evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from twinloop.description.errors import InputError
from twinloop.description.journal import TRUNCATE_REMEDY, Journal, read_records

__all__ = ["SYNC_EVERY", "TRUNCATE_REMEDY", "CampaignJournal"]

#: Longest time between an entry and its being on the disk, as long as entries come (s).
SYNC_EVERY: Final = 1.0


class CampaignJournal(Journal):
    """The journal of a search or a study, which a later call continues.

    A row is on the disk within a second if more rows follow, and when the journal is closed.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "journal"
    >>> with CampaignJournal.open(path, {"seed": 7}) as journal:
    ...     journal.append({"point": [0.1, 0.2], "loss": float("inf")})
    >>> with CampaignJournal.open(path, {"seed": 7}) as journal:
    ...     journal.rows
    [{'point': [0.1, 0.2], 'loss': inf}]
    >>> CampaignJournal.open(path, {"seed": 8})
    Traceback (most recent call last):
    twinloop.InputError: ...journal: seed: was 7 at the start of this work, and is 8 now ...
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        super().__init__(path, header=header, sync_every=SYNC_EVERY)

    @classmethod
    def open(cls, path: str | Path, header: Mapping[str, Any]) -> Self:
        """Begin a journal, or continue the journal that exists, which must have this header.

        No other process can have it open at the same time.
        """
        return cls(Path(path), header)

    @staticmethod
    def read_rows(path: Path) -> Iterator[dict[str, Any] | None]:
        """Yield the rows of a journal that a process may be writing; None: a line that is no row.

        A last line that is not complete yet is left out.
        """
        return read_records(path, header=True)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, read from the file."""
        return list(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as lines:
            next(lines)
            for line in lines:
                yield json.loads(line)

    def write_error(self, error: OSError) -> InputError:
        """Return the exception to raise if the file cannot be written."""
        return InputError(
            f"cannot be written: {error.strerror or error}", kind="cannot-write", file=self.path
        )
