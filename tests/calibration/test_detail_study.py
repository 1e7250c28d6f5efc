"""Studies of the level of detail: the true version is found, and a study resumes bit by bit."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.calibration.detail_runs import (
    LEVELS,
    PARAMETERS,
    TRUE_VALUES,
    list_runs,
    make_truth,
)
from twinloop.calibration import DetailStudy, LinearParameter, Space, calibrate_levels
from twinloop.calibration.detail.levels import Levels
from twinloop.calibration.detail.plan import DetailPlan
from twinloop.calibration.detail.run import JOURNAL, SEARCHES
from twinloop.calibration.detail.study_tables import TABLES
from twinloop.calibration.detail.version_search import EvaluationTask, VersionWorker
from twinloop.calibration.losses import get_loss
from twinloop.calibration.run import NamedRuns
from twinloop.calibration.run_columns import RunColumns
from twinloop.calibration.search.minimisation import SearchBudget, minimise
from twinloop.calibration.search.objective import TwinObjective
from twinloop.description.errors import InputError

TRAINING, VALIDATION = list_runs()
SPEED = {"speed_factor": PARAMETERS["speed_factor"]}
#: Files whose content depends on the machine.
CLOCKS = {f"times.{suffix}" for suffix in ("csv", "parquet")} | {JOURNAL}


def run_study(**options: Any) -> DetailStudy:
    settings: dict[str, Any] = {
        "validation": VALIDATION,
        "parameters": PARAMETERS,
        "budget": 40,
        "seeds": 2,
        "loss": "matched",
        "workers": 2,
    }
    settings |= {"levels": LEVELS}
    return calibrate_levels(TRAINING, **{**settings, **options})


def make_worker() -> VersionWorker:
    plan = DetailPlan(
        Levels.of({"policy": ["sjf"]}),
        NamedRuns(TRAINING, ["a", "b"]),
        NamedRuns(VALIDATION, ["c", "d", "e", "f"]),
        None,
        get_loss("makespan"),
        None,
        "auto",
        SearchBudget.of(20),
        (0,),
        0,
        None,
        False,
        False,
    )
    versions = plan.make_versions(SPEED)
    return VersionWorker({1: versions[1].runs}, "auto", plan.budget)


def read_files(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name not in CLOCKS
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("detail") / "study"


@pytest.fixture(scope="module")
def study(folder: Path) -> DetailStudy:
    sheet = {"startup_overhead": "0.5s", "speed_factor": 1.0}
    return run_study(folder=folder, spec_sheet=sheet, warm_start=True)


# --- verdict -------------------------------------------------------------------------------------


def test_the_true_version_is_first_and_the_cheapest_of_its_equals_is_recommended(
    study: DetailStudy,
) -> None:
    assert [version.name for version in study.versions] == [
        "fcfs, decision_interval=0, none",
        "sjf, decision_interval=0, none",
        "sjf, decision_interval=0, linear",
        "sjf, decision_interval=7, none",
        "sjf, decision_interval=7, linear",
    ]
    assert study.best is not None
    assert study.best.name.startswith("sjf, decision_interval=7")
    assert study.recommended is not None
    assert study.recommended.name == "sjf, decision_interval=7, none"
    text = " ".join(study.verdict)
    assert "policy: sjf is better than fcfs by" in text
    assert "decision_interval: 7 is better than 0 by" in text
    assert "contention: linear is not distinguishable from none" in text
    assert "Recommended: sjf, decision_interval=7, none (2 parameters)" in text


def test_a_parameter_without_effect_is_named_and_searched_only_where_it_is(
    study: DetailStudy,
) -> None:
    slope = "contention.linear.slope"
    assert study.list_without_effect() == {slope: [3, 5]}
    assert {number for number, names in study.skipped.items() if slope in names} == {1, 2, 4}
    assert f"{slope} changes nothing in any version that has it." in study.verdict
    assert set(study.values.filter(parameter=slope)["version"]) == {3, 5}


def test_the_values_of_the_true_version_are_found(study: DetailStudy) -> None:
    values = study.values.filter(version=4, values="fitted")
    for parameter, true in TRUE_VALUES.items():
        found = values.filter(parameter=parameter)["number"].to_list()
        assert found == pytest.approx([true] * 2, rel=0.25)


def test_no_search_exceeds_the_budget(study: DetailStudy) -> None:
    # Five versions with two seeds, and all but the first from the values of another one.
    assert study.searches.height == 5 * 2 + 4 * 2
    assert set(study.searches["evaluations"]) == {40}
    assert study.searches["error"].null_count() == study.searches.height
    ends = study.history.group_by("version", "values", "seed").agg(pl.col("best").last())
    found = study.searches.join(ends, on=["version", "values", "seed"])
    assert found["best"].to_list() == pytest.approx(found["training_loss"].to_list())


def test_a_large_budget_is_shared_with_least_squares() -> None:
    levels = {"policy": ["sjf"]}
    options: dict[str, Any] = {"levels": levels, "parameters": SPEED, "analysis": 0, "seeds": 1}
    with_residuals = run_study(budget=120, **options).searches.row(0, named=True)
    # Two thirds are for the optimiser; least squares may converge before the rest is spent.
    assert 80 < with_residuals["evaluations"] <= 120
    without = run_study(budget=120, loss="chamfer-relative-all", **options).searches
    assert without["evaluations"].to_list() == [120]


def test_the_losses_stand_beside_noise_baseline_and_sheet(study: DetailStudy) -> None:
    assert study.ideal is not None
    assert (study.ideal["runs"], study.ideal["workloads"]) == (4, 2)
    assert study.baseline is not None
    summary = study.summarise().row(3, named=True)
    assert study.ideal["loss"] < summary["mean"] < summary["spec_sheet"] < study.baseline["loss"]
    assert summary["lowest"] <= summary["mean"] <= summary["highest"]
    assert study.difference_from_baseline is not None
    assert study.difference_from_baseline.verdict == "better"
    assert str(study).startswith("predict: nothing taken from the real runs\n5 versions, each")


def test_the_mean_of_the_runs_is_the_loss_of_the_search(study: DetailStudy) -> None:
    # Every workload has the same number of repetitions, so that both means are equal.
    for row in study.searches.iter_rows(named=True):
        losses = study.losses.filter(
            version=row["version"], values=row["values"], seed=row["seed"], used="validation"
        )
        assert losses.height == 4
        assert losses["loss"].mean() == pytest.approx(row["validation_loss"])


def test_exact_values_without_noise_leave_no_loss() -> None:
    truth = make_truth(1, 0, noise=0.0)
    exact = calibrate_levels(
        truth,
        {"policy": ["sjf"], "model.decision_interval": [7]},
        parameters=SPEED,
        spec_sheet={f"model.{name}": value for name, value in TRUE_VALUES.items()},
        budget=5,
        seeds=1,
        analysis=0,
    )
    assert exact.losses.filter(values="spec-sheet")["loss"].to_list() == pytest.approx([0.0])
    assert exact.ideal is None
    assert "noise floor (ideal simulator): unknown: no repetitions" in str(exact)
    assert "No run was held out" in str(exact)


# --- storage and interrupts ----------------------------------------------------------------------


def test_a_stored_study_is_read_unchanged(study: DetailStudy, folder: Path) -> None:
    read = DetailStudy.load(folder)
    assert read.to_dict() == json.loads(json.dumps(study.to_dict()))
    for name in TABLES:
        assert getattr(read, name).equals(getattr(study, name))
    assert str(read) == str(study)


def test_the_results_do_not_depend_on_the_workers(
    study: DetailStudy, folder: Path, tmp_path: Path
) -> None:
    # Processes and Dask are compared in verify/test_detail_studies.py.
    sheet = {"startup_overhead": "0.5s", "speed_factor": 1.0}
    again = tmp_path / "again"
    run_study(folder=again, spec_sheet=sheet, warm_start=True, on="serial", workers=None)
    assert read_files(again) == read_files(folder)


def test_an_interrupted_study_resumes_with_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"on": "serial", "workers": None, "seeds": 1, "analysis": 0}
    options |= {"levels": {"model.decision_interval": [0, 7]}, "parameters": SPEED, "budget": 20}
    run_study(folder=tmp_path / "whole", **options)
    calls, limit = 0, 28
    evaluate = TwinObjective.__call__

    def count(objective: TwinObjective, points: Any) -> Any:
        nonlocal calls
        calls += len(points)
        if calls > limit:
            raise KeyboardInterrupt
        return evaluate(objective, points)

    monkeypatch.setattr(TwinObjective, "__call__", count)
    with pytest.raises(KeyboardInterrupt):
        run_study(folder=tmp_path / "part", **options)
    # The second search was interrupted: its first evaluations are in a journal of its own.
    assert len((tmp_path / "part" / JOURNAL).read_text().splitlines()) == 2
    assert len(list((tmp_path / "part" / SEARCHES).iterdir())) == 1
    calls, limit = 0, 10_000
    run_study(folder=tmp_path / "part", **options)
    assert calls < 20
    assert read_files(tmp_path / "part") == read_files(tmp_path / "whole")
    assert list((tmp_path / "part" / SEARCHES).iterdir()) == []


def test_further_seeds_and_levels_keep_the_finished_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = {"model.decision_interval": [0, 7]}
    options: dict[str, Any] = {"folder": tmp_path / "study", "analysis": 0, "budget": 20}
    options |= {"levels": levels, "parameters": SPEED}
    first = run_study(seeds=1, **options)
    searched = 0
    search = minimise

    def count(*arguments: Any, **more: Any) -> Any:
        nonlocal searched
        searched += 1
        return search(*arguments, **more)

    monkeypatch.setattr("twinloop.calibration.detail.version_search.minimise", count)
    second = run_study(seeds=2, **options)
    assert searched == len(first.versions)
    old = second.searches.filter(seed=0)
    assert old.equals(first.searches)


def test_a_folder_with_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"it contains notes\.txt"):
        run_study(folder=tmp_path)
    with pytest.raises(InputError, match="not finished"):
        DetailStudy.load(tmp_path)


def test_a_damaged_study_is_an_error(study: DetailStudy, folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    study.save(damaged)
    (damaged / "losses.parquet").write_bytes((damaged / "values.parquet").read_bytes())
    with pytest.raises(InputError, match=r"losses\.parquet: has other columns"):
        DetailStudy.load(damaged)


# --- input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": "60s"}, "budget: must be a number of evaluations"),
        ({"seeds": 0}, "seeds: must be a positive number"),
        ({"seeds": [1, 1]}, "seeds: must be a positive number, or different seeds"),
        ({"parameters": {"decision_interval": {"linear": [0, 9]}}}, "as well as a factor"),
        ({"parameters": {"contention.linear.slope": {"linear": [0, 1]}}}, "has none of the"),
        ({"parameters": {"speed": {"linear": [0, 1]}}}, "neither a value of the model"),
        ({"loss": "explained"}, "no loss is called"),
    ],
)
def test_input_that_cannot_be_used_is_an_error(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_study(**options)


def test_a_search_that_fails_is_counted_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    evaluate = TwinObjective.__call__

    def fail(objective: TwinObjective, points: Any) -> Any:
        losses = evaluate(objective, points)
        if objective.cases[0].scenario.model.decision_interval:
            losses[:] = np.nan
        return losses

    monkeypatch.setattr(TwinObjective, "__call__", fail)
    levels = {"model.decision_interval": [0, 7]}
    study = run_study(levels=levels, parameters=SPEED, budget=8, seeds=1, analysis=0)
    assert study.failed == 1
    assert study.notes == (
        "decision_interval=7, seed 0: all 8 evaluations failed: infinite losses",
    )
    assert study.best is not None
    assert study.best.name == "decision_interval=0"
    study.save(tmp_path / "study")
    assert DetailStudy.load(tmp_path / "study").failed == 1


def test_a_worker_is_sent_to_other_processes() -> None:
    versions = make_worker().versions
    worker = pickle.loads(pickle.dumps(make_worker()))
    task = EvaluationTask("key", 1, {"speed_factor": 1.5})
    assert worker(task) == make_worker()(task)
    assert worker(task)["training"] == versions[1].training.at({"speed_factor": 1.5})


# --- warm start ----------------------------------------------------------------------------------


class Bowl:
    """A bowl with its minimum off the middle."""

    space = Space([LinearParameter("a", 0, 1), LinearParameter("b", 0, 1)])

    def __call__(self, points: np.ndarray) -> np.ndarray:
        return np.asarray(((points - [0.13, 0.87]) ** 2).sum(axis=1))


@pytest.mark.parametrize("optimiser", ["auto", "cma", "random"])
def test_a_search_begins_with_its_start(optimiser: str) -> None:
    start = np.array([0.14, 0.86])
    history = minimise(Bowl(), optimiser=optimiser, budget=20, seed=3, start=start)
    assert history.points[0].tolist() == start.tolist()
    assert len(history.losses) == 20
    assert history.best_loss <= Bowl()(start[None])[0]


def test_a_search_with_a_start_resumes(tmp_path: Path) -> None:
    start = np.array([0.14, 0.86])
    journal = tmp_path / "journal"
    whole = minimise(Bowl(), budget=30, seed=3, start=start, journal=journal)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:4]))
    resumed = minimise(Bowl(), budget=30, seed=3, start=start, journal=journal)
    assert resumed.losses.tolist() == whole.losses.tolist()


def test_warm_starts_are_compared_with_the_others(study: DetailStudy) -> None:
    warm = study.searches.filter(values="warm-started")
    assert warm["version"].unique().sort().to_list() == [2, 3, 4, 5]
    assert any(line.startswith("Warm start from another version") for line in study.verdict)
    assert study.warm_start_difference is not None


# --- losses --------------------------------------------------------------------------------------


def test_a_function_is_a_loss_and_its_repetitions_have_no_mean() -> None:
    def compare_ends(real: RunColumns, twin: RunColumns) -> float:
        return float(abs(twin.end - real.end).max() / real.end.max())

    levels = {"model.decision_interval": [0, 7]}
    options: dict[str, Any] = {"levels": levels, "parameters": SPEED, "analysis": 0, "seeds": 1}
    study = run_study(loss=compare_ends, budget=12, **options)
    assert study.baseline is None
    assert study.ideal is None
    text = str(study)
    assert "unknown: repetitions have no mean for the loss compare_ends" in text
    assert "mean run times): none for the loss compare_ends" in text


def test_a_loss_of_repetitions_has_one_value_per_workload() -> None:
    levels = {"model.decision_interval": [0, 7]}
    runs = [make_truth(1, repetition) for repetition in (0, 1, 2)]
    study = calibrate_levels(
        runs, levels, parameters=SPEED, analysis=0, seeds=1, budget=12, loss="explained-variance"
    )
    fitted = study.losses.filter(values="fitted")
    assert fitted["run"].to_list() == ["run 1, run 2, run 3"] * 2
    # By its definition, the mean of the repetitions has the loss 1.
    assert study.ideal is not None
    assert study.ideal["loss"] == pytest.approx(1.0)
