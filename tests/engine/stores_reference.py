"""Transfers over a network with stores, on the slow reference: everything is looked up anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .reference import Activity, Resource, World


@dataclass(eq=False)
class SlowStore:
    node: str
    capacity: float
    read: Resource | None
    write: Resource | None
    streams: float
    files: dict[str, float] = field(default_factory=dict)


@dataclass(eq=False)
class SlowTransfer:
    size: float
    route: list[Resource]
    latency: float
    stores: list[SlowStore]
    target: SlowStore | None
    file: str | None
    activity: Activity | None = None  # from its admission on
    cancelled: bool = False
    suspended: bool = False

    @property
    def state(self) -> str:
        if self.cancelled:
            return "cancelled"
        return "waiting" if self.activity is None else self.activity.state

    @property
    def live(self) -> bool:
        return self.state in ("waiting", "running", "suspended")

    def cancel(self) -> None:
        self.cancelled = True
        if self.activity is not None:
            self.activity.cancel()

    def suspend(self, *, suspended: bool = True) -> None:
        """Stop the flow; the transfer keeps its place in the queue, its stream and its latency."""
        self.suspended = suspended
        if self.activity is not None:
            self.activity.suspended = suspended


class SlowNetwork:
    """Transfers in the order of their registration; `advance` plays them event by event."""

    def __init__(self) -> None:
        self.world = World()
        self.transfers: list[SlowTransfer] = []
        self.delivered: set[int] = set()

    def promised(self, store: SlowStore) -> float:
        return sum(t.size for t in self.transfers if t.live and t.target is store)

    def served(self, store: SlowStore) -> int:
        return sum(t.live and t.activity is not None and store in t.stores for t in self.transfers)

    def fits(self, store: SlowStore, size: float) -> bool:
        return size + self.promised(store) + sum(store.files.values()) <= store.capacity

    def admit(self) -> None:
        """First come, first served at every store."""
        blocked: set[int] = set()
        for transfer in self.transfers:
            if transfer.state != "waiting" or transfer.activity is not None:
                continue
            free = all(
                id(store) not in blocked and self.served(store) < store.streams
                for store in transfer.stores
            )
            if free:
                transfer.activity = self.world.start(
                    transfer.size, transfer.route, latency=transfer.latency
                )
                transfer.activity.suspended = transfer.suspended
            else:
                blocked.update(id(store) for store in transfer.stores)

    def advance(self, until: float | Fraction | None) -> None:
        while (time := self.world.peek()) is not None and (until is None or time < until):
            self.world.step(time)
            self.deliver()
            self.admit()
        if until is not None:
            self.world.run(until=until)

    def deliver(self) -> None:
        for number, transfer in enumerate(self.transfers):
            if transfer.state == "finished" and number not in self.delivered:
                self.delivered.add(number)
                if transfer.target is not None and transfer.file is not None:
                    transfer.target.files[transfer.file] = transfer.size


def finish_time(transfer: Any) -> Any:
    return transfer.activity.finished if transfer.activity is not None else None
