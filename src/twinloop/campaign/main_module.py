"""Worker processes that do not run the user's script again.

Python's `multiprocessing`, which Dask starts its workers with, runs the main script of the parent
in every child. A script without `if __name__ == "__main__"` would then start a cluster in each
worker of the cluster. What workers need of the script goes to them by value, so they need not run
it.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import ClassVar


class HiddenMain:
    """Hides the main script from child processes that are started, until it is closed.

    An empty module stands in its place in `sys.modules`, where `multiprocessing` looks for it. The
    script itself, its functions and its globals are left as they are.

    >>> import __main__
    >>> hidden = HiddenMain()
    >>> getattr(sys.modules["__main__"], "__file__", None) is None
    True
    >>> hidden.close()
    >>> sys.modules["__main__"] is __main__
    True
    """

    _lock: ClassVar = threading.Lock()
    _holders: ClassVar[int] = 0
    _script: ClassVar[ModuleType | None] = None

    def __init__(self) -> None:
        self._held = True
        with self._lock:
            kind = type(self)
            if not kind._holders:
                kind._script = sys.modules.get("__main__")
                sys.modules["__main__"] = ModuleType("__main__")
            kind._holders += 1

    def close(self) -> None:
        """Let it be seen again, once all that hide it are closed. Twice is no mistake."""
        with self._lock:
            kind = type(self)
            if not self._held:
                return
            self._held = False
            kind._holders -= 1
            if not kind._holders and kind._script is not None:
                sys.modules["__main__"] = kind._script
                kind._script = None
