"""Policies of batch systems: one queue in some order, with or without backfilling.

Backfilling is defined as in Mu'alem and Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling" (2001). The planned run time of
a task is what it requested.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema, model_validator

from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import DURATION, Flag, NotNegative, Seconds
from twinloop.policy.built_in import BuiltInPolicy

Backfill = Literal["none", "easy", "easy-time", "conservative"]

_Depth = Annotated[
    int,
    Field(
        strict=True,
        ge=0,
        le=1_000_000_000,
        description="how many waiting tasks backfilling looks at, from the head on; 0: all",
    ),
]
_Compress = Annotated[
    Flag,
    Field(
        description="conservative: true: when a task ends before its planned end, all waiting "
        "tasks are planned anew, in order; false: a reservation never moves"
    ),
]


class BatchPolicy(BuiltInPolicy):
    """A policy with one queue: in which order, and who may pass whom."""

    order: ClassVar[str] = "arrival"

    def _settings(self) -> dict[str, object]:
        options = {name: getattr(self, name) for name in type(self).model_fields}
        return {"kind": "batch", "order": self.order, **options}


class Fcfs(BatchPolicy):
    """First come, first served: the first task that does not fit stops all behind it.

    >>> Fcfs().native_settings()["order"]
    'arrival'
    """

    name: ClassVar[str] = "fcfs"


class Easy(BatchPolicy):
    """EASY: a task may pass if it does not delay the head of the queue.

    The head gets a reservation: the earliest time at which enough cores will be free if all
    running tasks take as long as planned. A task behind it that fits now may start if it ends, as
    planned, before that time, or if it uses only cores that the head leaves over then.

    >>> Easy(depth=100).depth
    100
    """

    name: ClassVar[str] = "easy"
    depth: _Depth = 0

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "backfill": self.name}


class EasyTime(Easy):
    """EASY with the first condition alone: who passes must end, as planned, before the head starts.

    >>> EasyTime().native_settings()["backfill"]
    'easy-time'
    """

    name: ClassVar[str] = "easy-time"


class Conservative(Easy):
    """Every task gets a reservation when it arrives; who passes delays nobody's.

    >>> Conservative(compress=False).native_settings()["compress"]
    False
    """

    name: ClassVar[str] = "conservative"
    compress: _Compress = True


class Sjf(BatchPolicy):
    """Shortest first, by planned run time; the first that does not fit stops all behind it.

    >>> Sjf().native_settings()["order"]
    'shortest'
    """

    name: ClassVar[str] = "sjf"
    order: ClassVar[str] = "shortest"


class Ljf(BatchPolicy):
    """Longest first, by planned run time; the first that does not fit stops all behind it.

    >>> Ljf().native_settings()["order"]
    'longest'
    """

    name: ClassVar[str] = "ljf"
    order: ClassVar[str] = "longest"


class OrderedBatchPolicy(BatchPolicy):
    """A queue in an order of its own, with backfilling as an option."""

    backfill: Backfill = Field(
        "none", description="who may pass a head that does not fit, as in the policies so called"
    )
    depth: _Depth = 0
    compress: _Compress = True

    @model_validator(mode="after")
    def _needed(self) -> OrderedBatchPolicy:
        findings = ProblemCollector()
        if self.depth and self.backfill == "none":
            findings.add(("depth",), "means nothing without backfilling", "set backfill: easy")
        if not self.compress and self.backfill != "conservative":
            findings.add(("compress",), "means nothing unless backfill is 'conservative'")
        findings.check()
        return self


class Priority(OrderedBatchPolicy):
    """Highest priority first: that of the task's queue, and what it gained by waiting.

    >>> Priority(age=0.01, preempt="resume").backfill
    'none'
    """

    name: ClassVar[str] = "priority"
    order: ClassVar[str] = "priority"
    age: NotNegative = Field(0.0, description="priority that a task gains per second of waiting")
    preempt: Literal["no", "restart", "resume"] = Field(
        "no",
        description="whether a task may take the cores of running ones of lower priority, and "
        "whether these start again from nothing (restart) or go on where they were (resume)",
    )


class FairShare(OrderedBatchPolicy):
    """Those first who have used least: usage in core-seconds, halved every half-life.

    >>> FairShare(half_life="1d", share_by="group").half_life
    86400.0
    """

    name: ClassVar[str] = "fair-share"
    order: ClassVar[str] = "fair-share"
    half_life: Annotated[Seconds, Field(gt=0), WithJsonSchema(DURATION.schema(positive=True))] = (
        Field(604800.0, description="time in which past usage comes to count half (s)")
    )
    share_by: Literal["user", "group"] = Field("user", description="whose usage is added up")
