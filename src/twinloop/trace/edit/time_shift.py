"""Shifting of the times of a Trace: all by one offset, or each task by its own."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.trace.trace import Trace

#: The columns with points in time.
TIME_COLUMNS: Final = {
    "tasks": ("submit_recorded", "submit", "ready", "deadline"),
    "placements": ("start", "end"),
    "usage": ("t",),
    "node_states": ("start", "end"),
    "node_periods": ("start", "end"),
    "instances": ("start", "end", "requested", "ready"),
    "instance_states": ("start", "end"),
    "transfers": ("start", "end"),
    "power": ("t",),
    "decisions": ("t",),
    "boots": ("provisioned",),
}


def shift_times(trace: Trace, seconds: float) -> Trace:
    """Add an offset in seconds to all times of a trace.

    >>> tasks = pl.DataFrame({"id": ["a"], "submit": [5.0]})
    >>> shift_times(Trace(tasks=tasks), -5.0).tasks["submit"].to_list()
    [0.0]
    """
    tables = trace.tables
    moved = {
        table: tables[table].with_columns(pl.col(columns) + seconds)
        for table, columns in TIME_COLUMNS.items()
    }
    return trace.replace(manifest=trace.manifest, **{**tables, **moved})


def move_tasks(trace: Trace, moves: pl.DataFrame, factor: float = 1.0) -> Trace:
    """Move the times of each task from `old` to `new`.

    Distances from `old` are multiplied by `factor`, so that the order of times is kept. Submissions
    are not moved; `ready`, `deadline` and decisions are moved only if `factor` is 1. `moves` has a
    row per task: `task`, `old`, `new`; a task without a row, or with an unknown time in it, is not
    moved.
    """
    complete = moves.drop_nulls().unique("task", keep="first", maintain_order=True)
    tables = trace.tables
    for table, key, columns in (
        ("tasks", "id", ("ready", "deadline") if factor == 1.0 else ()),
        ("placements", "task", TIME_COLUMNS["placements"]),
        ("usage", "task", TIME_COLUMNS["usage"]),
        ("decisions", "subject", TIME_COLUMNS["decisions"] if factor == 1.0 else ()),
    ):
        if columns and tables[table].height:
            frame = tables[table].join(
                complete, left_on=key, right_on="task", how="left", maintain_order="left"
            )
            moved = {
                name: pl.coalesce(
                    pl.col("new") + (pl.col(name) - pl.col("old")) * factor, pl.col(name)
                )
                for name in columns
            }
            tables = {**tables, table: frame.with_columns(**moved).drop("old", "new")}
    return trace.replace(manifest=trace.manifest, **tables)
