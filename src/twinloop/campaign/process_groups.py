"""Programs that run as a black box: one process and its descendants, ended together.

No process of a program outlives its call or this process. At the end of the call its process group
is killed, and at the time limit also descendants that have left the group. If this process is
killed, a guard process ends the rest, as it does for real runs.
"""

from __future__ import annotations

import atexit
import errno
import itertools
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final, Self

#: Longest wait for processes that were killed (s).
_PATIENCE: Final = 10.0

_LOCK = threading.Lock()
_GUARDING = threading.Lock()
_CALLS = itertools.count(1)
#: Running programs, by the thread that waits for each.
_running: dict[int, ProcessGroup] = {}
#: Names of the runs of this process; each has a guard until the process ends.
run_names: set[str] = set()
#: Threads that may not start programs any more.
_refused: set[int] = set()


class ProcessGroup:
    """A running program and its descendants.

    Its output goes to files: a pipe would stay open as long as a descendant has it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     folder = Path(there)
    ...     out, err = folder / "out", folder / "err"
    ...     with ProcessGroup.start(["echo", "7"], {}, folder, out, err) as box:
    ...         code = box.wait(10.0)
    ...     code, (folder / "out").read_text()
    (0, '7\\n')
    """

    def __init__(self, process: subprocess.Popen[bytes], run: str, call: str) -> None:
        self._process = process
        self._run = run
        self._call = call
        self._handle = os.pidfd_open(process.pid)

    @classmethod
    def start(
        cls,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        out: Path,
        err: Path,
    ) -> Self:
        """Start a program in a folder; an OSError if it cannot be started."""
        with _GUARDING:  # one guard, although many threads may start programs at once
            run = _start_guard(os.getpid())
        call = f"box-{next(_CALLS)}"
        marks = {"TWINLOOP_RUN": run, "TWINLOOP_TASK": call}
        thread = threading.get_ident()
        with out.open("wb") as stdout, err.open("wb") as stderr, _LOCK:
            if thread in _refused:
                raise InterruptedError("the campaign is over")
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env={**os.environ, **environment, **marks},
                start_new_session=True,
            )
            try:
                box = _running[thread] = cls(process, run, call)
            except OSError as error:
                # Without a pidfd its end cannot be waited for, nor can it be killed safely.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                why = f"its process cannot be watched (pidfd_open): {error.strerror}"
                raise OSError(error.errno, why) from None
        return box

    def wait(self, seconds: float | None) -> int | None:
        """Return the exit code, negative for a signal; None if it was ended at the time limit."""
        if not self._is_over(seconds):
            self.end()
            return None
        with _LOCK:
            # Until it is reaped, its process ID is not used again.
            self._end_group()
            return self._process.wait()

    def _is_over(self, seconds: float | None) -> bool:
        """Wait for its end, at most so many seconds."""
        watch = select.poll()
        watch.register(self._handle, select.POLLIN)
        until = None if seconds is None else time.monotonic() + seconds
        while not watch.poll(_step(until)):
            if until is not None and time.monotonic() >= until:
                return False
        return True

    def end(self) -> None:
        """Kill the program and its descendants."""
        from twinloop.execution.process_trees import ProcessTrees

        if self._process.returncode is not None:
            return
        trees: ProcessTrees[str] = ProcessTrees(self._run)
        trees.add(self._call, self._process.pid, (self._call, None))
        trees.scan()
        self._end_group()
        until = time.monotonic() + _PATIENCE
        while trees.kill(self._call, signal.SIGKILL) and time.monotonic() < until:
            time.sleep(0.002)
        trees.forget(self._call)

    def _end_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            _running.pop(threading.get_ident(), None)
        if self._process.returncode is None:
            self.end()
            self._process.wait()
        os.close(self._handle)


def explain_unsupported() -> str | None:
    """Explain why this system cannot run programs as black boxes; None if it can.

    >>> explain_unsupported() is None
    True
    """
    if not sys.platform.startswith("linux"):
        return "runs on Linux only"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return "needs pidfd_open, so Linux 5.3 or later"
    return None


def _step(until: float | None) -> float:
    """Milliseconds of one call of `poll`, which accepts no more than about 24 days."""
    return 1e6 if until is None else min(1e6, max(1.0, 1000.0 * (until - time.monotonic())))


@contextmanager
def refuse_starts(threads: Collection[int]) -> Iterator[None]:
    """End the programs of these threads, and refuse to start others while the block runs.

    >>> with refuse_starts([threading.get_ident()]):
    ...     ProcessGroup.start(["true"], {}, Path(), Path(os.devnull), Path(os.devnull))
    Traceback (most recent call last):
    InterruptedError: the campaign is over
    """
    stopped = set(threads)
    with _LOCK:
        _refused.update(stopped)
        for thread in stopped & _running.keys():
            _running[thread].end()
    try:
        yield
    finally:
        with _LOCK:
            _refused.difference_update(stopped)


@cache
def _start_guard(process: int) -> str:
    """Start the guard of this process; returns the name of the run that marks its programs."""
    from twinloop.execution.leftovers import find_run_processes, kill_processes
    from twinloop.execution.nodes import Guard, make_run_name

    run = make_run_name()
    guard = Guard.start(run, [])
    run_names.add(run)

    def leave() -> None:
        if os.getpid() == process:
            kill_processes(lambda: find_run_processes(run))
            guard.dismiss()

    atexit.register(leave)
    return run
