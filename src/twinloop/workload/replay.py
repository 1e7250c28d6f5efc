"""Conversion of a Trace to a Workload, for a replay."""

from __future__ import annotations

from typing import get_args

import numpy as np
import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.formats.format_limits import number_tasks
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.tables import COMMAND_COLUMNS
from twinloop.trace.trace import Trace, require_trace
from twinloop.workload.cleaning_notes import note
from twinloop.workload.clocks import Clocks
from twinloop.workload.demand import TIME_TOLERANCE, Demand, demand_from_samples
from twinloop.workload.fragments import Floats, Fragments, find_rows
from twinloop.workload.oversubscription import lift_limits
from twinloop.workload.transfer_times import leave_out_transfers, note_transfers, select_transfers
from twinloop.workload.workload import Missing, Workload

#: A demand above a whole number of cores by less than this is rounded down to it: the windows of
#: samples are not exact.
SLACK = 0.05

NO_ESTIMATE = "tasks without a requested time: it is set to the run time"


def workload_from_trace(trace: Trace, *, missing: Missing, reference_mhz: float | None) -> Workload:
    """Create the workload of a trace; see `Workload.from_trace`."""
    if missing not in get_args(Missing):
        choices = ", ".join(get_args(Missing))
        raise InputError(
            f"unknown value {missing!r}",
            kind="not-a-choice",
            field="missing",
            remedy=f"use one of: {choices}",
        )
    number_tasks(require_trace(trace))
    clocks = Clocks(trace, reference_mhz)
    tasks = _select_task_columns(trace)
    tasks, notes = _keep_tasks(tasks, tasks["submit"].is_not_null(), "no submission time")
    moved = select_transfers(trace, trace.task_files)
    notes += (note_transfers(moved),)
    sampled = missing == "leave" or not trace.usage.is_empty()
    demand = _compute_sampled_demand(trace, tasks, clocks) if sampled else None
    speed, speed_notes = clocks.task_speeds(tasks["id"])
    tasks = tasks.with_columns(speed.alias("speed"))
    notes += speed_notes
    if demand is None:
        tasks, more = _set_constant_demand(tasks)
        notes += more
        fragments = Fragments.from_rows([], [], [])
    else:
        notes += demand.cleaned
        tasks, fragments, more = _set_varying_demand(trace, tasks, demand, missing)
        notes += more
    tasks, estimates = _set_requested_times(tasks, fragments)
    tasks, more = _remove_unknown_parents(tasks)
    # The values of a generated trace are declared, not measured.
    measured = trace.manifest.kind != "generated"
    quantities = {
        "run times": True,
        "usage": demand is not None,
        "memory": demand is not None and demand.memory.height > 0,
        "requested times": estimates.count > 0,
        "file sizes": moved.height > 0,
    }
    return Workload(
        tasks=tasks,
        fragments=fragments,
        files=trace.files,
        task_files=_select_task_files(trace, tasks),
        reference_mhz=clocks.reference,
        epoch_ms=trace.manifest.epoch_ms,
        cleaned=tuple(
            n for n in (*notes, estimates, *more, _note_incomplete(trace, tasks)) if n.count
        ),
        injected=tuple(name for name, used in quantities.items() if used and measured),
        skipped=trace.tasks.height - tasks.height,
    )


def _select_task_files(trace: Trace, tasks: pl.DataFrame) -> pl.DataFrame:
    """Select the files of these tasks."""
    files = trace.task_files
    if files.is_empty():
        return files
    return files.join(tasks, left_on="task", right_on="id", how="semi")


