"""Verification of predictions: bags of real work, run on this machine and predicted.

    python verify/trust.py --folder build/trust              # execute missing runs, and report
    python verify/trust.py --folder build/trust --report     # report on the stored runs
    python verify/trust.py --synthetic                       # the same with a simulated truth

Three bags of `twinloop-burn` tasks (`cpu`, `cache`, and half of each) run on two nodes of one core,
with one, two and four tasks on each core, three times each. The twin gets the declared work, and no
measurement of the run with which it is compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from trust_runs import (
    BAGS,
    FITTED_LEVELS,
    FITTED_REPETITIONS,
    HELD_OUT_LEVEL,
    HELD_OUT_REPETITION,
    LEVELS,
    PERIOD,
    REPETITIONS,
    Size,
    TrustKey,
    load_run,
    plan,
    record,
    scenario,
    simulate_truth,
)

import twinloop as tl
from twinloop.fidelity import Verdict
from twinloop.metrics import figures

#: The largest accepted relative error of the makespan of the held-out level.
REQUIRED_ERROR = 0.05
#: The optimiser of the calibrations, and its number of evaluations.
OPTIMISER, BUDGET = "cma", 6000
#: The number of evaluations for the analysis of identifiability.
ANALYSIS = 10_000

_FACTOR = {"linear": [0.5, 2]}
#: The parameters of a model without contention.
PLAIN = {
    "service_factors.cpu": _FACTOR,
    "service_factors.cache": _FACTOR,
    "startup_overhead": {"linear": [0, 0.5]},
}


@dataclass(frozen=True)
class PredictedMakespan:
    """Predicted and measured makespan of the held-out level."""

    real: tuple[float, ...]
    twin: float
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """Relative error of the mean of the repetitions."""
        return self.twin / float(np.mean(self.real)) - 1.0

    @property
    def errors(self) -> tuple[float, ...]:
        """Relative error of each repetition."""
        return tuple(self.twin / each - 1.0 for each in self.real)


@dataclass(frozen=True)
class TrustStudy:
    """The runs, and the predictions of a twin fitted to some of them."""

    runs: Mapping[TrustKey, tl.Trace]
    size: Size
    notes: Mapping[str, Mapping[str, float]]
    budget: int = BUDGET

    def where(self, levels: tuple[int, ...], repetitions: tuple[int, ...]) -> list[TrustKey]:
        """The runs of these levels and repetitions, of all bags."""
        return [TrustKey(*key) for key in product(BAGS, levels, repetitions)]

    @cached_property
    def fit(self) -> tl.Fit:
        """Fit with contention, to two repetitions of levels one and two."""
        return self._fit(self.where(FITTED_LEVELS, FITTED_REPETITIONS), None, validated=True)

    @cached_property
    def without(self) -> tl.Fit:
        """Fit to the same runs without contention, so that factors absorb its cost."""
        return self._fit(self.where(FITTED_LEVELS, FITTED_REPETITIONS), PLAIN)

    @cached_property
    def alone(self) -> tl.Fit:
        """Fit to the runs without shared cores."""
        return self._fit(self.where((1,), FITTED_REPETITIONS), PLAIN)

    def _fit(self, keys: list[TrustKey], parameters: Any, *, validated: bool = False) -> tl.Fit:
        held = self.where(FITTED_LEVELS, (HELD_OUT_REPETITION,)) if validated else []
        return tl.calibrate(
            [self.runs[key] for key in keys],
            validation=[self.runs[key] for key in held],
            names=[str(key) for key in (*keys, *held)],
            parameters=parameters,
            optimiser=OPTIMISER,
            budget=self.budget,
            analysis=ANALYSIS if validated else 0,
        )

    @cached_property
    def verdicts(self) -> dict[TrustKey, Verdict]:
        """Verdicts on the third repetition of the fitted levels, with the noise floor."""
        return {key: self.verdict(key) for key in self.where(FITTED_LEVELS, (HELD_OUT_REPETITION,))}

    @cached_property
    def held_out_verdicts(self) -> dict[TrustKey, Verdict]:
        """Verdicts on the third repetition of the held-out level."""
        held_out = self.where((HELD_OUT_LEVEL,), (HELD_OUT_REPETITION,))
        return {key: self.verdict(key) for key in held_out}

    def verdict(self, key: TrustKey) -> Verdict:
        """Assess one run with a twin fitted to others."""
        twin = tl.simulate(self.fit.apply(self.scenario(key)), usage_step=PERIOD)
        others = [self.runs[key._replace(repetition=each)] for each in FITTED_REPETITIONS]
        return tl.assess(self.runs[key], twin, repeats=others)

    def scenario(self, key: TrustKey) -> tl.Scenario:
        """Return the scenario of a run."""
        return scenario(key.bag, key.level, self.size)

    def makespans(self, bag: str, level: int) -> tuple[float, ...]:
        """Return the makespans of all repetitions (s)."""
        return tuple(
            float(figures(self.runs[TrustKey(bag, level, each)]).makespan) for each in REPETITIONS
        )

    def predict_makespan(self, fit: tl.Fit, bag: str) -> PredictedMakespan:
        """Predict the makespan of a bag at the held-out level."""
        wanted = scenario(bag, HELD_OUT_LEVEL, self.size)
        twin = float(figures(tl.simulate(fit.apply(wanted))).makespan)
        low = high = None
        if fit.draws is not None:
            low, _, high = fit.predict(wanted, outputs=["makespan_s"])["makespan_s"]
        return PredictedMakespan(self.makespans(bag, HELD_OUT_LEVEL), twin, low, high)

    def inflation(self, bag: str, level: int, kind: str) -> list[float]:
        """CPU time over declared work, of all tasks of a kind, in each repetition."""
        declared = {
            task.id: task.run_time for task in scenario(bag, level, self.size).workload.tasks
        }
        found = []
        for each in REPETITIONS:
            tasks = self.runs[TrustKey(bag, level, each)].tasks.filter(pl.col("kind") == kind)
            found.append(tasks["cpu_time"].sum() / sum(declared[task] for task in tasks["id"]))
        return found

    def spread(self, bag: str, level: int) -> float:
        """Return the range of the makespans of the repetitions over their mean."""
        found = self.makespans(bag, level)
        return (max(found) - min(found)) / float(np.mean(found))

    def is_steady(self, bag: str, *levels: int) -> bool:
        """Whether the noise floor is below the required error of the prediction."""
        return all(self.spread(bag, level) <= REQUIRED_ERROR for level in levels)

    def unsteady(self) -> Iterator[str]:
        """List the settings that are not assessable on this machine."""
        for bag, level in product(BAGS, LEVELS):
            if not self.is_steady(bag, level):
                yield (
                    f"{bag}, {level} per core: not assessable, because the repetitions differ by "
                    f"{self.spread(bag, level):.1%} and {REQUIRED_ERROR:.0%} is required"
                )

    def failures(self) -> Iterator[str]:
        """List the unmet requirements, where the noise floor is low enough."""
        for key, verdict in self.verdicts.items():
            if verdict.mode != "predict":
                yield f"{key}: {verdict.provenance}"
            if not self.is_steady(key.bag, key.level):
                continue
            yield from (f"{key}: {found}" for found in verdict.findings if found.status == "FAIL")
            if verdict.status == "not assessable":
                yield f"{key}: not assessable"
        for bag in BAGS:
            if not self.is_steady(bag, *LEVELS):
                continue
            if abs(error := self.predict_makespan(self.fit, bag).error) >= REQUIRED_ERROR:
                yield f"{bag}: the error of the makespan of level {HELD_OUT_LEVEL} is {error:.1%}"


def study(folder: Path, size: Size) -> TrustStudy:
    """Load the runs of a folder."""
    runs = {}
    for key in plan():
        trace = load_run(folder / str(key), scenario(key.bag, key.level, size))
        if trace is None:
            raise SystemExit(f"{folder / str(key)}: no complete run of this scenario")
        runs[key] = trace
    return TrustStudy(runs, size, json.loads((folder / "notes.json").read_text()))


def main(arguments: list[str] | None = None) -> int:
    """Run, fit, predict and print; return 1 if a requirement is not met."""
    from trust_tables import report

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("build/trust"))
    parser.add_argument("--report", action="store_true", help="only report on the stored runs")
    parser.add_argument("--synthetic", action="store_true", help="simulate the truth")
    parser.add_argument("--noise", type=float, default=0.01, help="noise of the simulated truth")
    parser.add_argument("--tasks", type=int, default=Size().tasks)
    parser.add_argument("--shrunk", type=float, default=1.0, help="factor on all lengths")
    parser.add_argument("--page", type=Path, help="page to write the tables into")
    given = parser.parse_args(arguments)
    size = Size(given.tasks, Size().longest * given.shrunk, Size().shortest * given.shrunk)
    if given.synthetic:
        made = TrustStudy(simulate_truth(size, given.noise), size, {})
    else:
        if not given.report:
            record(given.folder, size)
        made = study(given.folder, size)
    return report(made, page=given.page)


if __name__ == "__main__":
    sys.exit(main())
