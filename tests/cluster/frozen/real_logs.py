"""Digests and figures of simulations of real logs; their file has no data of the logs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import twinloop as tl
from twinloop.engine import CompiledScenario
from twinloop.engine.workload_cache import LoadedWorkload

FILE: Final = Path(__file__).with_name("real_logs.json")

#: Policies of the log of KTH, with the source of its submissions where it is not rigid.
KTH: Final[dict[str, dict[str, Any]]] = {
    "fcfs": {"policy": "fcfs"},
    "easy": {"policy": "easy"},
    "easy, depth 10": {"policy": {"name": "easy", "options": {"depth": 10}}},
    "easy-time": {"policy": "easy-time"},
    "conservative": {"policy": "conservative"},
    "conservative, fixed": {"policy": {"name": "conservative", "options": {"compress": False}}},
    "sjf": {"policy": "sjf"},
    "ljf": {"policy": "ljf"},
    "fair-share": {"policy": {"name": "fair-share", "options": {"backfill": "easy"}}},
    "easy, killed": {"policy": "easy", "model": {"kill_at_requested_time": True}},
    "easy, sessions": {"policy": "easy", "source": "sessions:3600"},
    "fcfs, sessions": {"policy": "fcfs", "source": "sessions:3600"},
}
#: Number of hosts, policy and model of the log of SURF: first alone on its hosts, then sharing.
SURF: Final[dict[str, dict[str, Any]]] = {
    "no-delay": {
        "hosts": 277,
        "policy": {"name": "filter", "options": {"filters": {"vcpu": 1.0}}},
        "model": {"demand": "fixed", "sharing": "no-delay"},
    },
    "overcommitted": {
        "hosts": 150,
        "policy": {"name": "spread-vcpu", "options": {"overcommit": 2.0}},
        "model": {},
    },
}
KTH_FIGURES: Final = (
    "completed",
    "killed",
    "makespan_s",
    "wait_mean_s",
    "wait_max_s",
    "bounded_slowdown_mean",
    "utilisation",
)
SURF_FIGURES: Final = ("completed", "makespan_s", "wait_mean_s", "turnaround_mean_s", "energy_j")

#: A digest of times, or the value of a figure, by name.
Summary = dict[str, str | float]


def summarise_kth(data: Path) -> dict[str, Summary]:
    """Simulate the log of KTH with several policies."""
    log = tl.read(data / "swf/KTH-SP2-1996-2.1-cln.swf.gz")
    return _summarise(
        KTH,
        lambda parts: tl.Scenario(platform="100x1", workload=log, **parts),
        KTH_FIGURES,
    )


def summarise_surf(data: Path) -> dict[str, Summary]:
    """Simulate the week of SURF's cluster with the power of its hosts."""
    log = tl.read(data / "surf")
    power = {"model": "mse", "idle": 25.0, "max": 174.0, "r": 4.0}

    def make_scenario(parts: dict[str, Any]) -> tl.Scenario:
        hosts = {"count": parts["hosts"], "cores": 16, "mhz": 2100, "power": power}
        return tl.Scenario(
            platform={"clusters": [{"hosts": [hosts]}]},
            workload={"object": log, "missing": "drop"},
            policy=parts["policy"],
            model=parts["model"],
        )

    return _summarise(SURF, make_scenario, SURF_FIGURES)


def _summarise(
    variants: dict[str, dict[str, Any]],
    make_scenario: Callable[[dict[str, Any]], tl.Scenario],
    figures: tuple[str, ...],
) -> dict[str, Summary]:
    scenarios = {name: make_scenario(parts) for name, parts in variants.items()}
    loaded = LoadedWorkload(next(iter(scenarios.values())))
    return {
        name: _summarise_run(CompiledScenario(scenario, workload=loaded), figures)
        for name, scenario in scenarios.items()
    }


def _summarise_run(compiled: CompiledScenario, figures: tuple[str, ...]) -> Summary:
    run = compiled.start()
    while compiled.advance(run, run.run_slice):
        pass
    outcomes, kpis = run.outcomes(), run.kpis()
    # Ends on shared machines are equal within a tolerance only.
    columns = ("start",) if run.shared else ("start", "end")
    digests = {name: hashlib.sha256(outcomes[name].tobytes()).hexdigest() for name in columns}
    return {**digests, **{name: kpis[name] for name in figures}}


def read_summaries() -> dict[str, dict[str, Summary]]:
    """Read the stored summaries by log and variant."""
    summaries: dict[str, dict[str, Summary]] = json.loads(FILE.read_text(encoding="utf-8"))
    return summaries


def write_summaries(data: Path) -> None:
    """Simulate the logs in a folder and write the summaries."""
    summaries = {"kth": summarise_kth(data), "surf": summarise_surf(data)}
    FILE.write_text(json.dumps(summaries, indent=2) + "\n", encoding="utf-8")
