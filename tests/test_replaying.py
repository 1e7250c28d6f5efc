"""Laws: a run is replayed as it was; what was measured enters the model, nothing else does."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import twinloop as tl
from twinloop import InputError, Scenario, Trace
from twinloop.scenario import measured, replaying, with_service_of

LOG = {"generate": {"name": "lublin", "parameters": {"tasks": 60, "machine": 16}}}
USERS = {
    "generate": {"name": "sessions", "parameters": {"tasks": 80, "users": 5, "mean_length": 600}}
}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "sjf", "conservative"])
def test_a_simulated_run_is_replayed_exactly(policy: str) -> None:
    run = tl.simulate(Scenario(platform="2x8", policy=policy, workload=LOG))
    assert tl.simulate(replaying(run)).placements.equals(run.placements)


def test_users_are_replayed_from_the_workload_and_take_what_they_took() -> None:
    scenario = Scenario(
        platform="2x4", policy="easy", workload=USERS, source="sessions:600", time_scale=0.5
    )
    run = tl.simulate(scenario)
    again = tl.simulate(replaying(run))
    assert again.tasks["submit"].to_list() == pytest.approx(run.tasks["submit"].to_list())
    assert again.placements["start"].to_list() == pytest.approx(run.placements["start"].to_list())


def test_users_of_an_object_that_is_not_kept_cannot_be_replayed() -> None:
    log = tl.generate("sessions", tasks=10, users=2)
    run = tl.simulate(Scenario(platform="2x4", policy="easy", workload=log, source="sessions:600"))
    bare = Trace(manifest=run.manifest, **run.tables)  # as older versions wrote it
    with pytest.raises(InputError, match="an object in memory"):
        replaying(bare)


def test_a_trace_without_a_scenario_cannot_be_replayed() -> None:
    with pytest.raises(InputError, match="keeps no scenario"):
        replaying(Trace())


def test_the_means_of_the_latencies_enter_the_model() -> None:
    facts = {"latency": {"start": {"mean_s": 0.02, "max_s": 9.0}, "release": {"mean_s": None}}}
    model = measured(Trace().noting(facts=facts), tl.Model(release_latency=0.5))
    assert (model.dispatch_latency, model.release_latency) == (0.02, 0.5)


def test_a_task_that_did_not_complete_keeps_its_work() -> None:
    workload = tl.Workload(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b"],
                "submit": [0.0, 0.0],
                "cores": [2.0, 2.0],
                "work": [10.0, 10.0],
                "limit": [2.0, 2.0],
            }
        )
    )
    run = Trace(
        tasks=pl.DataFrame(
            {"id": ["a", "b"], "status": ["completed", "killed"], "run_time": [7.0, 1.0]}
        )
    )
    assert with_service_of(workload, run).tasks["work"].to_list() == [14.0, 10.0]
    pieces = {"task": ["b", "b", "a"], "duration": [1.0, 9.0, 5.0], "rate": [2.0, 0.5, 2.0]}
    varying = tl.Workload(tasks=workload.tasks, fragments=pl.DataFrame(pieces))
    replayed = with_service_of(varying, run)
    assert replayed.fragments.rows() == [("b", 1.0, 2.0), ("b", 9.0, 0.5)]
    assert replayed.durations().tolist() == [7.0, 10.0]


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_time_scale_moves_submissions_and_deadlines_and_nothing_else(scale: float) -> None:
    log = tl.generate("bursts", bursts=2, size=3)
    log = log.replace(tasks=log.tasks.with_columns(deadline=pl.col("submit") + 50.0))
    given = Scenario(platform="9x9", policy="fcfs", workload=log)
    plain, scaled = (tl.simulate(each) for each in (given, given.replace(time_scale=scale)))
    for column in ("submit", "submit_recorded"):
        assert scaled.tasks[column].to_list() == pytest.approx(
            [scale * time for time in plain.tasks[column]]
        )
    for run in (plain, scaled):
        lengths = run.placements["end"] - run.placements["start"]
        assert lengths.to_list() == pytest.approx(log.tasks["run_time"].to_list())


def test_a_folder_is_replayed_by_its_path(tmp_path: Path) -> None:
    run = tl.simulate(Scenario(platform="2x8", policy="easy", workload=LOG))
    path = run.save(tmp_path / "run")
    scenario = replaying(tl.read(path), path=str(path))
    assert scenario.workload.path == str(path)
    assert [Path(each.name).name for each in scenario.inputs()] == ["manifest.json"]
    assert tl.simulate(scenario).placements.equals(run.placements)
