"""Reading of files with decompression, and atomic writing of files and folders."""

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

_COMPRESSIONS = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
}


PARQUET_KIND: Final = "a Parquet file"
#: Kinds of binary files by their first bytes.
_BINARY_KINDS: Final = {
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

_SPECIAL_FILES: Final = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class SourceFile(BaseModel):
    """A file that was read: its name, size and hash."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    size: int
    sha256: str


def is_file(path: Path) -> bool:
    """Whether a path is a regular file; False also if it is inaccessible or its name too long."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def require_input(path: Path, *, folder: bool = False) -> None:
    """Raise an InputError unless a path is a regular file or, with `folder`, a folder.

    Every input is checked here before it is opened: reading a pipe or a device may never end.
    `/dev/stdin` redirected from a file is a regular file.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode) and folder:
            os.scandir(path).close()  # an error if the folder may not be listed
    except FileNotFoundError:
        raise InputError("does not exist", kind="file-not-found", file=path) from None
    except (OSError, ValueError) as error:
        raise input_error_from_os_error(error, path) from None
    if stat.S_ISDIR(mode):
        if not folder:
            raise InputError("is a folder, not a file", kind="wrong-file-type", file=path)
    elif not stat.S_ISREG(mode):
        kind = next((name for test, name in _SPECIAL_FILES if test(mode)), "a special file")
        expected = "a file or a folder" if folder else "a file"
        raise FormatError(
            f"is {kind}, not {expected}",
            kind="wrong-file-type",
            file=path,
            remedy="save its content as a file first",
        )


#: Limits of a folder that is read as a log: number of files, and levels of subfolders.
MAX_FILES: Final = 10_000
MAX_FOLDER_DEPTH: Final = 4


def list_input_files(folder: Path) -> list[Path]:
    """List the regular files below a folder, sorted; links to folders are not followed.

    Raises:
        InputError: The folder exceeds a limit, or cannot be read.
    """
    files: list[Path] = []
    pending = [(folder, 0)]
    while pending:
        current, depth = pending.pop()
        try:
            entries = sorted(current.iterdir())
        except OSError as error:
            raise input_error_from_os_error(error, current) from None
        files += [entry for entry in entries if is_file(entry)]
        subfolders = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
        pending += [(entry, depth + 1) for entry in subfolders]
        if len(files) > MAX_FILES or (subfolders and depth + 1 > MAX_FOLDER_DEPTH):
            raise InputError(
                f"contains more than {MAX_FILES:,} files, or subfolders more than "
                f"{MAX_FOLDER_DEPTH} levels deep, so it is not read as a log",
                kind="too-large",
                file=folder,
                remedy="name the folder of the log itself",
            )
    return sorted(files)


def detect_binary_kind(start: bytes) -> str | None:
    r"""Detect the kind of a binary file from its first bytes; None if it may be text.

    >>> detect_binary_kind(b"\x7fELF\x02"), detect_binary_kind(b"id,submit\n")
    ('a program (ELF)', None)
    """
    kind = next((kind for magic, kind in _BINARY_KINDS.items() if start.startswith(magic)), None)
    if kind is None and start[257:262] == b"ustar":
        return "a tar archive"
    # A text can start with these two or three letters.
    if kind in ("a program of Windows", "an ORC file") and b"\0" not in start:
        return None
    # A damaged text can contain a few NULs; UTF-16 text contains many.
    is_utf16 = start.startswith((b"\xff\xfe", b"\xfe\xff"))
    if kind is None and not is_utf16 and start.count(b"\0") > len(start) // 8:
        return "a binary file of an unknown kind"
    return kind


def iterate_chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, 1 MiB at a time.

    Gzip, zstd, bzip2 and xz are detected by their first bytes. A file that is truncated, damaged
    or larger than `compute_input_limit` allows is an InputError.
    """
    require_input(path)
    total = 0
    try:
        compressed_size, limit = path.stat().st_size, compute_input_limit(path)
        with path.open("rb") as raw, _open_decompressed(raw) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                total += len(chunk)
                if total > limit:
                    check_input_limit(
                        path, total, f"has {total:,} bytes or more when decompressed", limit
                    )
                yield chunk
            if isinstance(stream, zstandard.ZstdDecompressionReader):
                _check_zstd_frames(raw, compressed_size)
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise InputError(
            f"cannot be read to its end: {error}", kind="cannot-read", file=path
        ) from None


def iterate_text_chunks(path: Path) -> Iterator[bytes]:
    """Yield the chunks of a text file as `iterate_chunks` does; a binary file is a FormatError."""
    first = True
    for chunk in iterate_chunks(path):
        if first and (kind := detect_binary_kind(chunk[: 1 << 16])) is not None:
            raise FormatError(f"is {kind}, not a text file", kind="wrong-format", file=path)
        first = False
        yield chunk


def read_first_bytes(path: Path, count: int = 1 << 16) -> bytes:
    """Read the first bytes of a file, decompressed; fewer if it is short, damaged or unreadable."""
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
    """Read a UTF-8 text file of at most `limit` bytes, decompressed."""
    buffer = io.BytesIO()
    for chunk in iterate_chunks(path):
        buffer.write(chunk)
        if buffer.tell() > limit:
            raise InputError(f"is larger than {limit:,} bytes", kind="too-large", file=path)
    data = buffer.getvalue()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "is not UTF-8", kind="not-utf8", file=path, line=line, remedy="convert it to UTF-8"
        ) from None


