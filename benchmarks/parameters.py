"""Values of a run by name: those of the model, numbers of the platform natively, and compiled."""

from __future__ import annotations

from functools import partial
from itertools import count

from logs import compiled as ready
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.workload.generators import make_generator

TASKS, NODES = 100, 2
HOST = "platform.clusters[0].hosts[0]"
#: The most that a native path may add to the time of a run with a value of the model.
NATIVE_RATIO = 1.5


def run(quick: bool) -> BenchmarkResult:
    """Measure runs with other values."""
    result = BenchmarkResult()
    repeats = 20 if quick else 100
    load = make_generator("poisson", tasks=TASKS).generate(1)
    power = {"model": "linear", "idle": 60.0, "max": 240.0}
    host = {"count": NODES, "cores": 16, "mhz": 2000, "power": power}
    scenario, other = (ready(load, {"clusters": [{"hosts": [host]}]}, "fcfs") for _ in range(2))
    numbers = count()
    values = {
        "speed_factor": lambda: {"speed_factor": 1.0 + 1e-6 * next(numbers)},
        "mhz": lambda: {f"{HOST}.mhz": 2000.0 + next(numbers)},
        "power.idle": lambda: {f"{HOST}.power.idle": 60.0 + 1e-6 * next(numbers)},
        "cores": lambda: {f"{HOST}.cores": 16.0 + 1e-6 * next(numbers)},
        "cores, the same again": lambda: {f"{HOST}.cores": 16.5},
    }

    def often(name: str) -> None:
        # Variants of other values would displace the cached one.
        chosen = other if name == "cores, the same again" else scenario
        for _ in range(repeats):
            chosen.run(values[name]())

    contestants = {name: partial(often, name) for name in values}
    seconds, _ = side_by_side(contestants, 5 if quick else 15)
    micros = {name: s / repeats * 1e6 for name, s in seconds.items()}
    model = micros["speed_factor"]
    ways = {"speed_factor": "model", "cores": "compiled", "cores, the same again": "cached"}
    result.tables.append(
        ResultTable(
            f"`run` with another value: {TASKS} tasks on {NODES} nodes (CPU microseconds)",
            {"value": "s", "way": "s", "a run": ".1f", "ratio": ".2f"},
            [[name, ways.get(name, "native"), each, each / model] for name, each in micros.items()],
            "The ratio is that to a value of the model.",
            costs=["a run"],
        )
    )
    worst = max(micros["mhz"], micros["power.idle"]) / model
    result.goals.append(
        Goal(
            "a number of the platform that acts natively, against a value of the model",
            f"at most {NATIVE_RATIO:g}x",
            f"{worst:.2f}x",
            worst <= NATIVE_RATIO,
        )
    )
    return result
