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


@dataclass(slots=True)
class Rent:
    """Rent an instance of a cloud. Only the policy of the scenario, the client, orders it.

    >>> Rent(type="large", image="base").cloud
    0
    >>> Rent(cores=4).kind
    'rent'
    """

    kind: ClassVar[str] = "rent"

    #: Name or position of the cloud, as in `View.clouds`.
    cloud: int | str = 0
    #: Name or position of the type of instances in the cloud.
    type: int | str = 0
    #: Name or position of the image in the cloud.
    image: int | str = 0
    #: Cores of the instance. None: those of the type; a type with `fits: task` has none of its own.
    cores: float | None = None
    #: Memory of the instance (bytes). None: that of the type; none is reserved with `fits: task`.
    memory: float | None = None
    #: User of the workload to whom the instance is attributed; None: no user.
    user: str | None = None
    #: Time for which it will be used (s), for providers that plan with it; None: not known.
    time: float | None = None
    #: The highest spot price of a unit at which it runs, see `View.spot_prices`. None: it is not
    #: rented at spot prices.
    bid: float | None = None


@dataclass(slots=True)
class Release:
    """Give an instance back, in any state. Only the policy of the scenario, the client, orders it.

    >>> Release(5)
    Release(instance=5)
    """

    kind: ClassVar[str] = "release"

    #: Index of the instance, as in `View.rented`.
    instance: int


@dataclass(slots=True)
class Migrate:
    """Move an instance to another host. Only the controllers of its cloud order it.

    >>> Migrate(3, host=0)
    Migrate(instance=3, host=0)
    """

    kind: ClassVar[str] = "migrate"

    #: Index of the instance, as in `View.running` of a cloud.
    instance: int
    #: Index of the host.
    host: int


@dataclass(slots=True)
class Resize:
    """Give a running instance another number of cores; only the controllers of its cloud order it.

    >>> Resize(3, cores=8.0)
    Resize(instance=3, cores=8.0)
    """

    kind: ClassVar[str] = "resize"

    #: Index of the instance, as in `View.running` of a cloud.
    instance: int
    #: The new number of cores.
    cores: float


#: Any decision; `kind` names its type.
Decision: TypeAlias = (
    Place | Reserve | Wake | Preempt | Kill | SetState | Rent | Release | Migrate | Resize
)
