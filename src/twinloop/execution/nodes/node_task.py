"""One task on one node."""

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

_PAGE = os.sysconf("SC_PAGE_SIZE")
# As much as a page of kernel text; the files that are read have less.
_MOST = 16_384


class NodeTask:
    """One task on one node: where its processes have to go, and what they use.

    `LocalNodes.part` makes it. The process that is started for it writes `0` into every file of
    `join` and runs on `cpus`; whatever it starts itself is then in the part as well.

    Args:
        groups: Its groups, one for each tree that it has one in.
        join: Open entries of groups that it shares with others.
        cpus: The CPUs it has to restrict itself to, where no group does.

    >>> part = NodeTask([], join=(), cpus=(0,))
    >>> part.is_accounted, part.pids()
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
        #: CPUs that its processes have to restrict themselves to; empty where a group does that.
        self.cpus = cpus
        try:
            self._entries = [
                self._open(path / tree.entry, os.O_WRONLY) for tree, path in self._groups
            ]
            self._usage = self._meter(lambda tree, path: tree.find_usage_meter(path))
            self._resident = self._meter(lambda tree, path: tree.find_memory_meter(path))
        except OSError:
            self._close_files()
            raise
        #: Open files that its processes write `0` into, to enter.
        self.join = (*self._entries, *join)
        #: Whether a group counts what it uses, so that `read` can say it.
        self.is_accounted = self._usage is not None

    def close_entries(self) -> None:
        """Its first process is in it: nobody needs the way in any more."""
        for entry in self._entries:
            os.close(entry)
            self._fds.remove(entry)
        self._entries, self.join = [], ()

    def read(self) -> tuple[float, float | None]:
        """The CPU time used so far (s), and the memory in use now (bytes; None: unknown).

        Memory is what processes hold themselves and the files that they have mapped. Where no
        group counts it, it is summed over the processes, and what they share counts for each.

        Raises:
            ValueError: No group counts here, or it is closed.
        """
        if self._usage is None:
            raise ValueError("no group counts what this part uses")
        cpu = _said(self._usage)
        if cpu is None:
            raise ValueError("the group does not say what this part uses")
        return cpu, self._memory()

    def peak(self) -> float | None:
        """The most memory it ever had (bytes), its share of the page cache included.

        None where no group counts memory.
        """
        for tree, path in self._groups:
            with contextlib.suppress(OSError, ValueError):
                peak = tree.read_peak(path)
                if peak is not None:
                    self._peak = peak
        return self._peak

    @property
    def oom_kills(self) -> int:
        """How many of its processes were killed for want of memory."""
        for tree, path in self._groups:
            with contextlib.suppress(OSError, ValueError):
                self._oom_kills = max(self._oom_kills, tree.count_oom_kills(path))
        return self._oom_kills

    def pids(self) -> list[int]:
        """Who is in it; nobody where there is no group."""
        return sorted(self._members())

    def kill(self, signal: int) -> int:
        """Send a signal to all processes in it; how many there were."""
        return len(signal_processes(self._members, signal))

    def close(self) -> None:
        """Remove its groups. Whoever is still in them is killed. Closing twice is no mistake."""
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
        """Whether it has not been closed yet."""
        return not self._is_closed

    def _members(self) -> set[int]:
        return find_members(self._paths)

    def _memory(self) -> float | None:
        if self._resident is not None:
            return _said(self._resident)
        pages = 0
        for pid in self._members():
            with contextlib.suppress(OSError, IndexError):
                pages += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
        # No page: no process in it runs a program now.
        return float(pages * _PAGE) if pages else None

    def _open(self, path: Path, how: int) -> int:
        fd = os.open(path, how | os.O_CLOEXEC)
        self._fds.append(fd)
        return fd

    def _meter(
        self, where: Callable[[GroupTree, Path], GroupMeter | None]
    ) -> tuple[int, Callable[[bytes], float | None]] | None:
        """The first meter there is, open."""
        for tree, path in self._groups:
            meter = where(tree, path)
            if meter is not None:
                return self._open(meter[0], os.O_RDONLY), meter[1]
        return None

    def _close_files(self) -> None:
        self.join = ()
        self._usage = self._resident = None
        self.is_accounted = False
        while self._fds:
            os.close(self._fds.pop())


def _said(meter: tuple[int, Callable[[bytes], float | None]]) -> float | None:
    file, understand = meter
    return understand(os.pread(file, _MOST, 0))
