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

#: Maximum time to wait for processes that were killed (s).
_KILL_TIMEOUT: Final = 10.0

#: Protects `_running` and `_refused`.
_LOCK = threading.Lock()
_GUARD_LOCK = threading.Lock()
_CALL_NUMBERS = itertools.count(1)
#: Running programs, by the ID of the thread that waits for each.
_running: dict[int, ProcessGroup] = {}
#: Names of the runs of this process; each has a guard until the process ends.
run_names: set[str] = set()
#: IDs of the threads that may not start programs any more.
_refused: set[int] = set()


class ProcessGroup:
    """A running program and its descendants.

    Its output goes to files: a pipe would stay open as long as a descendant has it open.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
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
        self._pidfd = os.pidfd_open(process.pid)

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
        with _GUARD_LOCK:  # one guard, although many threads may start programs at once
            run = _start_guard(os.getpid())
        call = f"box-{next(_CALL_NUMBERS)}"
        labels = {"TWINLOOP_RUN": run, "TWINLOOP_TASK": call}
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
                env={**os.environ, **environment, **labels},
                start_new_session=True,
            )
            try:
                box = _running[thread] = cls(process, run, call)
            except OSError as error:
                # Without a pidfd, its end cannot be awaited, and it cannot be killed safely.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                why = f"its process cannot be watched (pidfd_open): {error.strerror}"
                raise OSError(error.errno, why) from None
        return box

    def wait(self, seconds: float | None) -> int | None:
        """Wait for the end of the program, and kill it at the time limit.

        Returns the exit code, negative for a signal; None if the time limit was reached.
        """
        if not self._wait_for_end(seconds):
            self.end()
            return None
        with _LOCK:
            # Before the program is reaped: until then its process ID cannot be used again.
            self._kill_group()
            return self._process.wait()

    def _wait_for_end(self, seconds: float | None) -> bool:
        """Wait for the end of the program, at most so many seconds; returns whether it ended."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        deadline = None if seconds is None else time.monotonic() + seconds
        while not poll.poll(_poll_timeout(deadline)):
            if deadline is not None and time.monotonic() >= deadline:
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
        self._kill_group()
        deadline = time.monotonic() + _KILL_TIMEOUT
        while trees.kill(self._call, signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.002)
        trees.forget(self._call)

    def _kill_group(self) -> None:
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
        os.close(self._pidfd)


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


def _poll_timeout(deadline: float | None) -> float:
    """Return the timeout of one call of `poll` (ms), which accepts no more than about 24 days."""
    return 1e6 if deadline is None else min(1e6, max(1.0, 1000.0 * (deadline - time.monotonic())))


@contextmanager
def refuse_starts(threads: Collection[int]) -> Iterator[None]:
    """End the programs of these threads, and refuse to start others while the block runs.

    >>> with refuse_starts([threading.get_ident()]):
    ...     ProcessGroup.start(["true"], {}, Path(), Path(os.devnull), Path(os.devnull))
    Traceback (most recent call last):
    InterruptedError: the campaign is over
    """
    refused = set(threads)
    with _LOCK:
        _refused.update(refused)
        for thread in refused & _running.keys():
            _running[thread].end()
    try:
        yield
    finally:
        with _LOCK:
            _refused.difference_update(refused)


@cache
def _start_guard(process: int) -> str:
    """Start the guard of a process, once; returns the run name by which it finds its programs.

    The process ID is an argument because the result is cached: a fork needs a guard of its own.
    """
    from twinloop.execution.leftovers import find_run_processes, kill_processes
    from twinloop.execution.nodes import Guard, make_run_name

    run = make_run_name()
    guard = Guard.start(run, [])
    run_names.add(run)

    def clean_up() -> None:
        if os.getpid() == process:  # not in a fork of this process
            kill_processes(lambda: find_run_processes(run))
            guard.dismiss()

    atexit.register(clean_up)
    return run
