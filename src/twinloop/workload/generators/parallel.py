"""Sets of tasks that overlap, each set after the last has surely ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from twinloop.workload.generators.description import MOST_TASKS, Generator, parameter
from twinloop.workload.generators.elementary import Floats


class ParallelTasks(Generator):
    """Sets of parallel tasks on one shared core, with a gap after each set.

    A set starts within the spread. Each of its tasks can use the whole core, so while any is left
    the core does one second of work per second; the set has ended at max over k of (start of k +
    work of k and of all that start later). The next set begins a pause after that.

    >>> trace = ParallelTasks(tasks=4, parallel=2, spread=0, shortest=10, longest=10).generate(1)
    >>> trace.tasks["submit"].to_list()
    [0.0, 0.0, 21.0, 21.0]
    """

    name: ClassVar[str] = "parallel-tasks"
    title: ClassVar[str] = "sets of overlapping tasks on one shared core, with gaps between sets"

    tasks: int = parameter(1000, "number of tasks", ge=1, le=MOST_TASKS)
    parallel: int = parameter(10, "tasks of a set, in parallel", ge=1, le=MOST_TASKS)
    spread: float = parameter(
        10.0, "time within which the tasks of a set start", unit="s", ge=0.0, le=1e9
    )
    shortest: float = parameter(10.0, "shortest length of a task", unit="s", gt=0.0, le=1e9)
    longest: float = parameter(90.0, "longest length of a task", unit="s", gt=0.0, le=1e9)
    pause: float = parameter(
        1.0, "time that the core is idle between two sets", unit="s", ge=0.0, le=1e9
    )

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"the shortest ({self.shortest}) is longer than the longest")
        return self

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        drawn = self._draws(seed, "lengths").uniform(self.tasks)
        length = self._lengths(self.shortest + (self.longest - self.shortest) * drawn)
        start = self._floored(self.spread * self._draws(seed, "starts").uniform(self.tasks))
        in_set = np.arange(self.tasks) // self.parallel
        start = start[np.lexsort((start, in_set))]
        return {
            "submit": start + self._begins(start, length)[in_set],
            "requested_cores": np.ones(self.tasks),
            "run_time": length,
        }

    def _begins(self, start: Floats, length: Floats) -> Floats:
        """When each set begins: after the sets before it, with their gaps."""
        width = min(self.parallel, self.tasks)
        sets = -(-self.tasks // width)
        # What the last set lacks is tasks without work at its begin: they end no set later.
        shape = (sets, width)
        starts, work = np.zeros(shape), np.zeros(shape)
        starts.flat[: self.tasks] = start
        work.flat[: self.tasks] = length
        still_to_do = np.cumsum(work[:, ::-1], axis=1)[:, ::-1]
        lasts = self._raised((starts + still_to_do).max(axis=1) + self.pause)
        return np.concatenate([[0.0], np.cumsum(lasts)[:-1]])
