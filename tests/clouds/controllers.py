"""Controllers and clients of clouds in Python, for tests; by name they need permission to run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from twinloop.policy import (
    Decision,
    Kill,
    Migrate,
    Place,
    Policy,
    Preempt,
    Release,
    Rent,
    Resize,
    SetState,
    View,
    Wake,
)

_KINDS: dict[str, Any] = {
    each.kind: each for each in (Kill, Migrate, Place, Preempt, Release, Rent, Resize, SetState)
}


class FirstFit(Policy):
    """Place tasks, or instances, on the first machine with room; the head of the queue blocks."""

    def decide(self, view: View) -> Iterator[Decision]:
        """Place the tasks in the order of the queue."""
        cores, memory = view.free_cores, view.free_memory
        for task in view.waiting:
            fits = (cores >= view.cores(task) - 1e-9) & (memory >= view.memory(task) * (1 - 1e-9))
            if not fits.any():
                return
            machine = int(fits.argmax())
            cores[machine] -= view.cores(task)
            memory[machine] -= view.memory(task)
            yield Place(task, machine)


class Scripted(Policy):
    """Give orders at given times.

    Args:
        orders: Lists of a time, the kind of an order, and its fields.
        places: Whether it also places instances, first fit.
        tolerant: Whether refused orders are noted, instead of an error.
        overcommit: As of a policy.
    """

    decide_when_idle = True
    #: The refused orders of all runs, as kind and reason; a test empties it.
    refused: ClassVar[list[tuple[str, str]]] = []

    def __init__(
        self,
        orders: Sequence[Sequence[Any]] = (),
        *,
        places: bool = False,
        tolerant: bool = False,
        overcommit: float = 1.0,
    ) -> None:
        self.orders = [tuple(each) for each in orders]
        self.places = places
        self.overcommit = overcommit
        self.failed = note_refusal if tolerant else None

    def decide(self, view: View) -> Iterator[Decision]:
        """Give the orders that are due."""
        if self.places:
            yield from FirstFit().decide(view)
        due = [each for each in self.orders if each[0] <= view.now]
        self.orders = [each for each in self.orders if each[0] > view.now]
        for _, kind, *fields in due:
            yield _KINDS[kind](*fields)
        if self.orders:
            yield Wake(min(each[0] for each in self.orders))


def note_refusal(decision: Decision, reason: str) -> None:
    """Note a refused order."""
    Scripted.refused.append((decision.kind, reason))


class Observer(Policy):
    """Give no orders, and note what a controller of a cloud sees of its instances."""

    decide_when_idle = True
    seen: ClassVar[list[tuple[Any, ...]]] = []

    def decide(self, view: View) -> None:
        """Note the instances: time, name, user, cores, host, and what happens to it."""
        for instance in [*view.waiting, *view.running]:
            hosts = [view.machine_name(host) for host, _ in view.placement(instance)]
            self.seen.append(
                (
                    view.now,
                    view.id(instance),
                    view.user(instance),
                    view.cores(instance),
                    view.used_cores(instance),
                    *(hosts or [None]),
                    view.is_starting(instance),
                    view.is_migrating(instance),
                )
            )


class Client(Policy):
    """Rent one instance at a time, fill it with tasks, and give it back when no task is left.

    Args:
        rent: The fields of `Rent`.
    """

    decide_when_idle = True
    #: What happened to the instances of all runs: time, index, event; a test empties it.
    events: ClassVar[list[tuple[float, str | None, str]]] = []
    states: ClassVar[list[tuple[float, str]]] = []

    def __init__(self, rent: dict[str, Any] | None = None) -> None:
        self.rent = rent or {"cores": 2}
        self.refused = False
        self.view: View | None = None

    def start(self, view: View, rng: Any) -> Policy:
        """Return the state of one run, with its view."""
        state = Client(self.rent)
        state.view = view
        return state

    def instance_changed(self, instance: int, event: str) -> None:
        """Note what has happened to an instance."""
        assert self.view is not None
        self.events.append((self.view.now, self.view.machine_name(instance), event))
        self.refused = self.refused or event == "refused"

    def decide(self, view: View) -> Iterator[Decision]:
        """Rent an instance while tasks wait; tasks whose instance is refused are killed."""
        self.states.extend((view.now, view.state(each)) for each in view.rented)
        if self.refused:
            yield from (Kill(task) for task in view.waiting)
            return
        if view.waiting and not view.rented:
            yield Rent(**self.rent)
        for instance in view.rented:
            if view.state(instance) != "running":
                continue
            free = view.free(instance)
            for task in view.waiting:
                if view.cores(task) <= free:
                    free -= view.cores(task)
                    yield Place(task, instance)
            if not view.waiting and not view.running:
                yield Release(instance)
