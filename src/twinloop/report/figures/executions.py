"""Data of the figures of a run: executions, capacity, unavailable nodes."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task
from twinloop.platform.states import RUNNING
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace
from twinloop.trace.capacity import compute_capacity
from twinloop.trace.recorded_runs import collect_runs

#: The states in which a node is available. It runs no task in any other state, such as off, down,
#: switching-on, or a state that its platform describes.
AVAILABLE_STATES: Final = ("up", "on", RUNNING, "draining")


def select_executions(trace: Trace) -> pl.DataFrame:
    """Select the placements with a start and an end, joined with the columns of their tasks.

    Columns: those of `placements` without memory, then `queue`, `kind`, `user`, `status`, `submit`
    and `wait` of the task, and `sized`. A placement without cores has an equal share of the cores
    of its task; an execution of unknown size (not `sized`) counts as one core, as in
    `compute_load_over_time`.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [2.0], "requested_cores": [4.0]}),
    ...     placements=pl.DataFrame({
    ...         "task": ["a", "a"], "machine": ["n1", "n2"], "start": [5.0, 5.0], "end": [9.0, 9.0],
    ...     }),
    ... )
    >>> select_executions(trace).select("machine", "cores", "wait").rows()
    [('n1', 2.0, 3.0), ('n2', 2.0, 3.0)]
    """
    tasks = trace.tasks.select("id", "queue", "kind").hstack(
        per_task(trace).select("user", "status", "submit", "wait")
    )
    task_columns = tasks.with_columns(collect_runs(trace)["processors"]).unique("id", keep="first")
    valid_cores = pl.when(pl.col("cores").is_finite() & (pl.col("cores") >= 0)).then("cores")
    share = (pl.col("processors") - pl.col("cores").sum()) / pl.col("cores").null_count()
    keys = ("task", "attempt")
    return (
        trace.placements.with_columns(pl.col("attempt").fill_null(0), cores=valid_cores)
        .join(task_columns, left_on="task", right_on="id", how="left", maintain_order="left")
        .with_columns(cores=pl.coalesce("cores", share.clip(lower_bound=0.0).over(*keys)))
        .with_columns(pl.col("cores").fill_null(1.0), sized=pl.col("cores").is_not_null())
        .filter(pl.col("start").is_finite() & pl.col("end").is_finite())
        .filter(pl.col("end") >= pl.col("start"))
        .drop("memory", "processors")
    )


def get_capacity(trace: Trace) -> float | None:
    """Return the cores of the platform: of its nodes, else of the run or the log; None: unknown.

    >>> get_capacity(Trace(nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": [4.0, 8.0]})))
    12.0
    """
    capacity = compute_capacity(trace)
    run = trace.manifest.facts.get("run")
    cores = run.get("cores") if isinstance(run, dict) else None
    return capacity or (float(cores) if isinstance(cores, (int, float)) and cores > 0 else None)


def find_absences(trace: Trace, until: float) -> pl.DataFrame:
    """Find the periods in which a node is not available; overlapping periods of a node are merged.

    Columns: `node`, `start`, `end`, `cores` (0 for an unknown node). A period without an end lasts
    `until` this time (s).

    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    ...     node_states=pl.DataFrame({"node": ["n1", "n1"], "start": [0.0, 5.0],
    ...                               "end": [6.0, None], "state": ["maintenance", "down"]}),
    ... )
    >>> find_absences(trace, until=9.0).rows()
    [('n1', 0.0, 9.0, 4.0)]
    """
    states = (
        trace.node_states.filter(
            ~pl.col("state").is_in(AVAILABLE_STATES) & pl.col("start").is_finite()
        )
        .with_columns(end=pl.when(pl.col("end").is_finite()).then("end").otherwise(until))
        .filter(pl.col("end") > pl.col("start"))
        .sort("node", "start", maintain_order=True)
    )
    # A state that starts after the end of all earlier states starts another period.
    last_end = pl.col("end").cum_max().shift().over("node")
    return (
        states.with_columns(period=(pl.col("start") > last_end).fill_null(True).cum_sum())
        .group_by("node", "period", maintain_order=True)
        .agg(pl.col("start").min(), pl.col("end").max())
        .join(trace.nodes.select("node", "cores"), on="node", how="left", maintain_order="left")
        .select("node", "start", "end", pl.col("cores").fill_null(0.0))
    )


def describe_omissions(trace: Trace, executions: pl.DataFrame) -> list[str]:
    """Describe the executions that a figure leaves out or draws with an assumed size.

    >>> trace = Trace(placements=pl.DataFrame({"task": ["a", "b"], "start": 1.0, "end": [None, 2]}))
    >>> for remark in describe_omissions(trace, select_executions(trace)):
    ...     print(remark)
    not drawn: 1 execution without a start, or without an end after it
    drawn as one core: 1 execution of unknown size
    """
    missing, unsized = (
        trace.placements.height - executions.height,
        executions.height - int(executions["sized"].sum()),
    )
    notes = []
    if missing:
        count = format_count(missing, "execution")
        notes.append(f"not drawn: {count} without a start, or without an end after it")
    if unsized:
        notes.append(f"drawn as one core: {format_count(unsized, 'execution')} of unknown size")
    return notes


def require_executions(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the executions; raise an error if there are none."""
    if not frame.height:
        raise InputError(
            "there is nothing to draw: no execution has a start and an end",
            kind="nothing-to-draw",
            remedy="simulate the workload first, or read a log with start and end times",
        )
    return frame
