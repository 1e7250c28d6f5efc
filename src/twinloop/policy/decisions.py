"""What a policy answers: decisions, each with a tag that says its kind.

They are values, and nothing changes one once it is given. This is not enforced, because a policy
written in Python makes a hundred thousand of them in a second, and a frozen class takes three
times as long to make.
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

    #: The task, by the index that the view gives it.
    task: int
    #: The machine or machines, by their indices.
    machines: int | Sequence[int]
    #: Cores on each machine, one number for all or one for each; None: what the task asks for, in
    #: equal parts.
    cores: float | Sequence[float] | None = None


@dataclass(slots=True)
class Reserve:
    """Keep these machines for a waiting task from a later time on.

    >>> Reserve(3, 3600.0, 0).kind
    'reserve'
    """

    kind: ClassVar[str] = "reserve"

    #: The task, by the index that the view gives it.
    task: int
    #: From when on (s).
    time: float
    #: The machine or machines, by their indices.
    machines: int | Sequence[int]


@dataclass(slots=True)
class Wake:
    """Ask again at this time, even if nothing happens until then.

    >>> Wake(60.0)
    Wake(time=60.0)
    """

    kind: ClassVar[str] = "wake"

    #: When (s).
    time: float


@dataclass(slots=True)
class Preempt:
    """Take a running task from its machines; it waits again.

    >>> Preempt(3) == Kill(3)
    False
    """

    kind: ClassVar[str] = "preempt"

    #: The task, by the index that the view gives it.
    task: int


@dataclass(slots=True)
class Kill:
    """End a task for good, running or waiting.

    >>> Kill(3)
    Kill(task=3)
    """

    kind: ClassVar[str] = "kill"

    #: The task, by the index that the view gives it.
    task: int


@dataclass(slots=True)
class SetState:
    """Put a machine into another state.

    >>> SetState(0, "off").state
    'off'
    """

    kind: ClassVar[str] = "set-state"

    #: The machine, by its index.
    machine: int
    #: The state that it is to have.
    state: str


Decision: TypeAlias = Place | Reserve | Wake | Preempt | Kill | SetState
