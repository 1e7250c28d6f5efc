"""Append-only journals: one JSON object per line, readable up to the last complete line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from twinloop.description.address import address_to_path
from twinloop.description.document import Address
from twinloop.description.errors import InputError
from twinloop.description.locks import lock_file

#: Remedy for a record that cannot be used.
TRUNCATE_REMEDY: Final = "truncate the file before this line to resume from there"
#: The start of every journal with a header.
_MAGIC: Final = b'{"twinloop journal":1,"header":'
#: Longest text of a value in an error (characters).
_MAX_VALUE_LENGTH: Final = 60


class JournalError(OSError):
    """A record could not be written, or the journal could not be synchronised to the disk.

    A record that could not be written is not in the file, not even in part.
    """


class Journal:
    """An append-only file of JSON objects, one per line.

    When `append` returns, the record has been passed to the operating system, so that no record is
    lost if this process dies. A record that cannot be written completely is removed from the file.
    A last line that is incomplete because a process or a machine died is removed when the journal
    is opened again. Numbers read back bit for bit; NaN, Infinity and -Infinity are written as by
    Python's `json`, although JSON does not define them.

    Args:
        path: The file.
        header: Description of what the journal is of. With a header, the file is locked, and a
            journal that exists is continued if its header is the same. Without one, the file must
            not exist.
        sync_every: Minimum time between two synchronisations to the disk (s), which are done by
            `append` and `close`; None: no synchronisation, the operating system writes the records.
        escape: Whether characters outside of ASCII are escaped.

    Raises:
        InputError: The file is not a journal, is damaged, has another header or is locked.
        JournalError: The file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "journal")
    ...     with Journal(path, header={"seed": 7}) as journal:
    ...         journal.append({"loss": 0.5})
    ...     path.read_text().splitlines()
    ['{"twinloop journal":1,"header":{"seed":7}}', '{"loss":0.5}']
    """

    def __init__(
        self,
        path: Path,
        *,
        header: Mapping[str, Any] | None = None,
        sync_every: float | None = None,
        escape: bool = True,
    ) -> None:
        self.path = path
        #: Number of lines that were removed because they were incomplete.
        self.torn = 0
        #: Number of records that were appended since the journal was opened.
        self.lines = 0
        self._encode = _encode_ascii if escape else _encode_unicode
        self._sync_every = sync_every
        self._file = _create_file(path) if header is None else self._open_locked()
        self._size = 0
        self._synced = time.monotonic()
        if header is None:
            return
        try:
            self._start_or_resume(_MAGIC + self._encode(header).encode() + b"}\n")
        except BaseException:
            self.close()
            raise

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record.

        Raises:
            JournalError: The record could not be written, and the journal is unchanged; or it was
                written, but could not be synchronised to the disk.
        """
        self._write(self._encode(record).encode() + b"\n")
        self.lines += 1
        if self._sync_every is not None and time.monotonic() - self._synced >= self._sync_every:
            self.flush()

    def flush(self) -> None:
        """Wait until all records are on the disk."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self.make_write_error(error) from None
        self._synced = time.monotonic()

    def close(self) -> None:
        """Synchronise the records if `sync_every` is set, and unlock the file; may be repeated."""
        if self._file >= 0:
            try:
                if self._sync_every is not None:
                    self.flush()
            finally:
                os.close(self._file)
                self._file = -1

    def make_write_error(self, error: OSError) -> Exception:
        """Return the exception to raise if the file cannot be written."""
        return JournalError(error.errno, error.strerror)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_locked(self) -> int:
        """Open or create the file, and lock it for this process alone."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise self.make_write_error(error) from None
        try:
            holder = lock_file(file)
        except OSError as error:
            os.close(file)
            raise self.make_write_error(error) from None
        if holder is not None:
            os.close(file)
            raise InputError(
                f"is being written by {holder}",
                kind="in-use",
                file=self.path,
                remedy="wait for it, or end it",
            )
        return file

    def _write(self, line: bytes) -> None:
        size = self._size + len(line)
        left = line
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise self.make_write_error(error) from None
        self._size = size

    def _start_or_resume(self, line: bytes) -> None:
        """Write the header line, or check that the journal has it and resume from its records."""
        self._size = os.fstat(self._file).st_size
        if self._has_header():
            self._resume(json.loads(line)["header"])
        else:
            os.ftruncate(self._file, 0)
            self._size = 0
            self._write(line)
            self.flush()
            _sync_folder(self.path.parent)
        self._synced = time.monotonic()

    def _has_header(self) -> bool:
        """Whether the file has a complete header; False if it is empty or its header incomplete.

        Raises:
            InputError: The file is not a journal.
        """
        with self.path.open("rb") as stream:
            first = stream.readline()
        if not (first.startswith(_MAGIC) or _MAGIC.startswith(first)):
            raise InputError(
                "is not a journal, so nothing is added to it",
                kind="damaged-file",
                file=self.path,
                remedy="choose another file",
            )
        return first.endswith(b"\n")

    def _resume(self, header: Any) -> None:
        """Check the header and the records, and remove an incomplete end."""
        valid_size, first_bad_line = 0, 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                record = parse_record(line)
                if record is None:
                    first_bad_line = first_bad_line or number
                    self.torn += 1
                elif first_bad_line:
                    raise InputError(
                        "is damaged in the middle: this line cannot be read, but later lines can",
                        kind="damaged-file",
                        file=self.path,
                        line=first_bad_line,
                        remedy=TRUNCATE_REMEDY,
                    )
                else:
                    if number == 1:
                        self._check_header(record.get("header"), header)
                    valid_size += len(line)
        if first_bad_line == 1:
            raise InputError(
                "has a header that cannot be read",
                kind="damaged-file",
                file=self.path,
                remedy="start in another folder",
            )
        if first_bad_line:
            os.ftruncate(self._file, valid_size)
            self._size = valid_size

    def _check_header(self, before: Any, now: Any) -> None:
        for address, old, new in _find_differences(before, now):
            raise InputError(
                f"was {old} when the journal was created, and is {new} now",
                kind="different-inputs",
                file=self.path,
                field=address_to_path(address) or "header",
                remedy="resume with the earlier value, or start in another folder",
            )


