"""What a candidate leans on: fits of simulated truths, of which it is known what they tell."""

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


def truth(said: Scenario, **hidden: Any) -> Trace:
    """A run with hidden values, that says it was made without them."""
    run = simulate(said.replace(**(hidden or HIDDEN)))
    manifest = run.manifest.model_copy(update={"scenario": said.to_manifest()})
    return run.replace(manifest=manifest)


def fitted(*said: Scenario, parameters: Any, hidden: Any = None, analysis: int = 1300) -> Fit:
    runs = [truth(each, **(hidden or HIDDEN)) for each in said]
    return calibrate(runs, parameters=parameters, budget=60 if analysis else 20, analysis=analysis)


@pytest.fixture(scope="module")
def alone() -> Fit:
    """Of one run in which no two tasks shared a core; the model knows no contention."""
    return fitted(scenario(), parameters=SPEED, analysis=0)


@pytest.fixture(scope="module")
def probed() -> Fit:
    """Of runs with one, two and four tasks per core."""
    return fitted(scenario(1), scenario(2), scenario(4), parameters=SPEED | SLOPE)


@pytest.fixture(scope="module")
def blind() -> Fit:
    """Contention is looked for where no two tasks shared a core."""
    return fitted(scenario(), parameters=SPEED | SLOPE)


# --- co-location ---------------------------------------------------------------------------------


def test_what_was_fitted_is_supported(alone: Fit, probed: Fit, blind: Fit) -> None:
    for fit in (alone, probed, blind):
        assert find_extrapolations(scenario(), fit) == ()


def test_co_location_without_a_probe_is_not_supported(alone: Fit) -> None:
    (said,) = find_extrapolations(scenario(2), alone)
    assert said == (
        "Up to 2 tasks per core run at a time, and no run that was fitted had more than 1: "
        "contention between them is not in the model."
    )
    assert "Up to 4 tasks per core" in find_extrapolations(scenario(4), alone)[0]


def test_with_a_probe_it_is(probed: Fit) -> None:
    assert probed.values["contention.linear.slope"] == pytest.approx(0.3, abs=0.02)
    assert find_extrapolations(scenario(2), probed) == ()
    assert find_extrapolations(scenario(4), probed) == ()
    # Its contention is told, so it is believed beyond what was probed.
    assert find_extrapolations(scenario(6), probed) == ()


def test_contention_that_the_data_could_not_tell_is_none(blind: Fit) -> None:
    (said,) = find_extrapolations(scenario(2), blind)
    assert said.startswith(
        "Up to 2 tasks per core run at a time, and no run that was fitted had more than 1: the "
        "data could not tell the contention between them, which changes the makespan by "
    )
    # Work is 1 to 2 times as much, so nine in ten of the makespans differ by 0.9 / 1.5.
    assert 40 < float(said.split()[-2]) < 75


def test_contention_that_was_set_by_hand_was_not_fitted() -> None:
    by_hand = {"model.contention": {"linear": {"slope": 0.1}}}
    fit = fitted(scenario(**by_hand), parameters=SPEED, analysis=0)
    (said,) = find_extrapolations(scenario(2, **by_hand), fit)
    assert said.endswith("the contention in the model was not fitted to any run.")


def test_more_tasks_on_a_host_are_more_neighbours(alone: Fit) -> None:
    """Each has a core for itself, but no two of them were ever seen on one host."""
    (said,) = find_extrapolations(scenario(platform="1x4"), alone)
    assert said == (
        "Up to 4 tasks on one host run at a time, and no run that was fitted had more than 1: "
        "contention between them is not in the model."
    )
    assert find_extrapolations(scenario(platform="4x1"), alone) == ()


def test_a_probe_of_one_kind_says_nothing_of_another() -> None:
    both = {"workload.tasks": tasks() + tasks(kind="cache")}
    plain, crowd = scenario(**both), scenario(2)
    hidden = {"model.contention": {"kinds": {"cpu": {"pressure": 1, "sensitivity": 0.3}}}}
    parameters = SPEED | {"contention.kinds.cpu.sensitivity": {"linear": [0, 1]}}
    runs = [truth(plain, **{"model.speed_factor": 0.9}), truth(crowd, **hidden)]
    fit = calibrate(runs, parameters=parameters, budget=20, analysis=0)
    assert find_extrapolations(crowd, fit) == ()
    (said,) = find_extrapolations(scenario(2, **both), fit)
    assert said == (
        "Up to 2 tasks per core run at a time, some of the kind 'cache', and no run with such that "
        "was fitted had more than 1: the model knows no contention for tasks of the kind 'cache'."
    )


