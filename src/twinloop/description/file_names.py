"""Safe joining of a folder and a name that was read from a file.

A folder from another user may contain a file that lists `../../.ssh/id_rsa` as one of its entries.
Every name of an entry in a manifest, a plan, a table or an address of a page is converted to a path
here, or rejected.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from twinloop.description.errors import InputError

#: The longest file name that common file systems accept (bytes).
MAX_NAME_BYTES: Final = 255


def join_below(
    folder: Path, name: Any, *, deep: bool = False, file: Path | None = None, field: str = ""
) -> Path:
    """Join a folder and a name from a file; an error if the path would be outside the folder.

    Args:
        folder: The folder that must contain the path.
        name: The name of an entry of the folder, as read from the file.
        deep: Whether the name may be a relative path with slashes.
        file: The file that contains the name, for the error.
        field: The field that contains the name, for the error.

    >>> join_below(Path("study"), "fit-1a2b")
    PosixPath('study/fit-1a2b')
    >>> join_below(Path("confirmed"), "runs/01-easy-1", deep=True)
    PosixPath('confirmed/runs/01-easy-1')
    >>> join_below(Path("study"), "../../important", field="fit")
    Traceback (most recent call last):
    twinloop.InputError: fit: '../../important' is not a valid name inside this folder ...
    """
    check_entry_name(name, deep=deep, file=file, field=field)
    path = folder / str(name)
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError) as error:
        raise _make_error(
            name, f"cannot be resolved: {error}", file, field, "remove the link"
        ) from None
    if not inside:
        raise _make_error(
            name,
            "is a link to a path outside of this folder",
            file,
            field,
            "replace the link by the files",
        )
    return path


def check_entry_name(
    name: Any, *, deep: bool = False, file: Path | None = None, field: str = ""
) -> None:
    """Raise an error if a text is not a valid name of a folder entry.

    >>> check_entry_name("two per core")
    >>> check_entry_name("a/b")
    Traceback (most recent call last):
    twinloop.InputError: 'a/b' is not a valid name inside this folder ...
    """
    parts = name.split("/") if isinstance(name, str) and deep else [name]
    if not all(_is_entry_name(part) for part in parts):
        form = "a relative path" if deep else "a name without slash"
        raise _make_error(
            name,
            "is not a valid name inside this folder",
            file,
            field,
            f"use {form}: no .., no backslash, at most {MAX_NAME_BYTES} bytes per name",
        )


def _is_entry_name(part: Any) -> bool:
    """Whether a text is a valid name of one folder entry."""
    if not isinstance(part, str) or part in ("", ".", ".."):
        return False
    try:
        size = len(os.fsencode(part))
    except UnicodeEncodeError:
        return False
    return size <= MAX_NAME_BYTES and not set(part) & {"/", "\\", "\0"}


def _make_error(name: Any, problem: str, file: Path | None, field: str, remedy: str) -> InputError:
    shown = ascii(name) if len(ascii(name)) <= 80 else f"{ascii(name)[:77]}..."
    return InputError(
        f"{shown} {problem}",
        kind="unsafe-name",
        file=file,
        field=field or None,
        remedy=remedy,
    )
