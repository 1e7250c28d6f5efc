"""Poisson arrivals at a given rate, or at the rate of a given load."""

from __future__ import annotations

from typing import Final, Self

import numpy as np
from pydantic import model_validator

from twinloop.description import InputError
from twinloop.workload.generators import mix
from twinloop.workload.generators.description import MAX_TASKS, parameter
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import RandomStream
from twinloop.workload.generators.requests import RequestGenerator

DEFAULT_TASKS: Final = 1000
DEFAULT_LOAD: Final = 0.7


class BoundedGenerator(RequestGenerator):
    """Base class of the generators that end after a number of tasks or at a horizon."""

    tasks: int | None = parameter(
        None, "number of tasks; none: 1,000, or all before the horizon", ge=1, le=MAX_TASKS
    )
    horizon: float | None = parameter(
        None, "end of submissions; none: no end", unit="s", gt=0.0, le=1e11
    )

    @property
    def _max_tasks(self) -> int | None:
        """The maximum number of tasks; None: all before the horizon."""
        return DEFAULT_TASKS if self.tasks is None and self.horizon is None else self.tasks


class PoissonGenerator(BoundedGenerator):
    """Base class of the generators with Poisson arrivals of tasks or of groups of tasks."""

    load: float | None = parameter(
        None,
        "offered load: submitted work per time, as a share of the machine; none: 0.7",
        gt=0.0,
        le=100.0,
    )
    machine: int = parameter(
        64, "cores of the machine that the load refers to", unit="cores", ge=1, le=10**9
    )
    mean_length: float = parameter(
        600.0, "mean run time; lengths are lognormal", unit="s", ge=1e-3, le=1e9
    )
    cv: float = parameter(
        1.5, "coefficient of variation of the lengths (0: all equal)", ge=0.0, le=100.0
    )
    cores: mix.Mix = parameter(
        ((1, 5.0), (2, 2.0), (4, 2.0), (8, 1.0)),
        "cores of a task with their weights, as 1:5,2:2,4:2,8:1",
        unit="cores",
    )
    users: int = parameter(10, "number of users, with equal probabilities", ge=1, le=MAX_TASKS)

    @model_validator(mode="after")
    def _check_fit(self) -> Self:
        largest = max(cores for cores, _ in self.cores)
        if largest > self.machine:
            raise ValueError(f"tasks of {largest} cores never fit a machine of {self.machine}")
        return self

    def _rate_for(self, rate: float | None, tasks_per_arrival: float) -> float:
        """Return the arrivals per second: the given rate, or the rate of the load."""
        if rate is not None and self.load is not None:
            raise ValueError("give a rate or a load, not both")
        if rate is not None:
            return rate
        load = DEFAULT_LOAD if self.load is None else self.load
        return load * self.machine / (self.mean_length * mix.mean(self.cores) * tasks_per_arrival)


def draw_arrivals(
    stream: RandomStream, rate: float, max_tasks: int | None, horizon: float | None
) -> Floats:
    """Draw the arrivals of a Poisson process from t = 0.

    There are `max_tasks` of them or, if it is None, all before the horizon (s); with both, those of
    them before the horizon. The rate is in arrivals per second.

    >>> draw_arrivals(RandomStream(1, "arrivals"), 0.1, 3, None).size
    3
    """
    if max_tasks is None:
        assert horizon is not None
        expected = rate * horizon
        check_task_count(expected)
        block = int(expected + 6.0 * float(np.sqrt(expected))) + 16
    else:
        block = max_tasks
    parts = [np.cumsum(stream.exponential(block)) / rate]
    while max_tasks is None and horizon is not None and parts[-1][-1] < horizon:
        parts.append(parts[-1][-1] + np.cumsum(stream.exponential(block)) / rate)
    times = np.concatenate(parts)
    return times if horizon is None else times[times < horizon]


def check_task_count(expected: float) -> None:
    """Raise an error if the expected number of tasks would not fit in memory."""
    if expected > MAX_TASKS:
        raise InputError(
            f"about {expected:.3g} tasks are expected before the horizon, more than {MAX_TASKS:,}",
            kind="too-many",
            field="horizon",
            remedy="give a number of tasks, or an earlier horizon",
        )
