"""Worker processes on this machine, each of which may die without harm to the others."""

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

#: How often an item is tried whose worker dies: the first time may have been somebody's mistake.
_ATTEMPTS: Final = 2
#: How long a worker may take to clean up (s), before it is killed.
_PATIENCE: Final = 10.0


class ProcessCoordinator:
    """Worker processes, each with a thread here that feeds it.

    A worker that dies is replaced; what it was doing is tried once more. They are started when
    they are first needed, by the same Python, and know neither `__main__` nor anything else of
    this process but what the function brings.

    >>> with ProcessCoordinator(2) as workers:
    ...     [outcome.value for outcome in workers.map(lambda x: 2 * x, range(3))]
    [0, 2, 4]
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._feeders = ThreadPoolExecutor(workers, "twinloop-feeder")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._started: set[_Worker] = set()
        self._closed = False

    @property
    def pids(self) -> list[int]:
        """The processes that were started and are not known to have ended."""
        with self._lock:
            return sorted(worker.pid for worker in self._started)

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """What becomes of each item, in the order of the items."""
        parcel = serialise_function(function)
        return map_in_order(
            lambda item: self._feeders.submit(self._run, parcel, item),
            items,
            choose_outstanding(self.workers, outstanding),
        )

    def close(self) -> None:
        """End all workers; those that work are asked to, and killed if they do not."""
        with self._lock:
            self._closed = True
            ending = list(self._started)
        self._feeders.shutdown(wait=False, cancel_futures=True)
        try:
            for worker in ending:
                worker.ask_to_end()
            until = time.monotonic() + _PATIENCE
            for worker in ending:
                worker.wait(max(0.0, until - time.monotonic()))
        finally:
            for worker in ending:
                worker.kill()
            self._feeders.shutdown(wait=True)
            for worker in ending:
                worker.close()
            with self._lock:
                self._started.difference_update(ending)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, function: bytes, item: Any) -> Outcome:
        """Have the worker of this thread do one item."""
        began = time.perf_counter()
        try:
            parcel = serialise(item)
        except Exception as error:
            why = f"{format_failure(error, item)}, which cannot be sent to a worker"
            return Outcome(None, why, time.perf_counter() - began)
        ends: list[str] = []
        while len(ends) < _ATTEMPTS and not self._closed:
            worker = self._worker()
            try:
                return pickle.loads(worker.run(function, parcel))  # type: ignore[no-any-return]
            except (EOFError, BrokenPipeError):
                ends.append(self._bury(worker))
            except Exception as error:
                why = f"{format_failure(error, item)}, whose value cannot be loaded here"
                return Outcome(None, why, time.perf_counter() - began)
        how = ", then by ".join(ends) or "the end of the campaign"
        why = f"the worker process was ended by {how}, for {format_item(item)}"
        return Outcome(None, why, time.perf_counter() - began)

    def _worker(self) -> _Worker:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the coordinator is closed")
                worker = self._own.worker = _Worker()
                self._started.add(worker)
        return worker

    def _bury(self, worker: _Worker) -> str:
        """What ended a worker."""
        self._own.worker = None
        worker.kill()
        code = worker.wait(None)
        with self._lock:
            if not self._closed:  # else whoever closes does the rest
                self._started.discard(worker)
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
        self._orders = self._process.stdin
        self._answers = self._process.stdout
        self._has: bytes | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, function: bytes, parcel: bytes) -> bytes:
        """Have it done; EOFError or BrokenPipeError if it dies."""
        orders = self._orders.fileno()
        if self._has != function:
            send(orders, "f", function)
            self._has = function
        send(orders, "i", parcel)
        return receive(self._answers.fileno())[1]

    def ask_to_end(self) -> None:
        self._process.terminate()

    def wait(self, seconds: float | None) -> int | None:
        """Its exit code; None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.wait()
        for pipe in (self._orders, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()
