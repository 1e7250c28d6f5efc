"""The loop of a real run: it submits, asks the policy, starts, waits and writes all of it down."""

from __future__ import annotations

import heapq
import math
import select
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from twinloop.engine import CompiledScenario
from twinloop.engine.policy_errors import attribute_error
from twinloop.execution import failure_causes
from twinloop.execution.clock import RunClock
from twinloop.execution.interrupts import Interrupts
from twinloop.execution.latency import Latencies
from twinloop.execution.outages import Outage, Outages
from twinloop.execution.power import PowerRecorder
from twinloop.execution.run_journal import RunJournal
from twinloop.execution.run_progress import ProgressCallback, RunProgress
from twinloop.execution.task_starter import RunningTask, TaskProcess, TaskStarter, TaskStartError
from twinloop.execution.task_states import TaskStates
from twinloop.execution.usage_recorder import UsageRecorder

#: How often whoever watches is told (s).
_PACE: Final = 0.2
#: A wait is never longer than this (s): the system takes no more.
_LONGEST: Final = 3600.0


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """How long tasks may take, and how long they have to end once they are asked to."""

    #: The most that any task may take (s).
    task: float = math.inf
    #: From the request to end until it is killed (s).
    grace: float = 2.0


class DispatchLoop:
    """One run. `run` returns when every task is over, or when the user wants no more."""

    def __init__(
        self,
        compiled: CompiledScenario,
        clock: RunClock,
        journal: RunJournal,
        starter: TaskStarter,
        recorder: UsageRecorder,
        power: PowerRecorder,
        *,
        limits: TaskLimits,
        on_progress: ProgressCallback | None,
    ) -> None:
        self._compiled = compiled
        self._clock = clock
        self._journal = journal
        self._starter = starter
        self._recorder = recorder
        self._power = power
        self._limits = limits
        self._watcher = on_progress
        self._dispatcher = compiled.dispatcher()
        self._source = compiled.source()
        self._lives = TaskStates(compiled)
        self._names = list(compiled.names.machines)
        self._ids = compiled.arrays.ids.to_list()
        self._submits: dict[int, float] = {}
        self._attempts: Counter[int] = Counter()
        self._running: dict[int, RunningTask] = {}
        self._handles: dict[int, TaskProcess] = {}
        self._poll = select.epoll()
        #: Times at which tasks are asked to end, and killed: (time, task, attempt, signal).
        self._ends: list[tuple[float, int, int, int]] = []
        self._outages = Outages(compiled)
        self._closed: set[int] = set()
        self._asked = False
        self._ask_at = math.inf
        self._seen_free: list[float] = []
        self._told = -math.inf
        self._interval = compiled.scenario.model.decision_interval
        #: When it had started the last task, and could turn to the next.
        self._free_again = -math.inf
        #: From decisions to starts, and that without the starts of others that came before.
        self.dispatch = Latencies()
        self.start = Latencies()
        #: From ends until the policy has seen the cores free.
        self.release = Latencies()
        #: Whether the user ended it.
        self.interrupted = False

    # --- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute everything."""
        with Interrupts() as interrupts:
            self._poll.register(interrupts, select.EPOLLIN)
            try:
                while self._lives.left and not interrupts.count:
                    self._step()
                    if interrupts.count or not self._lives.left:
                        break
                    self._wait(interrupts)
                if interrupts.count:
                    self.interrupted = True
                    self._cancel(interrupts)
            finally:
                self._kill_all()
                self._poll.close()
        self._tell(force=True)

    def _step(self) -> None:
        """Everything that is due."""
        now = self._clock.now()
        if self._source.next_time <= now:
            for task in self._source.pop_due(now):
                self._submit(task, now)
        for outage in self._outages.pop_until(now):
            self._change_node(outage)
        self._end_late(now)
        self._ask_if_due()
        # What nobody waits for comes last.
        if self._recorder.due <= now:
            self._recorder.sample(now)
            self._starter.reap_orphans()
        if self._power.due <= now:
            self._journal.write(e="power", t=now, rows=self._power.sample(now))
        self._starter.tidy()
        if self._stuck():
            self._give_up()
        self._tell()

    def _wait(self, interrupts: Interrupts) -> None:
        """Until something ends or is due."""
        now = self._clock.now()
        due = min(
            # A decision that failed is a reason to ask again.
            now if self._asked and self._ask_at == math.inf else math.inf,
            self._source.next_time,
            self._recorder.due,
            self._power.due,
            self._dispatcher.wake_time,
            self._ask_at,
            self._outages.due,
            self._ends[0][0] if self._ends else math.inf,
            now + _LONGEST,
        )
        for handle, _ in self._poll.poll(max(0.0, due - now)):
            if handle == interrupts.fileno():
                interrupts.drain()
            else:
                self._ended(self._handles[handle])

    # --- the policy ------------------------------------------------------------------------------

    def _ask_if_due(self) -> None:
        now = self._clock.now()
        if self._asked and self._interval > 0 and self._ask_at == math.inf:
            self._ask_at = math.ceil(now / self._interval) * self._interval
        asked = self._asked if self._interval <= 0 else self._ask_at <= now
        if asked or self._dispatcher.wake_time <= now:
            self._ask()

    def _ask(self) -> None:
        self._asked, self._ask_at = False, math.inf
        now = self._clock.now()
        self._journal.write(e="ask", t=now)
        with attribute_error(self._compiled.policy, self._dispatcher.view):
            decisions = self._dispatcher.decide(now)
        for ended in self._seen_free:
            self.release.add(now - ended)
        self._seen_free.clear()
        for kind, task, places in decisions:
            if kind == "place" and task is not None:
                self._place(task, places, now)
            elif kind in ("preempt", "kill") and task is not None:
                self._take_off(task, kind, now)
            elif kind in ("open", "close"):
                state = "set-state on" if kind == "open" else "set-state off"
                self._journal.write(e=state, t=now, machine=places[0][0])
            else:
                where = places[0][0] if places else None
                self._journal.write(e=kind, t=now, task=task, machine=where)

    def _place(self, task: int, places: list[tuple[int, float]], decided: float) -> None:
        self._journal.write(e="place", t=decided, task=task, on=places)
        attempt = self._attempts[task]
        try:
            processes, entries = self._starter.start(task, attempt, places, self._names)
        except TaskStartError as error:
            self._refuse(task, error)
            return
        self._attempts[task] += 1
        running = RunningTask(task, attempt, processes)
        self._running[task] = running
        for process in processes:
            self._handles[process.handle] = process
            self._poll.register(process.handle, select.EPOLLIN)
        for entry in entries:
            self._journal.write(e="start", **entry)
        start = min(process.start for process in processes)
        self.dispatch.add(start - decided)
        self.start.add(start - max(decided, self._free_again))
        self._free_again = self._clock.now()
        limit = self._limits.task
        if self._compiled.scenario.model.kill_at_requested_time:
            limit = min(limit, _known(self._compiled.requested[task]))
        if limit < math.inf:
            heapq.heappush(self._ends, (start + limit, task, attempt, signal.SIGTERM))

    def _refuse(self, task: int, error: TaskStartError) -> None:
        """A task could not be started: the policy is told, and it waits or is over."""
        now = self._clock.now()
        why = str(error)
        self._journal.write(e="failed", t=now, task=task, why=why, final=error.dead is None)
        self._dispatcher.reject_placement(task, now, why)
        self._asked = True
        if error.dead is not None:
            self._close(error.dead, "down", f"its groups are gone: {why}")
            return
        self._dispatcher.withdraw(task, now)
        self._over(task, "failed", now)

    def _take_off(self, task: int, kind: str, now: float) -> None:
        """The policy wants a task off its machines, or wants it never to run."""
        self._journal.write(e=kind, t=now, task=task)
        running = self._running.get(task)
        reason = "preempted" if kind == "preempt" else "killed"
        if running is not None:
            self._stop_now(running, reason)
        if kind == "kill":
            self._over(task, "killed", now)

    # --- tasks -----------------------------------------------------------------------------------

    def _submit(self, task: int, now: float) -> None:
        if self._lives.status[task] is not None:
            return
        self._journal.write(e="submit", t=now, task=task)
        self._submits[task] = now
        if self._lives.submit(task):
            self._ready(task)

    def _ready(self, task: int) -> None:
        now = self._clock.now()
        self._journal.write(e="ready", t=now, task=task)
        self._dispatcher.submit(task, now, self._submits[task])
        self._asked = True

    def _ended(self, process: TaskProcess) -> None:
        """The first process of a part has ended by itself, or because it was told to."""
        running = self._running[process.task]
        entry = self._reap(running, process, None)
        running.codes.append(entry["code"])
        if entry["oom"]:
            running.why = failure_causes.OUT_OF_MEMORY
        if not running.processes:
            self._finished(running, entry["t"])

    def _reap(
        self, running: RunningTask, process: TaskProcess, reason: str | None
    ) -> dict[str, Any]:
        self._poll.unregister(process.handle)
        del self._handles[process.handle]
        running.processes.remove(process)
        entry = self._starter.reap(process)
        verdict = reason or running.verdict or _status([entry["code"]])
        self._journal.write(e="end", reason=verdict, **entry)
        return entry

    def _finished(self, running: RunningTask, ended: float) -> None:
        """All parts of a task are over."""
        del self._running[running.task]
        status = running.verdict or _status(running.codes)
        now = self._clock.now()
        self._dispatcher.end(running.task, now)
        if self._interval > 0:
            self.release.add(now - ended)  # the rest is the interval
        else:
            self._seen_free.append(ended)
        self._over(running.task, status, now, running.why)

    def _over(self, task: int, status: str, now: float, why: str | None = None) -> None:
        """A task is over, and with it those that can never run now."""
        self._journal.write(e="over", t=now, task=task, status=status, why=why)
        self._asked = True
        for change in self._lives.conclude(task, status):
            if change.status is None:
                self._ready(change.task)
            else:
                entry = {
                    "task": change.task,
                    "status": "failed",
                    "why": failure_causes.PARENT_FAILED,
                }
                self._journal.write(e="over", t=now, **entry)
                self._source.record_end(change.task, now)
        self._source.record_end(task, now)

    # --- ends that somebody wants ----------------------------------------------------------------

    def _end_late(self, now: float) -> None:
        """Ask tasks that have run for too long to end, and kill those that do not."""
        if not self._ends or self._ends[0][0] > now:
            return
        # Whoever ended by himself before anybody looked was not ended for being late.
        for handle, _ in self._poll.poll(0):
            if handle in self._handles:
                self._ended(self._handles[handle])
        while self._ends and self._ends[0][0] <= now:
            _, task, attempt, wanted = heapq.heappop(self._ends)
            running = self._running.get(task)
            if running is None or running.attempt != attempt:
                continue
            running.verdict, running.why = "killed", failure_causes.TOO_LONG
            self._signal(running, wanted)

    def _signal(self, running: RunningTask, wanted: int) -> None:
        for process in running.processes:
            self._starter.end(process, wanted)
        if wanted != signal.SIGKILL:
            killed = self._clock.now() + self._limits.grace
            heapq.heappush(self._ends, (killed, running.task, running.attempt, signal.SIGKILL))

    def _stop_now(self, running: RunningTask, reason: str) -> None:
        """Kill a task and wait until it is gone."""
        for process in list(running.processes):
            self._starter.end(process, signal.SIGKILL)
            self._reap(running, process, reason)
        del self._running[running.task]

    def _cancel(self, interrupts: Interrupts) -> None:
        """The user wants no more: tasks are asked to end, then killed; nothing new begins."""
        # Counted before anybody is asked: a second request may come while that is done.
        asked = interrupts.count
        for running in self._running.values():
            running.verdict, running.why = "cancelled", failure_causes.INTERRUPTED
            self._signal(running, signal.SIGTERM)
        until = self._clock.now() + self._limits.grace
        while self._running and interrupts.count == asked and (now := self._clock.now()) < until:
            for handle, _ in self._poll.poll(until - now):
                if handle == interrupts.fileno():
                    interrupts.drain()
                    continue
                process = self._handles[handle]
                running = self._running[process.task]
                self._reap(running, process, None)
                if not running.processes:
                    del self._running[running.task]
                    self._end_here(running.task)
        for running in list(self._running.values()):
            self._stop_now(running, "cancelled")
            self._end_here(running.task)
        for task, status in enumerate(self._lives.status):
            if status is None:
                self._end_here(task)

    def _end_here(self, task: int) -> None:
        self._lives.end(task, "cancelled")
        now, why = self._clock.now(), failure_causes.INTERRUPTED
        self._journal.write(e="over", t=now, task=task, status="cancelled", why=why)

    def _kill_all(self) -> None:
        """Whatever happens, nothing goes on running."""
        for running in self._running.values():
            for process in running.processes:
                self._starter.end(process, signal.SIGKILL)
        for running in self._running.values():
            for process in list(running.processes):
                with suppress(OSError):  # no room to write it down may be why we are here
                    self._reap(running, process, "killed")
        self._running.clear()

    # --- nodes -----------------------------------------------------------------------------------

    def _change_node(self, outage: Outage) -> None:
        now = self._clock.now()
        if outage.state is not None:
            self._close(outage.machine, outage.state, None)
            return
        self._closed.discard(outage.machine)
        self._journal.write(e="open", t=now, machine=outage.machine)
        self._dispatcher.set_open(outage.machine, True, now)
        self._asked = True

    def _close(self, machine: int, state: str, why: str | None) -> None:
        """A node is there no more; what ran on it is as the scenario says of failures.

        `why`: what happened to it, where that is nothing that the scenario says.
        """
        if machine in self._closed:
            return
        now = self._clock.now()
        self._closed.add(machine)
        self._journal.write(e="close", t=now, machine=machine, why=why, state=state)
        self._dispatcher.set_open(machine, False, now)
        failures = self._compiled.scenario.failures
        lost = failures is not None and failures.on_failure == "lost" and state == "down"
        for running in list(self._running.values()):
            if all(process.machine != machine for process in running.processes):
                continue
            self._stop_now(running, "lost" if lost else "failed")
            now = self._clock.now()
            if lost:
                self._dispatcher.end(running.task, now)
                self._over(running.task, "lost", now, f"its node failed: {self._names[machine]}")
                continue
            said = f"the node {self._names[machine]} is gone"
            self._journal.write(e="failed", t=now, task=running.task, why=said, final=False)
            self._dispatcher.reject_placement(running.task, now, said)
            self._asked = True

    # --- when nothing can happen any more --------------------------------------------------------

    def _stuck(self) -> bool:
        """Whether tasks are left that nothing will ever start."""
        return (
            not self._running
            and not self._asked
            and math.inf
            == min(
                self._source.next_time,
                self._dispatcher.wake_time,
                self._ask_at,
                # A node that goes helps no task that waits.
                self._outages.next_return,
            )
            and bool(self._lives.left)
        )

    def _give_up(self) -> None:
        now = self._clock.now()
        for task, status in enumerate(self._lives.status):
            if status is None:
                self._over(task, "failed", now, failure_causes.NOTHING_LEFT)
        self._asked = False

    # --- whoever watches -------------------------------------------------------------------------

    def _tell(self, *, force: bool = False) -> None:
        now = self._clock.now()
        if self._watcher is None or (now - self._told < _PACE and not force):
            return
        self._told = now
        on: dict[str, list[str]] = {name: [] for name in self._names}
        for running in self._running.values():
            for process in running.processes:
                on[self._names[process.machine]].append(self._ids[running.task])
        nodes = {name: tuple(tasks) for name, tasks in on.items()}
        ended = {status: count for status, count in self._lives.ended.items() if count}
        waiting = len(self._dispatcher.view.waiting) if self._lives.left else 0
        self._watcher(RunProgress(now, len(self._ids), ended, waiting, nodes))


def _status(codes: list[int]) -> str:
    """What the exit codes of a task say; a negative one is a signal."""
    if any(code < 0 for code in codes):
        return "killed"
    return "failed" if any(codes) else "completed"


def _known(seconds: float) -> float:
    return math.inf if math.isnan(seconds) else float(seconds)
