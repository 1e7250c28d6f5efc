"""Recording of running processes with their descendants, or of a control group."""

from __future__ import annotations

import math
import os
import select
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final, Literal

import polars as pl

from twinloop.description import Cleaning
from twinloop.description.cleaning import EXAMPLES
from twinloop.description.errors import InputError
from twinloop.execution.clock import RunClock
from twinloop.execution.interrupts import Interrupts
from twinloop.execution.local_machine import LocalMachine
from twinloop.execution.observed_processes import Observed, ObservedGroup, ObservedTree
from twinloop.execution.power import PowerRecorder, find_meters
from twinloop.execution.process_trees import ProcessStat, ProcessTrees
from twinloop.execution.run_folder import RunFolder, check_run_folder, make_run_write_error
from twinloop.execution.run_journal import RunJournal
from twinloop.execution.run_trace import read_unfinished_run
from twinloop.execution.usage_recorder import ExecutionKey, UsageRecorder, check_period
from twinloop.trace import Manifest, Trace

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


def attach(
    pids: Iterable[int] = (),
    *,
    folder: str | Path,
    cgroup: str | None = None,
    period: float = 1.0,
    until: float | None = None,
    power: Literal["auto", "none"] = "auto",
    overwrite: bool = False,
) -> Trace:
    """Record running processes until they end, until a time limit, or until Ctrl-C.

    Each process with its descendants becomes a task, or a control group becomes one task. t = 0 is
    the start of the oldest process. The CPU time before the recording is known only as a sum: it
    becomes one sample, with a note in the manifest. Only the parent of a process receives its exit
    status, so the tasks have neither a status nor an exit code.

    Args:
        pids: Process IDs; none may be a descendant of another.
        folder: Folder of the Trace; until the end it has a journal that can be read.
        cgroup: A control group: its folder, or its path below the root of its hierarchy.
        period: Time between two samples (s), at least 0.05.
        until: Time after which the recording stops (s).
        power: Whether to read the energy counters of this machine.
        overwrite: Whether to replace a run in the folder.

    >>> import subprocess, tempfile
    >>> with tempfile.TemporaryDirectory() as parent, subprocess.Popen(["sleep", "60"]) as nap:
    ...     trace = attach([nap.pid], folder=f"{parent}/run", period=0.1, until=0.3)
    ...     nap.kill()
    >>> trace.tasks["name"].to_list(), trace.manifest.kind
    (['sleep'], 'recorded')
    """
    check_period(period)
    if until is not None and not until > 0:
        raise InputError(f"must be positive, not {until:g} s", kind="out-of-range", field="until")
    pid_list = list(pids)
    if bool(pid_list) == (cgroup is not None):
        raise InputError(
            "give either processes or a control group to record", kind="conflicting-fields"
        )
    path = Path(folder).absolute()
    check_run_folder(path, overwrite=overwrite)
    _check_independent(pid_list)
    with ExitStack() as stack:
        observed: list[Observed] = []
        if cgroup is not None:
            observed.append(stack.enter_context(closing(ObservedGroup(cgroup))))
        for pid in pid_list:
            observed.append(stack.enter_context(closing(ObservedTree(pid))))
        first = min(process.start_ticks for process in observed)
        clock = RunClock(zero_ns=first * 10**9 // _TICKS_PER_SECOND)
        plan = _make_plan(observed, period)
        run = RunFolder.create(path, plan, overwrite=overwrite)
        stack.callback(run.close)
        meters = PowerRecorder(find_meters() if power == "auto" else [], period=period)
        try:
            recording = _AttachedRecording(observed, plan, clock, run.journal, period, meters)
            recording.begin()
            recording.record(until)
            trace = read_unfinished_run(path)
            run.finish(trace)
        except OSError as error:
            raise make_run_write_error(path, error) from None
    return trace


class _AttachedRecording:
    """The recording of running processes, from the first sample to the end."""

    def __init__(
        self,
        observed: list[Observed],
        plan: Trace,
        clock: RunClock,
        journal: RunJournal,
        period: float,
        meters: PowerRecorder,
    ) -> None:
        self._names = plan.tasks["id"].to_list()
        self._cores = float(plan.nodes["cores"][0])
        self._clock = clock
        self._journal = journal
        self._meters = meters
        self._trees: ProcessTrees[ExecutionKey] = ProcessTrees()
        self._recorder = UsageRecorder(clock, journal, period=period, trees=self._trees)
        #: Observed processes and groups that have not ended, by the number of their task.
        self._open = dict(enumerate(observed))

    def begin(self) -> None:
        """Write the start of each task, its usage before the recording, and the first sample."""
        self._journal.write(e="begin", t=0.0, epoch_ms=self._clock.epoch_ms)
        starts = {}
        for task, process in self._open.items():
            starts[task], _ = self._clock.start_time(process.start_ticks, 0.0, self._clock.now())
            self._journal.write(e="submit", t=starts[task], task=task)
            where = {"task": task, "attempt": 0, "machine": 0}
            self._journal.write(e="start", t=starts[task], **where, cores=None, pid=process.pid)
            self._recorder.follow((task, 0, 0), process, process.pid, fresh=False)
        readings = self._trees.scan()
        now = self._clock.now()
        for task, process in self._open.items():
            cpu = process.read()[0] if process.is_accounted else readings[(task, 0, 0)].cpu
            self._note_earlier_usage(task, cpu, now - starts[task])
        self._recorder.sample(self._clock.now())

    def _note_earlier_usage(self, task: int, cpu: float | None, length: float) -> None:
        """Write a note on the CPU time before the first sample."""
        name, process = self._names[task], self._open[task]
        if cpu is None:
            self._note(f"{name}: ended before it was recorded: its usage is unknown")
            return
        max_cpu = length * self._cores
        if isinstance(process, ObservedGroup) and cpu > max_cpu:
            process.exclude_cpu_time(cpu - max_cpu)
            self._note(
                f"{name}: {cpu - max_cpu:.2f} CPU seconds are left out: they belong to processes "
                "that had ended before the oldest remaining process started"
            )
            cpu = max_cpu
        self._note(
            f"{name}: the {cpu:.2f} CPU seconds of the {length:.2f} s before it was recorded are "
            "one sample; their distribution over that time is unknown"
        )

    def record(self, until: float | None) -> None:
        """Record until all tasks have ended, the time limit, or a request to end."""
        stop = math.inf if until is None else self._clock.now() + until
        with Interrupts() as interrupts, select.epoll() as events:
            events.register(interrupts, select.EPOLLIN)
            tasks_by_pidfd = {
                process.pidfd: task
                for task, process in self._open.items()
                if process.pidfd is not None
            }
            for pidfd in tasks_by_pidfd:
                events.register(pidfd, select.EPOLLIN)
            while self._open and not interrupts.count and (now := self._clock.now()) < stop:
                due = min(self._recorder.due, self._meters.due, stop)
                for pidfd, _ in events.poll(max(0.0, due - now)):
                    if pidfd in tasks_by_pidfd:
                        events.unregister(pidfd)
                        self._close(tasks_by_pidfd[pidfd])
                    else:
                        interrupts.drain()
                self._sample()
        for task in list(self._open):
            self._note(f"{self._names[task]}: was still running when the recording ended")
            self._close(task)
        facts = {"recording": self._recorder.facts(), "power": self._meters.facts()}
        self._journal.write(e="finish", t=self._clock.now(), facts=facts)

    def _sample(self) -> None:
        """Take the samples that are due."""
        now = self._clock.now()
        if self._recorder.due <= now:
            for task, process in list(self._open.items()):
                if isinstance(process, ObservedGroup) and process.is_empty():
                    self._close(task)
            self._recorder.sample(self._clock.now())
        if self._meters.due <= now:
            self._journal.write(e="power", t=now, rows=self._meters.sample(now))

    def _close(self, task: int) -> None:
        process = self._open.pop(task)
        now = self._clock.now()
        if process.pid is not None and self._is_gone(process.pid):
            self._note(
                f"{self._names[task]}: ended between two samples, and its parent has waited for "
                "it: its usage after the last sample is unknown"
            )
        figures = self._recorder.close((task, 0, 0), None, now)
        where = {"task": task, "attempt": 0, "machine": 0, "pid": process.pid}
        self._journal.write(e="end", t=now, **where, code=None, reason=None, left=0, **figures)

    def _is_gone(self, pid: int) -> bool:
        """Whether a process was reaped by its parent before its last CPU time was read."""
        self._trees.scan()
        return self._trees.owner(pid) is None

    def _note(self, text: str) -> None:
        self._journal.write(e="note", t=self._clock.now(), text=text)


def _check_independent(pids: list[int]) -> None:
    """Raise an InputError if a process is given twice or descends from another."""
    for pid in pids:
        if pids.count(pid) > 1:
            raise InputError(f"process {pid} is given twice", kind="repeated-run", field="pid")
        ancestor = ProcessStat.read(pid)
        while ancestor is not None and ancestor.parent:
            if ancestor.parent in pids:
                raise InputError(
                    f"process {pid} was started by process {ancestor.parent}",
                    kind="repeated-run",
                    field="pid",
                    remedy="give only one of them: its descendants are recorded with it",
                )
            ancestor = ProcessStat.read(ancestor.parent)


def _make_plan(observed: list[Observed], period: float) -> Trace:
    """Make the Trace before the recording: its tasks and its node."""
    rows = [process.task_columns() for process in observed]
    names = tuple(row["id"] for row in rows)
    cpus = os.cpu_count() or 1
    node = {
        "node": os.uname().nodename,
        "cores": float(cpus),
        "mhz": LocalMachine.detect().mhz,
        "memory": float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
    }
    submission_note = "tasks that were already running: submitted when they started"
    return Trace(
        manifest=Manifest(
            kind="recorded",
            sampling_period=period,
            cleaned=(
                Cleaning(
                    kind="assumed", what=submission_note, count=len(rows), examples=names[:EXAMPLES]
                ),
            ),
            facts={"mode": "attached", "run": {"machines": 1, "cores": float(cpus)}},
        ),
        tasks=pl.DataFrame(rows, schema_overrides={"command": pl.List(pl.String)}),
        nodes=pl.DataFrame([node]),
    )
