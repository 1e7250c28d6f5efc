"""Periodic bursts of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from twinloop.workload.generators.description import MAX_TASKS, parameter
from twinloop.workload.generators.requests import RequestGenerator
from twinloop.workload.generators.shares import apportion


class BurstKind(BaseModel):
    """One kind of task: its cores, its share, and its run time per second of input (pace).

    >>> BurstKind(name="light", cores=1, share=3, pace=0.5).pace
    0.5
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    name: str = Field(min_length=1)
    cores: int = Field(ge=1)
    share: float = Field(gt=0.0, le=1e9)
    pace: float = Field(gt=0.0, le=1e6)


def _parse_kinds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kinds = []
    for part in value.split(","):
        fields = part.split(":")
        if len(fields) != len(BurstKind.model_fields):
            raise ValueError("kinds are written as name:cores:share:pace,name:cores:share:pace")
        kinds.append(dict(zip(BurstKind.model_fields, fields, strict=True)))
    return kinds


def _parse_lengths(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


_Length = Annotated[float, Field(gt=0.0, le=1e9)]


class Bursts(RequestGenerator):
    """Bursts of tasks of several kinds, one burst per period.

    The defaults are the hundred transcoding tasks of a thesis on the fidelity of a simulator: ten
    bursts of ten tasks a second apart, every 300 s, four kinds in the ratio 3:3:2:2 in random
    order, on videos of 30, 60, 120 or 180 s.

    >>> trace = Bursts().generate(seed=20250901)
    >>> trace.tasks["submit"].to_list()[8:12]
    [8.0, 9.0, 300.0, 301.0]
    """

    name: ClassVar[str] = "bursts"
    title: ClassVar[str] = "periodic bursts of tasks of several kinds"

    bursts: int = parameter(10, "number of bursts", ge=1, le=MAX_TASKS)
    size: int = parameter(10, "tasks in a burst", ge=1, le=MAX_TASKS)
    period: float = parameter(300.0, "time between two bursts", unit="s", gt=0.0, le=1e9)
    interval: float = parameter(1.0, "time between two tasks of a burst", unit="s", ge=0.0, le=1e9)
    jitter: float = parameter(0.0, "maximum random delay of a submission", unit="s", ge=0.0, le=1e9)
    kinds: Annotated[tuple[BurstKind, ...], BeforeValidator(_parse_kinds), Field(min_length=1)] = (
        parameter(
            (
                BurstKind(name="light1c", cores=1, share=3, pace=0.25),
                BurstKind(name="medium480p", cores=2, share=3, pace=0.5),
                BurstKind(name="fast1080p", cores=2, share=2, pace=1.0),
                BurstKind(name="hevc1080p", cores=4, share=2, pace=3.0),
            ),
            "kinds of tasks, as name:cores:share:pace; run time = pace x length",
        )
    )
    lengths: Annotated[
        tuple[_Length, ...], BeforeValidator(_parse_lengths), Field(min_length=1)
    ] = parameter(
        (30.0, 60.0, 120.0, 180.0), "lengths of the inputs, with equal probabilities", unit="s"
    )

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.bursts * self.size > MAX_TASKS:
            raise ValueError(f"bursts x size is more than {MAX_TASKS:,} tasks")
        names = [kind.name for kind in self.kinds]
        if len(set(names)) < len(names):
            raise ValueError("two kinds have the same name")
        return self

    def _tasks(self, seed: int) -> Mapping[str, Any]:
        count = self.bursts * self.size
        slots = np.arange(count)
        planned = (slots // self.size) * self.period + (slots % self.size) * self.interval
        delay = self.jitter * self._stream(seed, "jitter").uniform(count)
        submit = np.sort(self._round_down(planned + delay), kind="stable")
        shares = apportion(count, np.array([kind.share for kind in self.kinds]))
        kind = np.repeat(np.arange(len(self.kinds)), shares)
        kind = kind[self._stream(seed, "kinds").permutation(count)]
        input_length = np.array(self.lengths)[
            self._stream(seed, "lengths").integers(0, len(self.lengths) - 1, count)
        ]
        run_time = self._round_lengths(self._list_by_kind("pace")[kind] * input_length)
        names = pl.Series([kind.name for kind in self.kinds]).gather(kind)
        return {
            "name": names,
            "kind": names,
            "submit": submit,
            **self._requests(seed, run_time, self._list_by_kind("cores")[kind]),
        }

    def _list_by_kind(self, attribute: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        values: Sequence[float] = [getattr(kind, attribute) for kind in self.kinds]
        return np.array(values, dtype=np.float64)
