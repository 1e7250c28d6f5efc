"""Control groups of one task on one node."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from twinloop.execution.leftovers import (
    find_members,
    kill_processes,
    remove_groups,
    signal_processes,
)
from twinloop.execution.nodes.cgroup_tree import GroupMeter, GroupTree

_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
# More than the size of the files that are read (bytes).
_MAX_FILE_SIZE = 16_384


class NodeTask:
    """One task on one node: its groups, its processes and their usage.

    `LocalNodes.add_task` makes it. The first process writes `0` to every file of `join` and sets
    its affinity to `cpus`; its descendants are then in the groups as well.

    Args:
        groups: Its groups, one for each tree with groups of tasks.
        join: Open entry files of groups that it shares with other tasks.
        cpus: CPUs for the affinity of its processes, where no group restricts them.

    >>> task = NodeTask([], join=(), cpus=(0,))
    >>> task.is_accounted, task.pids()
    (False, [])
    """

    def __init__(
        self,
        groups: Sequence[tuple[GroupTree, Path]],
        *,
        join: tuple[int, ...],
        cpus: tuple[int, ...],
    ) -> None:
        self._groups = list(groups)
        self._paths = [str(path) for _, path in groups]
        self._fds: list[int] = []
        self._entries: list[int] = []
        self._is_closed = False
        self._oom_kills = 0
        self._peak: float | None = None
        #: CPUs for the affinity of its processes; empty if a group restricts them.
        self.cpus = cpus
        try:
            self._entries = [
                self._open(path / tree.entry, os.O_WRONLY) for tree, path in self._groups
            ]
            self._usage = self._open_meter(lambda tree, path: tree.find_usage_meter(path))
            self._resident = self._open_meter(lambda tree, path: tree.find_memory_meter(path))
        except OSError:
            self._close_files()
            raise
        #: Open files to which its first process writes `0` to enter the groups.
        self.join = (*self._entries, *join)
        #: Whether a group accounts for its CPU time, which `read` needs.
        self.is_accounted = self._usage is not None

    def close_entries(self) -> None:
        """Close the entry files, after its first process has entered the groups."""
        for entry in self._entries:
            os.close(entry)
            self._fds.remove(entry)
        self._entries, self.join = [], ()

    def read(self) -> tuple[float, float | None]:
        """Return the CPU time so far (s) and the memory now (bytes; None if unknown).

        Memory is anonymous memory and mapped files. Without a group for memory it is the sum over
        the processes, in which shared memory counts for each.

        Raises:
            ValueError: No group accounts for it, or it is closed.
        """
        if self._usage is None:
            raise ValueError("no control group accounts for this task")
        cpu = _read_meter(self._usage)
        if cpu is None:
            raise ValueError("the control group has no CPU time for this task")
        return cpu, self._read_memory()

    def peak(self) -> float | None:
        """Return the peak of its memory (bytes), including its share of the page cache.

        None if no group accounts for memory.
        """
        for tree, path in self._groups:
            with contextlib.suppress(OSError, ValueError):
                peak = tree.read_peak(path)
                if peak is not None:
                    self._peak = peak
        return self._peak

    @property
    def oom_kills(self) -> int:
        """Number of its processes that the out-of-memory killer has killed."""
        for tree, path in self._groups:
            with contextlib.suppress(OSError, ValueError):
                self._oom_kills = max(self._oom_kills, tree.count_oom_kills(path))
        return self._oom_kills

    def pids(self) -> list[int]:
        """Return the IDs of its processes; empty if it has no group."""
        return sorted(self._members())

    def kill(self, signal: int) -> int:
        """Send a signal to all its processes; returns their number."""
        return len(signal_processes(self._members, signal))

    def close(self) -> None:
        """Kill its processes and remove its groups; may be repeated."""
        if self._members():
            kill_processes(self._members)
        self.peak()
        _ = self.oom_kills
        self._close_files()
        for path in self._paths:
            remove_groups(path, patience=1.0)
        self._groups, self._paths = [], []
        self._is_closed = True

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return not self._is_closed

    def _members(self) -> set[int]:
        return find_members(self._paths)

    def _read_memory(self) -> float | None:
        if self._resident is not None:
            return _read_meter(self._resident)
        pages = 0
        for pid in self._members():
            with contextlib.suppress(OSError, IndexError):
                pages += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        # If there are no pages, no process runs a program now, and the memory is unknown.
        return float(pages * _PAGE_SIZE) if pages else None

    def _open(self, path: Path, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC)
        self._fds.append(fd)
        return fd

    def _open_meter(
        self, find: Callable[[GroupTree, Path], GroupMeter | None]
    ) -> tuple[int, Callable[[bytes], float | None]] | None:
        """Open the first meter of its groups; None if no group has one."""
        for tree, path in self._groups:
            meter = find(tree, path)
            if meter is not None:
                return self._open(meter[0], os.O_RDONLY), meter[1]
        return None

    def _close_files(self) -> None:
        self.join = ()
        self._usage = self._resident = None
        self.is_accounted = False
        while self._fds:
            os.close(self._fds.pop())


def _read_meter(meter: tuple[int, Callable[[bytes], float | None]]) -> float | None:
    file, parse = meter
    return parse(os.pread(file, _MAX_FILE_SIZE, 0))
