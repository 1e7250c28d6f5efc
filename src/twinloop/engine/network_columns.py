"""Conversion of networks, stores and files to native columns, and of transfers to a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from twinloop.description import Cleaning
from twinloop.description.errors import InputError
from twinloop.platform.network import expand_links
from twinloop.trace.tables import conform_table, make_empty_table
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import find_rows

if TYPE_CHECKING:
    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario
    from twinloop.engine.platform_columns import MachineTable
    from twinloop.platform import Platform
    from twinloop.platform.network import Ports
    from twinloop.workload import Workload

#: Native value for "no limit" of a count.
_UNLIMITED = 2**32 - 1


def build_network_columns(
    machines: MachineTable, workload: Workload, ids: pl.Series
) -> tuple[dict[str, Any], tuple[Cleaning, ...]]:
    """Build the native columns of the network, its stores and the files of the tasks.

    All files are in the first store: those that no task writes from the start on, the others when
    they have been written.
    """
    platform = machines.platform
    columns = _build_topology(machines)
    files, notes = _build_files(workload, ids)
    _check_capacity(platform, files)
    return columns | files, notes


def _build_topology(machines: MachineTable) -> dict[str, Any]:
    platform, network = machines.platform, machines.platform.network
    names = list(machines.nodes["node"])
    hosts = [host for _, host in platform.hosts()]
    ports = [hosts[group].ports for group in machines.group]
    switches = network.switches if network is not None else ()
    names += [*(store.name for store in platform.stores), *switches]
    ports += [*(store.ports for store in platform.stores), *(None for _ in switches)]
    index = {name: number for number, name in enumerate(names)}
    links = expand_links(platform)
    by_name = {link.name: number for number, link in enumerate(links)}
    routes: list[tuple[int, int, list[int], float, int]] = []
    for number, route in enumerate(network.routes if network is not None else ()):
        a, b = (index[end] for end in route.between)
        path = [by_name[name] for name in route.links]
        latency = np.nan if route.latency is None else route.latency
        routes += [(a, b, path, latency, number), (b, a, path[::-1], latency, number)]
    return {
        "latency": network.latency if network is not None else 0.0,
        "node_out": np.array([_bandwidth(each, "send") for each in ports], dtype=np.float64),
        "node_in": np.array([_bandwidth(each, "receive") for each in ports], dtype=np.float64),
        "links": [
            (
                index[each.ends[0]],
                index[each.ends[1]],
                each.link.bandwidth or np.inf,
                each.link.latency,
                each.link.duplex == "half",
                each.number,
            )
            for each in links
        ],
        "routes": routes,
        "stores": [
            (
                index[store.name],
                store.capacity or np.inf,
                store.read or np.inf,
                store.write or np.inf,
                store.streams or _UNLIMITED,
            )
            for store in platform.stores
        ],
    }


def _bandwidth(ports: Ports | None, direction: str) -> float:
    value: float | None = None if ports is None else getattr(ports, direction)
    return np.inf if value is None else value


def _build_files(workload: Workload, ids: pl.Series) -> tuple[dict[str, Any], tuple[Cleaning, ...]]:
    files = workload.files.unique("file", keep="first", maintain_order=True)
    uses = workload.task_files.filter(pl.col("file").is_in(files["file"].implode()))
    file = find_rows(files["file"], uses["file"])
    task = find_rows(ids, uses["task"])
    reads = uses["access"].to_numpy() == "read"
    known = task >= 0
    written = np.zeros(files.height, dtype=bool)
    written[file[known & ~reads]] = True
    unknown = files.filter(files["size"].is_null())["file"]
    missing = workload.task_files.height - uses.height
    notes = (
        note("assumed", "files without a size: nothing is transferred for them", unknown),
        note("ignored", "uses of files that are not in the table of files", count=missing),
    )
    columns: dict[str, Any] = {
        "file_size": files["size"].fill_null(0.0).to_numpy(),
        "file_store": np.zeros(files.height, dtype=np.int64),
        "file_exists": (~written).astype(np.uint8),
    }
    for name, chosen in (("read", known & reads), ("write", known & ~reads)):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(task[rows], kind="stable")]
        counts = np.bincount(task[rows], minlength=len(ids))
        columns[f"{name}_offsets"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        columns[f"{name}s"] = file[rows].astype(np.int64)
    return columns, tuple(each for each in notes if each.count)


def _check_capacity(platform: Platform, files: dict[str, Any]) -> None:
    """Refuse files that can never fit into their store."""
    store = platform.stores[0]
    if store.capacity is None:
        return
    total = float(files["file_size"][files["file_exists"] != 0].sum())
    largest = float(files["file_size"].max(initial=0.0))
    for what, size in (("the files at the start", total), ("the largest file", largest)):
        if size > store.capacity:
            raise InputError(
                f"platform.stores[0].capacity: {what} need {size:.15g} bytes, and '{store.name}' "
                f"has {store.capacity:.15g}",
                kind="inconsistent-values",
                remedy="give the store a larger capacity",
            )


def build_transfer_table(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame:
    """Build the table of transfers of a run, in the order of their ends."""
    log = run.transfers()
    if not len(log["task"]):
        return make_empty_table("transfers")
    files = compiled.workload.files.unique("file", keep="first", maintain_order=True)["file"]
    stores = pl.Series([store.name for store in compiled.machines.platform.stores])
    # Machines that were added in the run have no name here.
    machines = pl.Series([*compiled.names.machines, None], dtype=pl.String)
    machine = np.minimum(log["machine"], machines.len() - 1).astype(np.int64)
    read = pl.Series(log["read"] != 0)
    ends = pl.DataFrame(
        {
            "read": read,
            "store": stores.gather(log["store"].astype(np.int64)),
            "machine": machines.gather(machine),
        }
    )
    finished = pl.Series("finished", log["finished"] != 0)
    frame = ends.select(
        pl.when("read").then(pl.lit("read")).otherwise(pl.lit("write")).alias("kind"),
        compiled.arrays.ids.gather(log["task"].astype(np.int64)).alias("subject"),
        files.gather(log["file"].astype(np.int64)).alias("file"),
        pl.when("read").then("store").otherwise("machine").alias("from"),
        pl.when("read").then("machine").otherwise("store").alias("to"),
        pl.Series("bytes", log["bytes"]),
        pl.Series("start", log["start"]),
        pl.Series("end", log["end"]),
        pl.when(finished).then(pl.lit("completed")).otherwise(pl.lit("cancelled")).alias("reason"),
    )
    return conform_table("transfers", frame)
