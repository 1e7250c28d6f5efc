"""Conversion of networks, stores and files to native columns, and of transfers to a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from twinloop.description import Cleaning
from twinloop.description.errors import InputError
from twinloop.engine.cloud_images import list_images
from twinloop.engine.rental_tables import build_rental_transfers, name_machines
from twinloop.platform.network import LOCAL, LocalStore, describe_missing_store, expand_links
from twinloop.trace.tables import conform_table, make_empty_table
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import find_rows

if TYPE_CHECKING:
    from twinloop._core import ClusterRun
    from twinloop.engine.compiled_scenario import CompiledScenario
    from twinloop.engine.platform_columns import MachineTable
    from twinloop.platform import Platform
    from twinloop.platform.network import Ports
    from twinloop.scenario.detail import Detail
    from twinloop.workload import Workload

#: The kinds of transfers that stores serve on request, by native code.
KINDS: Final = ("put", "get", "duplicate", "move")
#: Native value for "no limit" of a count, and for "none" of an index.
_NONE = 2**32 - 1


class _Store(NamedTuple):
    """A store of the scenario: its name, its native node, its description and the path of that."""

    name: str
    node: int
    store: LocalStore
    path: str
    is_local: bool = False


def build_network_columns(
    machines: MachineTable, workload: Workload, ids: pl.Series, detail: Detail
) -> tuple[dict[str, Any] | None, tuple[Cleaning, ...]]:
    """Build the native columns of the network, its stores and the files of the tasks.

    A file is in its store, or else in the first one: from the start on if no task writes it, or
    only tasks that read it too, and otherwise when it has been written. None: nothing is
    transferred.
    """
    files = _list_files(workload, detail)
    _check_stores(machines.platform, files["store"])
    without_stores = not machines.platform.stores and files["store"].null_count() == files.height
    if without_stores and any(cloud.messages for cloud in machines.platform.clouds):
        files = files.clear()  # they are in no store, but messages need the network
    # Instances of clouds move between hosts, also without a store.
    elif without_stores and (files.height or not machines.platform.clouds):
        return None, ()
    stores = _list_stores(machines, files["store"], machines.nodes.height, detail)
    columns, notes = _build_files(workload, files, ids, stores)
    columns |= {
        "through_local": detail.storage == "all" and bool(machines.platform.stores),
        "keeps_copies": detail.cache == "host",
        "whole_files": detail.buffers == "whole",
    }
    names = pl.concat([files["file"], _add_images(machines, stores, columns)])
    _check_capacity(stores, names, columns)
    return _build_topology(machines, stores, detail) | columns, notes


def _add_images(machines: MachineTable, stores: list[_Store], columns: dict[str, Any]) -> pl.Series:
    """Add the images of clouds to the columns of the files, and return their names."""
    images = list_images(machines.platform)
    first = len(columns["file_size"])
    sizes = np.array([each.image.size for each in images], dtype=np.float64)
    places = np.array([each.store for each in images], dtype=np.int64)
    columns["file_size"] = np.concatenate([columns["file_size"], sizes])
    columns["file_store"] = np.concatenate([columns["file_store"], places])
    columns["file_exists"] = np.concatenate(
        [columns["file_exists"], np.ones(len(images), dtype=np.uint8)]
    )
    # Pre-staged images are also in the stores of the hosts of their cloud.
    copies = []
    clusters = machines.nodes["cluster"].to_list()
    for number, each in enumerate(images):
        own = machines.platform.clouds[each.cloud].clusters
        if each.image.caching == "pre-staged":
            copies += [
                (first + number, at)
                for at, store in enumerate(stores)
                if store.is_local and (not own or clusters[store.node] in own)
            ]
    columns["copies"] = copies
    return pl.Series([each.image.name for each in images], dtype=pl.String)


def _list_files(workload: Workload, detail: Detail) -> pl.DataFrame:
    files = workload.files.unique("file", keep="first", maintain_order=True)
    if detail.storage == "submit":
        # All files are in the first store, that of the submit node.
        files = files.with_columns(pl.lit(None, dtype=pl.String).alias("store"))
    return files


def _check_stores(platform: Platform, names: pl.Series) -> None:
    """Refuse files in stores that the platform does not have."""
    for name in names.drop_nulls().unique(maintain_order=True):
        if (missing := describe_missing_store(platform, name)) is not None:
            raise InputError(
                f"workload.files: store '{name}': {missing[0]}",
                kind="unknown-reference",
                remedy=missing[1],
            )


def _list_stores(
    machines: MachineTable, used: pl.Series, nodes: int, detail: Detail
) -> list[_Store]:
    """List the stores: those of the platform, then those of hosts, if a file may be in one.

    Hosts are the first `nodes` machines.
    """
    platform = machines.platform
    stores = [
        _Store(each.name, nodes + number, each, f"platform.stores[{number}]")
        for number, each in enumerate(platform.stores)
    ]
    is_used_by_clouds = any(each.image.caching != "none" for each in list_images(platform)) or any(
        each.suspend_to == LOCAL for each in platform.clouds
    )
    is_used = is_used_by_clouds or detail.storage == "all"
    if not is_used and used.drop_nulls().is_in([each.name for each in stores]).all():
        return stores
    groups = [
        (host.store, f"platform.clusters[{c}].hosts[{h}].store")
        for c, cluster in enumerate(platform.clusters)
        for h, host in enumerate(cluster.hosts)
    ]
    for machine, (node, group) in enumerate(
        zip(machines.nodes["node"][:nodes], machines.group[:nodes], strict=True)
    ):
        store, path = groups[group]
        if store is not None:
            stores.append(_Store(node, machine, store, path, is_local=True))
    return stores


def _build_topology(machines: MachineTable, stores: list[_Store], detail: Detail) -> dict[str, Any]:
    platform, network = machines.platform, machines.platform.network
    names = list_nodes(machines)
    hosts_alone = set(names[: len(machines.group)])
    hosts = [host for _, host in platform.hosts()]
    ports = [hosts[group].ports for group in machines.group]
    switches = network.switches if network is not None else ()
    local_stores = np.full(len(ports), _NONE, dtype=np.int64)
    for number, each in enumerate(stores):
        if each.is_local:
            local_stores[each.node] = number
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
    ignored = [detail.ignores(is_host_part=n < len(machines.group)) for n in range(len(ports))]
    return {
        "node_ignored": np.array(ignored, dtype=np.uint8),
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
                detail.ignores(is_host_part=not hosts_alone.isdisjoint(each.ends)),
            )
            for each in links
        ],
        "routes": routes,
        "stores": [
            (
                each.node,
                each.store.capacity or np.inf,
                each.store.read or np.inf,
                each.store.write or np.inf,
                each.store.streams or _NONE,
                *_describe_cache(each.store),
            )
            for each in stores
        ],
        "local_stores": local_stores,
    }


def _describe_cache(store: LocalStore) -> tuple[float, float]:
    """Return the size of the page cache and the bandwidth of its reads; size 0: none."""
    cache = store.page_cache
    if cache is None:
        return 0.0, np.inf
    return cache.size or np.inf, cache.read or np.inf


def list_nodes(machines: MachineTable) -> list[str]:
    """List the names of the nodes by their native numbers: machines, stores, then switches."""
    platform = machines.platform
    switches = platform.network.switches if platform.network is not None else ()
    return [*machines.nodes["node"], *(store.name for store in platform.stores), *switches]


def _bandwidth(ports: Ports | None, direction: str) -> float:
    value: float | None = None if ports is None else getattr(ports, direction)
    return np.inf if value is None else value


def _build_files(
    workload: Workload, files: pl.DataFrame, ids: pl.Series, stores: list[_Store]
) -> tuple[dict[str, Any], tuple[Cleaning, ...]]:
    store, placed = _find_stores(files, stores)
    uses = workload.task_files.filter(pl.col("file").is_in(files["file"].implode()))
    file = find_rows(files["file"], uses["file"])
    task = find_rows(ids, uses["task"])
    reads = uses["access"].to_numpy() == "read"
    known = (task >= 0) & placed[file]
    written, created = np.zeros((2, files.height), dtype=bool)
    written[file[known & ~reads]] = True
    # A task that reads a file and writes it again changes a file that exists.
    pair = task * files.height + file
    created[file[known & ~reads & ~np.isin(pair, pair[known & reads])]] = True
    is_local = placed & (store == _NONE)
    _check_writers(files["file"], is_local & ~written, file[known & reads])
    unknown = files.filter(files["size"].is_null())["file"]
    missing = workload.task_files.height - uses.height
    notes = (
        note("assumed", "files without a size: nothing is transferred for them", unknown),
        note("ignored", "files without a store, on a platform with stores of hosts alone",
             files["file"].filter(pl.Series(~placed))),
        note("ignored", "uses of files that are not in the table of files", count=missing),
    )  # fmt: skip
    columns: dict[str, Any] = {
        "file_size": files["size"].fill_null(0.0).to_numpy(),
        "file_store": store,
        "file_exists": (~created & placed & ~is_local).astype(np.uint8),
    }
    for name, chosen in (("read", known & reads), ("write", known & ~reads)):
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(task[rows], kind="stable")]
        counts = np.bincount(task[rows], minlength=len(ids))
        columns[f"{name}_offsets"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        columns[f"{name}s"] = file[rows].astype(np.int64)
    return columns, tuple(each for each in notes if each.count)


def _find_stores(
    files: pl.DataFrame, stores: list[_Store]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find the store of each file, none for a local one, and whether the file has a store."""
    numbers = {each.name: number for number, each in enumerate(stores)} | {LOCAL: _NONE}
    default = None if not stores or stores[0].is_local else 0
    names = files["store"].replace_strict(numbers, default=default, return_dtype=pl.Int64)
    return names.fill_null(0).to_numpy(), names.is_not_null().to_numpy()


