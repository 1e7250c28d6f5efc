"""Clouds: an instance for every task, its tables and energy; many hosts; consolidation."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
from load import disagreement
from logs import compiled, finished
from measure import BenchmarkResult, Goal, ResultTable, compile_cpp, side_by_side, take_turn
from memory import reset_memory, resident

from twinloop import Workload, simulate
from twinloop.engine import CompiledScenario

TASKS, QUICK_TASKS = 1_000_000, 100_000
HOSTS, MANY_HOSTS, CORES, GIGABYTES = 20, 500, 64, 256
SECONDS, TABLES, POWER, GROWTH, MEGABYTES = 3.0, 2.0, 1.15, 1.3, 300.0
# Virtual machines of 1 to 16 cores with 1 GB for each core, and their shares.
SIZES = {1.0: 0.39, 2.0: 0.21, 4.0: 0.20, 8.0: 0.15, 16.0: 0.05}
MEDIAN, SIGMA = 200.0, 1.4  # run time of a task (s), log-normal
LOAD = 0.8  # of all cores, without the time of transfers and boots
GIGABIT = 1e9 / 8
IMAGE, LATENCY, BOOT = 100e6, 5e-3, 30.0
LINEAR = {"model": "linear", "idle": 368.8, "max": 722.7}
# The load of CloudSim Plus's published measurement.
PUBLISHED = {"hosts": 20_000, "instances": 40_000, "tasks": 50_000}
PUBLISHED_SECONDS = 2.0
# Consolidation for a day.
FLEET, LIVE, DAY, INTERVAL = 1_000, 10_000, 86_400.0, 600.0
LIFETIME = 4 * 3600.0  # mean (s)
CONSOLIDATION_SECONDS = 5.0
METHODS = ("draining", "first-fit", "best-fit-decreasing", "cost")


def make_tasks(tasks: int, hosts: int) -> Workload:
    """Make tasks at random times that load so many hosts."""
    rng = np.random.default_rng(1)
    cores = rng.choice(list(SIZES), tasks, p=list(SIZES.values()))
    length = rng.lognormal(np.log(MEDIAN), SIGMA, tasks)
    mean = MEDIAN * np.exp(SIGMA**2 / 2) * sum(size * share for size, share in SIZES.items())
    gap = mean / (LOAD * hosts * CORES)
    return make_workload(np.cumsum(rng.exponential(gap, tasks)), cores, cores * 1e9, length)


def make_workload(submit: Any, cores: Any, memory: Any, length: Any) -> Workload:
    return Workload(
        tasks=pl.DataFrame(
            {
                "id": pl.Series(np.arange(len(submit))).cast(pl.String),
                "submit": submit,
                "cores": cores,
                "memory": memory,
                "work": cores * length,
                "limit": cores,
            }
        )
    )


def make_platform(hosts: int, *, power: bool = False, **cloud: Any) -> dict[str, Any]:
    """Describe a cloud on so many hosts; the port of the store has 1 Gb/s for 20 hosts."""
    host: dict[str, Any] = {"name": "pm", "count": hosts, "cores": CORES, "ports": GIGABIT}
    host |= {"memory": GIGABYTES * 1e9, **({"power": LINEAR} if power else {})}
    image = {"name": "base", "size": IMAGE, "store": "images", "boot": {"work": BOOT, "limit": 1}}
    return {
        "clusters": [{"name": "rack", "hosts": [host]}],
        "stores": [{"name": "images", "ports": GIGABIT * hosts / HOSTS}],
        "network": {"latency": LATENCY},
        "clouds": [{"name": "cloud", "images": [image], **cloud}],
    }


def prepare(load: Workload, hosts: int, *, power: bool = False) -> CompiledScenario:
    return compiled(load, make_platform(hosts, power=power), "one-per-task")


@cache
def library() -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(compile_cpp("limit_clouds.cpp", "-shared", "-fPIC")))
    column = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    real, whole = ctypes.c_double, ctypes.c_int64
    loaded.limit_clouds.argtypes = [whole, *[column] * 4, whole, *[real] * 6, column]
    loaded.limit_clouds.restype = None
    return loaded


def run_bare(ready: CompiledScenario) -> Any:
    """Return the ends of the tasks by the bare loop."""
    arrays = ready.arrays
    finish = np.full(len(arrays), np.nan)
    columns = [arrays.submit, arrays.cores, arrays.memory, arrays.work / arrays.limit]
    host = (float(CORES), GIGABYTES * 1e9)
    image = (GIGABIT, LATENCY, IMAGE, BOOT)
    given = [np.ascontiguousarray(each, dtype=np.float64) for each in columns]
    library().limit_clouds(len(arrays), *given, HOSTS, *host, *image, finish)
    return finish


def one_per_task(result: BenchmarkResult, quick: bool) -> None:
    """Figures, energy and tables of one instance for each task."""
    tasks = QUICK_TASKS if quick else TASKS
    load = make_tasks(tasks, HOSTS)
    plain, metered = prepare(load, HOSTS), prepare(load, HOSTS, power=True)
    contestants: dict[str, Callable[[], Any]] = {
        "bare loop (limit_clouds.cpp)": partial(run_bare, plain),
        "figures": plain.run,
        "figures, with power": metered.run,
        "tables": partial(simulate, plain),
    }
    seconds, answers = side_by_side(contestants, 3)
    _, figures, power, tables = contestants
    table = ResultTable(
        f"{tasks:,} tasks with an instance each on {HOSTS} hosts of {CORES} cores (CPU)",
        {"run": "s", "seconds": ".3f", "us per task": ".2f", "of figures": ".2f"},
        [
            [name, spent, spent / tasks * 1e6, spent / seconds[figures]]
            for name, spent in seconds.items()
        ],
        note="From the compiled scenario to the figures, or to a Trace with all tables: tasks, "
        "placements, instances, instance_states, transfers.",
        costs=["seconds"],
    )
    result.tables.append(table)
    check_answers(result, plain, answers[figures], answers[power], answers[tables])
    limit = SECONDS * tasks / TASKS
    for name, goal, measured, met in (
        (
            f"{tasks:,} instances, figures only",
            f"{limit:g} s (aim: {limit / SECONDS:g} s)",
            f"{seconds[figures]:.2f} s",
            seconds[figures] <= limit,
        ),
        (
            "the same with tables",
            f"<= {TABLES:g} times",
            f"{seconds[tables] / seconds[figures]:.2f} times",
            seconds[tables] <= TABLES * seconds[figures],
        ),
        (
            "the same with power",
            f"<= {POWER:g} times",
            f"{seconds[power] / seconds[figures]:.2f} times",
            seconds[power] <= POWER * seconds[figures],
        ),
    ):
        result.goals.append(Goal(name, goal, measured, met))


def check_answers(
    result: BenchmarkResult, ready: CompiledScenario, figures: Any, metered: Any, trace: Any
) -> None:
    """Check the ends by the bare loop, the tables by the figures, the energy by the work."""
    tasks = len(ready.arrays)
    ends = np.asarray(finished(ready).outcomes()["end"])
    if not disagreement(run_bare(ready), ends) < 1e-9:
        result.failures.append("clouds: the ends differ from those of the bare loop")
    rows = (trace.instances.height, trace.transfers.height, trace.placements.height)
    if rows != (tasks, tasks, tasks) or figures["instances"] != tasks:
        result.failures.append("clouds: the tables do not have a row for each instance")
    work = float(ready.arrays.work.sum()) + BOOT * tasks
    energy = metered["makespan_s"] * HOSTS * LINEAR["idle"]
    energy += (LINEAR["max"] - LINEAR["idle"]) / CORES * work
    if not abs(metered["energy_j"] - energy) <= 1e-9 * energy:
        result.failures.append("clouds: the energy is not that of the work")


def many_hosts(result: BenchmarkResult, quick: bool) -> None:
    """The cost of a task with more hosts, for the same tasks and for as much more load."""
    tasks = QUICK_TASKS if quick else TASKS
    cases = {
        f"{HOSTS} hosts": (HOSTS, HOSTS),
        f"{MANY_HOSTS} hosts, the same tasks": (MANY_HOSTS, HOSTS),
        f"{MANY_HOSTS} hosts, load in proportion": (MANY_HOSTS, MANY_HOSTS),
    }
    ready = {
        name: prepare(make_tasks(tasks, loaded), hosts) for name, (hosts, loaded) in cases.items()
    }
    seconds, answers = side_by_side({name: each.run for name, each in ready.items()}, 3)
    costs = {name: spent / tasks * 1e6 for name, spent in seconds.items()}
    least = costs[f"{HOSTS} hosts"]
    table = ResultTable(
        f"{tasks:,} tasks with an instance each, by the number of hosts (CPU)",
        {"cloud": "s", "us per task": ".2f", "ratio": ".2f", "instances at once": ",.0f"},
        note="The port of the image store grows with the hosts. Instances at once: mean until the "
        "last submission, from the cores that they have.",
        costs=["us per task"],
    )
    mean = sum(size * share for size, share in SIZES.items())
    for name, cost in costs.items():
        live = answers[name]["instance_core_s"] / ready[name].arrays.submit[-1] / mean
        table.rows.append([name, cost, cost / least, live])
        if name != f"{HOSTS} hosts":
            result.goals.append(
                Goal(
                    f"cost of a task on {name}, against {HOSTS} hosts",
                    f"<= {GROWTH:g} times",
                    f"{cost / least:.2f} times",
                    cost <= GROWTH * least,
                )
            )
    result.tables.append(table)


def make_published(**image: Any) -> CompiledScenario:
    """All tasks at once; as many instances as the cloud allows, the others when one ends."""
    rng = np.random.default_rng(2)
    count = PUBLISHED["tasks"]
    cores = np.full(count, 2.0)
    load = make_workload(np.zeros(count), cores, cores * 1e9, rng.uniform(60.0, 3600.0, count))
    host = {"name": "pm", "count": PUBLISHED["hosts"], "cores": 16, "memory": "64 GB"}
    platform: dict[str, Any] = {
        "clusters": [{"name": "rack", "hosts": [{**host, "ports": GIGABIT}]}],
        "clouds": [
            {
                "name": "cloud",
                "types": [{"name": "vm", "cores": 4, "memory": "4 GB"}],
                "limits": {"instances": PUBLISHED["instances"]},
                "controllers": {"placement": "worst-fit"},
                **(
                    {"images": [{"name": "base", "boot": {"work": BOOT}, **image}]} if image else {}
                ),
            }
        ],
    }
    if image:
        platform["stores"] = [{"name": "images", "ports": GIGABIT * 1000}]
        platform["network"] = {"latency": LATENCY}
    return compiled(load, platform, "one-per-task")


def published(result: BenchmarkResult, quick: bool) -> None:
    """The numbers of hosts, instances and tasks of CloudSim Plus's published measurement."""
    cases = {
        "that start at once": make_published(),
        "with image and boot": make_published(size=IMAGE, store="images"),
    }
    contestants = {name: ready.run for name, ready in cases.items()}
    seconds, answers = side_by_side(contestants, 1 if quick else 3)
    table = ResultTable(
        "{hosts:,} hosts, {instances:,} instances at once, {tasks:,} tasks (CPU)".format_map(
            PUBLISHED
        ),
        {"instances": "s", "seconds": ".3f", "rented": ",d", "makespan, s": ",.0f"},
        note="All tasks are submitted at 0 s and get an instance of 4 cores each. The cloud allows "
        "40,000 instances, two on each host of 16 cores (worst fit); the other tasks rent "
        "theirs when one ends. With images, all leave one store at once.",
        costs=["seconds"],
    )
    for name, figures in answers.items():
        if figures["completed"] != PUBLISHED["tasks"]:
            result.failures.append(f"clouds: instances {name}: not all tasks were completed")
        table.rows.append([name, seconds[name], int(figures["instances"]), figures["makespan_s"]])
        result.goals.append(
            Goal(
                f"CloudSim Plus's load, instances {name}",
                f"{PUBLISHED_SECONDS:g} s",
                f"{seconds[name]:.2f} s",
                seconds[name] <= PUBLISHED_SECONDS,
            )
        )
    result.tables.append(table)


