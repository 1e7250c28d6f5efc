"""Journals of searches and studies: a header, then one row per evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from twinloop.description.errors import InputError
from twinloop.description.journal import TRUNCATE_REMEDY, Journal, read_records

__all__ = ["TRUNCATE_REMEDY", "CampaignJournal"]

#: Minimum time between two synchronisations to the disk (s).
_SYNC_INTERVAL: Final = 1.0


class CampaignJournal(Journal):
    """The journal of a search or a study, which a later call continues.

    Rows are synchronised to the disk by the first `append` at least one second after the last
    synchronisation, and when the journal is closed.

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
    twinloop.InputError: ...journal: seed: was 7 when the journal was created, and is 8 now ...
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        super().__init__(path, header=header, sync_every=_SYNC_INTERVAL)

    @classmethod
    def open(cls, path: str | Path, header: Mapping[str, Any]) -> Self:
        """Create a journal, or continue an existing one, whose header must be the same.

        The file is locked against other processes until it is closed.
        """
        return cls(Path(path), header)

    @staticmethod
    def read_rows(path: Path) -> Iterator[dict[str, Any] | None]:
        """Yield the rows of a journal that a process may be writing; None for a damaged row.

        An incomplete last line is left out.
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

    def make_write_error(self, error: OSError) -> InputError:
        """Return the exception to raise if the file cannot be written."""
        return InputError(
            f"cannot be written: {error.strerror or error}", kind="cannot-write", file=self.path
        )