def _check_writers(names: pl.Series, unwritten: Any, read: Any) -> None:
    """Refuse local files that are read, and that no task writes: they are in no store."""
    for name in names.gather(np.unique(read[unwritten[read]])).head(1):
        raise InputError(
            f"workload.files: '{name}' is in the store of the machine that writes it, and no task "
            "writes it",
            kind="inconsistent-values",
            remedy="set its store to a store or a node",
        )


def _check_capacity(stores: list[_Store], names: pl.Series, files: dict[str, Any]) -> None:
    """Refuse files that can never fit into their store."""
    size, store, exists = (files[f"file_{name}"] for name in ("size", "store", "exists"))
    capacities = np.array([each.store.capacity or np.inf for each in stores])
    place = store.copy()
    # A local file may be written to any host.
    if (is_local := store == _NONE).any():
        hosts = np.flatnonzero([each.is_local for each in stores])
        place[is_local] = hosts[np.argmax(capacities[hosts])]
    problems = [
        (place[file], f"file '{names[int(file)]}' needs {size[file]:.15g} bytes")
        for file in np.flatnonzero(size > capacities[place])[:1]
    ]
    present = exists != 0
    total = np.bincount(store[present], size[present], len(stores))
    problems += [
        (number, f"the files at the start need {total[number]:.15g} bytes")
        for number in np.flatnonzero(total > capacities)
    ]
    for number, problem in problems[:1]:
        each = stores[number]
        error = InputError(
            f"{problem}, and '{each.name}' has {each.store.capacity:.15g}",
            kind="inconsistent-values",
            field=f"{each.path}.capacity",
            remedy="give the store a larger capacity",
        )
        raise each.store.locate(error, "capacity")


