"""Calibration of a small scenario: evaluations per second, and their cost."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from load import bare_loop, grouped
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Scenario, simulate
from twinloop.calibration.cases import Case, make_value_columns
from twinloop.calibration.losses import get_loss
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.run_columns import select_outputs
from twinloop.calibration.search.minimisation import MAX_BATCH, minimise
from twinloop.calibration.search.objective import TwinObjective

TASKS, NODES = 100, 2
PER_SECOND = 10_000
THREADS = 2
ENOUGH = 1.6
LOSSES = ("makespan", "ends-sorted")
OPTIMISERS = ("random", "cma")
BARE = "`run_many` alone"
BATCHES = (16, 64, 128, 256)

SCENARIO = Scenario(
    platform=f"{NODES}x16",
    policy="fcfs",
    workload={"generate": {"name": "poisson", "parameters": {"tasks": TASKS}}},
)
SPACE = Space(
    [
        LinearParameter("speed_factor", 0.5, 2.0),
        LinearParameter("service_factor", 0.5, 2.0),
        LinearParameter("startup_overhead", 0.0, 5.0),
        LinearParameter("dispatch_latency", 0.0, 1.0),
    ]
)


def case() -> Case:
    """Return a scenario and a run of it with other values."""
    changed = {"model.speed_factor": 1.07, "model.startup_overhead": 0.8}
    real = simulate(SCENARIO.replace(**changed))
    return Case.of([real], scenario=SCENARIO, names=SPACE.names)


def runs_alone(made: Case, loss: str, threads: int, count: int) -> None:
    """Lower bound of a search: its runs in the same batches, without the optimiser."""
    points = np.random.default_rng(0).random((MAX_BATCH, len(SPACE)))
    rows = make_value_columns(made.compiled, MAX_BATCH, SPACE.decode(points))
    outputs = select_outputs(get_loss(loss).needs)
    for _ in range(count // MAX_BATCH):
        made.compiled.run_many(rows, outputs=outputs, threads=threads)


def searched(
    made: Case, loss: str, optimiser: str, threads: int, count: int, batch: int = MAX_BATCH
) -> Any:
    objective = TwinObjective(SPACE, [made], get_loss(loss), threads=threads)
    return minimise(objective, optimiser=optimiser, budget=count, batch=batch).losses


def spare_cores(count: int) -> None:
    """Measure the gain of a second thread for work that scales, to detect a free second core."""
    loads = [grouped(100_000, 1_000, seed) for seed in range(4)]
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(bare_loop, loads))


def throughput(result: BenchmarkResult, quick: bool) -> None:
    count = MAX_BATCH * (20 if quick else 100)
    made = case()
    counts = (1, THREADS)
    rows = [(loss, what) for loss in LOSSES for what in (BARE, *OPTIMISERS)]
    contestants: dict[str, Callable[[], Any]] = {}
    for n in counts:
        contestants[f"spare {n}"] = partial(spare_cores, n)
        for loss, what in rows:
            contestants[f"{loss} {what} {n}"] = (
                partial(runs_alone, made, loss, n, count)
                if what == BARE
                else partial(searched, made, loss, what, n, count)
            )
    repetitions = 3 if quick else 9
    seconds, answers = side_by_side(contestants, repetitions, clock=perf_counter)
    one = {f"{loss} {what}": contestants[f"{loss} {what} 1"] for loss, what in rows}
    spent, _ = side_by_side(one, repetitions)
    spare = seconds["spare 1"] / seconds[f"spare {THREADS}"]
    table = ResultTable(
        f"Evaluations a second: {TASKS} tasks on {NODES} nodes, {len(SPACE)} values searched for",
        {
            "loss": "s",
            "optimiser": "s",
            "1 thread": ",.0f",
            f"{THREADS} threads": ",.0f",
            "speed-up": ".2f",
            "CPU us each": ".1f",
        },
        note=f"In elapsed time, with all that the optimiser does, in batches of {MAX_BATCH}; the "
        f"last column in CPU time, on one thread. On {os.cpu_count()} cores, other work on the "
        f"machine: {os.getloadavg()[0]:.1f}. The bare loop of `load.py` is {spare:.2f} times as "
        f"fast on {THREADS} threads now.",
    )
    for loss, what in rows:
        rates = [count / seconds[f"{loss} {what} {n}"] for n in counts]
        micros = spent[f"{loss} {what}"] / count * 1e6
        table.rows.append([loss, what, *rates, rates[1] / rates[0], micros])
        if what == BARE:
            continue
        if answers[f"{loss} {what} 1"].tobytes() != answers[f"{loss} {what} {THREADS}"].tobytes():
            result.failures.append(f"calibration: {loss}, {what}: other losses on more threads")
        name = f"search, {loss} loss, {what}, {THREADS} threads"
        # If even the bare loop gains nothing, no second core is free, and the goal is undecided.
        failed = False if spare >= ENOUGH else None
        result.goals += [
            Goal(
                name,
                f"at least {PER_SECOND:,} evaluations/s",
                f"{rates[1]:,.0f}",
                True if rates[1] >= PER_SECOND else failed,
            ),
            Goal(
                f"{name} against one",
                f"at least {ENOUGH}x",
                f"{rates[1] / rates[0]:.2f}x",
                True if rates[1] / rates[0] >= ENOUGH else failed,
            ),
        ]
    result.tables.append(table)


def batches(result: BenchmarkResult, quick: bool) -> None:
    count = BATCHES[-1] * (4 if quick else 16)
    made = case()
    contestants = {
        f"{optimiser} {batch} {n}": partial(searched, made, LOSSES[0], optimiser, n, count, batch)
        for optimiser in OPTIMISERS
        for batch in BATCHES
        for n in (1, THREADS)
    }
    repetitions = 3 if quick else 5
    seconds, _ = side_by_side(contestants, repetitions, clock=perf_counter)
    alone = {name: run for name, run in contestants.items() if name.endswith(" 1")}
    spent, _ = side_by_side(alone, repetitions)
    table = ResultTable(
        f"How many points are asked for at once: {LOSSES[0]} loss",
        {
            "optimiser": "s",
            "batch": "d",
            f"{THREADS} threads": ",.0f",
            "speed-up": ".2f",
            "CPU us each": ".1f",
        },
        note="What a batch costs beyond its runs is about the same for few points and for many, "
        "and is not shared among threads.",
    )
    for optimiser in OPTIMISERS:
        for batch in BATCHES:
            one, two = (seconds[f"{optimiser} {batch} {n}"] for n in (1, THREADS))
            micros = spent[f"{optimiser} {batch} 1"] / count * 1e6
            table.rows.append([optimiser, batch, count / two, one / two, micros])
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (throughput, batches)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
