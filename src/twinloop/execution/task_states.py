"""States of the tasks of a run, with their dependencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from twinloop.engine import CompiledScenario


class StateChange(NamedTuple):
    """A consequence of the end of a task: another task is ready, or fails."""

    task: int
    #: Final status of the task; None if it is ready.
    status: str | None


class TaskStates:
    """States of tasks by the rules of the simulator: descendants of a failed task fail.

    >>> from twinloop.scenario import Scenario
    >>> tasks = [{"id": "a", "run_time": 1}, {"id": "b", "run_time": 1, "parents": ["a"]}]
    >>> scenario = Scenario(platform="1x1", policy="fcfs", workload={"tasks": tasks})
    >>> states = TaskStates(CompiledScenario(scenario))
    >>> [states.submit(task) for task in (0, 1)]
    [True, False]
    >>> list(states.conclude(0, "completed")), states.left
    ([StateChange(task=1, status=None)], 1)
    """

    def __init__(self, compiled: CompiledScenario) -> None:
        arrays = compiled.arrays
        bounds = arrays.parent_offsets.tolist()
        parents = arrays.parents.tolist()
        self._open_parents = [bounds[i + 1] - bounds[i] for i in range(len(arrays))]
        self._children: list[list[int]] = [[] for _ in range(len(arrays))]
        for child in range(len(arrays)):
            for parent in parents[bounds[child] : bounds[child + 1]]:
                self._children[parent].append(child)
        self._submitted = [False] * len(arrays)
        #: Final status of each task; None if it is not over.
        self.status: list[str | None] = [
            "rejected" if rejected else None for rejected in compiled.rejected.tolist()
        ]
        #: Number of tasks that are not over.
        self.left = self.status.count(None)
        #: Number of tasks that are over, by status.
        self.ended = Counter(status for status in self.status if status is not None)

    def add(self, parents: Sequence[int], *, fits: bool) -> str | None:
        """Add a task; returns the status with which it ends at once, or None."""
        statuses = [self.status[parent] for parent in parents]
        for parent, status in zip(parents, statuses, strict=True):
            if status is None:
                self._children[parent].append(len(self.status))
        self._open_parents.append(statuses.count(None))
        self._children.append([])
        self._submitted.append(False)
        self.status.append(None)
        self.left += 1
        if not fits or "rejected" in statuses:
            return "rejected"
        return None if {*statuses} <= {None, "completed"} else "failed"

    def submit(self, task: int) -> bool:
        """Mark a task as submitted; returns whether it is ready."""
        self._submitted[task] = True
        return self._is_ready(task)

    def end(self, task: int, status: str) -> None:
        """Set the final status of a task, without consequences for other tasks."""
        self.status[task] = status
        self.ended[status] += 1
        self.left -= 1

    def conclude(self, task: int, status: str) -> Iterator[StateChange]:
        """Set the final status of a task, and yield the consequences for other tasks."""
        first, pending = task, [(task, status)]
        while pending:
            task, status = pending.pop()
            if self.status[task] is not None:
                continue
            self.end(task, status)
            if task != first:
                yield StateChange(task, status)
            for child in self._children[task]:
                self._open_parents[child] -= 1
                if status != "completed":
                    pending.append((child, "failed"))
                elif self._submitted[child] and self._is_ready(child):
                    yield StateChange(child, None)

    def _is_ready(self, task: int) -> bool:
        """Whether all parents have completed and the task is not over."""
        return self._open_parents[task] == 0 and self.status[task] is None
