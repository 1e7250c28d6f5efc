"""Orphans of tasks as children of the process that executes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from twinloop._core import set_subreaper

_LOCK = threading.Lock()
#: What the process was before each run that is going on and wants orphans.
_before: list[bool] = []


@contextmanager
def adopt_orphans() -> Iterator[None]:
    """While it is open, orphans among all descendants become children of this process.

    That holds for a whole process, in which several runs may go on: the last one to end puts back
    what the first one found.

    >>> one, other = adopt_orphans(), adopt_orphans()
    >>> one.__enter__(), other.__enter__(), one.__exit__(None, None, None)
    (None, None, False)
    >>> set_subreaper(True), other.__exit__(None, None, None), set_subreaper(False)
    (True, False, False)
    """
    with _LOCK:
        _before.append(set_subreaper(True))
    try:
        yield
    finally:
        with _LOCK:
            first = _before.pop(0)
            if _before:
                _before[0] = first
            else:
                set_subreaper(first)
