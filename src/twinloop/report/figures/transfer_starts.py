"""Times at which transfers began to move bytes: after their wait for a stream and their latency."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final

import polars as pl

from twinloop.platform import Platform
from twinloop.platform.network import list_local_stores
from twinloop.report.figures.network_routes import NetworkRoutes

#: Kinds of transfers that read from the store at their source, and that write to the one at their
#: destination.
_READS: Final = frozenset(
    {"read", "stage-in", "stage-out", "image", "resume", "get", "duplicate", "move"}
)
_WRITES: Final = frozenset(
    {"write", "stage-in", "stage-out", "suspend", "put", "duplicate", "move"}
)


def find_flow_starts(transfers: pl.DataFrame, platform: Platform) -> pl.Series:
    """Find the times at which transfers began to move bytes, from their requests and ends.

    Stores that bound their number of transfers serve them in the order of their requests, and a
    transfer keeps its stream until its end. So its wait follows from the ends of the transfers
    before it. Then it waits for the latency of its route. A transfer that needed no other time has
    the time of its request, and so has one without a known route.

    Args:
        transfers: Columns `kind`, `from`, `to`, `start` (the request) and `end`; at both ends are
            nodes and stores.
        platform: The platform that the scenario of the run describes.

    >>> platform = Platform(clusters=[{"name": "n", "hosts": [{"cores": 1}]}],
    ...                     stores=[{"name": "disk", "streams": 1}], network={"latency": 1})
    >>> find_flow_starts(pl.DataFrame({"kind": "read", "from": "disk", "to": "n-H01-001",
    ...     "start": [0.0, 0.0], "end": [4.0, 8.0]}), platform).to_list()
    [1.0, 5.0]
    """
    routes = NetworkRoutes(platform)
    pairs = transfers.select("from", "to").unique(maintain_order=True)
    latency = {ends: routes.find_latency(*ends) for ends in pairs.rows()}
    streams = {
        name: store.streams
        for name, store in (
            *((each.name, each) for each in platform.stores),
            *list_local_stores(platform).items(),
        )
        if store.streams is not None
    }
    #: By store: the ends of the last transfers, as many as it has streams.
    ends: dict[str, list[float]] = {}
    #: By store: when the last transfer got its stream; the queue of a store is served in order.
    begins: dict[str, float] = {}
    rows = transfers.select("kind", "from", "to", "start", "end").with_row_index("row")
    starts = [0.0] * transfers.height
    for row, kind, source, target, request, end in rows.sort("start", maintain_order=True).rows():
        stores = [each for each in _list_stores(kind, source, target) if each in streams]
        begin = request
        for store in stores:
            used = ends.setdefault(store, [])
            begin = max(begin, begins.get(store, begin))
            if len(used) == streams[store]:
                begin = max(begin, used[0])
        begin = min(begin, end)  # a cancelled transfer may have ended before it got a stream
        for store in stores:
            if len(ends[store]) < streams[store]:
                heapq.heappush(ends[store], end)
            elif ends[store][0] <= begin:
                heapq.heapreplace(ends[store], end)
            begins[store] = begin
        flow = begin + (latency[source, target] or 0.0)
        starts[row] = flow if flow < end else request
    return pl.Series("flow", starts, dtype=pl.Float64)


def _list_stores(kind: str | None, source: str, target: str) -> Iterator[str]:
    if kind in _READS:
        yield source
    if kind in _WRITES and (kind not in _READS or target != source):
        yield target
