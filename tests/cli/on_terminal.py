"""Run a command on a real terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

#: Time limit (s), long enough for a busy machine.
PATIENCE = 240.0


def run_on_terminal(*words: str, folder: Path) -> tuple[int, str]:
    """Run `twinloop` with these words in a folder; return its status and the text that it showed.

    The text is without control sequences.
    """
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "twinloop", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(slave)
    shown = b""
    until = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < until:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:  # it has ended
                    break
        status = child.wait(PATIENCE)
    finally:
        child.kill()
        child.wait()
        os.close(master)
    return status, re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace"))
