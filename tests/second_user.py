"""A second user of this machine, to test the isolation of processes and files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.ordinary_user import OTHER

#: Time limit (s), long enough for a busy machine.
PATIENCE = 240.0

needs_root = pytest.mark.skipif(
    not (sys.platform == "linux" and hasattr(os, "geteuid") and os.geteuid() == 0),
    reason="only root on Linux can become a second user",
)

_BEGIN = """\
import json, os, sys
given = json.load(sys.stdin)
"""
_BECOME = f"""
os.setgroups([])
os.setgid({OTHER})
os.setuid({OTHER})
assert os.getuid() == os.geteuid() == {OTHER}
"""
_END = """
print(json.dumps(found))
"""


def as_second_user(program: str, given: Any, *, before: str = "") -> Any:
    """Run a program as another user.

    Args:
        program: Python code that uses the variable `given` and sets the variable `found`.
        given: Value of `given`, sent as JSON.
        before: Python code that runs before the user is changed, such as imports: the second user
            may not be able to read the files of the interpreter.
    """
    ran = subprocess.run(
        [sys.executable, "-c", _BEGIN + before + _BECOME + program + _END],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd="/",
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def family(pid: int) -> set[int]:
    """A process and its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found


def listening(pids: set[int]) -> set[tuple[str, int]]:
    """The addresses at which these processes listen: TCP, and Unix sockets by their inode."""
    held = set()
    for pid in pids:
        with suppress(OSError):
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    held.add(str(file.readlink()))
    found = set()
    for version in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{version}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in held:
                    host, _, port = fields[1].partition(":")
                    found.add((_host(host), int(port, 16)))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        # The flag of a socket that accepts connections (__SO_ACCEPTCON).
        if int(fields[3], 16) & 0x10000 and f"socket:[{fields[6]}]" in held:
            found.add((f"unix {fields[7] if len(fields) > 7 else ''}", int(fields[6])))
    return found


def _host(text: str) -> str:
    if len(text) == 8:
        return ".".join(str(byte) for byte in reversed(bytes.fromhex(text)))
    return text
