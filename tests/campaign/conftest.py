"""What the tests of campaigns share: programs to run, and the law that nothing is left running."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

#: Long enough for a busy machine; nothing waits that long unless it is broken.
PATIENCE = 240.0


def until(happened: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Wait for something; whether it came."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def marked(mark: str) -> set[int]:
    """The living processes that have this text in their environment."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                is_dead = (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX"
                if not is_dead and mark.encode() in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    return found - {os.getpid()}


def end(mark: str) -> None:
    """Kill the processes with this text in their environment."""
    for pid in marked(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Script:
    """A Python program in a process of its own; all that descends from it is known by a mark."""

    def __init__(self, folder: Path, text: str) -> None:
        self.mark = f"TWINLOOP_TEST={folder}"
        self.file = folder / "script.py"
        self.file.write_text(text)
        self.process = subprocess.Popen(
            [sys.executable, self.file],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "TWINLOOP_TEST": str(folder)},
        )

    def said(self) -> tuple[str, str]:
        """Wait for its end; returns its output."""
        return self.process.communicate(timeout=PATIENCE)

    def others(self) -> set[int]:
        """Its descendants, apart from guards, whose environment is empty."""
        return marked(self.mark) - {self.process.pid}


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[[str], Script]]:
    started: list[Script] = []

    def start(text: str) -> Script:
        started.append(Script(tmp_path, text))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        try:
            assert until(lambda one=one: not one.others())
        finally:
            end(one.mark)
            one.process.communicate(timeout=PATIENCE)
