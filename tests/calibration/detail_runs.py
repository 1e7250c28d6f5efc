"""Synthetic truth for studies of the level of detail: runs of a fine version, with noise."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from twinloop.engine import simulate
from twinloop.scenario import Scenario
from twinloop.trace import Trace

#: The levels of the true version, and its values.
TRUE_VERSION: Final = {"policy": "sjf", "model.decision_interval": 7}
TRUE_VALUES: Final = {"speed_factor": 1.25, "startup_overhead": 1.5}
#: No two tasks share a core, so that contention changes nothing.
LEVELS: Final[dict[str, Any]] = {
    "policy": ["fcfs", "sjf"],
    "model.decision_interval": [0, 7],
    "model.contention": {"none": {}, "linear": {"linear": {"slope": 0.0}}},
    "except": [
        {"policy": "fcfs", "model.contention": "linear"},
        {"policy": "fcfs", "model.decision_interval": 7},
    ],
}
PARAMETERS: Final = {
    "speed_factor": {"linear": [0.5, 2]},
    "startup_overhead": {"linear": [0, 5]},
    "contention.linear.slope": {"linear": [0, 1]},
}


def make_scenario(workload: int) -> Scenario:
    """A bag of tasks of different lengths on three cores."""
    lengths = np.random.default_rng(workload).uniform(5, 25, size=14)
    tasks = [
        {"id": f"t{i:02}", "run_time": float(each), "requested_time": float(each)}
        for i, each in enumerate(lengths)
    ]
    return Scenario(platform="1x3", policy="fcfs", workload={"tasks": tasks})


@cache
def make_truth(workload: int, repetition: int, noise: float = 0.01) -> Trace:
    """A run of the true version; its manifest has the scenario without the true values."""
    scenario = make_scenario(workload)
    speed = TRUE_VALUES["speed_factor"] * np.random.default_rng([workload, repetition]).normal(
        1.0, noise
    )
    values = {**TRUE_VALUES, "speed_factor": float(speed)}
    changes = {**TRUE_VERSION, **{f"model.{name}": value for name, value in values.items()}}
    run = simulate(scenario.replace(**changes))
    manifest = run.manifest.model_copy(update={"scenario": scenario.to_manifest()})
    return run.replace(manifest=manifest)


def list_runs() -> tuple[list[Trace], list[Trace]]:
    """Runs of two workloads for training, and two repetitions of two others for validation."""
    return (
        [make_truth(workload, 0) for workload in (1, 2)],
        [make_truth(workload, repetition) for workload in (3, 4) for repetition in (0, 1)],
    )
