"""Reader of the settings of the broker Schlouder (`simschlouder.*.xml`): boots, billing, limit.

Meanings of the elements are those of the source of SimSchlouder (github.com/bluke/schiaas).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from twinloop.description.address import suggest_name
from twinloop.description.cleaning import Cleaning
from twinloop.description.files import is_file
from twinloop.description.quantities import MAX_COUNT
from twinloop.platform.billing import MIN_UNIT
from twinloop.platform.network import Ports
from twinloop.platform.simgrid_platform import (
    ImportNotes,
    SimGridLink,
    SimGridPlatform,
    XmlElement,
    expand_radical,
    parse_xml,
)

_HANDLED: Final[dict[str, Collection[str]]] = {
    "simschlouder": ("version",),
    "config": ("platform", "cloud"),
    "broker": ("id",),
    "cloud": (
        "id",
        "B0",
        "B1",
        "BTU",
        "shutdown_margin",
        "max_instances_per_user",
        "standard_power",
    ),
    "provisioning": (),
    "provisioning/config": ("cloud", "storage", "image", "instance_type", "validation"),
}
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class BrokerStore:
    """The store of the files of tasks: its ports, and the latency to the instances (s)."""

    name: str
    ports: Ports
    latency: float


@dataclass(frozen=True)
class BrokerSettings:
    """The settings of a broker on a cloud; times in s.

    >>> BrokerSettings("east", "base", "small", 48, 6, 3600, 50).instances is None
    True
    """

    cloud: str
    image: str
    instance_type: str
    #: The predicted boot time is boot_base + boot_per_booting x (instances that boot + 1).
    boot_base: float
    boot_per_booting: float
    #: Unit of time of the billing.
    unit: float
    #: Time before the end of a unit in which idle instances are given back.
    margin: float
    #: Maximum number of instances; None: unlimited.
    instances: int | None = None
    #: Whether the simulator imitates faults of the real broker.
    validation: bool = False
    #: The store of the files of tasks; None if the files of the platform do not exist.
    store: BrokerStore | None = None
    notes: tuple[Cleaning, ...] = ()
    #: The line of the cloud in the file.
    line: int = field(default=1, compare=False)


def read_broker_settings(path: str | Path) -> BrokerSettings:
    """Read the settings of the broker from a file of SimSchlouder.

    The cloud is the one that `<provisioning>` names. The store of the files of tasks is read if
    the files of the cloud and of its SimGrid platform exist beside the file.

    >>> import tempfile
    >>> text = '''<simschlouder version="1">
    ...   <config platform="platform.xml" cloud="cloud.xml"/><broker id="controller"/>
    ...   <cloud id="east" B0="48" B1="6" BTU="3600" shutdown_margin="50"
    ...          max_instances_per_user="25" standard_power="1e10"/>
    ...   <provisioning><config cloud="east" storage="disk" image="base" instance_type="small"
    ...                         validation="true"/></provisioning></simschlouder>'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "simschlouder.xml")
    ...     _ = file.write_text(text)
    ...     settings = read_broker_settings(file)
    >>> settings.boot_base, settings.unit, settings.instances, settings.validation
    (48.0, 3600.0, 25, True)
    """
    path = Path(path)
    root = parse_xml(path)
    if root.tag != "simschlouder":
        raise root.error(
            f"is <{root.tag}>, not the settings of a broker (<simschlouder>)", kind="wrong-format"
        )
    notes = ImportNotes()
    notes.add_unhandled(root, _HANDLED)
    chosen = _find_one(root, "provisioning", "config")
    name = chosen.require("cloud")
    clouds = root.find_by_id("cloud")
    if name not in clouds:
        raise chosen.error(
            f"unknown cloud '{name}'",
            "cloud",
            kind="unknown-reference",
            remedy=suggest_name(name, sorted(clouds)) or 'add <cloud id="..." B0=... />',
        )
    cloud = clouds[name]
    return BrokerSettings(
        cloud=name,
        image=chosen.require("image"),
        instance_type=chosen.require("instance_type"),
        boot_base=cloud.read_number("B0"),
        boot_per_booting=cloud.read_number("B1"),
        unit=cloud.read_number("BTU", least=MIN_UNIT),
        margin=cloud.read_number("shutdown_margin"),
        instances=_read_limit(cloud),
        validation=_read_flag(chosen, "validation"),
        store=_read_store(root, chosen, notes),
        notes=tuple(notes.to_cleanings()),
        line=cloud.line,
    )


def _find_one(element: XmlElement, *tags: str) -> XmlElement:
    """Find the only child with the first tag, in it the only one with the second tag, and so on."""
    for tag in tags:
        found = element.find_all(tag)
        if len(found) != 1:
            raise element.error(f"needs one <{tag}>, but has {len(found)}", kind="wrong-count")
        element = found[0]
    return element


def _read_limit(cloud: XmlElement) -> int | None:
    """Read the maximum number of instances; 0 or none: unlimited."""
    name = "max_instances_per_user"
    if cloud.get(name) is None:
        return None
    limit = cloud.read_number(name)
    if not limit.is_integer():
        raise cloud.error(f"must be a whole number, not {limit:g}", name, kind="wrong-type")
    if limit > MAX_COUNT:
        problem = f"must be at most {MAX_COUNT:,}, not {limit:.0f}"
        raise cloud.error(problem, name, kind="out-of-range", remedy="0 is no limit")
    return int(limit) or None


def _read_flag(element: XmlElement, name: str) -> bool:
    text = element.get(name)
    if text is None:
        return False
    if text not in _FLAGS:
        raise element.error(f"must be true or false, not '{text}'", name, kind="not-a-choice")
    return _FLAGS[text]


def _read_store(root: XmlElement, chosen: XmlElement, notes: ImportNotes) -> BrokerStore | None:
    """Read the store that the broker uses: the routes between it and the first host of the cloud.

    Links in the direction of the store are its incoming port: the narrowest one counts.
    """
    config = _find_one(root, "config")
    name = chosen.require("storage")
    clouds_file, platform_file = (
        Path(root.file).parent / config.require(attribute) for attribute in ("cloud", "platform")
    )
    if not is_file(clouds_file) or not is_file(platform_file):
        notes.add("assumed", "transfers of files take no time: no file of the platform", config)
        return None
    clouds = parse_xml(clouds_file).find_by_id("cloud")
    cloud = clouds.get(chosen.require("cloud"))
    storages = {} if cloud is None else cloud.find_by_id("storage")
    if cloud is None or name not in storages:
        raise chosen.error(
            f"unknown storage '{name}' in {clouds_file.name}",
            "storage",
            kind="unknown-reference",
            remedy=suggest_name(name, sorted(storages)),
        )
    # Only the store is used of the platform: what it leaves out does not matter.
    platform = SimGridPlatform(parse_xml(platform_file), ImportNotes())
    controller = _find_one(storages[name], "config").require("controller")
    host = _find_first_host(cloud, platform)
    to_host = _find_route(platform, controller, host, storages[name])
    to_store = _find_route(platform, host, controller, storages[name])
    ports = Ports.from_dict({"in": _find_width(to_store), "out": _find_width(to_host)})
    return BrokerStore(name, ports, sum(link.latency for link in to_host))


def _find_first_host(cloud: XmlElement, platform: SimGridPlatform) -> str:
    """Find a host of the cloud: routes of the store to its other hosts have the same links."""
    parts = _find_one(cloud, "compute").find_all("cluster", "host")
    if not parts:
        raise cloud.error("has no hosts", kind="missing-field", remedy="add a <cluster>")
    first = parts[0]
    name = expand_radical(first)[0] if first.tag == "cluster" else first.require("id")
    if name not in platform.hosts:
        raise first.error(
            f"unknown host '{name}' in {Path(platform.root.file).name}",
            "radical" if first.tag == "cluster" else "id",
            kind="unknown-reference",
        )
    return name


def _find_route(
    platform: SimGridPlatform, source: str, target: str, storage: XmlElement
) -> tuple[SimGridLink, ...]:
    for name in (source, target):
        if name not in platform.hosts:
            raise storage.error(
                f"unknown host '{name}' in {Path(platform.root.file).name}",
                kind="unknown-reference",
            )
    route = platform.find_route(source, target)
    if route is None:
        problem = f"there is no route from '{source}' to '{target}'"
        raise storage.error(problem, kind="unknown-reference")
    return route


def _find_width(route: tuple[SimGridLink, ...]) -> float | None:
    """Find the bandwidth of the narrowest link; None without links."""
    return min((link.bandwidth for link in route), default=None)
