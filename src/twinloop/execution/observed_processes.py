"""What can be recorded although others started it: a tree of processes, or a control group."""

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
# As much as a page of kernel text; the files that are read have less.
_MOST = 16_384

#: How CPU seconds are read from a file of a group, by the name of the file.
_CPU: dict[str, Callable[[bytes], float]] = {
    "cpuacct.usage": lambda text: int(text) / 1e9,
    "cpu.stat": parse_cpu_seconds,
}


class ObservedTree:
    """A process, with all that it starts, until that process ends.

    >>> import os
    >>> with_all = ObservedTree(os.getpid())
    >>> with_all.task_columns()["pid"] == os.getpid()
    True
    >>> with_all.close()
    """

    is_accounted = False

    def __init__(self, pid: int) -> None:
        try:
            #: A file that can be read from when the process is over; those it started may go on.
            self.handle: int | None = os.pidfd_open(pid)
        except (OSError, OverflowError, ValueError):
            raise _no_process(pid) from None
        stat = ProcessStat.read(pid)
        if stat is None or stat.dead:
            self.close()
            raise _no_process(pid)
        self.pid: int | None = pid
        #: Its start, in ticks since the start of the machine.
        self.ticks = stat.start

    def read(self) -> tuple[float, float | None]:
        """No group counts for it: its processes have to be looked at."""
        raise ValueError("no group counts what these processes use")

    def peak(self) -> float | None:
        """Not known."""
        return None

    def task_columns(self) -> dict[str, Any]:
        """What the system says of the process; its environment is its own business."""
        place = Path(f"/proc/{self.pid}")
        name, words, user, folder = "", [], None, None
        with suppress(OSError):
            told = leftovers.read_words(int(place.name), "cmdline")
            words = [word.decode(errors="replace") for word in told[:-1]]
            # After its words: when these are there, the name is that of the new program too.
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
        """It is watched no longer."""
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None


class ObservedGroup:
    """A control group, until nobody is in it or in the groups below it.

    Args:
        name: Its folder, or its place below the top of the hierarchy.
        machine: Where to look.

    Raises:
        InputError: There is no such group, it does not count CPU time, or nobody is in it.

    >>> ObservedGroup("no such group")
    Traceback (most recent call last):
    twinloop.InputError: cgroup: there is no control group 'no such group' ...
    """

    is_accounted = True
    pid: int | None = None
    #: Nothing tells when it is over: it has to be asked.
    handle: int | None = None

    def __init__(self, name: str, machine: LocalMachine | None = None) -> None:
        self._name, folders = _folders(name, machine or LocalMachine.detect())
        meter = next(
            (
                (folder / file, understand)
                for folder in folders
                for file, understand in _CPU.items()
                if _understood(folder / file, understand)
            ),
            None,
        )
        if meter is None:
            raise InputError(
                "does not count CPU time",
                file=folders[0],
                field="cgroup",
                remedy="name a group of the hierarchy of cpuacct, or of version 2",
            )
        self._folder = meter[0].parent
        self._memory = next((at for at in folders if (at / "memory.stat").is_file()), None)
        starts = [stat.start for stat in map(ProcessStat.read, self._pids()) if stat is not None]
        if not starts:
            raise InputError("nobody is in this group", file=self._folder, field="cgroup")
        #: Start of the oldest of its processes.
        self.ticks = min(starts)
        self._understand = meter[1]
        self._usage = os.open(meter[0], os.O_RDONLY | os.O_CLOEXEC)
        self._left_out = 0.0

    def read(self) -> tuple[float, float | None]:
        """CPU seconds of all that were ever in it, and resident bytes of those in it now.

        None for the memory: unknown.
        """
        cpu = self._understand(os.pread(self._usage, _MOST, 0))
        return cpu - self._left_out, self._resident()

    def exclude_cpu_time(self, cpu: float) -> None:
        """Count so many CPU seconds less from now on."""
        self._left_out = cpu

    def peak(self) -> float | None:
        """The most memory that it ever had, its share of the page cache included."""
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            with suppress(OSError, ValueError):
                if self._memory is not None:
                    return float((self._memory / file).read_text())
        return None

    def is_empty(self) -> bool:
        """Whether nobody is in it any more."""
        return not self._pids()

    def task_columns(self) -> dict[str, Any]:
        """Its name."""
        return {"id": self._name, "name": self._name}

    def close(self) -> None:
        """It is watched no longer."""
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


#: What can be attached to.
Observed = ObservedTree | ObservedGroup


def _folders(name: str, machine: LocalMachine) -> tuple[str, list[Path]]:
    """The place of a group below the top, and its folder in every hierarchy that has it."""
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
            field="cgroup",
            remedy=f"groups are folders below {mounts}" if mounts else "this machine has none",
        )
    return str(place), folders


def _understood(file: Path, understand: Callable[[bytes], float]) -> bool:
    """Whether a file is there and says a CPU time."""
    try:
        understand(file.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _no_process(pid: int) -> InputError:
    return InputError(f"there is no process {pid}", field="pid", remedy="`ps -e` says who is there")


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
