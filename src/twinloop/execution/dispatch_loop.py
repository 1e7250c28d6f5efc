"""The event loop of a real run: submissions, decisions, starts, ends, samples and the journal."""

from __future__ import annotations

import heapq
import math
import select
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from twinloop.engine import CompiledScenario
from twinloop.engine.foreign_errors import ForeignErrors
from twinloop.engine.native_codes import STATUS_CODES
from twinloop.execution import failure_causes
from twinloop.execution.clock import RunClock
from twinloop.execution.interrupts import Interrupts
from twinloop.execution.latency import Latencies
from twinloop.execution.new_tasks import describe_row, read_row
from twinloop.execution.outages import Outage, Outages
from twinloop.execution.power import PowerRecorder
from twinloop.execution.run_journal import RunJournal
from twinloop.execution.run_progress import ProgressCallback, RunProgress
from twinloop.execution.staging import Stager, StagingJob
from twinloop.execution.task_files import TaskFiles
from twinloop.execution.task_starter import RunningTask, TaskProcess, TaskStarter, TaskStartError
from twinloop.execution.task_states import TaskStates
from twinloop.execution.transfer_records import COPYING
from twinloop.execution.usage_recorder import UsageRecorder

#: Minimum time between two calls of the progress callback (s).
_PROGRESS_PERIOD: Final = 0.2
#: Maximum wait of one system call (s), within the limit of `epoll_wait`.
_MAX_WAIT: Final = 3600.0


@dataclass(frozen=True, slots=True)
class TaskLimits:
    """Time limits of tasks."""

    #: Maximum run time of any task (s).
    task: float = math.inf
    #: Time from SIGTERM to SIGKILL (s).
    grace: float = 2.0


