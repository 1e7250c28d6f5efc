"""Runs of the verification of predictions: bags of real work, and a simulated truth.

Three bags of `twinloop-burn` tasks (`cpu`, `cache`, and half of each) run on two nodes of one core,
with one, two and four tasks on each core, three times each.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import twinloop as tl
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.execution import burn_program, execute
from twinloop.metrics import figures
from twinloop.workload.generators.burn import PROGRAM

BAGS = {"cpu": ("cpu",), "cache": ("cache",), "mixed": ("cpu", "cache")}
LEVELS = (1, 2, 4)
REPETITIONS = (1, 2, 3)
#: The fitted runs; the third repetition and the highest level are held out.
FITTED_LEVELS, FITTED_REPETITIONS = (1, 2), (1, 2)
HELD_OUT_LEVEL, HELD_OUT_REPETITION = 4, 3

#: Sampling period of the CPU usage of real tasks, and length of the windows of the twin (s).
PERIOD = 0.2
#: A run is repeated if other processes and other virtual machines used more than this share of the
#: machine, up to this number of attempts.
FOREIGN, TRIES = 0.03, 3
#: Time limit of the wait for an idle machine before a run (s).
PATIENCE = 20
SEED = 20250901


class Size(NamedTuple):
    """Size of a bag: number of tasks, and lengths from longest to shortest (s)."""

    tasks: int = 44
    longest: float = 1.8
    shortest: float = 0.3


class TrustKey(NamedTuple):
    """One run."""

    bag: str
    level: int
    repetition: int

    def __str__(self) -> str:
        return f"{self.bag}-{self.level}-{self.repetition}"


def scenario(bag: str, level: int, size: Size = Size()) -> tl.Scenario:  # noqa: B008
    """Return a bag at a number of tasks per core, all submitted at once, the longest first.

    The last tasks are then short, so that the makespan depends on the work and not on which task
    comes last. In a mixed bag, each pair of tasks in the queue has one task of each kind.
    """
    lengths = np.linspace(size.longest, size.shortest, size.tasks).round(3).tolist()
    kinds = list(BAGS[bag])
    drawn = random.Random(SEED)
    order: list[str] = []
    while len(order) < size.tasks:
        drawn.shuffle(kinds)
        order += kinds
    tasks = [
        {
            "id": f"t{number:02}",
            "kind": kind,
            "cores": 1,
            "run_time": length,
            "command": [PROGRAM, kind, "--seconds", f"{length:g}", "--seed", str(number)],
        }
        for number, (kind, length) in enumerate(zip(order, lengths, strict=False), start=1)
    ]
    return tl.Scenario(
        name=f"{bag}, {level} per core",
        platform="2x1",
        policy={"name": "spread-ic", "options": {"overcommit": level}},
        workload={"tasks": tasks},
    )


def plan() -> list[TrustKey]:
    """List all runs: each repetition has all bags and levels in a random order.

    Changes of the machine over time then affect all of them alike.
    """
    drawn = random.Random(SEED)
    found = []
    for repetition in REPETITIONS:
        block = [TrustKey(bag, level, repetition) for bag, level in product(BAGS, LEVELS)]
        drawn.shuffle(block)
        found += block
    return found


# --- the real runs -------------------------------------------------------------------------------


def record(folder: Path, size: Size, say: Callable[[str], None] = print) -> None:
    """Execute the runs that are not in the folder yet, with the same work rates."""
    folder.mkdir(parents=True, exist_ok=True)
    rates = _load_or_make(
        folder / "rates.json", lambda: burn_program.measure_rates(["cpu", "cache"], say)
    )
    os.environ[burn_program.RATES_VARIABLE] = ",".join(
        f"{kind}={rate!r}" for kind, rate in rates.items()
    )
    say(f"rates: {os.environ[burn_program.RATES_VARIABLE]}")
    notes: dict[str, Any] = _load_or_make(folder / "notes.json", dict)
    for key in plan():
        wanted = scenario(key.bag, key.level, size)
        if load_run(folder / str(key), wanted) is not None:
            continue
        for attempt in range(1, TRIES + 1):
            note = _execute_run(wanted, folder / str(key)) | {"tries": attempt}
            say(f"{key}: " + ", ".join(f"{name} {value:.4g}" for name, value in note.items()))
            if note["foreign"] + note["stolen"] <= FOREIGN:
                break
        notes[str(key)] = note
        _store(folder / "notes.json", notes)


def load_run(folder: Path, wanted: tl.Scenario) -> tl.Trace | None:
    """Return the stored run, if it is complete and of this scenario."""
    try:
        trace = tl.read(folder)
        # Read again, so that fields which older scenarios lack have their defaults.
        same = tl.Scenario.from_trace(trace).to_manifest() == wanted.to_manifest()
    except InputError:
        return None
    return trace if same and (trace.tasks["status"] == "completed").all() else None


def _execute_run(wanted: tl.Scenario, folder: Path) -> dict[str, float]:
    """Execute a run and return the other load of the machine."""
    await_idle()
    before, began = _read_busy_time(), time.monotonic()
    trace = execute(wanted, folder, period=PERIOD, overwrite=True, announce=lambda text: None)
    wall, after = time.monotonic() - began, _read_busy_time()
    busy, stolen = (after[i] - before[i] for i in (0, 1))
    ours = trace.tasks["cpu_time"].sum() + trace.manifest.facts["recording"]["executor_cpu_s"]
    capacity = wall * (os.cpu_count() or 1)
    return {
        "makespan_s": figures(trace).makespan,
        "foreign": max(busy - ours, 0.0) / capacity,
        "stolen": stolen / capacity,
    }


def await_idle() -> bool:
    """Wait for an idle machine with a time limit; return whether it is idle.

    The load average would include earlier work for minutes.
    """
    for _ in range(PATIENCE):
        before, _ = _read_busy_time()
        time.sleep(1.0)
        if _read_busy_time()[0] - before <= FOREIGN * (os.cpu_count() or 1):
            return True
    return False


def _read_busy_time() -> tuple[float, float]:
    """Return busy and stolen CPU seconds of the machine."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    user, nice, system, _, _, irq, softirq, steal = (int(x) for x in line.split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick


