"""Job arrays: identical tasks that are submitted together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from pydantic import model_validator

from twinloop.workload.generators import arrivals, mix
from twinloop.workload.generators.description import parameter
from twinloop.workload.generators.elementary import Floats, exp, log
from twinloop.workload.generators.random_stream import Integers


class Arrays(arrivals.PoissonGenerator):
    """Arrays of identical tasks with Poisson arrivals of the arrays.

    The tasks of an array have the same user, cores, length and requested time, and the ids 1_1,
    1_2... The last array is truncated at the number of tasks.

    >>> trace = Arrays(tasks=50, mean_size=8).generate(seed=1)
    >>> trace.tasks["id"][0], trace.tasks["array"][0], trace.tasks.height
    ('1_1', '1', 50)
    """

    name: ClassVar[str] = "arrays"
    title: ClassVar[str] = "job arrays of identical tasks"

    sizes: Literal["geometric", "zipf"] = parameter(
        "geometric", "distribution of the size of an array: geometric or zipf"
    )
    mean_size: float = parameter(
        20.0,
        "mean size of the geometric distribution, before truncation",
        unit="tasks",
        ge=1.0,
        le=1e6,
    )
    exponent: float = parameter(
        1.5, "exponent s of the zipf distribution: size n has a weight of n^-s", ge=0.0, le=20.0
    )
    largest: int = parameter(1000, "maximum size of an array", unit="tasks", ge=1, le=1_000_000)
    rate: float | None = parameter(
        None, "arrays per second; none: by the load", unit="1/s", ge=1e-9, le=1e9
    )

    @model_validator(mode="after")
    def _check_rate(self) -> Self:
        self._rate_for(self.rate, self.expected_size)
        return self

    @property
    def expected_size(self) -> float:
        """The mean size of an array, after truncation.

        >>> Arrays(sizes="zipf", exponent=0, largest=9).expected_size
        5.0
        """
        weights = self._compute_weights()
        sizes = np.arange(1.0, weights.size + 1.0)
        return float(np.cumsum(weights * sizes)[-1] / np.cumsum(weights)[-1])

    def _compute_weights(self) -> Floats:
        if self.sizes == "zipf":
            return exp(-self.exponent * log(np.arange(1.0, self.largest + 1.0)))
        ratios = np.full(self.largest, 1.0 - 1.0 / self.mean_size)
        ratios[0] = 1.0
        return np.cumprod(ratios)

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        submit, size = self._draw_arrays(seed)
        count = size.size
        drawn = self._stream(seed, "lengths").lognormal(count, self.mean_length, self.cv)
        cores = mix.draw(self.cores, self._stream(seed, "cores"), count)
        users = self._stream(seed, "users").integers(1, self.users, count)
        array_index = np.repeat(np.arange(count), size)
        first = np.cumsum(size) - size
        index = pl.Series(np.arange(array_index.size) - first[array_index] + 1)
        array = pl.Series(array_index + 1).cast(pl.String)
        requests = self._requests(seed, self._round_lengths(drawn), cores)
        return {
            "id": array + "_" + index.cast(pl.String),
            "array": array,
            "user": "user" + pl.Series(users[array_index]).cast(pl.String),
            "submit": submit[array_index],
            **{
                name: None if values is None else values[array_index]
                for name, values in requests.items()
            },
        }

    def _draw_arrays(self, seed: int) -> tuple[Floats, Integers]:
        """Draw the arrival and the size of each array."""
        max_tasks, mean = self._max_tasks, self.expected_size
        if max_tasks is None and self.horizon is not None:
            arrivals.check_task_count(self._rate_for(self.rate, mean) * self.horizon * mean)
        # There are at most as many arrays as tasks.
        submit = arrivals.draw_arrivals(
            self._stream(seed, "arrivals"), self._rate_for(self.rate, mean), max_tasks, self.horizon
        )
        size = self._stream(seed, "sizes").choice(self._compute_weights(), submit.size) + 1
        if max_tasks is not None:
            cumulative = np.cumsum(size)
            size = size - np.clip(cumulative - max_tasks, 0, size)
            submit, size = submit[size > 0], size[size > 0]
        return self._round_down(submit), size
