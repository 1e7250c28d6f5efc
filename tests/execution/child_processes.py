"""Children for tests: programs that burn CPU time and say how much, and that never stay behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from twinloop.execution.process_trees import ProcessStat

TICK = 1 / os.sysconf("SC_CLK_TCK")
#: Long enough for a busy machine; a test that needs it all has failed.
PATIENCE = 240.0

#: Says its own CPU time on a line of its own when it has burnt it.
BURN = """
import os, sys, time
def burn(seconds):
    while time.process_time() < seconds:
        pass
def say(path):
    with open(path, "a") as stream:
        stream.write(f"{os.getpid()} {time.process_time()!r}\\n")
"""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts programs that lead sessions of their own; nothing of these outlives the test."""
    children: list[subprocess.Popen[bytes]] = []
    mark = f"{os.getpid()}-{time.time_ns()}"

    def started(*command: object, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("start_new_session", True)
        options["env"] = {**options.get("env", os.environ), "TEST_MARK": mark}
        child = subprocess.Popen([str(word) for word in command], **options)
        children.append(child)
        return child

    yield started
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for child in children:
        if child.returncode is None:
            child.kill()
            child.wait(PATIENCE)
    until(lambda: not marked(mark))


def marked(mark: str) -> list[int]:
    """The living processes with this mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TEST_MARK={mark}".encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found


def python(start: Start, code: str, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    return start(sys.executable, "-S", "-c", BURN + code, *arguments, **options)


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.005)


def waited(child: subprocess.Popen[bytes]) -> float:
    """Wait for a child; the CPU seconds of it and of all that it waited for."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def ended(pid: int) -> bool:
    stat = ProcessStat.read(pid)
    return stat is None or stat.dead
