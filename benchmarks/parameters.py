"""Values of a run by name: those of the model, numbers of the platform natively, and compiled."""

from __future__ import annotations

from functools import partial
from itertools import count

import polars as pl
from logs import compiled as ready
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.trace import Trace
from twinloop.workload import Workload
from twinloop.workload.generators import make_generator

TASKS, NODES = 100, 2
HOST = "platform.clusters[0].hosts[0]"
#: The most that a native path may add to the time of a run with a value of the model.
NATIVE_RATIO = 1.5


def _add_files(load: Trace) -> Workload:
    """The workload of a log in which every task reads a file of its own."""
    workload = Workload.from_trace(load)
    ids = workload.tasks["id"]
    return Workload(
        tasks=workload.tasks,
        files=pl.DataFrame({"file": ids}).with_columns(size=pl.lit(1e8)),
        task_files=pl.DataFrame({"task": ids, "file": ids}).with_columns(access=pl.lit("read")),
    )


def run(quick: bool) -> BenchmarkResult:
    """Measure runs with other values."""
    result = BenchmarkResult()
    repeats = 20 if quick else 100
    load = make_generator("poisson", tasks=TASKS).generate(1)
    power = {"model": "linear", "idle": 60.0, "max": 240.0}
    host = {"count": NODES, "cores": 16, "mhz": 2000, "power": power}
    platform = {"clusters": [{"hosts": [host]}]}
    scenario, other = (ready(load, platform, "fcfs") for _ in range(2))
    disk = {"name": "disk", "read": "1 GB/s", "write": "1 GB/s"}
    transfers = ready(_add_files(load), {**platform, "stores": [disk]}, "fcfs")
    numbers = count()
    values = {
        "speed_factor": lambda: {"speed_factor": 1.0 + 1e-6 * next(numbers)},
        "mhz": lambda: {f"{HOST}.mhz": 2000.0 + next(numbers)},
        "power.idle": lambda: {f"{HOST}.power.idle": 60.0 + 1e-6 * next(numbers)},
        "cores": lambda: {f"{HOST}.cores": 16.0 + 1e-6 * next(numbers)},
        "cores, the same again": lambda: {f"{HOST}.cores": 16.5},
        "speed_factor, with files": lambda: {"speed_factor": 1.0 + 1e-6 * next(numbers)},
        "stores[0].read": lambda: {"platform.stores[0].read": 1e9 + next(numbers)},
    }
    # Variants of other values would displace the cached one.
    chosen = {"cores, the same again": other}
    chosen |= dict.fromkeys(("speed_factor, with files", "stores[0].read"), transfers)

    def often(name: str) -> None:
        for _ in range(repeats):
            chosen.get(name, scenario).run(values[name]())

    contestants = {name: partial(often, name) for name in values}
    seconds, _ = side_by_side(contestants, 5 if quick else 15)
    micros = {name: s / repeats * 1e6 for name, s in seconds.items()}
    ways = {"speed_factor": "model", "cores": "compiled", "cores, the same again": "cached"}
    ways["speed_factor, with files"] = "model"

    def ratio(name: str) -> float:
        files = chosen.get(name) is transfers
        return micros[name] / micros["speed_factor, with files" if files else "speed_factor"]

    result.tables.append(
        ResultTable(
            f"`run` with another value: {TASKS} tasks on {NODES} nodes (CPU microseconds)",
            {"value": "s", "way": "s", "a run": ".1f", "ratio": ".2f"},
            [[name, ways.get(name, "native"), each, ratio(name)] for name, each in micros.items()],
            "The ratio is that to a value of the model. With files: each task reads one.",
            costs=["a run"],
        )
    )
    worst = max(map(ratio, ("mhz", "power.idle", "stores[0].read")))
    result.goals.append(
        Goal(
            "a number of the platform that acts natively, against a value of the model",
            f"at most {NATIVE_RATIO:g}x",
            f"{worst:.2f}x",
            worst <= NATIVE_RATIO,
        )
    )
    return result
