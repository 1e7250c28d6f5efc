"""A week of a cluster whose tasks change their use every 30 s, with power; and its memory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from logs import DATA, finished
from measure import BenchmarkResult, Goal, ResultTable, side_by_side, take_turn
from memory import reset_memory, resident
from traces import FRAGMENTS, TASKS, made_opendc

from twinloop import Scenario, read, simulate
from twinloop.engine import CompiledScenario

PER_SECOND = 8e6
MEGABYTES = 250.0
STEP = 30.0
# The cluster that the week was recorded on, with the power model that fits it best.
POWER = {"model": "mse", "idle": 25.0, "max": 174.0, "r": 4.0}
HOSTS = {"name": "host", "count": 277, "cores": 16, "mhz": 2100, "power": POWER}
PLATFORM = {"clusters": [{"name": "surf", "hosts": [HOSTS]}]}
MODEL = {"demand": "fixed", "sharing": "no-delay"}
POLICY = {"name": "filter", "options": {"filters": {"vcpu": 1.0}}}


def folders(quick: bool) -> dict[str, Path]:
    """The SURF week, if available, and a generated week of its shape."""
    scale = 10 if quick else 1
    found = {"made up, no fragments merge": made_opendc(TASKS // scale, FRAGMENTS // scale)}
    if (DATA / "surf").exists():
        found["SURF"] = DATA / "surf"
    return found


def scenario(folder: Path) -> Scenario:
    week = {"object": read(folder, "opendc"), "missing": "drop"}
    return Scenario(platform=PLATFORM, workload=week, policy=POLICY, model=MODEL)


def with_series(ready: CompiledScenario) -> Any:
    """Run with recorded utilisation, and compute the power of the cluster from it."""
    run = finished(ready, placements=True, use=True)
    return run, run.power(STEP, False)


def fragments(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "A week of 277 hosts with power (million fragments of the file per CPU second)",
        {
            "log": "s",
            "fragments": ",d",
            "changes of use": ",d",
            "energy": ".1f",
            "series": ".1f",
            "series, changes": ".1f",
        },
        note="energy: of each host and each task; series: also every change of use, every "
        f"placement, and the power in windows of {STEP:.0f} s. Fragments that follow each other "
        "with the same use are one change of use: the last column counts these.",
        rates=["energy", "series"],
    )
    for name, folder in folders(quick).items():
        ready = CompiledScenario(scenario(folder))
        contestants: dict[str, Callable[[], Any]] = {
            "energy": partial(finished, ready),
            "series": partial(with_series, ready),
        }
        seconds, answers = side_by_side(contestants, 3 if quick else 9)
        run, watts = answers["series"]
        energy = float(run.energy().sum())
        # The last window ends with the run.
        last = run.now - run.start_time - STEP * (len(watts) - 1)
        integral = float(watts[:-1].sum() * STEP + watts[-1] * last)
        if not abs(integral - energy) <= 1e-9 * energy:
            result.failures.append(f"surf: {name}: the series has another energy than the hosts")
        count = ready.trace.usage.height if ready.trace is not None else 0
        changes = run.events - len(ready.arrays)
        if name != "SURF" and changes < count:
            result.failures.append(f"surf: {name}: {count - changes:,} fragments were merged")
        rates = {each: count / s / 1e6 for each, s in seconds.items()}
        table.rows.append(
            [
                name,
                count,
                changes,
                rates["energy"],
                rates["series"],
                changes / seconds["series"] / 1e6,
            ]
        )
        result.goals.append(
            Goal(
                f"a week with power, {name}",
                f"at least {PER_SECOND / 1e6:.0f} million fragments/s",
                f"{rates['series']:.1f} million",
                rates["series"] * 1e6 >= PER_SECOND,
            )
        )
    result.tables.append(table)


def peaks(folder: Path) -> tuple[float, float, float]:
    """Return the peak memory of a simulation (MB), the memory before, and that of the run."""
    before = resident("VmRSS")
    ready = CompiledScenario(scenario(folder))
    trace = simulate(ready, power_step=STEP)
    # Not ru_maxrss, which a process inherits from its parent.
    whole = resident("VmHWM")
    del trace
    reset_memory()
    compiled = resident("VmRSS")
    kept = with_series(ready)
    run = resident("VmHWM") - compiled
    del kept
    return whole / 1e6, before / 1e6, run / 1e6


def memory(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        "Memory of a week with power (MB)",
        {"log": "s", "peak": ".0f", "imports alone": ".0f", "run alone": ".0f"},
        note="peak: largest resident set of a process that reads the tables, runs them and makes "
        "a Trace with power; run alone: what a compiled scenario needs beyond itself to run. The "
        "least of three processes.",
        costs=["peak", "run alone"],
    )
    for name, folder in folders(quick).items():
        answers = []
        for _ in range(1 if quick else 3):
            take_turn()
            answer = subprocess.run(
                [sys.executable, __file__, str(folder)], check=True, capture_output=True, text=True
            )
            answers.append(json.loads(answer.stdout))
        row = [min(figures) for figures in zip(*answers, strict=True)]
        table.rows.append([name, *row])
        decided = not (quick and name != "SURF")
        result.goals.append(
            Goal(
                f"peak memory of a week with power, {name}",
                f"under {MEGABYTES:.0f} MB",
                f"{row[0]:.0f} MB",
                row[0] < MEGABYTES if decided else None,
            )
        )
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (fragments, memory)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result


if __name__ == "__main__":
    print(json.dumps(peaks(Path(sys.argv[1]))))
