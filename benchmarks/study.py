"""A study of 84 runs: time on threads and processes, compared with a plain loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from measure import BenchmarkResult, ResultTable, side_by_side

from twinloop import Scenario, explore, simulate
from twinloop.exploration.factors.design import Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.study.plan import plan_runs
from twinloop.metrics import figures

#: 28 configurations, three seeds: the design space of a published study.
DESIGN = Design.load(Path(__file__).parents[1] / "examples" / "factors.yaml")
WORKERS = (1, 2)
PLAIN = "a loop over `simulate` and `figures`"


def scenario(tasks: int) -> Scenario:
    generate = {"name": "poisson", "parameters": {"tasks": tasks}}
    return Scenario(platform="4x4", policy="first-fit", workload={"generate": generate})


def plain(base: Scenario) -> list[float]:
    """Run the configurations in sequence, without a study."""
    found = []
    for run in plan_runs(base, DESIGN, {}).runs:
        makespan = figures(simulate(apply_changes(base, run.changes))).makespan
        found.append(float("nan") if makespan is None else makespan)
    return found


def studied(base: Scenario, on: str, workers: int) -> list[float]:
    study = explore(base, DESIGN, on=on, workers=None if on == "serial" else workers)
    return study.runs["makespan_s"].to_list()


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    table = ResultTable(
        "A study of 84 runs: 28 configurations, three seeds",
        {"tasks a run": ",d", "how": "s", "seconds": ".2f", "runs/s": ",.0f", "against": ".2f"},
        note="In elapsed time; `against`: how many times as fast as the study on one thread. On "
        f"{os.cpu_count()} cores, other work on the machine: {os.getloadavg()[0]:.1f}.",
    )
    for tasks in (100, 1_000) if quick else (100, 1_000, 10_000):
        base = scenario(tasks)
        contestants: dict[str, Callable[[], Any]] = {
            PLAIN: partial(plain, base),
            **{f"threads, {n}": partial(studied, base, "threads", n) for n in WORKERS},
            f"processes, {WORKERS[-1]}": partial(studied, base, "processes", WORKERS[-1]),
        }
        seconds, answers = side_by_side(contestants, 1 if quick else 3, clock=perf_counter)
        one = seconds[f"threads, {WORKERS[0]}"]
        for name, took in seconds.items():
            table.rows.append([tasks, name, took, 84 / took, one / took])
            if name != PLAIN and answers[name] != answers[f"threads, {WORKERS[0]}"]:
                result.failures.append(f"study: {tasks} tasks, {name}: other results")
        off = max(
            abs(mine / theirs - 1.0)
            for mine, theirs in zip(answers[f"threads, {WORKERS[0]}"], answers[PLAIN], strict=True)
        )
        if off > 1e-9:
            result.failures.append(f"study: {tasks} tasks: not the makespans of the plain loop")
    result.tables.append(table)
    return result
