"""Poisson arrivals, at a rate or at the rate that a load asks for."""

from __future__ import annotations

from typing import Final, Self

import numpy as np
from pydantic import model_validator

from twinloop.description import InputError
from twinloop.workload.generators import mix
from twinloop.workload.generators.description import MOST_TASKS, parameter
from twinloop.workload.generators.elementary import Floats
from twinloop.workload.generators.random_stream import RandomStream
from twinloop.workload.generators.requests import RequestGenerator

DEFAULT_TASKS: Final = 1000
DEFAULT_LOAD: Final = 0.7


class BoundedGenerator(RequestGenerator):
    """A generator that ends after a number of tasks or at a time, whichever comes first."""

    tasks: int | None = parameter(
        None, "number of tasks; none: 1,000, or what the horizon allows", ge=1, le=MOST_TASKS
    )
    horizon: float | None = parameter(
        None, "no submission from this time on; none: no bound", unit="s", gt=0.0, le=1e11
    )

    @property
    def _most(self) -> int | None:
        """How many tasks are wanted at most; None: all before the horizon."""
        return DEFAULT_TASKS if self.tasks is None and self.horizon is None else self.tasks


class PoissonGenerator(BoundedGenerator):
    """What Poisson arrivals of tasks, or of groups of tasks, have in common."""

    load: float | None = parameter(
        None, "work submitted per time, as a share of the machine; none: 0.7", gt=0.0, le=100.0
    )
    machine: int = parameter(
        64, "cores of the machine that the load is for", unit="cores", ge=1, le=10**9
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
    users: int = parameter(10, "users, one as likely as another", ge=1, le=MOST_TASKS)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        largest = max(cores for cores, _ in self.cores)
        if largest > self.machine:
            raise ValueError(f"tasks of {largest} cores never fit a machine of {self.machine}")
        return self

    def _rate_for(self, rate: float | None, tasks_per_arrival: float) -> float:
        """Arrivals per second: the rate that was given, or the one that the load asks for."""
        if rate is not None and self.load is not None:
            raise ValueError("give a rate or a load, not both")
        if rate is not None:
            return rate
        load = DEFAULT_LOAD if self.load is None else self.load
        return load * self.machine / (self.mean_length * mix.mean(self.cores) * tasks_per_arrival)


def draw_arrivals(
    draws: RandomStream, rate: float, most: int | None, horizon: float | None
) -> Floats:
    """The arrivals of a Poisson process from t = 0: so many, or all before the horizon.

    >>> draw_arrivals(RandomStream(1, "arrivals"), 0.1, 3, None).size
    3
    """
    if most is None:
        assert horizon is not None
        expected = rate * horizon
        check_task_count(expected)
        block = int(expected + 6.0 * float(np.sqrt(expected))) + 16
    else:
        block = most
    parts = [np.cumsum(draws.exponential(block)) / rate]
    while most is None and horizon is not None and parts[-1][-1] < horizon:
        parts.append(parts[-1][-1] + np.cumsum(draws.exponential(block)) / rate)
    found = np.concatenate(parts)
    return found if horizon is None else found[found < horizon]


def check_task_count(expected: float) -> None:
    """An error if so many tasks are to be expected that they would not fit in memory."""
    if expected > MOST_TASKS:
        raise InputError(
            f"about {expected:.3g} tasks would come before the horizon, more than {MOST_TASKS:,}",
            field="horizon",
            remedy="give a number of tasks, or a nearer horizon",
        )
