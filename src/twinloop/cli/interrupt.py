"""Ctrl-C that is deferred until Polars has returned.

Polars is written in Rust and calls back into Python, for example to build the type of a column. It
panics on a KeyboardInterrupt raised there, and the command would end with the traceback of a crash
instead of its own message on how to resume.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any, Final

_POLARS: Final = f"{os.sep}polars{os.sep}"


class DeferredInterrupt:
    """A handler of SIGINT that raises KeyboardInterrupt at once, or as soon as Polars returns.

    A trace function raises it then, before the caller of Polars goes on. A second Ctrl-C does not
    wait.

    >>> try:
    ...     DeferredInterrupt()(signal.SIGINT, None)
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    interrupted
    """

    def __init__(self) -> None:
        self._waits = False
        self._traced_by: Any = None

    def install(self) -> None:
        """Handle SIGINT, unless it is ignored, as under nohup."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt now, or when Polars returns."""
        caller = _caller_of_polars(frame)
        if self._waits or caller is None:
            self._raise_interrupt()
            return
        self._waits, self._traced_by = True, sys.gettrace()
        caller.f_trace, caller.f_trace_opcodes = self._in_caller, True
        sys.settrace(self._at_call)

    def _in_caller(self, frame: FrameType, event: str, argument: object) -> None:
        self._raise_interrupt()

    def _at_call(self, frame: FrameType, event: str, argument: object) -> None:
        if _caller_of_polars(frame) is None:
            self._raise_interrupt()

    def _raise_interrupt(self) -> None:
        if self._waits:
            self._waits = False
            sys.settrace(self._traced_by)
        raise KeyboardInterrupt


def _caller_of_polars(frame: FrameType | None) -> FrameType | None:
    """Find the frame that called Polars, if the frame was called by Polars."""
    found = None
    while frame is not None:
        if _POLARS in frame.f_code.co_filename:
            found = frame.f_back
        frame = frame.f_back
    return found
