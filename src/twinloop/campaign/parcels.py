"""Functions and items as bytes: what has a module by its name, everything else by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle


def by_value(thing: Any) -> bytes:
    """Anything as bytes that `pickle.loads` reads; what was defined at the prompt goes along.

    >>> import pickle
    >>> pickle.loads(by_value(lambda x: x + 1))(2)
    3
    """
    found: bytes = cloudpickle.dumps(thing, 5)
    return found


def shipped(function: Callable[[Any], Any]) -> bytes:
    """A function as bytes, with all it holds; InputError where that cannot be.

    >>> import threading
    >>> shipped(threading.Lock().acquire)
    Traceback (most recent call last):
    twinloop.trace.errors.InputError: acquire cannot be sent to a worker: ...
    """
    try:
        return by_value(function)
    except Exception as error:
        from twinloop.trace.errors import InputError

        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(
            f"{name} cannot be sent to a worker: {type(error).__name__}: {error}",
            remedy="open files, locks and connections inside of it, or run it on threads",
        ) from None
