"""Processes that were started elsewhere: a process tree or a control group to record."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinloop.description.errors import InputError
from twinloop.execution import leftovers
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.nodes.cgroup_tree import parse_cpu_seconds, parse_memory
from twinloop.execution.process_trees import ProcessStat

_PAGE = os.sysconf("SC_PAGE_SIZE")
# More than the size of the files that are read.
_MOST = 16_384

#: Parsers of the CPU time (s) in the files of a group, by the name of the file.
_CPU: dict[str, Callable[[bytes], float]] = {
    "cpuacct.usage": lambda text: int(text) / 1e9,
    "cpu.stat": parse_cpu_seconds,
}


class ObservedTree:
    """A process with its descendants, until that process ends.

    >>> import os
    >>> tree = ObservedTree(os.getpid())
    >>> tree.task_columns()["pid"] == os.getpid()
    True
    >>> tree.close()
    """

    is_accounted = False

    def __init__(self, pid: int) -> None:
        try:
            #: A pidfd, which is readable when the process has ended; descendants may still run.
            self.handle: int | None = os.pidfd_open(pid)
        except (OSError, OverflowError, ValueError):
            raise _no_process_error(pid) from None
        stat = ProcessStat.read(pid)
        if stat is None or stat.dead:
            self.close()
            raise _no_process_error(pid)
        self.pid: int | None = pid
        #: Start time in ticks since the start of the machine.
        self.ticks = stat.start

    def read(self) -> tuple[float, float | None]:
        """Raise a ValueError: without a group the usage is read from the processes."""
        raise ValueError("no control group accounts for these processes")

    def peak(self) -> float | None:
        """Return None: the peak is not known."""
        return None

    def task_columns(self) -> dict[str, Any]:
        """The columns of its task; the environment is not recorded."""
        place = Path(f"/proc/{self.pid}")
        name, words, user, folder = "", [], None, None
        with suppress(OSError):
            found = leftovers.read_words(int(place.name), "cmdline")
            words = [word.decode(errors="replace") for word in found[:-1]]
            # Read after the words, so that the name is that of the same program.
            name = (place / "comm").read_bytes().decode(errors="replace").rstrip("\n")
            user = _user(place.stat().st_uid)
            folder = str((place / "cwd").readlink())
        return {
            "id": f"{name or 'process'}-{self.pid}",
            "name": name or None,
            "user": user,
            "pid": self.pid,
            "command": words or None,
            "folder": folder,
        }

    def close(self) -> None:
        """Close the pidfd."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


class ObservedGroup:
    """A control group, until it and the groups below it have no process.

    Args:
        name: Its folder, or its path below the root of the hierarchy.
        machine: The machine with the hierarchies.

    Raises:
        InputError: There is no such group, it has no CPU accounting, or it has no process.

    >>> ObservedGroup("no such group")
    Traceback (most recent call last):
    twinloop.InputError: cgroup: there is no control group 'no such group' ...
    """

    is_accounted = True
    pid: int | None = None
    #: None: the end of a group is found by polling.
    handle: int | None = None

    def __init__(self, name: str, machine: LocalMachine | None = None) -> None:
        self._name, folders = _folders(name, machine or LocalMachine.detect())
        meter = next(
            (
                (folder / file, parse)
                for folder in folders
                for file, parse in _CPU.items()
                if _has_cpu_time(folder / file, parse)
            ),
            None,
        )
        if meter is None:
            raise InputError(
                "does not count CPU time",
                kind="no-such-process",
                file=folders[0],
                field="cgroup",
                remedy="name a group of the hierarchy of cpuacct, or of version 2",
            )
        self._folder = meter[0].parent
        self._memory = next((at for at in folders if (at / "memory.stat").is_file()), None)
        starts = [stat.start for stat in map(ProcessStat.read, self._pids()) if stat is not None]
        if not starts:
            raise InputError(
                "the group has no process",
                kind="no-such-process",
                file=self._folder,
                field="cgroup",
            )
        #: Start time of its oldest process, in ticks since the start of the machine.
        self.ticks = min(starts)
        self._parse = meter[1]
        self._usage = os.open(meter[0], os.O_RDONLY | os.O_CLOEXEC)
        self._excluded = 0.0

    def read(self) -> tuple[float, float | None]:
        """CPU time of all its processes, past and present (s), and resident memory now (bytes).

        The memory is None if it is unknown.
        """
        cpu = self._parse(os.pread(self._usage, _MOST, 0))
        return cpu - self._excluded, self._resident()

    def exclude_cpu_time(self, cpu: float) -> None:
        """Subtract so much CPU time (s) from every later reading."""
        self._excluded = cpu

    def peak(self) -> float | None:
        """The peak of its memory (bytes), including its share of the page cache."""
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            with suppress(OSError, ValueError):
                if self._memory is not None:
                    return float((self._memory / file).read_text())
        return None

    def is_empty(self) -> bool:
        """Whether it has no process."""
        return not self._pids()

    def task_columns(self) -> dict[str, Any]:
        """The columns of its task: the name of the group."""
        return {"id": self._name, "name": self._name}

    def close(self) -> None:
        """Close the file of its CPU time."""
        os.close(self._usage)

    def _pids(self) -> list[int]:
        found: list[int] = []
        for folder, _, _ in os.walk(self._folder):
            with suppress(OSError):
                found += map(int, Path(folder, "cgroup.procs").read_text().split())
        return found

    def _resident(self) -> float | None:
        if self._memory is not None:
            text = (self._memory / "memory.stat").read_bytes()
            one = parse_memory(text, b"total_rss", b"total_mapped_file")
            return parse_memory(text, b"anon", b"file_mapped") if one is None else one
        pages = sum(stat.rss for stat in map(ProcessStat.read, self._pids()) if stat)
        return float(pages * _PAGE) if pages else None


#: Sources that `attach` can record.
Observed = ObservedTree | ObservedGroup


def _folders(name: str, machine: LocalMachine) -> tuple[str, list[Path]]:
    """Find the path of a group below the root, and its folder in every hierarchy that has it."""
    given = Path(os.path.normpath(name))
    place = given.relative_to("/") if given.is_absolute() else given
    for hierarchy in sorted(machine.hierarchies, key=lambda one: -len(one.mount.parts)):
        if given.is_relative_to(hierarchy.mount):
            place = given.relative_to(hierarchy.mount)
            break
    folders = [one.mount / place for one in machine.hierarchies if (one.mount / place).is_dir()]
    if not folders or ".." in place.parts:
        mounts = ", ".join(str(hierarchy.mount) for hierarchy in machine.hierarchies)
        raise InputError(
            f"there is no control group {name!r}",
            kind="no-such-process",
            field="cgroup",
            remedy=f"groups are folders below {mounts}" if mounts else "this machine has none",
        )
    return str(place), folders


def _has_cpu_time(file: Path, parse: Callable[[bytes], float]) -> bool:
    """Whether a file exists and has a CPU time."""
    try:
        parse(file.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _no_process_error(pid: int) -> InputError:
    return InputError(
        f"there is no process {pid}",
        kind="no-such-process",
        field="pid",
        remedy="`ps -e` lists processes",
    )


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
