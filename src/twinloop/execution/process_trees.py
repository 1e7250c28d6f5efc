"""Process trees from /proc: membership, CPU time and memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from twinloop.execution import leftovers

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
#: More than the size of the longest /proc/<pid>/stat (bytes).
_MAX_STAT_SIZE: Final = 2048
_DEAD_STATES: Final = (b"Z", b"X", b"x")

#: First processes of the trees of all runs in this process: process ID and start time.
_ROOT_PROCESSES: Final[set[tuple[int, int]]] = set()

Key = TypeVar("Key", bound=Hashable)
#: `TWINLOOP_TASK` and `TWINLOOP_RANK` in the environment of a tree; None for any rank.
TaskMark = tuple[str, str | None]


class TreeUsage(NamedTuple):
    """The usage of a process tree so far.

    >>> TreeUsage(cpu=1.5, rss=4096.0).cpu
    1.5
    """

    #: CPU time since the start (s), including processes that have ended; None if unknown.
    cpu: float | None
    #: Resident memory of all its processes (bytes); shared pages count for each process. None:
    #: unknown, for example if all processes have just ended or are in `exec`.
    rss: float | None


class ProcessStat(NamedTuple):
    """Fields of /proc/<pid>/stat; times in ticks, memory in pages.

    >>> import os
    >>> own = ProcessStat.read(os.getpid())
    >>> own.parent == os.getppid(), own.dead
    (True, False)
    """

    pid: int
    #: Whether it is a zombie or has just ended.
    dead: bool
    parent: int
    session: int
    #: CPU time of the process itself.
    own: int
    #: CPU time of the children that it has waited for.
    waited: int
    #: Start time since boot.
    start: int
    #: 0: unknown. Each process that runs a program has resident pages; the kernel shows none for a
    #: process that has just ended or is in `exec`, or whose pages are counted late.
    rss: int

    @classmethod
    def read(cls, pid: int) -> ProcessStat | None:
        """Read the fields of a process; None if it does not exist."""
        try:
            line = _read_stat_file(f"/proc/{pid}/stat")
        except OSError:
            return None
        # The name in parentheses may have any byte in it, also parentheses and spaces.
        rest = line[line.rfind(b")") + 2 :].split(None, 22)
        if len(rest) < 22:
            return None
        return cls(
            pid,
            rest[0] in _DEAD_STATES,
            int(rest[1]),
            int(rest[3]),
            int(rest[11]) + int(rest[12]),
            int(rest[13]) + int(rest[14]),
            int(rest[19]),
            int(rest[21]),
        )


def require_start_ticks(pid: int) -> int:
    """Read the start time of a process in ticks since boot; an error if it does not exist.

    Process ID and start time together identify a process: process IDs are used again.

    >>> import os
    >>> require_start_ticks(os.getpid()) >= require_start_ticks(os.getppid())
    True
    """
    stat = ProcessStat.read(pid)
    if stat is None:
        raise ProcessLookupError(f"no process {pid}")
    return stat.start


@dataclass(slots=True, eq=False)
class _Member(Generic[Key]):
    """One process of a tree.

    The kernel adds the CPU time of a child to its parent when the parent waits for it, and not
    otherwise. So the larger of that sum and the last readings of the children is counted.
    """

    tree: _Tree[Key]
    stat: ProcessStat
    #: CPU time of the children that it had waited for when it was first read (ticks).
    waited_before: int
    #: Last readings of children that have ended (ticks).
    ended_ticks: int = 0
    #: Whether it was assigned to the tree only because no other tree is possible, which may be
    #: wrong.
    is_uncertain: bool = False

    def ticks(self) -> int:
        return (
            self.stat.own
            + self.waited_before
            + max(self.ended_ticks, self.stat.waited - self.waited_before)
        )


@dataclass(slots=True, eq=False)
class _Tree(Generic[Key]):
    key: Key
    root: _Member[Key] | None = None
    #: Mark in the environment of its processes, which identifies them without their parents.
    mark: TaskMark | None = None
    members: dict[int, _Member[Key]] = field(default_factory=dict)
    #: CPU time of ended processes, without the first, for which no process of the tree waited (s).
    ended_cpu: float = 0.0
    cpu_so_far: float = 0.0

    def compute_usage(self, waited: float | None = None) -> TreeUsage:
        """Return the usage so far.

        Args:
            waited: Lower bound of the CPU time of its first process and of the children that this
                process waited for (s); None if unknown.
        """
        if self.root is None and waited is None and not self.members and not self.ended_cpu:
            return TreeUsage(None, None)  # its first process had ended before the first scan
        first = self.root.ticks() / _TICKS_PER_SECOND if self.root is not None else 0.0
        others = (
            sum(member.ticks() for member in self.members.values() if member is not self.root)
            / _TICKS_PER_SECOND
        )
        self.cpu_so_far = max(self.cpu_so_far, self.ended_cpu + others + max(first, waited or 0.0))
        pages = sum(member.stat.rss for member in self.members.values())
        return TreeUsage(self.cpu_so_far, float(pages * _PAGE_SIZE) if pages else None)


class ProcessTrees(Generic[Key]):
    """Process trees that are read together, by one pass over /proc.

    A process belongs to a tree if its parent does, if it is in the session that the first process
    of the tree leads, or if it was found in the tree before. An orphan that was not found before is
    identified by `TWINLOOP_RUN`, `TWINLOOP_TASK` and `TWINLOOP_RANK` in its environment. A zombie
    has no environment: if it is a child of this process, it belongs to the only tree that is older
    than it.

    The CPU time of a tree is that of its processes and of all processes that they waited for. It
    never decreases. If no process waits for a process, its usage after the last scan is lost.

    >>> import subprocess
    >>> trees = ProcessTrees()
    >>> with subprocess.Popen(["sleep", "60"]) as child:
    ...     trees.add("nap", child.pid)
    ...     trees.pids("nap") == [child.pid], trees.kill("nap", signal.SIGKILL)
    (True, 1)
    """

    def __init__(self, run: str | None = None) -> None:
        self._run = None if run is None else f"TWINLOOP_RUN={run}".encode()
        self._trees: dict[Key, _Tree[Key]] = {}
        self._sessions: dict[int, _Tree[Key]] = {}
        #: Parents are read before their children, so that the usage of a child that is waited for
        #: during a pass is not counted twice.
        self._members: dict[int, _Member[Key]] = {}
        self._seen: set[tuple[str, int]] = set()
        self._examined: set[tuple[int, int]] = set()
        #: Number of orphans that had ended when they were found and may belong to several trees;
        #: their usage is not counted.
        self.unassigned_orphans = 0
        #: Processes that may become parents of orphans of the trees: their ancestors.
        self._possible_parents = {1}
        self._add_ancestors(os.getpid())

    def add(self, key: Key, pid: int, mark: TaskMark | None = None) -> None:
        """Add the tree of a process that runs or is a zombie.

        Args:
            key: Key of the tree.
            pid: Its first process.
            mark: Its mark in the environment, if it has one. It is not read from the process,
                which may still be in `exec`.
        """
        self._trees[key] = tree = _Tree(key, mark=mark)
        stat = ProcessStat.read(pid)
        if stat is None:
            return
        if pid in self._members:
            self._leave(self._members[pid])
        tree.root = self._join(tree, stat)
        _ROOT_PROCESSES.add((pid, stat.start))
        if stat.session == pid:
            self._sessions[pid] = tree
        self._add_ancestors(stat.parent)
        if any(name == str(pid) for name, _ in self._seen):
            self._seen.clear()  # it and its children were assigned to no tree until now

    def forget(self, key: Key) -> None:
        """Remove a tree."""
        tree = self._trees.pop(key, None)
        if tree is None or tree.root is None:
            return
        for member in list(tree.members.values()):
            self._leave(member)
        _ROOT_PROCESSES.discard((tree.root.stat.pid, tree.root.stat.start))
        if self._sessions.get(tree.root.stat.pid) is tree:
            del self._sessions[tree.root.stat.pid]

    def scan(self) -> dict[Key, TreeUsage]:
        """Read the usage of every tree."""
        self._update(self._members)
        self._discover()
        return {key: tree.compute_usage() for key, tree in self._trees.items()}

    def pids(self, key: Key) -> list[int]:
        """List the living processes of a tree."""
        return [member.stat.pid for member in self._list_alive(key)]

    def list_dead(self) -> list[int]:
        """List the processes that were zombies at the last scan.

        Processes with an uncertain tree are left out: they may be children that another part of
        this program has started and will wait for.
        """
        return [
            pid
            for pid, member in self._members.items()
            if member.stat.dead and not member.is_uncertain
        ]

    def kill(self, key: Key, signal_: int) -> int:
        """Send a signal to every process of a tree; returns how many received it."""
        return sum(_send_signal(member.stat, signal_) for member in self._list_alive(key))

    def owner(self, pid: int) -> Key | None:
        """Return the tree of a process, which may be a zombie; None if it belongs to none."""
        if pid not in self._members:
            self._discover()
        member = self._members.get(pid)
        return None if member is None else member.tree.key

    def record_reaped(self, pid: int, cpu: float) -> Key | None:
        """Record an orphan that this process has waited for, with its total CPU time (s).

        Returns the tree that it belonged to; None if it was found in none.
        """
        member = self._members.get(pid)
        if member is None or member is member.tree.root:
            return None
        self._leave(member)
        member.tree.ended_cpu += max(cpu, member.ticks() / _TICKS_PER_SECOND)
        return member.tree.key

    def total_cpu_time(self, key: Key, waited: float | None) -> float | None:
        """Return the CPU time of a tree whose first process has ended (s); None if unknown.

        Args:
            key: The tree.
            waited: Total CPU time of its first process (s); None if another process waits for it.
        """
        tree = self._trees[key]
        self._update(tree.members)
        self._discover()
        return tree.compute_usage(waited).cpu

    def _list_alive(self, key: Key) -> list[_Member[Key]]:
        """List the living processes of one tree, without reading the other trees."""
        tree = self._trees.get(key)
        if tree is None:
            return []
        self._update(tree.members)
        self._discover()
        return [member for member in tree.members.values() if not member.stat.dead]

    def _join(self, tree: _Tree[Key], stat: ProcessStat) -> _Member[Key]:
        member = _Member(tree, stat, stat.waited)
        tree.members[stat.pid] = self._members[stat.pid] = member
        return member

    def _leave(self, member: _Member[Key]) -> None:
        del member.tree.members[member.stat.pid], self._members[member.stat.pid]

    def _update(self, members: Mapping[int, _Member[Key]]) -> None:
        """Read the known processes of one tree, or of all, again."""
        vanished: dict[int, _Member[Key]] = {}
        for pid, member in list(members.items()):
            stat = ProcessStat.read(pid)
            if stat is None or stat.start != member.stat.start:
                vanished[pid] = member
                self._leave(member)
                if stat is not None:  # another process has its ID now
                    self._seen = {entry for entry in self._seen if entry[0] != str(pid)}
            else:
                member.stat = stat
        for member in reversed(vanished.values()):  # children first
            parent = self._members.get(member.stat.parent) or vanished.get(member.stat.parent)
            if member is member.tree.root:
                continue
            if parent is not None and parent.tree is member.tree:
                parent.ended_ticks += member.ticks()
            else:
                member.tree.ended_cpu += member.ticks() / _TICKS_PER_SECOND

    def _discover(self) -> None:
        """Assign the processes that are new since the last pass."""
        # The inode of its folder distinguishes a process from a later one with the same ID.
        with os.scandir("/proc") as entries:
            entries_now = {(entry.name, entry.inode()) for entry in entries if entry.name[0] <= "9"}
        new_pids = sorted(int(name) for name, _ in entries_now - self._seen)
        self._seen = entries_now
        new_stats = (ProcessStat.read(pid) for pid in new_pids if pid not in self._members)
        unassigned = self._assign(stat for stat in new_stats if stat is not None)
        orphans = [stat for stat in unassigned if stat.parent in self._possible_parents]
        marked = [(stat, self._find_by_mark(stat)) for stat in orphans]
        for stat, tree in marked:
            if tree is not None:
                self._join(tree, stat)
        if any(tree is not None for _, tree in marked):
            self._assign(stat for stat in unassigned if stat.pid not in self._members)
        for stat in orphans:
            if stat.dead and stat.parent == os.getpid() and stat.pid not in self._members:
                self._assign_dead_orphan(stat)

    def _assign_dead_orphan(self, stat: ProcessStat) -> None:
        """Assign an orphan that had ended when it was found, if only one tree is possible."""
        identity = (stat.pid, stat.start)
        # The trees of a run have left the session of this process, and cannot return to it.
        is_foreign = (
            self._run is None or stat.session == os.getsid(0) or identity in _ROOT_PROCESSES
        )
        candidates = [
            tree
            for tree in self._trees.values()
            if tree.root is not None and tree.root.stat.start <= stat.start
        ]
        if is_foreign or not candidates or identity in self._examined:
            return
        self._examined.add(identity)
        if len(candidates) == 1:
            self._join(candidates[0], stat).is_uncertain = True
        else:
            self.unassigned_orphans += 1

    def _assign(self, stats: Iterable[ProcessStat]) -> list[ProcessStat]:
        """Assign processes to trees by parent and session; returns the others."""
        pending = list(stats)
        while pending:
            unassigned = []
            for stat in pending:
                tree = self._find_by_parent(stat) or self._find_by_session(stat)
                if tree is None:
                    unassigned.append(stat)
                else:
                    self._join(tree, stat)
            if len(unassigned) == len(pending):
                break
            pending = unassigned
        return pending

    def _find_by_parent(self, stat: ProcessStat) -> _Tree[Key] | None:
        parent = self._members.get(stat.parent)
        return None if parent is None else parent.tree

    def _find_by_session(self, stat: ProcessStat) -> _Tree[Key] | None:
        tree = self._sessions.get(stat.session)
        # A session keeps its ID as long as it has a process. A process that leads a session with
        # the ID of the tree's session was started after that session had ended.
        if tree is None or tree.root is None or stat.pid == stat.session:
            return None
        return tree if stat.start >= tree.root.stat.start else None

    def _find_by_mark(self, stat: ProcessStat) -> _Tree[Key] | None:
        mark = self._read_mark(stat.pid)
        if mark is None:
            return None
        task, rank = mark
        candidates = [
            (tree.root.stat.start, tree)
            for tree in self._trees.values()
            if tree.root is not None
            and tree.mark in ((task, rank), (task, None))
            and tree.root.stat.start <= stat.start
        ]
        # Of several attempts at one task, take the last one that had begun.
        return max(candidates, key=lambda pair: pair[0])[1] if candidates else None

    def _read_mark(self, pid: int) -> TaskMark | None:
        """Read the mark of a process; None if it is not of this run."""
        if self._run is None:
            return None
        try:
            words = leftovers.read_words(pid, "environ")
        except OSError:
            return None
        if self._run not in words:
            return None
        task, rank = (
            next((os.fsdecode(word[len(name) :]) for word in words if word.startswith(name)), "")
            for name in (b"TWINLOOP_TASK=", b"TWINLOOP_RANK=")
        )
        return task, rank

    def _add_ancestors(self, pid: int) -> None:
        """Add a process and its ancestors to the possible parents of orphans."""
        while pid and pid not in self._possible_parents:
            self._possible_parents.add(pid)
            stat = ProcessStat.read(pid)
            pid = 0 if stat is None else stat.parent


def _read_stat_file(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _MAX_STAT_SIZE)
    finally:
        os.close(descriptor)


def _send_signal(stat: ProcessStat, signal_: int) -> bool:
    """Send a signal to this process, and not to a later process with the same ID."""
    with suppress(OSError):
        descriptor = os.pidfd_open(stat.pid)
        try:
            now = ProcessStat.read(stat.pid)
            if now is not None and now.start == stat.start:
                signal.pidfd_send_signal(descriptor, signal_)
                return True
        finally:
            os.close(descriptor)
    return False
