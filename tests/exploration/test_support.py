"""Extrapolations of scenarios beyond fits to simulated runs with known parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twinloop.calibration import Fit, calibrate
from twinloop.engine import CompiledScenario, simulate
from twinloop.exploration.extrapolation.load_levels import LoadLevels
from twinloop.exploration.extrapolation.support import find_extrapolations
from twinloop.scenario import Scenario
from twinloop.trace import Trace

SPEED = {"speed_factor": {"linear": [0.5, 2]}}
SLOPE = {"contention.linear.slope": {"linear": [0, 1]}}
HIDDEN = {"model.speed_factor": 0.9, "model.contention": {"linear": {"slope": 0.3}}}


def tasks(count: int = 8, kind: str | None = "cpu", run_time: float | None = None) -> list[Any]:
    return [
        {"id": f"{kind}{i}", "run_time": run_time or 2 + i % 5, **({"kind": kind} if kind else {})}
        for i in range(count)
    ]


def scenario(overcommit: float = 1, platform: str = "2x1", **changes: Any) -> Scenario:
    made = Scenario(
        platform=platform,
        policy={"name": "pack-ic", "options": {"overcommit": overcommit}},
        workload={"tasks": tasks()},
    )
    return made.replace(**changes)


def make_run(declared: Scenario, **hidden: Any) -> Trace:
    """Simulate a run with hidden values that are not in the scenario of its manifest."""
    run = simulate(declared.replace(**(hidden or HIDDEN)))
    manifest = run.manifest.model_copy(update={"scenario": declared.to_manifest()})
    return run.replace(manifest=manifest)


def calibrate_to(
    *declared: Scenario, parameters: Any, hidden: Any = None, analysis: int = 1300
) -> Fit:
    runs = [make_run(each, **(hidden or HIDDEN)) for each in declared]
    return calibrate(runs, parameters=parameters, budget=60 if analysis else 20, analysis=analysis)


@pytest.fixture(scope="module")
def alone() -> Fit:
    """A fit to a run in which no tasks share a core; the model has no contention."""
    return calibrate_to(scenario(), parameters=SPEED, analysis=0)


@pytest.fixture(scope="module")
def probed() -> Fit:
    """A fit to runs with one, two and four tasks per core."""
    return calibrate_to(scenario(1), scenario(2), scenario(4), parameters=SPEED | SLOPE)


@pytest.fixture(scope="module")
def blind() -> Fit:
    """A fit of contention to a run in which no tasks share a core."""
    return calibrate_to(scenario(), parameters=SPEED | SLOPE)


# --- co-location ---------------------------------------------------------------------------------


def test_fitted_scenarios_are_supported(alone: Fit, probed: Fit, blind: Fit) -> None:
    for fit in (alone, probed, blind):
        assert find_extrapolations(scenario(), fit) == ()


def test_co_location_without_a_probe_is_an_extrapolation(alone: Fit) -> None:
    (sentence,) = find_extrapolations(scenario(2), alone)
    assert sentence == (
        "Up to 2 tasks per core run at the same time, but at most 1 in the fitted runs: the model "
        "has no contention between them."
    )
    assert "Up to 4 tasks per core" in find_extrapolations(scenario(4), alone)[0]


def test_co_location_with_a_probe_is_supported(probed: Fit) -> None:
    assert probed.values["contention.linear.slope"] == pytest.approx(0.3, abs=0.02)
    assert find_extrapolations(scenario(2), probed) == ()
    assert find_extrapolations(scenario(4), probed) == ()
    # The contention is identifiable, so it is also used beyond the probes.
    assert find_extrapolations(scenario(6), probed) == ()


def test_unidentifiable_contention_is_reported(blind: Fit) -> None:
    (sentence,) = find_extrapolations(scenario(2), blind)
    assert sentence.startswith(
        "Up to 2 tasks per core run at the same time, but at most 1 in the fitted runs: the "
        "contention between them is not identifiable from these runs and changes the makespan by "
    )
    # The work is multiplied by 1 to 2, so the 90 % range of the makespan is 0.9 / 1.5.
    assert 40 < float(sentence.split()[-2]) < 75


def test_contention_set_by_hand_is_not_fitted() -> None:
    by_hand = {"model.contention": {"linear": {"slope": 0.1}}}
    fit = calibrate_to(scenario(**by_hand), parameters=SPEED, analysis=0)
    (sentence,) = find_extrapolations(scenario(2, **by_hand), fit)
    assert sentence.endswith("the contention in the model was not fitted to any run.")


def test_more_tasks_on_a_host_are_an_extrapolation(alone: Fit) -> None:
    """Each task has its own core, but no fitted run has two tasks on one host."""
    (sentence,) = find_extrapolations(scenario(platform="1x4"), alone)
    assert sentence == (
        "Up to 4 tasks on one host run at the same time, but at most 1 in the fitted runs: the "
        "model has no contention between them."
    )
    assert find_extrapolations(scenario(platform="4x1"), alone) == ()


def test_a_probe_of_one_kind_does_not_support_another() -> None:
    both = {"workload.tasks": tasks() + tasks(kind="cache")}
    plain, crowd = scenario(**both), scenario(2)
    hidden = {"model.contention": {"kinds": {"cpu": {"pressure": 1, "sensitivity": 0.3}}}}
    parameters = SPEED | {"contention.kinds.cpu.sensitivity": {"linear": [0, 1]}}
    runs = [make_run(plain, **{"model.speed_factor": 0.9}), make_run(crowd, **hidden)]
    fit = calibrate(runs, parameters=parameters, budget=20, analysis=0)
    assert find_extrapolations(crowd, fit) == ()
    (sentence,) = find_extrapolations(scenario(2, **both), fit)
    assert sentence == (
        "Up to 2 tasks per core run at the same time, some of the kind 'cache', but at most 1 in "
        "the fitted runs with this kind: the model has no contention for tasks of the kind 'cache'."
    )


def test_without_an_analysis_identifiability_is_unknown() -> None:
    fit = calibrate_to(scenario(), parameters=SPEED | SLOPE, analysis=0)
    (sentence,) = find_extrapolations(scenario(2), fit)
    assert sentence.endswith("identifiability of the contention between them was not analysed.")


# --- kinds, hosts, values ------------------------------------------------------------------------


def test_new_kinds_of_tasks_are_named(probed: Fit) -> None:
    more = {"workload.tasks": tasks() + tasks(3, "memory") + tasks(1, "stream")}
    assert find_extrapolations(scenario(**more), probed) == (
        "3 tasks are of the kind 'memory', which does not occur in the fitted runs: they contain "
        "'cpu'.",
        "1 task is of the kind 'stream', which does not occur in the fitted runs: they contain "
        "'cpu'.",
    )


def test_hosts_of_another_clock_or_speed_are_named() -> None:
    fit = calibrate_to(scenario(platform="2x1@2400MHz"), parameters=SPEED, analysis=0)
    assert find_extrapolations(scenario(platform="4x1@2400MHz"), fit) == ()
    assert find_extrapolations(scenario(platform="2x1@3000MHz"), fit) == (
        "It uses hosts of 3,000 MHz, but the fitted runs used hosts of 2,400 MHz.",
    )
    faster = {"clusters": [{"hosts": [{"cores": 1, "count": 2, "mhz": 2400, "speed": 1.5}]}]}
    assert find_extrapolations(scenario().replace(platform=faster), fit) == (
        "It uses hosts of speed 1.5, but the fitted runs used hosts of 1.",
    )


@pytest.fixture(scope="module")
def equal() -> Fit:
    """A fit to equal run times, for which start-up overhead and speed compensate each other."""
    declared = scenario(**{"workload.tasks": tasks(run_time=2.0)})
    parameters = SPEED | {"startup_overhead": {"linear": [0, 1]}}
    hidden = {"model.speed_factor": 1.0, "model.startup_overhead": 0.5}
    return calibrate_to(declared, parameters=parameters, hidden=hidden)


def test_compensating_values_are_reported_for_other_run_times(equal: Fit) -> None:
    assert set(equal.identifiability.unidentifiable) == {"speed_factor", "startup_overhead"}
    same = scenario(**{"workload.tasks": tasks(run_time=2.0)})
    assert find_extrapolations(same, equal) == ()
    (sentence,) = find_extrapolations(scenario(**{"workload.tasks": tasks(run_time=20.0)}), equal)
    assert sentence.startswith("Its makespan changes by ")
    assert "speed_factor (from " in sentence
    assert sentence.endswith("which compensate each other in the data.")
    # 20 s of work at speeds for which 2 s of work take 1.5 to 2.5 s without start-up overhead
    assert 20 < float(sentence.split()[4]) < 60


def test_values_that_a_scenario_sets_are_not_those_of_the_fit(blind: Fit) -> None:
    applied = blind.apply(scenario(1))
    assert find_extrapolations(applied, blind) == ()
    changed = applied.replace(**{"policy.options": {"overcommit": 2}})
    assert "not identifiable" in find_extrapolations(changed, blind)[0]
    assert find_extrapolations(
        changed.replace(**{"model.contention": {"linear": {"slope": 0.5}}}), blind
    ) == (
        "Up to 2 tasks per core run at the same time, but at most 1 in the fitted runs: the "
        "contention in the model was not fitted to any run.",
    )


# --- fits of all kinds ---------------------------------------------------------------------------


def test_a_stored_fit_gives_the_same_sentences(blind: Fit, tmp_path: Path) -> None:
    read = Fit.load(blind.save(tmp_path / "fit"))
    assert find_extrapolations(scenario(2), read) == find_extrapolations(scenario(2), blind)


def test_fits_without_known_runs_are_reported(alone: Fit) -> None:
    (sentence,) = find_extrapolations(scenario(), replace(alone, scenarios=()))
    assert sentence == "The fit is that of a black box, so the range of its runs is not known."
    lost = scenario(workload={"path": "gone.swf"})
    (sentence,) = find_extrapolations(scenario(), replace(alone, scenarios=(lost,)))
    assert sentence.startswith("The fitted runs cannot be simulated any more: ")
    assert "gone.swf" in sentence


@pytest.mark.parametrize("overcommit", [1, 1.5, 3])
def test_load_levels_are_maxima_over_time(overcommit: float) -> None:
    mixed = tasks(9, "cpu") + tasks(5, "cache") + tasks(2, None)
    mixed += [{"id": "wide", "run_time": 3, "cores": 2, "kind": "wide"}]
    made = scenario(overcommit, "2x2", **{"workload.tasks": mixed})
    seen = LoadLevels.of([CompiledScenario(made)])
    trace = simulate(made)
    kinds = {row["id"]: row["kind"] or "" for row in trace.tasks.rows(named=True)}
    rows = trace.placements.rows(named=True)
    load: dict[str, float] = {}
    count: dict[str, int] = {}
    for begin in rows:
        here = [
            row
            for row in rows
            if row["machine"] == begin["machine"] and row["start"] <= begin["start"] < row["end"]
        ]
        for row in here:
            kind = kinds[row["task"]]
            load[kind] = max(load.get(kind, 0), sum(each["cores"] for each in here) / 2)
            count[kind] = max(count.get(kind, 0), len(here))
    assert seen.load == pytest.approx(load)
    assert seen.tasks == count
