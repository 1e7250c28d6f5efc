"""Hiding the main script from worker processes.

Python's `multiprocessing`, with which Dask starts its workers, runs the main script of the parent
in every child. A script without `if __name__ == "__main__"` would then start a cluster in each
worker of the cluster. Functions of the script are sent to workers by value, so that the workers
do not need the script.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import ClassVar


class HiddenMain:
    """Hides the main script from new child processes until it is closed.

    An empty module replaces it in `sys.modules`, where `multiprocessing` looks for it. The script,
    its functions and its globals are not changed.

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
            cls = type(self)
            if not cls._holders:
                cls._script = sys.modules.get("__main__")
                sys.modules["__main__"] = ModuleType("__main__")
            cls._holders += 1

    def close(self) -> None:
        """Restore the script when all objects that hide it are closed; may be repeated."""
        with self._lock:
            cls = type(self)
            if not self._held:
                return
            self._held = False
            cls._holders -= 1
            if not cls._holders and cls._script is not None:
                sys.modules["__main__"] = cls._script
                cls._script = None