def _select_task_columns(trace: Trace) -> pl.DataFrame:
    """Select the columns of a workload, and `start`, `stop` and used memory of the last attempt."""
    runs = leave_out_transfers(trace, collect_runs(trace), trace.task_files).select(
        "run_time",
        pl.col("processors").alias("cores"),
        pl.col("end").alias("end_recorded"),
        pl.col("last_start").alias("start"),
        pl.col("last_end").alias("stop"),
    )
    return trace.tasks.with_columns(runs.get_columns()).select(
        *("id", "name", "user", "group", "queue", "partition", "array", "submit", "cores"),
        pl.col("requested_nodes").alias("nodes"),
        pl.col("requested_memory").alias("memory"),
        *("resources", "requested_time", "requested_mhz"),
        pl.lit(None, dtype=pl.Float64).alias("work"),
        pl.lit(None, dtype=pl.Float64).alias("limit"),
        *("kind", "deadline", "parents", "think_time", "run_time", "end_recorded"),
        *COMMAND_COLUMNS,
        *("start", "stop", "memory_used"),
    )


def _keep_tasks(
    tasks: pl.DataFrame, good: pl.Series, why: str
) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    bad = tasks["id"].filter(~good)
    cleaning = note("skipped", f"tasks that cannot be run: {why}", bad)
    return (tasks.filter(good) if bad.len() else tasks), (cleaning,)


