"""Errors of native operations that are not possible in the present state of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twinloop.description.errors import InputError


@contextmanager
def explain_refusals(subject: str, what: str) -> Iterator[None]:
    """Name the subject and the operation in the reason why that is not possible.

    >>> with explain_refusals("machine 'm1'", "cannot be restored"):
    ...     raise ValueError("its host is down")
    Traceback (most recent call last):
    twinloop.InputError: machine 'm1': cannot be restored: its host is down [TL0502]
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{what}: {error}", kind="invalid-operation", field=subject) from None
