"""Process trees as /proc shows them: who belongs to whom, what they used, and what they are."""

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

#: First processes of the trees of all runs in this process, by number and start.
_ROOTS: Final[set[tuple[int, int]]] = set()

Key = TypeVar("Key", bound=Hashable)
#: The `TWINLOOP_TASK` of a tree, and its `TWINLOOP_RANK`; None: any.
TaskMark = tuple[str, str | None]


class TreeUsage(NamedTuple):
    """What a tree of processes has used so far.

    >>> TreeUsage(cpu=1.5, rss=4096.0).cpu
    1.5
    """

    #: CPU seconds since it began, those of processes that are gone included; None: unknown.
    cpu: float | None
    #: Resident bytes of all processes in it; pages that they share are counted in each. None:
    #: unknown, as of processes that have just ended or are becoming another program.
    rss: float | None


class ProcessStat(NamedTuple):
    """One line of /proc/<pid>/stat, as far as it is needed; times in ticks, memory in pages.

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
    #: 0: unknown. Each process that runs a program has resident pages; the kernel shows none of one
    #: that has just ended, that is becoming another program, or whose pages it counts late.
    rss: int

    @classmethod
    def read(cls, pid: int) -> ProcessStat | None:
        """What the kernel says of a process; None if there is none."""
        try:
            line = _content(f"/proc/{pid}/stat")
        except OSError:
            return None
        # The name stands in parentheses, and may have any byte in it: these too, and spaces.
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
    """When a process started, in ticks since the start of the machine.

    With its number this says which process it is: numbers are used again, the two together not.

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

    What its children used comes with them when it waits for them, and is lost when it does not.
    So it is held against what they were last seen with: the larger of both is counted.
    """

    tree: _Tree[Key]
    stat: ProcessStat
    #: Ticks of its children when it was first seen.
    before: int
    #: Ticks that its children had when they were last seen before they went.
    gone: int = 0
    #: Whether it is in the tree only because it can be in no other: it may be none of ours.
    claimed: bool = False

    def ticks(self) -> int:
        return self.stat.own + self.before + max(self.gone, self.stat.waited - self.before)


@dataclass(slots=True, eq=False)
class _Tree(Generic[Key]):
    key: Key
    root: _Member[Key] | None = None
    #: What its processes have in their environment, so that they are known without their parents.
    mark: TaskMark | None = None
    members: dict[int, _Member[Key]] = field(default_factory=dict)
    #: CPU seconds of processes that went, apart from the first, and that nobody in it waited for.
    gone: float = 0.0
    least: float = 0.0

    def reading(self, waited: float | None = None) -> TreeUsage:
        """What it used so far.

        Args:
            waited: CPU seconds of its first process and of those that this one waited for, at
                least; None: unknown.
        """
        if self.root is None and waited is None and not self.members and not self.gone:
            return TreeUsage(None, None)  # its first process was gone before it was seen
        first = self.root.ticks() / _TICKS if self.root is not None else 0.0
        others = sum(one.ticks() for one in self.members.values() if one is not self.root) / _TICKS
        self.least = max(self.least, self.gone + others + max(first, waited or 0.0))
        pages = sum(one.stat.rss for one in self.members.values())
        return TreeUsage(self.least, float(pages * _PAGE) if pages else None)


class ProcessTrees(Generic[Key]):
    """Trees of processes, looked at together: one pass over /proc serves them all.

    A process belongs to a tree if its parent does, if it is in the session that the first process
    of the tree leads, or if it was seen there before, whoever its parent is now. One that was
    never seen with its parent is known by its environment, where that has the `TWINLOOP_RUN`,
    `TWINLOOP_TASK` and `TWINLOOP_RANK` of the tree. One that had ended by then has no environment:
    if it has become a child of this process, it belongs to the only tree that is older than it.

    The CPU time of a tree is that of its processes and of all those that they waited for; what one
    that nobody waited for used after it was last seen is lost. It never decreases.

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
        #: Parents stand before their children, and are so read before them: what a child used is
        #: then never counted twice because it was waited for in the middle of a pass.
        self._members: dict[int, _Member[Key]] = {}
        self._known: set[tuple[str, int]] = set()
        self._judged: set[tuple[int, int]] = set()
        #: How many orphans ended before they were seen, and may be of several trees: what they used
        #: is counted nowhere.
        self.unassigned_orphans = 0
        #: Who orphans of the trees may be given to: those who stand above them.
        self._above = {1}
        self._rise(os.getpid())

    def add(self, key: Key, pid: int, mark: TaskMark | None = None) -> None:
        """Follow the tree of a process, which is there or has not been waited for.

        Args:
            key: What to call the tree.
            pid: Its first process.
            mark: What it has in its environment, if it does. It cannot be read from there now: a
                process that has just been started may not have it yet.
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
        self._rise(stat.parent)
        if any(name == str(pid) for name, _ in self._known):
            self._known.clear()  # it was a stranger until now, and so were its children

    def forget(self, key: Key) -> None:
        """Follow a tree no longer."""
        tree = self._trees.pop(key, None)
        if tree is None or tree.root is None:
            return
        for member in list(tree.members.values()):
            self._leave(member)
        _ROOTS.discard((tree.root.stat.pid, tree.root.stat.start))
        if self._sessions.get(tree.root.stat.pid) is tree:
            del self._sessions[tree.root.stat.pid]

    def scan(self) -> dict[Key, TreeUsage]:
        """What every tree has used so far, and what it holds now."""
        self._update(self._members)
        self._discover()
        return {key: tree.reading() for key, tree in self._trees.items()}

    def pids(self, key: Key) -> list[int]:
        """The processes of a tree that live now."""
        return [member.stat.pid for member in self._alive(key)]

    def list_dead(self) -> list[int]:
        """Those that had ended when they were last looked at, and that nobody has waited for.

        Without those that may be no orphans, but children that another part of this program has
        started and is going to wait for.
        """
        return [
            pid for pid, member in self._members.items() if member.stat.dead and not member.claimed
        ]

    def kill(self, key: Key, signal_: int) -> int:
        """Send a signal to every process of a tree; how many got it."""
        return sum(_signalled(member.stat, signal_) for member in self._alive(key))

    def owner(self, pid: int) -> Key | None:
        """The tree that a process belongs to, which may be a zombie; None: to none of them."""
        if pid not in self._members:
            self._discover()
        member = self._members.get(pid)
        return None if member is None else member.tree.key

    def record_reaped(self, pid: int, cpu: float) -> Key | None:
        """Take note of an orphan that was waited for from outside, and of what it used in all.

        Returns the tree that it belonged to; None if it was never seen in one.
        """
        member = self._members.get(pid)
        if member is None or member is member.tree.root:
            return None
        self._leave(member)
        member.tree.gone += max(cpu, member.ticks() / _TICKS)
        return member.tree.key

    def total_cpu_time(self, key: Key, waited: float | None) -> float | None:
        """CPU seconds of a tree whose first process has ended; None: unknown.

        Args:
            key: The tree.
            waited: What its first process used in all; None: others wait for that process.
        """
        tree = self._trees[key]
        self._update(tree.members)
        self._discover()
        return tree.reading(waited).cpu

    def _alive(self, key: Key) -> list[_Member[Key]]:
        """Who lives in a tree; the others are not looked at."""
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
        """Read again who is known to belong to a tree, or to any."""
        vanished: dict[int, _Member[Key]] = {}
        for pid, member in list(members.items()):
            stat = ProcessStat.read(pid)
            if stat is None or stat.start != member.stat.start:
                vanished[pid] = member
                self._leave(member)
                if stat is not None:  # somebody else has its number now, and is yet to be seen
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
        """Look at every process that was not there in the pass before."""
        # The number of its folder tells a process from a later one that has its number.
        with os.scandir("/proc") as entries:
            now = {(entry.name, entry.inode()) for entry in entries if entry.name[0] <= "9"}
        numbers = sorted(int(name) for name, _ in now - self._known)
        self._known = now
        found = (ProcessStat.read(pid) for pid in numbers if pid not in self._members)
        strangers = self._settled(stat for stat in found if stat is not None)
        orphans = [stat for stat in strangers if stat.parent in self._above]
        marked = [(stat, self._by_mark(stat)) for stat in orphans]
        for stat, tree in marked:
            if tree is not None:
                self._join(tree, stat)
        if any(tree is not None for _, tree in marked):
            self._settled(stat for stat in strangers if stat.pid not in self._members)
        for stat in orphans:
            if stat.dead and stat.parent == os.getpid() and stat.pid not in self._members:
                self._claim(stat)

    def _claim(self, stat: ProcessStat) -> None:
        """Take in an orphan that ended before it was seen, if it can be of one tree only."""
        one = (stat.pid, stat.start)
        # Trees of a run have left the session of this process, and nobody comes back to one.
        strange = self._run is None or stat.session == os.getsid(0) or one in _ROOTS
        begun = [
            tree
            for tree in self._trees.values()
            if tree.root is not None and tree.root.stat.start <= stat.start
        ]
        if strange or not begun or one in self._judged:
            return
        self._judged.add(one)
        if len(begun) == 1:
            self._join(begun[0], stat).claimed = True
        else:
            self.unassigned_orphans += 1

    def _settled(self, found: Iterable[ProcessStat]) -> list[ProcessStat]:
        """Take in whom a tree is known to have; the others, when no more can be placed."""
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
        # A session keeps its number as long as it has a process. A stranger that leads one of that
        # number has come to it after the tree's was over.
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
        # Of several attempts at one task, the last that had begun.
        return max(begun, key=lambda one: one[0])[1] if begun else None

    def _mark(self, pid: int) -> TaskMark | None:
        """What a process has in its environment, if it is of this run."""
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

    def _rise(self, pid: int) -> None:
        """Take note of everybody from a process up."""
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


def _signalled(stat: ProcessStat, signal_: int) -> bool:
    """Send a signal to this process and to no other that has come to its number."""
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
