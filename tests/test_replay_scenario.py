"""Replay of recorded runs: measured run times and latencies, and nothing else, enter the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from twinloop import InputError, Scenario, Trace
from twinloop.engine import CompiledScenario
from twinloop.scenario import replay_scenario, with_measured_latencies, with_measured_run_times

LOG = {"generate": {"name": "lublin", "parameters": {"tasks": 60, "machine": 16}}}
USERS = {
    "generate": {"name": "sessions", "parameters": {"tasks": 80, "users": 5, "mean_length": 600}}
}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "sjf", "conservative"])
def test_a_simulated_run_is_replayed_exactly(policy: str) -> None:
    run = tl.simulate(Scenario(platform="2x8", policy=policy, workload=LOG))
    assert tl.simulate(replay_scenario(run)).placements.equals(run.placements)


def test_sessions_are_replayed_with_measured_run_times() -> None:
    scenario = Scenario(
        platform="2x4", policy="easy", workload=USERS, source="sessions:600", time_scale=0.5
    )
    run = tl.simulate(scenario)
    again = tl.simulate(replay_scenario(run))
    assert again.tasks["submit"].to_list() == pytest.approx(run.tasks["submit"].to_list())
    assert again.placements["start"].to_list() == pytest.approx(run.placements["start"].to_list())


def test_sessions_of_a_workload_that_is_not_stored_cannot_be_replayed() -> None:
    log = tl.generate("sessions", tasks=10, users=2)
    run = tl.simulate(Scenario(platform="2x4", policy="easy", workload=log, source="sessions:600"))
    bare = Trace(manifest=run.manifest, **run.tables)  # as older versions wrote it
    with pytest.raises(InputError, match="an object in memory"):
        replay_scenario(bare)


def test_a_trace_without_a_scenario_cannot_be_replayed() -> None:
    with pytest.raises(InputError, match="has no scenario"):
        replay_scenario(Trace())


def test_the_means_of_the_latencies_enter_the_model() -> None:
    facts = {"latency": {"start": {"mean_s": 0.02, "max_s": 9.0}, "release": {"mean_s": None}}}
    model = with_measured_latencies(
        Trace().with_manifest(facts=facts), tl.Model(release_latency=0.5)
    )
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
    assert with_measured_run_times(workload, run).tasks["work"].to_list() == [14.0, 10.0]
    pieces = {"task": ["b", "b", "a"], "duration": [1.0, 9.0, 5.0], "rate": [2.0, 0.5, 2.0]}
    varying = tl.Workload(tasks=workload.tasks, fragments=pl.DataFrame(pieces))
    replayed = with_measured_run_times(varying, run)
    assert replayed.fragments.rows() == [("b", 1.0, 2.0), ("b", 9.0, 0.5)]
    assert replayed.durations().tolist() == [7.0, 10.0]


@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_time_scale_moves_only_submissions_and_deadlines(scale: float) -> None:
    log = tl.generate("bursts", bursts=2, size=3)
    log = log.replace(tasks=log.tasks.with_columns(deadline=pl.col("submit") + 50.0))
    given = Scenario(platform="9x9", policy="fcfs", workload=log)
    plain, scaled = (tl.simulate(each) for each in (given, given.replace(time_scale=scale)))
    for column in ("submit", "submit_recorded"):
        assert scaled.tasks[column].to_list() == pytest.approx(
            [scale * time for time in plain.tasks[column]]
        )
    moved = scaled.tasks["submit"] + 50.0
    assert scaled.tasks["deadline"].to_list() == pytest.approx(moved.to_list())
    for run in (plain, scaled):
        lengths = run.placements["end"] - run.placements["start"]
        assert lengths.to_list() == pytest.approx(log.tasks["run_time"].to_list())


@pytest.mark.parametrize("scale", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("source", ["rigid", "sessions:60"])
@pytest.mark.parametrize("kind", [Trace, tl.Workload])
def test_the_trace_has_the_deadlines_that_misses_are_counted_by(
    scale: float, source: str, kind: type
) -> None:
    """The time from the recorded submission to the deadline does not change."""
    due = TASKS.tasks.with_columns(deadline=pl.Series([120.0, 90.0, None, 320.0]))
    log = tl.Workload(tasks=due)
    scenario = Scenario(
        platform="1x4",
        policy="fcfs",
        workload=log if kind is tl.Workload else log.to_trace(),
        time_scale=scale,
        source=source,
    )
    run = tl.simulate(scenario)
    left = (run.tasks["deadline"] - run.tasks["submit_recorded"]).to_list()
    assert left == pytest.approx((due["deadline"] - due["submit"]).to_list())
    missed = tl.metrics.figures(run).deadline_misses
    assert CompiledScenario(scenario).run()["deadline_misses"] == missed
    again = tl.simulate(replay_scenario(run))
    assert again.tasks["deadline"].to_list() == pytest.approx(run.tasks["deadline"].to_list())
    assert tl.metrics.figures(again).deadline_misses == missed


def test_a_folder_is_replayed_by_its_path(tmp_path: Path) -> None:
    run = tl.simulate(Scenario(platform="2x8", policy="easy", workload=LOG))
    path = run.save(tmp_path / "run")
    scenario = replay_scenario(tl.read(path), path=str(path))
    assert scenario.workload.path == str(path)
    assert [Path(each.name).name for each in scenario.inputs()] == ["manifest.json"]
    assert tl.simulate(scenario).placements.equals(run.placements)


def host(**values: object) -> dict[str, object]:
    return {"clusters": [{"hosts": [{"cores": 4, **values}]}]}


#: Tasks of one kind or none that wait for each other on four cores.
TASKS = tl.Workload(
    tasks=pl.DataFrame(
        {
            "id": ["a", "b", "c", "d"],
            "user": ["u", "u", "v", "v"],
            "submit": [0.0, 5.0, 6.0, 300.0],
            "cores": [2.0, 3.0, 1.0, 4.0],
            "work": [200.0, 90.0, 70.0, 40.0],
            "limit": [2.0, 3.0, 1.0, 4.0],
            "kind": ["solve", None, "solve", None],
        }
    )
)
SPEEDS = {
    "one host": host(),
    "a fast host": host(speed=2),
    "a clock": host(mhz=3000),
    "two speeds": {"clusters": [{"hosts": [{"cores": 4, "speed": 0.5}, {"cores": 4, "speed": 4}]}]},
    "two clocks": {"clusters": [{"hosts": [{"cores": 4, "mhz": 1000}, {"cores": 4, "mhz": 4000}]}]},
    "one clock of two": {"clusters": [{"hosts": [{"cores": 4}, {"cores": 4, "mhz": 4000}]}]},
}
MODELS = {
    "nothing": {},
    "speed_factor": {"speed_factor": 2},
    "service_factor": {"service_factor": 1.5},
    "service_factors": {"service_factor": 1.2, "service_factors": {"solve": 3}},
    "startup_overhead": {"startup_overhead": "7s"},
    "contention": {"contention": {"kinds": {"solve": {"pressure": 0.5, "sensitivity": 1}}}},
    "latencies": {"dispatch_latency": "2s", "release_latency": "3s", "decision_interval": "10s"},
    "all": {
        "speed_factor": 0.8,
        "service_factor": 1.2,
        "startup_overhead": "1s",
        "dispatch_latency": "2s",
        "demand": "fixed",
    },
}


def times(run: Trace) -> dict[str, list[float]]:
    """The machines and times of the placements."""
    ran = run.placements.sort("task", "machine")
    return {
        f"{task} on {machine}": [start, end]
        for task, machine, start, end in ran.select("task", "machine", "start", "end").iter_rows()
    }


def approximately(run: Trace) -> dict[str, object]:
    return {name: pytest.approx(pair) for name, pair in times(run).items()}


@given(
    clock=st.sampled_from([None, 2000.0]),
    source=st.sampled_from(["rigid", "sessions:60"]),
    platform=st.sampled_from(list(SPEEDS)),
    model=st.sampled_from(list(MODELS)),
)
def test_measured_run_times_are_not_scaled_again(
    model: str, platform: str, source: str, clock: float | None
) -> None:
    log = tl.Workload(tasks=TASKS.tasks, reference_mhz=clock)
    scenario = Scenario(
        platform=SPEEDS[platform],
        policy="first-fit",
        workload=log,
        model=MODELS[model],
        source=source,
    )
    run = tl.simulate(scenario)
    for kind in ("simulated", "recorded"):
        assert times(tl.simulate(replay_scenario(run.with_manifest(kind=kind)))) == approximately(
            run
        )


@pytest.mark.parametrize("contention", ["none", {"linear": {"slope": 0.5}}])
@pytest.mark.parametrize("source", ["rigid", "sessions:60"])
def test_measured_run_times_contain_the_cost_of_sharing(contention: object, source: str) -> None:
    model = {"effective_capacity": 2, "contention": contention}
    scenario = Scenario(platform="1x4", policy="fcfs", workload=TASKS, model=model, source=source)
    run = tl.simulate(scenario)
    assert run.placements["end"].min() > 30
    again = replay_scenario(run)
    assert again.model.effective_capacity == 2
    assert times(tl.simulate(again)) == approximately(run)


@pytest.mark.parametrize("platform", SPEEDS)
@pytest.mark.parametrize("factor", [1.0, 2.0])
@pytest.mark.parametrize("clock", [None, 2000.0])
def test_sampled_use_is_replayed_at_the_speed_of_its_host(
    platform: str, factor: float, clock: float | None
) -> None:
    scenario = Scenario(
        platform=SPEEDS[platform],
        policy="first-fit",
        workload=tl.Workload(tasks=TASKS.tasks, reference_mhz=clock),
        model={"speed_factor": factor, "startup_overhead": "1s"},
    )
    run = tl.simulate(scenario, usage_step=5.0)
    assert run.usage.height > 4
    assert times(tl.simulate(replay_scenario(run))) == approximately(run)


def test_a_sample_of_a_recording_counts_in_the_cores_of_its_host() -> None:
    run = tl.simulate(Scenario(platform=host(speed=2), policy="first-fit", workload=TASKS))
    ran = run.placements
    half = pl.DataFrame(
        {
            "task": ran["task"],
            "machine": ran["machine"],
            "t": ran["end"],
            "dt": ran["end"] - ran["start"],
            "cpu": 0.5 * ran["cores"] * (ran["end"] - ran["start"]),
        }
    )
    again = tl.simulate(replay_scenario(run.replace(usage=half).with_manifest(kind="recorded")))
    assert times(again) == approximately(run)
    used = half.group_by("task", maintain_order=True).agg(pl.sum("cpu"))["cpu"]
    assert again.tasks["cpu_time"].to_list() == pytest.approx(used.to_list())


@pytest.mark.parametrize("platform", SPEEDS)
def test_the_clock_of_a_recorded_node_makes_no_task_longer(platform: str) -> None:
    """An execution records the clock of the machine for hosts without a described clock."""
    run = tl.simulate(Scenario(platform=SPEEDS[platform], policy="first-fit", workload=TASKS))
    nodes = run.nodes.with_columns(pl.col("mhz").fill_null(2445.0))
    for each in (nodes, nodes.with_columns(mhz=pl.lit(2445.0))):
        recorded = run.replace(nodes=each).with_manifest(kind="recorded", reference_mhz=None)
        assert times(tl.simulate(replay_scenario(recorded))) == approximately(run)


def test_the_model_of_a_replay_keeps_parameters_without_effect_on_run_times() -> None:
    stays = {
        "dispatch_latency": 2.0,
        "release_latency": 3.0,
        "decision_interval": 10.0,
        "effective_capacity": 0.5,
        "demand": "fixed",
        "kill_at_requested_time": True,
        "fitted_on": ("abc",),
        "overrides": {"clusters[0].hosts[0].cores": 8},
    }
    goes = {
        "speed_factor": 2.0,
        "service_factor": 3.0,
        "service_factors": {"solve": 2.0},
        "startup_overhead": 1.0,
        "contention": {"linear": {"slope": 0.5}},
    }
    run = tl.simulate(
        Scenario(platform="1x4", policy="fcfs", workload=TASKS, model={**stays, **goes})
    )
    assert replay_scenario(run).model == tl.Model(**stays)  # type: ignore[arg-type]


def test_a_killed_task_of_a_session_is_killed_again() -> None:
    asked = TASKS.tasks.with_columns(requested_time=pl.Series([120.0, 500.0, 500.0, 500.0]))
    scenario = Scenario(
        platform="1x4",
        policy="fcfs",
        workload=tl.Workload(tasks=asked),
        model={"service_factor": 1.5, "kill_at_requested_time": True},
        source="sessions:60",
    )
    run = tl.simulate(scenario)
    again = tl.simulate(replay_scenario(run))
    assert run.tasks["status"].to_list() == ["killed", "completed", "completed", "completed"]
    assert again.tasks["status"].equals(run.tasks["status"])
    assert times(again) == approximately(run)


def test_a_faster_host_shortens_run_times_of_a_slow_host(tmp_path: Path) -> None:
    run = tl.simulate(Scenario(platform=host(speed=2), policy="fcfs", workload=TASKS))
    path = run.save(tmp_path / "run")
    replay = replay_scenario(tl.read(path), path=str(path))
    faster = replay.replace(**{"platform.clusters[0].hosts[0].speed": 4.0})
    slow, fast = (tl.simulate(each).tasks["run_time"] for each in (replay, faster))
    assert (2 * fast).to_list() == pytest.approx(slow.to_list())
    kept = tl.simulate(replay).save(tmp_path / "again")
    assert times(tl.simulate(Scenario.from_trace(tl.read(kept)))) == approximately(run)


@pytest.mark.parametrize(
    "speeds", [5, "x", [1.0], {"n": "fast"}, {"n": 0}, {"n": True}, {"n": None}]
)
def test_invalid_speeds_of_nodes_are_refused(speeds: Any) -> None:
    log = tl.Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [5.0]}))
    with pytest.raises(tl.InputError, match=r"facts\.node_speeds"):
        tl.Workload.from_trace(log.with_manifest(facts={"node_speeds": speeds}))


@pytest.mark.parametrize("storage", ["submit", "all"])
@pytest.mark.parametrize("source", ["rigid", "sessions:60"])
def test_transfers_of_a_run_are_replayed_and_not_counted_twice(storage: str, source: str) -> None:
    files = [{"name": name, "size": f"{size} MB"} for name, size in (("in", 90), ("out", 40))]
    original = Scenario(
        platform={
            "clusters": [{"hosts": [{"count": 2, "cores": 1, "store": {"read": "200 MB/s"}}]}],
            "stores": [{"name": "disk", "read": "10 MB/s", "write": "5 MB/s", "streams": 2}],
        },
        workload={
            "files": files,
            "tasks": [
                {"id": "a", "run_time": 10, "reads": ["in"], "writes": ["out"]},
                {"id": "b", "run_time": 3, "reads": ["in", "out"], "parents": ["a"]},
                {"id": "c", "run_time": 7, "reads": ["in"]},
                {"id": "d", "run_time": 5},
            ],
        },
        policy="fcfs",
        source=source,
        model={"detail": {"storage": storage}},
    )
    run = tl.simulate(original)
    # A recorded run has the tables of its files.
    files_ = original.workload.resolve()
    scenario = replay_scenario(run.replace(files=files_.files, task_files=files_.task_files))
    again = tl.simulate(scenario)
    for table in ("placements", "transfers"):
        times = getattr(run, table).select("start", "end").to_numpy()
        assert getattr(again, table).select("start", "end").to_numpy() == pytest.approx(times)
    # The work is the declared one.
    work = scenario.workload.resolve()
    work = work if isinstance(work, tl.Workload) else tl.Workload.from_trace(work)
    assert work.tasks["work"].to_list() == pytest.approx([10, 3, 7, 5])
