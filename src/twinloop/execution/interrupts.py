"""Signals that request an end (Ctrl-C, SIGTERM, SIGHUP), as a file for an event loop."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress
from typing import Any

_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts requests to end while it is open, instead of raising an exception.

    The event loop can then handle them between two steps. Signals that were ignored before stay
    ignored, as `nohup` requires. Outside of the main thread no signal is handled.

    >>> import os
    >>> with Interrupts() as interrupts:
    ...     os.kill(os.getpid(), signal.SIGINT)
    ...     interrupts.count
    1
    """

    def __init__(self) -> None:
        #: Number of requests.
        self.count = 0
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._reader, self._writer = socket.socketpair()
        self._previous_wakeup_fd: int | None = None

    def fileno(self) -> int:
        """Return the descriptor of a file that is readable after a signal."""
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
            self._previous_wakeup_fd = signal.set_wakeup_fd(
                self._writer.fileno(), warn_on_full_buffer=False
            )
            for number in _END_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._previous_handlers[number] = signal.signal(number, self._count)
            # While SIGCHLD is ignored, a process receives no exit status of its children.
            if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
                self._previous_handlers[signal.SIGCHLD] = signal.signal(
                    signal.SIGCHLD, signal.SIG_DFL
                )
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)
        if self._previous_wakeup_fd is not None:
            signal.set_wakeup_fd(self._previous_wakeup_fd)
        self._reader.close()
        self._writer.close()

    def _count(self, number: int, frame: object) -> None:
        self.count += 1
