"""A guard for a run: a process that ends what the run leaves behind when it is killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from twinloop.execution import leftovers


class Guard:
    """A process that outlives the run, ends what it left, and removes its groups.

    It is in a session of its own: what ends the run by its process group or its terminal does not
    reach it.

    >>> from twinloop.execution.nodes import Guard, make_run_name
    >>> keeper = Guard.start(make_run_name(), [])
    >>> keeper.dismiss()
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls, run: str, groups: Iterable[str | Path]) -> Guard:
        """Start the guard of a run that has these groups."""
        command = [sys.executable, "-I", "-S", leftovers.__file__, run, *map(str, groups)]
        # It inherits what is blocked, and so hears no signal before it has learnt to ignore it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, leftovers.IGNORED)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # With the name of a run around this one it would be ended together with that,
                # before it had done its work.
                env={},
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return cls(process)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def dismiss(self) -> None:
        """Let it go: the run has removed everything itself. Twice is no mistake."""
        pipe = self._process.stdin
        if pipe is None or pipe.closed:
            return
        with contextlib.suppress(OSError):
            pipe.write(b"q")
            pipe.flush()
        with contextlib.suppress(OSError):
            pipe.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
