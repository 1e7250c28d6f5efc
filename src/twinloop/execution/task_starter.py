"""Start and termination of the processes of tasks."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twinloop._core import spawn
from twinloop.description.errors import InputError
from twinloop.execution.announcement import CommandFile
from twinloop.execution.clock import RunClock
from twinloop.execution.nodes import LocalNodes, NodeTask
from twinloop.execution.process_trees import ProcessTrees, require_start_ticks
from twinloop.execution.staging import StagingJob
from twinloop.execution.task_commands import Launch, TaskCommands
from twinloop.execution.usage_recorder import UsageRecorder

#: Maximum wait for killed processes (s); the kernel may take long to free their memory.
_KILL_TIMEOUT: Final = 10.0
#: Error numbers of the disk, which concern the run and not one task.
DISK_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
#: Error numbers for too many open files, of this process or the machine.
_TOO_MANY_FILES: Final = (errno.EMFILE, errno.ENFILE)
#: Flags to open a folder that is not a symbolic link.
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class TaskProcess:
    """The first process of a task on one node, while it runs."""

    task: int
    attempt: int
    machine: int
    pid: int
    #: A pidfd, which is readable when the process has ended.
    pidfd: int
    node_task: NodeTask
    start: float

    @property
    def key(self) -> tuple[int, int, int]:
        """Key of the execution."""
        return self.task, self.attempt, self.machine


@dataclass(slots=True)
class RunningTask:
    """A task that is placed and started."""

    task: int
    attempt: int
    #: Its machines, with their cores.
    placement: list[tuple[int, float]]
    processes: list[TaskProcess] = field(default_factory=list)
    #: The copies of its files before or after its processes, while they go on.
    job: StagingJob | None = None
    #: Exit codes of its processes that have ended by themselves.
    codes: list[int] = field(default_factory=list)
    #: Final status, if it is known before the end; None if the exit codes determine it.
    verdict: str | None = None
    why: str | None = None

    @property
    def machines(self) -> list[int]:
        """The machines on which it runs, or between which its files are copied."""
        if self.job is not None:
            return [machine for machine, _ in self.placement]
        return [process.machine for process in self.processes]


class TaskStartError(Exception):
    """A task could not be started on a node.

    >>> TaskStartError("no such program").dead is None
    True
    """

    def __init__(self, why: str, *, dead: int | None = None) -> None:
        super().__init__(why)
        #: The node whose groups are gone, if that is the cause; otherwise None.
        self.dead = dead


class TaskStarter:
    """Starts processes on nodes, waits for them, and keeps their output."""

    def __init__(
        self,
        clock: RunClock,
        nodes: LocalNodes,
        commands: TaskCommands,
        command_file: CommandFile,
        recorder: UsageRecorder,
        trees: ProcessTrees[tuple[int, int, int]],
        *,
        inherit_output: bool,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        #: The commands of the tasks.
        self.commands = commands
        self._command_file = command_file
        self._recorder = recorder
        self._trees = trees
        self._inherit_output = inherit_output
        self._null_file = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._output_folder = os.open(commands.outputs, _FOLDER_FLAGS)
        # Each running task needs open files in this process, so its limit is raised; the tasks
        # get the original limit.
        self._files_before, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
        self._first_pids: set[int] = set()
        #: Tasks that have ended and whose groups are removed later.
        self._closing: list[NodeTask] = []
        #: Number of start times of the kernel that were corrected.
        self.clamped = 0

    def start(
        self,
        task: int,
        attempt: int,
        placement: list[tuple[int, float]],
        names: list[str],
        work: Path | None = None,
    ) -> tuple[list[TaskProcess], list[dict[str, Any]]]:
        """Start a task on all its nodes; returns its processes and their journal entries.

        It runs in the folder `work`, or else in the folder of its command.
        """
        added = self.commands.pop_unlisted(task)
        if added is not None:
            self._command_file.append(added)
        started: list[TaskProcess] = []
        entries = []
        try:
            for rank, (machine, cores) in enumerate(placement):
                launch = self.commands.launch(
                    task,
                    rank=rank,
                    ranks=len(placement),
                    node=names[machine],
                    cores=cores,
                    work=work,
                )
                process, entry = self._start(task, attempt, rank, machine, cores, launch)
                started.append(process)
                entries.append(entry)
        except BaseException:
            for process in started:
                self.end(process, signal.SIGKILL)
                self.reap(process)
            raise
        return started, entries

    def _start(
        self, task: int, attempt: int, rank: int, machine: int, cores: float, launch: Launch
    ) -> tuple[TaskProcess, dict[str, Any]]:
        try:
            node_task = self._nodes.add_task(machine, f"{task}-{attempt}", cores, None)
        except OSError as error:
            if error.errno in _TOO_MANY_FILES:
                raise _make_too_many_files_error() from None
            raise TaskStartError(str(error.strerror), dead=self._find_dead_node(machine)) from None
        try:
            program = launch.program
            if program is None:
                raise TaskStartError(f"{launch.argv[0]}: no such program")
            files = self._open_output(task, attempt, rank)
        except TaskStartError:
            node_task.close()
            raise
        called = self._clock.now()
        try:
            pid, pidfd = spawn(
                program,
                list(launch.argv),
                [f"{name}={value}" for name, value in launch.environment.items()],
                str(launch.work or launch.folder),
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                join=list(node_task.join),
                cpus=list(node_task.cpus),
                files=self._files_before,
            )
            node_task.close_entries()
        except OSError as error:
            node_task.close()
            if error.errno in _TOO_MANY_FILES:
                raise _make_too_many_files_error() from None
            why = f"{error.filename}: {error.strerror}"
            raise TaskStartError(why, dead=self._find_dead_node(machine)) from None
        finally:
            if not self._inherit_output:
                for file in files[1:]:
                    os.close(file)
        seen = self._clock.now()
        self._first_pids.add(pid)
        start, clamped = self._clock.start_time(require_start_ticks(pid), called, seen)
        self.clamped += clamped
        process = TaskProcess(task, attempt, machine, pid, pidfd, node_task, start)
        self._recorder.follow(process.key, node_task, pid, rank=rank)
        entry = {"t": start, "task": task, "attempt": attempt, "machine": machine, "cores": cores}
        return process, entry | {"pid": pid, "called": called, "seen": seen, "clamped": clamped}

    def _find_dead_node(self, machine: int) -> int | None:
        """Return the node if its groups are gone, otherwise None."""
        return None if self._nodes.is_alive(machine) else machine

    def _open_output(self, task: int, attempt: int, rank: int) -> tuple[int, int, int]:
        """Return the files of stdin, stdout and stderr of a task."""
        if self._inherit_output:
            return 0, 1, 2
        name = self.commands.output(task).name
        suffix = f".{attempt}" if attempt else ""
        files: list[int] = []
        try:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=self._output_folder)
            folder = os.open(name, _FOLDER_FLAGS, dir_fd=self._output_folder)
            try:
                for kind in ("out", "err"):
                    files.append(_create_file(f"{rank}{suffix}.{kind}", folder))
            finally:
                os.close(folder)
        except OSError as error:
            for file in files:
                os.close(file)
            if error.errno in DISK_ERRORS:
                raise
            if error.errno in _TOO_MANY_FILES:
                raise _make_too_many_files_error() from None
            why = f"its output cannot be kept: {error.filename}: {error.strerror}"
            raise TaskStartError(why) from None
        return self._null_file, files[0], files[1]

    def end(self, process: TaskProcess, signal_: int) -> None:
        """Send a signal to all processes of a task on a node."""
        if signal_ == signal.SIGKILL:
            # The first process first: without its children it might end by itself before the
            # signal. It may also have left its group.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process.pidfd, signal_)
        if process.node_task.is_accounted:
            process.node_task.kill(signal_)
        else:
            self._trees.kill(process.key, signal_)

    def reap(self, process: TaskProcess) -> dict[str, Any]:
        """Wait for a process that has ended or was killed; returns its journal entry.

        Descendants that still run are killed.
        """
        _, status, account = os.wait4(process.pid, 0)
        now = self._clock.now()
        self._first_pids.discard(process.pid)
        left = self._kill_remaining(process)
        os.close(process.pidfd)
        closing = self._recorder.close(process.key, account, now)
        self._closing.append(process.node_task)
        task, attempt, machine = process.key
        return {
            "t": now,
            "task": task,
            "attempt": attempt,
            "machine": machine,
            "pid": process.pid,
            "code": os.waitstatus_to_exitcode(status),
            "left": left,
            "oom": process.node_task.oom_kills,
            **closing,
        }

    def _kill_remaining(self, process: TaskProcess) -> int:
        """Kill the descendants that outlived the first process; returns their number."""
        pids: set[int] = set()
        deadline = time.monotonic() + _KILL_TIMEOUT
        while (remaining := self._list_remaining(process)) and time.monotonic() < deadline:
            pids.update(remaining)
            self.end(process, signal.SIGKILL)
            time.sleep(0.001)
        if not process.node_task.is_accounted:
            self.reap_orphans()
        return len(pids)

    def _list_remaining(self, process: TaskProcess) -> list[int]:
        if process.node_task.is_accounted:
            return process.node_task.pids()
        return self._trees.pids(process.key)

    def reap_orphans(self) -> None:
        """Reap orphans of tasks that are children of this process and have ended."""
        for pid in self._trees.list_dead():
            if pid in self._first_pids:
                continue
            # Most orphans have another parent that waits for them.
            with suppress(ChildProcessError):
                done, _, account = os.wait4(pid, os.WNOHANG)
                if done:
                    self._recorder.record_orphan(pid, account)

    def tidy(self) -> None:
        """Remove the groups of tasks that have ended."""
        while self._closing:
            self._closing.pop().close()

    def close(self) -> None:
        """Remove all groups, restore the limit of open files, and close files."""
        self.tidy()
        hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._files_before, hard_limit))
        os.close(self._null_file)
        os.close(self._output_folder)


def _make_too_many_files_error() -> InputError:
    hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return InputError(
        f"more tasks run at once than the limit of {hard_limit:,} open files allows",
        kind="missing-resources",
        field="platform",
        remedy="raise the hard limit (ulimit -Hn), or run fewer at a time",
    )


def _create_file(name: str, folder: int) -> int:
    """Create a file; a file or link of this name that another task may have made is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        return os.open(name, flags, 0o644, dir_fd=folder)
    except FileExistsError:
        os.unlink(name, dir_fd=folder)
        return os.open(name, flags, 0o644, dir_fd=folder)
