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

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
# More than the size of the files that are read (bytes).
_MAX_FILE_SIZE = 16_384

#: Parsers of the CPU time (s) in the files of a group, by the name of the file.
_CPU_TIME_PARSERS: dict[str, Callable[[bytes], float]] = {
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
            self.pidfd: int | None = os.pidfd_open(pid)
        except (OSError, OverflowError, ValueError):
            raise _make_no_process_error(pid) from None
        stat = ProcessStat.read(pid)
        if stat is None or stat.dead:
            self.close()
            raise _make_no_process_error(pid)
        self.pid: int | None = pid
        #: Start time in ticks since boot.
        self.start_ticks = stat.start

    def read(self) -> tuple[float, float | None]:
        """Raise a ValueError, because without a group the usage is read from the processes."""
        raise ValueError("no control group accounts for these processes")

    def peak(self) -> float | None:
        """Return None, because the peak is unknown."""
        return None

    def task_columns(self) -> dict[str, Any]:
        """Return the columns of its task; the environment is not recorded."""
        process_folder = Path(f"/proc/{self.pid}")
        name, words, user, folder = "", [], None, None
        with suppress(OSError):
            cmdline = leftovers.read_words(int(process_folder.name), "cmdline")
            words = [word.decode(errors="replace") for word in cmdline[:-1]]
            # Read after cmdline, which waits until an exec is over, so that both are of the same
            # program.
            name = (process_folder / "comm").read_bytes().decode(errors="replace").rstrip("\n")
            user = _find_user_name(process_folder.stat().st_uid)
            folder = str((process_folder / "cwd").readlink())
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
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


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
    #: None, because the end of a group is found by polling.
    pidfd: int | None = None

    def __init__(self, name: str, machine: LocalMachine | None = None) -> None:
        self._name, folders = _find_group_folders(name, machine or LocalMachine.detect())
        cpu_file_and_parser = next(
            (
                (folder / file, parse)
                for folder in folders
                for file, parse in _CPU_TIME_PARSERS.items()
                if _has_cpu_time(folder / file, parse)
            ),
            None,
        )
        if cpu_file_and_parser is None:
            raise InputError(
                "has no CPU accounting",
                kind="no-such-process",
                file=folders[0],
                field="cgroup",
                remedy="name a group of the cpuacct hierarchy (cgroup v1) or of cgroup v2",
            )
        self._folder = cpu_file_and_parser[0].parent
        self._memory_folder = next(
            (folder for folder in folders if (folder / "memory.stat").is_file()), None
        )
        starts = [
            stat.start for stat in map(ProcessStat.read, self._list_pids()) if stat is not None
        ]
        if not starts:
            raise InputError(
                "the group has no process",
                kind="no-such-process",
                file=self._folder,
                field="cgroup",
            )
        #: Start time of its oldest process, in ticks since boot.
        self.start_ticks = min(starts)
        self._parse_cpu_time = cpu_file_and_parser[1]
        self._cpu_file = os.open(cpu_file_and_parser[0], os.O_RDONLY | os.O_CLOEXEC)
        self._excluded = 0.0

    def read(self) -> tuple[float, float | None]:
        """Return the CPU time of all its processes, past and present (s), and its memory (bytes).

        The memory is the resident memory now; None if it is unknown.
        """
        cpu = self._parse_cpu_time(os.pread(self._cpu_file, _MAX_FILE_SIZE, 0))
        return cpu - self._excluded, self._read_resident_memory()

    def exclude_cpu_time(self, cpu: float) -> None:
        """Subtract this CPU time (s) from every later reading."""
        self._excluded = cpu

    def peak(self) -> float | None:
        """Return the peak of its memory (bytes), including its share of the page cache.

        None if it is unknown.
        """
        for file in ("memory.peak", "memory.max_usage_in_bytes"):
            with suppress(OSError, ValueError):
                if self._memory_folder is not None:
                    return float((self._memory_folder / file).read_text())
        return None

    def is_empty(self) -> bool:
        """Whether it has no process."""
        return not self._list_pids()

    def task_columns(self) -> dict[str, Any]:
        """Return the columns of its task: the name of the group."""
        return {"id": self._name, "name": self._name}

    def close(self) -> None:
        """Close the file of its CPU time."""
        os.close(self._cpu_file)

    def _list_pids(self) -> list[int]:
        pids: list[int] = []
        for folder, _, _ in os.walk(self._folder):
            with suppress(OSError):
                pids += map(int, Path(folder, "cgroup.procs").read_text().split())
        return pids

    def _read_resident_memory(self) -> float | None:
        if self._memory_folder is not None:
            text = (self._memory_folder / "memory.stat").read_bytes()
            resident = parse_memory(text, b"total_rss", b"total_mapped_file")
            return parse_memory(text, b"anon", b"file_mapped") if resident is None else resident
        pages = sum(stat.rss for stat in map(ProcessStat.read, self._list_pids()) if stat)
        return float(pages * _PAGE_SIZE) if pages else None


#: Sources that `attach` can record.
Observed = ObservedTree | ObservedGroup


def _find_group_folders(name: str, machine: LocalMachine) -> tuple[str, list[Path]]:
    """Find the path of a group below the root, and its folder in every hierarchy that has it."""
    path = Path(os.path.normpath(name))
    relative_path = path.relative_to("/") if path.is_absolute() else path
    for hierarchy in sorted(machine.hierarchies, key=lambda hierarchy: -len(hierarchy.mount.parts)):
        if path.is_relative_to(hierarchy.mount):
            relative_path = path.relative_to(hierarchy.mount)
            break
    folders = [
        hierarchy.mount / relative_path
        for hierarchy in machine.hierarchies
        if (hierarchy.mount / relative_path).is_dir()
    ]
    if not folders or ".." in relative_path.parts:
        mounts = ", ".join(str(hierarchy.mount) for hierarchy in machine.hierarchies)
        raise InputError(
            f"there is no control group {name!r}",
            kind="no-such-process",
            field="cgroup",
            remedy=f"groups are folders below {mounts}" if mounts else "this machine has none",
        )
    return str(relative_path), folders


def _has_cpu_time(file: Path, parse: Callable[[bytes], float]) -> bool:
    """Whether a file exists and has a CPU time."""
    try:
        parse(file.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _make_no_process_error(pid: int) -> InputError:
    return InputError(
        f"there is no process {pid}",
        kind="no-such-process",
        field="pid",
        remedy="`ps -e` lists processes",
    )


def _find_user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
