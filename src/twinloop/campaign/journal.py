"""What a search or a study was told so far, line by line, so that it can go on after any end."""

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

#: Longest time between an entry and its being on the disk, as long as entries come (s).
SYNC_EVERY: Final = 1.0
#: What to do about a row that cannot be used.
TRUNCATE_REMEDY: Final = "cut the file off before this line to go on from there"
#: What every journal begins with.
_MAGIC: Final = b'{"twinloop journal":1,"header":'


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a journal cannot hold a {type(value).__name__}")


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode


class CampaignJournal:
    """A file that only grows: a header that says what it is of, then one JSON object per line.

    A row is with the system when `append` returns, so the death of this process takes none; it is
    on the disk within a second if more rows follow, and when the journal is closed. Numbers read
    back as they were written, bit for bit; what is no number in JSON is written as Python does:
    NaN, Infinity, -Infinity.

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
    twinloop.InputError: ...journal: seed: was 7 when this was begun, and is 8 now ...
    >>> folder.cleanup()
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        line = _MAGIC + _encode(header).encode() + b"}\n"
        self.path = path
        #: How many rows were lost because they had been written in part.
        self.torn = 0
        self._file = _opened(path)
        try:
            self._size = os.fstat(self._file).st_size
            if not self._begun():
                os.ftruncate(self._file, 0)
                self._size = 0
                self._write(line)
                self._sync_folder()
            else:
                self._resume(json.loads(line)["header"])
            self._synced = time.monotonic()
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, path: str | Path, header: Mapping[str, Any]) -> Self:
        """Begin a journal, or go on with the one that is there, which must have this header.

        Nobody else can have it open at the same time.
        """
        return cls(Path(path), header)

    @staticmethod
    def read_rows(path: Path) -> Iterator[dict[str, Any] | None]:
        """The rows of a journal that somebody may be writing; None: a line that is no row.

        The last line may not be whole yet, and is left out then.
        """
        lines = path.read_bytes().split(b"\n")
        if not lines[0].startswith(_MAGIC):
            raise InputError(
                "is no journal, or a damaged one",
                file=path,
                remedy="give what made it once more, in another folder",
            )
        for line in lines[1:-1]:
            yield _row(line + b"\n")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far, read from the file."""
        return list(self)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as lines:
            next(lines)
            for line in lines:
                yield json.loads(line)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row. Where there is no room for all of it, nothing of it stays."""
        self._write(_encode(row).encode() + b"\n")
        if time.monotonic() - self._synced >= SYNC_EVERY:
            self.flush()

    def flush(self) -> None:
        """Have all rows on the disk."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        self._synced = time.monotonic()

    def close(self) -> None:
        """Have all rows on the disk, and let others open it."""
        if self._file >= 0:
            try:
                self.flush()
            finally:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        size = self._size + len(line)
        left = line
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            os.ftruncate(self._file, self._size)
            raise _unwritable(self.path, error) from None
        self._size = size

    def _begun(self) -> bool:
        """Whether there is a header; not if its writer died over it."""
        with self.path.open("rb") as stream:
            first = stream.readline()
        if not (first.startswith(_MAGIC) or _MAGIC.startswith(first)):
            raise InputError(
                "is no journal, so nothing is added to it", file=self.path, remedy="choose another"
            )
        return first.endswith(b"\n")

    def _resume(self, header: Any) -> None:
        """Check the header, and cut off what was written in part."""
        end, bad = 0, 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                row = _row(line)
                if row is None:
                    bad = bad or number
                    self.torn += 1
                elif bad:
                    raise InputError(
                        "is damaged in the middle: no row can be read here, but later ones can",
                        file=self.path,
                        line=bad,
                        remedy=TRUNCATE_REMEDY,
                    )
                else:
                    if number == 1:
                        self._compare(row.get("header"), header)
                    end += len(line)
        if bad == 1:
            raise InputError("has a header that cannot be read", file=self.path)
        if bad:
            os.ftruncate(self._file, end)
            self._size = end

    def _compare(self, was: Any, is_now: Any) -> None:
        for address, old, new in _differences(was, is_now):
            raise InputError(
                f"was {old} when this was begun, and is {new} now",
                file=self.path,
                field=address_to_path(address) or "header",
                remedy="go on with what it was, or begin elsewhere",
            )

    def _sync_folder(self) -> None:
        self.flush()
        with suppress(OSError):  # some systems have no folders that can be opened
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _row(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _differences(was: Any, now: Any, above: Address = ()) -> Iterator[tuple[Address, str, str]]:
    """Where two plain values differ, and what each has there."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in {**was, **now}:
            if name not in was:
                yield (*above, name), "not there", _shown(now[name])
            elif name not in now:
                yield (*above, name), _shown(was[name]), "not there"
            else:
                yield from _differences(was[name], now[name], (*above, name))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for position, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _differences(one, other, (*above, position))
    elif _encode(was) != _encode(now):
        yield above, _shown(was), _shown(now)


def _shown(value: Any) -> str:
    text = _encode(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _opened(path: Path) -> int:
    """The file, for this process alone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        holder = lock_file(file)
    except OSError as error:
        os.close(file)
        raise _unwritable(path, error) from None
    if holder is not None:
        os.close(file)
        raise InputError(
            f"is being written by {holder}", file=path, remedy="wait for it, or end it"
        )
    return file


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot be written: {error.strerror or error}", file=path)
