"""The filter scheduler and its settings: the task is given, the host is searched.

The filters leave the hosts that may take the task, the weighers say which of them is best. The
scheme is that of OpenStack's compute scheduler, and of OpenDC after it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from twinloop.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import Count, Flag, Number, Positive
from twinloop.policy.built_in import BuiltInPolicy


class Filters(Description):
    """Which hosts may take a task: those that pass every filter that is set.

    >>> Filters(vcpu=1.5, capacity=True).ram is None
    True
    """

    instance_count: Count | None = Field(None, description="at most so many tasks on a host")
    vcpu: Positive | None = Field(
        None, description="cores given away are at most so many times those of the host"
    )
    ram: Positive | None = Field(
        None, description="memory given away is at most so many times that of the host"
    )
    capacity: Flag = Field(
        False, description="a core of the host is at least as fast as the task asks for (MHz)"
    )
    resource: Positive | None = Field(
        None, description="of each other resource at most so many times what the host has"
    )


class Weighers(Description):
    """Which of the hosts is best: the sum of what is weighed, each scaled to 0..1 and multiplied.

    >>> Weighers(ram=1.0, instance_count=-0.5).instance_count
    -0.5
    """

    instance_count: Number | None = Field(None, description="times the tasks on the host")
    vcpu: Number | None = Field(None, description="times the free cores of the host")
    ram: Number | None = Field(None, description="times the free memory of the host")
    capacity: Number | None = Field(None, description="times the speed of a core of the host")


_FIT = {"vcpu": 1.0, "ram": 1.0, "resource": 1.0}


class Filter(BuiltInPolicy):
    """The filter scheduler, all options open.

    >>> Filter(filters={"vcpu": 2.0}, weighers={"ram": 1.0}).native_settings()["filters"]
    [('vcpu', 2.0)]
    """

    name: ClassVar[str] = "filter"
    filters: Filters = Field(
        default_factory=lambda: Filters(**_FIT),
        description="the filters, those that are named and no others; by default vcpu, ram and "
        "resource, each 1",
    )
    weighers: Weighers = Field(
        default_factory=Weighers,
        description="multipliers of the weighers; without any, the first host of the platform is "
        "best",
    )
    subset: Count = Field(1, description="a random one of so many best hosts is taken")
    skip: Flag = Field(
        False, description="a task that fits nowhere lets those behind it pass; false: it stops all"
    )
    pick: Literal["first", "random", "round-robin"] = Field(
        "first",
        description="which of the hosts that pass the filters: the best, a random one, or the "
        "next after the one taken last",
    )

    @model_validator(mode="after")
    def _one_choice(self) -> Filter:
        findings = ProblemCollector()
        if self.pick != "first":
            if self.subset > 1:
                findings.add(("subset",), f"means nothing beside pick: {self.pick}")
            if _named(self.weighers):
                findings.add(("weighers",), f"mean nothing beside pick: {self.pick}")
        findings.check()
        return self

    def _settings(self) -> dict[str, object]:
        return {
            "kind": "filter",
            "filters": _named(self.filters),
            "weighers": _named(self.weighers),
            "subset": self.subset,
            "skip": self.skip,
            "pick": self.pick,
        }


def _named(parts: Filters | Weighers) -> list[tuple[str, float]]:
    """The names and values of those that are set; a filter that is just on has the value 0."""
    values = {name: getattr(parts, name) for name in type(parts).model_fields}
    return [
        (name.replace("_", "-"), 0.0 if value is True else float(value))
        for name, value in values.items()
        if value is not None and value is not False
    ]


class FilterPreset(BuiltInPolicy):
    """A setting of the filter scheduler that has a name of its own."""

    def to_filter(self) -> Filter:
        """The same as options of `filter`.

        >>> BestFit().to_filter().weighers.vcpu
        -1.0
        """
        return Filter(**self._options())

    def _options(self) -> dict[str, Any]:
        raise NotImplementedError

    def _settings(self) -> dict[str, object]:
        return self.to_filter()._settings()


class Fifo(FilterPreset):
    """Strictly one task after the other, one on each host, the host of the smallest name first.

    Names are compared letter by letter: n10 comes before n9.

    >>> Fifo().native_settings()["filters"]
    [('instance-count', 1.0)]
    """

    name: ClassVar[str] = "fifo"

    def _options(self) -> dict[str, Any]:
        return {"filters": {"instance_count": 1}}


class FirstFit(FilterPreset):
    """The first host, in the order of the platform, with room for the task.

    >>> FirstFit().to_filter() == Filter()
    True
    """

    name: ClassVar[str] = "first-fit"

    def _options(self) -> dict[str, Any]:
        return {}


class BestFit(FilterPreset):
    """The host with the fewest free cores of those with room for the task.

    >>> BestFit().native_settings()["weighers"]
    [('vcpu', -1.0)]
    """

    name: ClassVar[str] = "best-fit"

    def _options(self) -> dict[str, Any]:
        return {"weighers": {"vcpu": -1.0}}


class WorstFit(FilterPreset):
    """The host with the most free cores.

    >>> WorstFit().native_settings()["weighers"]
    [('vcpu', 1.0)]
    """

    name: ClassVar[str] = "worst-fit"

    def _options(self) -> dict[str, Any]:
        return {"weighers": {"vcpu": 1.0}}


class OvercommittingPreset(FilterPreset):
    """A setting that may give away more cores than a host has."""

    weighers: ClassVar[dict[str, float]]
    overcommit: Positive = Field(
        1.0, description="cores given away are at most so many times those of the host"
    )

    def _options(self) -> dict[str, Any]:
        return {"filters": {**_FIT, "vcpu": self.overcommit}, "weighers": self.weighers}


class PackIc(OvercommittingPreset):
    """The host that has the most tasks already.

    >>> PackIc(overcommit=4.0).native_settings()["filters"][0]
    ('vcpu', 4.0)
    """

    name: ClassVar[str] = "pack-ic"
    weighers: ClassVar[dict[str, float]] = {"instance_count": 1.0}


class SpreadIc(OvercommittingPreset):
    """The host that has the fewest tasks.

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
    """First fit, with at most one task on a host.

    >>> BaselineIc1().to_filter().filters.instance_count
    1
    """

    name: ClassVar[str] = "baseline-ic1"

    def _options(self) -> dict[str, Any]:
        return {"filters": {**_FIT, "instance_count": 1}}


class RandomFit(FilterPreset):
    """A random host with room for the task.

    >>> RandomFit().native_settings(seed=7)["pick"]
    'random'
    """

    name: ClassVar[str] = "random"

    def _options(self) -> dict[str, Any]:
        return {"pick": "random"}


class RoundRobin(FilterPreset):
    """The next host with room for the task, after the one that was taken last.

    >>> RoundRobin().native_settings()["pick"]
    'round-robin'
    """

    name: ClassVar[str] = "round-robin"

    def _options(self) -> dict[str, Any]:
        return {"pick": "round-robin"}