def _set_constant_demand(tasks: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    """Set a constant demand on all cores, for a log without usage."""
    assumed: tuple[Cleaning, ...] = ()
    if tasks["cores"].null_count() == tasks.height:
        assumed = (note("assumed", "tasks without a number of cores: one core each", tasks["id"]),)
        tasks = tasks.with_columns(pl.lit(1.0).alias("cores"))
    tasks, no_cores = _keep_tasks(
        tasks, tasks["cores"].is_not_null(), "no positive number of cores"
    )
    tasks, no_run_time = _keep_tasks(tasks, tasks["run_time"].is_not_null(), "no run time")
    speed = pl.col("speed").fill_null(1.0)
    tasks = tasks.with_columns(
        (pl.col("run_time") * pl.col("cores") * speed).alias("work"),
        (pl.col("cores") * speed).alias("limit"),
        pl.coalesce("memory", "memory_used").alias("memory"),
    ).drop("start", "stop", "memory_used")
    return tasks, assumed + no_cores + no_run_time


def _compute_sampled_demand(trace: Trace, tasks: pl.DataFrame, clocks: Clocks) -> Demand:
    """Compute the demand of tasks from the samples of a trace.

    Samples of tasks without a known start and end are taken as consecutive.
    """
    usage = trace.usage
    rows = find_rows(tasks["id"], usage["task"])
    usage = usage.with_columns(pl.Series("row", rows), (pl.col("cpu") / pl.col("dt")).alias("rate"))
    has_task = rows >= 0
    del rows
    usable = (
        ((usage["dt"] > 0) & usage["rate"].is_finite() & (usage["rate"] >= 0))
        .fill_null(value=False)
        .to_numpy()
    )
    notes = [
        note("skipped", "samples of unknown or skipped tasks", count=int((~has_task).sum())),
        note(
            "skipped",
            "samples without a positive duration or a valid CPU time",
            count=int((has_task & ~usable).sum()),
        ),
    ]
    if not (has_task & usable).all():
        usage = usage.filter(pl.Series(has_task & usable))
    usage, more = clocks.to_reference(usage)
    notes += more
    has_times = tasks["start"].is_not_null()
    if not has_times.any():
        return _make_consecutive_fragments(usage, tuple(notes))
    window = pl.DataFrame(
        {
            "row": np.arange(tasks.height),
            "start": tasks["start"],
            "stop": tasks["stop"],
        }
    ).filter(has_times)
    end = pl.col("t")
    timed = usage.join(window, on="row", maintain_order="left").filter(end.is_not_null())
    timed_demand = demand_from_samples(
        timed.with_columns((end - pl.col("dt")).alias("begin"), end.alias("end"))
    )
    others = usage.join(window, on="row", how="anti", maintain_order="left")
    untimed_demand = _make_consecutive_fragments(others, ())
    without_time = usage.height - timed.height - others.height
    notes.append(note("skipped", "samples without a time", count=without_time))
    notes.append(
        note(
            "assumed",
            "tasks without start or end: their samples are consecutive",
            count=len(untimed_demand.fragments.tasks),
        )
    )
    parts = (timed_demand.fragments, untimed_demand.fragments)
    fragments = Fragments.from_rows(
        np.concatenate([np.repeat(f.tasks, np.diff(f.offsets)) for f in parts]),
        np.concatenate([f.durations for f in parts]),
        np.concatenate([f.rates for f in parts]),
    )
    memory = pl.concat([timed_demand.memory, untimed_demand.memory])
    return Demand(fragments, memory, (*notes, *timed_demand.cleaned))


def _make_consecutive_fragments(usage: pl.DataFrame, notes: tuple[Cleaning, ...]) -> Demand:
    """Convert samples to consecutive fragments, in the order of the table."""
    memory = pl.DataFrame(schema={"row": pl.Int64, "memory": pl.Float64})
    if usage["rss"].null_count() < usage.height:
        memory = usage.group_by("row").agg(pl.max("rss").alias("memory"))
    fragments = Fragments.from_rows(
        usage["row"].to_numpy(), usage["dt"].to_numpy(), usage["rate"].to_numpy()
    )
    return Demand(fragments, memory, notes)


def _set_varying_demand(
    trace: Trace, tasks: pl.DataFrame, demand: Demand, missing: Missing
) -> tuple[pl.DataFrame, Fragments, tuple[Cleaning, ...]]:
    """Set the demand of tasks by their samples; tasks without samples are treated by `missing`."""
    fragments = demand.fragments
    count = tasks.height
    length = _spread_to_rows(count, fragments, fragments.length())
    notes = [] if missing == "leave" else [_compare_run_times(tasks, length)]
    fragments, raised = lift_limits(trace, tasks, fragments)
    notes.append(raised)
    unsampled = pl.Series(np.isnan(length))
    if missing == "synthetic":
        unknown = unsampled & tasks["run_time"].is_null()
        invented = unsampled & ~unknown
        idle = int((invented & (tasks["run_time"] == 0)).sum())
        what = f"demands of tasks without a sample: half a core, {idle:,} of them of zero length"
        notes.append(note("invented", what, tasks["id"].filter(invented)))
        what = "tasks that cannot be run: no sample and no run time"
        notes.append(note("skipped", what, tasks["id"].filter(unknown)))
        dropped = unknown
    elif missing == "drop":
        notes.append(note("skipped", "tasks without a sample", tasks["id"].filter(unsampled)))
        dropped = unsampled
    else:
        what = "tasks without a sample, kept without work"
        notes.append(note("ignored", what, tasks["id"].filter(unsampled)))
        dropped = pl.Series([False]).new_from_index(0, count)
    what = "unknown numbers of cores, by the 95th percentile of the fragments"
    no_cores = tasks["id"].filter(tasks["cores"].is_null() & ~dropped)
    notes.append(note("invented", what, no_cores))
    half = 0.5 * pl.col("speed").fill_null(1.0)
    invent = pl.Series(unsampled) if missing == "synthetic" else pl.Series([False])
    tasks = tasks.with_columns(
        pl.when(invent).then(half).alias("limit"),
        pl.when(invent).then(half * pl.col("run_time")).alias("work"),
        pl.coalesce("run_time", pl.Series(length).fill_nan(None)).alias("run_time"),
        _derive_cores(tasks, fragments).alias("cores"),
    )
    row = pl.int_range(pl.len(), dtype=pl.Int64).alias("row")
    tasks = tasks.with_columns(row).join(
        demand.memory.rename({"memory": "peak"}), on="row", how="left", maintain_order="left"
    )
    tasks = tasks.with_columns(pl.coalesce("memory", "peak", "memory_used").alias("memory"))
    tasks = tasks.drop("row", "peak", "start", "stop", "memory_used")
    if dropped.any():
        new_rows = np.cumsum(~dropped.to_numpy()) - 1
        fragments = Fragments(
            new_rows[fragments.tasks], fragments.offsets, fragments.durations, fragments.rates
        )
        tasks = tasks.filter(~dropped)
    return tasks, fragments, tuple(notes)


def _spread_to_rows(count: int, fragments: Fragments, values: Floats) -> Floats:
    result = np.full(count, np.nan)
    result[fragments.tasks] = values
    return result


def _derive_cores(tasks: pl.DataFrame, fragments: Fragments) -> pl.Series:
    """Return the requested cores; if unknown, the 95th percentile of the demand, rounded up."""
    if not tasks["cores"].null_count():
        return tasks["cores"]
    capacity = _spread_to_rows(tasks.height, fragments, fragments.capacity())
    needed = capacity / tasks["speed"].fill_null(1.0).to_numpy()
    derived = np.maximum(1.0, np.ceil(np.nan_to_num(needed) - SLACK))
    return tasks["cores"].fill_null(pl.Series(derived))


def _compare_run_times(tasks: pl.DataFrame, length: Floats) -> Cleaning:
    recorded = tasks["run_time"].fill_null(np.nan).to_numpy()
    difference = np.nan_to_num(np.abs(recorded - length))
    differs = difference > TIME_TOLERANCE
    max_difference = float(difference.max(initial=0.0))
    what = (
        f"recorded run times that differ from their fragments, which are used: "
        f"{difference[differs].sum():,.3f} s in all, {max_difference:,.3f} s at worst"
    )
    largest = np.argsort(-difference, kind="stable")[: min(3, int(differs.sum()))]
    return note("ignored", what, tasks["id"].gather(largest), count=int(differs.sum()))


def _set_requested_times(
    tasks: pl.DataFrame, fragments: Fragments
) -> tuple[pl.DataFrame, Cleaning]:
    unknown = tasks["requested_time"].is_null() & tasks["run_time"].is_not_null()
    length = pl.Series(_spread_to_rows(tasks.height, fragments, fragments.length())).fill_nan(None)
    tasks = tasks.with_columns(
        pl.coalesce("requested_time", length, "run_time").alias("requested_time")
    )
    return tasks, note("assumed", NO_ESTIMATE, count=int(unknown.sum()))


def _note_incomplete(trace: Trace, tasks: pl.DataFrame) -> Cleaning:
    """Note the tasks of a recorded run that did not complete: their full work is unknown."""
    what = "tasks that did not complete: they are replayed with their run time"
    if trace.manifest.kind != "recorded":
        return note("noticed", what, count=0)
    incomplete = trace.tasks.filter(
        pl.col("status").is_in(("failed", "killed", "cancelled", "lost"))
    )
    ran = tasks.filter(pl.col("run_time").is_not_null())
    names = ran.join(incomplete, on="id", how="semi", maintain_order="left")["id"]
    return note("noticed", what, names)


def _remove_unknown_parents(tasks: pl.DataFrame) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    """Remove dependencies on tasks that are not in the workload."""
    if tasks["parents"].null_count() == tasks.height:
        return tasks, ()
    row = pl.int_range(pl.len(), dtype=pl.Int64).alias("row")
    edges = tasks.select(row, "id", "parents").explode("parents").drop_nulls("parents")
    missing = edges.join(tasks, left_on="parents", right_on="id", how="anti")
    if missing.is_empty():
        return tasks, ()
    known = edges.join(tasks, left_on="parents", right_on="id", how="semi", maintain_order="left")
    parents = known.group_by("row").agg("parents")
    tasks = (
        tasks.drop("parents")
        .with_columns(row)
        .join(parents, on="row", how="left", maintain_order="left")
        .drop("row")
    )
    examples = missing["id"].unique(maintain_order=True)
    what = "dependencies on tasks that are not in the workload"
    return tasks, (note("ignored", what, examples, count=missing.height),)
