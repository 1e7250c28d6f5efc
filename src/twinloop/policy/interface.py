"""A policy written in Python: what it sees, and what it is asked."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from twinloop.policy.decisions import Decision


class View(Protocol):
    """What a policy sees of queue and machines: what a real scheduler could see, and no more.

    Tasks and machines are indices. A view is valid until `decide` returns.

    >>> def cores_asked_for(view: View) -> float:
    ...     return sum(view.cores(task) for task in view.waiting)
    """

    @property
    def now(self) -> float:
        """The time (s)."""

    @property
    def waiting(self) -> Sequence[int]:
        """The tasks that could start, in the order in which they became ready."""

    @property
    def first_waiting(self) -> int | None:
        """The first of them; None: nobody waits."""

    @property
    def running(self) -> Sequence[int]:
        """The tasks that have machines, in no order."""

    @property
    def machines(self) -> int:
        """How many machines there are."""

    @property
    def capacity(self) -> npt.NDArray[np.float64]:
        """The cores that each machine has."""

    @property
    def free_cores(self) -> npt.NDArray[np.float64]:
        """The free cores of each machine; none on one that is down."""

    @property
    def free_memory(self) -> npt.NDArray[np.float64]:
        """The free memory of each machine (bytes); infinite where it is not known."""

    @property
    def task_counts(self) -> npt.NDArray[np.float64]:
        """How many tasks each machine has."""

    def free(self, machine: int) -> float:
        """The free cores of one machine."""

    def machine_name(self, machine: int) -> str | None:
        """The name of a machine."""

    def id(self, task: int) -> str | None:
        """The name of a task."""

    def cores(self, task: int) -> float:
        """The cores that a task asks for, on all its nodes together."""

    def nodes(self, task: int) -> int:
        """The nodes that a task asks for; 0: its cores may lie anywhere."""

    def memory(self, task: int) -> float:
        """The memory that a task asks for (bytes)."""

    def requested_time(self, task: int) -> float:
        """The run time to plan with (s)."""

    def submit(self, task: int) -> float:
        """When the task was submitted in this run (s); NaN: not yet."""

    def submit_recorded(self, task: int) -> float:
        """When the task was submitted in the record that this run replays (s).

        The same as `submit` unless the submissions of this run follow from what happens in it, as
        those of users who wait for their results do.
        """

    def user(self, task: int) -> str | None:
        """Whose task it is."""

    def queue(self, task: int) -> str | None:
        """The queue that it was submitted to."""

    def priority(self, task: int) -> float:
        """The priority of that queue."""

    def started(self, task: int) -> float:
        """When a running task was given its machines (s)."""

    def planned_end(self, task: int) -> float:
        """When a running task is planned to end (s)."""

    def placement(self, task: int) -> Sequence[tuple[int, float]]:
        """The machines of a running task, and its cores on each."""


class Policy(ABC):
    """A policy written in Python: a description, from which each run starts a state of its own.

    A class of its own needs `decide` alone. The arguments of its constructor are its options. If
    it has a method `failed(decision, reason)`, that is told of a decision that could not be
    carried out; without one, such a decision is an error.

    >>> from twinloop.policy import Place
    >>> class Everywhere(Policy):
    ...     def decide(self, view):
    ...         return [Place(task, 0) for task in view.waiting]
    >>> Everywhere().name.endswith(":Everywhere")
    True
    """

    #: How many times the cores of a machine it may give away.
    overcommit: float = 1.0

    @property
    def name(self) -> str:
        """What manifests call it: `module:Class`."""
        return f"{type(self).__module__}:{type(self).__name__}"

    def start(self, view: View, rng: np.random.Generator) -> Policy:
        """The state of one run, which is asked from then on: by default a deep copy of this.

        Runs in parallel never share a state. `rng` is the only randomness to use: it makes a run
        the same again.
        """
        return copy.deepcopy(self)

    @abstractmethod
    def decide(self, view: View) -> Iterable[Decision] | None:
        """What is to be done now. Asked only when something has changed; None: nothing."""
