"""Names that stand in a file, as paths below a folder: the only place that joins them.

A folder that was sent by another user may name `../../.ssh/id_rsa` as one of its parts. What a
manifest, a plan, a table or an address calls a part of a folder becomes a path here, or is refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from twinloop.description.errors import InputError

#: The longest name of a file that common file systems take (bytes).
MAX_NAME_BYTES: Final = 255


def join_below(
    folder: Path, name: Any, *, deep: bool = False, file: Path | None = None, field: str = ""
) -> Path:
    """The path of the part of a folder that a file names; an error if it would lie elsewhere.

    Args:
        folder: Where the part must lie.
        name: What the file says: the name of an entry of the folder.
        deep: Whether it may be several names with slashes between them.
        file: The file that says it, for the error.
        field: The field that says it, for the error.

    >>> join_below(Path("study"), "fit-1a2b")
    PosixPath('study/fit-1a2b')
    >>> join_below(Path("confirmed"), "runs/01-easy-1", deep=True)
    PosixPath('confirmed/runs/01-easy-1')
    >>> join_below(Path("study"), "../../important", field="fit")
    Traceback (most recent call last):
    twinloop.InputError: fit: '../../important' is no name of a part of this folder ...
    """
    check_entry_name(name, deep=deep, file=file, field=field)
    path = folder / str(name)
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise _refused(name, f"cannot be followed: {error}", file, field) from None
    if not inside:
        raise _refused(name, "is a link that leads out of this folder", file, field)
    return path


def check_entry_name(
    name: Any, *, deep: bool = False, file: Path | None = None, field: str = ""
) -> None:
    """Raise an error if a text cannot name a part of a folder, wherever that is.

    >>> check_entry_name("two per core")
    >>> check_entry_name("a/b")
    Traceback (most recent call last):
    twinloop.InputError: 'a/b' is no name of a part of this folder ...
    """
    parts = name.split("/") if isinstance(name, str) and deep else [name]
    if not all(_is_plain(part) for part in parts):
        raise _refused(name, "is no name of a part of this folder", file, field)


def _is_plain(part: Any) -> bool:
    """Whether a text is the name of one entry of a folder."""
    if not isinstance(part, str) or part in ("", ".", ".."):
        return False
    try:
        size = len(os.fsencode(part))
    except UnicodeEncodeError:
        return False
    return size <= MAX_NAME_BYTES and not set(part) & {"/", "\\", "\0"}


def _refused(name: Any, problem: str, file: Path | None, field: str) -> InputError:
    shown = ascii(name) if len(ascii(name)) <= 80 else f"{ascii(name)[:77]}..."
    return InputError(
        f"{shown} {problem}",
        file=file,
        field=field or None,
        remedy="a plain name: no slash, no .., at most 255 bytes",
    )
