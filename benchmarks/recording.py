"""What recording costs: its share of a core beside 50 tasks, and what it does to their speed."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from measure import Goal, Result, Table

import twinloop as tl
from twinloop.execute.burn import program, rates
from twinloop.execute.run import execute

TASKS, BURNING = 50, 5
MOST = 0.01
#: An interval wider than this says nothing (share of the time).
TELLING = 0.1
RESAMPLES = 10_000


def share(result: Result, quick: bool) -> None:
    length = 8 if quick else 30
    cores = len(os.sched_getaffinity(0))
    each = cores / TASKS
    burn = [str(program()), "cpu", "--seconds", f"{length * each / 2:g}"]
    commands = [burn] * BURNING + [["sleep", str(length)]] * (TASKS - BURNING)
    tasks = [
        {"id": f"{number}", "command": command, "cores": each, "run_time": length}
        for number, command in enumerate(commands)
    ]
    scenario = tl.Scenario(platform=f"1x{cores}", workload={"tasks": tasks}, policy="fcfs")
    table = Table(
        f"Recording {TASKS} tasks at once, {BURNING} of them working, for {length} s",
        {
            "by": "s",
            "period (s)": ".2f",
            "passes": "d",
            "samples": "d",
            "CPU ms a pass": ".2f",
            "share of a core": ".2%",
            "executor": ".2%",
        },
        note="executor: all that the executing process does, recording included.",
    )
    for isolation, period in (("auto", 1.0), ("none", 1.0), ("auto", 0.05), ("none", 0.05)):
        trace = execute(scenario, period=period, isolation=isolation)
        facts = trace.manifest.facts["recording"]
        by = trace.manifest.facts["nodes"]["isolation"].replace("none", "processes")
        if trace.tasks["status"].n_unique() != 1:
            result.failures.append("recording: not all tasks completed")
        used = facts["share_of_core"]
        table.rows.append(
            [
                by,
                period,
                facts["passes"],
                facts["samples"],
                facts["cpu_s"] / facts["passes"] * 1e3,
                used,
                facts["executor_share_of_core"],
            ]
        )
        if period == 1.0:
            result.goals.append(
                Goal(
                    f"recording {TASKS} tasks at 1 s, by {by}",
                    f"under {MOST:.0%} of a core",
                    f"{used:.2%}",
                    used < MOST,
                )
            )
    result.tables.append(table)


def speed(result: Result, quick: bool) -> None:
    turns = 5 if quick else 30
    cores = len(os.sched_getaffinity(0))
    units = int(rates(["cpu"])["cpu"])
    command = [str(program()), "cpu", "--work", str(units)]
    tasks = [
        {"id": str(number), "command": command, "cores": 1, "run_time": 1}
        for number in range(cores)
    ]
    scenario = tl.Scenario(platform=f"1x{cores}", workload={"tasks": tasks}, policy="fcfs")
    contestants: dict[str, Any] = {
        "not recorded": partial(unrecorded, command, cores),
        "recorded at 1 s": partial(recorded, scenario, 1.0),
        "recorded at 50 ms": partial(recorded, scenario, 0.05),
    }
    walls: dict[str, list[float]] = {name: [] for name in contestants}
    cpus: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(turns):
        # Who goes first changes, so that none always comes after the same one.
        names = list(contestants)
        for name in names[turn % 3 :] + names[: turn % 3]:
            wall, cpu = contestants[name]()
            walls[name].append(wall)
            cpus[name].append(cpu)
    table = Table(
        f"{cores} tasks on {cores} cores with the same work, {turns} turns of each",
        {"time": "s", "run": "s", "median (s)": ".4f", "ratio": ".4f", "from": ".4f", "to": ".4f"},
        note="Ratio of the medians to those not recorded, with its 95 % bootstrap interval.",
    )
    for kind, times in (("elapsed", walls), ("CPU", cpus)):
        for name in contestants:
            ratio, low, high = compared(times[name], times["not recorded"])
            told = (None, None, None) if name == "not recorded" else (ratio, low, high)
            table.rows.append([kind, name, float(np.median(times[name])), *told])
            if name == "recorded at 1 s":
                result.goals.append(
                    Goal(
                        f"recorded runs are not slower, in {kind} time",
                        "1 in the interval, or under it",
                        f"{ratio:.4f} ({low:.4f} to {high:.4f})",
                        None if high - low > TELLING else low <= 1.0,
                    )
                )
    result.tables.append(table)


def unrecorded(command: list[str], count: int) -> tuple[float, float]:
    """Mean wall and CPU time of so many at once."""
    began, children = [], []
    for _ in range(count):
        began.append(perf_counter())
        # In sessions of their own, as those that are recorded: the kernel shares by session.
        children.append(
            subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
        )
    walls, cpu = [], 0.0
    left = {child.pid: start for child, start in zip(children, began, strict=True)}
    while left:
        pid, _, usage = os.wait4(-1, 0)
        if pid in left:
            walls.append(perf_counter() - left.pop(pid))
            cpu += usage.ru_utime + usage.ru_stime
    for child in children:
        child.returncode = 0
    return float(np.mean(walls)), cpu / count


def recorded(scenario: tl.Scenario, period: float) -> tuple[float, float]:
    """Mean wall and CPU time of the tasks of a scenario."""
    tasks = execute(scenario, period=period, isolation="none").tasks
    return float(tasks["run_time"].mean()), float(tasks["cpu_time"].mean())  # type: ignore[arg-type]


def compared(values: list[float], base: list[float]) -> tuple[float, float, float]:
    """Ratio of the medians, and the bounds of its 95 % bootstrap interval."""
    draw = np.random.default_rng(1)

    def medians(of: list[float]) -> np.ndarray:
        return np.median(draw.choice(of, (RESAMPLES, len(of))), axis=1)

    ratios = medians(values) / medians(base)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(values) / np.median(base)), float(low), float(high)


def run(quick: bool) -> Result:
    result = Result()
    share(result, quick)
    speed(result, quick)
    return result
