"""Expected run times of tasks, for the plans of a policy."""

from __future__ import annotations

from typing import Final

import polars as pl

from twinloop.description import Cleaning
from twinloop.trace import Trace
from twinloop.workload import Workload
from twinloop.workload.cleaning_notes import note

#: Expected run time of a task for which none is given (s).
DEFAULT_RUN_TIME: Final = 1.0


def fill_expected_run_times(workload: Trace | Workload) -> tuple[Trace | Workload, Cleaning]:
    """Give every task an expected run time; returns a note on the tasks that get the default.

    The run time of a real task is not known before it ends, but some policies need one to plan.

    >>> planned, note = fill_expected_run_times(Workload(tasks=pl.DataFrame(
    ...     {"id": ["a"], "submit": [0.0], "cores": [2.0], "limit": [2.0]})))
    >>> planned.tasks["work"].to_list(), note.count
    ([2.0], 1)
    """
    tasks = workload.tasks
    time = pl.coalesce("run_time", "requested_time", pl.lit(DEFAULT_RUN_TIME))
    if isinstance(workload, Trace):
        unknown = tasks["run_time"].is_null()
        if not workload.usage.is_empty() or not workload.placements.is_empty():
            unknown &= False
        workload = (
            workload.replace(tasks=tasks.with_columns(run_time=time)) if unknown.any() else workload
        )
    else:
        unknown = tasks["work"].is_null()
        cores = pl.col("cores").fill_null(1.0)
        filled = tasks.with_columns(
            cores, pl.col("limit").fill_null(cores), pl.coalesce("work", time * cores).alias("work")
        )
        workload = workload.replace(tasks=filled) if unknown.any() else workload
    missing = tasks["id"].filter(unknown & tasks["requested_time"].is_null())
    what = f"expected run times of {DEFAULT_RUN_TIME:g} s, as none is given"
    return workload, note("assumed", what, missing)
