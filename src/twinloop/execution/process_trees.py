"""Process trees from /proc: membership, CPU time and memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from twinloop.execution import leftovers

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
#: More than the longest /proc/<pid>/stat.
_LINE: Final = 2048
_DEAD: Final = (b"Z", b"X", b"x")

#: First processes of the trees of all runs in this process: process ID and start time.
_ROOTS: Final[set[tuple[int, int]]] = set()

Key = TypeVar("Key", bound=Hashable)
#: `TWINLOOP_TASK` and `TWINLOOP_RANK` in the environment of a tree; None: any rank.
TaskMark = tuple[str, str | None]


class TreeUsage(NamedTuple):
    """The usage of a process tree so far.

    >>> TreeUsage(cpu=1.5, rss=4096.0).cpu
    1.5
    """

    #: CPU time since the start (s), including processes that have ended; None: unknown.
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
    dead: bool
    parent: int
    session: int
    own: int
    waited: int
    start: int
    #: 0: unknown. Each process that runs a program has resident pages; the kernel shows none for a
    #: process that has just ended or is in `exec`, or whose pages are counted late.
    rss: int

    @classmethod
    def read(cls, pid: int) -> ProcessStat | None:
        """Read the fields of a process; None if it does not exist."""
        try:
            line = _content(f"/proc/{pid}/stat")
        except OSError:
            return None
        # The name in parentheses may have any byte in it, also parentheses and spaces.
        rest = line[line.rfind(b")") + 2 :].split(None, 22)
        if len(rest) < 22:
            return None
        return cls(
            pid,
            rest[0] in _DEAD,
            int(rest[1]),
            int(rest[3]),
            int(rest[11]) + int(rest[12]),
            int(rest[13]) + int(rest[14]),
            int(rest[19]),
            int(rest[21]),
        )


def require_start_ticks(pid: int) -> int:
    """Read the start time of a process in ticks since the start of the machine.

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
    #: Ticks of its children when it was first seen.
    before: int
    #: Last readings of children that have ended (ticks).
    gone: int = 0
    #: Whether it was assigned to the tree only because no other is possible; that may be wrong.
    claimed: bool = False

    def ticks(self) -> int:
        return self.stat.own + self.before + max(self.gone, self.stat.waited - self.before)


