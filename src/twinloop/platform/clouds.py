"""Clouds of a platform: clusters whose hosts run instances, with images, types and controllers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from twinloop.description.description import Description, TextAlternative, WriteContext
from twinloop.description.document import Address
from twinloop.description.position import Position, locate_errors
from twinloop.description.problems import ProblemCollector
from twinloop.description.quantities import (
    BANDWIDTH,
    MEMORY,
    Bandwidth,
    Bytes,
    Count,
    Name,
    Positive,
    Price,
    Seconds,
)
from twinloop.platform.billing import Billing, SpotMarket
from twinloop.platform.boots import Boot, Shortage
from twinloop.platform.cloud_messages import CloudMessages
from twinloop.platform.meters import CloudMeter, check_meters
from twinloop.platform.network import SharedStore
from twinloop.platform.service_level import ServiceLevel
from twinloop.platform.temperature import Temperature

if TYPE_CHECKING:
    from twinloop.platform.parts import Cluster, Host
    from twinloop.platform.platform import Platform

#: An amount of data that may be 0.
_Size = Annotated[
    float, Field(ge=0), BeforeValidator(MEMORY.read), WithJsonSchema(MEMORY.schema(positive=False))
]
#: A rate of data that may be 0.
_Rate = Annotated[
    float,
    Field(ge=0),
    BeforeValidator(BANDWIDTH.read),
    WithJsonSchema(BANDWIDTH.schema(positive=False)),
]


class Image(Description):
    """An image: the data that an instance needs on its host before it boots.

    >>> Image(name="base", size="100 MB", store="images", boot={"work": 30}).size
    100000000.0
    """

    name: Name = Field(description="name of the image")
    size: _Size = Field(0.0, description="size (bytes); 0: no transfer")
    store: Name | None = Field(
        None, description="store of the platform that has it; by default the first one"
    )
    boot: Boot = Field(
        default_factory=Boot, description="boot of an instance; by default none: a container"
    )
    caching: Literal["none", "first-use", "pre-staged"] = Field(
        "none",
        description="none: transferred for every instance; first-use: stays in the store of a host "
        "after the first instance there; pre-staged: in the stores of all hosts from the start",
    )


class InstanceType(Description):
    """A type of instances: its cores and memory, or those of the task that it is started for.

    >>> InstanceType(name="small", cores=2, memory="4 GB").cores
    2.0
    >>> InstanceType(name="any", fits="task").cores is None
    True
    """

    name: Name = Field(description="name of the type")
    cores: Positive | None = Field(None, description="cores of an instance")
    memory: Bytes | None = Field(
        None, description="memory of an instance (bytes); by default no memory is reserved"
    )
    fits: Literal["task"] | None = Field(
        None, description="task: cores and memory that its task requests, in place of `cores`"
    )
    price: Price | None = Field(
        None, description="price of one unit of time; by default that of the billing of the cloud"
    )

    @model_validator(mode="after")
    def _check_size(self) -> InstanceType:
        findings = ProblemCollector()
        remedy = "give either `cores` or `fits: task`"
        if self.cores is None and self.fits is None:
            findings.add(("cores",), "is missing", remedy, kind="missing-field")
        if self.fits is not None:
            for field in ("cores", "memory"):
                if getattr(self, field) is not None:
                    problem = "must not be given for a type that fits the task"
                    findings.add((field,), problem, remedy, kind="conflicting-fields")
        findings.check()
        return self


class ControllerChoice(Description):
    """A controller of a cloud: its name and options. The name alone is the short form.

    Names and options are checked when the controller is created, not here.

    >>> ControllerChoice.from_dict("first-fit").name
    'first-fit'
    >>> ControllerChoice(name="first-fit", options={"queue": "blocking"}).options
    {'queue': 'blocking'}
    """

    name: Name = Field(description="name of the controller, or module:Class")
    options: dict[str, Any] = Field(
        {}, description="options of the controller; the others have their defaults"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @model_serializer(mode="wrap")
    def _short_form(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
        values = handler(self)
        short = isinstance(info.context, WriteContext) and list(values) == ["name"]
        return values["name"] if short else values

    def locate_creation(self) -> AbstractContextManager[None]:
        """Return a context that adds positions to the errors of creating the controller."""
        return locate_errors(self._position)


_SHORT_FORM: Final = TextAlternative("name of the controller")
_Controller = Annotated[ControllerChoice, _SHORT_FORM]


class CloudControllers(Description):
    """The controllers of a cloud: of its instances, of its hosts, and of moves between hosts.

    >>> CloudControllers(machines="on-demand").machines.name
    'on-demand'
    """

    placement: _Controller = Field(
        default_factory=lambda: ControllerChoice(name="first-fit"),
        description="selects the host of an instance",
    )
    machines: _Controller = Field(
        default_factory=lambda: ControllerChoice(name="always-on"),
        description="switches hosts on and off",
    )
    consolidation: Annotated[ControllerChoice | None, _SHORT_FORM] = Field(
        None, description="moves instances between hosts; by default none"
    )


class InstanceLimits(Description):
    """The limits of a cloud: what all its instances together may have.

    >>> InstanceLimits(instances=100, memory="1 TB").memory
    1000000000000.0
    """

    instances: Count | None = Field(
        None, description="maximum number of instances; by default unlimited"
    )
    cores: Positive | None = Field(
        None, description="maximum cores of all instances; by default unlimited"
    )
    memory: Bytes | None = Field(
        None, description="maximum memory of all instances (bytes); by default unlimited"
    )


class Migration(Description):
    """The migration of instances to another host.

    A live migration copies the memory while the instance runs, then in rounds what was changed in
    the meantime (pre-copy: Clark et al., "Live migration of virtual machines", 2005); a cold one
    stops the instance for the whole copy.

    >>> Migration(mode="live", dirty_rate="50 MB/s", bandwidth="1 Gb/s").bandwidth
    125000000.0
    """

    mode: Literal["live", "cold"] = Field(
        "live", description="live: the instance runs during the copy; cold: it is stopped"
    )
    dirty_rate: _Rate = Field(
        0.0, description="of live: rate at which a running instance changes its memory (bytes/s)"
    )
    rounds: Count = Field(
        30, description="of live: maximum number of rounds before the instance is stopped"
    )
    threshold: _Size = Field(
        50e6,
        description="of live: remaining data at which the instance is stopped for the last round "
        "(bytes)",
    )
    bandwidth: Bandwidth | None = Field(
        None, description="maximum bandwidth of one migration; by default that of the network"
    )


class Cloud(Description):
    """A cloud: clusters whose hosts run instances, which are requested for tasks.

    >>> cloud = Cloud(name="szt", billing={"price": 0.1}, inter_boot_delay="6s")
    >>> cloud.types[0].fits, cloud.images[0].size, cloud.controllers.placement.name
    ('task', 0.0, 'first-fit')
    """

    name: Name = Field(description="name of the cloud")
    clusters: tuple[Name, ...] | None = Field(
        None, description="names of its clusters; by default all clusters of the platform"
    )
    images: tuple[Image, ...] = Field(
        default_factory=lambda: (Image(name="none"),),
        min_length=1,
        description="images of instances, the first by default; by default one without data and "
        "without a boot",
    )
    types: tuple[InstanceType, ...] = Field(
        default_factory=lambda: (InstanceType(name="any", fits="task"),),
        min_length=1,
        description="types of instances; by default one that fits the task",
    )
    controllers: CloudControllers = Field(
        default_factory=CloudControllers, description="controllers of instances and hosts"
    )
    limits: InstanceLimits = Field(
        default_factory=InstanceLimits,
        description="limits of all instances together; by default none",
    )
    shortage: Shortage | None = Field(
        None, description="shortage of hosts in a share of the runs; by default none"
    )
    billing: Billing | None = Field(None, description="price of instances; by default none")
    spot: SpotMarket | None = Field(
        None, description="spot prices of instances with a bid; by default there are none"
    )
    decision_delay: Seconds = Field(
        0.0, description="time from a request to the decision on its host (s)"
    )
    inter_boot_delay: Seconds = Field(
        0.0, description="minimum time between the starts of two instances (s)"
    )
    migration: Migration = Field(default_factory=Migration, description="migration of instances")
    suspend_to: Name | None = Field(
        None,
        description="store for the memory of suspended instances, `local` for the store of the "
        "host; by default the store of the first image, or else the first store; without a store, "
        "suspension takes no time",
    )
    messages: CloudMessages | None = Field(
        None,
        description="requests of the client and answers of the provider as messages over the "
        "network; by default they take no time",
    )
    meters: tuple[CloudMeter, ...] = Field(
        (),
        description="meters: the power of hosts, and powers computed from it, such as of the "
        "cooling",
    )
    temperature: Temperature | None = Field(
        None,
        description="temperature for the meters: a constant (°C), pairs of time and temperature, "
        "or a CSV file with the columns temperature and t (s) or unix_ms",
    )
    sla: tuple[ServiceLevel, ...] = Field(
        (), description="service levels: metric, limit, and share that may exceed it"
    )

    @model_validator(mode="after")
    def _check_parts(self) -> Cloud:
        findings = ProblemCollector()
        if self.clusters is not None and not self.clusters:
            remedy = "leave it out for all clusters of the platform"
            findings.add(("clusters",), "must not be empty", remedy, kind="wrong-count")
        for field, what in (("images", "image"), ("types", "instance type"), ("meters", "meter")):
            parts = enumerate(getattr(self, field))
            findings.add_repeats(
                ((part.name, (field, i, "name")) for i, part in parts), f"{what} of this cloud"
            )
        findings.check()
        for place, error in check_meters(self.meters):
            findings.add_error(("meters", *place), error)
        for meter in self.meters:
            if "temperature" in meter.uses and self.temperature is None:
                findings.add(
                    ("temperature",),
                    f"is missing, but meter '{meter.name}' uses it",
                    "give the temperature of the cloud, such as 20 °C",
                    kind="missing-field",
                )
                break
        priced = [i for i, each in enumerate(self.types) if each.price is not None]
        if self.billing is None and (priced or self.spot):
            needs = f"types[{priced[0]}].price" if priced else "spot"
            findings.add(
                ("billing",),
                f"is missing, but {needs} needs it",
                "give `billing` with `price`, and with `unit` unless that is one hour",
                kind="missing-field",
            )
        named = ((level.name, ("sla", i, "name")) for i, level in enumerate(self.sla) if level.name)
        findings.add_repeats(named, "service level of this cloud")
        findings.check()
        return self

    @property
    def is_random(self) -> bool:
        """Whether boots or the number of free hosts may depend on the seed."""
        return self.shortage is not None or any(image.boot.is_random for image in self.images)


def list_cloud_hosts(platform: Platform, cloud: Cloud) -> list[tuple[Cluster, Host]]:
    """List the groups of hosts of a cloud, each with its cluster.

    >>> from twinloop.platform import Platform
    >>> platform = Platform(clusters=[{"hosts": [{"cores": 1}]}], clouds=[{"name": "szt"}])
    >>> [host.name for _, host in list_cloud_hosts(platform, platform.clouds[0])]
    ['H01']
    """
    return [
        (cluster, host)
        for cluster, host in platform.hosts()
        if not cloud.clusters or cluster.name in cloud.clusters
    ]


def find_image_store(platform: Platform, image: Image) -> SharedStore | None:
    """Find the store of an image: by default the first store of the platform; None without one.

    >>> from twinloop.platform import Platform
    >>> platform = Platform(clusters=[{"hosts": [{"cores": 1}]}], stores=[{"name": "disk"}])
    >>> find_image_store(platform, Image(name="base", size="1 GB")).name
    'disk'
    """
    return next(
        (each for each in platform.stores if image.store is None or each.name == image.store), None
    )


def find_memory_store(platform: Platform, cloud: Cloud) -> SharedStore | None:
    """Find the shared store for the memory of suspended instances; None: a local one, or none.

    >>> from twinloop.platform import Platform
    >>> platform = Platform(clusters=[{"hosts": [{"cores": 1}]}], stores=[{"name": "disk"}],
    ...     clouds=[{"name": "east"}])
    >>> find_memory_store(platform, platform.clouds[0]).name
    'disk'
    """
    if cloud.suspend_to is None:
        return find_image_store(platform, cloud.images[0])
    return next((each for each in platform.stores if each.name == cloud.suspend_to), None)


def note_cloud_positions(
    clouds: tuple[Cloud, ...], data: Any, file: str | None, address: Address
) -> None:
    """Note the positions of clouds, images, types and controllers that were read from `data`.

    Parts that were not given have their defaults and no position.
    """
    if not isinstance(data, list | tuple):
        return
    for i, (cloud, values) in enumerate(zip(clouds, data, strict=True)):
        if not isinstance(values, Mapping):
            continue
        cloud._position = Position(file, (*address, i))
        for field in ("images", "types", "meters"):
            if field in values:
                for j, part in enumerate(getattr(cloud, field)):
                    part._position = Position(file, (*address, i, field, j))
        given = values.get("controllers")
        if isinstance(given, Mapping):
            for role, value in given.items():
                if isinstance(value, str | Mapping):
                    choice: ControllerChoice = getattr(cloud.controllers, role)
                    step = (*address, i, "controllers", role)
                    choice._position = Position(file, step, isinstance(value, str))
