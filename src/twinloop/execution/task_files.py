"""The files of running tasks: their copies before and after a command, in the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from twinloop.execution.clock import RunClock
from twinloop.execution.run_journal import RunJournal
from twinloop.execution.staging import Stager, StagingJob
from twinloop.execution.task_starter import DISK_ERRORS, RunningTask

#: What the journal has of an execution that started no process.
_NO_PROCESS: Final[Mapping[str, Any]] = {
    "pid": None,
    "code": None,
    "left": 0,
    "oom": 0,
    "cpu": 0.0,
    "peak": None,
    "switches": (None, None),
    "faults": (None, None),
    "counters": {},
}


class TaskFiles:
    """The copies of the files of tasks, before their processes start and after they have ended.

    They are part of the execution: it starts with the first copy of an input, and ends with the
    last copy of an output. A task on several nodes copies its files to and from the first one.

    Args:
        stager: It makes the copies; None if no task of the run has files.
        journal: The journal of the run.
        clock: The clock of the run.
        names: The names of the nodes.
    """

    def __init__(
        self, stager: Stager | None, journal: RunJournal, clock: RunClock, names: Sequence[str]
    ) -> None:
        self._stager = stager
        self._journal = journal
        self._clock = clock
        self._names = names

    @property
    def stager(self) -> Stager:
        """The stager of a run whose tasks have files."""
        assert self._stager is not None
        return self._stager

    def fileno(self) -> int:
        """Return the descriptor of a file that is readable when copies have ended, or -1."""
        return -1 if self._stager is None else self._stager.fileno()

    def belong_to(self, task: int) -> bool:
        """Whether a task has files that are copied."""
        return self._stager is not None and self._stager.plan.has_files(task)

    def are_written_by(self, task: int) -> bool:
        """Whether a task has outputs that are copied."""
        return self._stager is not None and task in self._stager.plan.writes

    def folder(self, running: RunningTask) -> Path:
        """Return the working folder of a task."""
        return self.stager.folder(running.task, running.attempt)

    def copy_inputs(self, running: RunningTask) -> float:
        """Begin to copy the inputs of a task; returns the start of its execution (s)."""
        now = self._clock.now()
        for machine, cores in running.placement:
            where = {**_locate(running), "machine": machine}
            self._journal.write(e="start", t=now, **where, cores=cores, pid=None)
        running.job = self.stager.stage_in(running.task, running.attempt, self._first_node(running))
        return now

    def copy_outputs(self, running: RunningTask) -> None:
        """Begin to copy the outputs of a task to their stores."""
        node = self._first_node(running)
        running.job = self.stager.stage_out(running.task, running.attempt, node)

    def settle(self, running: RunningTask, job: StagingJob) -> str | None:
        """Record copies that have ended; returns why not all could be made, or None.

        An error of the disk, which concerns the run, is raised.
        """
        running.job = None
        self._record(job)
        if job.error is None:
            return job.problem
        if job.error.errno in DISK_ERRORS:
            raise job.error
        return f"its files cannot be copied: {job.error}"

    def cancel(self, running: RunningTask, reason: str) -> None:
        """Cancel the copies that go on for a task, and end its execution."""
        job, running.job = running.job, None
        if job is not None:
            self.stager.cancel(job)
            self._record(job)
            self.end(running, job, reason)

    def end(self, running: RunningTask, job: StagingJob, reason: str) -> None:
        """End an execution with its last copies."""
        if job.reads:
            self.end_without_process(running, reason, job.ended)
        else:
            self._journal.write(e="out", t=job.ended, **_locate(running), reason=reason)

    def drop(self, running: RunningTask, reason: str) -> None:
        """End an execution whose processes have ended, without copies of its outputs."""
        if not self.belong_to(running.task):
            return
        self.stager.discard(running.task, running.attempt)
        if self.are_written_by(running.task):
            self._journal.write(e="out", t=self._clock.now(), **_locate(running), reason=reason)

    def end_without_process(self, running: RunningTask, reason: str, now: float) -> None:
        """End an execution that has started no process."""
        for machine, _ in running.placement:
            where = {**_locate(running), "machine": machine}
            self._journal.write(e="end", t=now, **where, reason=reason, **_NO_PROCESS)
        self.stager.discard(running.task, running.attempt)

    def _record(self, job: StagingJob) -> None:
        for transfer in job.transfers:
            self._journal.write(e="transfer", t=transfer["end"], task=job.task, **transfer)

    def _first_node(self, running: RunningTask) -> str:
        return self._names[running.placement[0][0]]


def _locate(running: RunningTask) -> dict[str, int]:
    return {"task": running.task, "attempt": running.attempt}
