"""Logs for the benchmarks of the cluster simulator, and their timed runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from load import disagreement
from measure import HERE
from numpy.typing import NDArray

from twinloop import Scenario, Trace, read, simulate
from twinloop.engine import CompiledScenario
from twinloop.workload import Workload
from twinloop.workload.generators import make_generator

if TYPE_CHECKING:
    from twinloop._core import ClusterRun

Floats = NDArray[np.float64]
DATA = Path(os.environ.get("TWINLOOP_DATA", HERE.parent.parent / "shared" / "data"))
KTH_JOBS, KTH_NODES, KTH_USERS = 28_475, 100, 214


@dataclass
class Log:
    name: str
    trace: Trace


@cache
def kth() -> Log:
    """KTH-SP2 if available, otherwise a generated log of the same size."""
    path = DATA / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz"
    if path.exists():
        return Log("KTH-SP2", read(path))
    made = lublin(KTH_JOBS, KTH_NODES, load=0.7)
    # Dependencies between sessions are found in a recorded run, here with EASY and any think times.
    ran = simulate(Scenario(platform=f"1x{KTH_NODES}", workload=made, policy="easy"))
    user = np.minimum(np.random.default_rng(1).zipf(1.3, KTH_JOBS), KTH_USERS).astype(str)
    tasks = made.tasks.with_columns(user=pl.Series(user))
    return Log("Lublin's model, as large as KTH-SP2", Trace(tasks=tasks, placements=ran.placements))


def lublin(jobs: int, cores: int, **parameters: Any) -> Trace:
    return make_generator("lublin", tasks=jobs, machine=cores, **parameters).generate(1)


@dataclass
class Jobs:
    """The jobs of a compiled scenario as lists, in the order of their submission."""

    order: NDArray[np.int64]
    submit: list[float]
    nodes: list[int]
    run: list[float]
    requested: list[float]

    @classmethod
    def of(cls, compiled: CompiledScenario) -> Jobs:
        arrays = compiled.arrays
        kept = np.flatnonzero(compiled.rejected == 0)
        order = kept[np.argsort(arrays.submit[kept], kind="stable")]
        run = np.divide(arrays.work, arrays.limit, out=np.zeros(len(arrays)), where=arrays.work > 0)
        return cls(
            order,
            arrays.submit[order].tolist(),
            arrays.cores[order].astype(int).tolist(),
            run[order].tolist(),
            arrays.requested_time[order].tolist(),
        )

    def __len__(self) -> int:
        return len(self.submit)


def compiled(trace: Trace | Workload, platform: Any, policy: Any, **more: Any) -> CompiledScenario:
    return CompiledScenario(Scenario(platform=platform, workload=trace, policy=policy, **more))


def finished(scenario: CompiledScenario, **recording: Any) -> ClusterRun:
    """Run from beginning to end."""
    run = scenario.start(**recording)
    while scenario.advance(run, run.run_slice):
        pass
    return run


def starts(scenario: CompiledScenario) -> Floats:
    """Return the start of each task in a complete run."""
    return np.asarray(finished(scenario).outcomes()["start"])


def same(jobs: Jobs, theirs: list[float], ours: Floats) -> bool:
    return disagreement(np.array(theirs), ours[jobs.order]) < 1e-9


def holding(queue: int, jobs: int, cores: int) -> Trace:
    """A log under which about `queue` jobs wait nearly all the time.

    Each user submits the next job at the end of the previous one, without a think time. The
    submission times are recorded, so that the replay is rigid.
    """
    rng = np.random.default_rng(1)
    size = rng.integers(1, cores // 4 + 1, jobs).astype(np.float64)
    run = rng.integers(600, 5400, jobs).astype(np.float64)
    users = queue + round(cores / size.mean())
    tasks = pl.DataFrame(
        {
            "id": np.arange(jobs).astype(str),
            "user": (np.arange(jobs) % users).astype(str),
            "requested_cores": size,
            "run_time": run,
            "requested_time": np.round(run * rng.uniform(1.0, 5.0, jobs)),
        }
    )
    # Without contention: the next job is submitted at the end of the previous one.
    end = pl.col("run_time").cum_sum().over("user")
    tasks = tasks.with_columns(submit=end - pl.col("run_time"), end=end)
    alone = Trace(
        tasks=tasks.drop("end"), placements=tasks.select(task="id", start="submit", end="end")
    )
    users_wait = {"sessions": {"by": "arrival", "threshold": 0.0}}
    closed = finished(compiled(alone, f"{cores}x1", "easy", source=users_wait))
    submit = pl.Series(closed.outcomes()["submit"])
    return Trace(tasks=alone.tasks.with_columns(submit=submit).sort("submit", maintain_order=True))
