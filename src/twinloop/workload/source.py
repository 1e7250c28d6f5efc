"""The interface of sources written in Python: which tasks are submitted, and when."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.workload.workload import Workload


class FinishedTask(NamedTuple):
    """The end of a task, as a source learns of it.

    >>> FinishedTask("t1", 60.0, "completed").status
    'completed'
    """

    #: The ID of the task.
    task: str
    #: The time of its end (s).
    end: float
    #: Its status: completed, rejected, killed, failed or lost.
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTask:
    """A task that is not in the workload.

    >>> NewTask(id="mine", run_time=60.0, cores=2).requested_time is None
    True
    """

    #: An ID that no other task of the run has.
    id: str
    #: Run time on its cores at reference speed (s).
    run_time: float
    #: Requested cores, on all nodes together.
    cores: float = 1.0
    #: Requested run time (s); None: the policy plans with the run time.
    requested_time: float | None = None
    #: Requested memory, on all nodes together (bytes).
    memory: float = 0.0
    #: Requested nodes; 0: its cores may be on any nodes.
    nodes: int = 0
    #: User, group, queue and contention kind: names that the scenario has, or None.
    user: str | None = None
    group: str | None = None
    queue: str | None = None
    kind: str | None = None
    #: Time by which it should end (s).
    deadline: float | None = None
    #: Amounts of other resources by name.
    resources: Mapping[str, float] = field(default_factory=dict)
    #: IDs of the tasks that must complete before it is ready: of the workload, or submitted before.
    parents: Sequence[str] = ()
    #: Program and arguments, environment variables and folder for a real execution; a simulation
    #: only keeps them in its trace. No shell reads the command.
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None


#: A task of an answer: a row of the workload by index or ID, or a new task.
SubmittedTask: TypeAlias = int | str | NewTask


@dataclass(frozen=True)
class WorkloadView:
    """The tasks of the workload, as a source sees them at the start of a run.

    Nothing in it may be changed: all runs share it.

    >>> log = Workload(tasks=pl.DataFrame({"id": ["a", "b"], "submit": [5.0, 7.0]}))
    >>> view = WorkloadView(log, np.array([5.0, 7.0]), np.array([False, True]))
    >>> len(view), view.ids.to_list(), view.submit.tolist()
    (2, ['a', 'b'], [5.0, 7.0])
    """

    #: The workload.
    workload: Workload
    #: The recorded submission times, multiplied by the time scale of the scenario (s).
    submit: NDArray[np.float64]
    #: Which tasks can never run on the platform: they are rejected when they are submitted.
    rejected: NDArray[np.bool_]

    @property
    def ids(self) -> pl.Series:
        """The IDs of the tasks."""
        return self.workload.tasks["id"]

    @cached_property
    def durations(self) -> NDArray[np.float64]:
        """The run times of the tasks on their cores at reference speed (s)."""
        return self.workload.durations()

    def __len__(self) -> int:
        return len(self.submit)


class Source(ABC):
    """Base class of sources written in Python.

    A subclass implements `next`. The arguments of its constructor are the options of the source.
    An object is a description: each run starts a state of its own (`start`), so that parallel runs
    share nothing.

    >>> class AllAtFive(Source):
    ...     def start(self, workload, rng):
    ...         state = AllAtFive()
    ...         state.answers = [(5.0, [row]) for row in range(len(workload))]
    ...         return state
    ...     def next(self, now, finished):
    ...         return self.answers.pop(0) if self.answers else None
    >>> AllAtFive().name.endswith(":AllAtFive")
    True
    """

    @property
    def name(self) -> str:
        """The name of the source in manifests: `module:Class`."""
        return f"{type(self).__module__}:{type(self).__name__}"

    def start(self, workload: WorkloadView, rng: np.random.Generator) -> Source:
        """Return the state of one run, on which `next` is called; by default a deep copy.

        Args:
            workload: The tasks of the workload.
            rng: The only source of randomness that a source may use: it is seeded, so that a run
                can be repeated.
        """
        return copy.deepcopy(self)

    @abstractmethod
    def next(
        self, now: float, finished: Sequence[FinishedTask]
    ) -> tuple[float, Iterable[SubmittedTask]] | None:
        """Return the time (s) and the tasks of the next submission; None: ask after the next end.

        It is called at the start of the run; when tasks have ended, before the submissions and the
        decision of this instant; and after each submission. So a call without finished tasks means
        that the last answer has been submitted, and a call with finished tasks that it has not: it
        is replaced by the new answer. A time before `now` means `now`. An answer without tasks
        requests a call at that time.

        Args:
            now: The current time (s); at the start 0, or the first recorded submission if that is
                negative.
            finished: The tasks that have ended since the last call, by time of their end and then
                in the order of the run.
        """