class DispatchLoop:
    """The event loop of one run. `run` returns when every task is over or the user ends the run."""

    def __init__(
        self,
        compiled: CompiledScenario,
        clock: RunClock,
        journal: RunJournal,
        starter: TaskStarter,
        recorder: UsageRecorder,
        power: PowerRecorder,
        *,
        stager: Stager | None,
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
        self._on_progress = on_progress
        self._dispatcher = compiled.dispatcher()
        self._source = compiled.source()
        self._states = TaskStates(compiled)
        self._names = list(compiled.names.machines)
        self._files = TaskFiles(stager, journal, clock, self._names)
        self._ids = compiled.arrays.ids.to_list()
        self._requested = compiled.requested.tolist()
        #: Whether no event can help the tasks that are left; the source is not asked any more.
        self._is_given_up = False
        self._submits: dict[int, float] = {}
        self._attempts: Counter[int] = Counter()
        self._running: dict[int, RunningTask] = {}
        self._processes: dict[int, TaskProcess] = {}
        self._poll = select.epoll()
        #: Signals to send at time limits: (time, task, attempt, signal).
        self._signals: list[tuple[float, int, int, int]] = []
        self._outages = Outages(compiled)
        self._closed: set[int] = set()
        self._decision_needed = False
        self._decide_at = math.inf
        #: Ends of tasks (s) after which the policy has not decided yet.
        self._unreported_ends: list[float] = []
        self._progress_time = -math.inf
        self._interval = compiled.scenario.model.decision_interval
        #: Time at which the start of the last task was complete.
        self._last_start_done = -math.inf
        #: Latencies from decision to start, with and without the starts of tasks placed before.
        self.dispatch = Latencies()
        self.start = Latencies()
        #: Latencies from the end of a task to the first decision with its cores free; with a
        #: decision interval, to the report of the end to the policy.
        self.release = Latencies()
        #: Number of tasks that the source has added.
        self.added = 0
        #: Whether the user ended the run.
        self.interrupted = False

    # --- the loop --------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all tasks."""
        with Interrupts() as interrupts:
            self._poll.register(interrupts, select.EPOLLIN)
            if self._files.fileno() >= 0:
                self._poll.register(self._files, select.EPOLLIN)
            try:
                while self._is_open() and not interrupts.count:
                    self._step()
                    if interrupts.count or not self._is_open():
                        break
                    self._wait(interrupts)
                if interrupts.count:
                    self.interrupted = True
                    self._cancel(interrupts)
            finally:
                self._kill_all()
                self._poll.close()
        self._report_progress(force=True)

    def _is_open(self) -> bool:
        """Whether tasks are left, or may still come."""
        return not self._is_given_up and (bool(self._states.left) or self._source.continues)

    def _step(self) -> None:
        """Do everything that is due."""
        now = self._clock.now()
        if self._source.next_time <= now:
            with self._errors():
                due = self._source.pop_due(now)
            for task in due:
                if isinstance(task, int):
                    self._submit(task, now)
                else:
                    self._submit_new(task, now)
        for outage in self._outages.pop_until(now):
            self._change_node(outage)
        self._enforce_time_limits(now)
        self._decide_if_due()
        # Sampling comes last, so that it delays no task.
        if self._recorder.due <= now:
            self._recorder.sample(now)
            self._starter.reap_orphans()
        if self._power.due <= now:
            self._journal.write(e="power", t=now, rows=self._power.sample(now))
        self._starter.tidy()
        if self._is_stuck():
            self._fail_rest()
        self._report_progress()

    def _errors(self) -> ForeignErrors:
        """Return a context that names the policy or the source in an error of its code."""
        return ForeignErrors(self._compiled, self._dispatcher.view)

    def _wait(self, interrupts: Interrupts) -> None:
        """Wait until a process ends or something is due."""
        now = self._clock.now()
        due = min(
            # After a failed decision the policy decides again at once.
            now if self._decision_needed and self._decide_at == math.inf else math.inf,
            self._source.next_time,
            self._recorder.due,
            self._power.due,
            self._dispatcher.wake_time,
            self._decide_at,
            self._outages.due,
            self._signals[0][0] if self._signals else math.inf,
            now + _MAX_WAIT,
        )
        events = self._poll.poll(max(0.0, due - now))
        if any(descriptor == interrupts.fileno() for descriptor, _ in events):
            interrupts.drain()
        self._handle_events(events)

    def _handle_events(self, events: list[tuple[int, int]]) -> None:
        """Handle the ends of processes, then those of copies, after which processes may start."""
        for descriptor, _ in events:
            if descriptor in self._processes:
                self._handle_end(self._processes[descriptor])
        if any(descriptor == self._files.fileno() for descriptor, _ in events):
            for job in self._files.stager.collect():
                self._handle_copies(job)

    # --- decisions -------------------------------------------------------------------------------

    def _decide_if_due(self) -> None:
        now = self._clock.now()
        if self._decision_needed and self._interval > 0 and self._decide_at == math.inf:
            self._decide_at = math.ceil(now / self._interval) * self._interval
        is_due = self._decision_needed if self._interval <= 0 else self._decide_at <= now
        if is_due or self._dispatcher.wake_time <= now:
            self._decide()

    def _decide(self) -> None:
        self._decision_needed, self._decide_at = False, math.inf
        now = self._clock.now()
        self._journal.write(e="ask", t=now)
        with self._errors():
            decisions = self._dispatcher.decide(now)
        for end in self._unreported_ends:
            self.release.add(now - end)
        self._unreported_ends.clear()
        for kind, task, placement in decisions:
            if kind == "place" and task is not None:
                self._place(task, placement, now)
            elif kind in ("preempt", "kill") and task is not None:
                self._remove_task(task, kind, now)
            elif kind in ("open", "close"):
                state = "set-state on" if kind == "open" else "set-state off"
                self._journal.write(e=state, t=now, machine=placement[0][0])
            else:
                machine = placement[0][0] if placement else None
                self._journal.write(e=kind, t=now, task=task, machine=machine)

    def _place(self, task: int, placement: list[tuple[int, float]], decided: float) -> None:
        self._journal.write(e="place", t=decided, task=task, on=placement)
        running = RunningTask(task, self._attempts[task], placement)
        if self._files.belong_to(task):
            start = self._files.copy_inputs(running)
        else:
            try:
                entries = self._start(running)
            except TaskStartError as error:
                self._refuse(task, error)
                return
            for entry in entries:
                self._journal.write(e="start", **entry)
            start = min(process.start for process in running.processes)
        self._attempts[task] += 1
        self._running[task] = running
        self.dispatch.add(start - decided)
        self.start.add(start - max(decided, self._last_start_done))
        self._last_start_done = self._clock.now()
        limit = self._limits.task
        if self._compiled.scenario.model.kill_at_requested_time:
            limit = min(limit, _nan_to_infinity(self._requested[task]))
        if limit < math.inf:
            heapq.heappush(self._signals, (start + limit, task, running.attempt, signal.SIGTERM))

    def _start(self, running: RunningTask, work: Path | None = None) -> list[dict[str, Any]]:
        """Start the processes of a task; returns their journal entries."""
        running.processes, entries = self._starter.start(
            running.task, running.attempt, running.placement, self._names, work
        )
        for process in running.processes:
            self._processes[process.pidfd] = process
            self._poll.register(process.pidfd, select.EPOLLIN)
        return entries

    def _refuse(self, task: int, error: TaskStartError) -> None:
        """Report a failed start to the policy; the task waits again, or fails."""
        now = self._clock.now()
        why = str(error)
        self._journal.write(e="failed", t=now, task=task, why=why, final=error.dead is None)
        self._dispatcher.reject_placement(task, now, why)
        self._decision_needed = True
        if error.dead is not None:
            self._close(error.dead, "down", f"its groups are gone: {why}")
            return
        self._dispatcher.withdraw(task, now)
        self._conclude(task, "failed", now)

    def _remove_task(self, task: int, kind: str, now: float) -> None:
        """Preempt or kill a task, as the policy decided."""
        self._journal.write(e=kind, t=now, task=task)
        running = self._running.get(task)
        reason = "preempted" if kind == "preempt" else "killed"
        if running is not None:
            self._kill(running, reason)
        if kind == "kill":
            self._conclude(task, "killed", now)

    # --- tasks -----------------------------------------------------------------------------------

    def _submit(self, task: int, now: float) -> None:
        status = self._states.status[task]
        if status == "rejected":
            self._report_end(task, status, now)
        if status is not None:
            return
        self._journal.write(e="submit", t=now, task=task)
        self._submits[task] = now
        if self._states.submit(task):
            self._make_ready(task)

    def _submit_new(self, values: dict[str, Any], now: float) -> None:
        """Add a task of the source to the run, and submit it."""
        row = read_row(self._compiled, values)
        columns = describe_row(self._compiled, row, self._ids)
        task = len(self._ids)
        self._starter.commands.add(row, columns)
        fits = self._dispatcher.add(row)
        status = self._states.add(
            [each for each in row.parents if isinstance(each, int)], fits=fits
        )
        self._ids.append(row.id)
        self._requested.append(row.requested_time)
        self.added += 1
        self._journal.write(e="add", t=now, task=task, columns=columns)
        if status is None:
            self._submit(task, now)
            return
        self._journal.write(e="submit", t=now, task=task)
        why = failure_causes.PARENT_FAILED if fits else failure_causes.FITS_NOWHERE
        self._conclude(task, status, now, why)

    def _make_ready(self, task: int) -> None:
        now = self._clock.now()
        self._journal.write(e="ready", t=now, task=task)
        self._dispatcher.submit(task, now, self._submits[task])
        self._decision_needed = True

    def _handle_end(self, process: TaskProcess) -> None:
        """Handle the end of the first process of a task on a node."""
        running = self._running[process.task]
        entry = self._reap(running, process, None)
        running.codes.append(entry["code"])
        if entry["oom"]:
            running.why = failure_causes.OUT_OF_MEMORY
        if running.processes:
            return
        status = self._get_status(running)
        if status == "completed" and self._files.are_written_by(running.task):
            self._files.copy_outputs(running)
        else:
            self._files.drop(running, status)
            self._finish(running, entry["t"])

    def _reap(
        self, running: RunningTask, process: TaskProcess, reason: str | None
    ) -> dict[str, Any]:
        self._poll.unregister(process.pidfd)
        del self._processes[process.pidfd]
        running.processes.remove(process)
        entry = self._starter.reap(process)
        verdict = reason or running.verdict or _status_from_codes([entry["code"]])
        # Whether an execution completes is not known before its outputs are in their stores.
        copies = verdict == "completed" and self._files.are_written_by(running.task)
        self._journal.write(e="end", reason=COPYING if copies else verdict, **entry)
        return entry

    def _finish(self, running: RunningTask, ended: float) -> None:
        """Finish a task that has ended on all its nodes."""
        del self._running[running.task]
        status = self._get_status(running)
        now = self._clock.now()
        self._dispatcher.end(running.task, now)
        if self._interval > 0:
            self.release.add(now - ended)  # without the wait for the decision interval
        else:
            self._unreported_ends.append(ended)
        self._conclude(running.task, status, now, running.why)

    def _get_status(self, running: RunningTask) -> str:
        """Return the status of a task that has ended on all its nodes."""
        return running.verdict or _status_from_codes(running.codes)

    def _conclude(self, task: int, status: str, now: float, why: str | None = None) -> None:
        """Conclude a task, and its descendants that can never run now."""
        self._journal.write(e="over", t=now, task=task, status=status, why=why)
        self._decision_needed = True
        for change in self._states.conclude(task, status):
            if change.status is None:
                self._make_ready(change.task)
            else:
                entry = {
                    "task": change.task,
                    "status": "failed",
                    "why": failure_causes.PARENT_FAILED,
                }
                self._journal.write(e="over", t=now, **entry)
                self._report_end(change.task, "failed", now)
        self._report_end(task, status, now)

    def _report_end(self, task: int, status: str, now: float) -> None:
        """Report the end of a task to the source."""
        self._source.record_end(task, now, STATUS_CODES[status])

    # --- files of tasks --------------------------------------------------------------------------

    def _handle_copies(self, job: StagingJob) -> None:
        """Handle the end of the copies of a task: start its processes, or finish it."""
        running = self._running.get(job.task)
        if running is None or running.job is not job:
            return  # its node has just failed
        problem = self._files.settle(running, job)
        if problem is not None:
            running.verdict, running.why = "failed", problem
        elif job.reads:
            self._launch(running)
            return
        self._files.end(running, job, self._get_status(running))
        self._finish(running, job.ended)

    def _launch(self, running: RunningTask) -> None:
        """Start the processes of a task whose inputs have been copied."""
        try:
            entries = self._start(running, self._files.folder(running))
        except TaskStartError as error:
            self._files.end_without_process(running, "failed", self._clock.now())
            del self._running[running.task]
            self._refuse(running.task, error)
            return
        for entry in entries:
            self._journal.write(e="launch", **entry)

    # --- termination of tasks --------------------------------------------------------------------

    def _enforce_time_limits(self, now: float) -> None:
        """Send SIGTERM to tasks at their time limit, and SIGKILL after the time of grace."""
        if not self._signals or self._signals[0][0] > now:
            return
        # Tasks that have ended by now did not exceed their limit.
        self._handle_events(self._poll.poll(0))
        while self._signals and self._signals[0][0] <= now:
            _, task, attempt, number = heapq.heappop(self._signals)
            running = self._running.get(task)
            if running is None or running.attempt != attempt:
                continue
            running.verdict, running.why = "killed", failure_causes.TOO_LONG
            if running.job is not None:
                self._files.cancel(running, "killed")
                self._finish(running, self._clock.now())
                continue
            self._signal(running, number)

    def _signal(self, running: RunningTask, number: int) -> None:
        for process in running.processes:
            self._starter.end(process, number)
        if number != signal.SIGKILL:
            killed = self._clock.now() + self._limits.grace
            heapq.heappush(self._signals, (killed, running.task, running.attempt, signal.SIGKILL))

    def _kill(self, running: RunningTask, reason: str) -> None:
        """Kill a task and wait for its end."""
        if running.job is not None:
            self._files.cancel(running, reason)
        elif running.processes:
            for process in list(running.processes):
                self._starter.end(process, signal.SIGKILL)
                self._reap(running, process, reason)
            self._files.drop(running, reason)
        del self._running[running.task]

    def _cancel(self, interrupts: Interrupts) -> None:
        """Cancel the run: SIGTERM to all tasks, later SIGKILL; no task is started any more."""
        # Read before the signals are sent, because a second request may come meanwhile.
        requests = interrupts.count
        for running in list(self._running.values()):
            running.verdict, running.why = "cancelled", failure_causes.INTERRUPTED
            if running.job is None:
                self._signal(running, signal.SIGTERM)
            else:
                self._kill(running, "cancelled")
                self._cancel_task(running.task)
        deadline = self._clock.now() + self._limits.grace
        while (
            self._running and interrupts.count == requests and (now := self._clock.now()) < deadline
        ):
            for pidfd, _ in self._poll.poll(deadline - now):
                if pidfd == interrupts.fileno():
                    interrupts.drain()
                if pidfd not in self._processes:
                    continue
                process = self._processes[pidfd]
                running = self._running[process.task]
                self._reap(running, process, None)
                if not running.processes:
                    self._files.drop(running, "cancelled")
                    del self._running[running.task]
                    self._cancel_task(running.task)
        for running in list(self._running.values()):
            self._kill(running, "cancelled")
            self._cancel_task(running.task)
        for task, status in enumerate(self._states.status):
            if status is None:
                self._cancel_task(task)

    def _cancel_task(self, task: int) -> None:
        self._states.end(task, "cancelled")
        now, why = self._clock.now(), failure_causes.INTERRUPTED
        self._journal.write(e="over", t=now, task=task, status="cancelled", why=why)

    def _kill_all(self) -> None:
        """Kill all tasks that still run; called at the end of every run."""
        for running in self._running.values():
            for process in running.processes:
                self._starter.end(process, signal.SIGKILL)
        for running in self._running.values():
            with suppress(OSError):  # a full disk may have ended the run
                if running.job is not None:
                    self._files.cancel(running, "killed")
            for process in list(running.processes):
                with suppress(OSError):
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
        self._decision_needed = True

    def _close(self, machine: int, state: str, why: str | None) -> None:
        """Close a node; its tasks are lost or restarted, as the failures of the scenario require.

        `why`: the cause, if it is not an outage of the scenario.
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
            if machine not in running.machines:
                continue
            self._kill(running, "lost" if lost else "failed")
            now = self._clock.now()
            if lost:
                self._dispatcher.end(running.task, now)
                cause = f"its node failed: {self._names[machine]}"
                self._conclude(running.task, "lost", now, cause)
                continue
            cause = f"the node {self._names[machine]} is gone"
            self._journal.write(e="failed", t=now, task=running.task, why=cause, final=False)
            self._dispatcher.reject_placement(running.task, now, cause)
            self._decision_needed = True

    # --- tasks that can never start --------------------------------------------------------------

    def _is_stuck(self) -> bool:
        """Whether tasks are left that no future event can start."""
        return (
            not self._running
            and not self._decision_needed
            and math.inf
            == min(
                self._source.next_time,
                self._dispatcher.wake_time,
                self._decide_at,
                # Only returns of nodes count: the start of an outage lets no waiting task start.
                self._outages.next_return,
            )
            and bool(self._states.left)
        )

    def _fail_rest(self) -> None:
        now = self._clock.now()
        for task, status in enumerate(self._states.status):
            if status is not None or self._states.status[task] is not None:
                continue
            if task in self._submits:
                self._conclude(task, "failed", now, failure_causes.CANNOT_START)
            else:
                self._conclude(task, "cancelled", now, failure_causes.NOT_SUBMITTED)
        self._decision_needed = False
        self._is_given_up = True

    # --- progress --------------------------------------------------------------------------------

    def _report_progress(self, *, force: bool = False) -> None:
        now = self._clock.now()
        is_recent = now - self._progress_time < _PROGRESS_PERIOD
        if self._on_progress is None or (is_recent and not force):
            return
        self._progress_time = now
        tasks_by_node: dict[str, list[str]] = {name: [] for name in self._names}
        for running in self._running.values():
            for machine in running.machines:
                tasks_by_node[self._names[machine]].append(self._ids[running.task])
        nodes = {name: tuple(tasks) for name, tasks in tasks_by_node.items()}
        ended = {status: count for status, count in self._states.ended.items() if count}
        waiting = len(self._dispatcher.view.waiting) if self._states.left else 0
        self._on_progress(RunProgress(now, len(self._ids), ended, waiting, nodes))


def _status_from_codes(codes: list[int]) -> str:
    """Return the status of a task by its exit codes; a negative code is a signal."""
    if any(code < 0 for code in codes):
        return "killed"
    return "failed" if any(codes) else "completed"


def _nan_to_infinity(seconds: float) -> float:
    return math.inf if math.isnan(seconds) else float(seconds)
