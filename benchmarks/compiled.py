"""Compiled scenarios: one small run, many runs on threads, and a policy in Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from load import bare_loop, grouped
from logs import KTH_NODES, kth, lublin, starts
from logs import compiled as ready
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.policy import Place, Policy
from twinloop.workload.generators import make_generator

TASKS, NODES = 100, 2
POLICIES = ("fcfs", "easy", "conservative", "first-fit")
MICROSECONDS = {"fcfs": 25.0, "easy": 35.0, "conservative": 60.0, "first-fit": 100.0}
THREADS = 2
ENOUGH = 1.5  # speed-up of the bare loop below which no second core is free
DECISIONS = 435_000


def small_runs(result: BenchmarkResult, quick: bool) -> None:
    repeats = 100 if quick else 200
    load = make_generator("poisson", tasks=TASKS).generate(1)
    power = {"model": "linear", "idle": 60.0, "max": 240.0}
    host = {"name": "host", "count": NODES, "cores": 16, "power": power}
    platforms = {"": f"{NODES}x16", ", power": {"clusters": [{"name": "c", "hosts": [host]}]}}
    scenarios = {
        f"{policy}{more}": ready(load, platform, policy)
        for policy in POLICIES
        for more, platform in platforms.items()
    }

    def often(name: str) -> None:
        run = scenarios[name].run
        for _ in range(repeats):
            run()

    contestants = {name: partial(often, name) for name in scenarios}
    seconds, _ = side_by_side(contestants, 10 if quick else 25)
    each = {name: s / repeats * 1e6 for name, s in seconds.items()}
    result.tables.append(
        ResultTable(
            f"`CompiledScenario.run`: {TASKS} tasks on {NODES} nodes (CPU microseconds)",
            {"policy": "s", "a run": ".1f"},
            [[name, micros] for name, micros in each.items()],
            "With all the figures of the run, as a dictionary.",
            costs=["a run"],
        )
    )
    for policy in POLICIES:
        micros = max(each[f"{policy}{more}"] for more in platforms)
        result.goals.append(
            Goal(
                f"`CompiledScenario.run`, {TASKS} tasks on {NODES} nodes, {policy}",
                f"under {MICROSECONDS[policy]:.0f} us",
                f"{micros:.1f} us",
                micros < MICROSECONDS[policy],
            )
        )


def threads(result: BenchmarkResult, quick: bool) -> None:
    runs = 16 if quick else 64
    scenario = ready(lublin(5_000, 128, load=0.7), "128x1", "easy")
    matrix = np.array(
        [scenario.values({"speed_factor": factor}) for factor in np.linspace(0.8, 1.2, runs)]
    )
    loads = [grouped(100_000, 1_000, seed) for seed in range(8)]

    def bare(count: int) -> None:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(bare_loop, loads))

    def many(count: int) -> Any:
        return scenario.run_many(matrix, outputs=("makespan_s", "ends"), threads=count)

    contestants: dict[str, Callable[[], Any]] = {
        "bare 1": partial(bare, 1),
        f"bare {THREADS}": partial(bare, THREADS),
        "many 1": partial(many, 1),
        f"many {THREADS}": partial(many, THREADS),
    }
    seconds, answers = side_by_side(contestants, 3 if quick else 7, clock=perf_counter)
    one, other = answers["many 1"], answers[f"many {THREADS}"]
    if any(one[name].tobytes() != other[name].tobytes() for name in one):
        result.failures.append("compiled: run_many gives other results on more threads")
    speedup = {
        code: seconds[f"{code} 1"] / seconds[f"{code} {THREADS}"] for code in ("bare", "many")
    }
    result.tables.append(
        ResultTable(
            f"`run_many`: {runs} runs of {len(scenario.arrays):,} jobs, EASY (elapsed seconds)",
            {"code": "s", "1 thread": ".3f", f"{THREADS} threads": ".3f", "speed-up": ".2f"},
            [
                [title, seconds[f"{code} 1"], seconds[f"{code} {THREADS}"], speedup[code]]
                for code, title in (("bare", "bare loop"), ("many", "run_many"))
            ],
            f"On {os.cpu_count()} cores. The bare loop shows what the machine has to give now.",
            costs=["1 thread", f"{THREADS} threads"],
        )
    )
    result.goals.append(
        Goal(
            f"run_many on {THREADS} threads against one",
            "as much as the bare loop",
            f"{speedup['many']:.2f}x, bare loop {speedup['bare']:.2f}x",
            speedup["many"] >= speedup["bare"] if speedup["bare"] >= ENOUGH else None,
        )
    )


class InOrder(Policy):
    """First come, first served on one machine, in Python."""

    def decide(self, view: Any) -> Iterator[Place]:
        free = view.free(0)
        while (task := view.first_waiting) is not None:
            free -= view.cores(task)
            if free < 0:
                return
            yield Place(task, 0)


def python_policy(result: BenchmarkResult, quick: bool) -> None:
    log = kth()
    own, native = (ready(log.trace, f"1x{KTH_NODES}", each) for each in (InOrder(), "fcfs"))
    contestants = {"Python": partial(starts, own), "native": partial(starts, native)}
    seconds, answers = side_by_side(contestants, 5 if quick else 15)
    if answers["Python"].tobytes() != answers["native"].tobytes():
        result.failures.append("compiled: FCFS in Python starts jobs at other times")
    placed = int(np.isfinite(answers["Python"]).sum())
    result.tables.append(
        ResultTable(
            f"FCFS on {log.name}, one machine (thousand decisions per CPU second)",
            {"policy": "s", "decisions": ",d", "rate": ",.0f"},
            [[name, placed, placed / s / 1e3] for name, s in seconds.items()],
            "A decision is a task that is started; the policy is asked about twice as often. With "
            "everything else that the run does.",
            rates=["rate"],
        )
    )
    rate = placed / seconds["Python"]
    result.goals.append(
        Goal(
            "decisions of a policy in Python",
            f"at least {DECISIONS:,} a second",
            f"{rate:,.0f}",
            rate >= DECISIONS,
        )
    )


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (small_runs, threads, python_policy)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