def hash_file(file: Path) -> str:
    """Compute the SHA-256 of a file, in hexadecimal."""
    require_input(file)
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise input_error_from_os_error(error, file) from None


def describe_source_file(path: Path) -> SourceFile:
    """Describe a file that was read, for a manifest."""
    return SourceFile(name=path.name, size=path.stat().st_size, sha256=hash_file(path))


def refuse_file(folder: Path) -> None:
    """Raise an error if something else than a folder is where a folder is to be written."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "is not a folder",
            kind="wrong-file-type",
            file=folder,
            remedy="name a folder that does not exist",
        )


@contextmanager
def write_atomically(path: Path) -> Iterator[IO[bytes]]:
    """Open a stream to a file that is created, or replaced, when the block ends without error.

    The suffixes `.gz` and `.zst` select compression. A folder, a link or a device is never
    replaced.
    """
    check_regular_file(path)
    temporary = _make_temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        with temporary.open("xb") as raw:
            if path.suffix == ".gz":
                # Without a time stamp, so that the same trace gives the same bytes.
                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                    yield cast(IO[bytes], packed)
            elif path.suffix == ".zst":
                with zstandard.ZstdCompressor().stream_writer(raw, closefd=False) as packed_zst:
                    yield packed_zst
            else:
                yield raw
        temporary.replace(path)
    except (OSError, pl.exceptions.ComputeError) as error:
        raise make_write_error(path, error) from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def write_folder_atomically(path: Path, owner: OwnershipRule) -> Iterator[Path]:
    """Open a new folder that becomes `path` when the block ends without error, else is removed.

    An existing folder is replaced only if `owner` lists all files in it and no process has it
    locked, before the block and after it. A folder that another process created during the block
    is not replaced. If `path` is a link to a folder, the folder is replaced and the link stays.
    """
    if path.name in ("", "..") or (path.is_symlink() and path.is_dir()):
        path = path.resolve()
    check_replaceable(path, owner)
    exists = path.is_dir()
    with hold_lock(path) if exists else nullcontext():
        check_replaceable(path, owner, ours=(LOCK_FILE,))
        with _make_temporary_folder(path) as work:
            yield work / "new"
            if exists:
                check_replaceable(path, owner, ours=(LOCK_FILE,))
                _exchange_folders(work, path)
            else:
                _move_to(work / "new", path)


@contextmanager
def _make_temporary_folder(path: Path) -> Iterator[Path]:
    """Create a temporary folder beside `path` with an empty folder `new`; remove it at the end."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        work = _make_temporary_name(path)
        work.mkdir()
        try:
            (work / "new").mkdir()
            yield work
        finally:
            shutil.rmtree(work, ignore_errors=True)
    except (OSError, pl.exceptions.ComputeError) as error:
        raise make_write_error(path, error) from None


