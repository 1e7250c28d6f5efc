"""Networks and data stores of a platform: ports, links, routes, stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import Field, model_validator

from twinloop.description.address import suggest_name
from twinloop.description.description import Description
from twinloop.description.document import Address
from twinloop.description.problems import ProblemCollector, find_unknown_names
from twinloop.description.quantities import Bandwidth, Bytes, Count, Label, Name, Seconds

if TYPE_CHECKING:
    from twinloop.platform.platform import Platform


class Ports(Description):
    """The ports of a node: what it can receive (`in`) and send (`out`) at once, full-duplex.

    One bandwidth stands for both directions.

    >>> ports = Ports.from_dict({"in": "1 Gb/s", "out": "100 MB/s"})
    >>> ports.receive, ports.send
    (125000000.0, 100000000.0)
    """

    # `in` is a keyword, so that the field cannot be written as an ordinary one.
    __annotations__["in"] = "Bandwidth | None"
    vars()["in"] = Field(
        None, description="bandwidth of all incoming transfers; default: unlimited"
    )
    out: Bandwidth | None = Field(
        None, description="bandwidth of all outgoing transfers; default: unlimited"
    )

    @classmethod
    def _long_form(cls, data: Any) -> Any:
        return {"in": data, "out": data} if isinstance(data, str | int | float) else data

    @property
    def receive(self) -> float | None:
        """The bandwidth of incoming transfers (bytes/s); None: unlimited."""
        value: float | None = getattr(self, "in")
        return value

    @property
    def send(self) -> float | None:
        """The bandwidth of outgoing transfers (bytes/s); None: unlimited."""
        return self.out


#: The store of a file that is written to the local store of the machine of its task.
LOCAL: Final = "local"


class MemoryCache(Description):
    """The page cache of a store: files that were read or written last are read from memory.

    >>> MemoryCache(size="8 GB", read="10 GB/s").size
    8000000000.0
    """

    size: Bytes | None = Field(
        None, description="memory for whole files, the last used ones (bytes); default: unlimited"
    )
    read: Bandwidth | None = Field(
        None, description="bandwidth of all reads from memory; default: unlimited"
    )


class LocalStore(Description):
    """The data store of a host: its capacity, its bandwidths, and its bound on transfers.

    >>> LocalStore(capacity="5 TB", read="2 Gb/s").read
    250000000.0
    """

    capacity: Bytes | None = Field(None, description="capacity (bytes); default: unlimited")
    read: Bandwidth | None = Field(None, description="bandwidth of all reads; default: unlimited")
    write: Bandwidth | None = Field(None, description="bandwidth of all writes; default: unlimited")
    streams: Count | None = Field(
        None, description="maximum number of transfers at once, the others wait; default: unlimited"
    )
    page_cache: MemoryCache | None = Field(
        None, description="memory from which files are read again; default: none"
    )


class SharedStore(LocalStore):
    """A data store of a platform, at a node of its own.

    >>> SharedStore(name="scratch", capacity="10 TB", ports="1 Gb/s").ports.send
    125000000.0
    """

    name: Name = Field(description="name of the store")
    ports: Ports | None = Field(None, description="ports of its node; default: unlimited")
    cluster: Name | None = Field(
        None,
        description="the cluster that it belongs to, for policies that place tasks near their "
        "data; by default none",
    )


class NetworkLink(Description):
    """A link between two nodes.

    >>> NetworkLink(between=["rack", "core"], bandwidth="10 Gb/s").bandwidth
    1250000000.0
    """

    name: Label = Field("", description="name of the link, for routes; by default A-B")
    between: tuple[Name, Name] = Field(
        description="its ends: nodes, stores or switches; at an end that is a cluster or a group "
        "of hosts, each of its nodes has such a link of its own"
    )
    bandwidth: Bandwidth | None = Field(None, description="bandwidth; default: unlimited")
    latency: Seconds = Field(0.0, description="latency (s)")
    duplex: Literal["full", "half"] = Field(
        "full", description="full: the bandwidth in each direction; half: for both together"
    )


class NetworkRoute(Description):
    """A declared route between two nodes, in both directions.

    >>> NetworkRoute(between=["a", "b"], links=["a-core", "core-b"]).links
    ('a-core', 'core-b')
    """

    between: tuple[Name, Name] = Field(description="its ends: nodes or stores")
    links: tuple[Name, ...] = Field((), description="the links from the first end to the second")
    latency: Seconds | None = Field(
        None, description="latency (s); default: that of the network and of its links"
    )


class NetworkDescription(Description):
    """The network of a platform. Without links, all nodes are connected to one switch: a star.

    >>> NetworkDescription(latency="5ms").latency
    0.005
    """

    latency: Seconds = Field(
        0.0, description="latency of every route (s), in addition to that of its links"
    )
    switches: tuple[Name, ...] = Field((), description="names of nodes that only connect links")
    links: tuple[NetworkLink, ...] = Field((), description="links; default: none, a star")
    routes: tuple[NetworkRoute, ...] = Field(
        (), description="routes that differ from the shortest path"
    )

    @model_validator(mode="after")
    def _check_ends(self) -> NetworkDescription:
        findings = ProblemCollector()
        ends = {"links": [link.between for link in self.links]}
        ends["routes"] = [route.between for route in self.routes]
        for field, pairs in ends.items():
            for i, (first, second) in enumerate(pairs):
                if first == second:
                    findings.add(
                        (field, i, "between"),
                        "must name two different ends",
                        kind="inconsistent-values",
                    )
        findings.check()
        return self


class ExpandedLink(NamedTuple):
    """One link between two nodes, of a description that may stand for many."""

    name: str
    ends: tuple[str, str]
    link: NetworkLink
    #: The place of the description among the links of the network.
    number: int


def expand_links(platform: Platform) -> list[ExpandedLink]:
    """Return the links of a platform one by one: those of groups of hosts for each node."""
    if platform.network is None:
        return []
    expanded = []
    for number, link in enumerate(platform.network.links):
        first, second = (list_end_nodes(platform, end) for end in link.between)
        for a in first:
            for b in second:
                single = len(first) == len(second) == 1
                name = (link.name or "-".join(link.between)) if single else f"{a}-{b}"
                expanded.append(ExpandedLink(name, (a, b), link, number))
    return expanded


def list_end_nodes(platform: Platform, end: str) -> tuple[str, ...]:
    """List the nodes that the end of a link stands for: all of a cluster or a group of hosts."""
    groups = {c.name for c in platform.clusters} | {
        f"{c.name}-{h.name}" for c, h in platform.hosts()
    }
    return platform.select([end]) if end in groups else (end,)


def list_local_stores(platform: Platform) -> dict[str, LocalStore]:
    """Return the stores of the hosts, by node."""
    return {
        node: host.store
        for cluster, host in platform.hosts()
        if host.store is not None
        for node in host.node_names(cluster.name)
    }


def describe_missing_store(platform: Platform, name: str) -> tuple[str, str | None] | None:
    """Describe why no file can be in the store of this name: problem and remedy; None if one can.

    >>> from twinloop.platform import Platform
    >>> platform = Platform(clusters=[{"hosts": [{"cores": 1}]}], stores=[{"name": "disk"}])
    >>> describe_missing_store(platform, "disc")
    ("unknown store 'disc'", "did you mean 'disk'?")
    """
    shared = [store.name for store in platform.stores]
    if name in shared:
        return None
    local = list_local_stores(platform)
    if name == LOCAL and not local:
        return "no host has a store", "describe the `store` of a host"
    if name == LOCAL or name in local:
        return None
    known = [*shared, *([LOCAL] if local else []), *list(local)[:100]]
    return f"unknown store '{name}'", find_unknown_names([name], known, "store")[0][1]


def check_network(platform: Platform, findings: ProblemCollector) -> None:
    """Check the names in the network of a platform, and that its stores can be reached."""
    stores = [store.name for store in platform.stores]
    findings.add_repeats(((name, ("stores", i, "name")) for i, name in enumerate(stores)), "store")
    nodes = set(platform.select())
    for i, name in enumerate(stores):
        if name in nodes or name == LOCAL:
            what = "the store of the machine that writes a file" if name == LOCAL else "a node"
            findings.add(
                ("stores", i, "name"), f"'{name}' stands for {what}", kind="duplicate-name"
            )
    clusters = [cluster.name for cluster in platform.clusters]
    for i, store in enumerate(platform.stores):
        if store.cluster is not None and store.cluster not in clusters:
            findings.add(
                ("stores", i, "cluster"),
                f"unknown cluster '{store.cluster}'",
                suggest_name(store.cluster, clusters),
                kind="unknown-reference",
            )
    network = platform.network
    if network is None:
        return
    for i, name in enumerate(network.switches):
        if name in nodes or name in stores:
            findings.add(
                ("network", "switches", i),
                f"'{name}' is also the name of a node or a store",
                kind="duplicate-name",
            )
    groups = [c.name for c in platform.clusters]
    groups += [f"{c.name}-{h.name}" for c, h in platform.hosts()]
    ends = [*network.switches, *stores, *groups]
    for i, link in enumerate(network.links):
        _check_names(findings, ("network", "links", i, "between"), link.between, ends, nodes)
        if all(len(list_end_nodes(platform, end)) > 1 for end in link.between):
            findings.add(
                ("network", "links", i, "between"),
                "names two groups of hosts; at most one end may be a group",
                kind="inconsistent-values",
            )
    for i, route in enumerate(network.routes):
        _check_names(findings, ("network", "routes", i, "between"), route.between, stores, nodes)
    findings.check()
    links = expand_links(platform)
    _check_repeats(network, links, findings)
    findings.check()
    _check_routes(network, links, findings)
    findings.check()
    _check_reachable(platform, links, findings)


def _check_names(
    findings: ProblemCollector,
    address: Address,
    given: Iterable[str],
    known: Sequence[str],
    nodes: set[str],
) -> None:
    for j, name in enumerate(given):
        if name in nodes or name in known:
            continue
        remedy = find_unknown_names([name], [*known, *sorted(nodes)[:100]], "node")[0][1]
        findings.add((*address, j), f"unknown node '{name}'", remedy, kind="unknown-reference")


def _check_repeats(
    network: NetworkDescription, links: Sequence[ExpandedLink], findings: ProblemCollector
) -> None:
    """Check that names of switches and links, and the ends of routes, are unique."""
    switches = enumerate(network.switches)
    findings.add_repeats(((name, ("network", "switches", i)) for i, name in switches), "switch")
    findings.add_repeats(_list_link_names(network, links), "link")
    seen: set[frozenset[str]] = set()
    for i, route in enumerate(network.routes):
        first, second = route.between
        if (ends := frozenset(route.between)) in seen:
            findings.add(
                ("network", "routes", i, "between"),
                f"another route is between '{first}' and '{second}' already",
                "keep one of them: a route serves both directions",
                kind="duplicate-name",
            )
        seen.add(ends)


def _list_link_names(
    network: NetworkDescription, links: Sequence[ExpandedLink]
) -> Iterator[tuple[str, Address]]:
    """List the names of the links, by the address of the field that they come from."""
    for i, link in enumerate(network.links):
        if link.name:
            yield link.name, ("network", "links", i, "name")
    for each in links:
        # The links of a group of hosts are named by their ends, whatever the name of the group.
        if each.name != each.link.name:
            yield each.name, ("network", "links", each.number, "between")


def _check_routes(
    network: NetworkDescription, links: Sequence[ExpandedLink], findings: ProblemCollector
) -> None:
    by_name: Mapping[str, ExpandedLink] = {link.name: link for link in links}
    for i, route in enumerate(network.routes):
        at = route.between[0]
        for j, name in enumerate(route.links):
            address = ("network", "routes", i, "links", j)
            link = by_name.get(name)
            if link is None:
                remedy = find_unknown_names([name], list(by_name)[:100], "link")[0][1]
                findings.add(address, f"unknown link '{name}'", remedy, kind="unknown-reference")
                break
            if at not in link.ends:
                findings.add(
                    address,
                    f"'{name}' does not begin at '{at}', where the route is",
                    kind="inconsistent-values",
                )
                break
            at = link.ends[1] if link.ends[0] == at else link.ends[0]
        else:
            if route.links and at != route.between[1]:
                findings.add(
                    ("network", "routes", i, "links"),
                    f"lead to '{at}', not to '{route.between[1]}'",
                    kind="inconsistent-values",
                )


def _check_reachable(
    platform: Platform, links: Sequence[ExpandedLink], findings: ProblemCollector
) -> None:
    if not links or platform.network is None:
        return
    neighbours = _list_neighbours(links)
    declared = {frozenset(route.between) for route in platform.network.routes}
    for i, store in enumerate(platform.stores):
        reached = set(_reach(store.name, neighbours))
        for node in platform.select():
            if node not in reached and frozenset((store.name, node)) not in declared:
                findings.add(
                    ("stores", i),
                    f"no links lead from '{store.name}' to '{node}'",
                    "add a link or a route",
                    kind="inconsistent-values",
                )
                break


def are_connected(platform: Platform, first: str, second: str) -> bool:
    """Whether two nodes, stores or switches are connected: by links, by a route, or in a star.

    >>> from twinloop.platform import Platform
    >>> hosts = [{"names": ["a", "b"], "cores": 1}]
    >>> links = [{"between": ["a", "core"]}]
    >>> platform = Platform(
    ...     clusters=[{"hosts": hosts}], network={"switches": ["core"], "links": links}
    ... )
    >>> are_connected(platform, "a", "core"), are_connected(platform, "a", "b")
    (True, False)
    """
    links = expand_links(platform)
    if not links or platform.network is None:
        return True
    if frozenset((first, second)) in {
        frozenset(route.between) for route in platform.network.routes
    }:
        return True
    return second in _reach(first, _list_neighbours(links))


def _list_neighbours(links: Sequence[ExpandedLink]) -> dict[str, list[str]]:
    neighbours: dict[str, list[str]] = {}
    for link in links:
        for a, b in (link.ends, link.ends[::-1]):
            neighbours.setdefault(a, []).append(b)
    return neighbours


def _reach(start: str, neighbours: Mapping[str, Sequence[str]]) -> Iterator[str]:
    seen, open_nodes = {start}, [start]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        for other in neighbours.get(node, ()):
            if other not in seen:
                seen.add(other)
                open_nodes.append(other)
