"""The errors and warnings of Twinloop: the problem, its position, and a remedy."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from twinloop.description.codes import CODES
from twinloop.description.safe_text import escape_name

_CODE: Final = re.compile(r" \[TL\d{4}\]")


class TwinloopError(Exception):
    """Base class of the errors of Twinloop, most of which are about its input."""

    #: The module that users import it from, shown in tracebacks.
    __module__ = "twinloop"


class InUseError(TwinloopError, RuntimeError):
    """An object that is not thread-safe is used while another call on it is running.

    That call may be in another thread, or be the call in which a policy runs.
    """

    __module__ = "twinloop.engine"


class TwinloopWarning(UserWarning):
    """Base class of the warnings of Twinloop; a command prints each as one line."""


class InputError(TwinloopError, ValueError):
    """An input is invalid.

    Args:
        problem: What is wrong.
        kind: The name of the problem in the table of codes, `twinloop.description.codes`.
        file: The file with the problem.
        line: The line in this file.
        field: The field of a row, or the path of a value in a description.
        remedy: What to do.

    >>> error = InputError("'abc' is not a number", kind="invalid-value", file="log.swf", line=17,
    ...                    field="run time", remedy="write -1 where it is unknown")
    >>> print(error)
    log.swf:17: run time: 'abc' is not a number (write -1 where it is unknown) [TL0305]
    """

    __module__ = "twinloop"

    def __init__(
        self,
        problem: str,
        *,
        kind: str = "invalid-input",
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        remedy: str | None = None,
    ) -> None:
        # An error that quotes another one has only its own code.
        self.problem = _CODE.sub("", problem)
        self.kind = kind
        self.file = None if file is None else str(file)
        self.line = line
        self.field = field
        # A list of choices without a choice, such as "one of: ", is no remedy.
        self.remedy = None if remedy is not None and remedy.rstrip().endswith(":") else remedy
        super().__init__(self.problem)

    @property
    def code(self) -> str:
        """The code of the problem; `twinloop explain` describes it."""
        return CODES.get(self.kind, CODES["invalid-input"]).code

    def at(
        self,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
    ) -> InputError:
        """Return the same problem at a more exact position; parts that are None stay.

        >>> print(InputError("is empty", kind="empty-log").at(file="log.swf", line=3))
        log.swf:3: is empty [TL0306]
        """
        return InputError(
            self.problem,
            kind=self.kind,
            file=self.file if file is None else file,
            line=self.line if line is None else line,
            field=self.field if field is None else field,
            remedy=self.remedy,
        )

    def __str__(self) -> str:
        position = self.file or ""
        if self.line is not None:
            position = f"{position}:{self.line}" if position else f"line {self.line}"
        text = ": ".join(part for part in (position, self.field, self.problem) if part)
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{escape_name(text + remedy)} [{self.code}]"


class FormatError(InputError):
    """A file is in an unknown format, or not in the requested format."""

    __module__ = "twinloop.description"


class UnwritableError(InputError):
    """A file or a folder cannot be written: missing permission, or a full or read-only disk."""


class DamagedTraceError(InputError):
    """A trace folder is incomplete, or does not match its manifest."""

    __module__ = "twinloop.description"


def input_error_from_os_error(
    error: OSError | ValueError, file: str | Path | None = None
) -> InputError:
    """Convert an error of the operating system into an error that names the file.

    A name of more than 200 characters is shortened.

    >>> print(input_error_from_os_error(PermissionError(13, "Permission denied", "log.swf")))
    log.swf: cannot be read or written: Permission denied [TL0103]
    """
    # The second name of an error is the target of a renaming.
    names = (
        [getattr(error, name, None) for name in ("filename2", "filename")]
        if file is None
        else [file]
    )
    shown = next(
        (os.fsdecode(name) for name in names if isinstance(name, str | bytes | Path)), None
    )
    if shown is not None and len(shown) > 200:
        shown = f"{shown[:100]}...{shown[-60:]}"
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read or written: {reason}", kind="cannot-read", file=shown)
