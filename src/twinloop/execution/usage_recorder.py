"""Recorder of the CPU time and memory of running tasks."""

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

#: Key of an execution: numbers of task, attempt and machine.
ExecutionKey = tuple[int, int, int]

#: Shortest period of sampling (s): CPU time is counted in ticks of 10 ms.
MIN_PERIOD: Final = 0.05
#: Longest delay within a reading (s); after a longer delay it is repeated.
_MAX_DELAY: Final = 0.002
_ATTEMPTS: Final = 3
#: Hardware counters, where the kernel allows them.
COUNTERS: Final = ("instructions", "cycles", "cache_misses")


class AccountedTask(Protocol):
    """The accounting of a task on a node.

    >>> class Unconfined:
    ...     is_accounted = False
    ...     def read(self): return 0.0, None
    ...     def peak(self): return None
    >>> part: Accounted = Unconfined()
    """

    @property
    def is_accounted(self) -> bool:
        """Whether a control group accounts for it; else its processes are read."""

    def read(self) -> tuple[float, float | None]:
        """CPU time so far (s), and resident memory now (bytes; None: unknown)."""

    def peak(self) -> float | None:
        """Peak of the memory (bytes); None: unknown."""


@dataclass(slots=True)
class _RecordedTask:
    task: AccountedTask
    #: Copied here: a task that is closed with its node has no accounting any more.
    is_accounted: bool
    counters: list[tuple[str, int]]
    #: CPU time at the last reading (s); None: it was never read.
    cpu: float | None = None
    #: Largest resident memory of all readings (bytes); None: unknown.
    most: float | None = None
    #: Peak memory of this process at the start of the task (bytes). Between fork and exec a process
    #: has the memory of its parent, and the kernel includes that in its peak.
    inherited: float = 0.0


