"""What running tasks use: sampled while they run, closed when they end."""

from __future__ import annotations

import functools
import math
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from twinloop import _core
from twinloop.description.errors import InputError
from twinloop.execution.clock import RunClock
from twinloop.execution.process_trees import ProcessTrees, TreeUsage

if TYPE_CHECKING:
    from twinloop.execution.run_journal import RunJournal

T = TypeVar("T")

#: Which execution is followed: task, attempt and machine, by number.
ExecutionKey = tuple[int, int, int]

#: The shortest time between two passes (s): CPU time is counted in ticks of 10 ms.
MIN_PERIOD: Final = 0.05
#: A reading that was not held up for longer than this has a time (s); else it is tried again.
_SHARP: Final = 0.002
_TRIES: Final = 3
#: What the processor counts, where the kernel lets us ask.
COUNTERS: Final = ("instructions", "cycles", "cache_misses")


class AccountedTask(Protocol):
    """What is asked of the share that a task has on a node.

    >>> class Unconfined:
    ...     is_accounted = False
    ...     def read(self): return 0.0, None
    ...     def peak(self): return None
    >>> part: Accounted = Unconfined()
    """

    @property
    def is_accounted(self) -> bool:
        """Whether a group counts for it; if not, its processes are looked at."""

    def read(self) -> tuple[float, float | None]:
        """CPU seconds so far, and resident bytes now; None: unknown."""

    def peak(self) -> float | None:
        """The most memory that it ever had (bytes)."""


@dataclass(slots=True)
class _Followed:
    part: AccountedTask
    #: Kept apart: a part that is closed with its node does not account any more.
    is_accounted: bool
    counters: list[tuple[str, int]]
    #: CPU seconds when it was last read; None: it never was.
    cpu: float | None = None
    #: The most resident memory that was seen; None: unknown.
    most: float | None = None
    #: The most that this process had when it was started (bytes). Until it becomes its program, a
    #: process lives in the memory of the one that started it, and the kernel counts that to it.
    inherited: float = 0.0


