"""Tasks that read files, compute and write files, each on a machine of its own: slow and obvious.

Transfers are those of `tests.engine.stores_reference`; a task is a cursor over its steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.engine.reference import Activity, Resource
from tests.engine.stores_reference import SlowNetwork, SlowStore, SlowTransfer


@dataclass(frozen=True)
class Node:
    """The ports of a machine."""

    send: Resource
    receive: Resource


@dataclass(eq=False)
class SlowTask:
    number: int
    steps: list[tuple[str, Any]]  # ("read", file), ("work", seconds), ("write", file)
    cursor: int = 0
    doing: SlowTransfer | Activity | None = None
    since: Fraction = Fraction(0)  # start of the step
    suspended: bool = False
    status: str = "running"
    end: Fraction | None = None


@dataclass
class SlowStaging:
    """The world of such tasks: files by number, with sizes and stores (None: local)."""

    network: SlowNetwork
    nodes: list[Node]
    disk: SlowStore
    local: list[SlowStore]
    sizes: list[float]
    homes: list[SlowStore | None]
    latency: float
    tasks: list[SlowTask] = field(default_factory=list)
    log: list[tuple[Any, ...]] = field(default_factory=list)
    places: dict[int, SlowStore] = field(default_factory=dict)

    def begin(self, task: SlowTask) -> None:
        """Begin the step of the cursor, or end the task."""
        world = self.network.world
        task.since = world.now
        if task.cursor == len(task.steps):
            self.close(task, "completed")
            return
        kind, what = task.steps[task.cursor]
        if kind == "work":
            cpu = world.resource(1.0)
            task.doing = world.start(what, [cpu])
            task.doing.suspended = task.suspended
            return
        store = self.find_store(task, kind, what)
        if store is None or (kind == "write" and not self.network.fits(store, self.sizes[what])):
            self.close(task, "failed")
            return
        task.doing = self.make_transfer(task, kind, what, store)
        task.doing.suspended = task.suspended
        self.network.transfers.append(task.doing)
        self.network.admit()

    def find_store(self, task: SlowTask, kind: str, file: int) -> SlowStore | None:
        """The store of a file; None if it is to be read and has not been written."""
        home = self.homes[file]
        if kind == "write":
            return home or self.local[task.number]
        store = home or self.places.get(file)
        return store if store is not None and str(file) in store.files else None

    def make_transfer(self, task: SlowTask, kind: str, file: int, store: SlowStore) -> SlowTransfer:
        here = self.nodes[task.number]
        there = self.nodes[self.local.index(store)] if store in self.local else None
        bandwidth = store.read if kind == "read" else store.write
        route = [] if bandwidth is None else [bandwidth]
        if there is not here:
            route.append(here.receive if kind == "read" else here.send)
            if there is not None:
                route.append(there.send if kind == "read" else there.receive)
        if not route:
            route.append(self.network.world.resource(1e50))
        return SlowTransfer(
            self.sizes[file],
            route,
            self.latency if there is not here else 0.0,
            [store],
            store if kind == "write" else None,
            str(file),
        )

    def close(self, task: SlowTask, status: str) -> None:
        task.status, task.end, task.doing = status, self.network.world.now, None

    def stop(self, task: SlowTask) -> None:
        """Cancel what the task does."""
        if task.doing is not None:
            task.doing.cancel()
            self.record(task)
            self.network.admit()
        task.doing, task.cursor, task.suspended = None, 0, False

    def record(self, task: SlowTask) -> None:
        if isinstance(task.doing, SlowTransfer):
            kind, file = task.steps[task.cursor]
            left = task.doing.size if (a := task.doing.activity) is None else float(a.remaining)
            done = task.doing.size - left
            now = float(self.network.world.now)
            self.log.append((task.number, kind, file, done, float(task.since), now))

    def suspend(self, task: SlowTask, *, suspended: bool) -> None:
        task.suspended = suspended
        if isinstance(task.doing, SlowTransfer):
            task.doing.suspend(suspended=suspended)
        elif task.doing is not None:
            task.doing.suspended = suspended

    def advance(self, until: float | None) -> None:
        world = self.network.world
        while (time := world.peek()) is not None and (until is None or time < until):
            world.step(time)
            self.network.deliver()
            self.network.admit()
            for task in self.tasks:
                if task.doing is not None and task.doing.state == "finished":
                    self.end_step(task)
        if until is not None:
            world.run(until=until)

    def end_step(self, task: SlowTask) -> None:
        kind, what = task.steps[task.cursor]
        self.record(task)
        if kind == "write" and self.homes[what] is None:
            self.set_place(what, self.local[task.number])
        task.cursor += 1
        self.begin(task)

    def set_place(self, file: int, store: SlowStore) -> None:
        before = self.places.get(file)
        if before is not None and before is not store:
            before.files.pop(str(file))
        self.places[file] = store
