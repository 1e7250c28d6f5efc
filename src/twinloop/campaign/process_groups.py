"""Programs that are run for a result: one process and all that it starts, ended together.

Nothing of a program outlives the call that it was started for, nor this process. At the end of the
call its process group is ended; at the time limit also those that have left the group. A guard, as
runs for real have one, sees to what is left if this process is killed.
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

#: How long processes that were killed are waited for (s).
_PATIENCE: Final = 10.0

_LOCK = threading.Lock()
_GUARDING = threading.Lock()
_CALLS = itertools.count(1)
#: What runs in this process, by the thread that waits for it.
_running: dict[int, ProcessGroup] = {}
#: The names under which this process runs programs; a guard has one as long as the process lives.
run_names: set[str] = set()
#: Threads that may start nothing more.
_refused: set[int] = set()


class ProcessGroup:
    """One program while it runs, and all that it starts.

    What it prints goes to files: nobody who inherits them can keep this process waiting.

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
        """Start a program in a folder; OSError where that cannot be."""
        with _GUARDING:  # or each of many threads would find none, and start its own
            run = _guarded(os.getpid())
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
                # Nobody could see its end, nor end it without harm to a stranger.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                why = f"its process cannot be watched (pidfd_open): {error.strerror}"
                raise OSError(error.errno, why) from None
        return box

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code, negative for a signal; None if it was ended at the time limit."""
        if not self._is_over(seconds):
            self.end()
            return None
        with _LOCK:
            # It has not been waited for yet, so nobody else can have come to its number.
            self._end_group()
            return self._process.wait()

    def _is_over(self, seconds: float | None) -> bool:
        """Wait for its end, that long at most."""
        watch = select.poll()
        watch.register(self._handle, select.POLLIN)
        until = None if seconds is None else time.monotonic() + seconds
        while not watch.poll(_step(until)):
            if until is not None and time.monotonic() >= until:
                return False
        return True

    def end(self) -> None:
        """End it, and whatever it has started."""
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
    """Why no program can be run so on this system; None if it can.

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
    """Milliseconds to wait at a time: the system counts no more than about 24 days of them."""
    return 1e6 if until is None else min(1e6, max(1.0, 1000.0 * (until - time.monotonic())))


@contextmanager
def refuse_starts(threads: Collection[int]) -> Iterator[None]:
    """End what these threads run, and let them start nothing more while this is open.

    >>> with refuse_starts([threading.get_ident()]):
    ...     ProcessGroup.start(["true"], {}, Path(), Path(os.devnull), Path(os.devnull))
    Traceback (most recent call last):
    InterruptedError: the campaign is over
    """
    mine = set(threads)
    with _LOCK:
        _refused.update(mine)
        for thread in mine & _running.keys():
            _running[thread].end()
    try:
        yield
    finally:
        with _LOCK:
            _refused.difference_update(mine)


@cache
def _guarded(process: int) -> str:
    """The name under which this process runs programs; its guard knows them by it."""
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