@dataclass(slots=True, eq=False)
class _Tree(Generic[Key]):
    key: Key
    root: _Member[Key] | None = None
    #: Mark in the environment of its processes, which identifies them without their parents.
    mark: TaskMark | None = None
    members: dict[int, _Member[Key]] = field(default_factory=dict)
    #: CPU time of ended processes, without the first, for which no process of the tree waited (s).
    gone: float = 0.0
    least: float = 0.0

    def reading(self, waited: float | None = None) -> TreeUsage:
        """The usage so far.

        Args:
            waited: Least CPU time of its first process with the children that it waited for (s);
                None: unknown.
        """
        if self.root is None and waited is None and not self.members and not self.gone:
            return TreeUsage(None, None)  # its first process had ended before the first scan
        first = self.root.ticks() / _TICKS if self.root is not None else 0.0
        others = sum(one.ticks() for one in self.members.values() if one is not self.root) / _TICKS
        self.least = max(self.least, self.gone + others + max(first, waited or 0.0))
        pages = sum(one.stat.rss for one in self.members.values())
        return TreeUsage(self.least, float(pages * _PAGE) if pages else None)


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
        self._known: set[tuple[str, int]] = set()
        self._examined: set[tuple[int, int]] = set()
        #: Number of orphans that had ended when they were found and may belong to several trees;
        #: their usage is not counted.
        self.unassigned_orphans = 0
        #: Processes that may become parents of orphans of the trees: their ancestors.
        self._above = {1}
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
        _ROOTS.add((pid, stat.start))
        if stat.session == pid:
            self._sessions[pid] = tree
        self._add_ancestors(stat.parent)
        if any(name == str(pid) for name, _ in self._known):
            self._known.clear()  # it and its children were assigned to no tree until now

    def forget(self, key: Key) -> None:
        """Remove a tree."""
        tree = self._trees.pop(key, None)
        if tree is None or tree.root is None:
            return
        for member in list(tree.members.values()):
            self._leave(member)
        _ROOTS.discard((tree.root.stat.pid, tree.root.stat.start))
        if self._sessions.get(tree.root.stat.pid) is tree:
            del self._sessions[tree.root.stat.pid]

    def scan(self) -> dict[Key, TreeUsage]:
        """Read the usage of every tree."""
        self._update(self._members)
        self._discover()
        return {key: tree.reading() for key, tree in self._trees.items()}

    def pids(self, key: Key) -> list[int]:
        """List the living processes of a tree."""
        return [member.stat.pid for member in self._alive(key)]

    def list_dead(self) -> list[int]:
        """List the processes that were zombies at the last scan.

        Processes with an uncertain tree are left out: they may be children that another part of
        this program has started and will wait for.
        """
        return [
            pid for pid, member in self._members.items() if member.stat.dead and not member.claimed
        ]

    def kill(self, key: Key, signal_: int) -> int:
        """Send a signal to every process of a tree; returns how many received it."""
        return sum(_send_signal(member.stat, signal_) for member in self._alive(key))

    def owner(self, pid: int) -> Key | None:
        """Return the tree of a process, which may be a zombie; None: it belongs to none."""
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
        member.tree.gone += max(cpu, member.ticks() / _TICKS)
        return member.tree.key

    def total_cpu_time(self, key: Key, waited: float | None) -> float | None:
        """Return the CPU time of a tree whose first process has ended (s); None: unknown.

        Args:
            key: The tree.
            waited: Total CPU time of its first process (s); None: another process waits for it.
        """
        tree = self._trees[key]
        self._update(tree.members)
        self._discover()
        return tree.reading(waited).cpu

    def _alive(self, key: Key) -> list[_Member[Key]]:
        """List the living processes of one tree, without reading the other trees."""
        tree = self._trees.get(key)
        if tree is None:
            return []
        self._update(tree.members)
        self._discover()
        return [one for one in tree.members.values() if not one.stat.dead]

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
                    self._known = {one for one in self._known if one[0] != str(pid)}
            else:
                member.stat = stat
        for member in reversed(vanished.values()):  # children first
            parent = self._members.get(member.stat.parent) or vanished.get(member.stat.parent)
            if member is member.tree.root:
                continue
            if parent is not None and parent.tree is member.tree:
                parent.gone += member.ticks()
            else:
                member.tree.gone += member.ticks() / _TICKS

    def _discover(self) -> None:
        """Assign the processes that are new since the last pass."""
        # The inode of its folder distinguishes a process from a later one with the same ID.
        with os.scandir("/proc") as entries:
            now = {(entry.name, entry.inode()) for entry in entries if entry.name[0] <= "9"}
        numbers = sorted(int(name) for name, _ in now - self._known)
        self._known = now
        found = (ProcessStat.read(pid) for pid in numbers if pid not in self._members)
        strangers = self._assign(stat for stat in found if stat is not None)
        orphans = [stat for stat in strangers if stat.parent in self._above]
        marked = [(stat, self._by_mark(stat)) for stat in orphans]
        for stat, tree in marked:
            if tree is not None:
                self._join(tree, stat)
        if any(tree is not None for _, tree in marked):
            self._assign(stat for stat in strangers if stat.pid not in self._members)
        for stat in orphans:
            if stat.dead and stat.parent == os.getpid() and stat.pid not in self._members:
                self._claim(stat)

    def _claim(self, stat: ProcessStat) -> None:
        """Assign an orphan that had ended when it was found, if only one tree is possible."""
        one = (stat.pid, stat.start)
        # The trees of a run have left the session of this process, and cannot return to it.
        strange = self._run is None or stat.session == os.getsid(0) or one in _ROOTS
        begun = [
            tree
            for tree in self._trees.values()
            if tree.root is not None and tree.root.stat.start <= stat.start
        ]
        if strange or not begun or one in self._examined:
            return
        self._examined.add(one)
        if len(begun) == 1:
            self._join(begun[0], stat).claimed = True
        else:
            self.unassigned_orphans += 1

    def _assign(self, found: Iterable[ProcessStat]) -> list[ProcessStat]:
        """Assign processes to trees by parent and session; returns the others."""
        left = list(found)
        while left:
            strangers = []
            for stat in left:
                tree = self._by_parent(stat) or self._by_session(stat)
                if tree is None:
                    strangers.append(stat)
                else:
                    self._join(tree, stat)
            if len(strangers) == len(left):
                break
            left = strangers
        return left

    def _by_parent(self, stat: ProcessStat) -> _Tree[Key] | None:
        parent = self._members.get(stat.parent)
        return None if parent is None else parent.tree

    def _by_session(self, stat: ProcessStat) -> _Tree[Key] | None:
        tree = self._sessions.get(stat.session)
        # A session keeps its ID as long as it has a process. A process that leads a session with
        # the ID of the tree's session was started after that session had ended.
        if tree is None or tree.root is None or stat.pid == stat.session:
            return None
        return tree if stat.start >= tree.root.stat.start else None

    def _by_mark(self, stat: ProcessStat) -> _Tree[Key] | None:
        mark = self._mark(stat.pid)
        if mark is None:
            return None
        task, rank = mark
        begun = [
            (tree.root.stat.start, tree)
            for tree in self._trees.values()
            if tree.root is not None
            and tree.mark in ((task, rank), (task, None))
            and tree.root.stat.start <= stat.start
        ]
        # Of several attempts at one task, take the last one that had begun.
        return max(begun, key=lambda one: one[0])[1] if begun else None

    def _mark(self, pid: int) -> TaskMark | None:
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
        while pid and pid not in self._above:
            self._above.add(pid)
            stat = ProcessStat.read(pid)
            pid = 0 if stat is None else stat.parent


def _content(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _LINE)
    finally:
        os.close(descriptor)


def _send_signal(stat: ProcessStat, signal_: int) -> bool:
    """Send a signal to this process, and not to another one that has got its ID."""
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
