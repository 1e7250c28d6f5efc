"""The journal of a run: what happened, line by line, as it happens.

Whoever dies in the middle of a run leaves a journal that can be read up to its last whole line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

#: What was written down, in its order.
JournalEntries = Sequence[dict[str, Any]]

#: What says which execution of which part of a task an entry is about.
EXECUTION_KEY: Final = ("task", "attempt", "machine")


class JournalError(OSError):
    """The journal could not be written: nobody would know what happened from here on."""


class RunJournal:
    """A file that only grows, one JSON object per line.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there, RunJournal(Path(there) / "journal") as journal:
    ...     journal.write(e="submit", t=0.5, task=3)
    ...     list(read_entries(Path(there) / "journal"))
    [{'e': 'submit', 't': 0.5, 'task': 3}]
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644)
        self._size = 0
        self._failed: OSError | None = None
        #: How many lines it has.
        self.lines = 0

    def write(self, **entry: Any) -> None:
        """Add one entry. It is with the system when this returns, and outlives this process.

        Where there is no room for all of it, nothing of it stays, and nothing comes after it: what
        can be read is how it began, without a gap.
        """
        if self._failed is not None:
            raise JournalError(self._failed.errno, self._failed.strerror)
        line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        size = self._size + len(line)
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)
            self._failed = error
            raise JournalError(error.errno, error.strerror) from None
        self._size = size
        self.lines += 1

    def close(self) -> None:
        """No more entries."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> RunJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a journal, up to where it breaks off.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     path = Path(there) / "journal"
    ...     _ = path.write_text('{"e": "ask", "t": 1.0}\\n{"e": "pla')
    ...     list(read_entries(path))
    [{'e': 'ask', 't': 1.0}]
    """
    with path.open("rb") as lines:
        for line in lines:
            try:
                entry = json.loads(line, parse_constant=_no_number)
            except (ValueError, RecursionError):
                return
            if not line.endswith(b"\n") or not isinstance(entry, dict):
                return
            yield entry


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number that a journal has")
