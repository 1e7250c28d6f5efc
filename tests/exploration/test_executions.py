"""Studies over executions: runs equal single simulations, resume, files and errors."""

import csv
import signal
import subprocess
import sys
import tarfile
import textwrap
import time
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.exploration.sample_executions import write_executions
from twinloop.exploration import ExecutionStudy, explore_executions
from twinloop.exploration.executions.observations import observe
from twinloop.metrics import client_metrics
from twinloop.scenario import scenario_of_run

INJECT = ["best", "no-boot-times", "predictions"]
NAME = "v1.standard.brs.asap.regular.east.v1.0"


def values(study: ExecutionStudy) -> pl.DataFrame:
    """All columns except the duration."""
    return study.runs.drop("seconds")


@pytest.fixture(scope="module")
def executions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_executions(tmp_path_factory.mktemp("data") / "runs", 4)


@pytest.fixture(scope="module")
def study(executions: Path) -> ExecutionStudy:
    return explore_executions({"run": [str(executions)], "inject": INJECT}, on="serial")


@pytest.fixture(autouse=True)
def stay_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow machine must not start processes beside other tests."""
    monkeypatch.setattr("twinloop.exploration.executions.run.MAX_SERIAL_SECONDS", inf)


def write_measured(file: Path, rows: list[list[Any]], header: str = "xp_id,uptime,makespan") -> str:
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([header.split(","), *rows])
    return str(file)


# --- runs ------------------------------------------------------------------------------------


def test_runs_equal_simulations_of_their_scenarios(executions: Path, study: ExecutionStudy) -> None:
    """Compare the table with `simulate` and `client_metrics`, run by run."""
    assert study.complete
    assert study.runs.height == 12
    for row in study.runs.iter_rows(named=True):
        path = executions / f"{row['execution']}.tasks"
        found = client_metrics(tl.simulate(scenario_of_run(path, inject=row["set"])))
        expected = (found.instances, found.units, found.uptime, found.runtime, found.makespan)
        names = ("instances", "units", "uptime_s", "runtime_s", "makespan_s")
        assert tuple(row[name] for name in names) == expected


@pytest.mark.parametrize("on", ["serial", "threads"])
def test_results_do_not_depend_on_the_workers(
    executions: Path, study: ExecutionStudy, on: str
) -> None:
    again = explore_executions({"run": [str(executions)], "inject": INJECT}, on=on)
    assert values(again).equals(values(study))


@pytest.mark.real
def test_results_on_processes_are_the_same(executions: Path, study: ExecutionStudy) -> None:
    factors = {"run": [str(executions)], "inject": INJECT}
    again = explore_executions(factors, on="processes", workers=2)
    assert values(again).equals(values(study))


def test_labels_and_cells_follow_from_the_names(study: ExecutionStudy) -> None:
    assert study.cells == ("platform", "application")
    assert set(study.runs["application"]) == {"omssa", "montage"}
    assert study.runs["platform"].unique().sort().to_list() == ["east", "north"]


def test_modes_stand_beside_all_figures(tmp_path: Path, executions: Path) -> None:
    file = write_measured(tmp_path / "real.csv", [[NAME, 900, 500]])
    found = explore_executions({"run": str(executions), "inject": INJECT, "measured": file})
    for name in ("runs", "statistics", "frequencies", "histogram", "differences"):
        table: pl.DataFrame = getattr(found, name)
        by_set = dict(table.select("set", "mode").rows())
        assert (
            by_set.items() <= {**dict.fromkeys(INJECT, "replay"), "predictions": "predict"}.items()
        )
    text = str(found)
    assert "best (replay: boot_times, wall_times" in text
    assert "predictions (predict: nothing is injected)" in text


def test_an_execution_simulated_by_twinloop_is_simulated_again_exactly(
    tmp_path: Path, executions: Path
) -> None:
    """A trace with instances needs no table of measured results; its own replay has no error."""
    for file in sorted(executions.glob("*.tasks")):
        run = tl.simulate(scenario_of_run(file, inject="no-threads"))
        labelled = run.replace(
            manifest=run.manifest.model_copy(
                update={"facts": {**run.manifest.facts, "labels": {"platform": "made"}}}
            )
        )
        labelled.save(tmp_path / "traces" / file.stem)
    found = explore_executions({"run": str(tmp_path / "traces"), "inject": "no-threads"})
    assert found.metrics == ("uptime", "makespan", "usage", "schederror")
    assert found.execution_errors["error"].max() == pytest.approx(0.0, abs=1e-12)
    assert set(found.runs["platform"]) == {"made"}


def test_a_base_scenario_and_further_factors(tmp_path: Path, executions: Path) -> None:
    base = scenario_of_run(executions / f"{NAME}.tasks")
    base.save(tmp_path / "base.yaml")
    (tmp_path / "lab.yaml").write_text(
        textwrap.dedent(f"""
        scenario: base.yaml
        run: {executions}
        inject: [[wall_times], []]
        policy.name: [asap, afap]
        """)
    )
    found = explore_executions(tmp_path / "lab.yaml")
    assert found.failed == 0
    assert [each.name for each in found.sets] == [
        "wall_times, policy.name asap",
        "wall_times, policy.name afap",
        "nothing, policy.name asap",
        "nothing, policy.name afap",
    ]
    path = executions / f"{NAME}.tasks"
    for name in ("asap", "afap"):
        changed = base.replace(
            **{"policy.name": name, "workload.path": str(path), "workload.inject": ["wall_times"]}
        )
        row = found.runs.filter(execution=NAME, set=f"wall_times, policy.name {name}")
        assert row["makespan_s"].item() == client_metrics(tl.simulate(changed)).makespan


def test_a_factor_of_some_sets(executions: Path) -> None:
    name = "policy.options.margin"
    when = {"levels": [10, 50], "when": {"inject": "predictions"}}
    factors = {"run": str(executions), "inject": ["best", "predictions"], name: when}
    found = explore_executions({"factors": factors})
    assert found.runs.filter(execution=NAME).select("set", name).rows() == [
        ("best", None),
        ("predictions, policy.options.margin 10", "10"),
        ("predictions, policy.options.margin 50", "50"),
    ]


# --- folders and resume ----------------------------------------------------------------------


def test_a_study_is_stored_read_and_continued(tmp_path: Path, executions: Path) -> None:
    folder = tmp_path / "study"
    seen: list[int] = []
    first = explore_executions(
        {"run": str(executions), "inject": ["best"]},
        folder=folder,
        progress=lambda state: seen.append(state.done),
    )
    assert seen == [1, 2, 3, 4]
    loaded = ExecutionStudy.load(folder)
    assert loaded.runs.equals(first.runs)
    assert repr(loaded) == "<ExecutionStudy: 4 executions with 1 set, 4 of 4 runs done>"
    assert pl.read_csv(folder / "runs.csv").height == 4
    seen.clear()
    more = explore_executions(
        {"run": str(executions), "inject": ["best", "predictions"]},
        folder=folder,
        progress=lambda state: seen.append(state.done),
    )
    assert seen == [5, 6, 7, 8]  # the four runs of `best` were kept
    assert values(more).filter(set="best").drop("run").equals(values(first).drop("run"))


def test_a_changed_execution_is_simulated_again(tmp_path: Path) -> None:
    runs = write_executions(tmp_path / "runs", 2)
    factors = {"run": str(runs), "inject": "best"}
    explore_executions(factors, folder=tmp_path / "study")
    changed = runs / f"{NAME}.tasks"
    changed.write_text("[tasks]\na 5 70 ~ 60 50\n")
    assert "changed since the simulation" in str(ExecutionStudy.load(tmp_path / "study"))
    seen: list[int] = []
    explore_executions(
        factors, folder=tmp_path / "study", progress=lambda state: seen.append(state.done)
    )
    assert len(seen) == 1


PROGRAM = textwrap.dedent("""
    import sys
    from twinloop.exploration import explore_executions
    explore_executions(sys.argv[1], folder=sys.argv[2], on="processes")