class UsageRecorder:
    """Samples the usage of running tasks at the times k x period, and totals it at their end.

    Each pass reads every task once and writes one line. A missed pass is not repeated: readings
    are cumulative, so that nothing is lost.

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
        #: Time of the next pass (s); infinite if no task is recorded.
        self.due = math.inf
        self._clock = clock
        self._journal = journal
        self._trees = trees
        self._recorded: dict[ExecutionKey, _RecordedTask] = {}
        self._passes = self._samples = self._missed = self._unread = 0
        self._late = self._latest = 0.0
        self._spent = 0.0
        self._since = self._watched = 0.0
        self._counted: set[str] = set()

    def follow(
        self,
        key: ExecutionKey,
        task: AccountedTask,
        pid: int | None,
        *,
        rank: int | None = None,
        fresh: bool = True,
    ) -> None:
        """Record an execution from now on.

        Args:
            key: Key of the execution.
            task: Its accounting.
            pid: Its first process; not needed with a control group.
            rank: Rank of the node within the task, which identifies the orphans of the execution.
            fresh: Whether it has just been started. Hardware counters of a process that has run
                before would be incomplete, and are left out.
        """
        with self._timed():
            counters = _core.open_counters(pid) if fresh and pid is not None else []
            self._counted.update(name for name, _ in counters)
            if not task.is_accounted and pid is not None:
                self._trees.add(key, pid, (str(key[0]), None if rank is None else str(rank)))
            if not self._recorded:
                self._since = self._clock.now()
                self.due = self._after(self._since)
            one = self._recorded[key] = _RecordedTask(task, task.is_accounted, counters)
            one.inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0

    def sample(self, now: float) -> None:
        """Read all executions, and write one line to the journal."""
        if not self._recorded:
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
        """Stop recording an execution, and return its totals.

        Args:
            key: Key of the execution.
            rusage: Usage of its first process, which has been waited for, and of all processes
                that this one waited for. None: another process waits for it.
            pid_gone_at: Time of its end (s).

        Returns:
            `cpu` time (s) and `peak` memory (bytes), `switches` (voluntary, involuntary), `faults`
            (minor, major), and the available `counters`. Unknown values are None, never 0.
        """
        with self._timed():
            one = self._recorded.pop(key)
            cpu = None if rusage is None else rusage.ru_utime + rusage.ru_stime
            peak = None
            if one.is_accounted:
                reading = self._read(one)
                self._unread += reading is None
                cpu = cpu if reading is None else reading.cpu
                peak = one.task.peak()
            else:
                cpu = self._trees.total_cpu_time(key, cpu)
                self._trees.forget(key)
            if peak is None:
                peak = one.most
                if rusage is not None and rusage.ru_maxrss * 1024.0 > one.inherited:
                    peak = _larger(peak, rusage.ru_maxrss * 1024.0)
            if not self._recorded:
                self._watched += max(0.0, pid_gone_at - self._since)
                self.due = math.inf
            return {
                "cpu": _larger(cpu, one.cpu),
                "peak": peak,
                "switches": [rusage.ru_nvcsw, rusage.ru_nivcsw] if rusage else [None, None],
                "faults": [rusage.ru_minflt, rusage.ru_majflt] if rusage else [None, None],
                "counters": _close_counters(one.counters),
            }

    def record_orphan(self, pid: int, rusage: resource.struct_rusage) -> ExecutionKey | None:
        """Record an orphan that was waited for; returns its execution, if that is known."""
        return self._trees.record_reaped(pid, rusage.ru_utime + rusage.ru_stime)

    def facts(self) -> dict[str, Any]:
        """Number of samples, their delays, and the CPU time of the recording, for the manifest."""
        watched = self._watched
        if self._recorded:
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
            # Not meaningful for less than a period.
            "share_of_core": self._spent / watched if watched >= self.period else None,
            "counters": [name for name in COUNTERS if name in self._counted],
            "counters_absent": [name for name in COUNTERS if name not in self._counted],
        }

    def _rows(self) -> list[list[float | None]]:
        """Read a row for each execution: task, attempt, machine, CPU time, memory and time.

        Unknown memory is None.
        """
        scanned: dict[ExecutionKey, TreeUsage] = {}
        scan_time = self._clock.now()
        if any(not one.is_accounted for one in self._recorded.values()):
            scanned, scan_time = self._read_timely(self._trees.scan)
        rows: list[list[float | None]] = []
        for key, one in self._recorded.items():
            reading: TreeUsage | None
            if one.is_accounted:
                reading, t = self._read_timely(functools.partial(self._read, one))
            else:
                reading, t = scanned[key], scan_time
            if reading is None or reading.cpu is None:
                self._unread += 1
                continue
            one.cpu = _larger(one.cpu, reading.cpu)
            one.most = _larger(one.most, reading.rss)
            rows.append([*key, one.cpu, reading.rss, t])
        return rows

    def _read_timely(self, read: Callable[[], T]) -> tuple[T, float]:
        """Return a reading with its time; repeat it if this process was preempted meanwhile."""
        readings = []
        for _ in range(_ATTEMPTS):
            before, spent = self._clock.now(), time.thread_time()
            found = read()
            after, spent = self._clock.now(), time.thread_time() - spent
            readings.append((after - before - spent, found, 0.5 * (before + after)))
            if readings[-1][0] < _MAX_DELAY:
                break
        _, found, t = min(readings, key=lambda one: one[0])
        return found, t

    def _read(self, one: _RecordedTask) -> TreeUsage | None:
        """Read the control group of a task; None if it is gone with its node."""
        try:
            return TreeUsage(*one.task.read())
        except (OSError, ValueError):
            return None

    def _after(self, now: float) -> float:
        """The next multiple of the period."""
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
    """Return a period of sampling (s); an InputError if it is not valid.

    >>> check_period(0.5)
    0.5
    >>> check_period(0.01)
    Traceback (most recent call last):
    twinloop.InputError: period: 0.01 s is too short (at least 0.05 s) [TL0206]
    """
    if not math.isfinite(period) or period < MIN_PERIOD:
        problem = "is too short" if period < MIN_PERIOD else "is no period"
        raise InputError(
            f"{period:g} s {problem}", kind="out-of-range", field="period", remedy="at least 0.05 s"
        )
    return float(period)


def _larger(one: float | None, other: float | None) -> float | None:
    """The larger of two figures, each of which may be None (unknown)."""
    return max((each for each in (one, other) if each is not None), default=None)


def _close_counters(counters: list[tuple[str, int]]) -> dict[str, int]:
    """Close hardware counters, and return the values that could be read."""
    values = {}
    for name, descriptor in counters:
        with suppress(OSError):  # the value is unknown
            value = _core.read_counter(descriptor)
            if value is not None:
                values[name] = value
        os.close(descriptor)
    return values
