"""Copies of a running simulation: the cost of a copy, and of running it to the end."""

from __future__ import annotations

import numpy as np
import polars as pl
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Scenario, Workload
from twinloop.engine import Simulation

LIVE = 1_000
FINISHED = (1_000, 100_000, 1_000_000)
COPIES = 5  # in one measurement
COPY_US, FORK_MS = 100.0, 2.0
NODES = 128


def started(finished: int) -> Simulation:
    """Return a simulation in which so many tasks have finished and LIVE tasks wait or run."""
    numbers = np.arange(finished + LIVE)
    random = np.random.default_rng(finished)
    is_live = numbers >= finished
    cores = np.where(is_live, random.integers(1, 65, len(numbers)), 1).astype(float)
    length = np.where(is_live, random.integers(60, 36_000, len(numbers)), 30).astype(float)
    tasks = pl.DataFrame(
        {
            "id": pl.Series(numbers).cast(pl.String),
            "submit": np.minimum(numbers, finished + 60).astype(float),
            "cores": cores,
            "work": cores * length,
            "limit": cores,
            "requested_time": length * 1.5,
        }
    )
    scenario = Scenario(platform=f"{NODES}x1", policy="easy", workload=Workload(tasks=tasks))
    simulation = Simulation(scenario)
    simulation.run_until(finished + 60.0)
    return simulation


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    table = ResultTable(
        f"Copies of a simulation with {LIVE:,} live tasks: EASY on {NODES} nodes (CPU time)",
        {"finished tasks": ",d", "a copy, us": ",.1f", "copied and run to the end, ms": ",.2f"},
        costs=["a copy, us", "copied and run to the end, ms"],
    )
    for finished in FINISHED[: 2 if quick else None]:
        original = started(finished)
        if original.kpis()["completed"] != finished:
            result.failures.append(f"forks: {finished:,} tasks: not all have finished")

        def copy(original: Simulation = original) -> None:
            for _ in range(COPIES):
                original.copy()

        def fork(original: Simulation = original) -> Simulation:
            other = original.copy()
            while other.step():
                pass
            return other

        seconds, answers = side_by_side({"copy": copy, "fork": fork}, 5 if quick else 15)
        table.rows.append([finished, seconds["copy"] / COPIES * 1e6, seconds["fork"] * 1e3])
        if answers["fork"].kpis()["completed"] != finished + LIVE:
            result.failures.append(f"forks: {finished:,} tasks: a copy did not end")
    result.tables.append(table)
    finished, micro, milli = table.rows[-1]
    result.goals += [
        Goal(
            f"copy of {LIVE:,} live among {finished:,} finished tasks",
            f"at most {COPY_US:.0f} us",
            f"{micro:.1f} us",
            micro <= COPY_US,
        ),
        Goal(
            f"copy that runs {LIVE:,} jobs to the end, EASY",
            f"under {FORK_MS:.0f} ms",
            f"{milli:.2f} ms",
            milli < FORK_MS,
        ),
    ]
    return result