def _load_or_make(path: Path, make: Callable[[], Any]) -> Any:
    if not path.exists():
        _store(path, make())
    return json.loads(path.read_text())


def _store(path: Path, what: Any) -> None:
    with write_atomically(path) as stream:
        stream.write(json.dumps(what, indent=2).encode())


# --- simulated truth -----------------------------------------------------------------------------

#: Only products of a pressure and a sensitivity are observable: the fit has to find these.
TRUTH: Mapping[str, float] = {
    "service_factors.cpu": 1.01,
    "service_factors.cache": 1.08,
    "startup_overhead": 0.004,
    "contention.kinds.cpu.pressure": 0.1,
    "contention.kinds.cpu.sensitivity": 0.02,
    "contention.kinds.cache.pressure": 0.5,
    "contention.kinds.cache.sensitivity": 0.4,
}
LATENCIES = {"dispatch_latency": 0.0015, "release_latency": 0.001}


def true_model(values: Mapping[str, float] = TRUTH) -> dict[str, Any]:
    """Return the model of the simulated truth, or with other values."""
    kinds = {
        kind: {
            what: values[f"contention.kinds.{kind}.{what}"] for what in ("pressure", "sensitivity")
        }
        for kind in ("cpu", "cache")
    }
    return {
        "service_factors": {kind: values[f"service_factors.{kind}"] for kind in kinds},
        "startup_overhead": values["startup_overhead"],
        "contention": {"kinds": kinds, "within": "core"},
        **LATENCIES,
    }


def simulate_truth(size: Size, noise: float = 0.01) -> dict[TrustKey, tl.Trace]:
    """Simulate runs of a known truth, with small random variations of the work."""
    return {key: _simulate_run(key, size, noise) for key in plan()}


def _simulate_run(key: TrustKey, size: Size, noise: float) -> tl.Trace:
    declared = scenario(key.bag, key.level, size)
    drawn = np.random.default_rng([SEED, *map(ord, str(key))])
    # A run effect by kind, and a deviation of each task.
    common = dict(zip(("cpu", "cache"), np.exp(noise * drawn.standard_normal(2)), strict=True))
    tasks = [
        task.model_dump(exclude_defaults=True)
        | {"run_time": task.run_time * common[task.kind] * np.exp(noise * drawn.standard_normal())}
        for task in declared.workload.tasks
    ]
    truth = declared.replace(workload={"tasks": tasks}, model=true_model())
    trace = tl.simulate(truth, usage_step=PERIOD)
    means = {"start": "dispatch_latency", "release": "release_latency"}
    latency = {what: {"mean_s": LATENCIES[name]} for what, name in means.items()}
    return trace.with_manifest(scenario=declared.to_manifest(), facts={"latency": latency})
