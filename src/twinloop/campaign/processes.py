"""Evaluation in worker processes on this machine; if a worker dies, only its item is affected."""

from __future__ import annotations

import contextlib
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Self, TypeVar

from twinloop.campaign.coordinators import choose_outstanding, map_in_order
from twinloop.campaign.messages import receive, send
from twinloop.campaign.outcome import Outcome, format_failure, format_item
from twinloop.campaign.serialisation import serialise, serialise_function
from twinloop.campaign.worker import PROGRAM

T = TypeVar("T")
R = TypeVar("R")

#: Attempts at an item whose worker dies: the first death may have had an external cause.
_MAX_ATTEMPTS: Final = 2
#: Time from SIGTERM until a worker that has not ended is killed (s).
_TERMINATE_TIMEOUT: Final = 10.0


class ProcessCoordinator:
    """Evaluates items in worker processes, each fed by a thread of this process.

    A worker that dies is replaced, and its item is evaluated once more. Workers are started when
    they are first needed, with the same Python interpreter. They do not run `__main__`, and have
    only those objects of this process that are sent with the function.

    >>> with ProcessCoordinator(2) as workers:
    ...     [outcome.value for outcome in workers.map(lambda x: 2 * x, range(3))]
    [0, 2, 4]
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._feeders = ThreadPoolExecutor(workers, "twinloop-feeder")
        self._of_thread = threading.local()
        self._lock = threading.Lock()
        self._workers: set[_Worker] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """Process IDs of the workers; a worker that has just ended may still be listed."""
        with self._lock:
            return sorted(worker.pid for worker in self._workers)

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """Yield the outcome of each item, in the order of the items."""
        content = serialise_function(function)
        return map_in_order(
            lambda item: self._feeders.submit(self._evaluate, content, item),
            items,
            choose_outstanding(self.workers, outstanding),
        )

    def close(self) -> None:
        """End all workers by SIGTERM, and by SIGKILL if they do not end in time."""
        with self._lock:
            self._closed = True
            ending = list(self._workers)
        self._feeders.shutdown(wait=False, cancel_futures=True)
        try:
            for worker in ending:
                worker.terminate()
            deadline = time.monotonic() + _TERMINATE_TIMEOUT
            for worker in ending:
                worker.wait(max(0.0, deadline - time.monotonic()))
        finally:
            for worker in ending:
                worker.kill()
            self._feeders.shutdown(wait=True)
            for worker in ending:
                worker.close()
            with self._lock:
                self._workers.difference_update(ending)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _evaluate(self, function: bytes, item: Any) -> Outcome:
        """Evaluate one item in the worker of this thread."""
        began = time.perf_counter()
        try:
            content = serialise(item)
        except Exception as error:
            why = f"{format_failure(error, item)}, which cannot be sent to a worker"
            return Outcome(None, why, time.perf_counter() - began)
        ends: list[str] = []
        while len(ends) < _MAX_ATTEMPTS and not self._closed:
            worker = self._get_worker()
            try:
                return pickle.loads(worker.run(function, content))  # type: ignore[no-any-return]
            except (EOFError, BrokenPipeError):
                ends.append(self._remove(worker))
            except Exception as error:
                why = f"{format_failure(error, item)}, whose value cannot be loaded here"
                return Outcome(None, why, time.perf_counter() - began)
        cause = ", then by ".join(ends) or "the end of the campaign"
        why = f"the worker process was ended by {cause}, for {format_item(item)}"
        return Outcome(None, why, time.perf_counter() - began)

    def _get_worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._of_thread, "worker", None)
        if worker is None:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the coordinator is closed")
                worker = self._of_thread.worker = _Worker()
                self._workers.add(worker)
        return worker

    def _remove(self, worker: _Worker) -> str:
        """Remove a worker that has ended; returns the cause of its end."""
        self._of_thread.worker = None
        worker.kill()
        code = worker.wait(None)
        with self._lock:
            if not self._closed:  # otherwise `close` removes it
                self._workers.discard(worker)
                worker.close()
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-code).name
            return f"signal {-code}"
        return f"itself (exit code {code})"


class _Worker:
    """One worker process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._replies = self._process.stdout
        self._function: bytes | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, function: bytes, item: bytes) -> bytes:
        """Evaluate an item; an EOFError or BrokenPipeError if the worker dies."""
        requests = self._requests.fileno()
        if self._function != function:
            send(requests, "f", function)
            self._function = function
        send(requests, "i", item)
        return receive(self._replies.fileno())[1]

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self, seconds: float | None) -> int | None:
        """Return the exit code; None if the worker still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.wait()
        for pipe in (self._requests, self._replies):
            with contextlib.suppress(OSError):
                pipe.close()