def make_day(method: str | None) -> CompiledScenario:
    """A day with LIVE instances at a time; fewer at night than at noon."""
    rng = np.random.default_rng(3)
    # The instances that live at the beginning have exponential rests; then as many come as go.
    count = rng.poisson(LIVE * DAY / LIFETIME)
    later = np.sort(rng.uniform(0.0, DAY, 2 * count))
    rate = 0.5 * (1 - 0.3 * np.cos(2 * np.pi * later / DAY))
    later = later[rng.uniform(0.0, 1.0, len(later)) < rate]
    submit = np.concatenate([np.zeros(LIVE), later])
    length = np.minimum(rng.exponential(LIFETIME, len(submit)), DAY - submit) + 1.0
    cores = rng.choice([1.0, 2.0, 4.0], len(submit))
    load = make_workload(submit, cores, cores * 1e9, length)
    host = {
        "name": "pm",
        "count": FLEET,
        "cores": 32,
        "memory": "64 GB",
        "ports": 10 * GIGABIT,
        "power": LINEAR,
        "states": {
            "off": {"power": 36.4},
            "switching-on": {"power": 483.1, "duration": 200},
            "switching-off": {"power": 409.2, "duration": 12},
        },
    }
    controllers: dict[str, Any] = {
        "machines": {"name": "on-demand", "options": {"starts": "needed"}}
    }
    if method:
        options = {"method": method, "interval": INTERVAL}
        controllers["consolidation"] = {"name": "consolidate", "options": options}
    cloud = {"name": "cloud", "controllers": controllers, "migration": {"dirty_rate": "50 MB/s"}}
    platform = {"clusters": [{"name": "rack", "hosts": [host]}], "clouds": [cloud]}
    return compiled(load, platform, "one-per-task")


