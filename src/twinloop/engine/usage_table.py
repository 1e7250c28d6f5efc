"""The `usage` table of a simulated run: the CPU time of tasks in windows."""

from __future__ import annotations

import numpy as np
import polars as pl

from twinloop._core import ClusterRun
from twinloop.engine.compiled_scenario import CompiledScenario
from twinloop.engine.run_tasks import RunTasks


def find_sampling_period(compiled: CompiledScenario) -> float | None:
    """Return the sampling period (s) of the replayed recording.

    None if no recording is replayed, or if it has no samples.
    """
    trace = compiled.trace
    if trace is None or trace.manifest.kind != "recorded":
        return None
    lengths = trace.usage["dt"].filter(trace.usage["dt"] > 0)
    if not len(lengths):
        return None
    return trace.manifest.sampling_period or float(np.median(lengths.to_numpy()))


def build_usage_table(compiled: CompiledScenario, run: ClusterRun, tasks: RunTasks) -> pl.DataFrame:
    """Build the table: a row for each window of each execution on each machine, if recorded."""
    log = run.usage()
    order = np.lexsort((log["machine"], log["t"], log["task"]))
    log = {name: values[order] for name, values in log.items()}
    names = pl.Series(compiled.names.machines, dtype=pl.String)
    return pl.DataFrame(
        {
            "task": tasks.ids.gather(log["task"].astype(np.int64)),
            "machine": names.gather(log["machine"].astype(np.int64)),
            "t": log["t"],
            "dt": log["dt"],
            "cpu": log["cpu"],
        }
    )
