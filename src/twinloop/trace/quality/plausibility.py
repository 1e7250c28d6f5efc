"""Rules on amounts: capacity of nodes, requests of tasks, run times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from twinloop.trace.manifest import Manifest
from twinloop.trace.quality.prepared_tables import PreparedTables
from twinloop.trace.quality.rule import Violations, name_conditions, select_rows
from twinloop.trace.recorded_runs import collect_runs

#: Tolerances of CPU times, as a factor and in seconds: they are counted in ticks of 10 ms, and are
#: not read exactly at the end of a window.
CPU_TOLERANCE: Final = 1.05
CPU_TICK: Final = 0.01
#: Policies of which the requested time of a task is a prediction; those of `policy.brokers`.
BROKERS: Final = ("asap", "afap", "list", "deadline", "budget")


def check_cpu_possible(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `cpu-possible`."""
    capacity = pl.col("limit") * pl.col("dt")
    yield from _check_cpu(prepared, pl.col("cpu") > capacity * CPU_TOLERANCE + CPU_TICK)


def check_cpu_exact(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `cpu-exact`."""
    capacity = pl.col("limit") * pl.col("dt")
    above = pl.col("cpu") > capacity * (1 + 1e-9) + 1e-9
    yield from _check_cpu(prepared, above & (pl.col("cpu") <= capacity * CPU_TOLERANCE + CPU_TICK))


def check_memory_possible(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `memory-possible`."""
    message = "task '{task}' has {rss} bytes at {t} s; at most {limit} bytes were possible"
    yield from _check_node_limit(
        prepared, "rss", "memory", pl.col("rss") > pl.col("limit"), message
    )


def check_overcommit(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `overcommit`."""
    nodes = prepared.table("nodes").select(machine="node", limit="cores").drop_nulls()
    running = (
        prepared.table("placements")
        .select("row", "machine", "cores", "start", "end")
        .drop_nulls(["machine", "cores", "start"])
        .join(nodes.unique("machine"), on="machine")
    )
    if not running.height:
        return
    begins = running.select("row", "machine", "limit", t="start", change="cores")
    ends = running.drop_nulls("end").select(
        "row", "machine", "limit", t="end", change=-pl.col("cores")
    )
    # Executions that end at an instant free their cores for executions that start at it.
    changes = pl.concat([begins, ends]).sort("machine", "t", "change")
    busy = changes.with_columns(busy=pl.col("change").cum_sum().over("machine"))
    above = (pl.col("change") > 0) & (pl.col("busy") > pl.col("limit") * (1 + 1e-9))
    rows = select_rows(busy, above).select("row", "busy", "limit")
    message = "at {start} s node '{machine}' has {busy} cores in use, but only {limit} cores"
    yield Violations("placements", running.height, rows, message)


def check_fits_no_node(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `fits-no-node`."""
    nodes = prepared.table("nodes")
    executed = prepared.placements.drop_nulls("start")
    tasks = (
        prepared.table("tasks")
        .join(executed, left_on="id", right_on="task", how="anti")
        .with_columns(spread=pl.col("requested_nodes").clip(lower_bound=1).fill_null(1))
    )
    # A node of unknown size may be large enough for any request.
    sizes = [name for name in ("cores", "memory") if nodes.height and not nodes[name].null_count()]
    if not sizes:
        return
    per_node = {name: pl.col(f"requested_{name}") / pl.col("spread") for name in sizes}
    largest = nodes.select(pl.col(sizes).max() * (1 + 1e-9)).row(0, named=True)
    requesting = tasks.filter(pl.any_horizontal(share.is_not_null() for share in per_node.values()))
    if requesting.height:
        above = {name: share > largest[name] for name, share in per_node.items()}
        rows = select_rows(requesting, pl.any_horizontal(above.values()))
        message = "task '{id}' requests more {what} per node than any node has"
        rows = rows.select("row", what=name_conditions(above))
        yield Violations("tasks", requesting.height, rows, message)


def check_runnable(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `runnable`."""
    if prepared.is_recorded or not prepared.table("tasks").height:
        return
    tasks = collect_runs(prepared.trace).with_row_index("row")
    # Usage replaces a run time; without any processors in the log, each task has one core.
    missing: dict[str, pl.Expr] = {}
    if tasks["processors"].count():
        missing["processors"] = pl.col("processors").is_null()
    if tasks["run_time"].count() or not prepared.table("usage").height:
        missing["run time"] = pl.col("run_time").is_null()
    if missing:
        rows = select_rows(tasks, pl.any_horizontal(missing.values()))
        message = "task '{id}' cannot be run: it has no {missing}"
        requested = prepared.table("tasks")["requested_time"]
        if not tasks["run_time"].count() and requested.count():
            message += " (with `workload: inject: predictions` tasks run as long as requested)"
        yield Violations(
            "tasks", tasks.height, rows.select("row", missing=name_conditions(missing)), message
        )


def check_within_requested_time(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `within-requested-time`."""
    if has_predicted_times(prepared.manifest):
        return
    both = prepared.table("tasks").drop_nulls(["run_time", "requested_time"])
    if both.height:
        rows = select_rows(both, pl.col("run_time") > pl.col("requested_time")).select("row")
        message = "task '{id}' ran for {run_time} s, but requested {requested_time} s"
        yield Violations("tasks", both.height, rows, message)


def has_predicted_times(manifest: Manifest) -> bool:
    """Whether the requested times of a run are predictions, which are no limits.

    >>> has_predicted_times(Manifest(scenario={"policy": {"name": "asap"}}))
    True
    >>> has_predicted_times(Manifest(scenario={"policy": {"name": "easy"}}))
    False
    """
    if manifest.source is not None and manifest.source.format == "schlouder":
        return True
    scenario = manifest.scenario or {}
    workload, policy = scenario.get("workload"), scenario.get("policy")
    has_errors = isinstance(workload, dict) and workload.get("prediction_errors") is not None
    return has_errors or (isinstance(policy, dict) and policy.get("name") in BROKERS)


def check_zero_length(prepared: PreparedTables) -> Iterator[Violations]:
    """Check the rule `zero-length`."""
    known = prepared.table("tasks").drop_nulls("run_time")
    if known.height:
        rows = select_rows(known, pl.col("run_time") == 0).select("row")
        yield Violations("tasks", known.height, rows, "task '{id}' has a run time of 0 s")


def _check_cpu(prepared: PreparedTables, condition: pl.Expr) -> Iterator[Violations]:
    message = "task '{task}' used {cpu} CPU s in {dt} s; at most {limit} cores were possible"
    yield from _check_node_limit(prepared, "cpu", "cores", condition & (pl.col("dt") > 0), message)


def _check_node_limit(
    prepared: PreparedTables, usage_column: str, node_column: str, condition: pl.Expr, message: str
) -> Iterator[Violations]:
    """Yield the samples for which `condition` is true.

    The condition may use the column `limit`: the amount of the resource that the node of the sample
    has, or all nodes together if its node is unknown.
    """
    nodes = prepared.table("nodes").select("mhz", limit=node_column)
    reference = prepared.manifest.reference_mhz
    if node_column == "cores" and reference is not None:
        nodes = nodes.with_columns(pl.col("limit") * pl.col("mhz").fill_null(reference) / reference)
    checked = prepared.samples[usage_column].count()
    if checked and nodes.height and not nodes["limit"].null_count():
        limit = nodes["limit"].gather(prepared.samples["node_row"]).fill_null(nodes["limit"].sum())
        rows = select_rows(prepared.samples.with_columns(limit=limit), condition)
        yield Violations("usage", checked, rows.select("row", "limit"), message)
