"""Extraction of the columns of a run from its trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task, remove_infinite
from twinloop.trace.trace import MAKESPAN, Trace, format_count


def extract_columns(
    trace: Trace, ids: tuple[str, ...], names: tuple[str, ...], name: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Extract the columns of `RunColumns`, and the machines of the trace not in `names`.

    In a log without the start of any task, run times are those recorded, and the makespan is the
    one that the log states, or reaches from the first submission to the last recorded end.

    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [1.0]}))
    >>> columns, unknown = extract_columns(trace, ("a", "b"), ("n1",))
    >>> columns["submit"].tolist(), unknown
    ([1.0, nan], ())
    """
    tasks = per_task(trace)
    _refuse_unknown_tasks(tasks["id"], ids, name)
    ran = tasks.filter("ran")
    first, last = ran["submit"].min(), ran["end"].max()
    used, unknown = _find_last_machines(trace, names)
    completed = pl.col("status").fill_null("completed") == "completed"
    table = pl.DataFrame({"id": pl.Series(ids, dtype=pl.String)})
    has_times = tasks["start"].null_count() < tasks.height or not tasks.height
    is_complete = completed & pl.col("end" if has_times else "run_time").is_not_null()
    for part in (tasks.with_columns(is_complete=is_complete), _get_cpu_times(trace), used):
        table = table.join(part, on="id", how="left", maintain_order="left")
    table = table.with_columns(
        pl.when("is_complete").then(pl.col(column)).alias(column)
        for column in ("start", "end", "run_time", "cpu_time", "machine")
    )
    submit, start, end, recorded, cpu_time = (
        table[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
        for column in ("submit", "start", "end", "run_time", "cpu_time")
    )
    makespan = np.nan if first is None or last is None else float(last - first)  # type: ignore[operator, arg-type]
    if not has_times:
        makespan = _find_stated_makespan(trace, tasks)
    columns = {
        "submit": submit,
        "start": start,
        "end": end,
        "run_time": end - start if has_times else recorded,
        "wait": start - submit,
        "cpu_time": cpu_time,
        "machine": table["machine"].fill_null(-1).to_numpy().astype(np.intp),
        "makespan": makespan,
    }
    return columns, unknown


def _find_stated_makespan(trace: Trace, tasks: pl.DataFrame) -> float:
    """Find the makespan of a log without starts; NaN if it is unknown."""
    stated = trace.manifest.facts.get(MAKESPAN)
    first, last = tasks["submit"].min(), remove_infinite(trace.placements["end"]).max()
    if isinstance(stated, int | float):
        return float(stated)
    return np.nan if first is None or last is None else float(last - first)  # type: ignore[operator, arg-type]


def _refuse_unknown_tasks(task_ids: pl.Series, ids: tuple[str, ...], name: str) -> None:
    unknown = task_ids.filter(~task_ids.is_in(pl.Series(ids, dtype=pl.String).implode()))
    if unknown.len():
        more = f", nor are {format_count(unknown.len() - 1, 'other')}" if unknown.len() > 1 else ""
        raise InputError(
            f"task '{unknown[0]}' of the trace is not a task of the scenario{more}",
            kind="unknown-reference",
            file=name or None,
            field="tasks",
            remedy="give the scenario of this trace",
        )


def _get_cpu_times(trace: Trace) -> pl.DataFrame:
    """Get the CPU time of each task: the recorded one, else the sum of its samples."""
    sampled = (
        trace.usage.drop_nulls(["task", "cpu"]).group_by("task").agg(sampled=pl.col("cpu").sum())
    )
    return (
        trace.tasks.select("id", "cpu_time")
        .join(sampled, left_on="id", right_on="task", how="left")
        .select("id", cpu_time=pl.coalesce("cpu_time", "sampled"))
    )


def _find_last_machines(
    trace: Trace, names: tuple[str, ...]
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Find the first machine of the last attempt of each task, and machines not in `names`.

    A machine is given by its index in `names`; null if it is not one of them.
    """
    placements = trace.placements.select(
        "task", pl.col("attempt").fill_null(0), "machine"
    ).drop_nulls()
    last = placements.filter(pl.col("attempt") == pl.col("attempt").max().over("task"))
    used = last.group_by("task", maintain_order=True).agg(pl.col("machine").first())
    indices = pl.DataFrame(
        {"machine": pl.Series(names, dtype=pl.String), "index": range(len(names))},
        schema_overrides={"index": pl.Int64},
    )
    placed = used.join(indices, on="machine", how="left")
    unknown = placed.filter(pl.col("index").is_null())["machine"].unique(maintain_order=True)
    return placed.select(id="task", machine="index"), tuple(unknown)
