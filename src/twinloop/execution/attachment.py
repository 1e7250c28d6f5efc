"""Recording what runs already: processes with all that they start, or a control group."""

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
from twinloop.execution.run_folder import RunFolder, check_run_folder, unwritable
from twinloop.execution.run_journal import RunJournal
from twinloop.execution.run_trace import read_unfinished_run
from twinloop.execution.usage_recorder import ExecutionKey, UsageRecorder, check_period
from twinloop.trace import Manifest, Trace

_TICKS: Final = os.sysconf("SC_CLK_TCK")


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
    """Record what runs already, until it ends, time is up, or Ctrl-C; whatever it is, it is saved.

    Each process, with all that it starts, becomes a task; or a control group becomes one. t = 0 is
    the start of the oldest. What happened before is known only as a sum: it becomes one sample,
    and is noted in the manifest. Nobody but its parent learns how a process ended, so tasks have
    neither a status nor an exit code.

    Args:
        pids: Processes; none of them in the tree of another.
        folder: Where the Trace is written; until the end it holds a journal that can be read.
        cgroup: A control group: its folder, or its place below the top of its hierarchy.
        period: Seconds between two samples, at least 0.05.
        until: Stop after so many seconds.
        power: Whether to read the counters of power that this machine has.
        overwrite: Replace a run that is there.

    >>> import subprocess, tempfile
    >>> with tempfile.TemporaryDirectory() as there, subprocess.Popen(["sleep", "60"]) as nap:
    ...     trace = attach([nap.pid], folder=f"{there}/run", period=0.1, until=0.3)
    ...     nap.kill()
    >>> trace.tasks["name"].to_list(), trace.manifest.kind
    (['sleep'], 'recorded')
    """
    check_period(period)
    if until is not None and not until > 0:
        raise InputError(f"{until:g} s is no time to record for", field="until")
    numbers = list(pids)
    if bool(numbers) == (cgroup is not None):
        raise InputError("say either which processes or which control group to record")
    path = Path(folder).absolute()
    check_run_folder(path, overwrite=overwrite)
    _check_apart(numbers)
    with ExitStack() as stack:
        watched: list[Observed] = []
        if cgroup is not None:
            watched.append(stack.enter_context(closing(ObservedGroup(cgroup))))
        for number in numbers:
            watched.append(stack.enter_context(closing(ObservedTree(number))))
        clock = _Clock(min(one.ticks for one in watched) / _TICKS)
        plan = _plan(watched, period)
        run = RunFolder.create(path, plan, overwrite=overwrite)
        stack.callback(run.close)
        meters = PowerRecorder(find_meters() if power == "auto" else [], period=period)
        try:
            following = _Following(watched, plan, clock, run.journal, period, meters)
            following.begin()
            following.go_on(until)
            trace = read_unfinished_run(path)
            run.finish(trace)
        except OSError as error:
            raise unwritable(path, error) from None
    return trace


class _Clock(RunClock):
    """A clock whose t = 0 lies before it was made: so many seconds after the machine started."""

    def __init__(self, zero: float) -> None:
        super().__init__()
        back = self._zero - round(zero * 1e9)
        self._zero -= back
        self.epoch_ms -= round(back / 1e6)


