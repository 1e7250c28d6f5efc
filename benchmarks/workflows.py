"""Workflows with files: runs at each level of detail, and concurrent reads of one store."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import polars as pl
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Workload, calibrate, simulate
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario
from twinloop.trace import Trace, read

#: The platform of a study of workflow scheduling: three clusters, each with its own wide-area link.
CLUSTERS = ((48, 10, 1.0, "10 Gb/s"), (32, 16, 1.25, "7 Gb/s"), (10, 48, 2.02, "8 Gb/s"))
LEVELS: dict[str, dict[str, str]] = {
    "files in one store": {"storage": "submit"},
    "one link": {"storage": "submit", "network": "one-link"},
    "copied to the hosts": {"storage": "all"},
    "copies kept": {"storage": "all", "cache": "host"},
    "whole files": {"storage": "all", "buffers": "whole"},
}
#: Seconds that a run of a recorded workflow may take.
SECONDS = 0.03
READS = (1, 10, 208)
#: Of the cost per read, from the fewest to the most at once.
GROWTH = 2.0
#: Runs and evaluations of a calibration of ten parameters, and the seconds that it may take.
CALIBRATED_RUNS, EVALUATIONS, CALIBRATION_SECONDS = 50, 2000, 300
BANDWIDTH = {"exponential": [2**20 / 8, 2**40 / 8]}
OVERHEAD = {"linear": [0, "20s"]}
#: The ten parameters of a study of workflows under Pegasus and HTCondor, and their ranges.
PARAMETERS: dict[str, Any] = {
    "platform.network.links[0].bandwidth": BANDWIDTH,
    "platform.network.links[1].bandwidth": BANDWIDTH,
    "platform.stores[0].read": BANDWIDTH,
    "platform.stores[0].write": BANDWIDTH,
    "platform.stores[0].streams": {"linear": [1, 100], "integer": True},
    "speed_factor": {"exponential": [2**-10, 2**10]},
    "startup_overhead": OVERHEAD,
    "submission.cycle": OVERHEAD,
    "submission.before": OVERHEAD,
    "submission.after": OVERHEAD,
}
WITHOUT, HEAP, LAYERS = "without files", "a heap in Python", "layers"


def make_scenario(workload: Workload, detail: dict[str, str]) -> Scenario:
    store = {"read": "12.5 GB/s", "write": "12.5 GB/s"}
    return Scenario(
        platform={
            "clusters": [
                {"hosts": [{"count": n, "cores": c, "speed": s, "ports": port, "store": store}]}
                for n, c, s, port in CLUSTERS
            ],
            "stores": [{"name": "submit", "read": "100 MB/s", "ports": "100 MB/s"}],
        },
        workload=workload,
        policy="fcfs",
        model={"detail": detail},
    )


def make_layers(width: int, depth: int) -> Workload:
    """Layers of tasks, each of which reads the files of two tasks of the layer before."""
    tasks: dict[str, list[Any]] = {"id": [], "parents": [], "run_time": []}
    uses: list[tuple[str, str, str]] = []
    for layer in range(depth):
        for place in range(width):
            name = f"t{layer}-{place}"
            before = [f"t{layer - 1}-{(place + step) % width}" for step in (0, 1)] if layer else []
            tasks["id"].append(name)
            tasks["parents"].append(before)
            tasks["run_time"].append(10.0 + (7 * place + layer) % 13)
            uses += [(name, parent, "read") for parent in before] or [(name, "input", "read")]
            uses.append((name, name, "write"))
    return Workload.from_trace(
        Trace(
            tasks=pl.DataFrame(tasks).with_columns(submit=0.0),
            files=pl.DataFrame({"file": ["input", *tasks["id"]], "size": 5e6}),
            task_files=pl.DataFrame(uses, schema=["task", "file", "access"], orient="row"),
        )
    )


def list_workflows(quick: bool) -> Iterator[tuple[str, Workload]]:
    """The recorded workflows where they are, and one of layers."""
    yield LAYERS, make_layers(20 if quick else 50, 10 if quick else 20)
    data = os.environ.get("TWINLOOP_DATA")
    if data is not None:
        for path in sorted(Path(data, "workflows").glob("*.json*")):
            yield path.name.partition("-")[0], Workload.from_trace(read(path))


def make_reads(together: int, count: int) -> CompiledScenario:
    """Tasks that read one file each, so many at once."""
    names = [f"r{number}" for number in range(count)]
    workload = Workload.from_trace(
        Trace(
            tasks=pl.DataFrame({"id": names, "submit": 0.0, "run_time": 1.0}),
            files=pl.DataFrame({"file": names, "size": [1e6 + n % 7 for n in range(count)]}),
            task_files=pl.DataFrame({"task": names, "file": names, "access": "read"}),
        )
    )
    return CompiledScenario(
        Scenario(
            platform={
                "clusters": [{"hosts": [{"cores": 1, "count": together, "ports": "1 Gb/s"}]}],
                "stores": [{"name": "disk", "read": "500 MB/s", "ports": "10 Gb/s"}],
            },
            workload=workload,
            policy="fcfs",
        )
    )


def pass_events(count: int) -> float:
    """Pass as many events through a heap in Python: what a script would spend at the least."""
    now, events = 0.0, [(float(n % 97), n) for n in range(min(count, 100))]
    heapq.heapify(events)
    for number in range(count):
        now, _ = heapq.heappop(events)
        heapq.heappush(events, (now + number % 13, number))
    return now


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    columns = {"workflow": "s", "tasks": ",d", "uses of files": ",d"}
    columns |= dict.fromkeys((WITHOUT, *LEVELS, HEAP), ".2f")
    table = ResultTable(
        "Workflows on three clusters: a run (ms)",
        columns,
        note=f"{HEAP}: with an event for each step of a task and each transfer of 'copied to the "
        "hosts', without sharing, places of files or tables",
        costs=(WITHOUT, *LEVELS),
    )
    slowest = 0.0
    for name, workload in list_workflows(quick):
        ready = {
            level: CompiledScenario(make_scenario(workload, detail)).run
            for level, detail in LEVELS.items()
        }
        bare = Workload(tasks=workload.tasks)
        ready[WITHOUT] = CompiledScenario(make_scenario(bare, {})).run
        uses = workload.task_files.height
        ready[HEAP] = partial(pass_events, 2 * workload.tasks.height + 2 * uses)
        seconds, _ = side_by_side(ready, 5)
        times = [1e3 * seconds[level] for level in (WITHOUT, *LEVELS, HEAP)]
        table.rows.append([name, workload.tasks.height, uses, *times])
        if name != LAYERS:
            slowest = max(slowest, *(seconds[level] for level in LEVELS))
    result.tables.append(table)
    if slowest:
        goal = f"a recorded workflow at each level in under {SECONDS * 1e3:.0f} ms"
        result.goals.append(Goal("workflows", goal, f"{slowest * 1e3:.1f} ms", slowest < SECONDS))
    result.tables.append(measure_reads(quick, result))
    result.tables.append(measure_calibration(quick, result))
    return result


def measure_reads(quick: bool, result: BenchmarkResult) -> ResultTable:
    """Measure the cost of a read, with few and with many at once."""
    count = READS[-1] * (5 if quick else 50)
    seconds, _ = side_by_side({f"{n}": make_reads(n, count).run for n in READS}, 5)
    cost = {n: 1e6 * seconds[f"{n}"] / count for n in READS}
    ratio = cost[READS[-1]] / cost[READS[0]]
    goal = f"a read costs with {READS[-1]} at once at most {GROWTH:g} times what it does alone"
    result.goals.append(Goal("workflows", goal, f"{ratio:.2f}", ratio <= GROWTH))
    return ResultTable(
        f"{count:,} tasks that read a file each from one store",
        {"at once": ",d", "µs per task": ".2f", "ratio": ".2f"},
        [[n, cost[n], cost[n] / cost[READS[0]]] for n in READS],
        costs=("µs per task",),
    )


def make_managed_scenario(seed: int, **model: Any) -> Scenario:
    """A fork-join benchmark under a workflow manager, at the finest level of detail."""
    tasks, workers = (25, 50, 100)[seed % 3], (1, 2, 4, 6)[seed % 4]
    size = {"tasks": tasks, "work": 0.8 + seed, "footprint": f"{30 * seed} MB"}
    host = {"count": workers, "cores": 48, "store": {"like": "submit"}}
    links = [("workers", "core"), ("core", "submit")]
    return Scenario(
        platform={
            "clusters": [{"name": "workers", "hosts": [host]}],
            "stores": [{"name": "submit", "read": "2 GB/s", "write": "1 GB/s", "streams": 100}],
            "network": {
                "switches": ["core"],
                "links": [{"between": list(ends), "bandwidth": "10 Gb/s"} for ends in links],
            },
        },
        workload={"generate": {"name": "fork-join", "parameters": size}},
        policy="fcfs",
        seed=seed,
        model={
            "submission": {"cycle": 0, "before": 0, "after": 0},
            "detail": {"network": "link+star", "storage": "all", "submission": "negotiator"},
            **model,
        },
    )


def record(seed: int) -> Trace:
    """A run with other values than those of its scenario."""
    scenario = make_managed_scenario(seed)
    submission = {"cycle": 12, "before": 15, "after": 14}
    run = simulate(make_managed_scenario(seed, startup_overhead=3, submission=submission))
    stored = run.manifest.model_copy(update={"scenario": scenario.to_manifest()})
    return run.replace(manifest=stored)


def measure_calibration(quick: bool, result: BenchmarkResult) -> ResultTable:
    """Measure the elapsed time of a calibration of ten parameters, from the runs to the values."""
    count, budget = (5, 100) if quick else (CALIBRATED_RUNS, EVALUATIONS)
    real = [record(seed) for seed in range(count)]
    begin = perf_counter()
    fit = calibrate(real, parameters=PARAMETERS, loss="makespan", budget=budget, analysis=0)
    seconds = perf_counter() - begin
    if not quick:
        goal = f"ten parameters, {count} runs, {budget:,} evaluations in under 5 minutes"
        met = seconds < CALIBRATION_SECONDS
        result.goals.append(Goal("workflows", goal, f"{seconds:.1f} s", met))
    return ResultTable(
        "Calibration of ten parameters of workflows under a workflow manager",
        {"runs": "d", "evaluations": ",d", "s": ".1f", "loss before": ".3f", "after": ".4f"},
        [[count, budget, seconds, fit.loss_before, fit.loss]],
        costs=("s",),
    )
