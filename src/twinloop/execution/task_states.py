"""What has become of the tasks of a run: who is ready, who is over, who can never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from twinloop.engine import CompiledScenario


class StateChange(NamedTuple):
    """Something that follows from the end of a task: another one is ready, or can never run."""

    task: int
    #: None: it is ready.
    status: str | None


class TaskStates:
    """The dependencies of tasks, as the simulator keeps them: one that fails takes its children.

    >>> from twinloop.scenario import Scenario
    >>> lives = TaskStates(CompiledScenario(Scenario(platform="1x1", policy="fcfs", workload={"tasks": [
    ...     {"id": "a", "run_time": 1}, {"id": "b", "run_time": 1, "parents": ["a"]}]})))
    >>> [lives.submit(task) for task in (0, 1)]
    [True, False]
    >>> list(lives.conclude(0, "completed")), lives.left
    ([StateChange(task=1, status=None)], 1)
    """

    def __init__(self, compiled: CompiledScenario) -> None:
        arrays = compiled.arrays
        bounds = arrays.parent_offsets.tolist()
        parents = arrays.parents.tolist()
        self._missing = [bounds[i + 1] - bounds[i] for i in range(len(arrays))]
        self._children: list[list[int]] = [[] for _ in range(len(arrays))]
        for child in range(len(arrays)):
            for parent in parents[bounds[child] : bounds[child + 1]]:
                self._children[parent].append(child)
        self._submitted = [False] * len(arrays)
        #: How each task ended; None: it is not over.
        self.status: list[str | None] = [
            "rejected" if rejected else None for rejected in compiled.rejected.tolist()
        ]
        #: How many are not over.
        self.left = self.status.count(None)
        #: How many ended, by status.
        self.ended = Counter(status for status in self.status if status is not None)

    def submit(self, task: int) -> bool:
        """A task was submitted; whether it is ready."""
        self._submitted[task] = True
        return self._is_free(task)

    def end(self, task: int, status: str) -> None:
        """A task is over, and nothing follows from that."""
        self.status[task] = status
        self.ended[status] += 1
        self.left -= 1

    def conclude(self, task: int, status: str) -> Iterator[StateChange]:
        """A task is over; what follows from that."""
        first, ended = task, [(task, status)]
        while ended:
            task, status = ended.pop()
            if self.status[task] is not None:
                continue
            self.end(task, status)
            if task != first:
                yield StateChange(task, status)
            for child in self._children[task]:
                self._missing[child] -= 1
                if status != "completed":
                    ended.append((child, "failed"))
                elif self._submitted[child] and self._is_free(child):
                    yield StateChange(child, None)

    def _is_free(self, task: int) -> bool:
        """Whether all that it waits for has completed; one that failed has taken it along."""
        return self._missing[task] == 0 and self.status[task] is None
