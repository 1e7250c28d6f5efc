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
from twinloop.trace import Trace
from twinloop.trace.tables import COUNTER_COLUMNS

#: Kinds of rows in the decisions table: events that the policy sees, and its decisions.
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
            f"is no journal of this plan: {error!r}", kind="damaged-file", file=journal
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
    found: dict[str, JournalEntries] = defaultdict(list)
    for entry in log:
        found.setdefault(entry["e"], []).append(entry)  # type: ignore[attr-defined]
    finish = found["finish"][-1] if found["finish"] else None
    last = max((_latest(entry) for entry in log), default=0.0)
    samples = _samples(found["use"])
    parts = _parts(plan, found["start"], found["end"], samples, cut=finish is None)
    tasks = _tasks(plan, found, parts, cut=finish is None)
    readings = Readings.from_passes((entry["t"], entry["rows"]) for entry in found["power"])
    power, notes = reconstruct_with_notes(readings, 0.0, last)
    usage, repaired = compute_usage(plan, samples, parts)
    facts = dict(plan.manifest.facts)
    facts |= finish["facts"] if finish is not None else {}
    facts["run"] = {"wall_s": last} | facts.get("run", {})
    facts["run"] |= {"events": len(log), "complete": finish is not None}
    epoch = found["begin"][0]["epoch_ms"] if found["begin"] else None
    return plan.replace(
        tasks=tasks,
        placements=_placements(plan, parts),
        usage=usage,
        decisions=_decisions(plan, log),
        node_states=_states(plan, found),
        power=power,
    ).with_manifest(
        cleaned=(*notes, repaired, *failure_causes.note_failures(plan, found, tasks)),
        facts=facts,
        epoch_ms=epoch,
    )


def _latest(entry: dict[str, Any]) -> float:
    """The last time in an entry: samples of one entry are read one after the other."""
    rows = entry["rows"] if entry["e"] == "use" else ()
    return max([float(entry["t"]), *(float(row[-1]) for row in rows)])


def _samples(passes: JournalEntries) -> pl.DataFrame:
    schema = dict.fromkeys(EXECUTION_KEY, pl.Int64) | dict.fromkeys(("cpu", "rss", "t"), pl.Float64)
    rows = [row for entry in passes for row in entry["rows"]]
    return pl.DataFrame(rows, schema=schema, orient="row")


