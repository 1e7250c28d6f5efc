"""The model parameters of a simulation, the only values that calibration changes."""

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
from twinloop.description.quantities import Flag, Inflation, Name, NotNegative, Positive
from twinloop.scenario.detail import Detail, Submission
from twinloop.scenario.parameters import MODEL_VALUES as MODEL_VALUES
from twinloop.scenario.parameters import PARAMETERS, declare

#: The groups of simultaneous changes, in their default order.
INSTANT_GROUPS: Final = ("ends", "machines", "submissions")
_InstantGroup = Literal["ends", "machines", "submissions"]


class LinearContention(Description):
    """Linear contention: inflation of the work = 1 + slope * max(0, load - 1).

    >>> LinearContention(slope=0.2).slope
    0.2
    """

    slope: float = declare("contention.linear.slope", is_required=True)


class KindContention(Description):
    """Contention parameters of one kind of task.

    >>> KindContention(pressure=0.3).sensitivity
    0.0
    """

    pressure: float = declare("contention.kinds.<kind>.pressure")
    sensitivity: float = declare("contention.kinds.<kind>.sensitivity")


class Contention(Description):
    """Contention: inflation of the work of tasks that share a host, by one of three rules.

    The load of a host is the number of cores that its tasks can use, divided by its cores. It
    exceeds 1 if tasks share cores.

    With `kinds`, the work of a task of kind k is multiplied by 1 + sensitivity(k) * pressure.
    Within the `host`, the pressure is the sum over all other tasks on the host, as for shared
    memory and large caches. Within the `core`, it is the mean over the other tasks, times
    max(0, load - 1), the mean number of other tasks on the same core, as for small caches and
    context switches. Both are equal if every host has one core and every task uses one core.

    >>> Contention.from_dict("none") == Contention()
    True
    >>> Contention(linear={"slope": 0.2}).linear.slope
    0.2
    >>> Contention(kinds={"cache": {"pressure": 0.3, "sensitivity": 1}}, within="core").within
    'core'
    """

    linear: LinearContention | None = Field(
        None, description="inflation in proportion to the load above 1"
    )
    table: tuple[tuple[NotNegative, Inflation], ...] | None = Field(
        None,
        min_length=1,
        description="pairs of load and inflation; linear between them, constant beyond the ends",
    )
    kinds: dict[Name, KindContention] | None = Field(
        None, description="pressure and sensitivity by kind of task"
    )
    within: Literal["host", "core"] = Field(
        "host",
        description="neighbours of a task: all other tasks on its host, or on average those on its "
        "core",
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {} if data == "none" else data

    @model_validator(mode="after")
    def _check_rule(self) -> Contention:
        findings = ProblemCollector()
        rules = ("linear", "table", "kinds")
        given = [name for name in rules if getattr(self, name) is not None]
        for name in given[1:]:
            findings.add(
                (name,),
                f"cannot be combined with '{given[0]}'",
                "keep one of them",
                kind="conflicting-fields",
            )
        if self.within != "host" and self.kinds is None:
            findings.add(("within",), "has no effect without 'kinds'", kind="no-effect")
        loads = [load for load, _ in self.table or ()]
        for i in range(1, len(loads)):
            if loads[i] <= loads[i - 1]:
                findings.add(
                    ("table", i), "must have a higher load than the pair before", kind="wrong-order"
                )
        findings.check()
        return self

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        return values or "none" if isinstance(info.context, WriteContext) else values


class Model(Description):
    """The model parameters of a simulation: corrections of platform and workload.

    The defaults are neutral: nominal speeds, no overheads, no latencies, no contention.

    >>> Model(speed_factor=1.07, startup_overhead="800ms").startup_overhead
    0.8
    """

    speed_factor: float = declare("speed_factor")
    service_factor: float = declare("service_factor")
    service_factors: dict[Name, Positive] = Field(
        {}, description=PARAMETERS["service_factors.<kind>"].description
    )
    startup_overhead: float = declare("startup_overhead")
    effective_capacity: float = declare("effective_capacity")
    dispatch_latency: float = declare("dispatch_latency")
    release_latency: float = declare("release_latency")
    decision_interval: float = declare("decision_interval")
    submission: Submission = Field(
        default_factory=Submission, description="overheads of a workflow manager; default: none"
    )
    detail: Detail = Field(default_factory=Detail, description="level of detail of the simulation")
    contention: Annotated[Contention, TextAlternative("no contention", {"enum": ["none"]})] = Field(
        default_factory=Contention, description="inflation of the work of tasks that share a host"
    )
    demand: Literal["elastic", "fixed"] = Field(
        "elastic",
        description="elastic: a faster host does the same work sooner; "
        "fixed: a task never uses more MHz than in the log",
    )
    sharing: Literal["stretch", "no-delay"] = Field(
        "stretch",
        description="stretch: tasks that share cores take longer and complete their work; "
        "no-delay: they end on time, and the work beyond their share is lost",
    )
    kill_at_requested_time: Flag = Field(
        False, description="whether a task is killed at the end of its requested time"
    )
    decide: Literal["instant", "event"] = Field(
        "instant",
        description="instant: the policy decides once after all changes at one time; "
        "event: after each of them",
    )
    instant_order: tuple[_InstantGroup, _InstantGroup, _InstantGroup] = Field(
        INSTANT_GROUPS,
        description="order of simultaneous changes: ends of tasks, changes of machines and "
        "submissions",
    )
    fitted_on: tuple[str, ...] = Field(
        (), description="digests of the runs that the values were fitted to; without effect on runs"
    )
    overrides: dict[str, Any] = Field(
        {}, description="values of the platform by path, such as clusters[0].hosts[0].mhz"
    )

    @model_validator(mode="after")
    def _check_order(self) -> Model:
        if sorted(self.instant_order) != sorted(INSTANT_GROUPS):
            findings = ProblemCollector()
            findings.add(
                ("instant_order",),
                f"must have each of {', '.join(INSTANT_GROUPS)} once",
                kind="out-of-range",
            )
            findings.check()
        return self

    def values(self) -> tuple[float, ...]:
        """Return the numeric parameters in the order of `MODEL_VALUES`.

        >>> Model(startup_overhead="800ms").values()
        (1.0, 1.0, 0.8, 1.0, 0.0, 0.0, 0.0)
        """
        return tuple(getattr(self, name) for name in MODEL_VALUES)
