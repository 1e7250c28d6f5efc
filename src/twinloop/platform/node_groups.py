"""Grouping of the identical nodes of a node table into hosts of a platform."""

from __future__ import annotations

from typing import Any

import polars as pl

from twinloop.description.errors import InputError
from twinloop.platform.parts import Host
from twinloop.trace.tables import conform_table

_GROUP_KEYS = ["cores", "mhz", "memory", "resources"]


def nodes_to_platform_values(nodes: pl.DataFrame) -> dict[str, Any]:
    """Convert a node table to the plain values of a platform."""
    nodes = conform_table("nodes", nodes)
    if not nodes.height:
        raise InputError(
            "the node table is empty: a platform needs at least one node", kind="missing-platform"
        )
    for column in ("node", "cores"):
        if nodes[column].null_count():
            row = nodes[column].is_null().arg_max()
            name = nodes["node"][row or 0]
            node = f"node '{name}'" if name else f"the node in row {(row or 0) + 1}"
            raise InputError(f"is missing for {node}", kind="missing-field", field=column)
    # C01 is the default name of the first cluster.
    clusters: dict[str, list[dict[str, Any]]] = {}
    for group in nodes.partition_by(["cluster", *_GROUP_KEYS], maintain_order=True):
        first = group.row(0, named=True)
        hosts = clusters.setdefault(first["cluster"] or "C01", [])
        hosts.append(_make_host(first, group["node"].to_list()))
    return {"clusters": [_make_cluster(name, hosts) for name, hosts in clusters.items()]}


def _make_host(node: dict[str, Any], names: list[str]) -> dict[str, Any]:
    resources = {item["name"]: item["amount"] for item in node["resources"] or []}
    values = {key: node[key] for key in ("cores", "mhz", "memory") if node[key] is not None}
    return {**values, "resources": resources, "names": names}


def _make_cluster(name: str, hosts: list[dict[str, Any]]) -> dict[str, Any]:
    """Make a cluster; names of nodes are left out if they are the generated ones in all hosts."""
    plain = [_replace_names(name, host) for host in hosts]
    groups = {host["name"] for host in plain if host is not None}
    keep_names = None in plain or len(groups) < len(hosts)
    return {"name": name, "hosts": hosts if keep_names else plain}


def _replace_names(cluster: str, host: dict[str, Any]) -> dict[str, Any] | None:
    """Replace names of nodes by the name of their group; None if they are not generated names."""
    names = host["names"]
    group = names[0].removeprefix(f"{cluster}-").rpartition("-")[0]
    if not group:
        return None
    values = {**host, "name": group, "count": len(names), "names": ()}
    generated = Host.from_dict(values).node_names(cluster)
    return values if generated == tuple(names) else None