""")


@pytest.mark.real
def test_a_killed_study_resumes(tmp_path: Path) -> None:
    runs = write_executions(tmp_path / "runs", 16, 60)
    lab, folder = tmp_path / "lab.yaml", tmp_path / "study"
    lab.write_text(f"run: {runs}\ninject: [best, predictions]\n")
    whole = explore_executions(lab)
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(lab), str(folder)])
    journal = folder / "journal.jsonl"
    try:
        for _ in range(6000):
            if journal.is_file() and journal.read_bytes().count(b"\n") > 5:
                break
            assert child.poll() is None
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait(60)
    stored = ExecutionStudy.load(folder).done
    # The rows that were in the journal are kept.
    assert stored >= 4
    seen: list[int] = []
    ended = explore_executions(lab, folder=folder, progress=lambda state: seen.append(state.done))
    assert seen == list(range(stored + 1, 33))
    assert values(ended).equals(values(whole))


# --- measured results ------------------------------------------------------------------------


def test_measured_results_of_a_table(tmp_path: Path, executions: Path) -> None:
    file = tmp_path / "real.tsv"
    file.write_text(
        "\ufeffexecution\tuptime_s\truntime\tmakespan\tcolour\n\n"
        f"{NAME}.tasks\t1000\t250\tNA\tred\nother\t1\t1\t1\tblue\n"
    )
    found = explore_executions({"run": str(executions), "inject": "best", "measured": str(file)})
    row = found.runs.filter(execution=NAME).row(0, named=True)
    assert row["uptime_error"] == abs(row["uptime_s"] - 1000) / 1000
    assert row["measured_usage"] == 0.25  # runtime / uptime
    assert row["makespan_error"] is None
    assert len(found.unmeasured) == 3
    assert found.notes[:2] == (
        "real.tsv: 1 row of no execution of the study (other)",
        "real.tsv: ignored columns: colour",
    )
    assert found.notes[2] == (
        "3 executions of 4 without measured results: simulated, but without errors"
    )


def test_measured_values_that_are_not_positive_are_excluded_and_named(
    tmp_path: Path, executions: Path
) -> None:
    file = write_measured(tmp_path / "real.csv", [[NAME, -26175, 95]])
    found = explore_executions({"run": str(executions), "inject": "best", "measured": file})
    row = found.runs.filter(execution=NAME).row(0, named=True)
    assert (row["measured_uptime_s"], row["uptime_error"]) == (None, None)
    assert row["makespan_error"] is not None
    assert found.notes[0] == (
        "real.csv: excluded 1 measured value that is not positive: "
        f"uptime of {NAME} (-26175, line 2)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column 'execution'"),
        ("uptime,makespan\n1,2\n", "real.csv:1: has no column 'execution'"),
        ("xp_id,cores\na,2\n", "real.csv:1: has no column of measured values"),
        ("xp_id,uptime,uptime_s\na,2,2\n", "has more than one column uptime_s or uptime"),
        (f"xp_id,uptime\n{NAME},many\n", r"real.csv:2: uptime: must be a number, not 'many'"),
        (
            f"xp_id,uptime\n{NAME},inf\n",
            r"real.csv:2: uptime: must be a number, not 'inf' \(leave the cell empty, or write nan",
        ),
        (f"xp_id,uptime\n{NAME},1,2\n", "real.csv:2: has 3 cells, not 2"),
        (f"xp_id,uptime\n{NAME},1\n{NAME},2\n", "real.csv:3: .* is also in line 2"),
        ("xp_id,uptime\nother,1\n", "has no row of an execution of the study"),
    ],
)
def test_invalid_tables_of_measured_results(
    tmp_path: Path, executions: Path, text: str, message: str
) -> None:
    file = tmp_path / "real.csv"
    file.write_text(text)
    with pytest.raises(tl.InputError, match=message):
        explore_executions(
            {"run": str(executions), "inject": "best", "measured": str(file)},
            folder=tmp_path / "study",
        )
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize("unknown", ["", "NaN", "nan", "NAN", "na", "NULL"])
def test_values_that_are_not_known(tmp_path: Path, executions: Path, unknown: str) -> None:
    file = write_measured(tmp_path / "real.csv", [[NAME, unknown, 95]])
    found = explore_executions({"run": str(executions), "inject": "best", "measured": file})
    row = found.runs.filter(execution=NAME).row(0, named=True)
    assert (row["measured_uptime_s"], row["measured_makespan_s"]) == (None, 95)


# --- failures and errors ---------------------------------------------------------------------


def test_an_execution_that_cannot_be_simulated_does_not_stop_the_others(tmp_path: Path) -> None:
    runs = write_executions(tmp_path / "runs", 2)
    (runs / "v1.standard.brs.best.regular.east.v1.7.tasks").write_text("a 5 70 ~ 60 50\n")
    (runs / "unnamed.tasks").write_text("a 5 70 ~ 60 50\n")
    (runs / "v1.standard.brs.asap.regular.east.v1.8.tasks").write_text("[tasks]\nno task\n")
    found = explore_executions({"run": str(runs), "inject": "predictions"})
    assert (found.done, found.failed) == (5, 3)
    errors = dict(found.runs.drop_nulls("error").select("execution", "error").rows())
    assert "its strategy 'best' is none of" in errors["v1.standard.brs.best.regular.east.v1.7"]
    assert "the settings of its broker are unknown" in errors["unnamed"]
    assert "has no task that can be read" in errors["v1.standard.brs.asap.regular.east.v1.8"]
    assert "3 of them failed" in str(found)


def test_a_simulation_without_all_tasks_has_failed() -> None:
    """Its errors would be those of a shorter run."""
    real = tl.Trace(tasks=pl.DataFrame({"id": ["a", "b", "c"], "submit": [0.0] * 3}))
    placed = pl.DataFrame({"task": ["a"], "machine": ["m"], "start": [0.0], "end": [5.0]})
    with pytest.raises(tl.InputError, match=r"2 of 3 tasks did not run in the simulation.*'b'"):
        observe(tl.Trace(placements=placed), real, {}, ())


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        ({"run": "none"}, "has no factor `inject`"),
        ({"run": [3], "inject": "best"}, "must be the path of a file or folder, or a pattern"),
        ({"run": "runs", "inject": "bst"}, "unknown set 'bst' .*did you mean 'best'"),
        ({"factors": {"run": {"range": [0, 1]}, "inject": "best"}}, "run: must be a list"),
        (
            {"factors": {"run": "runs", "inject": "best"}, "cells": ["strtegy"]},
            "the label 'strtegy'",
        ),
        ({"run": "runs", "inject": [["wall_time"]]}, "unknown key 'wall_time'"),
        ({"run": "runs", "inject": [7]}, "must be the name of a preset, or a list of keys"),
        ({"run": "none", "inject": "best"}, "none: .*does not exist"),
        ({"run": "runs/*.log", "inject": "best"}, "does not exist"),
        ({"run": "empty", "inject": "best"}, "contains no execution"),
        ({"run": "runs", "inject": "best", "measured": "no.csv"}, "no.csv: does not exist"),
        ({"run": "runs", "inject": "best", "policy": ["no-such"]}, "no run can be simulated"),
        ({"run": [], "inject": "best"}, "run: names nothing"),
        ({"run": 5, "inject": "best"}, "run: must be a list"),
        ({"run": "runs", "fit": []}, "fit: names nothing .*boots"),
        (
            {"run": "runs", "inject": {"levels": ["best"], "log": True}},
            "inject.log: does not apply",
        ),
        (
            {"run": {"levels": ["runs"], "field": "x"}, "inject": "best"},
            "run.field: does not apply",
        ),
        (
            {"run": "runs", "inject": "best", "policy": {"levels": ["afap"], "when": {"no": [1]}}},
            "policy.when.no: is not a factor defined above",
        ),
        (
            {"run": "runs", "inject": "predictions", "workload.inject": ["best"]},
            r'"workload.inject".: has no effect: each execution is the workload',
        ),
        (
            {"run": "runs", "inject": "best", "cross_validation": {"runs": 5}},
            "cross_validation: has no effect without the factor `fit`",
        ),
    ],
)
def test_invalid_designs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factors: dict[str, Any], message: str
) -> None:
    write_executions(tmp_path / "runs", 1)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tl.InputError, match=message):
        explore_executions(factors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: [runs]\nfit: []\n", "lab.yaml:2: fit: names nothing"),
        ("run: [runs]\ninject: [best]\nmeasured: no.csv\n", "lab.yaml:3: measured: 'no.csv' does"),
        ("scenario: no.yaml\nrun: [runs]\ninject: [best]\n", "lab.yaml:1: scenario: 'no.yaml' do"),
        ("factors:\n  run: [runs]\n  inject: [best, bst]\n", r"lab.yaml:3: factors.inject\[1\]"),
        ("run: [runs]\ninject: [best, bst]\n", r"lab.yaml:2: inject\[1\]: unknown set 'bst'"),
    ],
)
def test_errors_name_the_line_of_the_design(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    write_executions(tmp_path / "runs", 1)
    monkeypatch.chdir(tmp_path)
    Path("lab.yaml").write_text(text)
    with pytest.raises(tl.InputError, match=message):
        explore_executions("lab.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: [runs]\ninject: best\ncells:\n- strtegy\n", "4: cells[0]: no execution has the la"),
        ("inject: best\nrun:\n- runs\n- none\n", "4: run[1]: '{folder}/none' does not exist"),
        (
            "factors:\n  inject: best\n  run: runs/*.log\n",
            "3: factors.run[0]: '{folder}/runs/*.log' does not exist",
        ),
        ("run: empty\ninject: best\n", "1: run[0]: '{folder}/empty' contains no execution"),
        (
            "run: runs\ninject: best\npolicy.options.publishd: [true]\n",
            '3: ["policy.options.publishd"]: no run can be simulated: policy.options.publishd: ',
        ),
        ("run: runs\ninject: best\npolicy: [no-such]\n", "3: policy: no run can be simulated: po"),
    ],
)
def test_errors_that_are_found_later_name_the_file_of_the_design(
    tmp_path: Path, text: str, message: str
) -> None:
    write_executions(tmp_path / "runs", 1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "lab.yaml").write_text(text)
    with pytest.raises(tl.InputError) as caught:
        explore_executions(tmp_path / "lab.yaml")
    expected = f"{tmp_path / 'lab.yaml'}:{message.format(folder=tmp_path)}"
    assert str(caught.value).startswith(expected)


def test_paths_are_relative_to_the_file_of_the_design(tmp_path: Path) -> None:
    write_executions(tmp_path / "data" / "runs", 2)
    lab = tmp_path / "data" / "lab.yaml"
    lab.write_text("run: [runs/*.tasks]\ninject: best\n")
    assert explore_executions(lab).planned == 2


def test_folders_with_something_else(tmp_path: Path, executions: Path) -> None:
    factors = {"run": str(executions), "inject": "best"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(tl.InputError, match="is not a study"):
        explore_executions(factors, folder=tmp_path / "mine")
    with pytest.raises(tl.InputError, match="contains no study"):
        ExecutionStudy.load(tmp_path / "mine")
    base = tl.Scenario(
        platform="1x1", policy="fifo", workload={"tasks": [{"id": "a", "run_time": 5}]}
    )
    tl.explore(base, {"policy": ["fifo"]}, folder=tmp_path / "other")
    with pytest.raises(tl.InputError):
        explore_executions(factors, folder=tmp_path / "other")
    assert tl.Study.load(tmp_path / "other").done == 1


# --- real executions -------------------------------------------------------------------------


@pytest.mark.realdata
def test_real_executions_with_their_measured_results(real_data: Path, tmp_path: Path) -> None:
    """A small execution of each cell: those that the rules of the broker leave no choice."""
    with tarfile.open(real_data / "schlouder" / "executions.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    measured = real_data / "schlouder" / "real_metrics_all_cells.tsv"
    patterns = [str(tmp_path / "**" / f"v3.standard.{case}.*.tasks") for case in ("hrt", "1x1")]
    found = explore_executions(
        {"run": patterns, "inject": ["best", "predictions"], "measured": str(measured)}
    )
    assert found.failed == 0
    best = found.runs.filter(set="best").drop_nulls("makespan_error")
    assert best.height > 10
    # The instances and the wall times of the measured results are those of the executions.
    assert (best["boots"] == best["measured_instances"]).all()
    assert ((best["runtime_s"] / best["measured_runtime_s"] - 1).abs() < 0.08).all()
    exact = best.filter(platform="icps", application="omssa")
    assert exact["makespan_error"].median() == pytest.approx(0.0, abs=1e-3)
