"""Tasks that share one core, in columns: the kernel against a bare C++ loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from load import LONGEST, SHORTEST, SPREAD, Floats, Load, bare_loop, disagreement, grouped
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.engine import run_columns

# Tasks per level of parallelism: about a second each for the kernel.
SIZES = {
    1: 2_500_000,
    10: 2_000_000,
    100: 2_000_000,
    1_000: 2_000_000,
    10_000: 1_500_000,
    100_000: 1_000_000,
}
AT_LEAST = {10: 0.20, 1_000: 0.45, 100_000: 0.45}  # of the speed of the bare loop
AGREE = 1e-9
# Three kinds that slow each other down as more tasks are present.
EFFICIENCY = {0: [1.0], 1: [1.0, 0.95, 0.9, 0.85], 2: [0.9, 0.8, 0.7, 0.6, 0.5]}
RESOURCES = 1_000
DISTINCT_LIMITS = 10_000
LIMITED_LIVE = 20_000


def recorded(load: Load) -> Any:
    """Run with the native observer, and read the recorded rates."""
    run = run_columns(load.start, load.work, record=True)
    return run, run.rates


def by_parallelism(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "One core shared by groups of P tasks (million tasks per second)",
        {
            "P": ",d",
            "tasks": ",d",
            "bare loop": ".2f",
            "twinloop": ".2f",
            "ratio": ".2f",
            "cost vs P=10": ".2f",
            "observed": ".2f",
            "3 kinds": ".2f",
            "rel. diff.": ".0e",
        },
        note="observed: record=True, rates fetched; rel. diff.: finish times to the bare loop's.",
        rates=["twinloop", "observed", "3 kinds"],
    )
    cost: dict[int, float] = {}
    ratio: dict[int, float] = {}
    for parallel, tasks in SIZES.items():
        load = grouped(max(tasks // 10, parallel) if quick else tasks, parallel)
        kind = np.arange(len(load), dtype=np.int32) % 3
        contestants: dict[str, Callable[[], Any]] = {
            "bare": lambda load=load: bare_loop(load),
            "plain": lambda load=load: run_columns(load.start, load.work),
            "observed": lambda load=load: recorded(load),
            "kinds": lambda load=load, kind=kind: run_columns(
                load.start, load.work, kind=kind, efficiency=EFFICIENCY
            ),
        }
        seconds, answers = side_by_side(contestants, 3)
        off = max(
            disagreement(answers["bare"], answers["plain"].finish),
            disagreement(answers["bare"], answers["observed"][0].finish),
        )
        if off > AGREE:
            result.failures.append(f"sharing: P={parallel:,}: finish times differ by {off:.1e}")
        rate = {name: len(load) / time / 1e6 for name, time in seconds.items()}
        cost[parallel] = seconds["plain"] / len(load)
        ratio[parallel] = rate["plain"] / rate["bare"]
        table.rows.append(
            [parallel, len(load), rate["bare"], rate["plain"], ratio[parallel]]
            + [None, rate["observed"], rate["kinds"], off]
        )
    for row, parallel in zip(table.rows, SIZES, strict=True):
        row[5] = cost[parallel] / cost[10]
    result.tables.append(table)
    for parallel, floor in AT_LEAST.items():
        result.goals.append(
            Goal(
                f"columnar entry against the bare loop, P={parallel:,}",
                f"at least {floor:.2f}",
                f"{ratio[parallel]:.2f}",
                ratio[parallel] >= floor,
            )
        )
    growth = cost[100_000] / cost[10]
    result.goals.append(
        Goal("cost per task, P=100,000 against P=10", "at most 5", f"{growth:.2f}", growth <= 5)
    )


def many_resources(tasks: int, parallel: int) -> tuple[Load, np.ndarray, Floats]:
    """Independent loads on 1,000 cores merged by start, and their finish times (bare loop)."""
    loads = [grouped(tasks // RESOURCES, parallel, seed) for seed in range(RESOURCES)]
    start = np.concatenate([load.start for load in loads])
    order = np.argsort(start, kind="stable")
    resource = np.repeat(np.arange(RESOURCES, dtype=np.int32), [len(load) for load in loads])
    work = np.concatenate([load.work for load in loads])
    finish = np.concatenate([bare_loop(load) for load in loads])
    return Load(start[order], work[order]), resource[order], finish[order]


def many_limits(tasks: int) -> tuple[Load, Floats, float]:
    """Groups of 20,000 live tasks with 10,000 distinct limits on both sides of the level.

    Also returns the share of a full group that is bounded by its limit (the others by the level).
    """
    rng = np.random.default_rng(2)
    groups = max(1, tasks // LIMITED_LIVE)
    distinct = np.geomspace(0.2, 5.0, DISTINCT_LIMITS) / LIMITED_LIVE
    limits = np.tile(distinct, LIMITED_LIVE // DISTINCT_LIMITS)
    limit = np.concatenate([rng.permutation(limits) for _ in range(groups)])
    work = rng.uniform(SHORTEST, LONGEST, groups * LIMITED_LIVE)
    offset = np.sort(rng.uniform(0.0, SPREAD, (groups, LIMITED_LIVE)), axis=1)
    # A task gets at least the smaller of its limit and an equal share of the core.
    length = SPREAD + LONGEST / min(distinct[0], 1.0 / LIMITED_LIVE)
    start = (np.arange(groups)[:, None] * length + offset).ravel()
    ascending = np.sort(limits)
    # The level of a full group: the capacity that tasks below it leave, divided among the others.
    below = np.concatenate([[0.0], np.cumsum(ascending)[:-1]])
    level = (1.0 - below) / np.arange(LIMITED_LIVE, 0, -1)
    held = int(np.argmax(level < ascending))
    return Load(start, work), limit, held / LIMITED_LIVE


def variants(result: BenchmarkResult, quick: bool) -> None:
    tasks = 200_000 if quick else 1_000_000
    spread, resource, expected = many_resources(tasks, parallel=100)
    limited, limit, held = many_limits(tasks)
    alone = grouped(tasks, 100)
    contestants: dict[str, Callable[[], Any]] = {
        "one resource, P=100": lambda: run_columns(alone.start, alone.work),
        "1,000 resources, P=100 on each": lambda: run_columns(
            spread.start, spread.work, resource=resource, capacity=np.ones(RESOURCES)
        ),
        "10,000 distinct limits, 20,000 live": lambda: run_columns(
            limited.start, limited.work, limit=limit
        ),
    }
    seconds, answers = side_by_side(contestants, 3)
    off = disagreement(expected, answers["1,000 resources, P=100 on each"].finish)
    if off > AGREE:
        result.failures.append(f"sharing: 1,000 resources: finish times differ by {off:.1e}")
    table = ResultTable(
        "Many resources, many limits (million tasks per second)",
        {"variant": "s", "tasks": ",d", "twinloop": ".2f", "vs one resource": ".2f"},
        note=f"{held:.0%} of a full group is held by its limit, the others by the level.",
        rates=["twinloop"],
    )
    rate = {name: len(answers[name].finish) / time / 1e6 for name, time in seconds.items()}
    base = rate["one resource, P=100"]
    for name, value in rate.items():
        table.rows.append([name, len(answers[name].finish), value, value / base])
    result.tables.append(table)
    measured = rate["10,000 distinct limits, 20,000 live"] * 1e6
    result.goals.append(
        Goal(
            "10,000 distinct limits on one resource",
            "at least 200,000 tasks/s",
            f"{measured:,.0f} tasks/s",
            measured >= 200_000,
        )
    )


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (by_parallelism, variants)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
