"""Ownership of files by the current user."""

from __future__ import annotations

import os
from pathlib import Path


def belongs_to_user(path: Path) -> bool:
    """Whether a file or folder belongs to the current user; links are not followed.

    Used before leftovers are removed: in a shared folder, files of other users must stay.
    On a system without user ids (Windows), every existing file belongs to the current user.

    >>> belongs_to_user(Path("/nowhere"))
    False
    """
    try:
        owner = path.lstat().st_uid
    except OSError:
        return False
    return not hasattr(os, "geteuid") or owner == os.geteuid()
