"""The command `twinloop confirm`: real runs, bundles and errors."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from scipy import stats
from typer.testing import CliRunner, Result

import twinloop as tl
from twinloop.cli import confirm
from twinloop.exploration import Confirmation

#: The documented keys.
KEYS = {
    *("output", "twinloop", "by", "status", "seed", "repetitions", "metrics", "recommendations"),
    *("table", "ranks", "pairs", "notes", "diagnosis", "candidates", "baseline"),
}
SHARED = {"name": "spread-ic", "options": {"overcommit": 4}}


def run(*words: object, ends_with: int | None = 0) -> Result:
    app = typer.Typer()
    app.command("confirm")(confirm.confirm)
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert ends_with in (None, result.exit_code), result.output
    return result


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tasks that sleep: one at a time, or four together."""
    folder = tmp_path_factory.mktemp("studies") / "study"
    parameters = {"shape": "bag", "tasks": 4, "kinds": "sleep:1", "shortest": 0.2, "longest": 0.3}
    scenario = tl.Scenario(
        platform="1x1",
        policy="fifo",
        workload={"generate": {"name": "burn", "parameters": parameters}},
    )
    tl.explore(scenario, {"policy": ["fifo", SHARED]}, folder=folder)
    return folder


@pytest.mark.real
@pytest.mark.long
def test_the_best_configuration_of_a_study_is_executed_and_assessed(
    study: Path, tmp_path: Path
) -> None:
    words: tuple[Any, ...] = (study, "--top", 1, "--repetitions", 2, "-o", tmp_path / "real")
    done = run(*words, "--json", ends_with=None)
    document = json.loads(done.stdout)
    assert set(document) == KEYS
    (one,) = document["recommendations"]
    assert one["predicted"] < 0
    # The measured times depend on the load of the machine; the verdict follows from them.
    kept = Confirmation.load(tmp_path / "real")
    took = {
        name: kept.runs.filter(candidate=name).sort("repetition")[document["by"]].to_numpy()
        for name in (one["candidate"], one["against"])
    }
    paired = stats.ttest_rel(*took.values()).confidence_interval(0.9)
    ended = ("holds", 0) if paired.high < 0 else ("reversed", 1) if paired.low > 0 else ("tie", 3)
    assert (document["status"], done.exit_code) == ended
    assert one["real"] == pytest.approx(sum(paired) / 2)
    assert one["sentence"].endswith(document["status"])
    lines = done.stderr.splitlines()
    assert lines[0].startswith("will execute 4 runs: 2 configurations, 2 times each")
    assert "4 of 4 runs" in done.stderr
    # Every command of every configuration is in a file that the announcement names.
    file = tmp_path / "real" / "commands.txt"
    assert f"every command: {file}" in lines
    listed = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    printed = json.loads(run(study, "--top", 1, "--dry-run", "--json").stdout)
    assert listed == [f"{each['tasks']} x {each['command']}" for each in printed["commands"]]
    assert {each["of"] for each in printed["commands"]} == {one["candidate"], one["against"]}
    assert printed["programs"] == {"twinloop-burn": 8}
    assert (tmp_path / "real" / "report.html").is_file()
    assert kept.status == document["status"]
    # The same command again has no runs left, and prints the same result.
    assert one["sentence"] in run(*words, ends_with=done.exit_code).stdout


def test_a_bundle_is_written_and_its_returned_runs_are_read(study: Path, tmp_path: Path) -> None:
    there = tmp_path / "bundle"
    printed = json.loads(run(study, "--bundle", there, "--repetitions", 2, "--json").stdout)
    assert printed == {"bundle": str(there), "runs": 4}
    run(study, "--traces", there, ends_with=2)
    plan = json.loads((there / "plan.json").read_text())
    files = {each["name"]: each["file"] for each in plan["configurations"]}

    def return_runs(start_up: float) -> None:
        for one in plan["runs"]:
            scenario = tl.load(there / "scenarios" / f"{files[one['configuration']]}.yaml")
            slow = start_up if scenario.policy.name == "spread-ic" else 0.0
            hidden = {"model.startup_overhead": slow + one["order"] / 999}
            real = tl.simulate(scenario.replace(**hidden))
            real.save(there / "runs" / one["name"], overwrite=True)

    return_runs(0.0)
    assert "as predicted" in run(study, "--traces", there).stdout
    return_runs(10.0)  # on the other machine the order is reversed
    assert "reversed" in run(study, "--traces", there, "--no-diagnosis", ends_with=1).stdout
    for one in plan["runs"][2:]:
        shutil.rmtree(there / "runs" / one["name"])
    alone = run(study, "--traces", there, ends_with=3).stdout
    assert "one repetition has no interval" in alone
    assert "2 of 4 runs are missing" in alone


def test_invalid_arguments_are_reported(study: Path, tmp_path: Path) -> None:
    assert "-o confirmed" in run(study, ends_with=2).stderr
    both = run(study, "--bundle", tmp_path / "b", "--traces", tmp_path, ends_with=2)
    assert "exclude each other" in both.stderr
    assert "makespan_s" in run(study, "--by", "makespam_s", "-o", "x", ends_with=2).stderr
    assert run(tmp_path, "-o", tmp_path / "x", ends_with=2).stderr.startswith("error")
    budget = run(study, "--budget", "soon", "-o", tmp_path / "x", "--json", ends_with=2)
    assert "--budget" in json.loads(budget.stdout)["error"]["message"]
