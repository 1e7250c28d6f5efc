"""Scratch folders that are removed even if the process that made them is killed.

A folder is locked while it is in use, and the kernel releases the locks of a process that ends. A
folder without a lock was left by a killed process; it is removed when a process makes its first
scratch folder in the same parent folder.
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

#: Prefix of the names of scratch folders; no other folder may have it.
PREFIX: Final = "twinloop-box-"


@contextmanager
def make_scratch_folder() -> Iterator[Path]:
    """Make a folder in the folder of temporary files, and remove it at the end of the block.

    >>> with make_scratch_folder() as folder:
    ...     folder.is_dir()
    True
    >>> folder.exists()
    False
    """
    parent = tempfile.gettempdir()
    _remove_unused_once(parent, os.getpid())
    folder, lock = _make_locked_folder(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def remove_unused_folders(parent: str | Path) -> int:
    """Remove the scratch folders of this user in `parent` that no process has locked.

    Returns the number of folders that were removed.

    >>> with tempfile.TemporaryDirectory() as parent:
    ...     left = Path(parent, f"{PREFIX}abc")
    ...     left.mkdir()
    ...     remove_unused_folders(parent), left.exists()
    (1, False)
    """
    removed = 0
    for folder in Path(parent).glob(f"{PREFIX}*"):
        if not belongs_to_user(folder):
            continue
        with suppress(OSError):
            file = _open_folder(folder)
            try:
                _lock(file, wait=False)
                shutil.rmtree(folder, ignore_errors=True)
                removed += not folder.exists()
            finally:
                os.close(file)
    return removed


@cache
def _remove_unused_once(parent: str, process: int) -> int:
    """Remove unused folders on the first call of a process."""
    return remove_unused_folders(parent)


def _make_locked_folder(parent: str) -> tuple[Path, int]:
    """Make a folder; returns it with the file descriptor that holds its lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):
            file = _open_folder(folder)
            # Without locks on this file system, no other process can lock and remove the folder.
            with suppress(OSError):
                _lock(file, wait=True)
            if folder.exists():
                return folder, file
            os.close(file)  # another process removed the folder before it was locked


def _open_folder(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _lock(file: int, *, wait: bool) -> None:
    # Imported here because not every system has fcntl, and Python functions do not need it.
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
