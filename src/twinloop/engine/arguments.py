"""Checks of the arguments of calls in a run, before anything is changed."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from twinloop.description.errors import InputError


def require_number(value: Any, field: str) -> float:
    """Return a number as a float; an InputError that names the field if it is none.

    >>> require_number(4, "cores")
    4.0
    >>> require_number("4 GB", "machine 'new': memory")
    Traceback (most recent call last):
    twinloop.InputError: machine 'new': memory: must be a number, not '4 GB' [TL0205]
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InputError(f"must be a number, not {value!r}", kind="wrong-type", field=field)
    return float(value)


def require_positive(value: Any, field: str, *, finite: bool = True) -> float:
    """Return a positive number as a float."""
    number = require_number(value, field)
    if not number > 0 or (finite and number == math.inf):
        raise InputError(
            f"must be positive{' and finite' if finite else ''}, not {number:g}",
            kind="out-of-range",
            field=field,
        )
    return number


def require_count(value: Any, field: str) -> int:
    """Return a positive whole number as an int.

    >>> require_count(2.5, "count")
    Traceback (most recent call last):
    twinloop.InputError: count: must be a whole number, not 2.5 [TL0205]
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise InputError(f"must be a whole number, not {value!r}", kind="wrong-type", field=field)
    if value < 1:
        raise InputError(f"must be positive, not {value}", kind="out-of-range", field=field)
    return int(value)


def require_name(value: Any, field: str) -> str:
    """Return a text that is not empty.

    >>> require_name("", "name")
    Traceback (most recent call last):
    twinloop.InputError: name: must not be empty [TL0205]
    """
    if not isinstance(value, str):
        raise InputError(f"must be a text, not {value!r}", kind="wrong-type", field=field)
    if not value:
        raise InputError("must not be empty", kind="wrong-type", field=field)
    return value
