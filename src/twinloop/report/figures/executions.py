"""What a picture of a run is drawn from: executions, capacity, absences."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task
from twinloop.report.quantity_text import format_count
from twinloop.trace import Trace
from twinloop.trace.recorded_runs import collect_runs
from twinloop.trace.summary import compute_capacity

#: In these states a node takes no task.
AWAY: Final = ("down", "off", "booting", "maintenance")


def select_executions(trace: Trace) -> pl.DataFrame:
    """The placements that have a start and an end, with what is known of their tasks.

    Columns: those of `placements` without memory, then `queue`, `kind`, `user`, `status`, `submit`
    and `wait` of the task, and `sized`. Where a placement does not say its cores, it has an equal
    part of those of its task; one of unknown size (not `sized`) counts as one core, as it does in
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
    known = tasks.with_columns(collect_runs(trace)["processors"]).unique("id", keep="first")
    given = pl.when(pl.col("cores").is_finite() & (pl.col("cores") >= 0)).then("cores")
    share = (pl.col("processors") - pl.col("cores").sum()) / pl.col("cores").null_count()
    attempt = ("task", "attempt")
    return (
        trace.placements.with_columns(pl.col("attempt").fill_null(0), cores=given)
        .join(known, left_on="task", right_on="id", how="left", maintain_order="left")
        .with_columns(cores=pl.coalesce("cores", share.clip(lower_bound=0.0).over(*attempt)))
        .with_columns(pl.col("cores").fill_null(1.0), sized=pl.col("cores").is_not_null())
        .filter(pl.col("start").is_finite() & pl.col("end").is_finite())
        .filter(pl.col("end") >= pl.col("start"))
        .drop("memory", "processors")
    )


def get_capacity(trace: Trace) -> float | None:
    """The cores of the platform: of its nodes, else as the run or the log says; None: unknown.

    >>> get_capacity(Trace(nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": [4.0, 8.0]})))
    12.0
    """
    known = compute_capacity(trace)
    run = trace.manifest.facts.get("run")
    said = run.get("cores") if isinstance(run, dict) else None
    return known or (float(said) if isinstance(said, (int, float)) and said > 0 else None)


def find_absences(trace: Trace, until: float) -> pl.DataFrame:
    """The periods in which a node takes no task: `node`, `start`, `end`, `cores`; none overlap.

    >>> trace = Trace(
    ...     nodes=pl.DataFrame({"node": ["n1"], "cores": [4.0]}),
    ...     node_states=pl.DataFrame({"node": ["n1", "n1"], "start": [0.0, 5.0],
    ...                               "end": [6.0, None], "state": ["maintenance", "down"]}),
    ... )
    >>> find_absences(trace, until=9.0).rows()
    [('n1', 0.0, 9.0, 4.0)]
    """
    away = (
        trace.node_states.filter(pl.col("state").is_in(AWAY) & pl.col("start").is_finite())
        .with_columns(end=pl.when(pl.col("end").is_finite()).then("end").otherwise(until))
        .filter(pl.col("end") > pl.col("start"))
        .sort("node", "start", maintain_order=True)
    )
    # One that begins after all before it have ended begins a period of its own.
    reached = pl.col("end").cum_max().shift().over("node")
    return (
        away.with_columns(period=(pl.col("start") > reached).fill_null(True).cum_sum())
        .group_by("node", "period", maintain_order=True)
        .agg(pl.col("start").min(), pl.col("end").max())
        .join(trace.nodes.select("node", "cores"), on="node", how="left", maintain_order="left")
        .select("node", "start", "end", pl.col("cores").fill_null(0.0))
    )


def describe_omissions(trace: Trace, ran: pl.DataFrame) -> list[str]:
    """What a picture of the executions does not show as it is, in words.

    >>> trace = Trace(placements=pl.DataFrame({"task": ["a", "b"], "start": 1.0, "end": [None, 2]}))
    >>> for remark in describe_omissions(trace, select_executions(trace)):
    ...     print(remark)
    not drawn: 1 execution without a start, or without an end after it
    drawn as one core: 1 execution of unknown size
    """
    missing, unsized = trace.placements.height - ran.height, ran.height - int(ran["sized"].sum())
    found = []
    if missing:
        count = format_count(missing, "execution")
        found.append(f"not drawn: {count} without a start, or without an end after it")
    if unsized:
        found.append(f"drawn as one core: {format_count(unsized, 'execution')} of unknown size")
    return found


def require_executions(frame: pl.DataFrame) -> pl.DataFrame:
    """The executions, if there are any; else an error that says what is missing."""
    if not frame.height:
        raise InputError(
            "there is nothing to draw: no execution has a start and an end",
            remedy="simulate the workload first, or read a log that says when its tasks ran",
        )
    return frame
