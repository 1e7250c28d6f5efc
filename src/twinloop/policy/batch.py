"""Batch scheduling policies: one ordered queue, with or without backfilling.

Backfilling is defined as in Mu'alem and Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling" (2001). The planned run time of
a task is its requested time.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from twinloop.description.quantities import Flag
from twinloop.policy.built_in import BuiltInPolicy

#: The field of the depth of backfilling.
Depth = Annotated[
    int,
    Field(
        strict=True,
        ge=0,
        le=1_000_000_000,
        description="number of waiting tasks that backfilling considers, from the head on; 0: all",
    ),
]
#: The field of the compression of reservations.
Compress = Annotated[
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
    depth: Depth = 0

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
    compress: Compress = True


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
