"""Machines that a policy switches off and on, and machines that fail, by their number."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from logs import compiled, finished
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Trace
from twinloop.policy import Place, Policy, SetState

SIZES = (100, 1_000, 10_000)
MOST = 100_000  # machines that are switched
TASKS = 20_000  # at least
LENGTH = 1000.0  # run time of every task (s)
LOAD = 0.5  # of all machines
MTBF, MTTR = 20_000.0, 100.0  # of a machine (s): about a failure per ten tasks
GROWTH = 2.0
POWER = {"model": "linear", "idle": 60.0, "max": 240.0}


DAY, HOUR = 86_400.0, 3_600.0
#: Table 1 of G. Kecskemeti, "DISSECT-CF" (2015).
RUNNING = {"model": "linear", "idle": 368.8, "max": 722.7}
STATES = {
    "off": {"power": "36.4 W"},
    "switching-on": {"power": "483.1 W", "duration": "200s"},
    "switching-off": {"power": "409.2 W", "duration": "12s"},
}
SAVING = {"name": "power-saving", "options": {"idle_time": "5min"}}


def platform(machines: int, **more: Any) -> dict[str, Any]:
    host = {"name": "host", "count": machines, "cores": 1, "power": POWER, **more}
    return {"clusters": [{"name": "c", "hosts": [host]}]}


def stream(tasks: int, machines: int) -> Trace:
    """Tasks of one core and equal length at random times, which keep half of the machines busy."""
    gap = LENGTH / (LOAD * machines)
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": np.arange(tasks).astype(str),
                "submit": np.cumsum(np.random.default_rng(1).exponential(gap, tasks)),
                "requested_cores": np.ones(tasks),
                "run_time": np.full(tasks, LENGTH),
            }
        )
    )


class OffWhenIdle(Policy):
    """Switch on the machine that was off longest for each task, and off again after its end.

    Tasks have the same length, so they end in the order of their starts, and a decision costs the
    policy the same for any number of machines.
    """

    def __init__(self) -> None:
        self.off: deque[int] = deque()
        self.busy: deque[int] = deque()

    def decide(self, view: Any) -> Iterator[Place | SetState]:
        if not self.off and not self.busy:
            self.off.extend(range(view.machines))
            for machine in self.off:
                yield SetState(machine, "off")
        while self.busy and view.free(self.busy[0]) > 0:
            machine = self.busy.popleft()
            self.off.append(machine)
            yield SetState(machine, "off")
        while (task := view.first_waiting) is not None and self.off:
            machine = self.off.popleft()
            yield SetState(machine, "on")
            yield Place(task, machine)
            self.busy.append(machine)


def add_growth_goal(result: BenchmarkResult, name: str, cost: dict[int, float]) -> None:
    least, most = min(cost), max(cost)
    growth = cost[most] / cost[least]
    result.goals.append(
        Goal(
            f"{name}, {most:,} machines against {least:,}",
            f"at most {GROWTH:.0f}x",
            f"{growth:.1f}x",
            growth <= GROWTH,
        )
    )


def switching(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "Machines switched off and on by a policy in Python (CPU)",
        {"machines": ",d", "switches": ",d", "seconds": ".3f", "us/switch": ".2f"},
        note="All that the run costs: a task is submitted, decided on and ends for every two "
        "switches, after all machines were switched off once.",
        costs=["us/switch"],
    )
    cost: dict[int, float] = {}
    for machines in SIZES if quick else (*SIZES, MOST):
        tasks = max(TASKS, 2 * machines)
        scenario = compiled(stream(tasks, machines), platform(machines), OffWhenIdle())
        repetitions = 3 if quick or machines == MOST else 15
        seconds, runs = side_by_side({"run": partial(finished, scenario)}, repetitions)
        if runs["run"].kpis()["completed"] != tasks:
            result.failures.append(f"machine_states: {machines:,}: not all tasks were completed")
        states = runs["run"].states()
        switches = len(states["start"]) + int(np.isfinite(states["end"]).sum())
        table.rows.append([machines, switches, seconds["run"], seconds["run"] / switches * 1e6])
        cost[machines] = seconds["run"] / switches
    result.tables.append(table)
    add_growth_goal(result, "cost of a switch", cost)


def failures(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "Machines that fail, EASY (CPU)",
        {
            "machines": ",d",
            "failures": ",d",
            "seconds": ".3f",
            "without": ".3f",
            "us/failure": ".1f",
        },
        note="us/failure: what a run with failures costs more than one without, with the tasks "
        "that it starts again.",
        costs=["us/failure"],
    )
    cost: dict[int, float] = {}
    for machines in SIZES:
        load = stream(TASKS, machines)
        drawn = {"mtbf": MTBF, "mttr": MTTR}
        failing = compiled(load, platform(machines), "easy", failures=drawn)
        steady = compiled(load, platform(machines), "easy")
        contestants = {"failing": partial(finished, failing), "steady": partial(finished, steady)}
        seconds, runs = side_by_side(contestants, 2 if quick else 5)
        for name, run in runs.items():
            if run.kpis()["completed"] != TASKS:
                result.failures.append(f"machine_states: {name}: not all tasks were completed")
        count = len(runs["failing"].states()["start"])
        each = (seconds["failing"] - seconds["steady"]) / count
        table.rows.append([machines, count, seconds["failing"], seconds["steady"], each * 1e6])
        cost[machines] = each
    result.tables.append(table)
    add_growth_goal(result, "cost of a failure", cost)


def hourly(machines: int) -> Trace:
    """A day in which half of the machines get a task within ten minutes of every hour."""
    submit = np.arange(0.0, DAY, HOUR)[:, None] + np.linspace(0.0, 600.0, machines // 2)
    return Trace(
        tasks=pl.DataFrame(
            {
                "id": np.arange(submit.size).astype(str),
                "submit": submit.ravel(),
                "requested_cores": np.ones(submit.size),
                "run_time": np.full(submit.size, LENGTH),
            }
        )
    )


def saving(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "A day of machines with states under power-saving, FCFS (CPU)",
        {
            "machines": ",d",
            "changes": ",d",
            "seconds": ".3f",
            "without": ".3f",
            "us/change": ".2f",
            "energy": ".2f",
        },
        note="changes: periods of states; without: the same day with all machines on; energy: as a "
        "multiple of that day's.",
        costs=["us/change"],
    )
    for machines in (100, 1_000):
        load, host = hourly(machines), platform(machines, power=RUNNING, states=STATES)
        contestants = {
            "saving": partial(finished, compiled(load, host, "fcfs", controllers=[SAVING])),
            "on": partial(finished, compiled(load, host, "fcfs")),
        }
        seconds, runs = side_by_side(contestants, 2 if quick else 5)
        for name, run in runs.items():
            if run.kpis()["completed"] != load.tasks.height:
                result.failures.append(f"machine_states: {name}: not all tasks were completed")
        count = len(runs["saving"].states()["start"])
        energy = runs["saving"].kpis()["energy_j"] / runs["on"].kpis()["energy_j"]
        each = (seconds["saving"] - seconds["on"]) / count * 1e6
        table.rows.append([machines, count, seconds["saving"], seconds["on"], each, energy])
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (switching, failures, saving)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
