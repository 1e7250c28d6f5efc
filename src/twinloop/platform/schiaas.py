"""Reader of the clouds of SCHIaaS (`cloud.xml`) with their SimGrid platform.

Meanings that the file itself does not define are those of the source of SCHIaaS (engines Rice and
Rise, SimpleScheduler; github.com/bluke/schiaas). The notes of the platform count all assumptions,
and what a platform cannot represent.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from twinloop.description.address import address_from_path, suggest_name
from twinloop.description.document import Address
from twinloop.description.files import is_file, read_first_bytes
from twinloop.description.problems import DescriptionError
from twinloop.platform.platform import Platform
from twinloop.platform.simgrid_platform import (
    ImportNotes,
    SimGridHost,
    SimGridLink,
    SimGridPlatform,
    XmlElement,
    expand_radical,
    parse_xml,
)

_CLOUD_HANDLED: Final[dict[str, Collection[str]]] = {
    "clouds": ("version",),
    "cloud": ("id",),
    "storage": ("id", "engine"),
    "storage/config": ("controller",),
    "compute": ("engine",),
    "compute/config": (
        "controller",
        "image_storage",
        "image_caching",
        "inter_boot_delay",
        "standard_power",
    ),
    "scheduler": ("name", "type"),
    "instance_type": ("id", "core", "memory"),
    "image": ("id", "size"),
    "cluster": ("id", "prefix", "suffix", "radical"),
    "host": ("id",),
}
_BROKER_HANDLED: Final[dict[str, Collection[str]]] = {
    "simschlouder": ("version",),
    "config": ("platform", "cloud"),
    "cloud": ("id", "B0", "B1", "BTU", "max_instances_per_user", "standard_power"),
    "provisioning": (),
    "provisioning/config": ("cloud", "storage", "image", "instance_type"),
}
_CACHING: Final = {"ON": "first-use", "OFF": "none", "PRE": "pre-staged"}
_PLACEMENTS: Final = {"balancer": "worst-fit", "consolidator": "best-fit"}
_MIB: Final = 2**20
#: Bytes of a command of a controller (`RiceTask.commandDataSize` of SCHIaaS).
_COMMAND: Final = 1000.0


def is_xml(path: str | Path) -> bool:
    """Whether a file begins as XML does."""
    return read_first_bytes(Path(path), 256).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"<"


def read_schiaas(path: str | Path, platform: str | Path | None = None) -> Platform:
    """Read the clouds of a `cloud.xml` or `simschlouder.xml` file with their SimGrid platform.

    Args:
        path: A file of clouds, or one of SimSchlouder, which names the files of the clouds and of
            the platform, and has boot times, limits and billing units.
        platform: The SimGrid platform of a file of clouds; by default the file beside it with
            `platform` in place of `cloud` in its name.

    >>> import tempfile
    >>> simgrid = '''<platform version="4"><AS id="all" routing="Full">
    ...   <cluster id="rack" prefix="pm-" suffix="" radical="1-2" speed="2Gf" core="4"
    ...            bw="125MBps" lat="1ms"/>
    ...   <AS id="site" routing="Full"><host id="disk" speed="1Gf"/></AS>
    ...   <link id="line" bandwidth="100MBps" latency="8ms"/>
    ...   <ASroute src="site" dst="rack" gw_src="disk" gw_dst="pm-rack_router">
    ...     <link_ctn id="line"/></ASroute></AS></platform>'''
    >>> clouds = '''<clouds version="1"><cloud id="east">
    ...   <storage id="repository"><config controller="disk"/></storage>
    ...   <compute><config image_storage="repository" image_caching="OFF" inter_boot_delay="6"
    ...                    standard_power="1e9"/>
    ...     <instance_type id="small" core="1" memory="1000"/><image id="base" size="2e8"/>
    ...     <cluster id="rack" prefix="pm-" suffix="" radical="1-2"/></compute></cloud></clouds>'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "platform.xml").write_text(simgrid)
    ...     _ = (Path(folder) / "cloud.xml").write_text(clouds)
    ...     read = read_schiaas(folder + "/cloud.xml")
    >>> read.clusters[0].hosts[0].names, read.clusters[0].hosts[0].speed
    (('pm-1', 'pm-2'), 2.0)
    >>> [(link.between, link.bandwidth) for link in read.network.links]
    [(('repository', 'east-network'), 100000000.0), (('rack', 'east-network'), 125000000.0)]
    >>> read.clouds[0].images[0].size, read.clouds[0].inter_boot_delay
    (200000000.0, 6.0)
    """
    path = Path(path)
    notes = ImportNotes()
    root = parse_xml(path)
    broker = None
    if root.tag == "simschlouder":
        broker = root
        path, platform = _find_broker_files(root, path, platform)
        notes.add_unhandled(root, _BROKER_HANDLED)
        root = parse_xml(path)
    if root.tag != "clouds":
        what = "a SimGrid platform without clouds" if root.tag == "platform" else f"<{root.tag}>"
        raise root.error(
            f"the file is {what}, not a file of clouds of SCHIaaS (<clouds>)",
            kind="wrong-format",
            remedy="name the cloud.xml, or the simschlouder.xml with both",
        )
    if platform is None:
        platform = _guess_platform(root, path)
        notes.add("assumed", f"the platform of the clouds is {platform.name} beside them", root)
    notes.add_unhandled(root, _CLOUD_HANDLED)
    simgrid = SimGridPlatform(parse_xml(platform), notes)
    return _CloudConversion(root, simgrid, broker, notes).convert()


def _find_broker_files(
    root: XmlElement, path: Path, platform: str | Path | None
) -> tuple[Path, str | Path]:
    """Find the files that a file of SimSchlouder names, relative to it."""
    configs = root.find_all("config")
    if len(configs) != 1:
        problem = f"needs one <config platform=... cloud=...>, but has {len(configs)}"
        raise root.error(problem, kind="wrong-count")
    files: dict[str, Path] = {}
    for name in ("cloud", "platform"):
        given = configs[0].require(name)
        files[name] = Path(path.parent, given)
        if not is_file(files[name]) and (name == "cloud" or platform is None):
            raise configs[0].error(
                f"file {files[name]} does not exist",
                name,
                kind="file-not-found",
                remedy="paths are relative to this file",
            )
    return files["cloud"], files["platform"] if platform is None else platform


def _guess_platform(root: XmlElement, path: Path) -> Path:
    guess = path.with_name(path.name.replace("cloud", "platform"))
    if guess == path or not is_file(guess):
        expected = f", and there is no {guess.name} beside it" if guess != path else ""
        raise root.error(
            f"the clouds need a SimGrid platform file{expected}",
            kind="missing-platform",
            remedy="read_schiaas(cloud, platform) reads both, or name both in a file "
            '<simschlouder><config platform="..." cloud="..."/></simschlouder>',
        )
    return guess


@dataclass(eq=False)
class _Group:
    """The hosts of one cloud in one SimGrid cluster, or a single host: a cluster here."""

    name: str
    hosts: list[SimGridHost]


@dataclass(eq=False)
class _CloudStore:
    """The storages of one cloud on one host: a store of the platform."""

    name: str
    host: str
    ids: list[str]
    elements: list[XmlElement]


@dataclass(eq=False)
class _CloudParts:
    element: XmlElement
    name: str
    compute: XmlElement
    config: XmlElement
    standard_power: float | None
    groups: list[_Group] = field(default_factory=list)
    stores: list[_CloudStore] = field(default_factory=list)
    #: The node of the host of the controller in the network; None: it has no route to the hosts.
    controller: str | None = None


class _CloudConversion:
    """Conversion of one file of clouds; `lines` has the lines of the parts of the result."""

    def __init__(
        self,
        root: XmlElement,
        simgrid: SimGridPlatform,
        broker: XmlElement | None,
        notes: ImportNotes,
    ) -> None:
        self.root = root
        self.simgrid = simgrid
        self.notes = notes
        self.lines: dict[Address, int] = {}
        self.offers = {
            each.require("id"): each for each in (broker.find_all("cloud") if broker else [])
        }
        provisioning = broker.find_all("provisioning") if broker else []
        chosen = [config for each in provisioning for config in each.find_all("config")]
        #: The cloud, storage, image and type that the broker uses: the first ones of the result.
        self.chosen = chosen[0] if chosen else None

    def convert(self) -> Platform:
        parts = self._read_clouds()
        self._check_references(parts)
        self._group_hosts(parts)
        self._group_storages(parts)
        clouds = [self._convert_cloud(i, each) for i, each in enumerate(parts)]
        network = _NetworkConversion(self.simgrid, self.notes, parts)
        network.convert()
        for values, each in zip(clouds, parts, strict=True):
            if each.controller is not None:
                values["messages"] = self._convert_commands(each)
        stores = [
            {"name": store.name, "ports": network.ports.get(store.name)}
            for each in parts
            for store in each.stores
        ]
        self._note_unused(parts, network.used)
        values = {
            "clusters": [self._convert_group(g, each) for each in parts for g in each.groups],
            "stores": stores,
            "network": {"switches": network.switches, "links": network.links},
            "clouds": clouds,
        }
        try:
            platform = Platform.from_dict(values)
        except DescriptionError as error:
            raise self._locate(error) from None
        return platform.with_notes(self.notes.to_cleanings())

    def _locate(self, error: DescriptionError) -> DescriptionError:
        """Add the file and the lines of the clouds to problems of the platform as a whole."""
        problems = []
        for problem in error.problems:
            address = address_from_path(problem.field) if problem.field else ()
            while address and address not in self.lines:
                address = address[:-1]
            problems.append(problem.at(file=self.root.file, line=self.lines.get(address)))
        return DescriptionError(problems)

    # --- reading ---------------------------------------------------------------------------------

    def _read_clouds(self) -> list[_CloudParts]:
        parts = []
        for element in self.root.find_all("cloud"):
            name = element.require("id")
            computes = element.find_all("compute")
            if not computes:
                self.notes.add("ignored", "clouds without <compute>", element)
                continue
            if len(computes) > 1:
                raise element.error("has more than one <compute>", kind="wrong-count")
            configs = computes[0].find_all("config")
            if len(configs) != 1:
                problem = f"needs one <config>, but has {len(configs)}"
                raise computes[0].error(problem, kind="wrong-count")
            power = self._read_standard_power(name, configs[0])
            parts.append(_CloudParts(element, name, computes[0], configs[0], power))
            for engine, each in [("Rice", computes[0])] + [
                ("Rise", storage) for storage in element.find_all("storage")
            ]:
                given = each.get("engine")
                if given is not None and given.rpartition(".")[2] != engine:
                    what = f"engine {given} behaves as {engine} of SCHIaaS"
                    self.notes.add("assumed", what, each)
        if not parts:
            raise self.root.error("has no <cloud> with <compute>", kind="missing-field")
        first = self.chosen.get("cloud") if self.chosen else None
        return sorted(parts, key=lambda each: each.name != first)

    def _read_standard_power(self, cloud: str, config: XmlElement) -> float | None:
        """Read the speed of which run times are a multiple; that of the broker comes first."""
        given = (
            config.read_number("standard_power", positive=True)
            if config.get("standard_power")
            else None
        )
        offer = self.offers.get(cloud)
        if offer is None or offer.get("standard_power") is None:
            return given
        power = offer.read_number("standard_power", positive=True)
        if given is not None and given != power:
            self.notes.add(
                "ignored", "standard_power of a cloud, because that of the broker differs", config
            )
        return power

    def _check_references(self, parts: Sequence[_CloudParts]) -> None:
        """Check that the clouds, and the parts of them that the broker names, exist."""
        names = [each.name for each in parts]
        for name, offer in self.offers.items():
            _check_name(offer, "id", name, names, "cloud")
        if self.chosen is None:
            return
        _check_name(self.chosen, "cloud", self.chosen.require("cloud"), names, "cloud")
        cloud = parts[0]
        for attribute, parent in (
            ("storage", cloud.element),
            ("image", cloud.compute),
            ("instance_type", cloud.compute),
        ):
            if self.chosen.get(attribute) is not None:
                known = [each.require("id") for each in parent.find_all(attribute)]
                wanted = self.chosen.require(attribute)
                _check_name(self.chosen, attribute, wanted, known, attribute)

    def _group_hosts(self, parts: Sequence[_CloudParts]) -> None:
        """Find the hosts of each cloud, and group those of one SimGrid cluster."""
        owners: dict[str, str] = {}
        used: set[str] = set()
        for cloud in parts:
            groups: dict[str, _Group] = {}
            for element in cloud.compute.find_all("cluster", "host"):
                names = (
                    expand_radical(element) if element.tag == "cluster" else [element.require("id")]
                )
                for name in names:
                    _check_name(
                        element,
                        "radical" if element.tag == "cluster" else "id",
                        name,
                        self.simgrid.hosts,
                        "host",
                        f" in {Path(self.simgrid.root.file).name}",
                    )
                    if name in owners:
                        raise element.error(
                            f"host '{name}' belongs to cloud '{owners[name]}' already",
                            kind="duplicate-name",
                            remedy="a host belongs to at most one cloud, and is named once",
                        )
                    owners[name] = cloud.name
                    host = self.simgrid.hosts[name]
                    key = host.cluster or host.name
                    groups.setdefault(key, _Group(key, [])).hosts.append(host)
            if not groups:
                raise cloud.compute.error(
                    "has no hosts", kind="missing-field", remedy="add a <cluster> or a <host>"
                )
            for group in groups.values():
                if group.name in used:  # another cloud has other hosts of this cluster
                    group.name = f"{cloud.name}-{group.name}"
                used.add(group.name)
            cloud.groups = list(groups.values())

    def _group_storages(self, parts: Sequence[_CloudParts]) -> None:
        """Find the storages of each cloud; those on one host are one store."""
        ids = [
            storage.require("id") for each in parts for storage in each.element.find_all("storage")
        ]
        nodes = {host.name for each in parts for group in each.groups for host in group.hosts}
        taken = nodes | {"local"}
        for cloud in parts:
            by_host: dict[str, _CloudStore] = {}
            for storage in cloud.element.find_all("storage"):
                host = _find_controller(storage)
                _check_name(
                    storage,
                    "controller",
                    host,
                    self.simgrid.hosts,
                    "host",
                    f" in {Path(self.simgrid.root.file).name}",
                )
                store = by_host.setdefault(host, _CloudStore("", host, [], []))
                store.ids.append(storage.require("id"))
                store.elements.append(storage)
            for store in by_host.values():
                names = [name for name in store.ids if ids.count(name) == 1]
                store.name = _make_unique([*names, f"{cloud.name}-{store.host}"], taken)
                if [store.name] != store.ids:
                    what = f"storage {', '.join(store.ids)} of cloud {cloud.name} is one store"
                    self.notes.add("assumed", f"{what}, {store.name}", *store.elements)
            chosen = self.chosen.get("storage") if self.chosen and cloud is parts[0] else None
            cloud.stores = sorted(by_host.values(), key=lambda store: chosen not in store.ids)

    # --- conversion ------------------------------------------------------------------------------

    def _convert_commands(self, cloud: _CloudParts) -> dict[str, Any]:
        """Convert the commands of a controller to its hosts; in SCHIaaS they are not answered."""
        what = "commands of a controller are messages of 1 kB to the first host of its cloud"
        self.notes.add("assumed", what, cloud.config)
        first = cloud.groups[0].hosts[0].name
        return {
            "client": cloud.controller,
            "controller": first,
            "size": _COMMAND,
            "reply": None,
        }

    def _convert_group(self, group: _Group, cloud: _CloudParts) -> dict[str, Any]:
        """Convert a group; speeds are relative to the standard power of the cloud."""
        first = group.hosts[0]
        reference = cloud.standard_power
        if reference is None:
            reference = cloud.groups[0].hosts[0].speed
            what = "a cloud without standard_power: the speed of its first host is the reference"
            if group is cloud.groups[0]:
                self.notes.add("assumed", what, cloud.config)
        host: dict[str, Any] = {
            "names": [each.name for each in group.hosts],
            "count": len(group.hosts),
            "cores": first.cores,
            "speed": first.speed / reference,
        }
        if self._read_caching(cloud) != "none":
            host["store"] = {}
        return {"name": group.name, "hosts": [host]}

    def _read_caching(self, cloud: _CloudParts) -> str:
        text = cloud.config.require("image_caching", "write ON, OFF or PRE")
        if text not in _CACHING:
            raise cloud.config.error(
                f"must be ON, OFF or PRE, not '{text}'", "image_caching", kind="not-a-choice"
            )
        return _CACHING[text]

    def _convert_cloud(self, i: int, cloud: _CloudParts) -> dict[str, Any]:
        address: Address = ("clouds", i)
        self.lines[address] = cloud.element.line
        delay = cloud.config.read_number("inter_boot_delay")
        if delay and sum(len(group.hosts) for group in cloud.groups) > 1:
            what = "inter_boot_delay, per host in SCHIaaS, is between the starts of a cloud"
            self.notes.add("assumed", what, cloud.config)
        values: dict[str, Any] = {
            "name": cloud.name,
            "clusters": [group.name for group in cloud.groups],
            "types": self._convert_types(cloud, address),
            "controllers": {"placement": self._convert_scheduler(cloud)},
            "inter_boot_delay": delay,
        }
        if images := self._convert_images(cloud, address):
            values["images"] = images
        if (offer := self.offers.get(cloud.name)) is not None:
            values |= self._convert_offer(offer)
        return values

    def _convert_types(self, cloud: _CloudParts, address: Address) -> list[dict[str, Any]]:
        types: list[dict[str, Any]] = []
        for j, element in enumerate(self._order(cloud, "instance_type")):
            self.lines[*address, "types", j] = element.line
            kind: dict[str, Any] = {"name": element.require("id")}
            kind["cores"] = element.read_number("core", positive=True)
            if element.get("memory") is not None and (memory := element.read_number("memory")):
                kind["memory"] = memory * _MIB
                self.notes.add("assumed", "memory of an instance type is in MiB", element)
            types.append(kind)
        if not types:
            raise cloud.compute.error("has no <instance_type>", kind="missing-field")
        return types

    def _convert_images(self, cloud: _CloudParts, address: Address) -> list[dict[str, Any]]:
        elements = self._order(cloud, "image")
        caching = self._read_caching(cloud)
        if not elements:
            return []
        wanted = cloud.config.require("image_storage", "name the <storage> of the images")
        known = [name for store in cloud.stores for name in store.ids]
        _check_name(cloud.config, "image_storage", wanted, known, "storage")
        store = next(store.name for store in cloud.stores if wanted in store.ids)
        images: list[dict[str, Any]] = []
        for j, element in enumerate(elements):
            self.lines[*address, "images", j] = element.line
            image = {"name": element.require("id"), "size": element.read_number("size")}
            images.append({**image, "store": store, "caching": caching})
        if (offer := self.offers.get(cloud.name)) is not None and offer.get("B0") is not None:
            given = [name for name in ("B0", "B1") if offer.get(name) is not None]
            for name in given:
                offer.read_number(name)
            # In decimal numbers, so that 52.885 + 3.852 is 56.737.
            delay = float(sum(Decimal(offer.require(name)) for name in given))
            for each in images:
                each["boot"] = {"delay": delay}
            what = "a boot takes B0 + B1, the prediction for an instance that boots alone"
            self.notes.add("assumed", what, offer)
        return images

    def _convert_scheduler(self, cloud: _CloudParts) -> dict[str, Any]:
        """Convert the scheduler; as in SCHIaaS, an instance that fits nowhere now is refused."""
        schedulers = cloud.compute.find_all("scheduler")
        if len(schedulers) > 1:
            raise schedulers[1].error("is the second scheduler of the cloud", kind="wrong-count")
        name = "first-fit"
        for element in schedulers:
            kind = (element.get("type") or "").lower()
            is_simple = element.require("name").rpartition(".")[2] == "SimpleScheduler"
            if is_simple and kind in _PLACEMENTS:
                name = _PLACEMENTS[kind]
            elif is_simple:
                raise element.error(
                    f"must be {' or '.join(_PLACEMENTS)}, not '{kind}'", "type", kind="not-a-choice"
                )
            else:
                what = f"scheduler {element.require('name')}; placement is first-fit"
                self.notes.add("ignored", what, element)
        if not schedulers:
            self.notes.add("assumed", "a cloud without a scheduler: first-fit", cloud.compute)
        return {"name": name, "options": {"queue": "refuse"}}

    def _convert_offer(self, offer: XmlElement) -> dict[str, Any]:
        """Convert the limit and the billing unit of a cloud, which the broker knows."""
        values: dict[str, Any] = {}
        if offer.get("max_instances_per_user") is not None:
            limit = offer.read_number("max_instances_per_user")
            if not limit.is_integer():
                problem = "must be a whole number"
                raise offer.error(problem, "max_instances_per_user", kind="wrong-type")
            if limit:  # 0: unlimited
                values["limits"] = {"instances": int(limit)}
        if offer.get("BTU") is not None:
            unit = offer.read_number("BTU", positive=True)
            values["billing"] = {"unit": unit, "price": 1.0}
            self.notes.add("assumed", "the price of a billing unit (BTU) is 1", offer)
        return values

    def _order(self, cloud: _CloudParts, tag: str) -> list[XmlElement]:
        """List parts of a compute, that of the broker first."""
        is_first = self.chosen is not None and self.chosen.get("cloud") == cloud.name
        first = self.chosen.get(tag) if self.chosen is not None and is_first else None
        return sorted(cloud.compute.find_all(tag), key=lambda each: each.require("id") != first)

    def _note_unused(self, parts: Sequence[_CloudParts], used: Collection[str]) -> None:
        hosts = {host.name for each in parts for group in each.groups for host in group.hosts}
        hosts |= {store.host for each in parts for store in each.stores}
        hosts |= {each.config.require("controller") for each in parts if each.controller}
        rest = [host.element for host in self.simgrid.hosts.values() if host.name not in hosts]
        if rest:
            what = "hosts of the platform that no cloud uses, such as controllers and clients"
            self.notes.add("ignored", what, *rest)
        unused = [link.element for link in self.simgrid.links.values() if link.name not in used]
        if unused:
            what = "links that no route between the stores, controllers and hosts of clouds uses"
            self.notes.add("ignored", what, *unused)


# --- the network ----------------------------------------------------------------------------------

#: The ends of a route between two groups, or between a store and a group.
_Pair = frozenset[Any]


@dataclass(eq=False)
class _Star:
    """The stores and groups of a cloud, and the links of the arm of each."""

    cloud: str
    stores: list[_CloudStore]
    groups: list[_Group]
    #: The links of the arms, from a store towards the groups.
    arms: dict[Any, list[SimGridLink]] = field(default_factory=dict)
    #: The same for routes to the stores.
    arms_back: dict[Any, list[SimGridLink]] = field(default_factory=dict)
    #: The switch at the end of each arm: the same for all, unless pairs have links of their own.
    ends: dict[Any, str] = field(default_factory=dict)


class _NetworkConversion:
    """Conversion of the routes between stores and hosts of clouds to links with two ends.

    In SimGrid a route is any list of links. Here a link has two ends, so that each cloud becomes a
    star. A link is in the arm of a store or a group if all routes of this store or group use it,
    and no other route of the cloud does. Links without an arm get a copy for each pair of ends.
    """

    def __init__(
        self, simgrid: SimGridPlatform, notes: ImportNotes, parts: Sequence[_CloudParts]
    ) -> None:
        self.simgrid = simgrid
        self.notes = notes
        self.parts = parts
        self.stars = [_Star(each.name, each.stores, each.groups) for each in parts]
        self.links: list[dict[str, Any]] = []
        self.switches: list[str] = []
        #: The ports of stores, by name.
        self.ports: dict[str, dict[str, float]] = {}
        #: The names of all links that routes use.
        self.used: set[str] = set()
        self._routes: dict[_Pair, list[SimGridLink]] = {}
        self._routes_back: dict[_Pair, list[SimGridLink]] = {}
        self._emitted: dict[str, SimGridLink] = {}
        self._copied: dict[str, SimGridLink] = {}
        self._link_names: set[str] = set()
        self._own_links: dict[_Group, set[SimGridLink]] = {
            group: {link for host in group.hosts for link in simgrid.find_exit(host.name)}
            for group in self._groups()
        }
        self._node_names = {store.name for star in self.stars for store in star.stores}
        for group in self._groups():
            self._node_names |= {group.name, *(host.name for host in group.hosts)}

    def convert(self) -> None:
        """Make `links`, `switches` and `ports`."""
        for star in self.stars:
            for store in star.stores:
                for group in star.groups:
                    self._find_store_routes(store, group)
        groups = self._groups()
        for i, a in enumerate(groups):
            for b in groups[i + 1 :]:
                self._find_group_route(a, b)
        for routes in (self._routes, self._routes_back):
            self.used |= {link.name for route in routes.values() for link in route}
        for star in self.stars:
            star.arms = self._assign_arms(star, self._routes)
            star.arms_back = self._assign_arms(star, self._routes_back)
            self._convert_star(star)
        for i, star in enumerate(self.stars):
            for other in self.stars[i + 1 :]:
                self._connect_clouds(star, other)
        for cloud, star in zip(self.parts, self.stars, strict=True):
            if (host := cloud.config.get("controller")) is not None:
                cloud.controller = self._find_controller_node(cloud, star, host)
        self._note_copies()
        self._note_other_ways()

    def _groups(self) -> list[_Group]:
        return [group for star in self.stars for group in star.groups]

    def _find_store_routes(self, store: _CloudStore, group: _Group) -> None:
        pair = frozenset((store, group))
        others = [host.name for host in group.hosts if host.name != store.host]
        if len(others) < len(group.hosts):
            what = "a store on a host of a cloud has a link of its own to the network"
            self.notes.add("assumed", what, *store.elements)
        node = others[0] if others else store.host
        there = self.simgrid.find_route(store.host, node)
        back = self.simgrid.find_route(node, store.host)
        if there is None:
            raise store.elements[0].error(
                f"{Path(self.simgrid.root.file).name} has no route from its host '{store.host}' "
                f"to '{node}'",
                kind="inconsistent-values",
                remedy="add a <route> or an <ASroute>",
            )
        if back is None:
            what = "routes to a store that are not given are those from the store"
            self.notes.add("assumed", what, store.elements[0])
            back = there[::-1]
        self._routes[pair] = self._strip(there, group)
        self._routes_back[pair] = self._strip(back, group)[::-1]

    def _find_group_route(self, a: _Group, b: _Group) -> None:
        """Find the route between two groups; the way back is taken to have the same links."""
        route = self.simgrid.find_route(a.hosts[0].name, b.hosts[0].name)
        if route is None:
            return
        if set(self.simgrid.find_route(b.hosts[0].name, a.hosts[0].name) or ()) != set(route):
            what = "routes between hosts that differ from the way back, which is not used"
            self.notes.add("ignored", what, b.hosts[0].element)
        pair = frozenset((a, b))
        self._routes[pair] = self._routes_back[pair] = self._strip(route, a, b)

    def _strip(self, route: Sequence[SimGridLink], *groups: _Group) -> list[SimGridLink]:
        """Remove the links that a cluster consists of: those of its hosts, and its backbone."""
        own: set[SimGridLink] = set().union(*(self._own_links[group] for group in groups))
        return [link for link in route if link not in own]

    def _assign_arms(
        self, star: _Star, routes: Mapping[_Pair, list[SimGridLink]]
    ) -> dict[Any, list[SimGridLink]]:
        """Assign links to the arms of the stores and groups of a cloud."""
        own = {*star.stores, *star.groups}
        pairs = [pair for pair in routes if pair & own]
        users: dict[SimGridLink, set[_Pair]] = {}
        for pair in pairs:
            for link in routes[pair]:
                users.setdefault(link, set()).add(pair)
        arms: dict[Any, list[SimGridLink]] = {}
        assigned: set[SimGridLink] = set()
        # If both are possible, as with one store and one group, a link is in the arm of the store.
        for end in (*star.stores, *star.groups):
            mine = [pair for pair in pairs if end in pair]
            first = routes[mine[0]] if mine else []
            arms[end] = [
                link for link in first if link not in assigned and users[link] == set(mine)
            ]
            assigned |= set(arms[end])
        return arms

    def _find_rest(self, star: _Star, other: _Star, a: Any, b: Any) -> list[SimGridLink]:
        """Find the links between two ends that are in neither arm."""
        in_arms = {*star.arms[a], *other.arms[b]}
        return [link for link in self._routes.get(frozenset((a, b)), ()) if link not in in_arms]

    # --- emission --------------------------------------------------------------------------------

    def _convert_star(self, star: _Star) -> None:
        ends: list[Any] = [*star.stores, *star.groups]
        pairs = [
            (a, b)
            for i, a in enumerate(ends)
            for b in ends[i + 1 :]
            if frozenset((a, b)) in self._routes
        ]
        rests = {(a, b): self._find_rest(star, star, a, b) for a, b in pairs}
        if any(rests.values()):
            for end in ends:
                star.ends[end] = self._add_switch(f"{end.name}-switch")
            for (a, b), rest in rests.items():
                self._add_merged(star.ends[a], star.ends[b], rest)
        else:
            hub = self._add_switch(f"{star.cloud}-network")
            star.ends = dict.fromkeys(ends, hub)
        for store in star.stores:
            self._add_store(star, store)
        for group in star.groups:
            self._add_group(star, group)

    def _add_store(self, star: _Star, store: _CloudStore) -> None:
        """Add the arm of a store; links of one direction are its ports and a latency."""
        there, back = star.arms[store], star.arms_back[store]
        out = [link for link in there if link not in back]
        into = [link for link in back if link not in there]
        both = [self._describe(link) for link in there if link in back]
        if out:
            self.ports.setdefault(store.name, {})["out"] = min(link.bandwidth for link in out)
            name = self._make_link_name("+".join(link.name for link in out))
            both.append({"name": name, "latency": sum(link.latency for link in out)})
        if into:
            self.ports.setdefault(store.name, {})["in"] = min(link.bandwidth for link in into)
        self._add_chain(store.name, star.ends[store], both)
        for group in star.groups:
            pair = frozenset((store, group))
            rest = set(self._routes[pair]) - set(out)
            rest_back = set(self._routes_back[pair]) - set(into)
            latency, latency_back = (
                sum(link.latency for link in routes[pair])
                for routes in (self._routes, self._routes_back)
            )
            if rest != rest_back:
                what = "routes to a store that differ from those from it, which are used"
                self.notes.add("ignored", what, store.elements[0])
            elif not math.isclose(latency, latency_back):
                what = "latencies to a store that differ from those from it, which are used"
                self.notes.add("ignored", what, store.elements[0])

    def _add_group(self, star: _Star, group: _Group) -> None:
        chain: list[dict[str, Any]] = []
        route = self.simgrid.find_exit(group.hosts[0].name)
        for link in route:
            values = self._describe(link)
            if link.role == "host" and len(group.hosts) > 1:
                del values["name"]  # each host has such a link
            chain.append(values)
            if link.role == "backbone" and len(group.hosts) > 1:
                what = "transfers between hosts of a cluster do not pass its backbone"
                self.notes.add("assumed", what, link.element)
        chain += [self._describe(link) for link in reversed(star.arms[group])]
        self._add_chain(group.name, star.ends[group], chain)

    def _connect_clouds(self, star: _Star, other: _Star) -> None:
        """Connect two clouds by the links between their first groups."""
        a, b = star.groups[0], other.groups[0]
        if frozenset((a, b)) not in self._routes:
            what = "clouds without a route between them are connected by a link without limit"
            self.notes.add("assumed", what, self.simgrid.root)
        rest = self._find_rest(star, other, a, b)
        self._add_merged(star.ends[a], other.ends[b], rest)

    def _find_controller_node(self, cloud: _CloudParts, star: _Star, host: str) -> str | None:
        """Find the node of a controller; a host of its own is a switch with a link to the cloud."""
        for store in star.stores:
            if store.host == host:
                return store.name
        if any(host == each.name for group in star.groups for each in group.hosts):
            return host
        group = star.groups[0]
        is_known = host in self.simgrid.hosts
        route = self.simgrid.find_route(host, group.hosts[0].name) if is_known else None
        if route is None:
            what = "controllers without a route to the hosts of their cloud: commands take no time"
            self.notes.add("ignored", what, cloud.config)
            return None
        arm = star.arms[group]
        rest = [link for link in self._strip(route, group) if link not in arm]
        self.used |= {link.name for link in route}
        node = self._add_switch(host)
        self._add_merged(node, star.ends[group], rest)
        return node

    def _add_merged(self, a: str, b: str, links: Sequence[SimGridLink]) -> None:
        """Add one link for several in a row: their least bandwidth and the sum of latencies."""
        described = [self._describe(link) for link in links]
        if len(described) < 2:
            self._add_chain(a, b, described)
            return
        merged = {
            "name": self._make_link_name("+".join(link.name for link in links)),
            "bandwidth": min(link.bandwidth for link in links),
            "latency": sum(link.latency for link in links),
            "duplex": "half" if any(link.sharing == "shared" for link in links) else "full",
        }
        self._add_chain(a, b, [merged])

    def _describe(self, link: SimGridLink) -> dict[str, Any]:
        if link.name in self._emitted and link.role == "other":
            self._copied[link.name] = link
        self._emitted[link.name] = link
        if link.sharing == "fatpipe":
            what = "FATPIPE links are shared by transfers, in each direction"
            self.notes.add("assumed", what, link.element)
        return {
            "name": self._make_link_name(link.name),
            "bandwidth": link.bandwidth,
            "latency": link.latency,
            "duplex": "half" if link.sharing == "shared" else "full",
        }

    def _add_chain(self, start: str, end: str, links: Sequence[dict[str, Any]]) -> None:
        """Add links in a row, with a switch between each two; without links, one without limit."""
        at = start
        for i, link in enumerate(links or [{}]):
            is_last = i == max(len(links), 1) - 1
            after = end if is_last else self._add_switch(f"{start}-switch-{i + 1}")
            self.links.append({**link, "between": [at, after]})
            at = after

    def _add_switch(self, name: str) -> str:
        self.switches.append(_make_unique([name], self._node_names))
        return self.switches[-1]

    def _make_link_name(self, name: str) -> str:
        return _make_unique([name], self._link_names)

    def _note_copies(self) -> None:
        if self._copied:
            what = "links that routes share, of which each of these routes has one of its own"
            self.notes.add("assumed", what, *(link.element for link in self._copied.values()))

    def _note_other_ways(self) -> None:
        """Note the routes that have another latency than in SimGrid: here the shortest way counts.

        In a star there is one way. Links for pairs, and between clouds, may be a shorter one.
        """
        neighbours: dict[str, list[tuple[str, float]]] = {}
        for link in self.links:
            a, b = link["between"]
            neighbours.setdefault(a, []).append((b, link.get("latency", 0.0)))
            neighbours.setdefault(b, []).append((a, link.get("latency", 0.0)))
        found: dict[str, dict[str, float]] = {}
        for pair, route in self._routes.items():
            ends = sorted(pair, key=lambda end: isinstance(end, _Group))
            exits = [
                self.simgrid.find_exit(end.hosts[0].name) for end in ends if isinstance(end, _Group)
            ]
            expected = sum(link.latency for links in (route, *exits) for link in links)
            first, second = (end.name for end in ends)
            if first not in found:
                found[first] = _find_latencies(first, neighbours)
            if not math.isclose(found[first][second], expected, abs_tol=1e-12):
                what = "routes with another latency than in SimGrid, because another way is shorter"
                self.notes.add("noticed", what, ends[1].hosts[0].element)


def _find_latencies(
    start: str, neighbours: Mapping[str, Sequence[tuple[str, float]]]
) -> dict[str, float]:
    """Find the least latency from one node to each other one."""
    found: dict[str, float] = {}
    queue = [(0.0, start)]
    while queue:
        latency, node = heapq.heappop(queue)
        if node in found:
            continue
        found[node] = latency
        for other, more in neighbours.get(node, ()):
            heapq.heappush(queue, (latency + more, other))
    return found


def _find_controller(storage: XmlElement) -> str:
    configs = storage.find_all("config")
    if len(configs) != 1:
        problem = f"needs one <config controller=...>, but has {len(configs)}"
        raise storage.error(problem, kind="wrong-count")
    return configs[0].require("controller", "name the host of the storage")


def _check_name(
    element: XmlElement,
    attribute: str,
    name: str,
    known: Collection[str],
    what: str,
    where: str = "",
) -> None:
    if name not in known:
        raise element.error(
            f"unknown {what} '{name}'{where}",
            attribute,
            kind="unknown-reference",
            remedy=suggest_name(name, list(known)[:1000]),
        )


def _make_unique(names: Sequence[str], taken: set[str]) -> str:
    """Return the first name that is not taken, or the last one with a number; it is then taken."""
    name = next((each for each in names if each not in taken), "")
    number = 2
    while not name or name in taken:
        name = f"{names[-1]}-{number}"
        number += 1
    taken.add(name)
    return name
