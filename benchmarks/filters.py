"""The filter scheduler: many tasks on 100 hosts; the cost of a decision by the number of hosts."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import polars as pl
from logs import compiled, finished
from measure import BenchmarkResult, Goal, ResultTable, side_by_side, take_turn

from twinloop import Trace
from twinloop.engine import CompiledScenario

TASKS, HOSTS = 100_000, 100
SECONDS = 0.5
SIZES = (10, 100, 1_000, 10_000)
# Cores and memory (GiB) of eight kinds of hosts.
KINDS = ((8, 32), (16, 32), (16, 64), (32, 64), (32, 128), (48, 192), (64, 128), (64, 512))
GIB = 2.0**30
CORES = (1.0, 2.0, 4.0, 8.0)
MEAN_CORES = sum(CORES) / len(CORES)
LENGTH = 1000.0  # mean run time (s)
LOAD = 0.85  # of all cores
WARM = 3.0  # mean run times until hosts are full

FITS: dict[str, Any] = {"first fit": "first-fit", "best fit": "best-fit", "worst fit": "worst-fit"}
WEIGHED = {"name": "filter", "options": {"weighers": {"ram": 1.0, "instance_count": -0.5}}}


def platform(hosts: int) -> dict[str, Any]:
    """Build a platform with equal numbers of hosts of each kind, as far as possible."""
    counts = [len(range(kind, hosts, len(KINDS))) for kind in range(len(KINDS))]
    groups = [
        {"name": f"kind{kind}", "count": count, "cores": cores, "memory": f"{memory} GiB"}
        for kind, ((cores, memory), count) in enumerate(zip(KINDS, counts, strict=True))
        if count
    ]
    return {"clusters": [{"name": "cloud", "hosts": groups}]}


def cores_of(hosts: int) -> int:
    return sum(KINDS[host % len(KINDS)][0] for host in range(hosts))


def stream(tasks: int, hosts: int) -> Trace:
    """Tasks of 1 to 8 cores and 1 to 4 GiB for each, at random times, that load these hosts."""
    rng = np.random.default_rng(1)
    cores = rng.choice(CORES, tasks)
    gap = MEAN_CORES * LENGTH / (LOAD * cores_of(hosts))
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": np.arange(tasks).astype(str),
                "submit": np.cumsum(rng.exponential(gap, tasks)),
                "requested_cores": cores,
                "requested_memory": cores * rng.uniform(1.0, 4.0, tasks) * GIB,
                "run_time": rng.exponential(LENGTH, tasks),
            }
        )
    )


def many_tasks(result: BenchmarkResult, quick: bool) -> None:
    load = stream(TASKS, HOSTS)
    settings = {**FITS, "two weighers": WEIGHED}
    ready = {name: compiled(load, platform(HOSTS), each) for name, each in settings.items()}
    contestants = {name: partial(finished, each) for name, each in ready.items()}
    seconds, runs = side_by_side(contestants, 3 if quick else 9)
    table = ResultTable(
        f"{TASKS:,} tasks on {HOSTS} hosts of {len(KINDS)} kinds, the filter scheduler",
        {"setting": "s", "CPU seconds": ".3f", "thousand tasks/s": ",.0f", "mean wait [s]": ".1f"},
        note="two weighers: free memory, and half as much the number of tasks.",
        rates=["thousand tasks/s"],
    )
    for name, run in runs.items():
        figures = run.kpis()
        table.rows.append(
            [name, seconds[name], TASKS / seconds[name] / 1e3, figures["wait_mean_s"]]
        )
        if figures["completed"] != TASKS:
            result.failures.append(f"filters: {name}: not all tasks were completed")
    result.tables.append(table)
    slowest = max(seconds.values())
    result.goals.append(
        Goal(
            f"{TASKS:,} tasks on {HOSTS} hosts, filter scheduler, slowest setting",
            f"under {SECONDS} s",
            f"{slowest:.3f} s",
            slowest < SECONDS,
        )
    )


def once_warm(scenario: CompiledScenario) -> float:
    """Measure the CPU seconds from full hosts to the last submission."""
    run = scenario.start()
    run.run_until(WARM * LENGTH)
    take_turn()
    gc.collect()
    begin = process_time()
    run.run_until(float(scenario.arrays.submit[-1]))
    return process_time() - begin


def by_hosts(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        f"Cost of a task by the number of hosts, of {len(KINDS)} kinds (CPU microseconds)",
        {"setting": "s", **{f"{hosts:,} hosts": ".2f" for hosts in SIZES}, "exponent": ".2f"},
        note="All that a task costs (submission, decision, end), with hosts filled beforehand; "
        f"the load grows with the hosts, {LOAD:.0%} of their cores. Exponent: of the growth with "
        "the hosts.",
        costs=[f"{hosts:,} hosts" for hosts in SIZES],
    )
    costs: dict[str, list[float]] = {name: [] for name in FITS}
    for hosts in SIZES:
        # The tasks that fill all hosts, and then a number that can be timed.
        running = LOAD * cores_of(hosts) / MEAN_CORES
        load = stream(int(WARM * running) + (30_000 if quick else 100_000), hosts)
        timed = int((load.tasks["submit"] > WARM * LENGTH).sum())
        ready = {name: compiled(load, platform(hosts), each) for name, each in FITS.items()}
        best = dict.fromkeys(FITS, float("inf"))
        for _ in range(2 if quick else 5):
            for name, each in ready.items():
                best[name] = min(best[name], once_warm(each))
        for name, seconds in best.items():
            costs[name].append(seconds / timed * 1e6)
    for name, cost in costs.items():
        exponent = float(np.polyfit(np.log(SIZES), np.log(cost), 1)[0])
        table.rows.append([name, *cost, exponent])
        result.goals.append(
            Goal(
                f"{name}: cost of a task by hosts, up to {SIZES[-1]:,}",
                "exponent under 1",
                f"{exponent:.2f} ({cost[-1] / cost[0]:.1f}x)",
                exponent < 1,
            )
        )
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (many_tasks, by_hosts)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