def list_files(workload: Workload) -> list[str]:
    """List the names of the files by their native numbers."""
    return workload.files["file"].unique(maintain_order=True).to_list()


def list_store_names(compiled: CompiledScenario) -> dict[str, str | None]:
    """Return the name of the store of each file, `LOCAL`, or None for a file that is in none."""
    files = _list_files(compiled.workload, compiled.scenario.model.detail)
    shared = compiled.machines.platform.stores
    names = files["store"].fill_null(shared[0].name) if shared else files["store"]
    return dict(zip(files["file"], names, strict=True))


def list_stores(
    compiled: CompiledScenario, added: Iterable[tuple[str, Mapping[str, Any]]] = ()
) -> list[str]:
    """List the names of the stores by their native numbers; those of hosts are their names.

    A machine that was added in the run has a store if the machine that it is `like` has one.

    Args:
        compiled: A scenario whose tasks have files.
        added: Machines that are to be added after those of `compiled`, with their descriptions.
    """
    detail = compiled.scenario.model.detail
    used = _list_files(compiled.workload, detail)["store"]
    nodes = compiled.machines.nodes.height - len(compiled.added_machines)
    stores = _list_stores(compiled.machines, used, nodes, detail)
    names = [each.name for each in stores]
    with_store = {each.name for each in stores if each.is_local}
    for name, description in (*compiled.added_machines, *added):
        if (description or {}).get("like") in with_store:
            names.append(name)
            with_store.add(name)
    return names


def build_store_columns(
    machines: MachineTable, added: int, detail: Detail
) -> tuple[dict[str, Any], list[str]]:
    """Build the native columns of the network and all stores, and list the names of the stores.

    For a run in which no task has files: its stores are used from outside.

    Args:
        machines: The machines, the last of which were added in the run.
        added: Their number.
        detail: The level of detail of the scenario.
    """
    nodes = machines.nodes.height - added
    planned = replace(
        machines,
        nodes=machines.nodes[:nodes],
        speed=machines.speed[:nodes],
        group=machines.group[:nodes],
        instances=(),
    )
    stores = _list_stores(planned, pl.Series([LOCAL]), nodes, detail)
    return _build_topology(planned, stores, detail), [each.name for each in stores]


def list_run_stores(compiled: CompiledScenario, run: ClusterRun) -> list[str]:
    """List the names of the stores of a run by their native numbers."""
    named = dict(run.named_stores())
    planned = iter(list_stores(compiled) if len(named) < run.store_count else ())
    return [
        named[number] if number in named else next(planned) for number in range(run.store_count)
    ]


