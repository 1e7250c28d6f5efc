"""Sets of overlapping tasks, each after the end of the set before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import model_validator

from twinloop.workload.generators.description import MAX_TASKS, Generator, parameter
from twinloop.workload.generators.elementary import Floats


class ParallelTasks(Generator):
    """Sets of parallel tasks on one shared core, with a gap after each set.

    The tasks of a set start within the spread. Each task can use the whole core, so the core does
    one second of work per second until the set has ended, at the maximum over k of (start of k +
    work of k and of all tasks that start later). The next set begins after a pause.

    >>> trace = ParallelTasks(tasks=4, parallel=2, spread=0, shortest=10, longest=10).generate(1)
    >>> trace.tasks["submit"].to_list()
    [0.0, 0.0, 21.0, 21.0]
    """

    name: ClassVar[str] = "parallel-tasks"
    title: ClassVar[str] = "sets of overlapping tasks on one shared core, with gaps between sets"

    tasks: int = parameter(1000, "number of tasks", ge=1, le=MAX_TASKS)
    parallel: int = parameter(10, "number of parallel tasks of a set", ge=1, le=MAX_TASKS)
    spread: float = parameter(
        10.0, "period in which the tasks of a set start", unit="s", ge=0.0, le=1e9
    )
    shortest: float = parameter(10.0, "shortest length of a task", unit="s", gt=0.0, le=1e9)
    longest: float = parameter(90.0, "longest length of a task", unit="s", gt=0.0, le=1e9)
    pause: float = parameter(
        1.0, "idle time of the core between two sets", unit="s", ge=0.0, le=1e9
    )

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"the shortest ({self.shortest}) is longer than the longest")
        return self

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        drawn = self._stream(seed, "lengths").uniform(self.tasks)
        length = self._round_lengths(self.shortest + (self.longest - self.shortest) * drawn)
        start = self._round_down(self.spread * self._stream(seed, "starts").uniform(self.tasks))
        in_set = np.arange(self.tasks) // self.parallel
        start = start[np.lexsort((start, in_set))]
        return {
            "submit": start + self._compute_set_starts(start, length)[in_set],
            "requested_cores": np.ones(self.tasks),
            "run_time": length,
        }

    def _compute_set_starts(self, start: Floats, length: Floats) -> Floats:
        """Compute the start of each set, after the sets before and their pauses."""
        width = min(self.parallel, self.tasks)
        sets = -(-self.tasks // width)
        # The last set is padded with tasks without work at its start, which do not extend it.
        shape = (sets, width)
        starts, work = np.zeros(shape), np.zeros(shape)
        starts.flat[: self.tasks] = start
        work.flat[: self.tasks] = length
        remaining_work = np.cumsum(work[:, ::-1], axis=1)[:, ::-1]
        lengths = self._round_up((starts + remaining_work).max(axis=1) + self.pause)
        return np.concatenate([[0.0], np.cumsum(lengths)[:-1]])