def _parts(
    plan: Trace, starts: JournalEntries, ends: JournalEntries, samples: pl.DataFrame, *, cut: bool
) -> pl.DataFrame:
    """Make a row for each execution of a task on a node, with its measurements."""
    began = pl.DataFrame(
        [[e[name] for name in (*EXECUTION_KEY, "cores", "pid", "t")] for e in starts],
        schema=dict.fromkeys(EXECUTION_KEY, pl.Int64)
        | {"cores": pl.Float64, "pid": pl.Int64, "start": pl.Float64},
        orient="row",
    )
    over = pl.DataFrame(
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
    parts = began.join(over, on=EXECUTION_KEY, how="left", maintain_order="left")
    if cut:
        # The end of these executions was not recorded: they end at their last sample.
        gone = pl.col("end").is_null()
        seen = samples.group_by(EXECUTION_KEY).agg(seen=pl.max("t"))
        lately = pl.when(pl.col("seen") > pl.col("start") + TICK).then("seen").otherwise("start")
        parts = parts.join(seen, on=EXECUTION_KEY, how="left", maintain_order="left").with_columns(
            reason=pl.when(gone).then(pl.lit("lost")).otherwise("reason"),
            end=pl.coalesce("end", lately),
        )
    parts = parts.sort(EXECUTION_KEY)
    return parts.with_columns(
        plan.tasks["id"].gather(parts["task"]),
        plan.nodes["node"].gather(parts["machine"]),
    )


def _placements(plan: Trace, parts: pl.DataFrame) -> pl.DataFrame:
    asked = plan.tasks.select("requested_cores", "requested_memory")[parts["task"]]
    share = parts["cores"] / asked["requested_cores"]
    return parts.select(
        pl.col("id").alias("task"),
        "attempt",
        pl.col("node").alias("machine"),
        "cores",
        (asked["requested_memory"] * share).alias("memory"),
        *("start", "end", "reason"),
    )


def _tasks(
    plan: Trace, found: dict[str, JournalEntries], parts: pl.DataFrame, *, cut: bool
) -> pl.DataFrame:
    last = parts.filter(pl.col("attempt") == pl.col("attempt").max().over("task"))
    ran = (
        last.group_by("task", maintain_order=True)
        .agg(
            (pl.max("end") - pl.min("start")).alias("run_time"),
            _total("peak").alias("memory_used"),
            # Of several nodes: the code of a kill, else that of a failure.
            pl.coalesce(
                pl.col("code").filter(pl.col("code") < 0).first(),
                pl.col("code").filter(pl.col("code") != 0).first(),
                pl.col("code").max(),
            ).alias("exit_code"),
            pl.first("pid"),
        )
        .join(_counts(parts), on="task", how="left", maintain_order="left")
    )
    status = {e["task"]: e["status"] for e in found["over"]}
    if cut:
        status = _where_cut(found, last) | status
        for task, planned in enumerate(plan.tasks["status"]):
            status.setdefault(task, planned or "cancelled")
    rows = pl.int_range(pl.len(), dtype=pl.Int64).alias("task")
    new = ("run_time", "memory_used", "exit_code", "pid", "cpu_time", *COUNTER_COLUMNS)
    return (
        plan.tasks.drop(new)
        .with_columns(
            rows,
            # A task that was never submitted, because no node can run it or the run was over
            # before, has its planned time.
            pl.coalesce(_at(found["submit"], plan.tasks.height), "submit_recorded").alias("submit"),
            _at(found["ready"], plan.tasks.height).alias("ready"),
            pl.coalesce(
                pl.Series([status.get(t) for t in range(plan.tasks.height)], dtype=pl.String),
                "status",
            ).alias("status"),
        )
        .join(ran, on="task", how="left", maintain_order="left")
        .drop("task")
    )


def _where_cut(found: dict[str, JournalEntries], last: pl.DataFrame) -> dict[int, str]:
    """The status of tasks that were placed when the journal ends."""
    had = Counter(entry["task"] for entry in found["place"])
    had.subtract(entry["task"] for entry in (*found["failed"], *found["preempt"]))
    running = last.filter(pl.col("reason") == "lost")["task"]
    completed = last.group_by("task").agg((pl.col("reason") == "completed").all())
    ended = dict(completed.iter_rows())
    return {task: "completed" if ended.get(task) else "lost" for task in {*(+had), *running}}


def _counts(parts: pl.DataFrame) -> pl.DataFrame:
    """CPU time and counters of tasks, over all their nodes and attempts."""
    return parts.group_by("task").agg(
        _total("cpu").alias("cpu_time"), *(_total(name) for name in COUNTER_COLUMNS)
    )


def _total(name: str) -> pl.Expr:
    """A sum; null if a summand is unknown, as the sum of the others would be too small."""
    return pl.when(pl.col(name).is_not_null().all()).then(pl.sum(name)).alias(name)


def _at(events: JournalEntries, count: int) -> pl.Series:
    """The time of the first such event of each task."""
    times = np.full(count, np.nan)
    for event in reversed(events):
        times[event["task"]] = event["t"]
    return pl.Series(times).fill_nan(None)


def _decisions(plan: Trace, log: JournalEntries) -> pl.DataFrame:
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


def _states(plan: Trace, found: dict[str, JournalEntries]) -> pl.DataFrame:
    """The outages of nodes."""
    nodes = plan.nodes["node"].to_list()
    rows: list[list[Any]] = []
    left: dict[int, list[Any]] = {}
    changes = sorted((*found["close"], *found["open"]), key=lambda entry: float(entry["t"]))
    for entry in changes:
        machine = entry["machine"]
        if entry["e"] == "close" and machine not in left:
            left[machine] = [nodes[machine], entry["t"], None, entry.get("state", "down")]
            rows.append(left[machine])
        elif entry["e"] == "open" and machine in left:
            left.pop(machine)[2] = entry["t"]
    schema = {"node": pl.String, "start": pl.Float64, "end": pl.Float64, "state": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
