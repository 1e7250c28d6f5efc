"""The columns of a run, read from its trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.tasks import per_task
from twinloop.trace.trace import Trace, format_count


def extract_columns(
    trace: Trace, ids: tuple[str, ...], names: tuple[str, ...], called: str = ""
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The columns of a `Run`, its makespan among them, and machines that are none of `names`.

    >>> trace = Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [1.0]}))
    >>> columns, strange = extract_columns(trace, ("a", "b"), ("n1",))
    >>> columns["submit"].tolist(), strange
    ([1.0, nan], ())
    """
    every = per_task(trace)
    _refuse_strangers(every["id"], ids, called)
    ran = every.filter("ran")
    first, last = ran["submit"].min(), ran["end"].max()
    used, strange = _machines(trace, names)
    completed = pl.col("status").fill_null("completed") == "completed"
    found = pl.DataFrame({"id": pl.Series(ids, dtype=pl.String)})
    whole = completed & pl.col("end").is_not_null()
    for part in (every.with_columns(whole=whole), _cpu_times(trace), used):
        found = found.join(part, on="id", how="left", maintain_order="left")
    found = found.with_columns(
        pl.when("whole").then(pl.col(column)).alias(column)
        for column in ("start", "end", "cpu_time", "machine")
    )
    submit, start, end, cpu_time = (
        found[column].cast(pl.Float64).fill_null(np.nan).to_numpy()
        for column in ("submit", "start", "end", "cpu_time")
    )
    columns = {
        "submit": submit,
        "start": start,
        "end": end,
        "run_time": end - start,
        "wait": start - submit,
        "cpu_time": cpu_time,
        "machine": found["machine"].fill_null(-1).to_numpy().astype(np.intp),
        "makespan": np.nan if first is None or last is None else float(last - first),  # type: ignore[operator, arg-type]
    }
    return columns, strange


def _refuse_strangers(found: pl.Series, ids: tuple[str, ...], name: str) -> None:
    strange = found.filter(~found.is_in(pl.Series(ids, dtype=pl.String).implode()))
    if strange.len():
        more = f", nor are {format_count(strange.len() - 1, 'other')}" if strange.len() > 1 else ""
        raise InputError(
            f"task '{strange[0]}' of the trace is none of the scenario{more}",
            file=name or None,
            field="tasks",
            remedy="compare a trace with the scenario that it is a run of",
        )


def _cpu_times(trace: Trace) -> pl.DataFrame:
    """The CPU time of each task: as recorded, else the sum of its samples."""
    sampled = (
        trace.usage.drop_nulls(["task", "cpu"]).group_by("task").agg(sampled=pl.col("cpu").sum())
    )
    return (
        trace.tasks.select("id", "cpu_time")
        .join(sampled, left_on="id", right_on="task", how="left")
        .select("id", cpu_time=pl.coalesce("cpu_time", "sampled"))
    )


def _machines(trace: Trace, names: tuple[str, ...]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The first machine of the last attempt of each task, and those that nobody knows."""
    placements = trace.placements.select(
        "task", pl.col("attempt").fill_null(0), "machine"
    ).drop_nulls()
    last = placements.filter(pl.col("attempt") == pl.col("attempt").max().over("task"))
    used = last.group_by("task", maintain_order=True).agg(pl.col("machine").first())
    places = pl.DataFrame(
        {"machine": pl.Series(names, dtype=pl.String), "place": range(len(names))},
        schema_overrides={"place": pl.Int64},
    )
    placed = used.join(places, on="machine", how="left")
    strange = placed.filter(pl.col("place").is_null())["machine"].unique(maintain_order=True)
    return placed.select(id="task", machine="place"), tuple(strange)
