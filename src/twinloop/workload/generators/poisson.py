"""Poisson arrivals with lognormal lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import polars as pl
from pydantic import model_validator

from twinloop.workload.generators import arrivals, mix
from twinloop.workload.generators.description import parameter


class PoissonTasks(arrivals.PoissonGenerator):
    """Tasks that arrive independently of each other, with lognormal lengths.

    >>> trace = PoissonTasks(tasks=1000, load=0.5, machine=32).generate(seed=1)
    >>> trace.tasks.height
    1000
    """

    name: ClassVar[str] = "poisson"
    title: ClassVar[str] = "Poisson arrivals with lognormal lengths, at a rate or a load"

    rate: float | None = parameter(
        None, "tasks per second; none: by the load", unit="1/s", ge=1e-9, le=1e9
    )

    @model_validator(mode="after")
    def _check_rate(self) -> Self:
        self._rate_for(self.rate, 1.0)
        return self

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        rate = self._rate_for(self.rate, 1.0)
        submit = self._round_down(
            arrivals.draw_arrivals(
                self._stream(seed, "arrivals"), rate, self._max_tasks, self.horizon
            )
        )
        count = submit.size
        drawn = self._stream(seed, "lengths").lognormal(count, self.mean_length, self.cv)
        cores = mix.draw(self.cores, self._stream(seed, "cores"), count)
        users = self._stream(seed, "users").integers(1, self.users, count)
        return {
            "user": "user" + pl.Series(users).cast(pl.String),
            "submit": submit,
            **self._requests(seed, self._round_lengths(drawn), cores),
        }
