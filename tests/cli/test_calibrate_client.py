"""`twinloop calibrate --client`: files, summary, JSON, and errors."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

import twinloop as tl
from tests.cli.json_page import PAGE
from tests.cli.test_commands import answer, run
from tests.exploration.sample_executions import write_executions
from twinloop.calibration import ClientModels, fit_client_models
from twinloop.trace import read

CLOUD = """
platform:
  clusters: [{hosts: [{count: 4, cores: 1}]}]
  clouds: [{name: east, types: [{name: small, cores: 1}], images: [{name: a}, {name: b}]}]
workload: {path: %s, inject: predictions}
policy: {name: asap, options: {boot: {base: 48}}}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_executions(tmp_path / "runs", 4)
    (tmp_path / "more").mkdir()
    execution = min((tmp_path / "runs").glob("*.tasks"))
    read(execution).save(tmp_path / "more" / "saved")
    (tmp_path / "cloud.yaml").write_text(CLOUD % execution.relative_to(tmp_path))
    return tmp_path


def test_folders_patterns_files_and_traces_are_fitted_together(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    words = ("calibrate", "--client", "runs/*.asap.*.tasks", "more", "runs", "-o", "out/fit")
    done = run(*words)
    lines = done.stdout.splitlines()
    assert lines[0] == "fitted to 5 executions with 30 boots, and 30 tasks"
    assert [re.split("  +", line)[0] for line in lines[1:]] == [
        *("boot time", "spread", "slow boots", "shortage", "refused requests", "failed boots"),
        "errors of run times",
    ]
    assert done.stderr.endswith("wrote out/fit\n")
    assert sorted(path.name for path in Path("out/fit").iterdir()) == ["models.json", "models.yaml"]
    traces = [read(path) for path in [*Path("runs").glob("*.tasks"), Path("more/saved")]]
    assert ClientModels.load("out/fit") == fit_client_models(traces)

    before = {path.name: path.read_bytes() for path in Path("out/fit").iterdir()}
    refused = run(*words, ends_with=2)
    assert "out/fit: exists already (name a folder that does not exist)" in refused.stderr
    assert {path.name: path.read_bytes() for path in Path("out/fit").iterdir()} == before


def test_executions_that_are_left_out_are_named(files: Path) -> None:
    tasks = pl.DataFrame({"id": ["a"], "requested_time": [10.0], "run_time": [-1.0]})
    tl.Trace(tasks=tasks).save(files / "runs" / "cluster")
    words = ("calibrate", "--client", files / "runs", "-o", files / "fit", "--json")
    document = json.loads(run(*words).stdout)
    assert document["fitted_to"]["executions"] == 4
    assert document["notes"] == [
        f"left out, without boots and requests of instances: {files / 'runs' / 'cluster'}"
    ]


def test_a_fit_to_one_execution_has_a_note(files: Path) -> None:
    words = ("calibrate", "--client", files / "more", "-o", files / "fit")
    assert "intervals of simulations with these models are too narrow" in run(*words).stdout


def test_the_scenario_gets_the_models(files: Path) -> None:
    words = ("calibrate", "--client", files / "runs", "--scenario", files / "cloud.yaml", "-o")
    done = run(*words, files / "fit")
    models = ClientModels.load(files / "fit")
    scenario = tl.load(files / "fit" / "scenario.yaml")
    assert [each.boot for each in scenario.platform.clouds[0].images] == [models.boot] * 2
    assert scenario.workload.prediction_errors == models.prediction_errors
    assert "policy.options.boot is unchanged" in done.stdout
    assert tl.simulate(scenario).instances.height > 0
    (files / "replay.yaml").write_text(
        (files / "cloud.yaml").read_text().replace(", inject: pr", ", missing: synthetic} # ")
    )
    words = ("calibrate", "--client", files / "runs", "--scenario", files / "replay.yaml", "-o")
    assert "no errors of predictions" in run(*words, files / "other").stdout
    assert tl.load(files / "other" / "scenario.yaml").workload.prediction_errors is None


def test_delays_that_boots_contain_have_a_note(files: Path) -> None:
    text = (files / "cloud.yaml").read_text()
    words = ("calibrate", "--client", files / "runs", "--scenario", files / "slow.yaml", "-o")
    (files / "slow.yaml").write_text(text)
    assert "twice" not in run(*words, files / "first").stdout
    text = text.replace("name: b}]", "name: b, size: 1 GB}], decision_delay: 3s")
    text = text.replace("  clouds:", "  stores: [{name: disk, capacity: 1 TB}]\n  clouds:")
    (files / "slow.yaml").write_text(text)
    shown = run(*words, files / "second").stdout
    assert "platform.clouds[0].decision_delay, platform.clouds[0].images[1].size" in shown


def test_json_output_is_one_object_with_the_documented_keys(files: Path) -> None:
    words = ("calibrate", "--client", files / "runs", "-o", files / "fit", "--unit", "30min")
    document = json.loads(run(*words, "--json").stdout)
    section = PAGE.read_text(encoding="utf-8").split("\nWith `--client`:\n", 1)[1].split("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    assert set(document) == {key for row in rows for key in re.findall(r"`(\w+)`", row[1])}
    (fitted,) = (row[2] for row in rows if "`fitted_to`" in row[1])
    assert set(document["fitted_to"]) == set(re.findall(r"`(\w+)`", fitted))
    stored = json.loads((files / "fit" / "models.json").read_bytes())
    assert {key: document[key] for key in stored if key in document} == {
        key: value for key, value in stored.items() if key != "twinloop"
    }
    assert answer(*words, ends_with=2)["error"]["code"] == "TL0105"  # type: ignore[index]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("runs",), "an output folder is needed"),
        (("-o", "fit"), "at least one execution is needed"),
        (("nothing", "-o", "fit"), "nothing: does not exist"),
        (("empty", "-o", "fit"), "empty: contains no execution"),
        (("broken.tasks", "-o", "fit"), "broken.tasks"),
        (("runs", "-o", "broken.tasks"), "broken.tasks: is not a folder"),
        (("more/saved", "-o", "more/saved/fit"), "is inside the input"),
        (("runs", "-o", "fit", "--unit", "0"), "--unit: must be positive"),
        (("runs", "-o", "fit", "--unit", "soon"), "--unit must be a duration"),
        (("runs", "-o", "fit", "--budget", "2000"), "--budget applies to other calibrations"),
        (("runs", "-o", "fit", "--black-box", "b"), "--black-box applies to other calibrations"),
        (("runs", "-o", "fit", "--seed", "1"), "--seed applies to other calibrations"),
        (("runs", "-o", "fit", "--dry-run"), "--dry-run applies to other calibrations"),
        (("runs", "-o", "fit", "--scenario", "plain.yaml"), "plain.yaml: platform.clouds: has no"),
        (("negative.tasks", "-o", "fit"), "negative.tasks:2: boot 1 of 2: boot_time must be"),
        (("tasks-only.tasks", "-o", "fit"), "no execution recorded a boot"),
    ],
)
def test_errors(
    files: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(files)
    Path("empty").mkdir()
    Path("broken.tasks").write_text("[boots]\nsoon\n[tasks]\n")
    Path("negative.tasks").write_text("[boots]\n-50 1\n50 1\n[tasks]\na 5 70 ~ 60 50\n")
    Path("tasks-only.tasks").write_text("[tasks]\na 5 70 ~ 60 50\n")
    Path("plain.yaml").write_text("platform: 2x4\nworkload: log.swf\npolicy: easy\n")
    done = run("calibrate", "--client", *words, ends_with=2)
    assert message in done.stderr
    assert not done.stdout
    assert not Path("fit").exists()


def test_other_commands_say_what_the_folder_is(files: Path) -> None:
    words = ("calibrate", "--client", files / "runs", "-o")
    run(*words, files / "bare")
    run(*words, files / "fit", "--scenario", files / "cloud.yaml")
    remedies = {"bare": "with --scenario puts them into", "fit": "fit/scenario.yaml` runs the"}
    (files / "factors.yaml").write_text("policy: [asap, afap]\n")
    study = ("explore", files / "cloud.yaml", files / "factors.yaml", "-o", files / "study")
    for name, remedy in remedies.items():
        for command in (("report", files / name), (*study, "--fit", files / name)):
            shown = run(*command, ends_with=2).stderr
            assert f"{name}: has models of boots and run times" in shown
            assert remedy in shown


def test_the_help_lists_the_files_of_a_fit_of_clients() -> None:
    assert "models.yaml, models.json" in " ".join(run("calibrate", "--help").stdout.split())


def test_options_of_the_client_need_it(files: Path) -> None:
    done = run("calibrate", files / "runs", "-o", files / "fit", "--unit", "1h", ends_with=2)
    assert "--unit applies to --client" in done.stderr


def test_nothing_stays_if_a_file_cannot_be_written(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ClientModels, "save", fail)
    words = ("calibrate", "--client", files / "runs", "--scenario", files / "cloud.yaml")
    done = run(*words, "-o", files / "fit", ends_with=2)
    assert "No space left on device" in done.stderr
    assert not (files / "fit").exists()
