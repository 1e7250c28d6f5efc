"""Run a command on a real terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

#: Time limit (s), long enough for a busy machine.
PATIENCE = 240.0


class Shown(NamedTuple):
    """An ended command: the ID of its process, its status, and its text."""

    process: int
    status: int
    #: Without control sequences.
    text: str


def run_on_terminal(*words: str, folder: Path, watch: Callable[[str], None] | None = None) -> Shown:
    """Run `twinloop` with these words in a folder; `watch` is called with the text so far."""
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "twinloop", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        start_new_session=True,
    )
    os.close(slave)
    shown, text = b"", ""
    until = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < until:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:  # it has ended
                    break
                text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
                if watch is not None:
                    watch(text)
        status = child.wait(PATIENCE)
    finally:
        child.kill()
        child.wait()
        os.close(master)
    return Shown(child.pid, status, text)
