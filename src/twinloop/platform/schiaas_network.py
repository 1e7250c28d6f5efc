"""Conversion of the routes of a SimGrid platform between the stores and hosts of clouds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinloop.platform.schiaas_parts import CloudParts, CloudStore, HostGroup, make_unique
from twinloop.platform.simgrid_platform import ImportNotes, SimGridLink, SimGridPlatform

#: The ends of a route between two groups, or between a store and a group.
_Pair = frozenset[Any]


@dataclass(eq=False)
class _Star:
    """The stores and groups of a cloud, and the links of the arm of each."""

    cloud: str
    stores: list[CloudStore]
    groups: list[HostGroup]
    #: The links of the arms, from a store towards the groups.
    arms: dict[Any, list[SimGridLink]] = field(default_factory=dict)
    #: The same for routes to the stores.
    arms_back: dict[Any, list[SimGridLink]] = field(default_factory=dict)
    #: The switch at the end of each arm: the same for all, unless pairs have links of their own.
    ends: dict[Any, str] = field(default_factory=dict)


class NetworkConversion:
    """Conversion of the routes between stores and hosts of clouds to links with two ends.

    In SimGrid a route is any list of links. Here a link has two ends, so that each cloud becomes a
    star. A link is in the arm of a store or a group if all routes of this store or group use it,
    and no other route of the cloud does. Links without an arm get a copy for each pair of ends.
    """

    def __init__(
        self, simgrid: SimGridPlatform, notes: ImportNotes, parts: Sequence[CloudParts]
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
        self._own_links: dict[HostGroup, set[SimGridLink]] = {
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

    def _groups(self) -> list[HostGroup]:
        return [group for star in self.stars for group in star.groups]

    def _find_store_routes(self, store: CloudStore, group: HostGroup) -> None:
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

    def _find_group_route(self, a: HostGroup, b: HostGroup) -> None:
        """Find the route between two groups; the way back is taken to have the same links."""
        route = self.simgrid.find_route(a.hosts[0].name, b.hosts[0].name)
        if route is None:
            return
        if set(self.simgrid.find_route(b.hosts[0].name, a.hosts[0].name) or ()) != set(route):
            what = "routes between hosts that differ from the way back, which is not used"
            self.notes.add("ignored", what, b.hosts[0].element)
        pair = frozenset((a, b))
        self._routes[pair] = self._routes_back[pair] = self._strip(route, a, b)

    def _strip(self, route: Sequence[SimGridLink], *groups: HostGroup) -> list[SimGridLink]:
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

    def _add_store(self, star: _Star, store: CloudStore) -> None:
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

    def _add_group(self, star: _Star, group: HostGroup) -> None:
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

    def _find_controller_node(self, cloud: CloudParts, star: _Star, host: str) -> str | None:
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
        self.switches.append(make_unique([name], self._node_names))
        return self.switches[-1]

    def _make_link_name(self, name: str) -> str:
        return make_unique([name], self._link_names)

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
            ends = sorted(pair, key=lambda end: isinstance(end, HostGroup))
            exits = [
                self.simgrid.find_exit(end.hosts[0].name)
                for end in ends
                if isinstance(end, HostGroup)
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
