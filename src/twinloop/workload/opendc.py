"""Writer of OpenDC's workload files: tasks.parquet, fragments.parquet and topology.json.

In these files, durations are whole milliseconds, CPU usage is in MHz over all cores, memory is in
KiB, and the id of a task is a number below 2^31. Durations are rounded so that the end
of every fragment is exact to half a millisecond: rounding errors do not accumulate.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.description.files import write_folder_atomically
from twinloop.description.replacement import read_file_list, write_file_list
from twinloop.platform import Platform
from twinloop.platform.topology_export import export_topology
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.format_limits import note_unsupported_columns
from twinloop.trace.formats.opendc import KB
from twinloop.trace.parquet import to_exact_path
from twinloop.trace.trace import Trace
from twinloop.workload.cleaning_notes import note
from twinloop.workload.fragments import Fragments
from twinloop.workload.replay import NO_ESTIMATE
from twinloop.workload.workload import Missing, Workload

#: Default clock of a core: a MHz is then a thousandth of a core.
DEFAULT_MHZ = 1000.0

# The columns of a Trace that the format represents, or that its values follow from.
_SUPPORTED = {
    "tasks": (
        *("id", "name", "submit", "requested_cores", "requested_memory", "requested_mhz"),
        *("run_time", "resources", "deadline", "parents", "pid", "line", "memory_used", "cpu_time"),
    ),
    "placements": ("task", "attempt", "cores"),
    "usage": ("task", "machine", "pid", "t", "dt", "cpu", "rss", "line"),
    "nodes": ("node", "cluster", "cores", "mhz", "memory", "resources"),
}

TASKS, FRAGMENTS, TOPOLOGY = "tasks.parquet", "fragments.parquet", "topology.json"


def write(
    trace: Trace | Workload,
    path: Path,
    *,
    missing: Missing | None = None,
    platform: Platform | None = None,
    reference_mhz: float | None = None,
) -> Iterable[Cleaning]:
    """Write a trace or a workload as a folder for OpenDC, atomically.

    Args:
        trace: The trace or workload.
        path: The folder. An existing folder is replaced only if this function wrote it.
        missing: Treatment of tasks without samples, see `Workload.from_trace`. By default, tasks of
            a trace that was read from this format stay without fragments; others get a synthetic
            fragment, because OpenDC drops tasks without fragments.
        platform: The platform of the topology; by default the nodes of the trace, if it has any.
        reference_mhz: Clock of the reference core (MHz), see `Workload.from_trace`. For a workload,
            it is used only if the workload has none.

    >>> import tempfile, polars as pl
    >>> log = Trace(tasks=pl.DataFrame({"id": ["7"], "submit": [0.0], "requested_cores": [2.0],
    ...                                 "run_time": [1.5]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = list(write(log, Path(folder) / "out", reference_mhz=2000.0))
    ...     pl.read_parquet(folder + "/out/fragments.parquet").rows()
    [(7, 1500, 4000.0)]
    """
    if isinstance(trace, Workload):
        workload, notes = trace, []
    else:
        if missing is None:
            source = trace.manifest.source
            missing = "leave" if source is not None and source.format == "opendc" else "synthetic"
        workload = Workload.from_trace(trace, missing=missing, reference_mhz=reference_mhz)
        # The format has no requested times.
        notes = [cleaning for cleaning in workload.cleaned if cleaning.what != NO_ESTIMATE]
    mhz = workload.reference_mhz or reference_mhz
    if mhz is None:
        mhz = DEFAULT_MHZ
        notes.append(note("assumed", f"cores of {mhz:.0f} MHz: no clock is known", count=1))
    topology = None
    if isinstance(trace, Trace):
        tally = Tally()
        note_unsupported_columns(trace, tally, **_SUPPORTED)
        notes += tally.cleanings()
        if platform is None:
            topology = trace.manifest.facts.get("opendc", {}).get("topology")
        if platform is None and topology is None:
            platform, more = _make_platform(trace)
            notes += more
    numbers, renamed = _number_tasks(workload.tasks)
    notes += renamed
    tasks, more = _make_tasks(workload, numbers, mhz)
    notes += more
    fragments, more = _make_fragments(workload, numbers, mhz)
    notes += more
    return [*notes, *_write_folder(path, tasks, fragments, platform, topology)]


def _make_platform(trace: Trace) -> tuple[Platform | None, list[Cleaning]]:
    nodes = trace.nodes
    incomplete = nodes.filter(pl.col("mhz").is_null() | pl.col("memory").is_null())
    if nodes.height and incomplete.is_empty():
        return Platform.from_nodes(nodes), []
    why = "no nodes are known" if nodes.is_empty() else "a node has no known clock or memory"
    what = f"{TOPOLOGY}, which is not written: {why}"
    return None, [note("ignored", what, incomplete["node"], count=1)]


def _number_tasks(tasks: pl.DataFrame) -> tuple[pl.Series, list[Cleaning]]:
    """Return a number per task: its id if all ids are numbers below 2^31, else its row."""
    numbers = tasks["id"].cast(pl.Int32, strict=False)
    if (numbers.cast(pl.String) == tasks["id"]).fill_null(value=False).all():
        return numbers, []
    what = "task ids that are not numbers below 2^31: numbered, with the id in 'name'"
    order = pl.Series("id", np.arange(tasks.height, dtype=np.int32))
    return order, [note("repaired", what, tasks["id"])]


def _make_tasks(
    workload: Workload, numbers: pl.Series, mhz: float
) -> tuple[pl.DataFrame, list[Cleaning]]:
    tasks = workload.tasks
    ids = tasks["id"]
    renamed = bool((numbers.cast(pl.String) != ids).any())
    programs = tasks["name"]
    name = (ids if renamed else programs).alias("name")
    capacity = tasks["requested_mhz"]
    if capacity.null_count():
        capacity = capacity.fill_null(pl.Series(workload.capacities() * mhz).fill_nan(None))
    cores = tasks["cores"].ceil()
    memory = (tasks["memory"] / KB).round(6).ceil()
    length = tasks["run_time"].fill_null(pl.Series(workload.durations()).fill_nan(None))
    resources, gpus = _count_gpus(tasks)
    table = pl.DataFrame(
        [
            numbers.alias("id"),
            *([name] if name.null_count() < name.len() else []),
            _to_milliseconds(tasks["submit"], workload.epoch_ms).alias("submission_time"),
            _to_milliseconds(length.fill_null(0.0)).alias("duration"),
            _cast_whole(cores.fill_null(1), ids, "cores", pl.Int32).alias("cpu_count"),
            capacity.fill_null(cores.fill_null(1) * mhz).alias("cpu_capacity"),
            _cast_whole(memory.fill_null(0), ids, "memory", pl.Int64).alias("mem_capacity"),
            *gpus,
            *_make_relations(tasks, numbers),
        ]
    )
    if tasks["deadline"].null_count() < tasks.height:
        deadline = _to_milliseconds(tasks["deadline"], workload.epoch_ms).alias("deadline")
        table = table.with_columns(deadline)
    return table, [
        note("repaired", "fractions of a core, rounded up", ids.filter(cores != tasks["cores"])),
        note("invented", "unknown numbers of cores, set to 1", ids.filter(cores.is_null())),
        note("invented", "unknown memory, set to 0", ids.filter(memory.is_null())),
        note("ignored", "resources other than CPU, memory and gpu", resources),
        note("ignored", "names of programs", programs.drop_nulls() if renamed else None),
        note("ignored", "files, which the format cannot represent", workload.files["file"]),
    ]


def _cast_whole(
    column: pl.Series, ids: pl.Series, field: str, dtype: type[pl.Int32] | type[pl.Int64]
) -> pl.Series:
    """Convert a column to whole numbers; a number beyond the range of OpenDC is an error."""
    limit = 2**31 - 1 if dtype is pl.Int32 else 2**63 - 1
    above = (column >= float(limit + 1)).fill_null(value=False)
    if above.any():
        row = int(above.arg_true()[0])
        raise InputError(
            f"{column[row]:g} is above {limit:,}, the maximum of OpenDC",
            kind="not-representable",
            field=f"task {ids[row]!r}: {field}",
        )
    return column.cast(dtype)


def _to_milliseconds(seconds: pl.Series, epoch_ms: int | None = None) -> pl.Series:
    return (seconds * 1000).round().cast(pl.Int64) + (epoch_ms or 0)


def _count_gpus(tasks: pl.DataFrame) -> tuple[pl.Series, list[pl.Series]]:
    """Return the tasks with unsupported resources, and a column of GPUs if there are any."""
    row = pl.int_range(pl.len(), dtype=pl.Int64).alias("row")
    table = tasks.select(row, "id", "resources").explode("resources").unnest("resources")
    table = table.filter(pl.col("amount") > 0)
    others = table.filter(pl.col("name") != "gpu")["id"].unique(maintain_order=True)
    gpus = table.filter(pl.col("name") == "gpu")
    if gpus.is_empty():
        return others, []
    count = np.zeros(tasks.height)
    np.add.at(count, gpus["row"].to_numpy(), gpus["amount"].to_numpy())
    amounts = pl.Series("gpu_count", np.ceil(count))
    return others, [_cast_whole(amounts, tasks["id"], "resources: gpu", pl.Int32)]


def _make_relations(tasks: pl.DataFrame, numbers: pl.Series) -> list[pl.Series]:
    """Make the columns of parents and children; none if there are no dependencies."""
    edges = (
        pl.DataFrame({"child": numbers, "parent": tasks["parents"]})
        .explode("parent")
        .drop_nulls("parent")
    )
    if edges.is_empty():
        return []
    numbering = pl.DataFrame({"parent": tasks["id"], "number": numbers})
    edges = edges.join(numbering, on="parent", maintain_order="left")
    lists = []
    for column, key, value in (("parents", "child", "number"), ("children", "number", "child")):
        grouped = edges.group_by(key, maintain_order=True).agg(pl.col(value).alias(column))
        joined = pl.DataFrame({key: numbers}).join(
            grouped, on=key, how="left", maintain_order="left"
        )
        lists.append(joined[column].fill_null([]))
    return lists


def _make_fragments(
    workload: Workload, numbers: pl.Series, mhz: float
) -> tuple[pl.DataFrame, list[Cleaning]]:
    varying = _add_constant_fragments(workload)
    counts = np.diff(varying.offsets)
    group = np.repeat(np.arange(len(counts)), counts)
    table = pl.DataFrame({"group": group, "duration": varying.durations}).with_columns(
        (pl.col("duration").cum_sum().over("group") * 1000).round().cast(pl.Int64).alias("end")
    )
    table = table.with_columns(
        (pl.col("end") - pl.col("end").shift(1, fill_value=0).over("group")).alias("whole")
    )
    rounded = (table["duration"] * 1000 - table["whole"]).abs() > 1e-6
    max_error = float(((table["duration"] * 1000 - table["whole"]).abs()).max() or 0.0)  # type: ignore[arg-type]
    ids = numbers.gather(varying.tasks).gather(group)
    what = f"durations of fragments, rounded to milliseconds, by {max_error:.3f} ms at most"
    return pl.DataFrame(
        {"id": ids, "duration": table["whole"], "cpu_usage": varying.rates * mhz}
    ), [note("repaired", what, count=int(rounded.sum()))]


def _add_constant_fragments(workload: Workload) -> Fragments:
    """Return the fragments, with one for each task of constant demand, sorted by task."""
    constant = workload.tasks["work"].is_not_null().to_numpy().copy()
    constant[workload.fragment_arrays.tasks] = False
    if not constant.any():
        return workload.fragment_arrays
    varying = workload.fragment_arrays
    rows = np.concatenate(
        [np.repeat(varying.tasks, np.diff(varying.offsets)), np.flatnonzero(constant)]
    )
    limits = workload.tasks["limit"].fill_null(0.0).to_numpy()
    durations = np.concatenate([varying.durations, workload.durations()[constant]])
    rates = np.concatenate([varying.rates, limits[constant]])
    order = np.argsort(rows, kind="stable")
    return Fragments.from_rows(rows[order], durations[order], rates[order])


def _write_folder(
    path: Path,
    tasks: pl.DataFrame,
    fragments: pl.DataFrame,
    platform: Platform | None,
    topology: Any,
) -> tuple[Cleaning, ...]:
    # Paths in a topology are relative to its final folder.
    notes: tuple[Cleaning, ...] = ()
    if platform is not None:
        topology, notes = export_topology(platform, path)
    with write_folder_atomically(path, read_file_list) as folder:
        tasks.write_parquet(to_exact_path(folder / TASKS))
        fragments.write_parquet(to_exact_path(folder / FRAGMENTS))
        if topology is not None:
            text = json.dumps(topology, indent=2) + "\n"
            (folder / TOPOLOGY).write_text(text, encoding="utf-8")
        write_file_list(folder, "opendc")
    return notes
