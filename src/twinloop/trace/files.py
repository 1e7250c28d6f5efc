"""Bytes in and out of files: decompressed on the way in, whole or not at all on the way out."""

from __future__ import annotations

import bz2
import ctypes
import glob
import gzip
import hashlib
import io
import lzma
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, cast

import polars as pl
import zstandard

from twinloop.trace.errors import InputError, UnwritableError
from twinloop.trace.locking import LOCK, locked
from twinloop.trace.manifest import SourceFile
from twinloop.trace.ownership import is_own
from twinloop.trace.replacing import Owner, check_file, check_replaceable

CHUNK = 1 << 20

# A text of a log shrinks by a factor of 5 to 50. What grows by more than this, and is large, was
# made to fill a disk or a memory.
BOMB_RATIO = 250
BOMB_BYTES = 256 << 20

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}


def chunks(path: Path) -> Iterator[bytes]:
    """The decompressed bytes of a file, a mebibyte at a time.

    Gzip, zstd, bzip2 and xz are known by their first bytes. A file that ends too soon, is damaged
    or blows up beyond reason is an InputError.
    """
    total = 0
    try:
        packed = path.stat().st_size
        with path.open("rb") as raw, _decompressed(raw) as stream:
            while chunk := stream.read(CHUNK):
                total += len(chunk)
                if total > BOMB_BYTES and total > BOMB_RATIO * packed:
                    raise InputError(
                        f"grows more than {BOMB_RATIO} times when decompressed",
                        file=path,
                        remedy="decompress it yourself if you trust it",
                    )
                yield chunk
            if isinstance(stream, zstandard.ZstdDecompressionReader):
                _check_zstd_frames(raw, packed)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise InputError(f"cannot be read to its end: {error}", file=path) from None


def first_bytes(path: Path, count: int = 1 << 16) -> bytes:
    """The first bytes of a file, decompressed; fewer where it is short or damaged."""
    start = b""
    try:
        for chunk in chunks(path):
            start += chunk
            if len(start) >= count:
                break
    except InputError:
        pass
    return start[:count]


def text(path: Path, *, limit: int = 1 << 30) -> str:
    """The whole text of a file of at most `limit` bytes, decompressed, in UTF-8."""
    buffer = io.BytesIO()
    for chunk in chunks(path):
        buffer.write(chunk)
        if buffer.tell() > limit:
            raise InputError(f"is larger than {limit:,} bytes", file=path)
    data = buffer.getvalue()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8", file=path, line=line, remedy="convert it first") from None


def sha256(file: Path) -> str:
    """The hash of a file's bytes, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def source_file(path: Path) -> SourceFile:
    """What a manifest keeps of a file that was read."""
    return SourceFile(name=path.name, size=path.stat().st_size, sha256=sha256(path))


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A stream to a file that appears when the block ends well, compressed as its name says.

    A file that is there is replaced in one step; a folder, a link or a device never.
    """
    check_file(path)
    unfinished = _unfinished(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        with unfinished.open("xb") as raw:
            if path.suffix == ".gz":
                # Without a time stamp: the same trace gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            elif path.suffix == ".zst":
                with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as packed_zst:
                    yield packed_zst
            else:
                yield raw
        unfinished.replace(path)
    except (OSError, pl.exceptions.ComputeError) as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextmanager
def appearing(path: Path, owner: Owner) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends well, and else is gone.

    A folder that is there is replaced only if everything in it is owned, as `owner` says, and no
    process works in it.
    """
    check_replaceable(path, owner)
    with locked(path) if path.is_dir() else nullcontext():
        check_replaceable(path, owner, ours=(LOCK,))
        with _exchanging(path) as new:
            yield new


@contextmanager
def _exchanging(path: Path) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends well, and else is gone."""
    try:
        if path.name in ("", ".."):
            path = path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        work = _unfinished(path)
        work.mkdir()
        new, old = work / "new", work / "old"
        try:
            new.mkdir()
            yield new
            if path.exists() and not _exchanged(new, path):
                path.rename(old)
            if new.exists() and not path.exists():
                new.rename(path)
        finally:
            if old.exists() and not path.exists():
                old.rename(path)
            shutil.rmtree(work, ignore_errors=True)
    except (OSError, pl.exceptions.ComputeError) as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: Exception) -> Exception:
    """What to raise if a file cannot be written; an error that is about something else stays.

    >>> print(unwritable(Path("run"), OSError(28, "No space left on device")))
    run: cannot be written: No space left on device
    """
    if isinstance(error, OSError):
        return UnwritableError(f"cannot be written: {error.strerror or error}", file=path)
    # Polars has what the system said in its text only.
    found = re.search(r"([^:]*) \(os error \d+\)", str(error))
    return error if found is None else UnwritableError(f"cannot be written:{found[1]}", file=path)


def _unfinished(path: Path) -> Path:
    """A name for what will become `path`; it says which process is at it."""
    return path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _sweep(path: Path) -> None:
    """Remove what a process that was killed left of its attempt to write `path`."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        process = _OWNER.match(left.name.removeprefix(f".{path.name}-"))
        if process is None or _runs(int(process[1])) or not is_own(left):
            continue
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


_OWNER = re.compile(r"([0-9]{1,9})-[0-9a-f]{8}$")


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step, so that none is ever missing; false where that cannot be."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return bool(call(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


def _decompressed(raw: IO[bytes]) -> IO[bytes]:
    start = raw.read(6)
    raw.seek(0)
    kind = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), None)
    if kind == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw))
    if kind == "zstd":
        return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(
            raw, read_across_frames=True, closefd=False
        )
    if kind == "bzip2":
        return bz2.BZ2File(raw)
    if kind == "xz":
        return lzma.LZMAFile(raw)
    return raw


def _check_zstd_frames(raw: IO[bytes], size: int) -> None:
    """Raise EOFError if the last frame is cut off, which the reader takes for the end.

    A frame is a header, blocks that each say how long they are and whether they are the last, and
    perhaps a checksum (RFC 8878).
    """
    at = 0
    while at < size:
        raw.seek(at)
        start = raw.read(18)  # the longest header
        if start[1:4] == b"\x2a\x4d\x18":  # a frame to be skipped
            at += 8 + int.from_bytes(start[4:8], "little")
        else:
            at += zstandard.frame_header_size(start)
            last = False
            while not last and at < size:
                raw.seek(at)
                block = int.from_bytes(raw.read(3), "little")
                last, repeated = bool(block & 1), block >> 1 & 3 == 1
                at += 3 + (1 if repeated else block >> 3)
            at += 4 if zstandard.get_frame_parameters(start).has_checksum else 0
            if not last:
                at = size + 1
    if at > size:
        raise EOFError("the last frame of zstd is cut off")