def consolidation(result: BenchmarkResult, quick: bool) -> None:
    """A simulated day with a decision every ten minutes."""
    cases = {"none": make_day(None), **{method: make_day(method) for method in METHODS}}
    seconds, answers = side_by_side(
        {name: each.run for name, each in cases.items()}, 1 if quick else 3
    )
    table = ResultTable(
        f"A day of {FLEET:,} hosts with {LIVE:,} instances on average, a decision every "
        f"{INTERVAL / 60:.0f} min (CPU)",
        {"method": "s", "seconds": ".3f", "instances": ",d", "migrations": ",d", "kWh": ",.0f"},
        note="Hosts of 32 cores, switched on and off on demand; instances of 1 to 4 cores.",
        costs=["seconds"],
    )
    for name, figures in answers.items():
        if figures["completed"] != len(cases[name].arrays):
            result.failures.append(f"clouds: {name}: not all tasks were completed")
        table.rows.append(
            [name, seconds[name], int(figures["instances"])]
            + [int(figures["migrations"]), figures["energy_j"] / 3.6e6]
        )
    result.tables.append(table)
    slowest = max(seconds.values())
    result.goals.append(
        Goal(
            f"consolidation, {FLEET:,} hosts and {LIVE:,} instances for a day, slowest method",
            f"{CONSOLIDATION_SECONDS:g} s",
            f"{slowest:.2f} s",
            slowest <= CONSOLIDATION_SECONDS,
        )
    )


