"""The brokers: clients of a cloud that assign a queue of tasks to instances, by predicted times."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import numpy as np
from pydantic import Field

from twinloop.description import Description
from twinloop.description.quantities import Count, Flag, Price, Seconds
from twinloop.policy.cloud_clients import CloudClient

#: The names of the built-in brokers.
BROKERS: Final = ("asap", "afap", "list", "deadline", "budget")
_NO_LIMIT: Final = 2**32 - 1


class BootPrediction(Description):
    """The boot time that a broker predicts: base + per_booting x (instances that boot + 1).

    >>> BootPrediction(base="48s", per_booting="6s").base
    48.0
    """

    base: Seconds = Field(0.0, description="predicted boot time without other boots (s)")
    per_booting: Seconds = Field(
        0.0, description="additional time for each instance that boots, itself included (s)"
    )


class BuiltInBroker(CloudClient):
    """Base class of the native brokers.

    A task is assigned to an instance when it is ready, and never moves. An instance that did not
    boot is replaced. Idle instances are given back at the end of their unit of billing.
    """

    boot: Annotated[
        BootPrediction | None,
        Field(description="predicted boot time; by default that of the image without other boots"),
    ] = None
    boots_as_predicted: Annotated[
        Flag,
        Field(
            description="every boot that is not recorded takes the predicted time, as in "
            "SimSchlouder, in place of that of the image"
        ),
    ] = False
    margin: Annotated[
        Seconds,
        Field(description="time before the end of a unit in which idle instances are given back"),
    ] = 50.0
    instances: Annotated[
        Count | None, Field(description="maximum number of instances; by default unlimited")
    ] = None
    interval: Annotated[
        Seconds, Field(description="time between scans of the queue (s); 0: a scan at every event")
    ] = 0.0
    later_interval: Annotated[
        Seconds | None,
        Field(description="the same after the last submission (s); by default `interval`"),
    ] = None
    attempts: Annotated[
        Count, Field(description="boots of one instance that may fail before its tasks are killed")
    ] = 10
    retry: Annotated[
        Seconds, Field(description="time from a refusal to the next request of an instance (s)")
    ] = 60.0

    def _settings(self) -> dict[str, object]:
        boot = self.boot or BootPrediction()
        later = self.interval if self.later_interval is None else self.later_interval
        return {
            **super()._settings(),
            "kind": "broker",
            "strategy": self.name,
            "margin": self.margin,
            "boot_base": boot.base,
            "boot_per_booting": boot.per_booting,
            "instances": self.instances or _NO_LIMIT,
            "interval": self.interval,
            "later_interval": later or self.interval,
            "attempts": self.attempts,
            "retry": self.retry,
            "deadline": np.inf,
            "budget": np.inf,
            "published": False,
            "validation": False,
            "boots_as_predicted": self.boots_as_predicted,
            # Of recorded boots: a compiled scenario fills them in.
            "request_dates": (),
            "lags": (),
            "recorded_dates": (),
        }


class _RecordedBroker(BuiltInBroker):
    """A broker with the rules of a real one, and those of its published simulator."""

    published: Annotated[
        Flag,
        Field(description="the rules of the simulator SimSchlouder in place of those of its paper"),
    ] = False
    validation: Annotated[
        Flag,
        Field(description="imitates faults of the broker Schlouder, for comparisons with its runs"),
    ] = False

    def _settings(self) -> dict[str, object]:
        own = {"published": self.published, "validation": self.validation}
        return {**super()._settings(), **own}


class Asap(_RecordedBroker):
    """As soon as possible: an instance that is idle before a new one has booted, else a new one.

    >>> Asap(instances=25, boot={"base": "48s", "per_booting": "6s"}).margin
    50.0
    """

    name: ClassVar[str] = "asap"


class Afap(_RecordedBroker):
    """As full as possible: an instance that needs no further unit for the task, else a new one.

    >>> Afap(margin="20s").native_settings()["strategy"]
    'afap'
    """

    name: ClassVar[str] = "afap"


class ListBroker(BuiltInBroker):
    """List scheduling: tasks on long paths first, each where it starts earliest.

    >>> ListBroker().name
    'list'
    """

    name: ClassVar[str] = "list"


class DeadlineBroker(BuiltInBroker):
    """The cheapest instances with which all tasks meet their deadlines, by the predictions.

    >>> DeadlineBroker(deadline="2h").deadline
    7200.0
    """

    name: ClassVar[str] = "deadline"

    deadline: Annotated[
        Seconds | None,
        Field(
            description="latest end of all tasks, from the start of the run (s); by default only "
            "the deadlines of the tasks themselves count"
        ),
    ] = None

    @property
    def latest_end(self) -> float:
        """The deadline of all tasks (s); infinite without one."""
        return np.inf if self.deadline is None else self.deadline

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "deadline": self.latest_end}


class BudgetBroker(BuiltInBroker):
    """The earliest ends that a budget allows; the bill of the instances never exceeds it.

    An instance is given back at the end of a unit if the next one exceeds the budget: what it runs
    is lost. Tasks that can never be paid are killed.

    >>> BudgetBroker(budget=1.5).budget
    1.5
    """

    name: ClassVar[str] = "budget"

    budget: Annotated[Price, Field(description="maximum bill of all instances")]

    def _settings(self) -> dict[str, object]:
        return {**super()._settings(), "budget": self.budget}
