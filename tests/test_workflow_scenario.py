"""Scenarios of recorded runs of workflows: replays, predictions, and what they take from runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example_scripts import load_example
from tests.examples import examples
from twinloop import InputError, Trace, calibrate, read, simulate
from twinloop.engine import CompiledScenario
from twinloop.scenario import workflow_scenario_of_run
from twinloop.trace import Manifest

NO_OVERHEADS = {"submission": {"before": 0}}


def record(
    rows: list[tuple[str, str, str, float, float, float, list[str]]],
    *,
    before: float = 5.0,
    after: float = 7.0,
) -> Trace:
    """Make a recorded run of jobs: id, site, machine, ready, start, end, parents."""
    table = pl.DataFrame(
        rows,
        schema=["id", "partition", "machine", "ready", "start", "end", "parents"],
        orient="row",
        schema_overrides=dict.fromkeys(("ready", "start", "end"), pl.Float64),
    )
    return Trace(
        tasks=table.select(
            *("id", "partition", "ready", "parents"),
            submit=pl.lit(0.0),
            run_time=pl.col("end") - pl.col("start"),
        ),
        placements=table.select("machine", "start", "end", task="id"),
        task_times=table.select(task="id", before=pl.lit(before), after=pl.lit(after)),
    )


#: Two jobs of the same instant on one core, then one on the submit host.
RUN = record(
    [
        ("b", "pool", "n1", 0, 12, 112, []),
        # It waited for the core: its delay is not one of the negotiation.
        ("a", "pool", "n1", 0, 114, 134, []),
        ("c", "local", "s", 141, 147, 150, ["a", "b"]),
    ]
)


def test_a_replay_by_hand() -> None:
    scenario = workflow_scenario_of_run(RUN, cores=1)
    twin = simulate(scenario)
    # b: 5 s before, then 7 s of negotiation and 100 s on the core; a: 20 s on it; c: 7 s after
    # a, 5 s before, 1 s and 3 s on the submit host.
    assert twin.placements.select("task", "machine", "start", "end").rows() == [
        ("b", "n1", 5.0, 112.0),
        ("a", "n1", 112.0, 132.0),
        ("c", "s", 144.0, 148.0),
    ]
    assert twin.manifest.facts["mode"] == "replay"
    assert twin.manifest.facts["injected"] == ["run times", "start delays", "submission delays"]
    notes = [str(each) for each in scenario.workload.object.cleaned]
    assert "assumed 1: tasks that waited for a core: they start when they get one (a)" in notes


def test_the_longest_delay_without_a_queue_is_given() -> None:
    scenario = workflow_scenario_of_run(RUN, cores=2, max_start_delay=120)
    # With two cores, a starts at once and holds its core for 109 s and 20 s.
    assert simulate(scenario).placements["end"].to_list() == [112.0, 134.0, 150.0]


def test_a_model_replaces_the_recorded_overheads() -> None:
    model = {"submission": {"before": 1, "after": 2}, "dispatch_latency": 3}
    scenario = workflow_scenario_of_run(RUN, cores=1, model=model)
    assert simulate(scenario).placements.select("start", "end").rows() == [
        (4.0, 104.0),
        (107.0, 127.0),
        (133.0, 136.0),
    ]
    assert scenario.workload.object.injected == ("run times",)


def test_a_prediction_takes_nothing_from_the_run() -> None:
    others = [
        record(
            [
                ("b", "pool", "n1", 0, 9, 9 + length, []),
                ("a", "pool", "n1", 0, 109, 119, []),
                ("c", "local", "s", 150, 153, 159, ["a", "b"]),
            ],
            before=before,
            after=4.0,
        )
        for length, before in ((90, 1.0), (110, 3.0))
    ]
    scenario = workflow_scenario_of_run(RUN, times=others, cores=1)
    twin = simulate(scenario)
    # Means: 2 s before, of b 7 s of negotiation and 100 s; medians: 2 s before, 4 s after.
    assert twin.placements.select("start", "end").rows() == [
        (2.0, 109.0),
        (109.0, 119.0),
        (125.0, 132.0),
    ]
    assert twin.manifest.facts["mode"] == "predict"
    # The same run with other times than its own: its run times play no part.
    longer = RUN.tasks.with_columns(pl.col("run_time") * 3)
    again = workflow_scenario_of_run(RUN.replace(tasks=longer), times=others, cores=1)
    assert simulate(again).placements.equals(twin.placements)
    copy = RUN.replace(tasks=RUN.tasks.clone())
    own = workflow_scenario_of_run(RUN, times=[*others, copy], cores=1)
    assert own.workload.object.injected == ("run times", "start delays", "submission delays")


def test_runs_without_delays_or_sites() -> None:
    bare = Trace(
        tasks=RUN.tasks.drop("partition", "ready").with_columns(
            requested_cores=pl.Series([2.0, None, None]), submit=pl.Series([0.0, None, 0.0])
        ),
        placements=RUN.placements.filter(task="a").drop("start", "end"),
        task_files=pl.DataFrame({"task": ["a"], "file": ["x"], "access": ["read"]}),
        nodes=pl.DataFrame({"node": ["n1", "n2"], "cores": [4.0, 4.0]}),
    )
    scenario = workflow_scenario_of_run(bare)
    assert scenario.workload.object.injected == ("run times",)
    assert [cluster.name for cluster in scenario.platform.clusters] == ["workers", "submit"]
    assert scenario.platform.clusters[0].hosts[0].names == ("n1",)
    notes = [str(each) for each in scenario.workload.object.cleaned]
    what = "tasks without a machine and a partition: they run on the submit host (b, c)"
    assert f"assumed 2: {what}" in notes
    assert "assumed 2: tasks without a number of cores: one core each (a, c)" in notes
    what = "files that tasks read and write: their transfers are part of the run times"
    assert f"ignored 1: {what}" in notes
    assert len(scenario.workload.object) == 3
    named = workflow_scenario_of_run(RUN, submit_host=["s"], cores=1)
    assert named.platform == workflow_scenario_of_run(RUN, cores=1).platform


def test_what_is_missing_is_said() -> None:
    with pytest.raises(InputError, match=r"parents: the dependencies .* not known"):
        workflow_scenario_of_run(RUN.replace(tasks=RUN.tasks.drop("parents")), cores=1)
    with pytest.raises(InputError, match=r"cores: .* cores of machine 'n1' is not recorded"):
        workflow_scenario_of_run(RUN)
    with pytest.raises(InputError, match=r"placements: no machine"):
        workflow_scenario_of_run(RUN.replace(placements=RUN.placements.head(0)), cores=1)
    other = record([("x", "pool", "n1", 0, 12, 112, [])])
    with pytest.raises(InputError, match=r"times: no run time of task 'b'"):
        workflow_scenario_of_run(RUN, times=other, cores=1)


@st.composite
def workflows(draw: st.DrawFn) -> list[tuple[str, bool, int, list[str]]]:
    """Draw jobs: id, whether on the submit host, run time, parents; in any order of the ids."""
    ids = draw(st.permutations([f"j{number}" for number in range(draw(st.integers(2, 12)))]))
    return [
        (
            name,
            row > 0 and draw(st.booleans()) and draw(st.booleans()),
            draw(st.integers(1, 30)),
            sorted(draw(st.sets(st.sampled_from(ids[:row]), max_size=3))) if row else [],
        )
        for row, name in enumerate(ids)
    ]


@given(workflows(), st.integers(1, 3), st.integers(0, 6), st.integers(0, 4), st.integers(0, 6))
@examples(20, deadline=None)
def test_random_workflows_are_scheduled_as_by_an_independent_program(
    jobs: list[tuple[str, bool, int, list[str]]], cores: int, before: int, start: int, after: int
) -> None:
    script = load_example("flowbench")
    rows = {name: row for row, (name, *_) in enumerate(jobs)}
    run = record(
        [
            (name, "local" if local else "pool", "s" if local else "n1", 0, 0, length, parents)
            for name, local, length, parents in jobs
        ]
    )
    model = {"submission": {"before": before, "after": after}, "dispatch_latency": start}
    twin = CompiledScenario(workflow_scenario_of_run(run, cores=cores, model=model)).run()
    expected = script.schedule(
        [
            script.Job(length, before, start, after, not local, tuple(rows[p] for p in parents))
            for _, local, length, parents in jobs
        ],
        cores,
    )
    assert twin["makespan_s"] + after == expected


@given(workflows(), st.integers(0, 6), st.integers(0, 25), st.integers(0, 6))
@examples(10, deadline=None)
def test_the_replay_of_a_simulated_run_is_this_run(
    jobs: list[tuple[str, bool, int, list[str]]], before: int, start: int, after: int
) -> None:
    """With a core for each job, no job waits, and each delay is one of the run."""
    recorded = record(
        [
            (name, "local" if local else "pool", "s" if local else "n1", 0, 0, length, parents)
            for name, local, length, parents in jobs
        ]
    )
    model = {"submission": {"before": before, "after": after}, "dispatch_latency": start}
    run = simulate(workflow_scenario_of_run(recorded, cores=len(jobs), model=model))
    ready = run.placements.select("task", ready=pl.col("start") - start - before)
    declared = Trace(
        tasks=recorded.tasks.drop("ready").join(ready, left_on="id", right_on="task"),
        placements=run.placements,
        task_times=recorded.task_times.with_columns(
            before=pl.lit(float(before)), after=pl.lit(float(after))
        ),
    )
    again = simulate(workflow_scenario_of_run(declared, cores=len(jobs)))
    assert dict(again.placements.select("task", "end").rows()) == dict(
        run.placements.select("task", "end").rows()
    )


def test_a_log_without_starts_calibrates_by_its_makespan() -> None:
    """Run times and a makespan are enough for the losses L1 to L6."""
    bare = Trace(
        manifest=Manifest(facts={"makespan": 150.0}),
        tasks=RUN.tasks.with_columns(status=pl.lit("completed")).drop("ready"),
        placements=RUN.placements.drop("start", "end"),
    )
    scenario = workflow_scenario_of_run(bare, cores=1, model=NO_OVERHEADS)
    declared = bare.with_manifest(
        scenario=scenario.to_manifest(), facts=bare.manifest.facts
    ).with_workload(scenario.workload.object)
    fit = calibrate(
        declared,
        parameters={"dispatch_latency": {"linear": [0, 20]}},
        loss="L3",
        budget=60,
        analysis=0,
    )
    # Three jobs in a row: 100 + 20 + 3 s, and three delays.
    assert fit.values["dispatch_latency"] == pytest.approx(9.0, abs=0.01)
    assert fit.loss == pytest.approx(0.0, abs=0.001)


@pytest.mark.realdata
def test_a_repetition_is_predicted_from_others(real_data: Path) -> None:
    """Three runs of a workflow on ExoGENI that record run times and makespans alone."""
    script = load_example("workflow_repetitions")
    files = sorted((real_data / "workflows" / "accuracy").glob("exogeni-1000genome-00?.json"))
    found = script.make_repetitions("exogeni", files)
    assert [run.manifest.facts["makespan"] for run in found.runs] == [755, 758, 770]
    assert any("001.json is left out" in each for each in found.notes)
    run, *others = found.runs
    values = script.fit_single(others, found.submit_host)
    scenario = workflow_scenario_of_run(
        run, times=others, submit_host=found.submit_host, model=script.NEUTRAL
    )
    makespan = CompiledScenario(scenario).run(values)["makespan_s"]
    # Ideal error of 0.8 % and three points; the baseline errs by a quarter.
    assert makespan == pytest.approx(755, rel=0.038)
    cores = script.count_cores(scenario)
    assert cores == 16
    assert script.schedule_crudely(run, others, cores) < 0.8 * 755


@pytest.mark.realdata
def test_files_of_the_repetitions(real_data: Path) -> None:
    run = read(real_data / "workflows" / "accuracy" / "montage-m5xlarge-001.json.gz")
    assert (run.files["size"] == 0).sum() == 99
