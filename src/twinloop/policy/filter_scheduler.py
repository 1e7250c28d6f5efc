"""The filter scheduler and its presets.

For each task the filters select the hosts that may run it, and the weighers rank these hosts. The
scheme is that of OpenStack's compute scheduler; OpenDC uses it, too.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from twinloop.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Count, Flag, Number, Positive
from twinloop.policy.built_in import BuiltInPolicy


class Filters(Description):
    """Filters of hosts: a host must pass every filter that is set.

    >>> Filters(vcpu=1.5, capacity=True).ram is None
    True
    """

    instance_count: Count | None = Field(None, description="maximum number of tasks on a host")
    vcpu: Positive | None = Field(
        None, description="allocated cores are at most this multiple of the cores of the host"
    )
    ram: Positive | None = Field(
        None, description="allocated memory is at most this multiple of the memory of the host"
    )
    capacity: Flag = Field(
        False, description="the clock of the host is at least the one that the task requests (MHz)"
    )
    resource: Positive | None = Field(
        None,
        description="each other allocated resource is at most this multiple of what the host has",
    )


class Weighers(Description):
    """Weighers of hosts: the weight of a host is the weighted sum of terms, each scaled to 0..1.

    >>> Weighers(ram=1.0, instance_count=-0.5).instance_count
    -0.5
    """

    instance_count: Number | None = Field(
        None, description="multiplier of the number of tasks on the host"
    )
    vcpu: Number | None = Field(None, description="multiplier of the free cores of the host")
    ram: Number | None = Field(None, description="multiplier of the free memory of the host")
    capacity: Number | None = Field(
        None, description="multiplier of the speed of a core of the host"
    )


#: What happens to a task that fits on no host.
Queueing = Literal["blocking", "skip", "refuse", "smallest-first"]

_QUEUE = (
    "a task that fits on no host blocks those behind it (blocking), is passed by them (skip) or is "
    "refused (refuse); smallest-first: blocking, with the smallest task in front, by cores and "
    "memory"
)

_FIT = {"vcpu": 1.0, "ram": 1.0, "resource": 1.0}


class Filter(BuiltInPolicy):
    """The filter scheduler with all its options.

    >>> Filter(filters={"vcpu": 2.0}, weighers={"ram": 1.0}).native_settings()["filters"]
    [('vcpu', 2.0)]
    """

    name: ClassVar[str] = "filter"
    filters: Filters = Field(
        default_factory=lambda: Filters(**_FIT),
        description="the filters to apply, in place of the default vcpu, ram and resource, each 1",
    )
    weighers: Weighers = Field(
        default_factory=Weighers,
        description="multipliers of the weighers; by default none: the first host of the platform "
        "is taken",
    )
    subset: Count = Field(1, description="a random host is taken out of this number of best hosts")
    skip: Flag = Field(
        False,
        description="true: a task that fits on no host is skipped; false: it blocks the queue",
    )
    queue: Queueing = Field("blocking", description=_QUEUE)
    pick: Literal["first", "random", "round-robin"] = Field(
        "first",
        description="choice among the hosts that pass the filters: the best one, a random one, or "
        "the next one after the last choice",
    )

    @model_validator(mode="after")
    def _check_pick(self) -> Filter:
        findings = ProblemCollector()
        if self.pick != "first":
            if self.subset > 1:
                findings.add(("subset",), f"has no effect with pick: {self.pick}", kind="no-effect")
            if _list_set_fields(self.weighers):
                findings.add(
                    ("weighers",), f"have no effect with pick: {self.pick}", kind="no-effect"
                )
        if self.skip and self.queue not in ("blocking", "skip"):
            findings.add(("skip",), f"contradicts queue: {self.queue}", kind="inconsistent-values")
        findings.check()
        return self

    def _settings(self) -> dict[str, object]:
        return {
            "kind": "filter",
            "filters": _list_set_fields(self.filters),
            "weighers": _list_set_fields(self.weighers),
            "subset": self.subset,
            "skip": self.skip or self.queue == "skip",
            "queue": self.queue,
            "pick": self.pick,
        }


def _list_set_fields(parts: Filters | Weighers) -> list[tuple[str, float]]:
    """Return names and values of the fields that are set; a filter that is a flag has value 0."""
    values = {name: getattr(parts, name) for name in type(parts).model_fields}
    return [
        (name.replace("_", "-"), 0.0 if value is True else float(value))
        for name, value in values.items()
        if value is not None and value is not False
    ]


class FilterPreset(BuiltInPolicy):
    """Base class of the presets: settings of the filter scheduler under a name of their own."""

    def to_filter(self) -> Filter:
        """Return the filter scheduler with the options of this preset.

        >>> BestFit().to_filter().weighers.vcpu
        -1.0
        """
        return Filter(**self._options())

    def _options(self) -> dict[str, Any]:
        raise NotImplementedError

    def _settings(self) -> dict[str, object]:
        return self.to_filter()._settings()


class QueueingPreset(FilterPreset):
    """Base class of the presets with a choice of the queue."""

    queue: Queueing = Field("blocking", description=_QUEUE)

    def _options(self) -> dict[str, Any]:
        return {"queue": self.queue}


class Fifo(FilterPreset):
    """Strict first in, first out: at most one task per host, hosts in the order of their names.

    Names are compared character by character: n10 comes before n9.

    >>> Fifo().native_settings()["filters"]
    [('instance-count', 1.0)]
    """

    name: ClassVar[str] = "fifo"

    def _options(self) -> dict[str, Any]:
        return {"filters": {"instance_count": 1}}


class FirstFit(QueueingPreset):
    """First fit: the first host of the platform that the task fits on.

    >>> FirstFit().to_filter() == Filter()
    True
    """

    name: ClassVar[str] = "first-fit"


class BestFit(QueueingPreset):
    """Best fit: the host with the fewest free cores that the task fits on.

    >>> BestFit().native_settings()["weighers"]
    [('vcpu', -1.0)]
    """

    name: ClassVar[str] = "best-fit"

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "weighers": {"vcpu": -1.0}}


class WorstFit(QueueingPreset):
    """Worst fit: the host with the most free cores.

    >>> WorstFit().native_settings()["weighers"]
    [('vcpu', 1.0)]
    """

    name: ClassVar[str] = "worst-fit"

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "weighers": {"vcpu": 1.0}}


class OvercommittingPreset(FilterPreset):
    """Base class of the presets that may allocate more cores than a host has."""

    weighers: ClassVar[dict[str, float]]
    overcommit: Positive = Field(
        1.0, description="allocated cores are at most this multiple of the cores of the host"
    )

    def _options(self) -> dict[str, Any]:
        return {"filters": {**_FIT, "vcpu": self.overcommit}, "weighers": self.weighers}


class PackIc(OvercommittingPreset):
    """The host with the most tasks.

    >>> PackIc(overcommit=4.0).native_settings()["filters"][0]
    ('vcpu', 4.0)
    """

    name: ClassVar[str] = "pack-ic"
    weighers: ClassVar[dict[str, float]] = {"instance_count": 1.0}


class SpreadIc(OvercommittingPreset):
    """The host with the fewest tasks.

    >>> SpreadIc().native_settings()["weighers"]
    [('instance-count', -1.0)]
    """

    name: ClassVar[str] = "spread-ic"
    weighers: ClassVar[dict[str, float]] = {"instance_count": -1.0}


class SpreadVcpu(OvercommittingPreset):
    """The host with the most free cores.

    >>> SpreadVcpu().native_settings()["weighers"]
    [('vcpu', 1.0)]
    """

    name: ClassVar[str] = "spread-vcpu"
    weighers: ClassVar[dict[str, float]] = {"vcpu": 1.0}


class BaselineIc1(FilterPreset):
    """First fit with at most one task per host.

    >>> BaselineIc1().to_filter().filters.instance_count
    1
    """

    name: ClassVar[str] = "baseline-ic1"

    def _options(self) -> dict[str, Any]:
        return {"filters": {**_FIT, "instance_count": 1}}


class RandomFit(QueueingPreset):
    """A random host that the task fits on.

    >>> RandomFit().native_settings(seed=7)["pick"]
    'random'
    """

    name: ClassVar[str] = "random"

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "pick": "random"}


class RoundRobin(QueueingPreset):
    """Round robin: the next host that the task fits on, after the last choice.

    >>> RoundRobin().native_settings()["pick"]
    'round-robin'
    """

    name: ClassVar[str] = "round-robin"

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "pick": "round-robin"}
