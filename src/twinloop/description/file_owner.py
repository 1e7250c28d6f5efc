"""Whose a file is."""

from __future__ import annotations

import os
from pathlib import Path


def belongs_to_user(path: Path) -> bool:
    """Whether a file or folder belongs to this user; a link is not followed.

    What another user put into a folder for everybody is not taken for a leftover.

    >>> belongs_to_user(Path("/nowhere"))
    False
    """
    try:
        owner = path.lstat().st_uid
    except OSError:
        return False
    return not hasattr(os, "geteuid") or owner == os.geteuid()
