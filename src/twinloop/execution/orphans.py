"""Adoption of orphans of tasks by the process that executes the run (child subreaper)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from twinloop._core import set_subreaper

_LOCK = threading.Lock()
#: The setting before each current run that adopts orphans, the oldest run first.
_previous_settings: list[bool] = []


@contextmanager
def adopt_orphans() -> Iterator[None]:
    """Make orphaned descendants children of this process while the block runs.

    The setting belongs to the whole process, which may execute several runs: the last run to end
    restores the setting before the first.

    >>> one, other = adopt_orphans(), adopt_orphans()
    >>> one.__enter__(), other.__enter__(), one.__exit__(None, None, None)
    (None, None, False)
    >>> set_subreaper(True), other.__exit__(None, None, None), set_subreaper(False)
    (True, False, False)
    """
    with _LOCK:
        _previous_settings.append(set_subreaper(True))
    try:
        yield
    finally:
        with _LOCK:
            first = _previous_settings.pop(0)
            if _previous_settings:
                _previous_settings[0] = first
            else:
                set_subreaper(first)
