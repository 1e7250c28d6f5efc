"""The parts of a platform: hosts, clusters, queues, reservations, maintenance."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import Field, field_validator, model_validator

from twinloop.description.description import Description
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import (
    Bytes,
    Count,
    Label,
    MHz,
    Name,
    Number,
    Positive,
    Seconds,
    number_to_text,
)
from twinloop.platform.carbon import CarbonIntensity
from twinloop.platform.host_store import HostStore
from twinloop.platform.network import Ports
from twinloop.platform.power import AnyPowerModel
from twinloop.platform.states import HostStates, check_states, read_states

_HOSTS = (
    "its hosts: names of clusters, of groups of hosts (C01-H01) or of single nodes "
    "(C01-H01-003); by default all"
)


class Host(Description):
    """A group of identical nodes.

    >>> Host(cores=16, mhz="2.1 GHz", memory="128 GiB", count=4).mhz
    2100.0
    """

    name: Label = Field(
        "", description="name of the group; by default H01, H02..., by its position"
    )
    count: Count = Field(1, description="number of nodes")
    names: tuple[Name, ...] = Field(
        (), description="names of the nodes; by default CLUSTER-HOST-001, -002..."
    )
    cores: Positive = Field(description="cores of one node; fractions are allowed")
    mhz: MHz | None = Field(None, description="clock of one core (MHz)")
    speed: Positive | None = Field(
        None,
        description="reference core-seconds that one core completes per second; by default its "
        "clock divided by the reference clock of the workload, or 1 if either is unknown",
    )
    memory: Bytes | None = Field(None, description="memory of one node (bytes)")
    resources: dict[Name, Positive] = Field(
        {}, description="other resources of one node: gpu, licences..."
    )
    power: AnyPowerModel | None = Field(None, description="power model of one node")
    states: HostStates = Field(
        {},
        description="states other than running by name: off, switching-on, switching-off and "
        "others, such as suspended; by default a node is switched on and off at once",
    )
    ports: Ports | None = Field(
        None, description="ports of one node to the network; by default unlimited"
    )
    store: HostStore | None = Field(None, description="data store of one node")

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if isinstance(data, dict) and "count" not in data and isinstance(data.get("names"), list):
            data = {**data, "count": max(1, len(data["names"]))}
        if isinstance(data, dict) and "states" in data:
            data = {**data, "states": read_states(data["states"])}
        return data

    @model_validator(mode="after")
    def _check_names(self) -> Host:
        findings = ProblemCollector()
        if self.names and len(self.names) != self.count:
            findings.add(
                ("count",),
                f"is {self.count}, but there are {len(self.names)} names",
                kind="inconsistent-values",
            )
        check_states(self.states, findings, power=self.power is not None)
        findings.check()
        return self

    def speed_of_core(self, reference_mhz: float | None) -> float:
        """The speed of one core in reference cores.

        It is `speed` if given, else the clock divided by `reference_mhz`, or 1 if one is unknown.

        >>> host = Host(cores=1, mhz=3000)
        >>> host.speed_of_core(2000.0), host.speed_of_core(None)
        (1.5, 1.0)
        """
        if self.speed is not None:
            return float(self.speed)
        return self.mhz / reference_mhz if self.mhz and reference_mhz else 1.0

    def node_names(self, cluster: str) -> tuple[str, ...]:
        """The names of its nodes in a cluster; generated names are in sorted order.

        >>> Host(name="H01", cores=1, count=2).node_names("C01")
        ('C01-H01-001', 'C01-H01-002')
        """
        if self.names:
            return self.names
        digits = max(3, len(str(self.count)))
        return tuple(f"{cluster}-{self.name}-{n:0{digits}}" for n in range(1, self.count + 1))


class Cluster(Description):
    """A cluster: groups of hosts with a common electricity supply.

    >>> Cluster(hosts=[{"cores": 8}, {"cores": 16}]).hosts[1].name
    'H02'
    """

    name: Label = Field(
        "", description="name of the cluster; by default C01, C02..., by its position"
    )
    hosts: tuple[Host, ...] = Field(min_length=1, description="groups of identical nodes")
    carbon: CarbonIntensity | None = Field(
        None,
        description="carbon intensity of its electricity: a constant such as 300 g/kWh, or a file "
        "with the intensity over time",
    )

    @field_validator("hosts", mode="after")
    @classmethod
    def _set_names(cls, hosts: tuple[Host, ...]) -> tuple[Host, ...]:
        return name_by_position(hosts, "H")


class Queue(Description):
    """A queue (or partition): the hosts of its tasks and the limits of their requests.

    >>> Queue(name="short", max_time="1h").max_time
    3600.0
    """

    name: Name = Field(description="name of the queue in the workload")
    hosts: tuple[Name, ...] = Field((), description=_HOSTS)
    priority: Number = Field(
        0.0, description="priority; tasks of the queue with the higher priority come first"
    )
    max_cores: Positive | None = Field(
        None, description="maximum number of cores that a task may request"
    )
    max_nodes: Count | None = Field(
        None, description="maximum number of nodes that a task may request"
    )
    max_memory: Bytes | None = Field(
        None, description="maximum memory that a task may request, over all nodes (bytes)"
    )
    max_time: Seconds | None = Field(
        None, description="maximum run time that a task may request (s)"
    )
    max_running_per_user: Count | None = Field(
        None, description="maximum number of running tasks of one user"
    )
    max_running: Count | None = Field(
        None, description="maximum number of running tasks of the queue"
    )


class Window(Description):
    """A period in which hosts are unavailable to some or all tasks."""

    start: Seconds = Field(description="start (s since the start of the run)")
    end: Seconds = Field(description="end (s since the start of the run)")
    hosts: tuple[Name, ...] = Field((), description=_HOSTS)

    @model_validator(mode="after")
    def _check_order(self) -> Window:
        findings = ProblemCollector()
        if self.end <= self.start:
            findings.add(
                ("end",),
                f"must be later than the start, {number_to_text(self.start)} s",
                kind="wrong-order",
            )
        findings.check()
        return self


class Maintenance(Window):
    """A maintenance period: no task may run on these hosts.

    >>> Maintenance(start="1d", end="1d 4h").end
    100800.0
    """

    reason: str = Field("", description="reason, as a remark")


class Reservation(Window):
    """A reservation: in its period, only tasks of some users or queues may run on these hosts.

    >>> Reservation(name="course", start="8h", end="12h", users=["teacher"]).end
    43200.0
    """

    name: Name = Field(description="name of the reservation")
    users: tuple[Name, ...] = Field((), description="users whose tasks may run there")
    queues: tuple[Name, ...] = Field((), description="queues whose tasks may run there")


_Named = TypeVar("_Named", Host, Cluster)


def name_by_position(parts: tuple[_Named, ...], letter: str) -> tuple[_Named, ...]:
    """Return the parts with default names by position: H01, H02..."""
    digits = max(2, len(str(len(parts))))
    return tuple(
        part if part.name else part.model_copy(update={"name": f"{letter}{n:0{digits}}"})
        for n, part in enumerate(parts, start=1)
    )
