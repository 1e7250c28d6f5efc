"""The interface of scheduling policies written in Python: the view and the policy."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from twinloop.policy.built_in import BuiltInPolicy
from twinloop.policy.decisions import Decision

if TYPE_CHECKING:
    from twinloop.platform.clouds import Cloud


class View(Protocol):
    """The state of queue and machines that a policy may use for its decisions.

    It contains the quantities that the scheduler of a real cluster can observe: requested run
    times, for example, but not the actual ones (unless a task has no requested time). Tasks and
    machines are indices. A view is valid until `decide` returns.

    For the controllers of a cloud, the machines are its hosts, and the tasks are its instances: the
    waiting ones have no host yet, the running ones have one. An instance that moves is there twice
    meanwhile, with one index on each host and one `id`.

    >>> def requested_cores(view: View) -> float:
    ...     return sum(view.cores(task) for task in view.waiting)
    """

    @property
    def now(self) -> float:
        """The current time (s)."""

    @property
    def waiting(self) -> Sequence[int]:
        """The tasks that are ready to start, in the order in which they became ready."""

    @property
    def first_waiting(self) -> int | None:
        """The first task of `waiting`, or None if no task waits."""

    @property
    def running(self) -> Sequence[int]:
        """The tasks that are running, in no particular order."""

    @property
    def machines(self) -> int:
        """The number of machines."""

    @property
    def capacity(self) -> npt.NDArray[np.float64]:
        """The cores of each machine, free or not."""

    @property
    def free_cores(self) -> npt.NDArray[np.float64]:
        """The free cores of each machine; 0 for a machine that is down."""

    @property
    def free_memory(self) -> npt.NDArray[np.float64]:
        """The free memory of each machine (bytes); infinite if its memory is unknown."""

    @property
    def task_counts(self) -> npt.NDArray[np.float64]:
        """The number of tasks on each machine."""

    def free(self, machine: int) -> float:
        """The free cores of one machine."""

    @property
    def states(self) -> Sequence[str]:
        """The state of each machine: "running", "off", "down", or another one of its host.

        A rented instance is "starting" until the end of its boot, "running", or, in the downtime of
        a migration, "stopped". An instance that is gone is "down".
        """

    def state(self, machine: int) -> str:
        """The state of one machine."""

    def transition_end(self, machine: int) -> float | None:
        """The time at which the transition of a machine ends (s); None if it is in none."""

    def host(self, machine: int) -> int | None:
        """The host of an instance; None of other machines."""

    def hosted_since(self, machine: int) -> float | None:
        """The time at which an instance that the client has rented got its first host.

        None for other machines, and before it has one.
        """

    def machine_name(self, machine: int) -> str | None:
        """The name of a machine."""

    def id(self, task: int) -> str | None:
        """The id of a task in the workload."""

    def cores(self, task: int) -> float:
        """The requested cores of a task, summed over its nodes."""

    def min_cores(self, task: int) -> float:
        """The fewest cores of a task on one machine: without a speed-up law, those it requests."""

    def max_cores(self, task: int) -> float:
        """The most cores of a task on one machine: without a speed-up law, those it requests."""

    def speedup(self, task: int, cores: float) -> float | None:
        """The speed of a task on so many cores, as a multiple of that on one; None without a law.

        It refers to one machine. The run time on the requested cores is multiplied by
        speedup(requested) / speedup(cores).
        """

    def efficiency(self, task: int, cores: float) -> float | None:
        """The speed-up of a task divided by the cores; None without a law."""

    def nodes(self, task: int) -> int:
        """The requested nodes of a task; 0: its cores may be on any number of machines."""

    def memory(self, task: int) -> float:
        """The requested memory of a task (bytes)."""

    def requested_time(self, task: int) -> float:
        """The run time to plan with (s): the requested time of the task.

        For a task without a requested time it is the recorded plan or, without one, its run time.
        """

    def predicted_time(self, task: int) -> float:
        """The run time that the user predicts (s): the requested time, even if it is too short.

        For a task without a requested time it is `requested_time`.
        """

    def submit(self, task: int) -> float:
        """The submission time of a task in this run (s); NaN if it is not submitted yet."""

    def submit_recorded(self, task: int) -> float:
        """The submission time of a task in the replayed log (s).

        It differs from `submit` if users in this run wait for results before they submit again.
        """

    def user(self, task: int) -> str | None:
        """The user who submitted a task."""

    def queue(self, task: int) -> str | None:
        """The queue of a task."""

    def priority(self, task: int) -> float:
        """The priority of the queue of a task."""

    def started(self, task: int) -> float:
        """The start time of a running task (s)."""

    def planned_end(self, task: int) -> float:
        """The planned end of a running task (s): its start plus `requested_time`."""

    def placement(self, task: int) -> Sequence[tuple[int, float]]:
        """The machines of a running task, each with the cores of the task on it."""

    @property
    def clouds(self) -> Sequence[Cloud]:
        """The descriptions of the clouds, with types and images, for the client; else empty."""

    @property
    def rented(self) -> Sequence[int]:
        """The machines that are instances which the client has rented, also before their start."""

    @property
    def spot_prices(self) -> tuple[float | None, ...]:
        """The present spot price of each cloud, for the client; None for a cloud without one."""

    def is_starting(self, task: int) -> bool:
        """Whether an instance of a cloud, a task there, has not reached the end of its boot."""

    def is_migrating(self, task: int) -> bool:
        """Whether an instance of a cloud, a task there, moves to another host."""

    def used_cores(self, task: int) -> float:
        """The cores of an instance of a cloud, a task there, that the tasks on it use."""


class Policy(ABC):
    """Base class of scheduling policies written in Python.

    A subclass implements `decide`. The arguments of its constructor are the options of the policy.
    An object is a description: each run starts a state of its own (`start`), so that parallel runs
    share nothing.

    A decision that cannot be carried out is an error, unless the subclass has a method
    `failed(decision, reason)`: then this method is called.

    The client of a cloud may have a method `instance_changed(instance, event)`. It is called with
    "requested" when the instance of a `Rent` has got its index, and before the next `decide` with
    "ready" after its boot, or with "refused", "lost" or "ended" when it is gone (its index may be
    used again). After a change of the policy in a copy of a run, "found" tells of the instances
    that the policy before has rented.

    >>> from twinloop.policy import Place
    >>> class FirstMachine(Policy):
    ...     def decide(self, view):
    ...         return [Place(task, 0) for task in view.waiting]
    >>> FirstMachine().name.endswith(":FirstMachine")
    True
    """

    #: Cores that may be allocated on a machine, as a multiple of the cores that it has.
    overcommit: float = 1.0
    #: Whether `decide` is also called after changes while no task waits, to switch idle machines.
    decide_when_idle: bool = False

    @property
    def name(self) -> str:
        """The name of the policy in manifests: `module:Class`."""
        return f"{type(self).__module__}:{type(self).__name__}"

    def start(self, view: View, rng: np.random.Generator) -> Policy:
        """Return the state of one run, on which `decide` is called; by default a deep copy.

        Args:
            view: The view that `decide` will be given; it cannot be read before.
            rng: The only source of randomness that a policy may use: it is seeded, so that a run
                can be repeated.
        """
        return copy.deepcopy(self)

    @abstractmethod
    def decide(self, view: View) -> Iterable[Decision] | None:
        """Return the decisions to carry out now; None if there are none.

        It is called while tasks wait, after a change: a task was submitted or ended, or a machine
        changed its state. It is also called at the time of a `Wake` and, with `decide_when_idle`,
        after changes while no task waits.
        """


AnyPolicy: TypeAlias = BuiltInPolicy | Policy
