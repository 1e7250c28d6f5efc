"""Scaling of the load of a log."""

from __future__ import annotations

import math
from typing import Literal

import polars as pl

from twinloop.description.errors import InputError
from twinloop.trace.edit.time_shift import move_tasks
from twinloop.trace.manifest import Edit
from twinloop.trace.quality.source_positions import note_rows
from twinloop.trace.trace import Trace


def scale_load(
    trace: Trace, factor: float, *, by: Literal["arrivals", "run-time"] = "arrivals"
) -> Trace:
    """Multiply the load of a log by `factor`.

    Args:
        trace: The log.
        factor: The new load divided by the old one: 1.2 for 20 % more.
        by: `arrivals` divides the times between submissions by the factor; the first submission
            stays where it is, waits and run lengths are kept. `run-time` multiplies run times,
            and with them requested times, CPU times and the windows of samples; submissions and
            waits are kept.

    Power, and decisions on machines, were measured under the original load, and are removed.

    >>> tasks = pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 10.0], "run_time": [4.0, 8.0]})
    >>> scale_load(Trace(tasks=tasks), 2).tasks["submit"].to_list()
    [0.0, 5.0]
    >>> scale_load(Trace(tasks=tasks), 2, by="run-time").tasks["run_time"].to_list()
    [8.0, 16.0]
    """
    if not (math.isfinite(factor) and factor > 0):
        raise InputError(
            f"{factor} is not a factor",
            kind="out-of-range",
            field="factor",
            remedy="give a finite number above 0",
        )
    if by == "arrivals":
        scaled = _scale_arrivals(trace, factor)
    elif by == "run-time":
        scaled = _scale_run_times(trace, factor)
    else:
        raise InputError(
            f"'{by}' cannot be scaled",
            kind="not-a-choice",
            field="by",
            remedy="arrivals or run-time",
        )
    of_tasks = pl.col("subject").is_in(trace.tasks["id"].implode()).fill_null(False)
    machines = trace.decisions.with_row_index("row").filter(~of_tasks)["row"]
    power = trace.power.with_row_index("row")["row"]
    notes = [
        note_rows(trace, "removed", "power measured under another load", "power", power),
        note_rows(
            trace, "removed", "decisions on machines under another load", "decisions", machines
        ),
    ]
    return scaled.replace(
        power=trace.power.clear(), decisions=scaled.decisions.filter(of_tasks)
    ).with_manifest(
        cleaned=notes, edit=Edit(operation="scale_load", parameters={"factor": factor, "by": by})
    )


def _scale_arrivals(trace: Trace, factor: float) -> Trace:
    old = pl.col("submit")
    new = old.min() + (old - old.min()) / factor
    moves = trace.tasks.select(task="id", old=old, new=new)
    return move_tasks(trace.replace(tasks=trace.tasks.with_columns(submit=new)), moves)


def _scale_run_times(trace: Trace, factor: float) -> Trace:
    starts = trace.placements.group_by("task").agg(start=pl.col("start").min())
    # Usage without an execution begins at the submission, as the fragments of OpenDC do.
    begin = pl.coalesce("start", "submit")
    moves = trace.tasks.join(starts, left_on="id", right_on="task", how="left").select(
        task="id", old=begin, new=begin
    )
    lengths = trace.replace(
        tasks=trace.tasks.with_columns(pl.col("run_time", "requested_time", "cpu_time") * factor),
        usage=trace.usage.with_columns(pl.col("dt", "cpu") * factor),
        task_times=trace.task_times.with_columns(
            pl.col("wall_time", "run_time", "management_time") * factor
        ),
    )
    period = trace.manifest.sampling_period
    return move_tasks(lengths, moves, factor).with_manifest(
        sampling_period=None if period is None else period * factor
    )
