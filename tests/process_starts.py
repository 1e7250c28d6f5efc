"""Records of the tests that use real processes.

A process is *real* to a test if the test depends on how the machine runs it: it is observed,
limited, timed or signalled, or communicates with others. Real are all processes that Twinloop
starts, all commands of Twinloop that execute or serve, all forks, and all signals to other
processes. A child of which a test only reads the output is not real: its output does not depend on
the load of the machine.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGE = str(Path(__file__).resolve().parents[1] / "src" / "twinloop")
#: Commands that start processes, or wait for requests.
EXECUTING = {"execute", "record", "confirm", "loop", "view"}
FORKS = {"os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}


class ProcessStarts:
    """Records every use of a real process in this interpreter, after `watch`."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._owner = os.getpid()

    def watch(self) -> None:
        """Begin to record; an audit hook cannot be removed, so there is no end."""
        sys.addaudithook(self._handle_event)
        # The native spawner and multiprocessing (Dask) raise no audit event.
        from twinloop import _core

        _core.spawn = self._wrap("twinloop._core.spawn", _core.spawn)  # type: ignore[attr-defined]
        if os.name == "posix":
            import multiprocessing.util

            multiprocessing.util.spawnv_passfds = self._wrap(
                "multiprocessing", multiprocessing.util.spawnv_passfds
            )

    def _wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def record_and_call(*arguments: Any, **options: Any) -> Any:
            self.seen.append(name)
            return function(*arguments, **options)

        return record_and_call

    def _handle_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            if _called_by_package():
                self._note("a process that Twinloop starts")
            elif command := _executing_command(arguments[1]):
                self._note(f"twinloop {command}")
        elif event in FORKS:
            self._note(event)
        elif event == "os.kill" and arguments[1] != 0 and arguments[0] != os.getpid():
            self._note("a signal to another process")

    def _note(self, what: str) -> None:
        if os.getpid() == self._owner:
            self.seen.append(what)


#: The records of this interpreter; conftest.py checks them after each test.
STARTS = ProcessStarts()


def find_problem(seen: list[str], markers: set[str]) -> str | None:
    """Return the problem of a test with these markers that used these processes, if any."""
    if not seen or {"real", "browser"} & markers:
        return None
    return (
        f"uses real processes ({'; '.join(dict.fromkeys(seen))}) without the marker `real`, so "
        "other tests would run beside it: mark it `@pytest.mark.real`, or list the page or module "
        "in REAL_EXAMPLES of conftest.py"
    )


def _called_by_package() -> bool:
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _executing_command(words: Any) -> str | None:
    """The command of Twinloop in these arguments, if it executes or serves."""
    if not isinstance(words, (list, tuple)):
        return None
    texts = [os.fsdecode(word) for word in words]
    for program, command in pairwise(texts):
        if Path(program).name == "twinloop" and command in EXECUTING:
            return command
    return None
