"""Reader of SimGrid's platform files (XML, versions 3 and 4): hosts, clusters, links and routes.

Units are those of SimGrid: `f` for flop/s, `Bps` and `bps` for bytes and bits per second, `s` for
times, with decimal and binary prefixes. A number without a unit is in flop/s, bytes/s or s.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal
from xml.parsers import expat

from twinloop.description.address import suggest_name
from twinloop.description.cleaning import EXAMPLES, Cleaning, CleaningKind
from twinloop.description.document import MAX_DEPTH, MAX_JSON_BYTES, make_depth_error
from twinloop.description.errors import FormatError, InputError
from twinloop.description.files import read_text
from twinloop.description.quantities import quote_value

#: The largest number of hosts of a cluster, as in a platform.
_MAX_HOSTS: Final = 1_000_000


# --- XML ------------------------------------------------------------------------------------------


@dataclass(eq=False)
class XmlElement:
    """An element of an XML file, with its file and line."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[XmlElement] = field(default_factory=list)

    def get(self, name: str) -> str | None:
        """Return an attribute; None if it is missing or empty, which is the same in SimGrid."""
        return self.attributes.get(name, "").strip() or None

    def require(self, name: str, remedy: str | None = None) -> str:
        """Return an attribute that must be given."""
        value = self.get(name)
        if value is None:
            raise self.error("is missing", name, kind="missing-field", remedy=remedy)
        return value

    def find_all(self, *tags: str) -> list[XmlElement]:
        """Return the children with these tags."""
        return [child for child in self.children if child.tag in tags]

    def find_by_id(self, tag: str) -> dict[str, XmlElement]:
        """Return the children with this tag by their attribute `id`, which differs."""
        found: dict[str, XmlElement] = {}
        for element in self.find_all(tag):
            name = element.require("id")
            if name in found:
                raise element.error(
                    f"'{name}' is also the <{tag}> in line {found[name].line}",
                    "id",
                    kind="duplicate-name",
                    remedy="give each its own id",
                )
            found[name] = element
        return found

    def read_number(self, name: str, *, positive: bool = False, least: float = 0.0) -> float:
        """Return an attribute that is a number without a unit, and not below the least one."""
        text = self.require(name)
        try:
            number = float(text)
        except ValueError:
            problem = f"must be a number, not {quote_value(text)}"
            raise self.error(problem, name, kind="wrong-type") from None
        if not math.isfinite(number) or number < least or (positive and number == 0):
            bound = "positive" if positive else f"{least:g} or more"
            raise self.error(f"must be {bound}, not {text}", name, kind="out-of-range")
        return number

    def error(
        self, problem: str, name: str | None = None, *, kind: str, remedy: str | None = None
    ) -> InputError:
        """Make an error about this element, or about one of its attributes."""
        place = f"<{self.tag}>" if name is None else f"<{self.tag}> {name}"
        return InputError(
            problem, kind=kind, file=self.file, line=self.line, field=place, remedy=remedy
        )


