"""Copies of a running simulation: their cost, and the time of a fork to the end."""

from __future__ import annotations

import numpy as np
import polars as pl
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Scenario, Simulation, Workload

LIVE = 1_000
FINISHED = (1_000, 100_000, 1_000_000)
COPY_US = 100.0
FORK_MS = 2.0
NODES = 128


def started(finished: int) -> Simulation:
    """Return a simulation in which so many tasks have finished and LIVE tasks wait or run."""
    numbers = np.arange(finished + LIVE)
    last = numbers >= finished
    random = np.random.default_rng(finished)
    cores = np.where(last, random.integers(1, 65, len(numbers)), 1).astype(float)
    length = np.where(last, random.integers(60, 36_000, len(numbers)), 30).astype(float)
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
        f"Copies with {LIVE:,} live tasks (CPU time), EASY on {NODES} nodes",
        {"finished tasks": ",d", "copy, us": ",.1f", "fork to the end, ms": ",.2f"},
        costs=("copy, us", "fork to the end, ms"),
    )
    for finished in FINISHED[: 2 if quick else None]:
        simulation = started(finished)
        end = simulation.copy().kpis()["completed"]
        copies = 20

        def copy() -> None:
            for _ in range(copies):
                simulation.copy()

        def fork() -> float:
            other = simulation.copy()
            while other._compiled.advance(other._run, other._run.run_slice):
                pass
            return float(other._run.now)

        seconds, answers = side_by_side({"copy": copy, "fork": fork}, 5 if quick else 15)
        micro, milli = seconds["copy"] / copies * 1e6, seconds["fork"] * 1e3
        table.rows.append([finished, micro, milli])
        if answers["fork"] != answers["fork"] or end < finished:
            result.failures.append(f"forks: {finished:,} tasks have not finished")
    result.tables.append(table)
    micro, milli = table.rows[-1][1:]
    result.goals += [
        Goal(f"copy, {LIVE:,} live of many tasks", f"<= {COPY_US:.0f} us", f"{micro:.1f} us", micro <= COPY_US),
        Goal(f"fork of {LIVE:,} EASY jobs", f"< {FORK_MS:.0f} ms", f"{milli:.2f} ms", milli < FORK_MS),
    ]
    return result
