"""Changes of the cores and the clouds of nodes that are ordered in the middle of a run.

The native core acts on them and keeps no record, so a simulation notes them for its trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from twinloop.platform.clouds import list_cloud_hosts
from twinloop.trace.tables import make_empty_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario


class NodeChange(NamedTuple):
    """A change of a node: the columns of `node_periods` that are other ones from a time on."""

    t: float
    node: str
    #: New values of `cores` and `cloud`.
    values: dict[str, Any] = {}  # noqa: RUF012
    #: Whether the node was added by it, or removed.
    adds: bool = False
    removes: bool = False


def build_node_periods(
    compiled: CompiledScenario, run: ClusterRun, changes: Iterable[NodeChange]
) -> pl.DataFrame:
    """Build the table of the periods of the nodes that were changed."""
    by_node: dict[str, list[NodeChange]] = {}
    for change in changes:
        by_node.setdefault(change.node, []).append(change)
    if not by_node:
        return make_empty_table("node_periods")
    platform = compiled.machines.platform
    clouds = {
        name: cloud.name
        for cloud in platform.clouds
        for cluster, host in list_cloud_hosts(platform, cloud)
        for name in host.node_names(cluster.name)
    }
    cores = dict(compiled.machines.nodes.select("node", "cores").iter_rows())
    rows: list[dict[str, Any]] = []
    for node, own in by_node.items():
        period = {"node": node, "cores": cores[node], "cloud": clouds.get(node)}
        start: float | None = run.start_time
        for change in own:
            if start is not None and change.t > start and not change.adds:
                rows.append({**period, "start": start, "end": change.t})
            period.update(change.values)
            # A copy without the run so far begins at its own time.
            start = None if change.removes else max(change.t, run.start_time)
        if start is not None:
            rows.append({**period, "start": start, "end": None})
    return pl.DataFrame(rows, schema=make_empty_table("node_periods").schema)
