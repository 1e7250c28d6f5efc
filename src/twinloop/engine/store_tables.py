"""The tables of the data stores and of the nodes of the network of a running simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from twinloop.engine.platform_columns import MachineTable
    from twinloop.engine.store_directory import StoreDirectory

_STORES: Final = {
    "store": pl.String,
    "capacity": pl.Float64,
    "used": pl.Float64,
    "promised": pl.Float64,
    "free": pl.Float64,
    "files": pl.Int64,
    "streams_in_use": pl.Int64,
    "waiting": pl.Int64,
}
_FIGURES: Final = ("sent", "received", "sending", "receiving", "transfers")


def build_store_table(directory: StoreDirectory) -> pl.DataFrame:
    """Build the table of the stores that were not deregistered."""
    rows = []
    for number, name in directory.list_present():
        figures = directory.run.store_figures(number)
        free = figures["capacity"] - figures["used"] - figures["promised"]
        rows.append(
            (
                name,
                figures["capacity"],
                figures["used"],
                figures["promised"],
                free,
                len(directory.run.store_files(number)[0]),
                figures["active"],
                figures["waiting"],
            )
        )
    table = pl.DataFrame(rows, schema=_STORES, orient="row")
    limited = pl.col("capacity", "free").replace(np.inf, None)
    return table.with_columns(limited)


def build_node_table(directory: StoreDirectory, machines: MachineTable) -> pl.DataFrame:
    """Build the table of hosts and stores with a node of their own: bytes, rates, transfers."""
    use = directory.run.node_use()
    nodes: dict[str, int] = {}
    for number, name in enumerate(machines.nodes["node"]):
        if number not in machines.instances:
            nodes[name] = int(use["machines"][number])
    taken = set(nodes.values())
    names = directory.list_names() or [each.name for each in machines.platform.stores]
    for number, name in enumerate(names):
        node = int(use["stores"][number]) if number < len(use["stores"]) else -1
        if node < 0 or node not in taken:
            nodes[name] = node
    # Without a network nothing was sent.
    at = np.array(list(nodes.values()), dtype=np.int64)
    columns: dict[str, Any] = {"node": pl.Series(list(nodes), dtype=pl.String)}
    for name in _FIGURES:
        columns[name] = np.where(at < 0, 0.0, np.append(use[name], 0.0)[at])
    return pl.DataFrame(columns).cast({"transfers": pl.Int64})
