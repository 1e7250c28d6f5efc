"""Rules on references between tables: referenced rows exist, dependencies have no cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from twinloop.trace.dependency_cycles import find_blocked_tasks
from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import TIME_TOLERANCE, Violations, select_rows


def check_placements_of_tasks(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `placements-of-tasks`."""
    known = prepared.placements.filter(pl.col("task").is_not_null())
    if known.height:
        rows = select_rows(known, pl.col("task_row").is_null()).select("row")
        yield Violations("placements", known.height, rows, "no task is called '{task}'")


def check_samples_of_tasks(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `samples-of-tasks`."""
    named = prepared.table("usage").filter(
        pl.col("task").is_not_null() | pl.col("pid").is_not_null()
    )
    if named.height:
        rows = named.join(prepared.ids, on="task", how="anti").select("row")
        message = "the sample of process {pid}, task {task}, belongs to no task"
        yield Violations("usage", named.height, rows, message)


def check_known_parents(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `known-parents`."""
    edges = prepared.edges
    if edges.height:
        missing = edges.filter(pl.col("parent_row").is_null()).group_by("row").agg("parent")
        rows = missing.select("row", names=pl.col("parent").list.join(", "))
        checked = edges["row"].n_unique()
        yield Violations("tasks", checked, rows, "task '{id}' waits for {names}: no such task")


def check_acyclic(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `acyclic`."""
    edges = prepared.edges.drop_nulls("parent_row")
    if not edges.height:
        return
    checked = edges["row"].n_unique()
    parents, children = (edges[name].to_numpy().astype(np.int64) for name in ("parent_row", "row"))
    blocked, cycle = find_blocked_tasks(parents, children, prepared.trace.tasks.height)
    names = prepared.trace.tasks["id"].gather(cycle).fill_null("(no id)").to_list()
    rows = pl.DataFrame({"row": blocked}, schema={"row": pl.UInt32}).with_columns(
        cycle=pl.lit(" -> ".join(names))
    )
    yield Violations("tasks", checked, rows, "task '{id}' can never be ready: {cycle}")


def check_parents_first(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `parents-first`."""
    spans = prepared.spans
    edges = (
        prepared.edges.drop_nulls("parent_row")
        .join(spans.select(row="task_row", start="start"), on="row")
        .join(spans.select(parent_row="task_row", parent_end="end"), on="parent_row")
    )
    if edges.height:
        late = select_rows(edges, pl.col("parent_end") - pl.col("start") > TIME_TOLERANCE)
        rows = (
            late.sort("parent_end")
            .group_by("row")
            .last()
            .select("row", "parent", "start", "parent_end")
        )
        message = (
            "task '{id}' starts at {start} s, but its parent '{parent}' ends at {parent_end} s"
        )
        yield Violations("tasks", edges["row"].n_unique(), rows, message)


def check_known_files(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `known-files`."""
    uses = prepared.table("task_files").drop_nulls(["task", "file"])
    if uses.height:
        files = prepared.trace.files.select("file", exists=pl.lit(True)).unique()
        joined = uses.join(prepared.ids, on="task", how="left").join(files, on="file", how="left")
        rows = joined.filter(pl.col("task_row").is_null() | pl.col("exists").is_null()).select(
            "row"
        )
        yield Violations(
            "task_files", uses.height, rows, "task '{task}' or file '{file}' does not exist"
        )


def check_known_nodes(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `known-nodes`."""
    nodes = prepared.trace.nodes.select("node").drop_nulls()
    if not nodes.height:
        return
    instances = prepared.trace.instances.select(node="instance").drop_nulls()
    machines = pl.concat([nodes, instances]) if instances.height else nodes
    for table, column, known in (
        ("placements", "machine", machines),
        ("usage", "machine", machines),
        ("node_states", "node", nodes),
        ("node_periods", "node", nodes),
        ("instances", "host", nodes),
        ("instance_states", "instance", machines),
        ("power", "node", nodes),
    ):
        references = prepared.table(table).select("row", column).drop_nulls()
        if references.height:
            rows = references.join(known, left_on=column, right_on="node", how="anti").select("row")
            yield Violations(table, references.height, rows, f"no node is called '{{{column}}}'")
    places = _list_places(prepared)
    if places is None:
        return
    ends = pl.concat([places, machines]).unique()
    for column in ("from", "to"):
        references = prepared.table("transfers").select("row", column).drop_nulls()
        if references.height:
            rows = references.join(ends, left_on=column, right_on="node", how="anti").select("row")
            message = f"no node, instance or store is called '{{{column}}}'"
            yield Violations("transfers", references.height, rows, message)


def _list_places(prepared: PreparedTables) -> pl.DataFrame | None:
    """List the stores and switches of a simulated platform; None if it is not known.

    No table lists them; in a merged trace they are unknown.
    """
    platform = (prepared.manifest.scenario or {}).get("platform")
    if not isinstance(platform, Mapping):
        return None
    network = platform.get("network")
    switches = network.get("switches") if isinstance(network, Mapping) else None
    stores = [each.get("name") for each in platform.get("stores") or ()]
    stored = prepared.trace.files["store"].drop_nulls().unique()
    names = pl.Series([*stores, *(switches or ())], dtype=pl.String)
    return pl.DataFrame({"node": pl.concat([names, stored])})


def check_pids_apart(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `pids-apart`."""
    pids = prepared.table("tasks").select(task_row="row", pid="pid").drop_nulls()
    executions = (
        prepared.placements.join(pids, on="task_row")
        .drop_nulls(["start", "end"])
        .sort("machine", "pid", "start", "row")
    )
    if executions.height:
        previous = {
            name: pl.col(source).shift(1).over("machine", "pid")
            for name, source in (("other", "task"), ("other_row", "task_row"))
        }
        until = pl.col("end").cum_max().shift(1).over("machine", "pid")
        joined = executions.with_columns(**previous, until=until)
        clash = (pl.col("until") > pl.col("start")) & (pl.col("other_row") != pl.col("task_row"))
        rows = select_rows(joined, clash).select("row", "pid", "other")
        message = "task '{task}' starts with process id {pid}, which task '{other}' still has"
        yield Violations("placements", executions.height, rows, message)
