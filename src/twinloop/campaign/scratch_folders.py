"""Scratch folders that go with whoever made them, even if that is killed.

A folder is locked for as long as it is in use, and the system lets go of the lock of a process that
is gone. So one that nobody holds is a leftover: it is removed when a process makes its first folder
beside it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from twinloop.description.file_owner import belongs_to_user

#: How scratch folders are called, and what else may not be.
PREFIX: Final = "twinloop-box-"


@contextmanager
def make_scratch_folder() -> Iterator[Path]:
    """A new folder among the temporary files, removed at the end.

    >>> with make_scratch_folder() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    there = tempfile.gettempdir()
    _swept(there, os.getpid())
    folder, hold = _made(there)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(hold)


def remove_unused_folders(there: str | Path) -> int:
    """Remove the scratch folders of this user in a folder that no process holds; their number.

    >>> with tempfile.TemporaryDirectory() as there:
    ...     left = Path(there, f"{PREFIX}abc")
    ...     left.mkdir()
    ...     remove_unused_folders(there), left.exists()
    (1, False)
    """
    removed = 0
    for folder in Path(there).glob(f"{PREFIX}*"):
        if not belongs_to_user(folder):
            continue
        with suppress(OSError):
            hold = _opened(folder)
            try:
                _lock(hold, wait=False)
                shutil.rmtree(folder, ignore_errors=True)
                removed += not folder.exists()
            finally:
                os.close(hold)
    return removed


@cache
def _swept(there: str, process: int) -> int:
    return remove_unused_folders(there)


def _made(there: str) -> tuple[Path, int]:
    """A folder, and the hold on it."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=there))
        with suppress(FileNotFoundError):
            hold = _opened(folder)
            # Where the file system has no locks, nobody else can get one and remove it.
            with suppress(OSError):
                _lock(hold, wait=True)
            if folder.exists():
                return folder, hold
            os.close(hold)  # a sweep came in between


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(hold: int, *, wait: bool) -> None:
    # Not on every system, and functions as black boxes need none of this.
    import fcntl

    fcntl.flock(hold, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