def test_without_an_analysis_nobody_knows_what_was_told() -> None:
    fit = fitted(scenario(), parameters=SPEED | SLOPE, analysis=0)
    (said,) = find_extrapolations(scenario(2), fit)
    assert said.endswith("whether the data can tell the contention between them was not analysed.")


# --- kinds, hosts, values ------------------------------------------------------------------------


def test_kinds_that_no_run_had_are_named(probed: Fit) -> None:
    more = {"workload.tasks": tasks() + tasks(3, "memory") + tasks(1, "stream")}
    assert find_extrapolations(scenario(**more), probed) == (
        "3 tasks are of the kind 'memory', and no run that was fitted had any: they had 'cpu'.",
        "1 task is of the kind 'stream', and no run that was fitted had any: they had 'cpu'.",
    )


def test_hosts_of_another_clock_or_speed_are_named() -> None:
    fit = fitted(scenario(platform="2x1@2400MHz"), parameters=SPEED, analysis=0)
    assert find_extrapolations(scenario(platform="4x1@2400MHz"), fit) == ()
    assert find_extrapolations(scenario(platform="2x1@3000MHz"), fit) == (
        "It runs on hosts of 3,000 MHz, and the runs that were fitted ran on such of 2,400 MHz.",
    )
    faster = {"clusters": [{"hosts": [{"cores": 1, "count": 2, "mhz": 2400, "speed": 1.5}]}]}
    assert find_extrapolations(scenario().replace(platform=faster), fit) == (
        "It runs on hosts of speed 1.5, and the runs that were fitted ran on such of 1.",
    )


@pytest.fixture(scope="module")
def equal() -> Fit:
    """All tasks are equally long, so that what a start costs cannot be told from slowness."""
    said = scenario(**{"workload.tasks": tasks(run_time=2.0)})
    parameters = SPEED | {"startup_overhead": {"linear": [0, 1]}}
    hidden = {"model.speed_factor": 1.0, "model.startup_overhead": 0.5}
    return fitted(said, parameters=parameters, hidden=hidden)


def test_values_that_compensate_each_other_matter_where_they_do_not(equal: Fit) -> None:
    assert set(equal.identifiability.unidentifiable) == {"speed_factor", "startup_overhead"}
    same = scenario(**{"workload.tasks": tasks(run_time=2.0)})
    assert find_extrapolations(same, equal) == ()
    (said,) = find_extrapolations(scenario(**{"workload.tasks": tasks(run_time=20.0)}), equal)
    assert said.startswith("Its makespan changes by ")
    assert "speed_factor (from " in said
    assert said.endswith("which compensate each other in the data.")
    # 20 s at speeds that make 2 s of work take 1.5 to 2.5 s with no less than nothing for a start
    assert 20 < float(said.split()[4]) < 60


def test_what_a_scenario_sets_itself_does_not_lean_on_the_fit(blind: Fit) -> None:
    told = blind.apply(scenario(1))
    assert find_extrapolations(told, blind) == ()
    moved = told.replace(**{"policy.options": {"overcommit": 2}})
    assert "could not tell" in find_extrapolations(moved, blind)[0]
    assert find_extrapolations(
        moved.replace(**{"model.contention": {"linear": {"slope": 0.5}}}), blind
    ) == (
        "Up to 2 tasks per core run at a time, and no run that was fitted had more than 1: the "
        "contention in the model was not fitted to any run.",
    )


# --- fits of all kinds ---------------------------------------------------------------------------


def test_a_fit_that_was_kept_says_the_same(blind: Fit, tmp_path: Path) -> None:
    read = Fit.load(blind.save(tmp_path / "fit"))
    assert find_extrapolations(scenario(2), read) == find_extrapolations(scenario(2), blind)


def test_what_cannot_be_found_out_is_said(alone: Fit) -> None:
    (said,) = find_extrapolations(scenario(), replace(alone, scenarios=()))
    assert said == "The fit is that of a black box: nobody knows what its runs had."
    lost = scenario(workload={"path": "gone.swf"})
    (said,) = find_extrapolations(scenario(), replace(alone, scenarios=(lost,)))
    assert said.startswith("What the runs that were fitted had cannot be found out any more: ")
    assert "gone.swf" in said


@pytest.mark.parametrize("overcommit", [1, 1.5, 3])
def test_crowding_is_what_is_seen_at_every_moment(overcommit: float) -> None:
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
