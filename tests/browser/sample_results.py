"""Sample results and their pages, each made once."""

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


def make_platform(nodes: int = 4) -> dict[str, Any]:
    power = {"model": "linear", "idle": 80, "max": 200}
    return {"clusters": [{"hosts": [{"count": nodes, "cores": 4, "power": power}]}]}


def make_tasks(tasks: int, widest: int = 4) -> list[dict[str, Any]]:
    """Tasks of three users, submitted in bursts, of one to so many cores."""
    return [
        {
            "id": f"t{n:05}", "user": ("ann", "bob", "eve")[n % 3], "submit": float(20 * (n // 8)),
            "cores": 1 + n % widest, "run_time": 20.0 + 7 * n % 53,
        }
        for n in range(tasks)
    ]  # fmt: skip


def make_scenario(tasks: int = 120, **changes: Any) -> tl.Scenario:
    made = tl.Scenario(
        platform=make_platform(), policy="easy", workload={"tasks": make_tasks(tasks)}
    )
    return made.replace(**{f"model.{name}": value for name, value in changes.items()})


@cache
def make_run(tasks: int = 120) -> Trace:
    return tl.simulate(make_scenario(tasks))


@cache
def make_large_run() -> Trace:
    """Five thousand tasks on one core each, for as many bars."""
    tasks = {"tasks": make_tasks(5000, widest=1)}
    return tl.simulate(tl.Scenario(platform=make_platform(8), policy="fcfs", workload=tasks))


@cache
def make_cloud_run() -> Trace:
    """Two thousand instances on hosts that are switched on demand, too many for bars."""
    states = {
        "off": {"power": 10}, "switching-on": {"power": 150, "duration": 30},
        "switching-off": {"power": 150, "duration": 5},
    }  # fmt: skip
    power = {"model": "linear", "idle": 80, "max": 200}
    host = {"count": 6, "cores": 16, "ports": "100 MB/s", "power": power, "states": states}
    image = {"name": "base", "size": "100 MB", "store": "images", "boot": {"work": 5}}
    cloud = {"name": "east", "images": [image], "controllers": {"machines": "on-demand"}}
    platform = {
        "clusters": [{"hosts": [host]}],
        "stores": [{"name": "images", "ports": "1 GB/s"}],
        "clouds": [cloud],
    }
    tasks = {"tasks": make_tasks(2000)}
    return tl.simulate(tl.Scenario(platform=platform, policy="one-per-task", workload=tasks))


@cache
def make_real_run() -> Trace:
    """A run with a startup overhead that its scenario does not declare."""
    made = tl.simulate(make_scenario(startup_overhead=1.5, speed_factor=0.9))
    manifest = made.manifest.model_copy(
        update={"scenario": make_scenario().to_manifest(), "kind": "recorded"}
    )
    return made.replace(manifest=manifest)


@cache
def make_verdict() -> Verdict:
    return tl.assess(make_real_run(), make_run())


@cache
def make_fit() -> Fit:
    ranges = {"speed_factor": {"linear": [0.5, 2]}, "startup_overhead": {"linear": [0, 3]}}
    return tl.calibrate(make_real_run(), parameters=ranges, budget=60, analysis=200)


@cache
def make_study() -> Study:
    shapes = {f"{nodes} nodes": make_platform(nodes) for nodes in (3, 4, 5)}
    policies = ["fifo", "fcfs", "easy", "sjf"]
    factors = {"policy": policies, "shape": {"field": "platform", "levels": shapes}}
    return tl.explore(make_scenario(60), {"factors": factors, "seeds": [1, 2]})


@cache
def make_confirmation() -> Confirmation:
    """The best three of the study, with real runs simulated by predictions with scatter."""
    top = make_study().top(3)
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
class SampleLoop:
    """Loop of sample parts, because a real loop takes minutes."""

    scenario: tl.Scenario = field(default_factory=make_scenario)
    real: Trace = field(default_factory=make_real_run)
    probes: tuple[Trace, ...] = ()
    probe_names: tuple[str, ...] = ()
    twin: Trace = field(default_factory=make_run)
    before: Verdict = field(default_factory=make_verdict)
    fit: Fit = field(default_factory=make_fit)
    fitted_twin: Trace = field(
        default_factory=lambda: tl.simulate(make_fit().apply(make_scenario()))
    )
    after: Verdict = field(
        default_factory=lambda: tl.assess(
            make_real_run(), tl.simulate(make_fit().apply(make_scenario()))
        )
    )
    unseen: Verdict | None = None
    study: Study = field(default_factory=make_study)
    confirmation: Confirmation = field(default_factory=make_confirmation)
    lines: tuple[str, ...] = ("The first line says what to do.", "The second one says why.")
    notes: tuple[str, ...] = ("no energy was measured: there is no counter on this machine",)


PAGES: dict[str, Callable[[Path], Path]] = {
    "run": lambda path: report.write_run_page(make_run(), path),
    "cloud": lambda path: report.write_run_page(make_cloud_run(), path),
    "assessment": lambda path: report.write_assessment_page(make_verdict(), path),
    "calibration": lambda path: report.write_calibration_page(make_fit(), path),
    "study": lambda path: write_study_page(make_study(), path),
    "confirmation": lambda path: write_confirmation_page(make_confirmation(), path),
    "loop": lambda path: write_loop_page(SampleLoop(), path),
    "large": lambda path: report.write_run_page(make_large_run(), path),
}