def measure_peak(case: str, tasks: int) -> tuple[float, float, float]:
    """Return the peak memory of a process that runs a case (MB), of the imports, of the run."""
    before = resident("VmRSS")
    ready = prepare(make_tasks(tasks, HOSTS), HOSTS)
    # Not ru_maxrss, which a process inherits from its parent.
    whole = resident("VmHWM")
    reset_memory()
    compiled_bytes = resident("VmRSS")
    kept = simulate(ready) if case == "tables" else ready.run()
    peak = resident("VmHWM")
    del kept
    return max(whole, peak) / 1e6, before / 1e6, (peak - compiled_bytes) / 1e6


def memory(result: BenchmarkResult, quick: bool) -> None:
    """The peak of the resident set of a process that makes the tasks, compiles and runs them."""
    tasks = QUICK_TASKS if quick else TASKS
    table = ResultTable(
        f"Memory of {tasks:,} tasks with an instance each on {HOSTS} hosts (MB)",
        {"run": "s", "peak": ".0f", "imports alone": ".0f", "run alone": ".0f"},
        note="peak: largest resident set of a process that makes the tasks, compiles and runs "
        "them; run alone: what the compiled scenario needs beyond itself to run.",
        costs=["peak", "run alone"],
    )
    for case in ("figures", "tables"):
        take_turn()
        command = [sys.executable, __file__, case, str(tasks)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        peak, before, alone = json.loads(answer.stdout)
        table.rows.append([case, peak, before, alone])
        if case == "figures":
            met = None if quick else peak <= MEGABYTES
            goal = f"{MEGABYTES:.0f} MB"
            name = f"peak memory of {tasks:,} instances, figures only"
            result.goals.append(Goal(name, goal, f"{peak:.0f} MB", met))
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (
    one_per_task,
    memory,
    many_hosts,
    published,
    consolidation,
)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result


if __name__ == "__main__":
    print(json.dumps(measure_peak(sys.argv[1], int(sys.argv[2]))))