class _TreeBuilder:
    """Builder of the elements of a file from the events of the parser."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: XmlElement | None = None
        self.open: list[XmlElement] = []
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.EntityDeclHandler = self._refuse_entity

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        element = XmlElement(tag, attributes, self.file, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        if len(self.open) > MAX_DEPTH:
            raise make_depth_error(self.file)

    def _end(self, tag: str) -> None:
        self.open.pop()

    def _refuse_entity(self, name: str, *details: object) -> None:
        raise _make_entity_error(name, self.file, self.parser.CurrentLineNumber)


def _make_entity_error(name: str, file: str, line: int) -> InputError:
    return FormatError(
        f"entity '{name}' is refused: a platform needs none, and entities can expand without bound",
        kind="wrong-format",
        file=file,
        line=line,
        remedy="write its text in its place",
    )


_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_ENTITY: Final = re.compile(r"&(?!(?:amp|lt|gt|quot|apos);|#)([^;\s<&]{0,60})")


def parse_xml(path: str | Path) -> XmlElement:
    """Parse an XML file; entities are refused, and the DTD that it names is not read."""
    path = Path(path)
    text = read_text(path, limit=MAX_JSON_BYTES)
    # The parser would leave out entities of a DTD that it does not read.
    bare = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    if (entity := _ENTITY.search(bare)) is not None:
        raise _make_entity_error(entity[1], str(path), bare.count("\n", 0, entity.start()) + 1)
    builder = _TreeBuilder(str(path))
    try:
        builder.parser.Parse(text, True)
    except expat.ExpatError as error:
        raise FormatError(
            f"is not XML: {expat.ErrorString(error.code)}",
            kind="wrong-format",
            file=path,
            line=error.lineno,
        ) from None
    assert builder.root is not None
    return builder.root


class ImportNotes:
    """Notes on an import: the places of each assumption and omission, in the order of the first."""

    def __init__(self) -> None:
        self._places: dict[tuple[CleaningKind, str], list[str]] = {}

    def add(self, kind: CleaningKind, what: str, *elements: XmlElement) -> None:
        """Add a note at these elements."""
        places = [f"{Path(element.file).name}:{element.line}" for element in elements]
        self._places.setdefault((kind, what), []).extend(places)

    def add_unhandled(self, root: XmlElement, handled: Mapping[str, Collection[str]]) -> None:
        """Note the elements and attributes that are not among the handled ones, as `ignored`.

        Args:
            root: The root of a file.
            handled: The attributes by tag, or by the tag of the parent and the tag: `a/b`.
        """
        pending = [(root, "")]
        while pending:
            element, parent = pending.pop()
            known = handled.get(f"{parent}/{element.tag}", handled.get(element.tag))
            if known is None:
                self.add("ignored", f"element <{element.tag}>", element)
                continue
            for name in element.attributes:
                if name not in known and element.get(name) is not None:
                    self.add("ignored", f"attribute '{name}' of <{element.tag}>", element)
            pending += [(child, element.tag) for child in reversed(element.children)]

    def to_cleanings(self) -> list[Cleaning]:
        """Return the notes with their counts and first places."""
        return [
            Cleaning(kind=kind, what=what, count=len(places), examples=tuple(places[:EXAMPLES]))
            for (kind, what), places in self._places.items()
        ]


# --- quantities -----------------------------------------------------------------------------------

_DECIMAL: Final = {"": 1.0} | {p: 1000.0**n for n, p in enumerate("kMGTPEZY", start=1)}
_BINARY: Final = {f"{p}i": 1024.0**n for n, p in enumerate("KMGTPEZY", start=1)}
_LONG: Final = {
    prefix: 1000.0**n
    for n, prefix in enumerate(["", "kilo", "mega", "giga", "tera", "peta", "exa", "zeta", "yotta"])
}
_SPEEDS: Final = {f"{p}f": v for p, v in _DECIMAL.items()} | {
    f"{p}flops": v for p, v in _LONG.items()
}
_BANDWIDTHS: Final = {
    f"{prefix}{unit}": value / parts
    for prefix, value in (_DECIMAL | _BINARY).items()
    for unit, parts in (("bps", 8), ("Bps", 1))
}
# Powers of ten as divisors: 25 / 1e3 is the nearest number to 0.025, 25 * 1e-3 may not be.
_TIMES: Final = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_TIME_PARTS: Final = {"ms": 1e3, "us": 1e6, "ns": 1e9, "ps": 1e12}
_QUANTITY: Final = re.compile(
    r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)"
)


def parse_quantity(text: str, kind: Literal["speed", "bandwidth", "time"]) -> float:
    """Convert a quantity of SimGrid to flop/s, bytes/s or s; `ValueError` with the problem.

    >>> parse_quantity("2.5Gf", "speed"), parse_quantity("1Gbps", "bandwidth")
    (2500000000.0, 125000000.0)
    >>> parse_quantity("36MBps", "bandwidth"), parse_quantity("270us", "time")
    (36000000.0, 0.00027)
    """
    units = {"speed": _SPEEDS, "bandwidth": _BANDWIDTHS, "time": _TIMES}[kind]
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"must be a {kind}, not {quote_value(text)}")
    number, unit = float(match[1]), match[2]
    if kind == "time" and unit in _TIME_PARTS:
        value = number / _TIME_PARTS[unit]
    elif unit in units:
        value = number * units[unit]
    elif not unit:
        value = number
    else:
        known = [*units, *(_TIME_PARTS if kind == "time" else ())]
        alike = [each for each in known if each.casefold() == unit.casefold()]
        hint = f"; did you mean {' or '.join(alike)}?" if alike else ""
        raise ValueError(f"'{unit}' is not a unit of SimGrid for a {kind}{hint}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"must be a {kind} of 0 or more, not {quote_value(text)}")
    return value


# --- the platform ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class SimGridLink:
    """A link: its bandwidth (bytes/s), its latency (s) and how transfers share it."""

    name: str
    bandwidth: float
    latency: float
    #: shared: both directions together; duplex: each direction; fatpipe: each transfer.
    sharing: Literal["shared", "duplex", "fatpipe"]
    #: The link of one host of a cluster, the backbone of a cluster, or any other link.
    role: Literal["host", "backbone", "other"]
    element: XmlElement = field(compare=False, repr=False)


@dataclass(frozen=True)
class SimGridHost:
    """A host: the speed of a core (flop/s), its cores, and its cluster, if any."""

    name: str
    speed: float
    cores: int
    cluster: str | None
    element: XmlElement = field(compare=False, repr=False)


@dataclass
class _Route:
    links: tuple[SimGridLink, ...]
    start: str
    end: str


@dataclass(eq=False)
class _Zone:
    """A zone (AS): the routes between what it contains, or the links of a cluster."""

    name: str
    parent: _Zone | None
    routing: str
    element: XmlElement
    routes: dict[tuple[str, str], _Route] = field(default_factory=dict)
    router: str | None = None
    backbone: SimGridLink | None = None
    host_links: dict[str, SimGridLink] = field(default_factory=dict)

    def chain(self) -> list[_Zone]:
        """Return this zone and those around it, outermost first."""
        return [*(self.parent.chain() if self.parent else []), self]


_ZONE_TAGS: Final = ("AS", "zone")
_SEARCHED: Final = ("Floyd", "Dijkstra", "DijkstraCache")
_SHARING: Final[dict[str, Literal["shared", "duplex", "fatpipe"]]] = {
    "SHARED": "shared",
    "FULLDUPLEX": "duplex",
    "SPLITDUPLEX": "duplex",
    "FATPIPE": "fatpipe",
}
_ROUTE_ATTRIBUTES: Final = ("src", "dst", "gw_src", "gw_dst", "symmetrical")
_CLUSTER_ATTRIBUTES: Final = (
    *("id", "prefix", "suffix", "radical", "speed", "power", "core", "pstate", "topology"),
    *("bw", "lat", "bb_bw", "bb_lat", "sharing_policy", "bb_sharing_policy", "router_id"),
)
_HANDLED: Final[dict[str, Collection[str]]] = {
    "platform": ("version",),
    "AS": ("id", "routing"),
    "zone": ("id", "routing"),
    "cluster": _CLUSTER_ATTRIBUTES,
    "host": ("id", "speed", "power", "core", "pstate"),
    "router": ("id",),
    "link": ("id", "bandwidth", "latency", "sharing_policy"),
    "route": _ROUTE_ATTRIBUTES,
    "ASroute": _ROUTE_ATTRIBUTES,
    "zoneRoute": _ROUTE_ATTRIBUTES,
    "link_ctn": ("id", "direction"),
}


class SimGridPlatform:
    """The hosts, links and routes of a SimGrid platform file.

    Routes are found as in SimGrid: in the smallest zone around both ends, between the parts of this
    zone that contain them, and from the gateways of this route to the ends in the same way.

    Args:
        root: The root of the file.
        notes: Gets the assumptions, and what is not read.
    """

    def __init__(self, root: XmlElement, notes: ImportNotes) -> None:
        self.root = root
        self.hosts: dict[str, SimGridHost] = {}
        self.links: dict[str, SimGridLink] = {}
        self._notes = notes
        self._zones: dict[str, _Zone] = {}
        #: The zone of each host and router.
        self._places: dict[str, _Zone] = {}
        self._check_root()
        notes.add_unhandled(root, _HANDLED)
        for element in root.find_all(*_ZONE_TAGS, "cluster"):
            self._read_zone(element, None)
        for zone in list(self._zones.values()):
            for element in zone.element.find_all("route", "ASroute", "zoneRoute"):
                self._read_route(element, zone)

    def _check_root(self) -> None:
        root = self.root
        if root.tag != "platform":
            raise root.error(
                "is not a SimGrid platform, whose root is <platform>", kind="wrong-format"
            )
        version = root.require("version")
        if version.split(".")[0] not in ("3", "4"):
            raise root.error(
                f"version {version} of the format is not supported, only 3 and 4",
                "version",
                kind="unsupported-version",
                remedy="convert the file with simgrid_update_xml, which comes with SimGrid",
            )

    # --- reading ---------------------------------------------------------------------------------

    def _read_zone(self, element: XmlElement, parent: _Zone | None) -> None:
        name = element.require("id")
        if name in self._zones:
            raise element.error(f"another zone is called '{name}'", "id", kind="duplicate-name")
        is_cluster = element.tag == "cluster"
        routing = "Cluster" if is_cluster else element.get("routing") or "Full"
        zone = self._zones[name] = _Zone(name, parent, routing, element)
        if is_cluster:
            self._read_cluster(element, zone)
            return
        for child in element.children:
            if child.tag in (*_ZONE_TAGS, "cluster"):
                self._read_zone(child, zone)
            elif child.tag == "host":
                self._add_host(child, child.require("id"), zone, cluster=None)
            elif child.tag == "router":
                self._add_place(child, child.require("id"), zone)
            elif child.tag == "link":
                self._add_link(child)

    def _add_place(self, element: XmlElement, name: str, zone: _Zone) -> None:
        if name in self._places:
            raise element.error(
                f"another host or router is called '{name}'", "id", kind="duplicate-name"
            )
        self._places[name] = zone

    def _add_host(
        self, element: XmlElement, name: str, zone: _Zone, *, cluster: str | None
    ) -> None:
        self._add_place(element, name, zone)
        cores = element.read_number("core", positive=True) if element.get("core") else 1.0
        if not cores.is_integer():
            raise element.error("must be a whole number", "core", kind="wrong-type")
        speed = self._read_speed(element)
        self.hosts[name] = SimGridHost(name, speed, int(cores), cluster, element)

    def _read_speed(self, element: XmlElement) -> float:
        """Read the speed of a core in the initial performance state (`pstate`)."""
        attribute = "speed" if element.get("speed") else "power"
        if element.get(attribute) is None:
            raise element.error("is missing", "speed", kind="missing-field")
        speeds = element.require(attribute).split(",")
        state = int(element.read_number("pstate")) if element.get("pstate") else 0
        if state >= len(speeds):
            problem = f"is {state}, but there are {len(speeds)} speeds"
            raise element.error(problem, "pstate", kind="out-of-range")
        if len(speeds) > 1:
            self._notes.add("ignored", "speeds of other performance states (pstate)", element)
        return self._read_quantity(element, attribute, "speed", speeds[state])

    def _read_quantity(
        self,
        element: XmlElement,
        name: str,
        kind: Literal["speed", "bandwidth", "time"],
        text: str | None = None,
    ) -> float:
        text = element.require(name) if text is None else text
        try:
            value = parse_quantity(text, kind)
        except ValueError as error:
            raise element.error(str(error), name, kind="invalid-quantity") from None
        if value == 0 and kind != "time":
            raise element.error("must be positive, not 0", name, kind="out-of-range")
        if value and not text.strip()[-1:].isalpha():
            unit = {"speed": "flop/s", "bandwidth": "bytes/s", "time": "s"}[kind]
            what = f"a {kind} without a unit is in {unit}, as SimGrid reads it"
            self._notes.add("assumed", what, element)
        return value

    def _read_sharing(
        self, element: XmlElement, name: str, default: str
    ) -> Literal["shared", "duplex", "fatpipe"]:
        text = element.get(name) or default
        if text not in _SHARING:
            raise element.error(
                f"must be one of {', '.join(_SHARING)}, not {quote_value(text)}",
                name,
                kind="not-a-choice",
            )
        return _SHARING[text]

    def _add_link(self, element: XmlElement) -> None:
        name = element.require("id")
        if name in self.links:
            raise element.error(f"another link is called '{name}'", "id", kind="duplicate-name")
        bandwidth = self._read_quantity(element, "bandwidth", "bandwidth")
        latency = self._read_quantity(element, "latency", "time") if element.get("latency") else 0.0
        sharing = self._read_sharing(element, "sharing_policy", "SHARED")
        self.links[name] = SimGridLink(name, bandwidth, latency, sharing, "other", element)

    def _read_cluster(self, element: XmlElement, zone: _Zone) -> None:
        topology = element.get("topology") or "FLAT"
        if topology != "FLAT":
            raise element.error(
                f"topology {topology} is not supported, only FLAT", "topology", kind="not-a-choice"
            )
        prefix, suffix = (element.attributes.get(key, "") for key in ("prefix", "suffix"))
        bandwidth = self._read_quantity(element, "bw", "bandwidth")
        latency = self._read_quantity(element, "lat", "time")
        sharing = self._read_sharing(element, "sharing_policy", "SPLITDUPLEX")
        if element.get("bb_bw") is not None:
            zone.backbone = SimGridLink(
                f"{zone.name}_backbone",
                self._read_quantity(element, "bb_bw", "bandwidth"),
                self._read_quantity(element, "bb_lat", "time") if element.get("bb_lat") else 0.0,
                self._read_sharing(element, "bb_sharing_policy", "SHARED"),
                "backbone",
                element,
            )
        for name in expand_radical(element):
            self._add_host(element, name, zone, cluster=zone.name)
            zone.host_links[name] = SimGridLink(
                f"{zone.name}_link_{name}", bandwidth, latency, sharing, "host", element
            )
        zone.router = element.get("router_id") or f"{prefix}{zone.name}_router{suffix}"
        self._add_place(element, zone.router, zone)

    def _read_route(self, element: XmlElement, zone: _Zone) -> None:
        source, target = element.require("src"), element.require("dst")
        is_between_zones = element.tag != "route"
        start = element.require("gw_src") if is_between_zones else source
        end = element.require("gw_dst") if is_between_zones else target
        for name, attribute in ((start, "gw_src"), (end, "gw_dst")):
            if name not in self._places:
                raise element.error(
                    f"unknown host or router '{name}'",
                    attribute if is_between_zones else attribute.removeprefix("gw_"),
                    kind="unknown-reference",
                    remedy=suggest_name(name, list(self._places)),
                )
        links = tuple(self._find_link(each) for each in element.find_all("link_ctn"))
        zone.routes[source, target] = _Route(links, start, end)
        if (element.get("symmetrical") or "YES").upper() in ("YES", "TRUE", "1"):
            zone.routes.setdefault((target, source), _Route(links[::-1], end, start))

    def _find_link(self, element: XmlElement) -> SimGridLink:
        name = element.require("id")
        for known in (name, name.removesuffix("_UP").removesuffix("_DOWN")):
            if known in self.links:
                return self.links[known]
        raise element.error(
            f"unknown link '{name}'",
            "id",
            kind="unknown-reference",
            remedy=suggest_name(name, list(self.links)),
        )

    # --- routes ----------------------------------------------------------------------------------

    def find_route(self, source: str, target: str) -> tuple[SimGridLink, ...] | None:
        """Return the links from one host or router to another; None if there is no route."""
        return self._find_route(source, target, 0)

    def find_exit(self, host: str) -> tuple[SimGridLink, ...]:
        """Return the links from a host out of its cluster; none if it is in no cluster."""
        zone = self._places[host]
        if zone.routing != "Cluster" or zone.router is None:
            return ()
        return tuple(_route_in_cluster(zone, host, zone.router))

    def _find_route(self, source: str, target: str, depth: int) -> tuple[SimGridLink, ...] | None:
        if source == target:
            return ()
        if depth > MAX_DEPTH:  # gateways that lead to each other
            return None
        chains = self._places[source].chain(), self._places[target].chain()
        shared = sum(1 for a, b in zip(*chains, strict=False) if a is b)
        if not shared:
            return None
        zone = chains[0][shared - 1]
        if zone.routing == "Cluster":
            return tuple(_route_in_cluster(zone, source, target))
        first, last = (
            chain[shared].name if len(chain) > shared else end
            for chain, end in zip(chains, (source, target), strict=True)
        )
        hops = _find_hops(zone, first, last)
        if hops is None:
            return None
        links: tuple[SimGridLink, ...] = ()
        at = source
        for hop in hops:
            before = self._find_route(at, hop.start, depth + 1)
            if before is None:
                return None
            links += before + hop.links
            at = hop.end
        after = self._find_route(at, target, depth + 1)
        return None if after is None else links + after


def _find_hops(zone: _Zone, first: str, last: str) -> list[_Route] | None:
    """Find the routes of a zone from one of its parts to another; None if there is no way."""
    if zone.routing not in ("Full", "None", *_SEARCHED):
        raise zone.element.error(
            f"routing '{zone.routing}' is not supported, only Full, Floyd and Dijkstra",
            "routing",
            kind="not-a-choice",
            remedy="write the routes with routing Full",
        )
    if zone.routing not in _SEARCHED:
        direct = zone.routes.get((first, last))
        return None if direct is None else [direct]
    queue: list[tuple[int, int, str, list[_Route]]] = [(0, 0, first, [])]
    seen: set[str] = set()
    number = 0
    while queue:
        cost, _, at, hops = heapq.heappop(queue)
        if at == last:
            return hops
        if at in seen:
            continue
        seen.add(at)
        for (start, end), route in zone.routes.items():
            if start == at and end not in seen:
                number += 1
                heapq.heappush(queue, (cost + len(route.links), number, end, [*hops, route]))
    return None


def _route_in_cluster(zone: _Zone, source: str, target: str) -> Iterator[SimGridLink]:
    if source in zone.host_links:
        yield zone.host_links[source]
    if zone.backbone is not None:
        yield zone.backbone
    if target in zone.host_links:
        yield zone.host_links[target]


def expand_radical(element: XmlElement) -> list[str]:
    """List the hosts of a <cluster>: prefix, each number of its radical, suffix.

    The radical is a list of numbers and ranges, `1-4,7`. As in SimGrid, leading zeros of a number
    are not part of the name: `01-14` are 1 to 14.
    """
    prefix, suffix = (element.attributes.get(key, "") for key in ("prefix", "suffix"))
    numbers: list[int] = []
    for part in element.require("radical").split(","):
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{1,9})\s*)?", part)
        if match is None:
            raise element.error(
                f"must be numbers and ranges such as 1-4,7, not {quote_value(part)}",
                "radical",
                kind="invalid-value",
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise element.error(
                f"range {part.strip()} ends before it begins", "radical", kind="wrong-order"
            )
        if len(numbers) + last - first + 1 > _MAX_HOSTS:
            raise element.error(f"more than {_MAX_HOSTS:,} hosts", "radical", kind="too-large")
        numbers += range(first, last + 1)
    return [f"{prefix}{number}{suffix}" for number in numbers]
