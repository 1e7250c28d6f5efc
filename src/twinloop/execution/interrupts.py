"""Signals that request an end (Ctrl-C, SIGTERM, SIGHUP), as a file for an event loop."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress
from typing import Any

_WANTED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts requests to end while it is open, instead of raising an exception.

    So the event loop handles them between two steps, not within one. Signals that were ignored
    before stay ignored, as `nohup` requires. Outside of the main thread no signal is handled.

    >>> import os
    >>> with Interrupts() as interrupts:
    ...     os.kill(os.getpid(), signal.SIGINT)
    ...     interrupts.count
    1
    """

    def __init__(self) -> None:
        #: Number of requests.
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}
        self._reader, self._writer = socket.socketpair()
        self._wakeup_before: int | None = None

    def fileno(self) -> int:
        """Return the file that is readable after a signal."""
        return self._reader.fileno()

    def drain(self) -> None:
        """Empty the file; Python writes to it for every signal that it handles."""
        with suppress(BlockingIOError):
            while self._reader.recv(4096):
                pass

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for end in (self._reader, self._writer):
                end.setblocking(False)
            self._wakeup_before = signal.set_wakeup_fd(
                self._writer.fileno(), warn_on_full_buffer=False
            )
            for wanted in _WANTED:
                if signal.getsignal(wanted) is not signal.SIG_IGN:
                    self._before[wanted] = signal.signal(wanted, self._count)
            # While SIGCHLD is ignored, a process cannot wait for its children.
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        return self

    def __exit__(self, *_: object) -> None:
        for wanted, handler in self._before.items():
            signal.signal(wanted, handler)
        if self._wakeup_before is not None:
            signal.set_wakeup_fd(self._wakeup_before)
        self._reader.close()
        self._writer.close()

    def _count(self, number: int, frame: object) -> None:
        self.count += 1
