"""Coordinators: call a function for many items on threads, processes or a Dask cluster."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Final, Protocol, Self, TypeVar

from twinloop.campaign import process_groups
from twinloop.campaign.outcome import Outcome, evaluate

T = TypeVar("T")
R = TypeVar("R")

#: Values of `on`, apart from the address of a Dask scheduler.
KINDS: Final = ("processes", "threads", "serial", "dask")
#: Prefixes of the address of a Dask scheduler.
_ADDRESS_PREFIXES: Final = ("tcp://", "tls://", "ucx://", "ws://", "wss://")


class Coordinator(Protocol):
    """Calls a function for many items and returns the outcomes in the order of the items.

    It is closed at the end of its `with` block; calls that are still running are ended.
    """

    @property
    def workers(self) -> int:
        """Number of calls that can run at the same time."""

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """Yield the outcome of each item, in the order of the items.

        The function is sent to each worker once, with the objects that it refers to. Data that all
        items share belong in the function, by `functools.partial` or as a callable object. Items
        are taken from the iterable when they are needed.

        Args:
            function: The function to call with one item.
            items: The items; there may be infinitely many.
            outstanding: Maximum number of items that were taken from the iterable and whose outcome
                was not yet yielded; by default twice the number of workers.
        """

    def close(self) -> None:
        """End running calls and the workers that this coordinator started; may be repeated."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class PendingOutcome(Protocol):
    """The outcome of an item that was submitted and may not be evaluated yet."""

    def result(self) -> Outcome:
        """Wait for the outcome."""

    def cancel(self) -> object:
        """Cancel the evaluation if it has not begun."""


class SerialCoordinator:
    """Evaluates one item after the other in this process.

    >>> with SerialCoordinator() as worker:
    ...     [outcome.value for outcome in worker.map(len, ["a", "bcd"])]
    [1, 3]
    """

    workers = 1

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """Yield the outcome of each item; an item is taken when its outcome is requested."""
        choose_outstanding(1, outstanding)
        return (evaluate(function, item) for item in items)

    def close(self) -> None:
        """Do nothing: no call runs in the background."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ThreadCoordinator:
    """Evaluates items on threads, for functions that release the interpreter lock.

    >>> with ThreadCoordinator(2) as workers:
    ...     [outcome.value for outcome in workers.map(len, ["a", "bcd"])]
    [1, 3]
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._threads: set[int] = set()
        self._pool = ThreadPoolExecutor(
            workers,
            "twinloop-worker",
            initializer=lambda: self._threads.add(threading.get_ident()),
        )

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """Yield the outcome of each item, in the order of the items."""
        return map_in_order(
            lambda item: self._pool.submit(evaluate, function, item),
            items,
            choose_outstanding(self.workers, outstanding),
        )

    def close(self) -> None:
        """End the black boxes that run on the threads, and wait for the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with process_groups.refuse_starts(self._threads):
            self._pool.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def map_in_order(
    submit: Callable[[T], PendingOutcome], items: Iterable[T], outstanding: int
) -> Iterator[Outcome]:
    """Submit items, at most `outstanding` at a time, and yield their outcomes in order.

    >>> with ThreadPoolExecutor(2) as pool:
    ...     submit = lambda item: pool.submit(evaluate, abs, item)
    ...     [outcome.value for outcome in map_in_order(submit, [-1, 2, -3], 2)]
    [1, 2, 3]
    """
    waiting: deque[PendingOutcome] = deque()
    remaining = iter(items)
    try:
        while True:
            waiting.extend(map(submit, islice(remaining, outstanding - len(waiting))))
            if not waiting:
                return
            _allow_interrupts()
            outcome = waiting[0].result()
            waiting.popleft()
            yield outcome
    finally:
        for pending in waiting:
            pending.cancel()


def _allow_interrupts() -> None:
    """Let Ctrl-C interrupt the wait for an outcome.

    That is the default of Python; but Polars, once imported, has a signal handler that restarts
    system calls (https://github.com/pola-rs/polars/issues/21739).
    """
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)


def choose_outstanding(workers: int, outstanding: int | None) -> int:
    """Return the maximum number of outstanding items: by default twice the number of workers.

    >>> choose_outstanding(4, None), choose_outstanding(4, 3)
    (8, 3)
    """
    if outstanding is not None and outstanding < 1:
        from twinloop.description.errors import InputError

        raise InputError(
            f"must be 1 or more, not {outstanding}", kind="out-of-range", field="outstanding"
        )
    return 2 * workers if outstanding is None else outstanding


def coordinator(on: str | None = None, *, workers: int | None = None) -> Coordinator:
    """Make a coordinator.

    Args:
        on: `processes` (the default), `threads`, `serial`, `dask` for a cluster of processes on
            this machine, or the address of a running Dask scheduler: `tls://host:port`.
        workers: Number of workers; by default the number of CPUs of this process. Not allowed for
            a running scheduler, which has its own workers.

    >>> with coordinator("serial") as worker:
    ...     next(worker.map(abs, [-1])).value
    1
    """
    from twinloop.description.address import suggest_name
    from twinloop.description.errors import InputError

    if workers is not None and workers < 1:
        raise InputError(f"must be 1 or more, not {workers}", kind="out-of-range", field="workers")
    if on is not None and on.startswith(_ADDRESS_PREFIXES):
        if workers is not None:
            raise InputError(
                f"the scheduler at {on} has its own workers",
                kind="conflicting-fields",
                field="workers",
                remedy="leave out",
            )
        from twinloop.campaign.dask_cluster import DaskCoordinator

        return DaskCoordinator.connect(on)
    count = workers or _count_cpus()
    if on is None or on == "processes":
        from twinloop.campaign.processes import ProcessCoordinator

        return ProcessCoordinator(count)
    if on == "threads":
        return ThreadCoordinator(count)
    if on == "dask":
        from twinloop.campaign.dask_cluster import DaskCoordinator

        return DaskCoordinator.start_local(count)
    if on == "serial":
        if workers not in (None, 1):
            raise InputError(
                f"serial has one worker, not {workers}", kind="conflicting-fields", field="workers"
            )
        return SerialCoordinator()
    raise InputError(
        f"there is no coordinator {on!r}",
        kind="not-a-choice",
        field="on",
        remedy=f"{suggest_name(on, KINDS)}; tls://host:port is a Dask scheduler",
    )


def _count_cpus() -> int:
    """Count the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
