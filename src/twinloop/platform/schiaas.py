"""Reader of the clouds of SCHIaaS (`cloud.xml`) with their SimGrid platform.

Meanings that the file itself does not define are those of the source of SCHIaaS (engines Rice and
Rise, SimpleScheduler; github.com/bluke/schiaas). The notes of the platform count all assumptions,
and what a platform cannot represent.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from twinloop.description.address import address_from_path, suggest_name
from twinloop.description.document import Address
from twinloop.description.files import is_file, read_first_bytes
from twinloop.description.problems import DescriptionError
from twinloop.platform.billing import MIN_UNIT
from twinloop.platform.platform import Platform
from twinloop.platform.schiaas_network import NetworkConversion
from twinloop.platform.schiaas_parts import CloudParts, CloudStore, HostGroup, make_unique
from twinloop.platform.simgrid_platform import (
    ImportNotes,
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
        self.offers = broker.find_by_id("cloud") if broker else {}
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
        network = NetworkConversion(self.simgrid, self.notes, parts)
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

    def _read_clouds(self) -> list[CloudParts]:
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
            parts.append(CloudParts(element, name, computes[0], configs[0], power))
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

    def _check_references(self, parts: Sequence[CloudParts]) -> None:
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

    def _group_hosts(self, parts: Sequence[CloudParts]) -> None:
        """Find the hosts of each cloud, and group those of one SimGrid cluster."""
        owners: dict[str, str] = {}
        used: set[str] = set()
        for cloud in parts:
            groups: dict[str, HostGroup] = {}
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
                    groups.setdefault(key, HostGroup(key, [])).hosts.append(host)
            if not groups:
                raise cloud.compute.error(
                    "has no hosts", kind="missing-field", remedy="add a <cluster> or a <host>"
                )
            for group in groups.values():
                if group.name in used:  # another cloud has other hosts of this cluster
                    group.name = f"{cloud.name}-{group.name}"
                used.add(group.name)
            cloud.groups = list(groups.values())

    def _group_storages(self, parts: Sequence[CloudParts]) -> None:
        """Find the storages of each cloud; those on one host are one store."""
        ids = [
            storage.require("id") for each in parts for storage in each.element.find_all("storage")
        ]
        nodes = {host.name for each in parts for group in each.groups for host in group.hosts}
        taken = nodes | {"local"}
        for cloud in parts:
            by_host: dict[str, CloudStore] = {}
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
                store = by_host.setdefault(host, CloudStore("", host, [], []))
                store.ids.append(storage.require("id"))
                store.elements.append(storage)
            for store in by_host.values():
                names = [name for name in store.ids if ids.count(name) == 1]
                store.name = make_unique([*names, f"{cloud.name}-{store.host}"], taken)
                if [store.name] != store.ids:
                    what = f"storage {', '.join(store.ids)} of cloud {cloud.name} is one store"
                    self.notes.add("assumed", f"{what}, {store.name}", *store.elements)
            chosen = self.chosen.get("storage") if self.chosen and cloud is parts[0] else None
            cloud.stores = sorted(by_host.values(), key=lambda store: chosen not in store.ids)

    # --- conversion ------------------------------------------------------------------------------

    def _convert_commands(self, cloud: CloudParts) -> dict[str, Any]:
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

    def _convert_group(self, group: HostGroup, cloud: CloudParts) -> dict[str, Any]:
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

    def _read_caching(self, cloud: CloudParts) -> str:
        text = cloud.config.require("image_caching", "write ON, OFF or PRE")
        if text not in _CACHING:
            raise cloud.config.error(
                f"must be ON, OFF or PRE, not '{text}'", "image_caching", kind="not-a-choice"
            )
        return _CACHING[text]

    def _convert_cloud(self, i: int, cloud: CloudParts) -> dict[str, Any]:
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

    def _convert_types(self, cloud: CloudParts, address: Address) -> list[dict[str, Any]]:
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

    def _convert_images(self, cloud: CloudParts, address: Address) -> list[dict[str, Any]]:
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
        offer = self.offers.get(cloud.name)
        if offer is not None and offer.get("B0") is not None:
            fields = {"delay": "B0", "per_booting": "B1"}
            given = {key: name for key, name in fields.items() if offer.get(name) is not None}
            boot = {key: offer.read_number(name) for key, name in given.items()}
            for each in images:
                each["boot"] = boot
            what = "a boot takes B0, and B1 for each instance that boots, as the broker predicts"
            self.notes.add("assumed", what, offer)
        return images

    def _convert_scheduler(self, cloud: CloudParts) -> dict[str, Any]:
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
            unit = offer.read_number("BTU", least=MIN_UNIT)
            values["billing"] = {"unit": unit, "price": 1.0}
            self.notes.add("assumed", "the price of a billing unit (BTU) is 1", offer)
        return values

    def _order(self, cloud: CloudParts, tag: str) -> list[XmlElement]:
        """List parts of a compute, that of the broker first."""
        is_first = self.chosen is not None and self.chosen.get("cloud") == cloud.name
        first = self.chosen.get(tag) if self.chosen is not None and is_first else None
        return sorted(cloud.compute.find_all(tag), key=lambda each: each.require("id") != first)

    def _note_unused(self, parts: Sequence[CloudParts], used: Collection[str]) -> None:
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
