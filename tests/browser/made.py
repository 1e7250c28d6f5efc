"""Quick runs and the pages of them, each made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import twinloop as tl
from twinloop import report
from twinloop.calibration import Fit
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.study.study import Study
from twinloop.fidelity import Verdict
from twinloop.report.pages.confirmation import write_confirmation_page
from twinloop.report.pages.loop import write_loop_page
from twinloop.report.pages.study import write_study_page
from twinloop.trace import Trace


def platform(nodes: int = 4) -> dict[str, Any]:
    power = {"model": "linear", "idle": 80, "max": 200}
    return {"clusters": [{"hosts": [{"count": nodes, "cores": 4, "power": power}]}]}


def bag(tasks: int, widest: int = 4) -> list[dict[str, Any]]:
    """Tasks of three users, submitted in bursts, of one to so many cores."""
    return [
        {
            "id": f"t{n:05}", "user": ("ann", "bob", "eve")[n % 3], "submit": float(20 * (n // 8)),
            "cores": 1 + n % widest, "run_time": 20.0 + 7 * n % 53,
        }
        for n in range(tasks)
    ]  # fmt: skip


def scenario(tasks: int = 120, **changes: Any) -> tl.Scenario:
    made = tl.Scenario(platform=platform(), policy="easy", workload={"tasks": bag(tasks)})
    return made.replace(**{f"model.{name}": value for name, value in changes.items()})


@cache
def run(tasks: int = 120) -> Trace:
    return tl.simulate(scenario(tasks))


@cache
def large() -> Trace:
    """Five thousand tasks, each on one core: as many bars."""
    tasks = {"tasks": bag(5000, widest=1)}
    return tl.simulate(tl.Scenario(platform=platform(8), policy="fcfs", workload=tasks))


@cache
def real() -> Trace:
    """A run that is slow to start its tasks, and does not say so."""
    made = tl.simulate(scenario(startup_overhead=1.5, speed_factor=0.9))
    said = made.manifest.model_copy(
        update={"scenario": scenario().to_manifest(), "kind": "recorded"}
    )
    return made.replace(manifest=said)


@cache
def verdict() -> Verdict:
    return tl.assess(real(), run())


@cache
def fit() -> Fit:
    ranges = {"speed_factor": {"linear": [0.5, 2]}, "startup_overhead": {"linear": [0, 3]}}
    return tl.calibrate(real(), parameters=ranges, budget=60, analysis=200)


@cache
def study() -> Study:
    shapes = {f"{nodes} nodes": platform(nodes) for nodes in (3, 4, 5)}
    policies = ["fifo", "fcfs", "easy", "sjf"]
    factors = {"policy": policies, "shape": {"field": "platform", "levels": shapes}}
    return tl.explore(scenario(60), {"factors": factors, "seeds": [1, 2]})


@cache
def confirmation() -> Confirmation:
    """The best three of the study; here a run for real is what was predicted, and some scatter."""
    top = study().top(3)
    every = [*top, top.baseline]
    runs = [
        {
            "candidate": one.name, "repetition": turn, "order": 4 * turn + at,
            "makespan_s": one.predicted["makespan_s"] * (1 + 0.01 * ((7 * at + 3 * turn) % 5)),
        }
        for turn in range(5)
        for at, one in enumerate(every)
    ]  # fmt: skip
    return Confirmation.of(list(top), top.baseline, runs, ["makespan_s"])


@dataclass(frozen=True)
class Looped:
    """A loop of these parts; to go round one for real takes minutes."""

    scenario: tl.Scenario = field(default_factory=scenario)
    real: Trace = field(default_factory=real)
    probes: tuple[Trace, ...] = ()
    probe_names: tuple[str, ...] = ()
    twin: Trace = field(default_factory=run)
    before: Verdict = field(default_factory=verdict)
    fit: Fit = field(default_factory=fit)
    fitted_twin: Trace = field(default_factory=lambda: tl.simulate(fit().apply(scenario())))
    after: Verdict = field(
        default_factory=lambda: tl.assess(real(), tl.simulate(fit().apply(scenario())))
    )
    unseen: Verdict | None = None
    study: Study = field(default_factory=study)
    confirmation: Confirmation = field(default_factory=confirmation)
    lines: tuple[str, ...] = ("The first line says what to do.", "The second one says why.")
    notes: tuple[str, ...] = ("no energy was measured: there is no counter on this machine",)


PAGES: dict[str, Callable[[Path], Path]] = {
    "run": lambda path: report.write_run_page(run(), path),
    "assessment": lambda path: report.write_assessment_page(verdict(), path),
    "calibration": lambda path: report.write_calibration_page(fit(), path),
    "study": lambda path: write_study_page(study(), path),
    "confirmation": lambda path: write_confirmation_page(confirmation(), path),
    "loop": lambda path: write_loop_page(Looped(), path),
    "large": lambda path: report.write_run_page(large(), path),
}
