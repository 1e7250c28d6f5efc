"""Coverage of prediction intervals: 90 % of runs are inside the intervals of a calibrated twin.

True values are drawn, and runs are simulated with them: the work of every task deviates from the
declared work, and every run has a run effect. A twin is fitted to some of the runs and predicts an
interval for the makespan of another scenario, which is then simulated with the true values.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

import twinloop as tl
from twinloop.metrics import figures

TRUTHS = 200
LEVEL = 0.9
LEAST, MOST = 0.85, 0.95
BUDGET, ANALYSIS = 300, 2000
PARAMETERS = {
    "service_factor": {"linear": [0.5, 2]},
    "startup_overhead": {"linear": [0, 2]},
    "contention.kinds.cache.sensitivity": {"linear": [0, 1]},
}


class CoverageOutcome(NamedTuple):
    """Predicted interval and measured makespan."""

    low: float
    median: float
    high: float
    real: float
    runs: int

    @property
    def inside(self) -> bool:
        return self.low <= self.real <= self.high

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.median


def bag(
    per_core: int, tasks: int = 40, longest: float = 18.0, shortest: float = 3.0
) -> tl.Scenario:
    """Return a bag on two nodes of one core, with a number of tasks per core."""
    lengths = np.linspace(longest, shortest, tasks).round(3).tolist()
    return tl.Scenario(
        platform="2x1",
        policy={"name": "spread-ic", "options": {"overcommit": per_core}},
        workload={
            "tasks": [
                {"id": f"t{number:02}", "kind": "cache", "cores": 1, "run_time": length}
                for number, length in enumerate(lengths)
            ]
        },
    )


#: The predicted scenario: fewer tasks of other lengths, and more tasks per core than fitted.
HELD_OUT = bag(3, tasks=30, longest=24.0, shortest=2.0)


class Truth:
    """True values of a machine, and the variation of its runs."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng([20250901, seed])
        draw = self.rng.uniform
        self.model = {
            "service_factor": draw(0.8, 1.3),
            "startup_overhead": draw(0.0, 1.0),
            "contention": {
                "kinds": {"cache": {"pressure": 1.0, "sensitivity": draw(0.0, 0.4)}},
                "within": "core",
            },
        }
        self.by_task, self.by_run = draw(0.03, 0.05), draw(0.01, 0.02)

    def draw_deviation(self) -> float:
        """Draw the factor on the work of a task."""
        return float(np.exp(self.by_task * self.rng.standard_normal()))

    def run(self, declared: tl.Scenario) -> tl.Trace:
        """Simulate a run, whose manifest has only the declared values."""
        run_effect = np.exp(self.by_run * self.rng.standard_normal())
        tasks = [
            task.model_dump(exclude_defaults=True)
            | {"run_time": task.run_time * run_effect * self.draw_deviation()}
            for task in declared.workload.tasks
        ]
        trace = tl.simulate(declared.replace(workload={"tasks": tasks}, model=self.model))
        return trace.with_manifest(scenario=declared.to_manifest())


def predict_run(seed: int) -> CoverageOutcome:
    """Draw a truth, simulate two or three runs of two scenarios, fit, predict and check."""
    truth = Truth(seed)
    repetitions = 2 + seed % 2
    runs = [truth.run(bag(per_core)) for per_core in (1, 2) for _ in range(repetitions)]
    fit = tl.calibrate(
        runs, parameters=PARAMETERS, budget=BUDGET, analysis=ANALYSIS, seed=seed, threads=1
    )
    predicted = fit.predict(HELD_OUT, outputs=["makespan_s"], level=LEVEL, threads=1)
    measured = figures(truth.run(HELD_OUT)).makespan
    return CoverageOutcome(*predicted["makespan_s"], measured, len(runs))


def describe_coverage(outcomes: list[CoverageOutcome]) -> str:
    share = np.mean([outcome.inside for outcome in outcomes])
    width = np.median([outcome.width for outcome in outcomes])
    below = sum(outcome.real < outcome.low for outcome in outcomes)
    above = sum(outcome.real > outcome.high for outcome in outcomes)
    error = np.median([abs(outcome.median / outcome.real - 1) for outcome in outcomes])
    return (
        f"{share:.1%} of {len(outcomes)} within ({below} below, {above} above), "
        f"median width {width:.1%}, median error {error:.1%}"
    )


def test_nine_of_ten_runs_lie_in_their_intervals(monkeypatch):
    monkeypatch.setenv("POLARS_MAX_THREADS", "1")  # one process per core
    # New interpreters: libraries with threads do not survive a fork.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        outcomes = list(pool.map(predict_run, range(TRUTHS)))
    print(f"\nall: {describe_coverage(outcomes)}")
    for runs in sorted({outcome.runs for outcome in outcomes}):
        print(f"{runs} runs: {describe_coverage([each for each in outcomes if each.runs == runs])}")
    assert LEAST <= np.mean([outcome.inside for outcome in outcomes]) <= MOST
