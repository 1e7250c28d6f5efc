"""A study over 289 made executions with five injected sets: time, compared with a plain loop."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import simulate
from twinloop.exploration import explore_executions
from twinloop.metrics import client_metrics
from twinloop.scenario import scenario_of_run

SETS = ("best", "no-threads", "no-boot-times", "communications", "predictions")
#: Executions and tasks of the collection of real ones; a third of them are workflows.
EXECUTIONS, TASKS = 289, 203
WORKERS = 2
PLAIN = "a loop over `simulate` and `client_metrics`"
#: The time that the whole study may take on two cores (s).
GOAL = 60.0

SETTINGS = """<simschlouder version="1">
<config platform="platform.xml" cloud="cloud.xml"/>
<cloud id="east" B0="60" B1="6" BTU="3600" shutdown_margin="50" max_instances_per_user="25"
       standard_power="1e10"/>
<provisioning><config cloud="east" storage="disk" image="base" instance_type="small"
                      validation="true"/></provisioning></simschlouder>
"""


def write_executions(folder: Path, count: int) -> None:
    """Write executions with random tasks, and the settings of their broker."""
    draw = random.Random(1)
    (folder / "simschlouder.regular.east.v1.xml").write_text(SETTINGS)
    for number in range(count):
        case = "2x2" if number % 3 == 0 else "brs"
        strategy = ("asap", "afap")[number % 2]
        name = f"v1.standard.{case}.{strategy}.regular.east.v1.{number}.tasks"
        boots = [f"{draw.randint(40, 250)} 10 {draw.randint(0, 3)}" for _ in range(25)]
        tasks = [write_task(draw, index, is_workflow=case == "2x2") for index in range(TASKS)]
        (folder / name).write_text("\n".join(["[boots]", *boots, "[tasks]", *tasks, ""]))


def write_task(draw: random.Random, index: int, *, is_workflow: bool) -> str:
    run = draw.randint(20, 900)
    task = f"t{index} 10 {run + draw.randint(-15, 90)} ~ {run + 6} {run} 2e6 4e6 1.5"
    return f"{task} -> t{draw.randrange(index)}" if is_workflow and index > 20 else task


def plain(folder: Path) -> list[float | None]:
    """Simulate the executions in sequence, without a study."""
    return [
        client_metrics(simulate(scenario_of_run(path, inject=each))).makespan
        for path in sorted(folder.glob("*.tasks"))
        for each in SETS
    ]


def studied(folder: Path, on: str) -> list[float | None]:
    study = explore_executions(
        {"run": [str(folder)], "inject": list(SETS)},
        on=on,
        workers=WORKERS if on == "processes" else None,
    )
    return study.runs.sort("execution", maintain_order=True)["makespan_s"].to_list()


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    count = 40 if quick else EXECUTIONS
    on_processes = f"processes, {WORKERS}"
    table = ResultTable(
        f"A study over {count} executions of {TASKS} tasks with {len(SETS)} injected sets",
        {"how": "s", "seconds": ".1f", "runs/s": ",.0f"},
        note="In elapsed time, with reading, metrics and tables. On "
        f"{os.cpu_count()} cores, other work on the machine: {os.getloadavg()[0]:.1f}.",
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_executions(folder, count)
        contestants: dict[str, Callable[[], Any]] = {
            PLAIN: partial(plain, folder),
            "one process": partial(studied, folder, "serial"),
            on_processes: partial(studied, folder, "processes"),
        }
        seconds, answers = side_by_side(contestants, 1, clock=perf_counter)
    for how, took in seconds.items():
        table.rows.append([how, took, count * len(SETS) / took])
        if answers[how] != answers[PLAIN]:
            result.failures.append(f"executions: {how}: other makespans than the plain loop")
    result.tables.append(table)
    if not quick:
        took = seconds[on_processes]
        goal = f"under {GOAL:.0f} s on {WORKERS} processes"
        result.goals.append(Goal("executions: the whole study", goal, f"{took:.1f} s", took < GOAL))
    return result
