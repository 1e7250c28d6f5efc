"""Who calls a function for many items: this process, its threads, processes, or a Dask cluster."""

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

#: What `on` may be; or the address of a Dask scheduler.
KINDS: Final = ("processes", "threads", "serial", "dask")
_ADDRESS: Final = ("tcp://", "tls://", "ucx://", "ws://", "wss://")


class Coordinator(Protocol):
    """Calls a function for many items and hands out what became of each, in their order.

    It is closed when its `with` block ends. What then still runs is ended, not waited for.
    """

    @property
    def workers(self) -> int:
        """How many calls can go on at the same time."""

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """What becomes of each item, in the order of the items.

        The function goes to each worker once, with everything it holds; so what all items have in
        common belongs into it, by `functools.partial` or as an object that can be called. Items
        are pulled as they are needed.

        Args:
            function: What to call. It gets one item, and returns anything.
            items: What to call it with, any number of them.
            outstanding: Most items that have been pulled and whose outcome was not yet handed out;
                by default twice as many as there are workers.
        """

    def close(self) -> None:
        """End what runs, and all workers that were started for it. Twice is no mistake."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class PendingOutcome(Protocol):
    """What will become of an item that was submitted."""

    def result(self) -> Outcome:
        """Wait for it."""

    def cancel(self) -> object:
        """Forget it if nobody has begun with it."""


class SerialCoordinator:
    """This process does one item after the other.

    >>> with SerialCoordinator() as worker:
    ...     [outcome.value for outcome in worker.map(len, ["a", "bcd"])]
    [1, 3]
    """

    workers = 1

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """What becomes of each item: pulled, done and handed out one by one."""
        choose_outstanding(1, outstanding)
        return (evaluate(function, item) for item in items)

    def close(self) -> None:
        """Nothing is left to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ThreadCoordinator:
    """Threads of this process, for functions that leave the interpreter alone while they work.

    >>> with ThreadCoordinator(2) as workers:
    ...     [outcome.value for outcome in workers.map(len, ["a", "bcd"])]
    [1, 3]
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._mine: set[int] = set()
        self._pool = ThreadPoolExecutor(
            workers,
            "twinloop-worker",
            initializer=lambda: self._mine.add(threading.get_ident()),
        )

    def map(
        self, function: Callable[[T], R], items: Iterable[T], *, outstanding: int | None = None
    ) -> Iterator[Outcome]:
        """What becomes of each item, in the order of the items."""
        return map_in_order(
            lambda item: self._pool.submit(evaluate, function, item),
            items,
            choose_outstanding(self.workers, outstanding),
        )

    def close(self) -> None:
        """End the black boxes that its threads run, and wait for the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with process_groups.refuse_starts(self._mine):
            self._pool.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def map_in_order(
    submit: Callable[[T], PendingOutcome], items: Iterable[T], outstanding: int
) -> Iterator[Outcome]:
    """Submit items as room comes free; their outcomes in order.

    >>> with ThreadPoolExecutor(2) as pool:
    ...     submitted = lambda item: pool.submit(evaluate, abs, item)
    ...     [outcome.value for outcome in map_in_order(submitted, [-1, 2, -3], 2)]
    [1, 2, 3]
    """
    waiting: deque[PendingOutcome] = deque()
    source = iter(items)
    try:
        while True:
            waiting.extend(map(submit, islice(source, outstanding - len(waiting))))
            if not waiting:
                return
            _hear_interrupts()
            outcome = waiting[0].result()
            waiting.popleft()
            yield outcome
    finally:
        for pending in waiting:
            pending.cancel()


def _hear_interrupts() -> None:
    """Let Ctrl-C end the wait for a lock.

    It does so by default, until Polars is loaded: its handler has the kernel go on waiting
    (https://github.com/pola-rs/polars/issues/21739).
    """
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(signal.SIGINT, True)


def choose_outstanding(workers: int, outstanding: int | None) -> int:
    """How many items may be outstanding.

    >>> choose_outstanding(4, None), choose_outstanding(4, 3)
    (8, 3)
    """
    if outstanding is not None and outstanding < 1:
        from twinloop.description.errors import InputError

        raise InputError(f"must be 1 or more, not {outstanding}", field="outstanding")
    return 2 * workers if outstanding is None else outstanding


def coordinator(on: str | None = None, *, workers: int | None = None) -> Coordinator:
    """Make a coordinator.

    Args:
        on: `processes` (the default), `threads`, `serial`, `dask` for a cluster of processes on
            this machine, or the address of a Dask scheduler that is running: `tls://host:port`.
        workers: How many; by default as many as this process has CPUs. A scheduler that is running
            has its own.

    >>> with coordinator("serial") as one:
    ...     next(one.map(abs, [-1])).value
    1
    """
    from twinloop.description.address import suggest_name
    from twinloop.description.errors import InputError

    if workers is not None and workers < 1:
        raise InputError(f"must be 1 or more, not {workers}", field="workers")
    if on is not None and on.startswith(_ADDRESS):
        if workers is not None:
            raise InputError(
                f"the scheduler at {on} has workers of its own", field="workers", remedy="leave out"
            )
        from twinloop.campaign.dask_cluster import DaskCoordinator

        return DaskCoordinator.connect(on)
    count = workers or _cpus()
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
            raise InputError(f"serial is one worker, not {workers}", field="workers")
        return SerialCoordinator()
    raise InputError(
        f"{on!r} is no place to run on",
        field="on",
        remedy=f"{suggest_name(on, KINDS)}; tls://host:port is a Dask scheduler",
    )


def _cpus() -> int:
    """How many CPUs this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