class _Following:
    """The record of what is watched, from its first sample to its end."""

    def __init__(
        self,
        watched: list[Observed],
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
        #: Those that have not ended, by the number of their task.
        self._open = dict(enumerate(watched))

    def begin(self) -> None:
        """What there was before, and the first sample."""
        self._journal.write(e="begin", t=0.0, epoch_ms=self._clock.epoch_ms)
        starts = {}
        for task, one in self._open.items():
            starts[task], _ = self._clock.start_time(one.ticks, 0.0, self._clock.now())
            self._journal.write(e="submit", t=starts[task], task=task)
            where = {"task": task, "attempt": 0, "machine": 0}
            self._journal.write(e="start", t=starts[task], **where, cores=None, pid=one.pid)
            self._recorder.follow((task, 0, 0), one, one.pid, fresh=False)
        readings = self._trees.scan()
        now = self._clock.now()
        for task, one in self._open.items():
            cpu = one.read()[0] if one.is_accounted else readings[(task, 0, 0)].cpu
            self._before(task, cpu, now - starts[task])
        self._recorder.sample(self._clock.now())

    def _before(self, task: int, cpu: float | None, length: float) -> None:
        """Say what was used before the first sample."""
        name, one = self._names[task], self._open[task]
        if cpu is None:
            self._say(f"{name}: ended before it was recorded: what it used is unknown")
            return
        most = length * self._cores
        if isinstance(one, ObservedGroup) and cpu > most:
            one.exclude_cpu_time(cpu - most)
            self._say(
                f"{name}: {cpu - most:.2f} CPU seconds are left out: they are of processes that "
                "were gone when the oldest that is there started"
            )
            cpu = most
        self._say(
            f"{name}: the {cpu:.2f} CPU seconds of the {length:.2f} s before it was recorded are "
            "one sample; how they were spread is not known"
        )

    def go_on(self, until: float | None) -> None:
        """Record until all have ended, time is up, or somebody wants it to end."""
        stop = math.inf if until is None else self._clock.now() + until
        with Interrupts() as interrupts, select.epoll() as events:
            events.register(interrupts, select.EPOLLIN)
            files = {one.handle: task for task, one in self._open.items() if one.handle is not None}
            for handle in files:
                events.register(handle, select.EPOLLIN)
            while self._open and not interrupts.count and (now := self._clock.now()) < stop:
                due = min(self._recorder.due, self._meters.due, stop)
                for handle, _ in events.poll(max(0.0, due - now)):
                    if handle in files:
                        events.unregister(handle)
                        self._close(files[handle])
                    else:
                        interrupts.drain()
                self._sample()
        for task in list(self._open):
            self._say(f"{self._names[task]}: was still running when the recording ended")
            self._close(task)
        facts = {"recording": self._recorder.facts(), "power": self._meters.facts()}
        self._journal.write(e="finish", t=self._clock.now(), facts=facts)

    def _sample(self) -> None:
        """Whatever is due."""
        now = self._clock.now()
        if self._recorder.due <= now:
            for task, one in list(self._open.items()):
                if isinstance(one, ObservedGroup) and one.is_empty():
                    self._close(task)
            self._recorder.sample(self._clock.now())
        if self._meters.due <= now:
            self._journal.write(e="power", t=now, rows=self._meters.sample(now))

    def _close(self, task: int) -> None:
        one = self._open.pop(task)
        now = self._clock.now()
        if one.pid is not None and self._gone(one.pid):
            self._say(
                f"{self._names[task]}: ended between two samples, and its parent waits for it: "
                "what it used after the last one is unknown"
            )
        figures = self._recorder.close((task, 0, 0), None, now)
        where = {"task": task, "attempt": 0, "machine": 0, "pid": one.pid}
        self._journal.write(e="end", t=now, **where, code=None, reason=None, left=0, **figures)

    def _gone(self, pid: int) -> bool:
        """Whether a process went without its account being seen, which lasts until it is reaped."""
        self._trees.scan()
        return self._trees.owner(pid) is None

    def _say(self, text: str) -> None:
        self._journal.write(e="note", t=self._clock.now(), text=text)


def _check_apart(pids: list[int]) -> None:
    """An error if a process is there twice, or in the tree of another."""
    for pid in pids:
        if pids.count(pid) > 1:
            raise InputError(f"process {pid} is named twice", field="pid")
        above = ProcessStat.read(pid)
        while above is not None and above.parent:
            if above.parent in pids:
                raise InputError(
                    f"process {pid} is one that process {above.parent} started",
                    field="pid",
                    remedy="name one of them: what it starts is recorded with it",
                )
            above = ProcessStat.read(above.parent)


def _plan(watched: list[Observed], period: float) -> Trace:
    """What is known before anything is recorded."""
    rows = [one.task_columns() for one in watched]
    names = tuple(row["id"] for row in rows)
    cpus = os.cpu_count() or 1
    node = {
        "node": os.uname().nodename,
        "cores": float(cpus),
        "mhz": LocalMachine.detect().mhz,
        "memory": float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
    }
    submitted = "tasks that ran already: they are taken as submitted when they started"
    return Trace(
        manifest=Manifest(
            kind="recorded",
            sampling_period=period,
            cleaned=(
                Cleaning(
                    kind="assumed", what=submitted, count=len(rows), examples=names[:EXAMPLES]
                ),
            ),
            facts={"mode": "attached", "run": {"machines": 1, "cores": float(cpus)}},
        ),
        tasks=pl.DataFrame(rows, schema_overrides={"command": pl.List(pl.String)}),
        nodes=pl.DataFrame([node]),
    )
