"""Batch scheduling policies with an order of their own and optional backfilling."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, WithJsonSchema, model_validator

from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import DURATION, NotNegative, Seconds
from twinloop.policy.batch import BatchPolicy, Compress, Depth

Backfill = Literal["none", "easy", "easy-time", "conservative"]


class OrderedBatchPolicy(BatchPolicy):
    """Base class of the policies with an order of their own and optional backfilling."""

    backfill: Backfill = Field(
        "none", description="backfilling when the head does not fit, as in the policy of that name"
    )
    depth: Depth = 0
    compress: Compress = True

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
