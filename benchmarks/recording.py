"""Cost of recording: its share of a core with 50 tasks, and its effect on their speed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measure import BenchmarkResult, Goal, ResultTable

import twinloop as tl
from twinloop.execution.burn_program import find_burn_program, measure_rates
from twinloop.execution.run import execute

TASKS, BURNING = 50, 5
MOST = 0.01
#: Maximum width of an interval for a decision (share of the time).
TELLING = 0.1
RESAMPLES = 10_000
#: The label of unrecorded tasks.
PLAIN = ("not recorded", None)

#: Isolation and period of the recording, and the measurements of each task.
Outcome = tuple[str, list[dict[str, Any]]]
Contestant = Callable[[], Outcome]


def share(result: BenchmarkResult, quick: bool) -> None:
    length = 8 if quick else 30
    cores = len(os.sched_getaffinity(0))
    each = cores / TASKS
    burn = [str(find_burn_program()), "cpu", "--seconds", f"{length * each / 2:g}"]
    commands = [burn] * BURNING + [["sleep", str(length)]] * (TASKS - BURNING)
    tasks = [
        {"id": f"{number}", "command": command, "cores": each, "run_time": length}
        for number, command in enumerate(commands)
    ]
    scenario = tl.Scenario(platform=f"1x{cores}", workload={"tasks": tasks}, policy="fcfs")
    table = ResultTable(
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
        trace = execute(scenario, period=period, isolation=isolation, announce=ignore_announcement)
        facts = trace.manifest.facts["recording"]
        by = isolation_of(trace)
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


def speed(result: BenchmarkResult, quick: bool) -> None:
    turns = 5 if quick else 30
    cores = len(os.sched_getaffinity(0))
    units = int(measure_rates(["cpu"])["cpu"])
    command = [str(find_burn_program()), "cpu", "--work", str(units)]
    tasks = [
        {"id": str(number), "command": command, "cores": 1, "run_time": 1}
        for number in range(cores)
    ]
    scenario = tl.Scenario(platform=f"1x{cores}", workload={"tasks": tasks}, policy="fcfs")
    contestants: dict[tuple[str, float | None], Contestant] = {
        PLAIN: partial(unrecorded, command, cores),
        **{
            (isolation, period): partial(recorded, scenario, period, isolation)
            for isolation in ("auto", "none")
            for period in (1.0, 0.05)
        },
    }
    times: dict[str, dict[tuple[str, float | None], list[float]]] = {
        kind: {name: [] for name in contestants} for kind in ("elapsed", "CPU")
    }
    found = {}
    for turn in range(turns):
        # The order changes, so that no variant always follows the same one.
        names = list(contestants)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            found[name], said = contestants[name]()
            times["elapsed"][name].append(float(np.mean([each["wall_s"] for each in said])))
            times["CPU"][name].append(float(np.mean([each["cpu_s"] for each in said])))
    table = ResultTable(
        f"{cores} tasks on {cores} cores with the same work, {turns} turns of each",
        {
            "time": "s",
            "recorded by": "s",
            "period (s)": ".2f",
            "median (s)": ".4f",
            "ratio": ".4f",
            "from": ".4f",
            "to": ".4f",
        },
        note="By the tasks' own clocks. Ratio of the medians to those that are not recorded, which "
        "are not isolated either, with its 95 % bootstrap interval.",
    )
    for kind, of in times.items():
        for name in contestants:
            median = float(np.median(of[name]))
            if name == PLAIN:
                table.rows.append([kind, found[name], None, median, None, None, None])
                continue
            ratio, low, high = compare_medians(of[name], of[PLAIN])
            table.rows.append([kind, found[name], name[1], median, ratio, low, high])
            if name[1] == 1.0:
                result.goals.append(
                    Goal(
                        f"recorded runs are not slower, in {kind} time, by {found[name]}",
                        "1 in the interval, or under it",
                        f"{ratio:.4f} ({low:.4f} to {high:.4f})",
                        None if high - low > TELLING else low <= 1.0,
                    )
                )
    result.tables.append(table)


def unrecorded(command: list[str], count: int) -> Outcome:
    """Run so many tasks at once and return their own measurements."""
    children = [
        # In separate sessions, like recorded tasks: the kernel shares by session.
        subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(count)
    ]
    return PLAIN[0], [json.loads(child.communicate()[0]) for child in children]


def recorded(scenario: tl.Scenario, period: float, isolation: str) -> Outcome:
    """Run a scenario and return the measurements of its tasks."""
    with TemporaryDirectory() as place:
        folder = Path(place) / "run"
        trace = execute(
            scenario, folder, period=period, isolation=isolation, announce=ignore_announcement
        )
        said = [json.loads(file.read_bytes()) for file in folder.glob("output/*/*.out")]
    return isolation_of(trace), said


def isolation_of(trace: tl.Trace) -> str:
    """Return the isolation method of a run, which determines its recording."""
    return str(trace.manifest.facts["nodes"]["isolation"]).replace("none", "processes")


def ignore_announcement(text: str) -> None:
    """Discard the announcement of a run."""


def compare_medians(values: list[float], base: list[float]) -> tuple[float, float, float]:
    """Ratio of the medians, and the bounds of its 95 % bootstrap interval."""
    draw = np.random.default_rng(1)

    def medians(of: list[float]) -> np.ndarray:
        return np.median(draw.choice(of, (RESAMPLES, len(of))), axis=1)

    ratios = medians(values) / medians(base)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(values) / np.median(base)), float(low), float(high)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    share(result, quick)
    speed(result, quick)
    return result
