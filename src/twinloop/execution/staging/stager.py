"""Threads that copy the files of tasks between data stores and working folders.

Threads, not processes: the kernel copies (`sendfile`) while the interpreter is free for the
dispatcher, a limited copy mostly sleeps, and no thread survives the death of the run.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from twinloop.execution.clock import RunClock
from twinloop.execution.staging.bandwidths import CHUNK, CopyRoute, CopyRoutes
from twinloop.execution.staging.data_stores import DataStores
from twinloop.execution.staging.file_plan import FilePlan
from twinloop.execution.task_commands import file_name_from_id

#: A chunk that is due within this time is not waited for (s): later chunks are due later.
_SHORTEST_WAIT: Final = 0.001
#: Largest delay of a thread or a disk that a copy catches up (s).
_LARGEST_LAG: Final = 0.1


@dataclass
class StagingJob:
    """The copies before, or after, the command of one execution, one after the other."""

    task: int
    attempt: int
    #: The node that the files are copied to or from.
    node: str
    #: Whether it copies inputs; otherwise it copies outputs.
    reads: bool
    #: Transfers that have ended, in the columns of the table `transfers`; `file` is the name.
    transfers: list[dict[str, Any]] = field(default_factory=list)
    #: Why not all files could be copied.
    problem: str | None = None
    #: An error of the disk, which concerns the run.
    error: OSError | None = None
    #: Time at which the last copy ended (s).
    ended: float = 0.0
    is_cancelled: bool = False


class _CancelledError(Exception):
    """A job was cancelled."""


class _FileError(Exception):
    """A file cannot be copied, by the rules of data stores."""


class Stager:
    """Copies files for tasks in threads of its own, within the bandwidths of the platform.

    Each execution with files has a working folder. `fileno` is readable when a job has ended.

    Args:
        stores: The files of the tasks, and the stores that they are in.
        routes: The bandwidths between stores and nodes.
        clock: The clock of the run.
        ids: The IDs of the tasks.
        work: Folder of the working folders.
    """

    def __init__(
        self,
        stores: DataStores,
        routes: CopyRoutes,
        clock: RunClock,
        ids: list[str],
        work: Path,
    ) -> None:
        #: The files of the tasks.
        self.plan: FilePlan = stores.plan
        self._stores = stores
        self._routes = routes
        self._clock = clock
        self._ids = ids
        self._work = work
        #: Guards everything that threads share; notified when a stream is free or a job cancelled.
        self._changed = threading.Condition()
        self._ended: list[StagingJob] = []
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        #: Jobs that go on or have not been collected, by their identity, with their threads.
        self._jobs: dict[int, tuple[StagingJob, threading.Thread]] = {}
        #: Threads that only have to remove a folder.
        self._removing: list[threading.Thread] = []
        self._cpu_seconds = 0.0
        self._transfers = 0
        self._bytes = 0

    def fileno(self) -> int:
        """Return the descriptor of a file that is readable when a job has ended."""
        return self._event

    def facts(self) -> dict[str, Any]:
        """Return the number of transfers, their bytes, and the CPU time of copying (s)."""
        with self._changed:
            return {
                "transfers": self._transfers,
                "bytes": self._bytes,
                "cpu_s": self._cpu_seconds,
            }

    def folder(self, task: int, attempt: int) -> Path:
        """Return the working folder of an execution."""
        return self._work / f"{file_name_from_id(self._ids[task])}.{attempt}"

    def stage_in(self, task: int, attempt: int, node: str) -> StagingJob:
        """Begin to copy the inputs of a task to a new working folder on a node."""
        return self._begin(StagingJob(task, attempt, node, reads=True))

    def stage_out(self, task: int, attempt: int, node: str) -> StagingJob:
        """Begin to copy the outputs of a task to their stores, and then remove its folder."""
        return self._begin(StagingJob(task, attempt, node, reads=False))

    def cancel(self, job: StagingJob) -> None:
        """Cancel a job and wait until it has ended."""
        self._request_end(job)
        if id(job) in self._jobs:
            self._jobs.pop(id(job))[1].join()
        with self._changed, suppress(ValueError):
            self._ended.remove(job)

    def collect(self) -> list[StagingJob]:
        """Return the jobs that have ended since the last call."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)
        with self._changed:
            ended, self._ended = self._ended, []
        self._removing = [thread for thread in self._removing if thread.is_alive()]
        self._removing += [self._jobs.pop(id(job))[1] for job in ended]
        return ended

    def discard(self, task: int, attempt: int) -> None:
        """Remove the working folder of an execution."""
        self._removing.append(_start_thread(lambda: self._remove(task, attempt)))

    def close(self) -> None:
        """Cancel the jobs that still go on, and wait for all threads."""
        for job, thread in self._jobs.values():
            self._request_end(job)
            thread.join()
        for thread in self._removing:
            thread.join()
        os.close(self._event)

    def _begin(self, job: StagingJob) -> StagingJob:
        self._jobs[id(job)] = job, _start_thread(lambda: self._run(job))
        return job

    def _request_end(self, job: StagingJob) -> None:
        with self._changed:
            job.is_cancelled = True
            self._changed.notify_all()

    def _run(self, job: StagingJob) -> None:
        before = time.thread_time()
        try:
            if job.reads:
                self._copy_inputs(job)
            else:
                self._copy_outputs(job)
        except _CancelledError:
            pass
        except _FileError as error:
            job.problem = str(error)
        except OSError as error:
            job.error = error
        job.ended = self._clock.now()
        with self._changed:
            self._cpu_seconds += time.thread_time() - before
            self._ended.append(job)
        os.eventfd_write(self._event, 1)
        if not job.reads:
            self._remove(job.task, job.attempt)

    def _remove(self, task: int, attempt: int) -> None:
        shutil.rmtree(self.folder(task, attempt), ignore_errors=True)

    def _copy_inputs(self, job: StagingJob) -> None:
        folder = self.folder(job.task, job.attempt)
        folder.mkdir(parents=True)
        for file in self.plan.writes.get(job.task, ()):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
        for file in self.plan.reads.get(job.task, ()):
            with self._changed:
                store = self._stores.find(file)
            if store is None:
                raise _FileError(
                    f"it reads '{file}', which has not been written yet (name the task that "
                    "writes it among its `parents`)"
                )
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            source = self._stores.path(store, file)
            self._transfer(job, file, store, source, target)

    def _copy_outputs(self, job: StagingJob) -> None:
        folder = self.folder(job.task, job.attempt)
        outputs = self.plan.writes.get(job.task, ())
        sizes = {file: _measure(folder / file) for file in outputs}
        missing = [file for file in outputs if sizes[file] is None]
        if missing:
            names = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
            raise _FileError(f"its command did not write its outputs: {names}")
        for file in outputs:
            self._copy_output(job, file, folder / file, float(sizes[file] or 0))

    def _copy_output(self, job: StagingJob, file: str, source: Path, size: float) -> None:
        with self._changed:
            store = self._stores.choose(file, job.node)
            if store is None:
                raise _FileError(f"it writes the local file '{file}' on a host without one")
            if not self._stores.promise(store, size):
                raise _FileError(
                    f"its output '{file}' of {size:,.0f} bytes does not fit into what is left of "
                    f"the store '{store}'"
                )
            temporary = self._stores.new_partial()
        try:
            copied = self._transfer(job, file, store, source, temporary)
            with self._changed:
                self._stores.add(store, file, copied, temporary)
        finally:
            temporary.unlink(missing_ok=True)
            with self._changed:
                self._stores.withdraw(store, size)

    def _transfer(
        self, job: StagingJob, file: str, store: str, source: Path, target: Path
    ) -> float:
        """Copy one file; returns its bytes. The transfer is added to the job in any case."""
        start = self._clock.now()
        ends = (store, job.node) if job.reads else (job.node, store)
        row: dict[str, Any] = {
            "kind": "stage-in" if job.reads else "stage-out",
            "file": file,
            "from": ends[0],
            "to": ends[1],
            "bytes": 0.0,
            "start": start,
        }
        reason = "cancelled"
        try:
            with self._changed:
                route = self._routes.find(store, job.node, reads=job.reads)
            self._copy(job, route, source, target, row)
            reason = "completed"
        finally:
            row.setdefault("end", self._clock.now())
            job.transfers.append(row | {"reason": reason})
            with self._changed:
                self._transfers += 1
                self._bytes += int(row["bytes"])
        return float(row["bytes"])

    def _copy(
        self, job: StagingJob, route: CopyRoute, source: Path, target: Path, row: dict[str, Any]
    ) -> None:
        self._take_streams(job, route)
        try:
            ready = time.monotonic()
            if route.latency > 0:
                ready += route.latency
                self._wait_until(job, ready)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with source.open("rb") as stream:
                output = os.open(target, flags, 0o644)
                try:
                    while copied := os.sendfile(output, stream.fileno(), None, CHUNK):
                        ready = self._wait_for_bandwidth(job, route, ready, copied)
                        row["bytes"] += copied
                    self._wait_until(job, ready)
                finally:
                    os.close(output)
        finally:
            row["end"] = self._clock.now()  # before the next copy can begin
            self._give_streams_back(route)

    def _wait_for_bandwidth(
        self, job: StagingJob, route: CopyRoute, ready: float, copied: int
    ) -> float:
        """Reserve the bandwidths for a chunk and wait until it is due; returns that time."""
        with self._changed:
            due = max((each.reserve(ready, copied) for each in route.bandwidths), default=ready)
        self._wait_until(job, due, _SHORTEST_WAIT)
        # What a late wake-up has lost is caught up, so that the mean rate is the bandwidth.
        return max(due, time.monotonic() - _LARGEST_LAG)

    def _wait_until(self, job: StagingJob, due: float, tolerance: float = 0.0) -> None:
        """Wait until a time of the monotonic clock; raise if the job is cancelled."""
        with self._changed:
            while not job.is_cancelled and (left := due - time.monotonic()) > tolerance:
                self._changed.wait(left)
            if job.is_cancelled:
                raise _CancelledError

    def _take_streams(self, job: StagingJob, route: CopyRoute) -> None:
        """Wait for a free stream of each store; each store serves its copies in their order."""
        with self._changed:
            for streams in route.streams:
                streams.waiting.append(job)
            try:
                self._changed.wait_for(
                    lambda: (
                        job.is_cancelled
                        or all(each.free > 0 and each.waiting[0] is job for each in route.streams)
                    )
                )
                if job.is_cancelled:
                    raise _CancelledError
                for streams in route.streams:
                    streams.free -= 1
            finally:
                for streams in route.streams:
                    streams.waiting.remove(job)
                self._changed.notify_all()

    def _give_streams_back(self, route: CopyRoute) -> None:
        if route.streams:
            with self._changed:
                for streams in route.streams:
                    streams.free += 1
                self._changed.notify_all()


def _measure(path: Path) -> int | None:
    """Return the size of a file; None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _start_thread(target: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=target, name="twinloop-staging", daemon=True)
    thread.start()
    return thread
