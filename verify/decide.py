"""Verification of predicted rankings: bags of real work under several policies.

    python verify/decide.py                        # from the recorded runs, without real runs
    python verify/decide.py --page docs/decide.md  # the same, and write the tables into the page
    python verify/decide.py --folder build/decide --record    # execute the missing runs
    python -m twinloop.recordings pack build/decide tests/recordings/decide.tar.zst
    python verify/decide.py --synthetic            # the same with a simulated truth

A twin without contention predicts that overcommitting policies are faster than simple ones. A twin
with contention, fitted to other runs, has to rank the policies as the real runs do.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
from decide_runs import (
    APART,
    BASELINE,
    KINDS,
    LEVELS,
    PROBE_REPETITIONS,
    REPETITIONS,
    TRIED,
    DecisionKey,
    load_run,
    plan,
    probe,
    record,
    scenario,
    simulate_truth,
)
from trust import OPTIMISER

import twinloop as tl
from twinloop.exploration.confirmation.diagnosis import Diagnosis, diagnose
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.metrics import figures
from twinloop.recordings import open_runs

SHIPPED = Path(__file__).parents[1] / "tests" / "recordings" / "decide.tar.zst"
BUDGET, ANALYSIS = 8000, 6000
METRICS = ("makespan_s", "wait_p95_s")

#: The twins: fitted to tasks with exclusive cores; to all probes without contention; and to all
#: probes with contention.
ALONE, WITHOUT, WITH = "one per core", "without contention", "with contention"
TWINS = (ALONE, WITHOUT, WITH)
#: The parameters of a model without contention.
PLAIN: Mapping[str, Any] = {
    **{f"service_factors.{kind}": {"linear": [0.5, 4]} for kind in KINDS},
    "startup_overhead": {"linear": [0, 0.5]},
}


@dataclass(frozen=True)
class DecisionStudy:
    """The runs, and the predictions of twins fitted to the probes."""

    runs: Mapping[DecisionKey, tl.Trace]
    notes: Mapping[str, Mapping[str, float]]
    budget: int = BUDGET
    analysis: int = ANALYSIS

    @cached_property
    def fits(self) -> dict[str, tl.Fit]:
        """The fitted twins by name."""
        return {
            ALONE: self._fit(("1",), PLAIN),
            WITHOUT: self._fit(tuple(map(str, LEVELS)), PLAIN),
            WITH: self._fit(tuple(map(str, LEVELS)), None, analysis=self.analysis),
        }

    def _fit(
        self, levels: Collection[str], parameters: Mapping[str, Any] | None, *, analysis: int = 0
    ) -> tl.Fit:
        keys = [key for key in self.runs if key.bag == "probe" and key.name in levels]
        return tl.calibrate(
            [self.runs[key] for key in keys],
            names=[str(key) for key in keys],
            parameters=parameters,
            optimiser=OPTIMISER,
            budget=self.budget,
            analysis=analysis,
        )

    def predict(self, twin: str, bag: str, name: str) -> dict[str, float]:
        """Predict a bag under a candidate with a twin."""
        return _measure(tl.simulate(self.twin(twin, bag, name)))

    def twin(self, twin: str, bag: str, name: str) -> tl.Scenario:
        """Return the scenario of a bag under a candidate with the fitted model of a twin."""
        return self.fits[twin].apply(scenario(bag, name))

    @cached_property
    def confirmations(self) -> dict[tuple[str, str], Confirmation]:
        """Comparisons of predicted and measured candidates, by twin and bag."""
        return {(twin, bag): self._confirm(twin, bag) for twin in TWINS for bag in TRIED}

    def _confirm(self, twin: str, bag: str) -> Confirmation:
        candidates = {
            name: Candidate(name, self.twin(twin, bag, name), self.predict(twin, bag, name))
            for name in TRIED[bag]
        }
        baseline = candidates.pop(BASELINE)
        ranking = sorted(candidates.values(), key=lambda each: each.predicted[METRICS[0]])
        rows = [
            {"candidate": key.name, "repetition": key.repetition, **_measure(trace)}
            for key, trace in self.runs.items()
            if key.bag == bag
        ]
        return Confirmation.of(ranking, baseline, rows, METRICS)

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """The model options that would have ranked the heavy bag correctly.

        Fitted to the probes alone, like the twin without contention; None if that twin ranked the
        bag correctly.
        """
        return diagnose(
            self.confirmations[WITHOUT, "heavy"],
            [trace for key, trace in self.runs.items() if key.bag == "probe"],
            fit=self.fits[WITHOUT],
            with_confirmed=False,
            budget=self.budget // 4,
        )

    def pairs(self, twin: str, bag: str, metric: str = METRICS[0]) -> pl.DataFrame:
        """The pairs of candidates whose confidence interval excludes zero."""
        found = self.confirmations[twin, bag].pairs.filter(metric=metric)
        return found.filter((pl.col("low") > 0) | (pl.col("high") < 0))

    def makespans(self, bag: str, name: str) -> list[float]:
        """Return the makespans of all repetitions (s)."""
        repetitions = PROBE_REPETITIONS if bag == "probe" else REPETITIONS
        found = [self.runs[DecisionKey(bag, name, each)] for each in repetitions]
        return [_measure(trace)["makespan_s"] for trace in found]

    def inflation(self, level: int, kind: str, *, apart: bool) -> list[float]:
        """CPU time over declared work of the tasks of a kind, in each repetition of a probe.

        Args:
            level: The number of tasks per core.
            kind: The kind of the tasks.
            apart: Whether to take the tasks among tasks of the same kind, or those among all kinds.
        """
        declared = probe()
        first = APART * len(KINDS)
        found = []
        for each in PROBE_REPETITIONS:
            tasks = self.runs[DecisionKey("probe", str(level), each)].tasks.select(
                "kind", "cpu_time", number=pl.col("id").cast(pl.Int64)
            )
            tasks = tasks.filter(pl.col("kind") == kind, (pl.col("number") <= first) == apart)
            work = sum(declared[number - 1][1] for number in tasks["number"])
            found.append(float(tasks["cpu_time"].sum()) / work)
        return found

    def failures(self) -> Iterator[str]:
        """List the requirements that were not met.

        All pairs of the heavy bag with a significant difference; in the light bag only the pairs
        with the baseline, because its other candidates are nearly equal, and a difference of a
        millisecond decides their order.
        """
        if self.pairs(WITH, "heavy").is_empty():
            yield "heavy: no two candidates differ by more than the noise: not assessable"
        plain = (pl.col("one") == BASELINE) | (pl.col("other") == BASELINE)
        for bag, required in (("heavy", pl.lit(True)), ("light", plain)):
            wrong = self.pairs(WITH, bag).filter(required, pl.col("verdict") != "holds")
            for pair in wrong.to_dicts():
                yield f"{bag}: {describe_pair(pair)}"


def describe_pair(pair: Mapping[str, Any]) -> str:
    """Describe a pair of candidates."""
    real = f"{pair['real']:+.2f} s ({pair['low']:+.2f} to {pair['high']:+.2f})"
    return f"{pair['one']} - {pair['other']} is {real}, predicted {pair['predicted']:+.2f} s"


def _measure(trace: tl.Trace) -> dict[str, float]:
    found = figures(trace).to_dict()
    return {metric: float(found[metric] or 0.0) for metric in METRICS}


def study(source: Path, **options: int) -> DecisionStudy:
    """Load the runs of a folder or of an archive."""
    runs = {}
    with open_runs(source) as folder:
        for key in plan():
            trace = load_run(folder / str(key), scenario(key.bag, key.name))
            if trace is None:
                raise SystemExit(f"{source}/{key}: no complete run of this scenario")
            runs[key] = trace
        notes = json.loads((folder / "notes.json").read_text())
    return DecisionStudy(runs, notes, **options)


def main(arguments: list[str] | None = None) -> int:
    """Fit, predict, compare and print; return 1 if a requirement is not met."""
    from decide_tables import report

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=SHIPPED, help="the runs, or an archive")
    parser.add_argument("--record", action="store_true", help="execute the missing runs")
    parser.add_argument("--synthetic", action="store_true", help="simulate the truth")
    parser.add_argument("--noise", type=float, default=0.01, help="noise of the simulated truth")
    parser.add_argument("--page", type=Path, help="page to write the tables into")
    given = parser.parse_args(arguments)
    if given.synthetic:
        return report(DecisionStudy(simulate_truth(given.noise), {}), page=given.page)
    if given.record:
        if given.folder.is_file():
            parser.error("--record writes into a folder: give --folder")
        record(given.folder)
    return report(study(given.folder), page=given.page)


if __name__ == "__main__":
    sys.exit(main())
