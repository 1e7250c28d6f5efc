"""Ctrl-C and requests to end, as something that a loop can wait for."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress
from typing import Any

_WANTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While it is open, requests to end are counted instead of being obeyed at once.

    So nothing is cut in two: the loop sees them at a place where it knows what there is. What was
    ignored before stays so, as `nohup` wants it. Outside of the main thread nothing is caught.

    >>> import os
    >>> with Interrupts() as interrupts:
    ...     os.kill(os.getpid(), signal.SIGINT)
    ...     interrupts.count
    1
    """

    def __init__(self) -> None:
        #: How many there were.
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}
        self._seen, self._told = socket.socketpair()
        self._woken: int | None = None

    def fileno(self) -> int:
        """A file that can be read from when there was one."""
        return self._seen.fileno()

    def drain(self) -> None:
        """Take note of what can be read; any signal that Python handles is told of there."""
        with suppress(BlockingIOError):
            while self._seen.recv(4096):
                pass

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for end in (self._seen, self._told):
                end.setblocking(False)
            self._woken = signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
            for wanted in _WANTED:
                if signal.getsignal(wanted) is not signal.SIG_IGN:
                    self._before[wanted] = signal.signal(wanted, self._count)
            # Where it is ignored, nobody can wait for a child.
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, *_: object) -> None:
        for wanted, handler in self._before.items():
            signal.signal(wanted, handler)
        if self._woken is not None:
            signal.set_wakeup_fd(self._woken)
        self._seen.close()
        self._told.close()

    def _count(self, number: int, frame: object) -> None:
        self.count += 1
