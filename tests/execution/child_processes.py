"""Child processes for tests: programs that use and report CPU time, and end with the test."""

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
#: Time limit (s), long enough for a busy machine.
PATIENCE = 240.0

#: Functions that use CPU time, and write the PID and the CPU time to a file.
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
    """Start programs in separate sessions; all their processes end with the test."""
    children: list[subprocess.Popen[bytes]] = []
    mark = f"{os.getpid()}-{time.time_ns()}"

    def started(*command: object, **options: Any) -> subprocess.Popen[bytes]:
        options.setdefault("start_new_session", True)
        options["env"] = {**options.get("env", os.environ), "TEST_MARK": mark}
        child = subprocess.Popen([str(word) for word in command], **options)
        children.append(child)
        return child

    yield started
    for pid in find_marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for child in children:
        if child.returncode is None:
            child.kill()
            child.wait(PATIENCE)
    until(lambda: not find_marked(mark))


def find_marked(mark: str) -> list[int]:
    """List the running processes with this mark in their environment."""
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
        assert time.monotonic() < end, "the condition was not met in time"
        time.sleep(0.005)


def waited(child: subprocess.Popen[bytes]) -> float:
    """Wait for a child; return the CPU seconds of it and of the children that it waited for."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def ended(pid: int) -> bool:
    stat = ProcessStat.read(pid)
    return stat is None or stat.dead
