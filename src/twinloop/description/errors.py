"""The errors that speak to a user: what is wrong, where, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

from twinloop.description.safe_text import escape_name


class TwinloopError(Exception):
    """The root of every error that Twinloop raises about its input."""

    #: Where users import it from, and what a traceback shows.
    __module__ = "twinloop"


class InUseError(TwinloopError, RuntimeError):
    """An object that one thread uses at a time is used a second time before the first use is over.

    The first use may be that of another thread, or the call in which a policy runs.
    """


class TwinloopWarning(UserWarning):
    """The root of every warning that Twinloop gives; a command prints it as one line."""


class InputError(TwinloopError, ValueError):
    """Something that was read cannot be used as it is.

    >>> error = InputError("'abc' is no number", file="log.swf", line=17, field="run time",
    ...                    remedy="write -1 where it is unknown")
    >>> print(error)
    log.swf:17: run time: 'abc' is no number (write -1 where it is unknown)
    """

    __module__ = "twinloop"

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.problem = problem
        self.file = None if file is None else str(file)
        self.line = line
        self.field = field
        self.remedy = remedy
        super().__init__(problem)

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place = f"{place}:{self.line}" if place else f"line {self.line}"
        text = ": ".join(part for part in (place, self.field, self.problem) if part)
        return escape_name(f"{text} ({self.remedy})" if self.remedy else text)


class FormatError(InputError):
    """A file is in no format that is known, or not in the one that was named."""

    __module__ = "twinloop.description"


class UnwritableError(InputError):
    """A file or a folder cannot be written: no rights, a disk that is full or read-only."""


class DamagedTraceError(InputError):
    """A trace folder is unfinished, or not what its manifest says."""

    __module__ = "twinloop.description"


def input_error_from_os_error(
    error: OSError | ValueError, file: str | Path | None = None
) -> InputError:
    """What the operating system says about a file, as an error that names it.

    >>> print(input_error_from_os_error(PermissionError(13, "Permission denied", "log.swf")))
    log.swf: cannot be read or written: Permission denied
    """
    names = (
        [getattr(error, name, None) for name in ("filename2", "filename")]
        if file is None
        else [file]
    )
    text = next((os.fsdecode(name) for name in names if isinstance(name, str | bytes | Path)), None)
    if text is not None and len(text) > 200:
        text = f"{text[:100]}...{text[-60:]}"
    said = getattr(error, "strerror", None) or str(error)
    return InputError(f"cannot be read or written: {said}", file=text)
