"""Bytes in and out of files: decompressed on the way in, whole or not at all on the way out."""

from __future__ import annotations

import bz2
import ctypes
import errno
import glob
import gzip
import hashlib
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Final, cast

import polars as pl
import zstandard
from pydantic import BaseModel, ConfigDict

from twinloop.description.errors import (
    FormatError,
    InputError,
    UnwritableError,
    input_error_from_os_error,
)
from twinloop.description.file_owner import belongs_to_user
from twinloop.description.input_limit import check_input_limit, compute_input_limit
from twinloop.description.locks import LOCK_FILE, hold_lock
from twinloop.description.replacement import OwnershipRule, check_regular_file, check_replaceable

CHUNK_BYTES = 1 << 20

_COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}


#: What the first bytes of files that are no text say.
PARQUET_KIND: Final = "a Parquet file"
_BINARY: Final = {
    b"PAR1": PARQUET_KIND,
    b"\x7fELF": "a program (ELF)",
    b"MZ": "a program of Windows",
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (or a document of an office program)",
    b"SQLite format 3": "a database (SQLite)",
    b"\x89HDF": "an HDF5 file",
    b"ARROW1": "an Arrow file",
    b"Obj\x01": "an Avro file",
    b"ORC": "an ORC file",
    b"\x93NUMPY": "an array of NumPy",
    b"\x80\x04\x95": "a pickle of Python",
    b"7z\xbc\xaf": "a 7z archive",
}

_SPECIAL: Final = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class SourceFile(BaseModel):
    """A file that something was read from: its name, size and hash."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    size: int
    sha256: str


def is_file(path: Path) -> bool:
    """Whether this is a regular file; a name that cannot be one (too long) is none."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def require_input(path: Path, *, folder: bool = False) -> None:
    """Raise an InputError unless this is a regular file, or also a folder where that will do.

    Every input goes through here before it is opened: a pipe or a device would be read for ever.
    A file that stdin is redirected from (`/dev/stdin`) is a regular one.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode) and folder:
            os.scandir(path).close()
    except FileNotFoundError:
        raise InputError("does not exist", file=path) from None
    except (OSError, ValueError) as error:
        raise input_error_from_os_error(error, path) from None
    if stat.S_ISDIR(mode):
        if not folder:
            raise InputError("is a folder, not a file", file=path)
    elif not stat.S_ISREG(mode):
        kind = next((name for test, name in _SPECIAL if test(mode)), "something else")
        wanted = "no file and no folder" if folder else "no file"
        raise FormatError(
            f"is {kind}, {wanted}", file=path, remedy="save what it holds as a file first"
        )


#: A folder of more files than this, or deeper, is no log.
MAX_FILES: Final = 10_000
MAX_FOLDER_DEPTH: Final = 4


def list_input_files(folder: Path) -> list[Path]:
    """The regular files of a folder that is an input, in order; a whole file system is none."""
    found: list[Path] = []
    waiting = [(folder, 0)]
    while waiting:
        here, depth = waiting.pop()
        try:
            entries = sorted(here.iterdir())
        except OSError as error:
            raise input_error_from_os_error(error, here) from None
        found += [entry for entry in entries if is_file(entry)]
        below = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
        waiting += [(entry, depth + 1) for entry in below]
        if len(found) > MAX_FILES or (below and depth + 1 > MAX_FOLDER_DEPTH):
            raise InputError(
                f"holds more than {MAX_FILES:,} files, or folders more than {MAX_FOLDER_DEPTH} "
                "deep: that is no log",
                file=folder,
                remedy="name the folder of the log itself",
            )
    return sorted(found)


def detect_binary_kind(start: bytes) -> str | None:
    r"""What a file is that is no text, by its first bytes; None: it may be text.

    >>> detect_binary_kind(b"\x7fELF\x02"), detect_binary_kind(b"id,submit\n")
    ('a program (ELF)', None)
    """
    kind = next((kind for magic, kind in _BINARY.items() if start.startswith(magic)), None)
    if kind is None and start[257:262] == b"ustar":
        return "a tar archive"
    # A text cut at the wrong place can have a NUL or two; UTF-16 has many, and is text.
    text = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if kind in ("a program of Windows", "an ORC file") and b"\0" not in start:
        return None
    if kind is None and not text and start.count(b"\0") > len(start) // 8:
        return "a binary file of an unknown kind"
    return kind


def iterate_chunks(path: Path) -> Iterator[bytes]:
    """The decompressed bytes of a file, a mebibyte at a time.

    Gzip, zstd, bzip2 and xz are known by their first bytes. A file that ends too soon, is damaged
    or grows beyond the bound of `compute_input_limit` is an InputError.
    """
    require_input(path)
    total = 0
    try:
        packed, bound = path.stat().st_size, compute_input_limit(path)
        with path.open("rb") as raw, _decompressed(raw) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                total += len(chunk)
                if total > bound:
                    check_input_limit(
                        path, total, f"has {total:,} bytes or more when decompressed", bound
                    )
                yield chunk
            if isinstance(stream, zstandard.ZstdDecompressionReader):
                _check_zstd_frames(raw, packed)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise InputError(f"cannot be read to its end: {error}", file=path) from None


def iterate_text_chunks(path: Path) -> Iterator[bytes]:
    """The same as `iterate_chunks`, of a file that is to be text: any other kind is named."""
    first = True
    for chunk in iterate_chunks(path):
        if first and (kind := detect_binary_kind(chunk[: 1 << 16])) is not None:
            raise FormatError(f"is {kind}, not a text", file=path)
        first = False
        yield chunk


def read_first_bytes(path: Path, count: int = 1 << 16) -> bytes:
    """The first bytes of a file, decompressed; fewer where it is short or damaged."""
    start = b""
    try:
        for chunk in iterate_chunks(path):
            start += chunk
            if len(start) >= count:
                break
    except InputError:
        pass
    return start[:count]


def read_text(path: Path, *, limit: int = 1 << 30) -> str:
    """The whole text of a file of at most `limit` bytes, decompressed, in UTF-8."""
    buffer = io.BytesIO()
    for chunk in iterate_chunks(path):
        buffer.write(chunk)
        if buffer.tell() > limit:
            raise InputError(f"is larger than {limit:,} bytes", file=path)
    data = buffer.getvalue()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("is not UTF-8", file=path, line=line, remedy="convert it first") from None


def hash_file(file: Path) -> str:
    """The hash of a file's bytes, in hexadecimal."""
    require_input(file)
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise input_error_from_os_error(error, file) from None


