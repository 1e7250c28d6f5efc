"""Serialisation of functions and items: by name where a module defines them, else by value."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle

#: Protects the registry of cloudpickle, which is shared by all threads of the process.
_lock = threading.RLock()


def serialise(thing: Any, *, include_user_modules: bool = False) -> bytes:
    """Serialise an object for `pickle.loads`; objects of `__main__` are included by value.

    Args:
        thing: The object.
        include_user_modules: Whether objects of the user's own modules are included by value too,
            if possible, for a reader that may lack these modules.

    >>> import pickle
    >>> pickle.loads(serialise(lambda x: x + 1))(2)
    3
    """
    content: bytes
    if include_user_modules:
        try:
            with _by_value_modules():
                content = cloudpickle.dumps(thing, 5)
            return content
        except Exception:  # a global of a module cannot be serialised by value
            pass
    content = cloudpickle.dumps(thing, 5)
    return content


@contextmanager
def _by_value_modules() -> Iterator[None]:
    """Serialise the objects of the user's own modules by value while the block runs."""
    from twinloop.policy.code_identity import is_user_module

    with _lock:
        before = set(cloudpickle.list_registry_pickle_by_value())
        chosen = [
            module
            for name, module in list(sys.modules.items())
            if name not in ("__main__", *before)
            and getattr(module, "__name__", None) == name
            and getattr(module, "__file__", None) is not None
            and is_user_module(name)
        ]
        try:
            for module in chosen:
                cloudpickle.register_pickle_by_value(module)
            yield
        finally:
            for name in set(cloudpickle.list_registry_pickle_by_value()) - before:
                cloudpickle.unregister_pickle_by_value(sys.modules[name])


def serialise_function(
    function: Callable[[Any], Any], *, include_user_modules: bool = False
) -> bytes:
    """Serialise a function with the objects that it refers to; an InputError if that fails.

    >>> import threading
    >>> serialise_function(threading.Lock().acquire)
    Traceback (most recent call last):
    twinloop.InputError: acquire cannot be sent to a worker: ...
    """
    try:
        return serialise(function, include_user_modules=include_user_modules)
    except Exception as error:
        from twinloop.description.errors import InputError

        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(
            f"{name} cannot be sent to a worker: {type(error).__name__}: {error}",
            kind="not-serialisable",
            remedy="open files, locks and connections inside the function, or run it on threads",
        ) from None
