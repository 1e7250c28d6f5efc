"""A workload in memory is stored with the trace of its run."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

import twinloop as tl
from twinloop import InputError, Scenario, Trace, Workload
from twinloop.calibration import Fit
from twinloop.calibration.cases import make_cases
from twinloop.cli import app
from twinloop.description import DamagedTraceError
from twinloop.exploration import Candidate, Confirmation
from twinloop.exploration.confirmation.plan import compute_fingerprint
from twinloop.scenario import replay_scenario
from twinloop.trace.folder import MANIFEST, find_owned_files


def log(seed: int = 1, tasks: int = 20) -> Trace:
    return tl.generate("lublin", seed=seed, tasks=tasks, machine=8)


def described() -> Workload:
    """A workload with every property that a Trace cannot represent."""
    return Workload(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c"],
                "submit": [0.0, 1.0, 2.0],
                "cores": [2.0, 1.0, 1.0],
                "work": [20.0, None, 6.0],
                "limit": [1.5, None, 1.0],
                "speed": [2.0, None, None],
                "parents": [None, ["a"], ["a", "b"]],
                "command": [["true"], None, None],
                "requested_time": [30.0, 40.0, None],
            }
        ),
        fragments=pl.DataFrame({"task": ["b", "b"], "duration": [10.0, 5.0], "rate": [1.0, 0.25]}),
        files=pl.DataFrame({"file": ["x"], "size": [5.0]}),
        task_files=pl.DataFrame({"task": ["a"], "file": ["x"], "access": ["write"]}),
        reference_mhz=2400.0,
        epoch_ms=1,
        injected=("run times",),
    )


def held(workload: Trace | Workload, **more: object) -> Scenario:
    return Scenario(platform="2x4@2400MHz", policy="easy", workload=workload, **more)


@pytest.mark.parametrize("workload", [log(), described()], ids=["trace", "workload"])
def test_the_scenario_of_a_saved_run_has_its_workload(
    tmp_path: Path, workload: Trace | Workload
) -> None:
    scenario = held(workload)
    run = tl.simulate(scenario)
    assert Scenario.from_trace(run) == scenario
    moved = run.save(tmp_path / "run").rename(tmp_path / "moved")
    loaded = Trace.load(moved)
    assert loaded == run
    again = Scenario.from_trace(loaded)
    assert again.workload.object == workload
    assert again.to_manifest() == scenario.to_manifest() == run.manifest.scenario
    assert tl.simulate(again).placements.equals(run.placements)
    # A workload that was read is stored again, independent of the tables of the run.
    fewer = loaded.replace(tasks=loaded.tasks.head(1))
    assert Scenario.from_trace(Trace.load(fewer.save(tmp_path / "fewer"))) == again


def test_a_column_of_the_run_is_not_written_twice(tmp_path: Path) -> None:
    run = tl.simulate(held(log()))
    names = {file.name for file in run.save(tmp_path / "same").iterdir()}
    assert not any(name.startswith("workload-") for name in names)
    slower = tl.simulate(held(log(), model={"service_factor": 2.0}))
    path = slower.save(tmp_path / "slower")
    assert pl.read_parquet(path / "workload-tasks.parquet").columns == ["run_time"]
    assert {file.name for file in path.iterdir()} <= find_owned_files(path).files


def test_the_treatment_of_tasks_without_samples_is_stored() -> None:
    scenario = held(log()).replace(workload={"object": log(), "missing": "drop"})
    assert Scenario.from_trace(tl.simulate(scenario)).workload.missing == "drop"


def test_a_changed_stored_workload_is_detected(tmp_path: Path) -> None:
    path = tl.simulate(held(log(), model={"service_factor": 2.0})).save(tmp_path / "run")
    file = path / "workload-tasks.parquet"
    whole = file.read_bytes()
    pl.read_parquet(file).with_columns(pl.col("run_time") * 2).write_parquet(file)
    with pytest.raises(DamagedTraceError, match="its hash differs"):
        Trace.load(path)
    file.unlink()
    with pytest.raises(DamagedTraceError, match="is missing"):
        Trace.load(path)
    file.write_bytes(whole)
    (path / "workload-usage.parquet").write_bytes(whole)
    with pytest.raises(DamagedTraceError, match="does not list it"):
        Trace.load(path)


@pytest.mark.parametrize(
    "stored",
    [
        5,
        {},
        {"kind": "Model", "facts": {}, "tables": {}},
        {"kind": "Trace", "facts": {}, "tables": {"../x": {"rows": 1, "same": {}}}},
        {"kind": "Trace", "facts": {}, "tables": {"tasks": {"rows": 3, "same": {"id": "id"}}}},
        {"kind": "Trace", "facts": {}, "tables": {"tasks": {"rows": 20, "same": {"id": "no"}}}},
        {"kind": "Trace", "facts": {}, "tables": {"tasks": {"rows": 20, "same": 7}}},
        {"kind": "Trace", "facts": {}, "tables": [1]},
    ],
)
def test_an_invalid_stored_workload_is_a_damaged_trace(tmp_path: Path, stored: object) -> None:
    from twinloop.trace.folder import _hash_manifest

    path = tl.simulate(held(log())).save(tmp_path / "run")
    document = json.loads((path / MANIFEST).read_text())
    document["workload"] = stored
    document["sha256"] = _hash_manifest(document)
    (path / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(DamagedTraceError, match="workload"):
        Trace.load(path)


def test_runs_of_two_workloads_of_the_same_size_are_not_repetitions() -> None:
    runs = [tl.simulate(held(log(seed))) for seed in (1, 2, 1)]
    assert [len(case.traces) for case in make_cases(runs)] == [2, 1]
    one, other, same = (compute_fingerprint(run.manifest.scenario or {}) for run in runs)
    assert one == same != other


def test_another_workload_is_refused_for_a_run() -> None:
    run = tl.simulate(held(log(1)))
    with pytest.raises(InputError, match="not the workload of this run"):
        Scenario.from_manifest(run.manifest, workload=log(2))


def test_sessions_of_a_workload_in_memory_are_replayed() -> None:
    users = tl.generate("sessions", tasks=40, users=4, mean_length=600)
    run = tl.simulate(held(users, source="sessions:600"))
    again = tl.simulate(replay_scenario(run))
    assert again.tasks["submit"].to_list() == pytest.approx(run.tasks["submit"].to_list())


def recorded(scenario: Scenario, **truth: float) -> Trace:
    """A simulated run with other model values, in place of a real run."""
    run = tl.simulate(scenario.replace(model=truth))
    return run.with_manifest(kind="recorded", scenario=scenario.to_manifest())


def calibrated(run: Trace, folder: Path) -> Fit:
    ranges = {"service_factor": {"linear": [0.5, 2]}}
    return tl.calibrate([run], parameters=ranges, budget=40, analysis=0, folder=folder)


@pytest.mark.parametrize("workload", [log(), described()], ids=["trace", "workload"])
def test_a_run_of_a_workload_in_memory_is_calibrated_and_its_fit_is_saved(
    tmp_path: Path, workload: Trace | Workload
) -> None:
    real = recorded(held(workload), service_factor=1.5)
    loaded = Trace.load(real.save(tmp_path / "real"))
    made = calibrated(loaded, tmp_path / "fit")
    assert made.values["service_factor"] == pytest.approx(1.5, rel=0.05)
    assert made.values == calibrated(real, tmp_path / "again").values
    moved = (tmp_path / "fit").rename(tmp_path / "moved")
    fit = Fit.load(moved)
    assert fit.scenario == made.scenario
    twin = tl.simulate(fit.scenario)
    assert tl.simulate(tl.load(moved / "scenario.yaml")).placements.equals(twin.placements)


def test_the_command_calibrates_a_folder_whose_workload_was_in_memory(tmp_path: Path) -> None:
    run = recorded(held(log(tasks=5)), service_factor=1.5).save(tmp_path / "run")
    words = [
        "calibrate",
        str(run),
        "--budget",
        "20",
        "--analysis",
        "0",
        "--json",
        "-o",
        str(tmp_path / "fit"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scenarios"][0]["workload"]["object"] == "Trace of 5 tasks"


@pytest.mark.real
def test_a_real_run_stores_its_workload_in_memory(tmp_path: Path) -> None:
    tasks = pl.DataFrame({"id": ["a"], "submit": [0.0], "cores": [1.0], "work": [0.01],
                          "limit": [1.0], "command": [["true"]]})  # fmt: skip
    scenario = Scenario(platform="1x1", policy="fcfs", workload=Workload(tasks=tasks))
    run = tl.execute(scenario, tmp_path / "run")
    assert Scenario.from_trace(run) == Scenario.from_trace(Trace.load(tmp_path / "run")) == scenario


def test_a_study_in_a_folder_stores_a_workload_in_memory(tmp_path: Path) -> None:
    scenario = held(described())
    study = tl.explore(scenario, {"policy": ["fcfs", "easy"]}, folder=tmp_path / "study")
    direct = [tl.simulate(scenario.replace(policy=p)) for p in ("fcfs", "easy")]
    ends = [run.placements["end"].max() - run.tasks["submit"].min() for run in direct]
    assert study.runs["makespan_s"].to_list() == pytest.approx(ends)


def test_a_saved_confirmation_has_its_workload(tmp_path: Path) -> None:
    scenario = held(described())
    every = [
        Candidate(p, scenario.replace(policy=p), {"makespan_s": 1.0}) for p in ("fcfs", "easy")
    ]
    rows = [
        {"order": i, "candidate": one.name, "repetition": 1, "makespan_s": 1.0,
         "trace": None, "seconds": 1.0, "error": None}
        for i, one in enumerate(every)
    ]  # fmt: skip
    made = Confirmation.of(every[:1], every[1], rows, ["makespan_s"])
    moved = made.save(tmp_path / "kept").rename(tmp_path / "moved")
    again = Confirmation.load(moved)
    assert [one.scenario for one in again.candidates] == [every[0].scenario]
    assert again.baseline.scenario.workload.object == described()


def test_a_policy_in_memory_is_not_stored() -> None:
    stored = held(log()).to_manifest() | {"policy": {"name": "own", "object": "Policy own"}}
    run = tl.simulate(held(log())).with_manifest(scenario=stored)
    with pytest.raises(InputError, match=r"policy .* was an object in memory .* stores no code"):
        tl.calibrate([run])