class UsageRecorder:
    """Samples what running tasks use, at the times k x period, and closes their accounts.

    Each pass reads every task once and writes one line. A pass that could not be made in time is
    not made up for: what is read is cumulative, so nothing is lost.

    >>> import os, subprocess
    >>> class Unconfined:
    ...     is_accounted = False
    >>> class Printed:
    ...     def write(self, **fields): print(fields["e"], [row[:3] for row in fields["rows"]])
    >>> recorder = UsageRecorder(RunClock(), Printed(), period=0.5, trees=ProcessTrees())
    >>> recorder.due
    inf
    >>> child = subprocess.Popen(["sleep", "60"])
    >>> recorder.follow((7, 0, 0), Unconfined(), child.pid)
    >>> recorder.sample(recorder.due)
    use [[7, 0, 0]]
    >>> child.kill()
    >>> _, child.returncode, account = os.wait4(child.pid, 0)
    >>> closing = recorder.close((7, 0, 0), account, 1.1)
    >>> closing["cpu"] == account.ru_utime + account.ru_stime
    True
    """

    def __init__(
        self,
        clock: RunClock,
        journal: RunJournal,
        *,
        period: float = 1.0,
        trees: ProcessTrees[ExecutionKey],
    ) -> None:
        self.period = check_period(period)
        #: Run time of the next pass; infinite when nobody is followed.
        self.due = math.inf
        self._clock = clock
        self._journal = journal
        self._trees = trees
        self._followed: dict[ExecutionKey, _Followed] = {}
        self._passes = self._samples = self._missed = self._unread = 0
        self._late = self._latest = 0.0
        self._spent = 0.0
        self._since = self._watched = 0.0
        self._counted: set[str] = set()

    def follow(
        self,
        key: ExecutionKey,
        part: AccountedTask,
        pid: int | None,
        *,
        rank: int | None = None,
        fresh: bool = True,
    ) -> None:
        """Sample an execution from now on.

        Args:
            key: The execution.
            part: Where it runs.
            pid: Its first process; a task with accounting can do without.
            rank: Which part of its task it is, by which its orphans are told from those of others.
            fresh: Whether it has just been started. Of one that was there before, the processor
                has counted only a part, so that its counters are left out.
        """
        with self._timed():
            counters = _core.open_counters(pid) if fresh and pid is not None else []
            self._counted.update(name for name, _ in counters)
            if not part.is_accounted and pid is not None:
                self._trees.add(key, pid, (str(key[0]), None if rank is None else str(rank)))
            if not self._followed:
                self._since = self._clock.now()
                self.due = self._after(self._since)
            one = self._followed[key] = _Followed(part, part.is_accounted, counters)
            one.inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0

    def sample(self, now: float) -> None:
        """One pass over all, which is one line."""
        if not self._followed:
            return
        with self._timed():
            late = max(0.0, now - self.due)
            self._late += late
            self._latest = max(self._latest, late)
            self._missed += int(late / self.period)
            self.due = self._after(now)
            rows = self._rows()
            self._passes += 1
            self._samples += len(rows)
            self._journal.write(e="use", t=now, rows=rows)

    def close(
        self, key: ExecutionKey, rusage: resource.struct_rusage | None, pid_gone_at: float
    ) -> dict[str, Any]:
        """What an execution used in all; it is followed no longer.

        Args:
            key: The execution.
            rusage: The account of its first process, which has been waited for, and of everybody
                whom that one waited for. None: others wait for it.
            pid_gone_at: When that was.

        Returns:
            `cpu` seconds and `peak` memory (bytes), `switches` (voluntary,
            involuntary), `faults` (minor, major), and the `counters` that there were. What is
            unknown is None, never 0.
        """
        with self._timed():
            one = self._followed.pop(key)
            cpu = None if rusage is None else rusage.ru_utime + rusage.ru_stime
            peak = None
            if one.is_accounted:
                reading = self._read(one)
                self._unread += reading is None
                cpu = cpu if reading is None else reading.cpu
                peak = one.part.peak()
            else:
                cpu = self._trees.total_cpu_time(key, cpu)
                self._trees.forget(key)
            if peak is None:
                peak = one.most
                if rusage is not None and rusage.ru_maxrss * 1024.0 > one.inherited:
                    peak = _larger(peak, rusage.ru_maxrss * 1024.0)
            if not self._followed:
                self._watched += max(0.0, pid_gone_at - self._since)
                self.due = math.inf
            return {
                "cpu": _larger(cpu, one.cpu),
                "peak": peak,
                "switches": [rusage.ru_nvcsw, rusage.ru_nivcsw] if rusage else [None, None],
                "faults": [rusage.ru_minflt, rusage.ru_majflt] if rusage else [None, None],
                "counters": _closed(one.counters),
            }

    def record_orphan(self, pid: int, rusage: resource.struct_rusage) -> ExecutionKey | None:
        """Take note of an orphan that was waited for; the execution it belonged to, if known."""
        return self._trees.record_reaped(pid, rusage.ru_utime + rusage.ru_stime)

    def facts(self) -> dict[str, Any]:
        """How much was recorded, how punctually, and what that cost."""
        watched = self._watched
        if self._followed:
            watched += max(0.0, self._clock.now() - self._since)
        return {
            "period_s": self.period,
            "passes": self._passes,
            "samples": self._samples,
            "missed_passes": self._missed,
            "late_mean_s": self._late / self._passes if self._passes else 0.0,
            "late_max_s": self._latest,
            "unread": self._unread,
            "orphans_unplaced": self._trees.unassigned_orphans,
            "cpu_s": self._spent,
            # Of less than a period, nothing can be said.
            "share_of_core": self._spent / watched if watched >= self.period else None,
            "counters": [name for name in COUNTERS if name in self._counted],
            "counters_absent": [name for name in COUNTERS if name not in self._counted],
        }

    def _rows(self) -> list[list[float | None]]:
        """A row for each: task, attempt, machine, CPU time, memory, and when that was read.

        Memory that is unknown is None.
        """
        walked: dict[ExecutionKey, TreeUsage] = {}
        seen = self._clock.now()
        if any(not one.is_accounted for one in self._followed.values()):
            walked, seen = self._timely(self._trees.scan)
        rows: list[list[float | None]] = []
        for key, one in self._followed.items():
            reading: TreeUsage | None
            if one.is_accounted:
                reading, read = self._timely(functools.partial(self._read, one))
            else:
                reading, read = walked[key], seen
            if reading is None or reading.cpu is None:
                self._unread += 1
                continue
            one.cpu = _larger(one.cpu, reading.cpu)
            one.most = _larger(one.most, reading.rss)
            rows.append([*key, one.cpu, reading.rss, read])
        return rows

    def _timely(self, look: Callable[[], T]) -> tuple[T, float]:
        """What is seen, and when: again, if this process lost its CPU in the middle of it."""
        tries = []
        for _ in range(_TRIES):
            before, spent = self._clock.now(), time.thread_time()
            found = look()
            after, spent = self._clock.now(), time.thread_time() - spent
            tries.append((after - before - spent, found, 0.5 * (before + after)))
            if tries[-1][0] < _SHARP:
                break
        _, found, when = min(tries, key=lambda one: one[0])
        return found, when

    def _read(self, one: _Followed) -> TreeUsage | None:
        """What the group of a part says; None if it is gone, with its node."""
        try:
            return TreeUsage(*one.part.read())
        except (OSError, ValueError):
            return None

    def _after(self, now: float) -> float:
        """The next time on the grid."""
        due = (math.floor(now / self.period) + 1) * self.period
        return due if due > now else due + self.period

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self._spent += time.thread_time() - began


def check_period(period: float) -> float:
    """The time between two passes (s), if it is one that can be kept.

    >>> check_period(0.5)
    0.5
    >>> check_period(0.01)
    Traceback (most recent call last):
    twinloop.InputError: period: 0.01 s is too short (at least 0.05 s)
    """
    if not math.isfinite(period) or period < MIN_PERIOD:
        problem = "is too short" if period < MIN_PERIOD else "is no length"
        raise InputError(f"{period:g} s {problem}", field="period", remedy="at least 0.05 s")
    return float(period)


def _larger(one: float | None, other: float | None) -> float | None:
    """The larger of two figures, of which each may be unknown."""
    return max((each for each in (one, other) if each is not None), default=None)


def _closed(counters: list[tuple[str, int]]) -> dict[str, int]:
    values = {}
    for name, descriptor in counters:
        with suppress(OSError):  # then it is not known
            value = _core.read_counter(descriptor)
            if value is not None:
                values[name] = value
        os.close(descriptor)
    return values
