"""Links on the way of a transfer, from the description of the network."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import NamedTuple

from twinloop.platform import Platform
from twinloop.platform.network import ExpandedLink, expand_links


class _Arrival(NamedTuple):
    """The best way to a node: its cost, the last link and the node before, and whether it is
    the only one of this cost."""

    cost: tuple[float, int]
    link: ExpandedLink | None
    before: str
    is_unique: bool


class NetworkRoutes:
    """Routes of a platform by the least latency and, among equals, the fewest links.

    >>> platform = Platform(
    ...     clusters=[{"name": "rack", "hosts": [{"name": "pm", "count": 2, "cores": 1}]}],
    ...     stores=[{"name": "disk"}],
    ...     network={"switches": ["core"],
    ...              "links": [{"between": ["rack", "core"]}, {"between": ["core", "disk"]}]},
    ... )
    >>> NetworkRoutes(platform).find("disk", "rack-pm-002")
    ('disk → core', 'core → rack-pm-002')
    """

    def __init__(self, platform: Platform) -> None:
        links = expand_links(platform)
        self._neighbours: dict[str, list[tuple[str, ExpandedLink]]] = {}
        for link in links:
            for here, there in (link.ends, link.ends[::-1]):
                self._neighbours.setdefault(here, []).append((there, link))
        by_name = {link.name: link for link in links}
        self._declared: dict[tuple[str, str], list[ExpandedLink]] = {}
        self._latency = platform.network.latency if platform.network is not None else 0.0
        self._latencies: dict[tuple[str, str], float] = {}
        for route in platform.network.routes if platform.network is not None else ():
            if route.latency is not None:
                for ends in (route.between, route.between[::-1]):
                    self._latencies[ends] = route.latency
            if not route.links:  # only the latency is declared
                continue
            way = [by_name[name] for name in route.links]
            self._declared[route.between] = way
            self._declared[route.between[::-1]] = way[::-1]
        self._arrivals: dict[str, Mapping[str, _Arrival]] = {}

    @property
    def has_links(self) -> bool:
        """Whether the network has links; otherwise all nodes are connected to one switch."""
        return bool(self._neighbours)

    def find(self, source: str, target: str) -> tuple[str, ...] | None:
        """Find the links from one node to another, as `from → to`, or as the name if half-duplex.

        None if the description does not determine them: there is no route, or several are equally
        good.
        """
        if source == target or not self.has_links:
            return ()
        if (source, target) in self._declared:
            return _label(source, self._declared[source, target])
        # All routes of a node with one link begin with it, so that they share one search.
        links = self._neighbours.get(source, [])
        if len(links) != 1:
            return self._trace_back(source, target)
        ((next_node, link),) = links
        rest = () if next_node == target else self._trace_back(next_node, target)
        return None if rest is None else (*_label(source, [link]), *rest)

    def find_latency(self, source: str, target: str) -> float | None:
        """Find the latency of the route from one node to another (s); None if there is no route.

        >>> platform = Platform(
        ...     clusters=[{"name": "rack", "hosts": [{"name": "pm", "cores": 1}]}],
        ...     stores=[{"name": "disk"}],
        ...     network={"latency": 2, "links": [{"between": ["rack", "disk"], "latency": 0.5}]},
        ... )
        >>> NetworkRoutes(platform).find_latency("disk", "rack-pm-001")
        2.5
        """
        if source == target:  # no port is passed
            return 0.0
        if (source, target) in self._latencies:
            return self._latencies[source, target]
        if (source, target) in self._declared:
            return self._latency + sum(each.link.latency for each in self._declared[source, target])
        if not self.has_links:
            return self._latency
        # As in `find`, all nodes behind one switch share the search of the switch.
        links = self._neighbours.get(source, [])
        if len(links) != 1:
            arrival = self._find_arrivals(source).get(target)
            return None if arrival is None else self._latency + arrival.cost[0]
        ((next_node, link),) = links
        arrival = self._find_arrivals(next_node).get(target)
        return None if arrival is None else self._latency + link.link.latency + arrival.cost[0]

    def _find_arrivals(self, source: str) -> Mapping[str, _Arrival]:
        if source not in self._arrivals:
            self._arrivals[source] = self._search(source)
        return self._arrivals[source]

    def _trace_back(self, source: str, target: str) -> tuple[str, ...] | None:
        arrivals = self._find_arrivals(source)
        way: list[ExpandedLink] = []
        node = target
        while node != source:
            arrival = arrivals.get(node)
            if arrival is None or arrival.link is None or not arrival.is_unique:
                return None
            way.append(arrival.link)
            node = arrival.before
        return _label(source, way[::-1])

    def _search(self, source: str) -> Mapping[str, _Arrival]:
        """Find the best ways from a node to all others (Dijkstra's algorithm)."""
        arrivals = {source: _Arrival((0.0, 0), None, source, True)}
        waiting = [((0.0, 0), source)]
        done: set[str] = set()
        while waiting:
            cost, node = heapq.heappop(waiting)
            if node in done:
                continue
            done.add(node)
            # A node that was added in the run, or is not recorded, has no links here.
            for there, link in self._neighbours.get(node, ()):
                new = (cost[0] + link.link.latency, cost[1] + 1)
                known = arrivals.get(there)
                if known is None or new < known.cost:
                    arrivals[there] = _Arrival(new, link, node, True)
                    heapq.heappush(waiting, (new, there))
                elif new == known.cost and there not in done:
                    arrivals[there] = known._replace(is_unique=False)
        return arrivals


def list_labels(link: ExpandedLink) -> tuple[str, ...]:
    """Return the labels of both directions of a link: `from → to`, or its name if half-duplex."""
    return tuple(_label(end, [link])[0] for end in link.ends)


def _label(source: str, way: list[ExpandedLink]) -> tuple[str, ...]:
    labels, node = [], source
    for link in way:
        there = link.ends[1] if link.ends[0] == node else link.ends[0]
        labels.append(f"{node} → {there}" if link.link.duplex == "full" else link.name)
        node = there
    return tuple(labels)
