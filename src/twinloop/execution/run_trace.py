"""The Trace of a real run, from its plan and its journal, complete or interrupted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop.description.errors import DamagedTraceError
from twinloop.description.files import require_input
from twinloop.description.input_limit import check_input_limit
from twinloop.execution import failure_causes
from twinloop.execution.cpu_accounting import TICK, compute_usage
from twinloop.execution.power import Readings
from twinloop.execution.power.power_table import reconstruct_with_notes
from twinloop.execution.run_folder import JOURNAL, PLAN
from twinloop.execution.run_journal import EXECUTION_KEY, JournalEntries, read_entries
from twinloop.execution.transfer_records import (
    add_copies,
    build_transfer_table,
    note_other_sizes,
    update_sizes,
)
from twinloop.trace import Trace
from twinloop.trace.tables import COUNTER_COLUMNS

#: Kinds of rows in the decisions table: events that are reported to the policy, and its decisions.
DECISION_KINDS: Final = (
    *("ready", "over", "failed", "open", "close", "ask"),
    *("place", "preempt", "kill", "set-state on", "set-state off", "reserve"),
)


def read_unfinished_run(path: Path) -> Trace:
    """Read the Trace of a run that was interrupted, up to the end of its journal."""
    journal = path / JOURNAL
    plan = Trace.load(path / PLAN)
    require_input(journal)
    size = journal.stat().st_size
    check_input_limit(journal, 10 * size, f"has {size:,} bytes")  # Python objects take more memory
    try:
        return trace_from_journal(plan, read_entries(journal))
    except (
        *(LookupError, TypeError, ValueError, AttributeError, OverflowError),
        pl.exceptions.PolarsError,
    ) as error:
        raise DamagedTraceError(
            f"is not a journal of this plan: {error!r}", kind="damaged-file", file=journal
        ) from None
    except OSError as error:
        raise DamagedTraceError(
            f"cannot be read: {error.strerror}", kind="damaged-file", file=journal
        ) from None


def trace_from_journal(plan: Trace, journal: Iterable[dict[str, Any]]) -> Trace:
    """Make the Trace of a run from its plan and its journal.

    A journal without a finish entry is of an interrupted run: tasks that ran then are `lost`,
    tasks that waited are `cancelled`.
    """
    log = list(journal)
    entries: dict[str, JournalEntries] = defaultdict(list)
    for entry in log:
        entries.setdefault(entry["e"], []).append(entry)  # type: ignore[attr-defined]
    plan = _add_tasks(plan, entries["add"])
    finish = entries["finish"][-1] if entries["finish"] else None
    end = max((_find_last_time(entry) for entry in log), default=0.0)
    samples = _build_samples(entries["use"])
    executions = _build_executions(plan, entries, samples, is_interrupted=finish is None)
    tasks = _build_task_table(plan, entries, executions, is_interrupted=finish is None)
    readings = Readings.from_passes((entry["t"], entry["rows"]) for entry in entries["power"])
    power, notes = reconstruct_with_notes(readings, 0.0, end)
    usage, repaired = compute_usage(plan, samples, executions)
    facts = dict(plan.manifest.facts)
    facts |= finish["facts"] if finish is not None else {}
    facts["run"] = {"wall_s": end} | facts.get("run", {})
    facts["run"] |= {"events": len(log), "complete": finish is not None}
    epoch = entries["begin"][0]["epoch_ms"] if entries["begin"] else None
    return plan.replace(
        tasks=tasks,
        placements=_build_placement_table(plan, executions),
        usage=usage,
        decisions=_build_decision_table(plan, log),
        node_states=_build_state_table(plan, entries),
        power=power,
        transfers=build_transfer_table(plan, entries["transfer"]),
        files=update_sizes(plan.files, entries["transfer"]),
    ).with_manifest(
        cleaned=(
            *(*notes, repaired),
            *failure_causes.note_failures(plan, entries, tasks),
            *note_other_sizes(plan.files, entries["transfer"]),
        ),
        facts=facts,
        epoch_ms=epoch,
    )


def _add_tasks(plan: Trace, added: JournalEntries) -> Trace:
    """Add the tasks that the source has added to the run."""
    if not added:
        return plan
    rows = pl.DataFrame([entry["columns"] for entry in added], schema=plan.tasks.schema)
    return plan.replace(tasks=pl.concat([plan.tasks, rows]))


def _find_last_time(entry: dict[str, Any]) -> float:
    """Return the last time in an entry: samples of one entry are read one after the other."""
    rows = entry["rows"] if entry["e"] == "use" else ()
    return max([float(entry["t"]), *(float(row[-1]) for row in rows)])


def _build_samples(passes: JournalEntries) -> pl.DataFrame:
    schema = dict.fromkeys(EXECUTION_KEY, pl.Int64) | dict.fromkeys(("cpu", "rss", "t"), pl.Float64)
    rows = [row for entry in passes for row in entry["rows"]]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _build_executions(
    plan: Trace,
    entries: dict[str, JournalEntries],
    samples: pl.DataFrame,
    *,
    is_interrupted: bool,
) -> pl.DataFrame:
    """Make a row for each execution of a task on a node, with its measurements.

    Its processes run from `launched` to `exited`; before and after them its files are copied.
    """
    starts, ends = entries["start"], entries["end"]
    started = pl.DataFrame(
        [[e[name] for name in (*EXECUTION_KEY, "cores", "pid", "t")] for e in starts],
        schema=dict.fromkeys(EXECUTION_KEY, pl.Int64)
        | {"cores": pl.Float64, "pid": pl.Int64, "start": pl.Float64},
        orient="row",
    )
    ended = pl.DataFrame(
        [
            [
                *(e[name] for name in EXECUTION_KEY),
                *(e["t"], e["code"], e["reason"], e["cpu"], e["peak"], *e["switches"]),
                *(*e["faults"], *(e["counters"].get(name) for name in tuple(COUNTER_COLUMNS)[4:])),
            ]
            for e in ends
        ],
        schema=dict.fromkeys(EXECUTION_KEY, pl.Int64)
        | {"end": pl.Float64, "code": pl.Int64, "reason": pl.String}
        | {"cpu": pl.Float64, "peak": pl.Float64}
        | dict.fromkeys(COUNTER_COLUMNS, pl.Int64),
        orient="row",
    )
    executions = started.join(ended, on=EXECUTION_KEY, how="left", maintain_order="left")
    executions = add_copies(executions, entries)
    if is_interrupted:
        # The end of these executions was not recorded: they end at their last sample.
        has_no_end = pl.col("end").is_null()
        last_samples = samples.group_by(EXECUTION_KEY).agg(seen=pl.max("t"))
        last_known = (
            pl.when(pl.col("seen") > pl.col("start") + TICK).then("seen").otherwise("start")
        )
        executions = executions.join(
            last_samples, on=EXECUTION_KEY, how="left", maintain_order="left"
        ).with_columns(
            reason=pl.when(has_no_end).then(pl.lit("lost")).otherwise("reason"),
            end=pl.coalesce("end", "exited", last_known),
            exited=pl.coalesce("exited", last_known),
        )
    executions = executions.sort(EXECUTION_KEY)
    return executions.with_columns(
        plan.tasks["id"].gather(executions["task"]),
        plan.nodes["node"].gather(executions["machine"]),
    )


def _build_placement_table(plan: Trace, executions: pl.DataFrame) -> pl.DataFrame:
    requested = plan.tasks.select("requested_cores", "requested_memory")[executions["task"]]
    share = executions["cores"] / requested["requested_cores"]
    return executions.select(
        pl.col("id").alias("task"),
        "attempt",
        pl.col("node").alias("machine"),
        "cores",
        (requested["requested_memory"] * share).alias("memory"),
        *("start", "end", "reason"),
    )


def _build_task_table(
    plan: Trace,
    entries: dict[str, JournalEntries],
    executions: pl.DataFrame,
    *,
    is_interrupted: bool,
) -> pl.DataFrame:
    last_attempts = executions.filter(pl.col("attempt") == pl.col("attempt").max().over("task"))
    measured = (
        last_attempts.group_by("task", maintain_order=True)
        .agg(
            (pl.max("end") - pl.min("start")).alias("run_time"),
            _sum_if_known("peak").alias("memory_used"),
            # Of several nodes: the code of a kill, else that of a failure.
            pl.coalesce(
                pl.col("code").filter(pl.col("code") < 0).first(),
                pl.col("code").filter(pl.col("code") != 0).first(),
                pl.col("code").max(),
            ).alias("exit_code"),
            pl.first("pid"),
        )
        .join(_sum_counters(executions), on="task", how="left", maintain_order="left")
    )
    status = {e["task"]: e["status"] for e in entries["over"]}
    if is_interrupted:
        status = _find_interrupted_statuses(entries, last_attempts) | status
        for task, planned in enumerate(plan.tasks["status"]):
            status.setdefault(task, planned or "cancelled")
    rows = pl.int_range(pl.len(), dtype=pl.Int64).alias("task")
    measured_columns = ("run_time", "memory_used", "exit_code", "pid", "cpu_time", *COUNTER_COLUMNS)
    return (
        plan.tasks.drop(measured_columns)
        .with_columns(
            rows,
            # A task that was never submitted, because no node can run it or the run ended before,
            # has its planned submission time.
            pl.coalesce(
                _find_first_times(entries["submit"], plan.tasks.height), "submit_recorded"
            ).alias("submit"),
            _find_first_times(entries["ready"], plan.tasks.height).alias("ready"),
            pl.coalesce(
                pl.Series([status.get(t) for t in range(plan.tasks.height)], dtype=pl.String),
                "status",
            ).alias("status"),
        )
        .join(measured, on="task", how="left", maintain_order="left")
        .drop("task")
    )


def _find_interrupted_statuses(
    entries: dict[str, JournalEntries], last_attempts: pl.DataFrame
) -> dict[int, str]:
    """Return the status of the tasks that were placed when the journal ends."""
    placed = Counter(entry["task"] for entry in entries["place"])
    placed.subtract(entry["task"] for entry in (*entries["failed"], *entries["preempt"]))
    running = last_attempts.filter(pl.col("reason") == "lost")["task"]
    completed = last_attempts.group_by("task").agg((pl.col("reason") == "completed").all())
    has_completed = dict(completed.iter_rows())
    return {
        task: "completed" if has_completed.get(task) else "lost" for task in {*(+placed), *running}
    }


def _sum_counters(executions: pl.DataFrame) -> pl.DataFrame:
    """Return the CPU time and the counters of tasks, over all their nodes and attempts."""
    return executions.group_by("task").agg(
        _sum_if_known("cpu").alias("cpu_time"), *(_sum_if_known(name) for name in COUNTER_COLUMNS)
    )


def _sum_if_known(name: str) -> pl.Expr:
    """Return a sum; null if a summand is unknown, as the sum of the others would be too small."""
    return pl.when(pl.col(name).is_not_null().all()).then(pl.sum(name)).alias(name)


def _find_first_times(events: JournalEntries, count: int) -> pl.Series:
    """Return the time of the first of these events of each task (s); null if it has none."""
    times = np.full(count, np.nan)
    for event in reversed(events):
        times[event["task"]] = event["t"]
    return pl.Series(times).fill_nan(None)


def _build_decision_table(plan: Trace, log: JournalEntries) -> pl.DataFrame:
    tasks, nodes = plan.tasks["id"].to_list(), plan.nodes["node"].to_list()
    policy = plan.manifest.facts.get("run", {}).get("policy")
    rows = []
    for entry in log:
        if entry["e"] not in DECISION_KINDS:
            continue
        subject = None if entry.get("task") is None else tasks[entry["task"]]
        targets = entry.get("on") or [[entry.get("machine"), None]]
        for machine, _ in targets:
            target = entry.get("why") if machine is None else nodes[machine]
            target = target if entry["e"] != "over" else entry["status"]
            rows.append((entry["t"], policy, entry["e"], subject, target))
    names = ("t", "policy", "kind", "subject", "target")
    schema = dict.fromkeys(names, pl.String) | {"t": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _build_state_table(plan: Trace, entries: dict[str, JournalEntries]) -> pl.DataFrame:
    """Build the table of the outages of nodes."""
    nodes = plan.nodes["node"].to_list()
    rows: list[list[Any]] = []
    open_outages: dict[int, list[Any]] = {}
    changes = sorted((*entries["close"], *entries["open"]), key=lambda entry: float(entry["t"]))
    for entry in changes:
        machine = entry["machine"]
        if entry["e"] == "close" and machine not in open_outages:
            open_outages[machine] = [nodes[machine], entry["t"], None, entry.get("state", "down")]
            rows.append(open_outages[machine])
        elif entry["e"] == "open" and machine in open_outages:
            open_outages.pop(machine)[2] = entry["t"]
    schema = {"node": pl.String, "start": pl.Float64, "end": pl.Float64, "state": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
