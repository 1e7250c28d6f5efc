"""Notes on missing values and contradictions in the tables of OpenDC."""

from __future__ import annotations

import polars as pl

from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.opendc.topology import TopologySummary


def note_inconsistencies(
    tasks: pl.DataFrame,
    fragments: pl.DataFrame,
    topology: TopologySummary | None,
    file: str,
    tally: Tally,
) -> None:
    """Count missing values and contradictions; the tables are not changed.

    Args:
        tasks: The tasks with the column names of OpenDC, times in ms.
        fragments: The fragments, durations in ms; `task` is the row among the tasks with a
            submission, from 0.
        topology: Clock of the fastest core, cores of the largest host; None: there is no topology.
        file: Name of the file of the tasks.
        tally: Counts.
    """

    def note(what: str, rows: pl.DataFrame) -> None:
        tally.note_lines("noticed", what, file, rows["line"])

    submitted = tasks.filter(pl.col("submission_time").is_not_null()).with_row_index("task")
    sums = fragments.group_by("task").agg(total=pl.col("duration").sum())
    with_sums = submitted.join(sums, on="task", how="left", maintain_order="left")
    tally.note(
        "assumed",
        "fragments are consecutive, and the first begins at the submission of its task",
        count=fragments.height,
    )
    note(
        "tasks without any fragment: their CPU use is unknown",
        with_sums.filter(pl.col("total").is_null()),
    )
    note("tasks of zero length", tasks.filter(pl.col("duration") == 0))
    note(
        "tasks whose duration is not the sum of their fragments",
        with_sums.filter((pl.col("duration") - pl.col("total")).abs() > 1e-6),
    )
    if "mem_capacity" in tasks.columns:
        known = tasks.filter(pl.col("mem_capacity").is_not_null())
        tally.note("assumed", "mem_capacity is in KiB", count=known.height)
    tally.note("assumed", "cpu_capacity and cpu_usage are in MHz", count=tasks.height)
    if topology is not None and topology.cores is not None:
        what = f"tasks that request more cores than any host has ({topology.cores:g})"
        note(what, tasks.filter(pl.col("cpu_count") > topology.cores))
    if "parents" in tasks.columns:
        edges = _list_edges(tasks, "parents")
        unknown = edges.join(tasks, left_on="other", right_on="id", how="anti")
        note("parents that are not tasks", unknown)
        if "children" in tasks.columns:
            reverse = _list_edges(tasks, "children").rename({"id": "other", "other": "id"})
            on = ["id", "other"]
            one_sided = pl.concat(
                [
                    edges.join(unknown, on=on, how="anti").join(reverse, on=on, how="anti"),
                    reverse.join(edges, on=on, how="anti").select(edges.columns),
                ]
            )
            note("dependencies that are only in parents or only in children", one_sided)


def _list_edges(tasks: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return a row per dependency: line and id of the task, and the id of the other task."""
    named = tasks.select("line", "id", pl.col(column).alias("other"))
    return named.explode("other").filter(pl.col("other").is_not_null())
