"""Batch scheduling policies: one ordered queue, with or without backfilling.

Backfilling is defined as in Mu'alem and Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling" (2001). The planned run time of
a task is its requested time.
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
        description="number of waiting tasks that backfilling considers, from the head on; 0: all",
    ),
]
_Compress = Annotated[
    Flag,
    Field(
        description="conservative backfilling only; true: when a task ends before its planned end, "
        "all waiting tasks are planned again, in order; false: a reservation never moves"
    ),
]


class BatchPolicy(BuiltInPolicy):
    """Base class of the policies with one queue: its order and its backfilling."""

    order: ClassVar[str] = "arrival"

    def _settings(self) -> dict[str, object]:
        options = {name: getattr(self, name) for name in type(self).model_fields}
        return {"kind": "batch", "order": self.order, **options}


class Fcfs(BatchPolicy):
    """First come, first served: a task that does not fit blocks all tasks behind it.

    >>> Fcfs().native_settings()["order"]
    'arrival'
    """

    name: ClassVar[str] = "fcfs"


class Easy(BatchPolicy):
    """EASY backfilling: a task may overtake if it does not delay the head of the queue.

    The head gets a reservation: the earliest time at which enough cores will be free if all
    running tasks take as long as planned. A task behind it that fits now may start if its planned
    end is before that time, or if it uses only cores that the head will not need then.

    >>> Easy(depth=100).depth
    100
    """

    name: ClassVar[str] = "easy"
    depth: _Depth = 0

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "backfill": self.name}


class EasyTime(Easy):
    """EASY by time only: a backfilled task must have its planned end before the head starts.

    >>> EasyTime().native_settings()["backfill"]
    'easy-time'
    """

    name: ClassVar[str] = "easy-time"


class Conservative(Easy):
    """Conservative backfilling: every task gets a reservation, and no reservation is delayed.

    >>> Conservative(compress=False).native_settings()["compress"]
    False
    """

    name: ClassVar[str] = "conservative"
    compress: _Compress = True


class Sjf(BatchPolicy):
    """Shortest job first, by planned run time; a task that does not fit blocks all behind it.

    >>> Sjf().native_settings()["order"]
    'shortest'
    """

    name: ClassVar[str] = "sjf"
    order: ClassVar[str] = "shortest"


class Ljf(BatchPolicy):
    """Longest job first, by planned run time; a task that does not fit blocks all behind it.

    >>> Ljf().native_settings()["order"]
    'longest'
    """

    name: ClassVar[str] = "ljf"
    order: ClassVar[str] = "longest"


class OrderedBatchPolicy(BatchPolicy):
    """Base class of the policies with an order of their own and optional backfilling."""

    backfill: Backfill = Field(
        "none", description="backfilling when the head does not fit, as in the policy of that name"
    )
    depth: _Depth = 0
    compress: _Compress = True

    @model_validator(mode="after")
    def _check_backfill(self) -> OrderedBatchPolicy:
        findings = ProblemCollector()
        if self.depth and self.backfill == "none":
            findings.add(
                ("depth",),
                "has no effect without backfilling",
                "set backfill: easy",
                kind="no-effect",
            )
        if not self.compress and self.backfill != "conservative":
            findings.add(
                ("compress",), "has no effect unless backfill is 'conservative'", kind="no-effect"
            )
        findings.check()
        return self


class Priority(OrderedBatchPolicy):
    """Highest priority first: the priority of the queue plus an increase with waiting time.

    >>> Priority(age=0.01, preempt="resume").backfill
    'none'
    """

    name: ClassVar[str] = "priority"
    order: ClassVar[str] = "priority"
    age: NotNegative = Field(0.0, description="increase of the priority per second of waiting")
    preempt: Literal["no", "restart", "resume"] = Field(
        "no",
        description="preemption of running tasks with lower priority; a preempted task loses its "
        "progress (restart) or continues from it (resume)",
    )


class FairShare(OrderedBatchPolicy):
    """Fair share: least past usage first, in core-seconds, halved every half-life.

    >>> FairShare(half_life="1d", share_by="group").half_life
    86400.0
    """

    name: ClassVar[str] = "fair-share"
    order: ClassVar[str] = "fair-share"
    half_life: Annotated[Seconds, Field(gt=0), WithJsonSchema(DURATION.schema(positive=True))] = (
        Field(604800.0, description="time after which past usage counts half (s)")
    )
    share_by: Literal["user", "group"] = Field(
        "user", description="unit of accounting: usage per user or per group"
    )
