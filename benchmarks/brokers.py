"""A year of a broker: a million tasks, compared with a loop in Python for the same decisions."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import polars as pl
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Workload
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario
from twinloop.trace import Trace

TASKS, QUICK_TASKS = 1_000_000, 50_000
GAP, MEDIAN, SIGMA = 31.5, 400.0, 0.8  # s: a million tasks in a year
UNIT, MARGIN, BOOT, PRICE = 3600.0, 50.0, 60.0, 0.1
LATEST = 1800.0  # s: each task has a deadline this long after twice its predicted time
#: The time that a year of a broker may take (s).
SECONDS = 10.0
LOOP = "a loop in Python"
STRATEGIES = ("asap", "afap", "list", "deadline", "budget")


def make_tasks(count: int) -> tuple[Any, Any, Any]:
    """Make the submissions, run times and predictions of the tasks."""
    rng = np.random.default_rng(1)
    run = rng.lognormal(np.log(MEDIAN), SIGMA, count)
    return np.sort(rng.random(count)) * count * GAP, run, run * rng.lognormal(0.2, 0.3, count)


def compiled(tasks: tuple[Any, Any, Any], strategy: str) -> CompiledScenario:
    """Compile the scenario of a strategy."""
    submit, run, predicted = tasks
    frame = pl.DataFrame(
        {
            "id": pl.Series(np.arange(len(submit))).cast(pl.String),
            "submit": submit,
            "requested_cores": np.ones(len(submit)),
            "requested_time": predicted,
            "run_time": run,
            "deadline": submit + 2 * predicted + LATEST,
        }
    )
    options: dict[str, Any] = {"margin": MARGIN}
    if strategy == "budget":
        options["budget"] = PRICE * len(submit)
    image = {"name": "base", "boot": {"delay": BOOT}}
    cloud = {
        "name": "east",
        "types": [{"name": "small", "cores": 1}],
        "images": [image],
        "billing": {"unit": UNIT, "price": PRICE},
    }
    scenario = Scenario.from_dict(
        {
            "platform": {
                "clusters": [{"hosts": [{"count": 2_000, "cores": 1}]}],
                "clouds": [cloud],
            },
            "workload": {"tasks": [{"id": "replaced", "run_time": 1}]},
            "policy": {"name": strategy, "options": options},
        }
    )
    return CompiledScenario(scenario, workload=Workload.from_trace(Trace(tasks=frame)))


def simulated(ready: CompiledScenario) -> tuple[int, float]:
    figures = ready.run()
    return int(figures["instances"]), round(figures["bill"], 6)


class Node:
    """An instance of the loop in Python."""

    def __init__(self, requested: float, number: int) -> None:
        self.requested, self.number = requested, number
        self.ready = requested + BOOT
        self.predicted = self.ready  # idle time
        self.queue: list[int] = []
        self.running = -1


def units(time: float) -> int:
    return max(1, ceil(time / UNIT - 1e-9))


def looped(tasks: tuple[Any, Any, Any]) -> tuple[int, float]:
    """Decide `asap` with a heap of events, as a script for this one purpose would."""
    submit, run, predicted = (each.tolist() for each in tasks)
    # Events: time, kind (0: end of a task, 1: boot, 2: submission, 3: end of a unit), node or task.
    events: list[Any] = [(time, 2, task, None) for task, time in enumerate(submit)]
    nodes: list[Node] = []
    started: dict[int, float] = {}
    count, bill = 0, 0
    while events:
        now, kind, which, node = heapq.heappop(events)
        if kind == 0:
            node.predicted += now - started.pop(which) - predicted[which]
            node.running = -1
        elif kind == 2:
            best, least = None, 0.0
            for each in reversed(nodes):
                is_idle = each.ready <= now and each.running < 0 and not each.queue
                idle = now if is_idle else each.predicted
                if idle < now + BOOT:
                    end = idle - each.requested + MARGIN + predicted[which]
                    left = units(end) * UNIT - end
                    # The earliest request wins, as in the order of the instances.
                    if best is None or left <= least:
                        best, least = each, left
            if best is None:
                best = Node(now, count)
                count += 1
                nodes.append(best)
                heapq.heappush(events, (best.ready, 1, count, best))
            elif best.ready <= now and best.running < 0 and not best.queue:
                best.predicted = now
            best.predicted += predicted[which]
            best.queue.append(which)
            node = best
        if node not in nodes:
            continue
        if node.ready <= now and node.running < 0:
            if node.queue:
                task = node.queue.pop(0)
                node.running = task
                started[task] = now
                heapq.heappush(events, (now + run[task], 0, task, node))
            else:
                stop = node.requested + units(now - node.requested) * UNIT - MARGIN
                if now >= stop:
                    nodes.remove(node)
                    bill += units(now - node.requested)
                else:
                    heapq.heappush(events, (stop, 3, -1, node))
    return count, round(bill * PRICE, 6)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    count = QUICK_TASKS if quick else TASKS
    tasks = make_tasks(count)
    ready = {strategy: compiled(tasks, strategy) for strategy in STRATEGIES}
    contestants: dict[str, Callable[[], Any]] = {
        **{strategy: partial(simulated, each) for strategy, each in ready.items()},
        LOOP: partial(looped, tasks),
    }
    seconds, answers = side_by_side(contestants, 1)
    table = ResultTable(
        f"A broker with {count:,} tasks, one every {GAP:g} s",
        {"strategy": "s", "tasks/s": ",.0f", "seconds": ".2f", "instances": ",", "bill": ",.1f"},
        note="The loop decides asap in Python for this one purpose, and records nothing.",
        rates=("tasks/s",),
    )
    for name, took in seconds.items():
        table.rows.append([name, count / took, took, *answers[name]])
    result.tables.append(table)
    if answers["asap"] != answers[LOOP]:
        result.failures.append(
            f"brokers: asap: {answers['asap']} instances and bill, the loop has {answers[LOOP]}"
        )
    if not quick:
        slowest = max(seconds[strategy] for strategy in STRATEGIES)
        goal = f"a year of each strategy in under {SECONDS:g} s"
        result.goals.append(Goal("brokers", goal, f"{slowest:.2f} s", slowest < SECONDS))
    return result
