"""Which tests use real processes: all uses are noted, wherever in a test they happen.

A process is *real* to a test if the test depends on how the machine runs it: it is observed,
limited, timed, signalled, or talks to others. That is every process that Twinloop itself starts,
every command of Twinloop that executes or serves, every fork, and every signal to another process.
A child that a test starts only to read what it prints is not: a busy machine prints the same.
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
    """Notes every use of a real process in this interpreter, from `watch` on."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._owner = os.getpid()

    def watch(self) -> None:
        """Begin; there is no end, because an audit hook cannot be removed."""
        sys.addaudithook(self._heard)
        # Neither of these raises an audit event: the native spawner, and multiprocessing (Dask).
        from twinloop import _core

        _core.spawn = self._noted("twinloop._core.spawn", _core.spawn)  # type: ignore[attr-defined]
        if os.name == "posix":
            import multiprocessing.util

            multiprocessing.util.spawnv_passfds = self._noted(
                "multiprocessing", multiprocessing.util.spawnv_passfds
            )

    def _noted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*arguments: Any, **options: Any) -> Any:
            self.seen.append(name)
            return function(*arguments, **options)

        return noting

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
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


#: Of this interpreter; conftest.py asks it after each test.
STARTS = ProcessStarts()


def complain(seen: list[str], markers: set[str]) -> str | None:
    """What is wrong with a test that has these markers and used these processes, if anything."""
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
    """The command of Twinloop that these words call, if it executes something or serves."""
    if not isinstance(words, (list, tuple)):
        return None
    texts = [os.fsdecode(word) for word in words]
    for program, command in pairwise(texts):
        if Path(program).name == "twinloop" and command in EXECUTING:
            return command
    return None
