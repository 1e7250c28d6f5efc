"""Locks of folders and files, which the kernel releases when a process ends."""

from __future__ import annotations

import errno
import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from twinloop.description.errors import InputError

#: The file that a process locks while it works in a folder.
LOCK_FILE: Final = ".lock"
#: Error numbers of file systems without locks.
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class FolderLock:
    """An exclusive lock of a folder, held by one process at a time.

    The kernel releases it when the process ends, also when it is killed. A second lock of the
    folder in the same process is an error as well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FolderLock.acquire(Path(folder))
    ...     try:
    ...         FolderLock.acquire(Path(folder))
    ...     except InputError as error:
    ...         print(error.problem.partition(" process")[0])
    ...     lock.release()
    ...     list(Path(folder).iterdir())
    is in use by
    []
    """

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._close_file = weakref.finalize(self, os.close, file)

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Lock an existing folder; if it is locked, the error names the process."""
        path = folder / LOCK_FILE
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                problem = f"cannot be locked: {error.strerror or error}"
                raise InputError(problem, kind="cannot-write", file=folder) from None
            try:
                holder = lock_file(file)
            except OSError as error:
                os.close(file)
                problem = f"cannot be locked: {error.strerror or error}"
                raise InputError(problem, kind="cannot-write", file=folder) from None
            if holder is not None:
                os.close(file)
                raise _make_in_use_error(folder, holder)
            # The previous holder may have removed the file after it was opened here.
            with suppress(OSError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    return cls(path, file)
            os.close(file)

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self._close_file.alive:
            with suppress(OSError):  # the folder was replaced, or cannot be written any more
                if os.path.samestat(os.fstat(self._file), self._path.lstat()):
                    self._path.unlink()
            self._close_file()


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder during the block."""
    lock = FolderLock.acquire(folder)
    try:
        yield
    finally:
        lock.release()


def lock_file(file: int) -> str | None:
    """Lock an open file exclusively, without waiting.

    Returns None, or the process that has locked the file. On Windows and on file systems without
    locks (Lustre without `-o flock`, some NFS), nothing is locked and the result is None.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _find_holder(os.fstat(file).st_ino)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return None


def check_unlocked(folder: Path, files: list[str]) -> None:
    """Raise an error if a process holds a lock on one of these files of a folder."""
    for name in files:
        try:
            file = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it does not exist any more, or cannot be locked by this user
        try:
            holder = lock_file(file)
        except OSError:
            holder = None
        finally:
            os.close(file)
        if holder is not None:
            raise _make_in_use_error(folder, holder)


def _make_in_use_error(folder: Path, holder: str) -> InputError:
    return InputError(
        f"is in use by {holder}",
        kind="in-use",
        file=folder,
        remedy="wait until it has ended, or end it, or choose another folder",
    )


def _find_holder(inode: int) -> str:
    """Return the process that holds the lock of a file; its id only if `/proc/locks` lists it."""
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                return f"process {words[4]}"
    return "another process"
