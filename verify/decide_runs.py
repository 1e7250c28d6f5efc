"""Runs of the verification of rankings: probes, candidates, and a simulated truth.

The twins are fitted to probes: tasks of each kind, one, two and four on each core at a time. The
candidates are policies for one bag: simple, packing and overcommitting ones. No run of a candidate
is used by a fit.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from trust_runs import (
    LATENCIES,
    PERIOD,
    SEED,
    TRIES,
    _execute_run,
    _load_or_make,
    _store,
    load_run,
)

import twinloop as tl
from twinloop.execution import burn_program
from twinloop.workload.generators.burn import PROGRAM

KINDS = ("cpu", "memory", "cache")

#: A run is repeated if other processes used more than this share of the machine. The start and the
#: recording of the short tasks cost 3 to 4 % themselves, which cannot be separated.
DISTURBED = 0.08

#: Tasks per core in the probes.
LEVELS = (1, 2, 4)
#: Tasks of each kind among tasks of the same kind, then among all kinds; and their lengths
#: in turn (s), which differ so that the cost of a start can be separated from that of work.
APART, TOGETHER, PROBE_LENGTHS = 8, 4, (0.6, 0.3, 0.5, 0.4)
PROBE_REPETITIONS = (1, 2, 3)

#: The candidates: node shape and policy, in the order of overcommitment.
CANDIDATES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "first-fit": ("2x1", {"name": "first-fit"}),
    "pack-ic 1.5": ("1x2", {"name": "pack-ic", "options": {"overcommit": 1.5}}),
    "spread-ic 2": ("2x1", {"name": "spread-ic", "options": {"overcommit": 2}}),
    "spread-ic 4": ("2x1", {"name": "spread-ic", "options": {"overcommit": 4}}),
}
BASELINE = "first-fit"
REPETITIONS = (1, 2, 3, 4, 5)
#: Lengths of the tasks of a bag, in order (s), and their kinds in turn. Without contention both
#: bags have the same simulation.
LENGTHS = (0.8, 0.5, 0.4, 0.9, 1.0, 0.7, 1.1, 0.5, 0.9, 0.8, 1.3, 1.3, 1.3)
BAGS = {"heavy": ("cache", "cache", "memory"), "light": ("cpu",)}
#: The candidates of each bag.
TRIED = {"heavy": tuple(CANDIDATES), "light": (BASELINE, "pack-ic 1.5", "spread-ic 2")}


class DecisionKey(NamedTuple):
    """One run: a bag under a candidate, or a probe (`probe`) at a level."""

    bag: str
    name: str
    repetition: int

    def __str__(self) -> str:
        return f"{self.bag}-{self.name.replace(' ', '-')}-{self.repetition}"


def scenario(bag: str, name: str) -> tl.Scenario:
    """Return the scenario: a bag under a candidate, or a probe at a level."""
    if bag == "probe":
        policy: Mapping[str, Any] = {"name": "spread-ic", "options": {"overcommit": int(name)}}
        return _scenario(f"{name} per core", "2x1", policy, probe())
    platform, policy = CANDIDATES[name]
    kinds = BAGS[bag]
    tasks = [(kinds[place % len(kinds)], length) for place, length in enumerate(LENGTHS)]
    return _scenario(f"{bag}, {name}", platform, policy, tasks)


def probe() -> list[tuple[str, float]]:
    """Return kinds and lengths of a probe, in order: each kind by itself, then all mixed."""
    apart = [(kind, PROBE_LENGTHS[i % len(PROBE_LENGTHS)]) for kind in KINDS for i in range(APART)]
    return apart + [(kind, PROBE_LENGTHS[i]) for i in range(TOGETHER) for kind in KINDS]


def _scenario(
    name: str, platform: str, policy: Mapping[str, Any], tasks: Iterable[tuple[str, float]]
) -> tl.Scenario:
    rows = [
        {"id": str(number), "kind": kind, "cores": 1, "run_time": length}
        for number, (kind, length) in enumerate(tasks, start=1)
    ]
    command = [PROGRAM, "{kind}", "--seconds", "{run_time}", "--seed", "{id}"]
    return tl.Scenario(
        name=name, platform=platform, policy=policy, workload={"tasks": rows, "command": command}
    )


def plan() -> list[DecisionKey]:
    """List all runs, probes first; each repetition has all runs in a random order.

    Changes of the machine over time then affect all of them alike.
    """
    probes = [("probe", str(level)) for level in LEVELS]
    tried = [(bag, name) for bag, names in TRIED.items() for name in names]
    return [*_blocks(probes, PROBE_REPETITIONS), *_blocks(tried, REPETITIONS)]


def _blocks(runs: list[tuple[str, str]], repetitions: Iterable[int]) -> Iterator[DecisionKey]:
    drawn = random.Random(SEED)
    for repetition in repetitions:
        for bag, name in drawn.sample(runs, len(runs)):
            yield DecisionKey(bag, name, repetition)


# --- the real runs -------------------------------------------------------------------------------


def record(folder: Path, say: Callable[[str], None] = print) -> None:
    """Execute the runs that are not in the folder yet, with the same work rates."""
    folder.mkdir(parents=True, exist_ok=True)
    rates = _load_or_make(
        folder / "rates.json", lambda: burn_program.measure_rates(list(KINDS), say)
    )
    os.environ[burn_program.RATES_VARIABLE] = ",".join(
        f"{kind}={rate!r}" for kind, rate in rates.items()
    )
    say(f"rates: {os.environ[burn_program.RATES_VARIABLE]}")
    notes: dict[str, Any] = _load_or_make(folder / "notes.json", dict)
    for key in plan():
        wanted, place = scenario(key.bag, key.name), folder / str(key)
        if str(key) in notes and load_run(place, wanted) is not None:
            continue
        for attempt in range(1, TRIES + 1):
            note = _execute_run(wanted, place) | {"tries": attempt}
            say(f"{key}: " + ", ".join(f"{name} {value:.4g}" for name, value in note.items()))
            if note["foreign"] + note["stolen"] <= DISTURBED:
                break
        _remove_details(place)
        notes[str(key)] = note
        _store(folder / "notes.json", notes)


def _remove_details(folder: Path) -> None:
    """Remove task output, the list of commands and usage samples.

    They are not needed here, and the list contains a path of the machine.
    """
    shutil.rmtree(folder / "output")
    (folder / "commands.txt").unlink()
    trace = tl.read(folder)
    trace.replace(usage=trace.usage.clear()).save(folder, overwrite=True)


# --- simulated truth -----------------------------------------------------------------------------

#: CPU time over declared work, pressure and sensitivity of each kind.
TRUTH: Mapping[str, tuple[float, float, float]] = {
    "cpu": (1.02, 0.1, 0.02),
    "memory": (1.05, 0.6, 0.3),
    "cache": (1.08, 0.7, 0.5),
}


def simulate_truth(noise: float = 0.01, *, free: bool = False) -> dict[DecisionKey, tl.Trace]:
    """Simulate runs of a known truth, with small random variations of the work.

    Args:
        noise: Relative standard deviation of the work, of run effects and of tasks.
        free: Whether the truth has no contention.
    """
    return {key: _simulate_run(key, noise, free) for key in plan()}


def _simulate_run(key: DecisionKey, noise: float, free: bool) -> tl.Trace:
    declared = scenario(key.bag, key.name)
    drawn = np.random.default_rng([SEED, *map(ord, str(key))])
    # A run effect by kind, and a deviation of each task.
    common = dict(zip(KINDS, np.exp(noise * drawn.standard_normal(len(KINDS))), strict=True))
    tasks = [
        task.model_dump(exclude_defaults=True)
        | {"run_time": task.run_time * common[task.kind] * np.exp(noise * drawn.standard_normal())}
        for task in declared.workload.tasks
    ]
    kinds = {kind: {"pressure": p, "sensitivity": s} for kind, (_, p, s) in TRUTH.items()}
    model = {
        "service_factors": {kind: factor for kind, (factor, _, _) in TRUTH.items()},
        "startup_overhead": 0.004,
        **({} if free else {"contention": {"kinds": kinds, "within": "core"}}),
        **LATENCIES,
    }
    trace = tl.simulate(declared.replace(workload={"tasks": tasks}, model=model), usage_step=PERIOD)
    means = {"start": "dispatch_latency", "release": "release_latency"}
    latency = {what: {"mean_s": LATENCIES[name]} for what, name in means.items()}
    return trace.with_manifest(scenario=declared.to_manifest(), facts={"latency": latency})