def read_records(path: Path, *, header: bool) -> Iterator[dict[str, Any] | None]:
    """Yield the records of a journal that a process may be writing; None for a damaged line.

    A last line that is not complete yet is left out.

    Args:
        path: The file.
        header: Whether the journal has a header, which is not yielded.

    Raises:
        InputError: The file has no header, but should have one.
    """
    with path.open("rb") as lines:
        if header and not next(lines, b"").startswith(_MAGIC):
            raise InputError(
                "is not a journal, or is damaged",
                kind="damaged-file",
                file=path,
                remedy="run the command that wrote it again, with another folder",
            )
        for line in lines:
            if line.endswith(b"\n"):
                yield parse_record(line)


def parse_record(line: bytes, *, finite: bool = False) -> dict[str, Any] | None:
    r"""Parse a line of a journal; None if it is incomplete or not a JSON object.

    Args:
        line: The line, with its end.
        finite: Whether a line with NaN or an infinity counts as damaged.

    >>> parse_record(b'{"t":1.0}\n'), parse_record(b'{"t":1.0}'), parse_record(b'{"t":1')
    ({'t': 1.0}, None, None)
    >>> parse_record(b'{"t":NaN}\n', finite=True)
    """
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line, parse_constant=_refuse_constant if finite else None)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not allowed here")


def _to_python(value: Any) -> Any:
    """Convert a number or an array of NumPy to Python values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a journal cannot store a value of type {type(value).__name__}")


_encode_ascii = json.JSONEncoder(separators=(",", ":"), default=_to_python).encode
_encode_unicode = json.JSONEncoder(
    separators=(",", ":"), default=_to_python, ensure_ascii=False
).encode


def _find_differences(
    before: Any, now: Any, parent: Address = ()
) -> Iterator[tuple[Address, str, str]]:
    """Yield the address of every difference between two plain values, and both texts."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in {**before, **now}:
            if name not in before:
                yield (*parent, name), "not set", _shorten(now[name])
            elif name not in now:
                yield (*parent, name), _shorten(before[name]), "not set"
            else:
                yield from _find_differences(before[name], now[name], (*parent, name))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _find_differences(old, new, (*parent, index))
    elif _encode_ascii(before) != _encode_ascii(now):
        yield parent, _shorten(before), _shorten(now)


def _shorten(value: Any) -> str:
    text = _encode_ascii(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."


def _create_file(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _sync_folder(folder: Path) -> None:
    """Synchronise a folder to the disk, so that the name of a new file is not lost in a crash.

    Nothing is done on systems that cannot open folders.
    """
    with suppress(OSError):
        file = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)
