"""Thousands of tasks that share one machine with a power model."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import polars as pl
from load import grouped
from logs import compiled, finished
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Trace
from twinloop.engine import CompiledScenario

SIZES = (1_000, 2_000, 4_000, 10_000, 20_000, 50_000, 100_000)
QUICK_SIZES = (1_000, 2_000)
SECONDS, GROWTH = 1.0, 2.0  # of the largest size; of the cost per task, against the smallest
LONGEST = 20.0  # expected seconds of a run above which a size is left out
CORES = 16
POWER_IDLE, POWER_MAX = 60.0, 240.0  # W
POWER = {"model": "linear", "idle": POWER_IDLE, "max": POWER_MAX}
HOST = {"name": "host", "count": 1, "cores": CORES, "power": POWER}
PLATFORM: dict[str, Any] = {"clusters": [{"name": "c", "hosts": [HOST]}]}


def shared_machine(count: int) -> CompiledScenario:
    """`count` tasks of one core, all on the machine before the first one ends."""
    load = grouped(count, count)
    tasks = pl.DataFrame(
        {
            "id": np.arange(count).astype(str),
            "submit": load.start,
            "requested_cores": np.ones(count),
            "run_time": load.work,
        }
    )
    overcommitted = {"name": "filter", "options": {"filters": {"vcpu": float(count)}}}
    return compiled(Trace(tasks=tasks), PLATFORM, overcommitted)


def check_run(result: BenchmarkResult, count: int, scenario: CompiledScenario, run: Any) -> None:
    """Compare CPU time and energy with the sums that follow from the work of the tasks."""
    figures = run.kpis()
    if figures["completed"] != count:
        result.failures.append(f"metered: {count:,} tasks: not all were completed")
    # With the linear model, energy is idle power times the time and a price per core second.
    work = float(scenario.arrays.work.sum())
    length = run.now - run.start_time
    expected = POWER_IDLE * length + (POWER_MAX - POWER_IDLE) * work / CORES
    energy = float(run.energy().sum())
    if not abs(energy - expected) <= 1e-9 * expected:
        result.failures.append(f"metered: {count:,} tasks: {energy} J instead of {expected} J")


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    table = ResultTable(
        f"Tasks that share one machine of {CORES} cores with power (engine, CPU)",
        {"tasks": ",d", "seconds": ".3f", "us/task": ".1f", "cost vs first": ".1f"},
        note=f"A size that would take more than {LONGEST:.0f} s if the cost were quadratic is left "
        "out.",
        costs=["us/task"],
    )
    measured: dict[int, float] = {}
    for count in QUICK_SIZES if quick else SIZES:
        last = max(measured, default=0)
        expected = measured[last] * (count / last) ** 2 if measured else 0.0
        if expected > LONGEST:
            table.rows.append([count, None, None, None])
            continue
        scenario = shared_machine(count)
        contestants = {"shared": partial(finished, scenario)}
        seconds, runs = side_by_side(contestants, 5 if expected < SECONDS else 1)
        check_run(result, count, scenario, runs["shared"])
        measured[count] = seconds["shared"]
        cost = {size: spent / size * 1e6 for size, spent in measured.items()}
        table.rows.append([count, measured[count], cost[count], cost[count] / cost[SIZES[0]]])
    result.tables.append(table)
    most = SIZES[-1]
    last = max(measured)
    growth = measured[last] / last * SIZES[0] / measured[SIZES[0]]
    reached = f"{last:,} tasks: {measured[last]:.2f} s"
    result.goals += [
        Goal(
            f"{most:,} tasks that share one metered machine",
            f"under {SECONDS:.0f} s",
            reached,
            None if quick else last == most and measured[most] < SECONDS,
        ),
        Goal(
            f"cost per task on a metered machine, {most:,} against {SIZES[0]:,}",
            f"at most {GROWTH:.0f}x",
            f"{last:,} tasks: {growth:.1f}x",
            None if quick else last == most and growth <= GROWTH,
        ),
    ]
    return result
