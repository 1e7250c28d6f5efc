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

#: Minimum period of sampling (s): CPU time is counted in ticks of 10 ms.
MIN_PERIOD: Final = 0.05
#: Maximum delay within a reading (s); after a longer delay it is repeated.
_MAX_DELAY: Final = 0.002
#: Maximum number of attempts at one reading.
_MAX_ATTEMPTS: Final = 3
#: Hardware counters, where the kernel allows them.
COUNTERS: Final = ("instructions", "cycles", "cache_misses")


class AccountedTask(Protocol):
    """The accounting of a task on a node.

    >>> class Unconfined:
    ...     is_accounted = False
    ...     def read(self): return 0.0, None
    ...     def peak(self): return None
    >>> part: AccountedTask = Unconfined()
    """

    @property
    def is_accounted(self) -> bool:
        """Whether a control group accounts for it; otherwise its processes are read."""

    def read(self) -> tuple[float, float | None]:
        """Return the CPU time so far (s) and the resident memory now (bytes; None if unknown)."""

    def peak(self) -> float | None:
        """Return the peak of the memory (bytes); None if unknown."""


@dataclass(slots=True)
class _RecordedTask:
    task: AccountedTask
    #: Copied from the task, because a task that is closed with its node loses its accounting.
    is_accounted: bool
    counters: list[tuple[str, int]]
    #: CPU time at the last reading (s); None if it was never read.
    cpu: float | None = None
    #: Maximum resident memory of all readings (bytes); None if unknown.
    max_memory: float | None = None
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
        self._total_delay = self._max_delay = 0.0
        self._cpu_seconds = 0.0
        self._since = self._recorded_seconds = 0.0
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
                self.due = self._next_time(self._since)
            recorded = self._recorded[key] = _RecordedTask(task, task.is_accounted, counters)
            recorded.inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0

    def sample(self, now: float) -> None:
        """Read all executions, and write one line to the journal."""
        if not self._recorded:
            return
        with self._timed():
            late = max(0.0, now - self.due)
            self._total_delay += late
            self._max_delay = max(self._max_delay, late)
            self._missed += int(late / self.period)
            self.due = self._next_time(now)
            rows = self._read_rows()
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
                that this one waited for. None if another process waits for it.
            pid_gone_at: Time of its end (s).

        Returns:
            `cpu` time (s) and `peak` memory (bytes), `switches` (voluntary, involuntary), `faults`
            (minor, major), and the available `counters`. Unknown values are None, never 0.
        """
        with self._timed():
            recorded = self._recorded.pop(key)
            cpu = None if rusage is None else rusage.ru_utime + rusage.ru_stime
            peak = None
            if recorded.is_accounted:
                reading = self._read(recorded)
                self._unread += reading is None
                cpu = cpu if reading is None else reading.cpu
                peak = recorded.task.peak()
            else:
                cpu = self._trees.total_cpu_time(key, cpu)
                self._trees.forget(key)
            if peak is None:
                peak = recorded.max_memory
                if rusage is not None and rusage.ru_maxrss * 1024.0 > recorded.inherited:
                    peak = _larger(peak, rusage.ru_maxrss * 1024.0)
            if not self._recorded:
                self._recorded_seconds += max(0.0, pid_gone_at - self._since)
                self.due = math.inf
            return {
                "cpu": _larger(cpu, recorded.cpu),
                "peak": peak,
                "switches": [rusage.ru_nvcsw, rusage.ru_nivcsw] if rusage else [None, None],
                "faults": [rusage.ru_minflt, rusage.ru_majflt] if rusage else [None, None],
                "counters": _close_counters(recorded.counters),
            }

    def record_orphan(self, pid: int, rusage: resource.struct_rusage) -> ExecutionKey | None:
        """Record an orphan that was waited for; returns its execution, if that is known."""
        return self._trees.record_reaped(pid, rusage.ru_utime + rusage.ru_stime)

    def facts(self) -> dict[str, Any]:
        """Return the number of samples, their delays and the CPU time of recording (s).

        These facts are for the manifest.
        """
        recorded_seconds = self._recorded_seconds
        if self._recorded:
            recorded_seconds += max(0.0, self._clock.now() - self._since)
        return {
            "period_s": self.period,
            "passes": self._passes,
            "samples": self._samples,
            "missed_passes": self._missed,
            "late_mean_s": self._total_delay / self._passes if self._passes else 0.0,
            "late_max_s": self._max_delay,
            "unread": self._unread,
            "orphans_unplaced": self._trees.unassigned_orphans,
            "cpu_s": self._cpu_seconds,
            # Not meaningful for less than a period.
            "share_of_core": self._cpu_seconds / recorded_seconds
            if recorded_seconds >= self.period
            else None,
            "counters": [name for name in COUNTERS if name in self._counted],
            "counters_absent": [name for name in COUNTERS if name not in self._counted],
        }

    def _read_rows(self) -> list[list[float | None]]:
        """Read a row for each execution: task, attempt, machine, CPU time, memory and time.

        Unknown memory is None.
        """
        scanned: dict[ExecutionKey, TreeUsage] = {}
        scan_time = self._clock.now()
        if any(not recorded.is_accounted for recorded in self._recorded.values()):
            scanned, scan_time = self._read_timely(self._trees.scan)
        rows: list[list[float | None]] = []
        for key, recorded in self._recorded.items():
            reading: TreeUsage | None
            if recorded.is_accounted:
                reading, t = self._read_timely(functools.partial(self._read, recorded))
            else:
                reading, t = scanned[key], scan_time
            if reading is None or reading.cpu is None:
                self._unread += 1
                continue
            recorded.cpu = _larger(recorded.cpu, reading.cpu)
            recorded.max_memory = _larger(recorded.max_memory, reading.rss)
            rows.append([*key, recorded.cpu, reading.rss, t])
        return rows

    def _read_timely(self, read: Callable[[], T]) -> tuple[T, float]:
        """Return a reading with its time; repeat it if this process was preempted meanwhile."""
        readings = []
        for _ in range(_MAX_ATTEMPTS):
            before, thread_time = self._clock.now(), time.thread_time()
            result = read()
            after, thread_time = self._clock.now(), time.thread_time() - thread_time
            readings.append((after - before - thread_time, result, 0.5 * (before + after)))
            if readings[-1][0] < _MAX_DELAY:
                break
        _, result, t = min(readings, key=lambda reading: reading[0])
        return result, t

    def _read(self, recorded: _RecordedTask) -> TreeUsage | None:
        """Read the control group of a task; None if it is gone with its node."""
        try:
            return TreeUsage(*recorded.task.read())
        except (OSError, ValueError):
            return None

    def _next_time(self, now: float) -> float:
        """Return the next multiple of the period (s)."""
        due = (math.floor(now / self.period) + 1) * self.period
        return due if due > now else due + self.period

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self._cpu_seconds += time.thread_time() - began


def check_period(period: float) -> float:
    """Return a period of sampling (s); an InputError if it is not valid.

    >>> check_period(0.5)
    0.5
    >>> check_period(0.01)
    Traceback (most recent call last):
    twinloop.InputError: period: 0.01 s is too short (at least 0.05 s) [TL0206]
    """
    if not math.isfinite(period) or period < MIN_PERIOD:
        problem = "is too short" if period < MIN_PERIOD else "is not a finite period"
        raise InputError(
            f"{period:g} s {problem}", kind="out-of-range", field="period", remedy="at least 0.05 s"
        )
    return float(period)


def _larger(first: float | None, second: float | None) -> float | None:
    """Return the larger of two figures, each of which may be None (unknown)."""
    return max((figure for figure in (first, second) if figure is not None), default=None)


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
