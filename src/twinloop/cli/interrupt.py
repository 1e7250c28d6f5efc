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

_POLARS_FOLDER: Final = f"{os.sep}polars{os.sep}"


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
        self._is_pending = False
        self._previous_trace: Any = None

    def install(self) -> None:
        """Handle SIGINT, unless it is ignored (as under nohup) or has another handler."""
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt now, or when Polars returns."""
        caller = _find_caller_of_polars(frame)
        if self._is_pending or caller is None:
            self._raise_interrupt()
            return
        self._is_pending, self._previous_trace = True, sys.gettrace()
        caller.f_trace, caller.f_trace_opcodes = self._trace_caller, True
        sys.settrace(self._trace_call)

    def _trace_caller(self, frame: FrameType, event: str, argument: object) -> None:
        self._raise_interrupt()

    def _trace_call(self, frame: FrameType, event: str, argument: object) -> None:
        if _find_caller_of_polars(frame) is None:
            self._raise_interrupt()

    def _raise_interrupt(self) -> None:
        if self._is_pending:
            self._is_pending = False
            sys.settrace(self._previous_trace)
        raise KeyboardInterrupt


def _find_caller_of_polars(frame: FrameType | None) -> FrameType | None:
    """Return the outermost frame that called Polars; None if no function of Polars is running."""
    caller = None
    while frame is not None:
        if _POLARS_FOLDER in frame.f_code.co_filename:
            caller = frame.f_back
        frame = frame.f_back
    return caller
