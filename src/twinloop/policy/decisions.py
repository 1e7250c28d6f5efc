"""The decisions that a scheduling policy returns to the simulator or to the executor.

A decision is a value: do not change one after it is created. The classes are not frozen, because
a policy written in Python may create a hundred thousand decisions per second and a frozen
dataclass takes three times as long to create.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(slots=True)
class Place:
    """Start a waiting task now, on one machine or on several.

    >>> Place(3, 0)
    Place(task=3, machines=0, cores=None)
    >>> Place(3, (0, 2), cores=8.0).machines
    (0, 2)
    """

    kind: ClassVar[str] = "place"

    #: Index of the task, as in `View.waiting`.
    task: int
    #: Index of the machine, or the indices of several machines.
    machines: int | Sequence[int]
    #: Cores on each machine: one number for all machines, or one per machine. None: the requested
    #: cores of the task, in equal parts.
    cores: float | Sequence[float] | None = None


@dataclass(slots=True)
class Reserve:
    """Reserve machines for a waiting task from a later time on.

    >>> Reserve(3, 3600.0, 0).kind
    'reserve'
    """

    kind: ClassVar[str] = "reserve"

    #: Index of the task, as in `View.waiting`.
    task: int
    #: Start of the reservation (s).
    time: float
    #: Index of the machine, or the indices of several machines.
    machines: int | Sequence[int]


@dataclass(slots=True)
class Wake:
    """Call `decide` again at a given time, even if no event happens before.

    >>> Wake(60.0)
    Wake(time=60.0)
    """

    kind: ClassVar[str] = "wake"

    #: Time of the next call (s).
    time: float


@dataclass(slots=True)
class Preempt:
    """Stop a running task and put it back into the queue.

    >>> Preempt(3) == Kill(3)
    False
    """

    kind: ClassVar[str] = "preempt"

    #: Index of the task, as in `View.running`.
    task: int


@dataclass(slots=True)
class Kill:
    """End a running or waiting task for good; it is not started again.

    >>> Kill(3)
    Kill(task=3)
    """

    kind: ClassVar[str] = "kill"

    #: Index of the task, as in `View.running` or `View.waiting`.
    task: int


@dataclass(slots=True)
class SetState:
    """Order a state of a machine.

    >>> SetState(0, "off").state
    'off'
    """

    kind: ClassVar[str] = "set-state"

    #: Index of the machine.
    machine: int
    #: The new state: "on", "off", or another state of the host, such as "suspended".
    state: str


#: Any decision; `kind` names its type.
Decision: TypeAlias = Place | Reserve | Wake | Preempt | Kill | SetState
