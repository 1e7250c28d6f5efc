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
            raise InputError(
                f"is missing for node {name or f'in row {row}'}", kind="missing-field", field=column
            )
    # C01 is the default name of the first cluster.
    clusters: dict[str, list[dict[str, Any]]] = {}
    for group in nodes.partition_by(["cluster", *_GROUP_KEYS], maintain_order=True):
        first = group.row(0, named=True)
        hosts = clusters.setdefault(first["cluster"] or "C01", [])
        hosts.append(_host(first, group["node"].to_list()))
    return {"clusters": [_cluster(name, hosts) for name, hosts in clusters.items()]}


def _host(node: dict[str, Any], names: list[str]) -> dict[str, Any]:
    resources = {item["name"]: item["amount"] for item in node["resources"] or []}
    values = {key: node[key] for key in ("cores", "mhz", "memory") if node[key] is not None}
    return {**values, "resources": resources, "names": names}


def _cluster(name: str, hosts: list[dict[str, Any]]) -> dict[str, Any]:
    """A cluster; node names that equal the generated ones are left out."""
    plain = [_without_names(name, host) for host in hosts]
    groups = {host["name"] for host in plain if host is not None}
    given = hosts if None in plain or len(groups) < len(hosts) else plain
    return {"name": name, "hosts": given}


def _without_names(cluster: str, host: dict[str, Any]) -> dict[str, Any] | None:
    names = host["names"]
    group = names[0].removeprefix(f"{cluster}-").rpartition("-")[0]
    if not group:
        return None
    values = {**host, "name": group, "count": len(names), "names": ()}
    generated = Host.from_dict(values).node_names(cluster)
    return values if generated == tuple(names) else None
