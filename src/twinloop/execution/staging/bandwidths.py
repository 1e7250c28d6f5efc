"""Bandwidths that limit copies, and the routes of copies."""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

from twinloop.description import Cleaning
from twinloop.platform import Platform
from twinloop.platform.network import LocalStore, Ports, list_local_stores
from twinloop.workload.cleaning_notes import note

#: Bytes of a chunk. Concurrent copies take turns by chunks: each gets an equal share of a
#: bandwidth, or less if another bandwidth on its route limits it.
CHUNK: Final = 1 << 18


class Bandwidth:
    """A bandwidth that is reserved chunk by chunk, first come, first served.

    A copy reserves its next chunk when the chunk before it is due, so that copies that share a
    bandwidth take turns.

    >>> disk = Bandwidth(100.0)
    >>> disk.reserve(0.0, 50), disk.reserve(0.0, 50), disk.reserve(3.0, 50)
    (0.5, 1.0, 3.5)
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._reserved_until = -math.inf

    def reserve(self, ready: float, size: float) -> float:
        """Reserve the bandwidth for a chunk; returns the time at which the chunk is due (s).

        Args:
            ready: Earliest start of the chunk (s).
            size: Its bytes.
        """
        self._reserved_until = max(self._reserved_until, ready) + size / self._rate
        return self._reserved_until


class Streams:
    """The streams of a store: a bound on its concurrent copies, first come, first served."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.waiting: deque[object] = deque()


class CopyRoute(NamedTuple):
    """The resources of a copy: bandwidths, streams, and the latency before it starts (s)."""

    bandwidths: tuple[Bandwidth, ...]
    streams: tuple[Streams, ...]
    latency: float


class CopyRoutes:
    """The routes between the stores and the nodes of a platform.

    The ports of hosts and stores, the bandwidths and streams of stores, and the latency of the
    network are described. The store of a host also limits what is copied to the host from another
    place, and from it. Links and routes are not taken into account.

    >>> routes = CopyRoutes(Platform.from_dict({
    ...     "clusters": [{"name": "c", "hosts": [{"cores": 1, "ports": "10 MB/s"}]}],
    ...     "stores": [{"name": "disk", "read": "50 MB/s"}]}))
    >>> len(routes.find("disk", "c-H01-001", reads=True).bandwidths)
    2
    """

    def __init__(self, platform: Platform) -> None:
        self._latency = 0.0 if platform.network is None else platform.network.latency
        self._out: dict[str, Bandwidth] = {}
        self._in: dict[str, Bandwidth] = {}
        self._read: dict[str, Bandwidth] = {}
        self._write: dict[str, Bandwidth] = {}
        self._streams: dict[str, Streams] = {}
        for cluster, host in platform.hosts():
            for name in host.node_names(cluster.name):
                self._add_ports(name, host.ports)
        for store in platform.stores:
            self._add_ports(store.name, store.ports)
            self._add_store(store.name, store)
        self._local = list_local_stores(platform)
        for name, local in self._local.items():
            self._add_store(name, local)

    @staticmethod
    def note_ignored(platform: Platform) -> Cleaning:
        """Note the parts of the network and the stores that do not limit copies."""
        network = platform.network
        links = 0 if network is None else len(network.links) + len(network.routes)
        stores = (*platform.stores, *list_local_stores(platform).values())
        caches = sum(store.page_cache is not None for store in stores)
        what = "links and routes of the network and page caches: copies are not limited by them"
        return note("ignored", what, count=links + caches)

    def find(self, store: str, node: str, *, reads: bool) -> CopyRoute:
        """Find the route from a store to a node, or from the node to the store."""
        source, target = (store, node) if reads else (node, store)
        own = self._read if reads else self._write
        if store == node:  # the store of the host
            found = [own.get(store)]
        else:
            # The copy on the host is in the store of the host, if it has one.
            at_host = (self._write if reads else self._read).get(node)
            found = [own.get(store), self._out.get(source), self._in.get(target), at_host]
        stores = [store, *([node] if node in self._local and node != store else [])]
        return CopyRoute(
            tuple(each for each in found if each is not None),
            tuple(self._streams[name] for name in stores if name in self._streams),
            0.0 if store == node else self._latency,
        )

    def _add_ports(self, name: str, ports: Ports | None) -> None:
        if ports is not None and ports.send is not None:
            self._out[name] = Bandwidth(ports.send)
        if ports is not None and ports.receive is not None:
            self._in[name] = Bandwidth(ports.receive)

    def _add_store(self, name: str, store: LocalStore) -> None:
        if store.read is not None:
            self._read[name] = Bandwidth(store.read)
        if store.write is not None:
            self._write[name] = Bandwidth(store.write)
        if store.streams is not None:
            self._streams[name] = Streams(store.streams)
