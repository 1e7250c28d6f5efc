"""Children for tests: programs that burn CPU time and say how much, and that never stay behind."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from twinloop.execute.processes import Stat

TICK = 1 / os.sysconf("SC_CLK_TCK")
#: Long enough for a busy machine; a test that needs it all has failed.
PATIENCE = 60.0

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
    """Starts programs that lead sessions of their own; none of these outlives the test."""
    children: list[subprocess.Popen[bytes]] = []

    def started(*command: object, **options: object) -> subprocess.Popen[bytes]:
        options.setdefault("start_new_session", True)
        child = subprocess.Popen([str(word) for word in command], **options)  # type: ignore[call-overload]
        children.append(child)
        return child

    yield started
    for child in children:
        if child.returncode is None:
            child.kill()
            child.wait(PATIENCE)


def python(
    start: Start, code: str, *arguments: object, **options: object
) -> subprocess.Popen[bytes]:
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
    stat = Stat.of(pid)
    return stat is None or stat.dead