def describe_source_file(path: Path) -> SourceFile:
    """What a manifest keeps of a file that was read."""
    return SourceFile(name=path.name, size=path.stat().st_size, sha256=hash_file(path))


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
    """A stream to a file that appears when the block ends well, compressed as its name says.

    A file that is there is replaced in one step; a folder, a link or a device never.
    """
    check_regular_file(path)
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
        raise make_write_error(path, error) from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextmanager
def write_folder_atomically(path: Path, owner: OwnershipRule) -> Iterator[Path]:
    """A new folder that takes the place of `path` when the block ends well, and else is gone.

    A folder that is there is replaced only if everything in it is owned, as `owner` says, and no
    process works in it: before the block and after it. One that was not there before the block is
    not replaced. Of a link to a folder, the folder is replaced, and the link stays.
    """
    if path.name in ("", "..") or (path.is_symlink() and path.is_dir()):
        path = path.resolve()
    check_replaceable(path, owner)
    there = path.is_dir()
    with hold_lock(path) if there else nullcontext():
        check_replaceable(path, owner, ours=(LOCK_FILE,))
        with _unfinished_folder(path) as work:
            yield work / "new"
            if there:
                check_replaceable(path, owner, ours=(LOCK_FILE,))
                _exchange(work, path)
            else:
                _put(work / "new", path)


@contextmanager
def _unfinished_folder(path: Path) -> Iterator[Path]:
    """A folder beside `path`, with an empty one in it for what will become it; gone at the end."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        work = _unfinished(path)
        work.mkdir()
        try:
            (work / "new").mkdir()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except (OSError, pl.exceptions.ComputeError) as error:
        raise make_write_error(path, error) from None


def _exchange(work: Path, path: Path) -> None:
    """Put the new folder in the place of the old one, which is left to be removed."""
    new, old = work / "new", work / "old"
    if _exchanged(new, path):
        return
    path.rename(old)
    try:
        new.rename(path)
    finally:
        if not path.exists():
            old.rename(path)


def _put(new: Path, path: Path) -> None:
    """Give a new folder its name, unless something has that name by now."""
    try:
        new.rename(path)  # an empty folder of that name is no loss
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise InputError(
            "was written by another process in the meantime, so it is not replaced",
            file=path,
            remedy="choose another name",
        ) from None


#: What Polars says if the header of a page or the footer of a Parquet file cannot be written.
_NOT_SAID: Final = "Invalid thrift: transport error"


def make_write_error(path: Path, error: Exception) -> Exception:
    """What to raise if a file cannot be written; an error that is about something else stays.

    >>> print(make_write_error(Path("run"), OSError(28, "No space left on device")))
    run: cannot be written: No space left on device
    """
    if isinstance(error, OSError):
        return UnwritableError(f"cannot be written: {error.strerror or error}", file=path)
    # Polars has what the system said in its text only, and not even there in some parts of a file.
    found = re.search(r"([^:]*) \(os error \d+\)", str(error))
    if found is None and _NOT_SAID not in str(error):
        return error
    why = " the disk may be full" if found is None else found[1]
    return UnwritableError(f"cannot be written:{why}", file=path)


def _unfinished(path: Path) -> Path:
    """A name for what will become `path`; it says which process is at it."""
    return path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _sweep(path: Path) -> None:
    """Remove what a process that was killed left of its attempt to write `path`."""
    for left in path.parent.glob(f".{glob.escape(path.name)}-*"):
        process = _OWNER.match(left.name.removeprefix(f".{path.name}-"))
        if process is None or _runs(int(process[1])) or not belongs_to_user(left):
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
    kind = next((name for magic, name in _COMPRESSED.items() if start.startswith(magic)), None)
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
