"""The command that compares levels of detail: table, JSON, page, errors and exit status."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.calibration.detail_runs import list_runs
from tests.cli.json_page import PAGE
from twinloop.calibration import DetailStudy
from twinloop.cli import app

LEVELS = """model.decision_interval: [0, 7s]
policy: [sjf]
"""
PARAMETERS = "parameters:\n  speed_factor: {linear: [0.5, 2]}\n"


def call(*words: object) -> Result:
    return CliRunner().invoke(app, ["calibrate", *map(str, words)])


def list_documented_keys() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").split("\nWith `--levels`", 1)[1]
    section = section.partition("\nWith `--client`")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """The words of the command line for the runs."""
    folder = tmp_path_factory.mktemp("runs")
    training, held_out = list_runs()
    words: list[object] = [
        run.save(folder / f"real-{number}") for number, run in enumerate(training)
    ]
    for number, run in enumerate(held_out):
        words += ["--validate", run.save(folder / f"held-{number}")]
    return words


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    written = {"levels": tmp_path / "levels.yaml", "params": tmp_path / "params.yaml"}
    written["levels"].write_text(LEVELS)
    written["params"].write_text(PARAMETERS)
    return written


def test_a_study_is_written_printed_and_read_again(
    runs: list[object], files: dict[str, Path], tmp_path: Path
) -> None:
    output = tmp_path / "detail"
    words: list[Any] = [*runs, "--levels", files["levels"], "--params", files["params"]]
    words += ["--loss", "matched", "--budget", "16", "--seeds", "2", "--analysis", "0"]
    words += ["-o", output]
    done = call(*words)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("predict: nothing taken from the real runs\n2 versions, each")
    assert "noise floor (ideal simulator): " in done.stdout
    assert "decision_interval: 7s is better than 0 by" in done.stdout
    assert (output / "report.html").is_file()
    study = DetailStudy.load(output)
    assert study.settings["seeds"] == [0, 1]
    # The same command does nothing again, and prints the same as JSON.
    journal = (output / "journal.jsonl").read_bytes()
    found = json.loads(call(*words, "--json").stdout)
    assert (output / "journal.jsonl").read_bytes() == journal
    assert set(found) == list_documented_keys()
    assert found["recommended"] == "decision_interval=7s, sjf"
    assert found["compared_on"] == "validation"
    stored = json.loads((output / "detail.json").read_text())
    assert stored["results"]["verdict"] == found["verdict"]
    (output / "report.html").unlink()
    assert CliRunner().invoke(app, ["report", str(output)]).exit_code == 0
    assert (output / "report.html").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "60s"], "budget: must be a number of evaluations"),
        (["--choose"], "--choose applies to a fit of one model"),
        (["--seeds", "0"], "--seeds: must be at least 1"),
        (["--hold-out", "run"], "--hold-out and --validate exclude each other"),
    ],
)
def test_options_that_do_not_apply_are_errors(
    words: list[str], message: str, runs: list[object], files: dict[str, Path], tmp_path: Path
) -> None:
    done = call(*runs, "--levels", files["levels"], *words, "-o", tmp_path / "detail")
    assert done.exit_code == 2
    assert message in done.output
    assert not (tmp_path / "detail").exists()


def test_options_of_studies_need_levels(runs: list[object], tmp_path: Path) -> None:
    done = call(*runs, "--warm-start", "-o", tmp_path / "fit")
    assert done.exit_code == 2
    assert "--warm-start applies to --levels" in done.output


def test_an_error_in_the_levels_has_file_and_line(
    runs: list[object], files: dict[str, Path], tmp_path: Path
) -> None:
    files["levels"].write_text("policy: [sjf]\nmodel.detal: [a]\n")
    done = call(*runs, "--levels", files["levels"], "-o", tmp_path / "detail")
    assert done.exit_code == 2
    assert "levels.yaml:2: model.detal: the version 'sjf, a' is no valid scenario" in done.output
