"""Locks of folders and files: one process at a time, and none is left by a process that died."""

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

#: The file that a process has locked which works in a folder.
LOCK_FILE: Final = ".lock"
#: What a file system says that has no locks.
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class FolderLock:
    """The right to change a folder, held by one process at a time.

    The kernel takes it back when the process ends, however it ends. Other openings of the folder in
    the same process are refused as well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     lock = FolderLock.acquire(Path(there))
    ...     try:
    ...         FolderLock.acquire(Path(there))
    ...     except InputError as error:
    ...         print(error.problem.partition(" process")[0])
    ...     lock.release()
    ...     list(Path(there).iterdir())
    is in use by
    []
    """

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self._closed = weakref.finalize(self, os.close, file)

    @classmethod
    def acquire(cls, folder: Path) -> Self:
        """Lock a folder that is there; an error that names the process which has it."""
        path = folder / LOCK_FILE
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                problem = f"cannot be locked: {error.strerror or error}"
                raise InputError(problem, file=folder) from None
            try:
                held = lock_file(file)
            except OSError as error:
                os.close(file)
                problem = f"cannot be locked: {error.strerror or error}"
                raise InputError(problem, file=folder) from None
            if held is not None:
                os.close(file)
                raise _in_use(folder, held)
            # The one that had it may have removed the file between our opening and locking it.
            with suppress(OSError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    return cls(path, file)
            os.close(file)

    def release(self) -> None:
        """Give the folder back; the file is removed."""
        if self._closed.alive:
            with suppress(OSError):  # the folder was replaced, or cannot be written any more
                if os.path.samestat(os.fstat(self._file), self._path.lstat()):
                    self._path.unlink()
            self._closed()


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Have a folder for this process alone while the block runs."""
    lock = FolderLock.acquire(folder)
    try:
        yield
    finally:
        lock.release()


def lock_file(file: int) -> str | None:
    """Lock an open file for this process alone, without waiting; else who has it.

    Where the file system has no locks (Lustre without `-o flock`, some NFS), nothing is locked.
    """
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(os.fstat(file).st_ino)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return None


def check_unlocked(folder: Path, files: list[str]) -> None:
    """Raise an error if a process has one of these files of a folder locked."""
    for name in files:
        try:
            file = os.open(folder / name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # it is gone, or cannot be locked by this user
        try:
            held = lock_file(file)
        except OSError:
            held = None
        finally:
            os.close(file)
        if held is not None:
            raise _in_use(folder, held)


def _in_use(folder: Path, holder: str) -> InputError:
    return InputError(
        f"is in use by {holder}",
        file=folder,
        remedy="wait until it has ended, or end it, or choose another folder",
    )


def _holder(inode: int) -> str:
    """The process that has a file locked, as far as the kernel says."""
    with suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                return f"process {words[4]}"
    return "another process"