def list_planned_files(compiled: CompiledScenario, run: ClusterRun) -> pl.Series:
    """List the names of the files of the scenario that a run has, by their native numbers."""
    if not run.planned_files:
        return pl.Series([], dtype=pl.String)
    images = [each.image.name for each in list_images(compiled.machines.platform)]
    return pl.Series([*list_files(compiled.workload), *images], dtype=pl.String)


def list_run_files(compiled: CompiledScenario, run: ClusterRun) -> pl.Series:
    """List the names of the files of a run by their native numbers: the new ones at the end."""
    planned = list_planned_files(compiled, run)
    new = run.new_files()
    return pl.concat([planned, pl.Series(new, dtype=pl.String)]) if new else planned


def build_transfer_table(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame:
    """Build the table of transfers of a run, in the order of their ends."""
    parts = (
        _build_file_rows(compiled, run),
        build_rental_transfers(compiled, run),
        _build_request_rows(compiled, run),
    )
    tables = [each for each in parts if each is not None]
    if len(tables) > 1:
        return pl.concat(tables).sort("end", maintain_order=True)
    return tables[0] if tables else make_empty_table("transfers")


def _build_request_rows(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
    """Build the rows of the transfers that were requested of stores; None if there were none."""
    if not run.has_store_changes:
        return None
    log = run.ended_requests()
    if not len(log["kind"]):
        return None
    stores = pl.Series([*list_run_stores(compiled, run), None], dtype=pl.String)
    machines = pl.Series([*compiled.names.machines, None], dtype=pl.String)
    # -1 is the last one: none.
    ends = {
        name: names.gather(np.where(log[name] < 0, len(names) - 1, log[name]))
        for name, names in (("source", stores), ("target", stores), ("machine", machines))
    }
    kinds = pl.Series(KINDS, dtype=pl.String).gather(log["kind"].astype(np.int64))
    frame = pl.DataFrame(ends).select(
        kinds.alias("kind"),
        list_run_files(compiled, run).gather(log["file"].astype(np.int64)).alias("file"),
        pl.coalesce("source", "machine").alias("from"),
        pl.when(kinds == "get").then("machine").otherwise("target").alias("to"),
        pl.Series("bytes", log["bytes"]),
        pl.Series("start", log["start"]),
        pl.Series("end", log["end"]),
        pl.when(pl.Series(log["finished"] != 0))
        .then(pl.lit("completed"))
        .otherwise(pl.lit("cancelled"))
        .alias("reason"),
    )
    return conform_table("transfers", frame)


def _build_file_rows(compiled: CompiledScenario, run: ClusterRun) -> pl.DataFrame | None:
    """Build the rows of the files of tasks and the images of instances; None if there were none."""
    log = run.transfers()
    if not len(log["task"]):
        return None
    # The memory of an instance is no file: the last name.
    files = pl.concat([list_planned_files(compiled, run), pl.Series([None], dtype=pl.String)])
    stores = pl.Series(list_run_stores(compiled, run), dtype=pl.String)
    machines = name_machines(compiled.names.machines, log["machine"])
    # The transfer of an image is that of an instance.
    is_image = log["task"] == _NONE
    subjects = compiled.arrays.ids.gather(np.where(is_image, 0, log["task"]).astype(np.int64))
    subjects = subjects.zip_with(pl.Series(~is_image), machines) if is_image.any() else subjects
    read = pl.Series(log["read"] != 0)
    ends = pl.DataFrame(
        {
            "read": read,
            "staged": log["staged"] != 0,
            "store": stores.gather(log["store"].astype(np.int64)),
            "machine": machines,
            "image": is_image,
            "memory": is_image & (log["file"] == _NONE),
        }
    )
    finished = pl.Series("finished", log["finished"] != 0)
    frame = ends.select(
        pl.when("staged")
        .then(pl.when("read").then(pl.lit("stage-in")).otherwise(pl.lit("stage-out")))
        .when(pl.col("memory") & pl.col("read"))
        .then(pl.lit("resume"))
        .when("memory")
        .then(pl.lit("suspend"))
        .when("image")
        .then(pl.lit("image"))
        .when("read")
        .then(pl.lit("read"))
        .otherwise(pl.lit("write"))
        .alias("kind"),
        subjects.alias("subject"),
        files.gather(np.minimum(log["file"], files.len() - 1).astype(np.int64)).alias("file"),
        pl.when("read").then("store").otherwise("machine").alias("from"),
        pl.when("read").then("machine").otherwise("store").alias("to"),
        pl.Series("bytes", log["bytes"]),
        pl.Series("start", log["start"]),
        pl.Series("end", log["end"]),
        pl.when(finished).then(pl.lit("completed")).otherwise(pl.lit("cancelled")).alias("reason"),
    )
    return conform_table("transfers", frame)
