"""The guard process of a run, which removes what the run leaves if it is killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from twinloop.execution import leftovers


class Guard:
    """A process that outlives the run, kills its remaining processes, and removes its groups.

    It is in a session of its own: signals to the process group or the terminal of the run do not
    reach it.

    >>> from twinloop.execution.nodes import Guard, make_run_name
    >>> guard = Guard.start(make_run_name(), [])
    >>> guard.dismiss()
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def start(cls, run: str, groups: Iterable[str | Path]) -> Guard:
        """Start the guard of a run that has these groups."""
        command = [sys.executable, "-I", "-S", leftovers.__file__, run, *map(str, groups)]
        # The guard inherits the blocked signals, and unblocks them once it ignores them.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, leftovers.IGNORED_SIGNALS)
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                # If this process is a task of another run, the name of that run in the environment
                # would let the guard be killed with that run.
                env={},
                start_new_session=True,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return cls(process)

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._process.pid

    def dismiss(self) -> None:
        """End the guard, because the run has removed everything itself; may be repeated."""
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
