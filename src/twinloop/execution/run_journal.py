"""The journal of a real run: every event, in the order in which it happened.

If the process of a run dies, its journal can be read up to its last complete line. Each entry has
`e`, the kind of event, and `t`, the time in seconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from twinloop.description.journal import Journal, JournalError, parse_record

__all__ = ["EXECUTION_KEY", "JournalEntries", "JournalError", "RunJournal", "read_entries"]

#: Entries of a journal, in their order.
JournalEntries = Sequence[dict[str, Any]]

#: Fields of an entry that identify one execution of a task on one node.
EXECUTION_KEY: Final = ("task", "attempt", "machine")


class RunJournal(Journal):
    """The journal of a run, in a new file.

    After a failed write no further entries are written, so that the journal has no gaps. The file
    is not locked, because the folder of the run is.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunJournal(Path(folder) / "journal") as journal:
    ...         journal.write(e="submit", t=0.5, task=3)
    ...         list(read_entries(journal.path))
    [{'e': 'submit', 't': 0.5, 'task': 3}]
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, escape=False)
        self._error: JournalError | None = None

    def write(self, **entry: Any) -> None:
        """Add an entry.

        Raises:
            JournalError: It, or one before it, could not be written.
        """
        if self._error is not None:
            raise JournalError(self._error.errno, self._error.strerror)
        try:
            self.append(entry)
        except JournalError as error:
            self._error = error
            raise


def read_entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of a journal, up to the first line that is incomplete or damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "journal"
    ...     _ = path.write_text('{"e": "ask", "t": 1.0}\\n{"e": "pla')
    ...     list(read_entries(path))
    [{'e': 'ask', 't': 1.0}]
    """
    with path.open("rb") as lines:
        for line in lines:
            entry = parse_record(line, finite=True)
            if entry is None:
                return
            yield entry
