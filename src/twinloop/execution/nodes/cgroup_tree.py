"""The groups of one run in one hierarchy of control groups, whatever its version."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from twinloop.execution.leftovers import GROUP, remove_groups

#: Over which a quota is counted (s). As short as the kernel gives out whole slices of, so that a
#: node of half a core looks like a slow core, not like one that is fast and then gone.
PERIOD: Final = 0.02
_LEAST_QUOTA: Final = 1_000  # microseconds: the kernel takes no less
_LONGEST_PERIOD: Final = 1_000_000

#: A file of a group, and what it says, in seconds or bytes; None: unknown.
GroupMeter = tuple[Path, Callable[[bytes], float | None]]


class GroupLimits(NamedTuple):
    """What a group is to be kept to; what is empty or None is left open.

    >>> GroupLimits(quota=0.5).memory is None
    True
    """

    cpus: tuple[int, ...] = ()
    quota: float | None = None
    """Cores."""
    weight: float | None = None
    """Beside its neighbours; 1 is what a process without a group counts for."""
    memory: float | None = None
    """Bytes."""


class UnusableHierarchyError(Exception):
    """A hierarchy cannot be used, and why."""


class GroupTree(ABC):
    """The groups of one run in one hierarchy.

    Args:
        top: The group of the run, which holds all others. It is locked as long as the tree is
            open, so that anybody can see that the run lives.
        controllers: Those of `cpu`, `cpuset`, `memory` and `cpuacct` that it is used for.
    """

    version: ClassVar[int]
    #: The file of a group that a process writes `0` into, to enter it.
    entry: ClassVar[str] = "cgroup.procs"

    def __init__(self, top: Path, controllers: Iterable[str]) -> None:
        self.top = top
        self.controllers = list(controllers)
        self._lock: int | None = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def make_group(self, path: Path, limits: GroupLimits) -> dict[str, str]:
        """Make a group and keep it to its limits; returns the controllers that refused, and why."""
        path.mkdir()
        return self.set_limits(path, limits)

    def set_limits(self, path: Path, limits: GroupLimits) -> dict[str, str]:
        """Keep a group to its limits; returns the controllers that refused, and why."""
        refused = {}
        for controller in self.controllers:
            try:
                for file, text in self.list_settings(controller, path, limits):
                    (path / file).write_text(text)
            except OSError as error:
                refused[controller] = f"{error.strerror} ({path / file})"
        return refused

    def drop_controllers(self, controllers: Iterable[str]) -> None:
        """Do without some controllers."""
        self.controllers = [name for name in self.controllers if name not in controllers]

    def has_task_groups(self) -> bool:
        """Whether a part gets a group of its own here, or shares that of its node."""
        return True

    @abstractmethod
    def list_settings(
        self, controller: str, group: Path, limits: GroupLimits
    ) -> Iterable[tuple[str, str]]:
        """The files of a group that have to be written, in this order, and what."""

    @abstractmethod
    def find_usage_meter(self, group: Path) -> GroupMeter | None:
        """Where it says how much CPU time a group has used, if it says."""

    @abstractmethod
    def find_memory_meter(self, group: Path) -> GroupMeter | None:
        """Where it says how much memory a group has in use, if it says."""

    @abstractmethod
    def read_peak(self, group: Path) -> float | None:
        """The most memory that a group ever had, its share of the page cache included."""

    @abstractmethod
    def count_oom_kills(self, group: Path) -> int:
        """How many processes of a group were killed for want of memory."""

    def close(self) -> bool:
        """Remove all groups, which nobody may be in any more; whether they are gone."""
        gone = remove_groups(str(self.top))
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        return gone


def make_group_path(base: Path, run: str) -> Path:
    """The group of a run.

    >>> make_group_path(Path("cpu"), "4711-902834-1f0a").as_posix()
    'cpu/twinloop-4711-902834-1f0a'
    """
    return base / f"{GROUP}{run}"


def cores_to_quota(cores: float) -> tuple[int, int]:
    """Quota and period in microseconds that give so many cores.

    >>> cores_to_quota(0.5), cores_to_quota(1.5), cores_to_quota(0.01)
    ((10000, 20000), (30000, 20000), (1000, 100000))
    """
    period = round(PERIOD * 1e6)
    if cores * period < _LEAST_QUOTA:
        period = min(round(_LEAST_QUOTA / cores), _LONGEST_PERIOD)
    return max(round(cores * period), _LEAST_QUOTA), period


def parse_figure(text: bytes, name: bytes) -> int | None:
    """A figure of a file with a name and a number on each line; None: it has no such line.

    >>> parse_figure(b"anon 8192\\nfile_mapped 4096\\n", b"file_mapped")
    4096
    """
    at = text.find(b"\n" + name + b" ") + 1
    if at == 0 and not text.startswith(name + b" "):
        return None
    begin = at + len(name) + 1
    end = text.find(b"\n", begin)
    return int(text[begin : end if end >= 0 else None])


def parse_cpu_seconds(text: bytes) -> float:
    """The CPU time (s) that a `cpu.stat` of version 2 says.

    Raises:
        ValueError: It does not say.

    >>> parse_cpu_seconds(b"usage_usec 1500000\\nuser_usec 1000000\\n")
    1.5
    """
    used = parse_figure(text, b"usage_usec")
    if used is None:
        raise ValueError("cpu.stat has no usage_usec")
    return used / 1e6


def parse_memory(text: bytes, *names: bytes) -> float | None:
    """The memory (bytes) that a `memory.stat` says, summed over these figures; None: unknown.

    A group that holds no page has no process that runs a program, or its pages are counted late.

    >>> parse_memory(b"anon 8192\\nfile_mapped 4096\\n", b"anon", b"file_mapped")
    12288.0
    >>> parse_memory(b"anon 0\\nfile_mapped 0\\n", b"anon", b"file_mapped")
    """
    found = [parse_figure(text, name) for name in names]
    return float(sum(each for each in found if each is not None)) or None
