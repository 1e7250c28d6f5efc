"""The Model: how faithful a simulation is. Calibration moves these values and no others."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import (
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from twinloop.description import Description
from twinloop.description.description import TextAlternative, WriteContext
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Flag, Name, NotNegative, Positive, Seconds

#: The numbers of a Model that calibration moves, in the order in which `Model.values` gives them.
MODEL_VALUES: Final = (
    "speed_factor",
    "service_factor",
    "startup_overhead",
    "effective_capacity",
    "dispatch_latency",
    "release_latency",
    "decision_interval",
)


class LinearContention(Description):
    """Work grows with the load beyond one: inflation = 1 + slope * max(0, load - 1).

    >>> LinearContention(slope=0.2).slope
    0.2
    """

    slope: NotNegative = Field(description="inflation that each further load of 1 adds")


class KindContention(Description):
    """How one kind of task presses on its neighbours and suffers from theirs.

    >>> KindContention(pressure=0.3).sensitivity
    0.0
    """

    pressure: NotNegative = Field(0.0, description="how much it presses on each neighbour")
    sensitivity: NotNegative = Field(0.0, description="how much it suffers from each pressure")


class Contention(Description):
    """How much more work tasks have when they share a host: none, or by one of three rules.

    The load of a host is what its tasks could use over what it has, so it exceeds 1 when they
    share cores.

    By `kinds`, the work of a task of kind k is multiplied by 1 + sensitivity(k) * pressure. Within
    the `host` the pressure is the sum over all others there, whether or not they share a core with
    it: that is how memory and large caches are shared. Within the `core` it is the mean over the
    others, times max(0, load - 1), which is how many of them a task has beside itself on its core:
    so small caches are shared, and switching from one to the other costs. Where every host has one
    core, and every task uses one, both are the same.

    >>> Contention.from_dict("none") == Contention()
    True
    >>> Contention(linear={"slope": 0.2}).linear.slope
    0.2
    >>> Contention(kinds={"cache": {"pressure": 0.3, "sensitivity": 1}}, within="core").within
    'core'
    """

    linear: LinearContention | None = Field(None, description="in proportion to the load beyond 1")
    table: tuple[tuple[NotNegative, Positive], ...] | None = Field(
        None,
        min_length=1,
        description="pairs of load and inflation; straight lines between, the ends hold beyond",
    )
    kinds: dict[Name, KindContention] | None = Field(
        None, description="by kind of task: pressure and sensitivity"
    )
    within: Literal["host", "core"] = Field(
        "host",
        description="whom a task of a kind shares with: all others on its host, or those that it "
        "meets on its core, on average",
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {} if data == "none" else data

    @model_validator(mode="after")
    def _one_rule(self) -> Contention:
        findings = ProblemCollector()
        rules = ("linear", "table", "kinds")
        given = [name for name in rules if getattr(self, name) is not None]
        for name in given[1:]:
            findings.add((name,), f"cannot stand beside '{given[0]}'", "keep one of them")
        if self.within != "host" and self.kinds is None:
            findings.add(("within",), "says something of 'kinds', and there are none")
        loads = [load for load, _ in self.table or ()]
        for i in range(1, len(loads)):
            if loads[i] <= loads[i - 1]:
                findings.add(("table", i), "must have a higher load than the one before")
        for i, (_, inflation) in enumerate(self.table or ()):
            if inflation < 1:
                findings.add(("table", i, 1), "must be at least 1: sharing saves no work")
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        return values or "none" if isinstance(info.context, WriteContext) else values


class Model(Description):
    """How a simulation differs from what the description of platform and workload says.

    The defaults change nothing: a host does what its clock says, at once and undisturbed.

    >>> Model(speed_factor=1.07, startup_overhead="800ms").startup_overhead
    0.8
    """

    speed_factor: Positive = Field(1.0, description="times the speed of every host")
    service_factor: Positive = Field(1.0, description="times the work of every task")
    service_factors: dict[Name, Positive] = Field(
        {}, description="times the work of the tasks of a kind, beside that of every task"
    )
    startup_overhead: Seconds = Field(
        0.0, description="time that every task takes on its host before its work begins (s)"
    )
    effective_capacity: Positive = Field(
        1.0, description="times the cores of every host, as the policy counts them"
    )
    dispatch_latency: Seconds = Field(
        0.0, description="time from a decision to the start of the task (s)"
    )
    release_latency: Seconds = Field(
        0.0,
        description="time from the end of a task until its cores are seen as free, and those that "
        "depend on it as ready (s)",
    )
    decision_interval: Seconds = Field(
        0.0, description="the policy decides at multiples of it; 0: whenever something happens (s)"
    )
    contention: Annotated[Contention, TextAlternative("no contention", {"enum": ["none"]})] = Field(
        default_factory=Contention, description="how sharing a host makes work grow"
    )
    demand: Literal["elastic", "fixed"] = Field(
        "elastic",
        description="elastic: a faster host does the same work sooner; "
        "fixed: a task never draws more MHz than it did in the record",
    )
    sharing: Literal["stretch", "no-delay"] = Field(
        "stretch",
        description="stretch: tasks that share cores take longer, their work is kept; "
        "no-delay: a task ends on time whatever it got, and the work it did not get is lost",
    )
    kill_at_requested_time: Flag = Field(
        False, description="whether a task that runs for longer than it requested is killed"
    )
    fitted_on: tuple[str, ...] = Field(
        (), description="digests of the runs that its values were fitted to; they change nothing"
    )
    overrides: dict[str, Any] = Field(
        {}, description="values of the platform by their path, such as clusters[0].hosts[0].mhz"
    )

    def values(self) -> tuple[float, ...]:
        """The numbers that calibration moves, in the order of `MODEL_VALUES`.

        >>> Model(startup_overhead="800ms").values()
        (1.0, 1.0, 0.8, 1.0, 0.0, 0.0, 0.0)
        """
        return tuple(getattr(self, name) for name in MODEL_VALUES)
