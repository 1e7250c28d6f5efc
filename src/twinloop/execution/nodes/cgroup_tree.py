"""The groups of one run in one hierarchy of control groups, of either version."""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from twinloop.execution.leftovers import GROUP_PREFIX, remove_groups

#: Period of a CPU quota (s). It is as short as the slices of the kernel allow, so that a node of
#: half a core behaves like a slow core and not like a fast core that pauses.
PERIOD: Final = 0.02
_MIN_QUOTA: Final = 1_000  # microseconds: the minimum of the kernel
_MAX_PERIOD: Final = 1_000_000  # microseconds: the maximum of the kernel

#: A file of a group, and the parser of its figure in seconds or bytes; None if unknown.
GroupMeter = tuple[Path, Callable[[bytes], float | None]]


class GroupLimits(NamedTuple):
    """Limits of a group; empty or None for no limit.

    >>> GroupLimits(quota=0.5).memory is None
    True
    """

    cpus: tuple[int, ...] = ()
    quota: float | None = None
    """Number of cores."""
    weight: float | None = None
    """Weight relative to its neighbours; a process without a group has the weight 1."""
    memory: float | None = None
    """Memory in bytes."""


class UnusableHierarchyError(Exception):
    """A hierarchy of control groups cannot be used; the message is the cause."""


class GroupTree(ABC):
    """The groups of one run in one hierarchy.

    Args:
        top: The group of the run, which contains all others. It is locked as long as the tree is
            open, which shows other processes that the run is alive.
        controllers: The controllers that are used, of `cpu`, `cpuset`, `memory` and `cpuacct`.
    """

    version: ClassVar[int]
    #: The file to which a process writes `0` to enter a group.
    entry: ClassVar[str] = "cgroup.procs"

    def __init__(self, top: Path, controllers: Iterable[str]) -> None:
        self.top = top
        self.controllers = list(controllers)
        self._lock: int | None = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def make_group(self, path: Path, limits: GroupLimits) -> dict[str, str]:
        """Make a group with limits; returns the controllers that failed, with the causes."""
        path.mkdir()
        return self.set_limits(path, limits)

    def set_limits(self, path: Path, limits: GroupLimits) -> dict[str, str]:
        """Set the limits of a group; returns the controllers that failed, with the causes."""
        refused = {}
        for controller in self.controllers:
            try:
                for file, text in self.list_settings(controller, path, limits):
                    (path / file).write_text(text)
            except OSError as error:
                refused[controller] = f"{error.strerror} ({path / file})"
        return refused

    def drop_controllers(self, controllers: Iterable[str]) -> None:
        """Stop using some controllers."""
        self.controllers = [name for name in self.controllers if name not in controllers]

    def has_task_groups(self) -> bool:
        """Whether tasks have groups of their own here, or share the group of their node."""
        return True

    @abstractmethod
    def list_settings(
        self, controller: str, group: Path, limits: GroupLimits
    ) -> Iterable[tuple[str, str]]:
        """Yield the files of a group to write, in this order, with their contents."""

    @abstractmethod
    def find_usage_meter(self, group: Path) -> GroupMeter | None:
        """Return the meter of the CPU time of a group, if there is one."""

    @abstractmethod
    def find_memory_meter(self, group: Path) -> GroupMeter | None:
        """Return the meter of the memory of a group, if there is one."""

    @abstractmethod
    def read_peak(self, group: Path) -> float | None:
        """Read the peak of the memory of a group, including its share of the page cache."""

    @abstractmethod
    def count_oom_kills(self, group: Path) -> int:
        """Count the processes of a group that the out-of-memory killer has killed."""

    def close(self) -> bool:
        """Remove all groups, which must be empty; returns whether they are gone."""
        are_removed = remove_groups(str(self.top))
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        return are_removed


def make_group_path(base: Path, run: str) -> Path:
    """Make the path of the group of a run.

    >>> make_group_path(Path("cpu"), "4711-902834-1f0a").as_posix()
    'cpu/twinloop-4711-902834-1f0a'
    """
    return base / f"{GROUP_PREFIX}{run}"


def cores_to_quota(cores: float) -> tuple[int, int]:
    """Convert a number of cores to quota and period in microseconds.

    >>> cores_to_quota(0.5), cores_to_quota(1.5), cores_to_quota(0.01)
    ((10000, 20000), (30000, 20000), (1000, 100000))
    """
    period = round(PERIOD * 1e6)
    if cores * period < _MIN_QUOTA:
        period = min(round(_MIN_QUOTA / cores), _MAX_PERIOD)
    return max(round(cores * period), _MIN_QUOTA), period


def parse_figure(text: bytes, name: bytes) -> int | None:
    """Parse a figure of a file with a name and a number on each line; None if it is not there.

    >>> parse_figure(b"anon 8192\\nfile_mapped 4096\\n", b"file_mapped")
    4096
    """
    line_start = text.find(b"\n" + name + b" ") + 1
    if line_start == 0 and not text.startswith(name + b" "):
        return None
    number_start = line_start + len(name) + 1
    number_end = text.find(b"\n", number_start)
    return int(text[number_start : number_end if number_end >= 0 else None])


def parse_cpu_seconds(text: bytes) -> float:
    """Parse the CPU time (s) in a `cpu.stat` of version 2.

    Raises:
        ValueError: It has no CPU time.

    >>> parse_cpu_seconds(b"usage_usec 1500000\\nuser_usec 1000000\\n")
    1.5
    """
    used = parse_figure(text, b"usage_usec")
    if used is None:
        raise ValueError("cpu.stat has no usage_usec")
    return used / 1e6


def parse_memory(text: bytes, *names: bytes) -> float | None:
    """Sum figures of a `memory.stat` (bytes); None if unknown.

    A sum of 0 is unknown: a process that runs a program has pages, but the kernel may count them
    late.

    >>> parse_memory(b"anon 8192\\nfile_mapped 4096\\n", b"anon", b"file_mapped")
    12288.0
    >>> parse_memory(b"anon 0\\nfile_mapped 0\\n", b"anon", b"file_mapped")
    """
    figures = [parse_figure(text, name) for name in names]
    return float(sum(figure for figure in figures if figure is not None)) or None