def _exchange_folders(work: Path, path: Path) -> None:
    """Replace the old folder `path` by the new one; the old folder moves into `work`."""
    new, old = work / "new", work / "old"
    if _exchange_names(new, path):
        return
    path.rename(old)
    try:
        new.rename(path)
    finally:
        if not path.exists():
            old.rename(path)


def _move_to(new: Path, path: Path) -> None:
    """Rename a new folder; an error if another process has created `path` in the meantime."""
    try:
        new.rename(path)  # an empty folder of this name is replaced
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise InputError(
            "was written by another process in the meantime, so it is not replaced",
            kind="changed-meanwhile",
            file=path,
            remedy="choose another name",
        ) from None


#: The message of Polars if a page header or the footer of a Parquet file cannot be written.
_THRIFT_ERROR: Final = "Invalid thrift: transport error"


def make_write_error(path: Path, error: Exception, remedy: str | None = None) -> Exception:
    """Convert an error of writing a file into an `UnwritableError`; return any other unchanged.

    >>> print(make_write_error(Path("run"), OSError(28, "No space left on device")))
    run: cannot be written: No space left on device [TL0104]
    """
    if isinstance(error, OSError):
        problem = f"cannot be written: {error.strerror or error}"
        return UnwritableError(problem, kind="cannot-write", file=path, remedy=remedy)
    # The error of Polars contains the message of the operating system as text, or, for a page
    # header or the footer, not at all.
    system_message = re.search(r"([^:]*) \(os error \d+\)", str(error))
    if system_message is None and _THRIFT_ERROR not in str(error):
        return error
    reason = " the disk may be full" if system_message is None else system_message[1]
    return UnwritableError(
        f"cannot be written:{reason}", kind="cannot-write", file=path, remedy=remedy
    )


def _make_temporary_name(path: Path) -> Path:
    """Return a temporary name beside `path` that contains the process id."""
    return path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files of killed processes that were writing `path`."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}-*"):
        suffix = _TEMPORARY_SUFFIX.match(leftover.name.removeprefix(f".{path.name}-"))
        if suffix is None or _is_running(int(suffix[1])) or not belongs_to_user(leftover):
            continue
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


#: The end of a temporary name: the process id and random digits.
_TEMPORARY_SUFFIX = re.compile(r"([0-9]{1,9})-[0-9a-f]{8}$")


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # it is running, but belongs to another user
    return True


def _exchange_names(first: Path, second: Path) -> bool:
    """Exchange the names of two folders atomically; False if the system cannot do that."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    cwd, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
    return bool(renameat2(cwd, os.fsencode(first), cwd, os.fsencode(second), exchange) == 0)


def _open_decompressed(raw: IO[bytes]) -> IO[bytes]:
    start = raw.read(6)
    raw.seek(0)
    kind = next((name for magic, name in _COMPRESSIONS.items() if start.startswith(magic)), None)
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
    """Raise EOFError if the last frame is truncated; the zstd reader reports no error then.

    A frame is a header, blocks with their length and a flag for the last one, and an optional
    checksum (RFC 8878).
    """
    offset = 0
    while offset < size:
        raw.seek(offset)
        start = raw.read(18)  # the longest header
        if start[1:4] == b"\x2a\x4d\x18":  # a skippable frame
            offset += 8 + int.from_bytes(start[4:8], "little")
        else:
            offset += zstandard.frame_header_size(start)
            is_last = False
            while not is_last and offset < size:
                raw.seek(offset)
                block = int.from_bytes(raw.read(3), "little")
                is_last, is_repeated_byte = bool(block & 1), block >> 1 & 3 == 1
                offset += 3 + (1 if is_repeated_byte else block >> 3)
            offset += 4 if zstandard.get_frame_parameters(start).has_checksum else 0
            if not is_last:  # the file ends before the last block
                offset = size + 1
    if offset > size:
        raise EOFError("the last zstd frame is truncated")
