"""Fields of descriptions that are objects in memory, which a file cannot contain."""

from __future__ import annotations

from types import UnionType
from typing import Any

from twinloop.description.errors import InputError
from twinloop.description.quantities import quote_value


def check_object(value: Any, kind: type | UnionType, what: str) -> Any:
    """Return the value if it is an object in memory or None; otherwise raise an error.

    A text is the summary that a file or manifest contains in place of an object.

    >>> check_object("Trace of 3 tasks", list, "a list")
    Traceback (most recent call last):
    twinloop.InputError: was an object in memory (Trace of 3 tasks), which a file cannot contain
        (give the object, or the path of a file) [TL0219]
    """
    if value is None or isinstance(value, kind):
        return value
    if isinstance(value, str):
        raise InputError(
            f"was an object in memory ({value}), which a file cannot contain",
            kind="not-stored",
            remedy="give the object, or the path of a file",
        )
    raise InputError(f"must be {what}, not {quote_value(value)}", kind="wrong-type")
