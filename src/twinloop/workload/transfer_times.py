"""Times of the transfers of files within the recorded executions of tasks."""

from __future__ import annotations

import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.trace.tables import TASK_READS, TASK_WRITES
from twinloop.trace.trace import Trace
from twinloop.workload.cleaning_notes import note


def leave_out_transfers(trace: Trace, runs: pl.DataFrame, task_files: pl.DataFrame) -> pl.DataFrame:
    """Return the runs of `collect_runs` without the transfers of files of their last attempt.

    An execution contains the transfers of its files. A simulation of a workload with the files
    transfers them again, so that they must not be in the work, too. `last_start` is moved to after
    the reads, `last_end` to before the writes, and `run_time` is shortened if it is the length of
    the whole execution.

    Args:
        trace: The trace of the runs.
        runs: Its runs.
        task_files: The files of the tasks in the workload; tasks without files are not changed.

    >>> trace = Trace(
    ...     task_files=pl.DataFrame({"task": ["a"], "file": ["f"], "access": ["read"]}),
    ...     tasks=pl.DataFrame({"id": ["a"], "run_time": [10.0]}),
    ...     placements=pl.DataFrame({"task": ["a"], "start": [5.0], "end": [15.0]}),
    ...     transfers=pl.DataFrame({"kind": ["read", "write"], "subject": ["a", "a"],
    ...                             "start": [5.0, 12.0], "end": [8.0, 15.0]}))
    >>> from twinloop.trace.recorded_runs import collect_runs
    >>> runs = leave_out_transfers(trace, collect_runs(trace), trace.task_files)
    >>> runs.select("run_time", "last_start", "last_end").row(0)
    (4.0, 8.0, 12.0)
    """
    moved = select_transfers(trace, task_files)
    times = _sum_transfer_times(moved, runs)
    if times.is_empty():
        return runs
    whole = pl.col("last_end") - pl.col("last_start")
    rest = (whole - pl.col("reads") - pl.col("writes")).clip(lower_bound=0.0)
    return (
        runs.join(times, on="id", how="left", maintain_order="left")
        .with_columns(
            run_time=pl.min_horizontal("run_time", rest),
            last_start=pl.col("last_start") + pl.col("reads").fill_null(0.0),
            last_end=pl.col("last_end") - pl.col("writes").fill_null(0.0),
        )
        .drop("reads", "writes")
    )


def note_transfers(moved: pl.DataFrame) -> Cleaning:
    """Note the transfers that are left out of run times."""
    total = (moved["end"] - moved["start"]).sum()
    what = (
        f"transfers of files, {total:,.1f} s in all: they are left out of the run times, and "
        "simulated again where the platform has stores"
    )
    return note("noticed", what, count=moved.height)


def _sum_transfer_times(moved: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Sum the reads and the writes of the last attempt of each task (s)."""
    last = runs.select("id", "last_start", "last_end").drop_nulls()
    within = moved.join(last, left_on="subject", right_on="id")
    within = within.filter(
        (pl.col("start") >= pl.col("last_start")) & (pl.col("end") <= pl.col("last_end"))
    )
    length = pl.col("end") - pl.col("start")
    return within.group_by(pl.col("subject").alias("id")).agg(
        reads=length.filter(pl.col("kind").is_in(TASK_READS)).sum(),
        writes=length.filter(pl.col("kind").is_in(TASK_WRITES)).sum(),
    )


def select_transfers(trace: Trace, task_files: pl.DataFrame) -> pl.DataFrame:
    """Select the transfers of a trace that a workload with these files of tasks makes again."""
    if trace.transfers.is_empty():
        return trace.transfers
    kinds = (*TASK_READS, *TASK_WRITES)
    moved = trace.transfers.filter(pl.col("kind").is_in(kinds)).drop_nulls(["start", "end"])
    return moved.join(task_files, left_on="subject", right_on="task", how="semi")
