"""The command `twinloop assess`: exit status, output and reports."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner, Result

from tests.fidelity.runs import run as traced
from twinloop.cli.assess import assess
from twinloop.fidelity import Criteria
from twinloop.trace import Trace

app = typer.Typer()
app.command()(assess)


def run(*words: object, ends_with: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == ends_with, result.output
    return result


def queue(length: float, tasks: int = 50) -> Trace:
    return traced(np.arange(tasks) * length, length, facts={"mode": "predict", "injected": []})


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Folders of runs: a real run, a good and a bad twin, a repetition, a run with one task."""
    made = {
        "real": queue(10),
        "good": queue(10.01),
        "bad": queue(11),
        "again": queue(10.02),
        "little": queue(10, tasks=1),
    }
    return {name: trace.save(tmp_path / name) for name, trace in made.items()}


def test_the_exit_status_is_the_verdict(folders: dict[str, Path]) -> None:
    passed = run(folders["real"], folders["good"]).stdout
    assert passed.splitlines()[0] == "predict: nothing taken from the real run"
    assert passed.splitlines()[1].startswith("PASS:")
    failed = run(folders["real"], folders["bad"], ends_with=1).stdout
    assert failed.splitlines()[1].startswith("FAIL:")
    run(folders["little"], folders["little"], ends_with=3)
    run(folders["real"], folders["real"] / "none", ends_with=2)


def test_json_output_is_one_object(folders: dict[str, Path]) -> None:
    document = json.loads(run(folders["real"], folders["bad"], "--json", ends_with=1).stdout)
    assert document["status"] == "FAIL"
    assert document["mode"] == "predict"
    by_name = {found["name"]: found for found in document["findings"]}
    assert by_name["p50"]["status"] == "FAIL"
    assert by_name["p50"]["figure"] == pytest.approx(0.1)
    assert by_name["mean segment r"]["figure"] is None
    assert document["errors"]["matched"] == 50
    assert set(document["metrics"]) == {"wait times", "completions", "cpu usage", "power"}
    bad = json.loads(run(folders["real"], "none", "--json", ends_with=2).stdout)
    assert "none" in bad["error"]["message"]


def test_repeats_and_criteria(folders: dict[str, Path], tmp_path: Path) -> None:
    loose = tmp_path / "loose.yaml"
    loose.write_text("waits: {p50: 0.2, p95: 0.2}\nmakespan: {absolute: 1min}\n")
    words = (folders["real"], folders["bad"], "--repeat", folders["again"], "--criteria", loose)
    text = run(*words).stdout
    assert "criteria: of loose.yaml" in text
    assert "floor" in text
    document = json.loads(run(*words, "--json").stdout)
    assert document["repeats"] == 1
    assert document["repeated"] == [str(folders["again"])]
    by_name = {found["name"]: found for found in document["findings"]}
    assert by_name["makespan"]["floor"] == pytest.approx(1.0)
    loose.write_text("waits: {p5: 1}")
    assert "waits.p5" in run(*words, ends_with=2).output


def test_the_printed_criteria_are_the_defaults() -> None:
    assert Criteria.from_text(run("--print-criteria").stdout) == Criteria()


def test_reports_are_written_and_not_overwritten(folders: dict[str, Path], tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    words = (folders["real"], folders["bad"], "-o", report)
    run(*words, ends_with=1)
    text = report.read_text()
    assert text.splitlines()[0] == "predict: nothing taken from the real run"
    assert "| p50 | 10 % | <= 5 % | FAIL |" in text
    assert "exists already" in run(*words, ends_with=2).output
    run(*words, "--overwrite", ends_with=1)
    assert (
        "is not a supported report format"
        in run(*words[:2], "-o", tmp_path / "report.pdf", ends_with=2).output
    )


def test_a_page_is_written(folders: dict[str, Path], tmp_path: Path) -> None:
    run(folders["real"], folders["good"], "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    words = re.sub(r"<[^>]*>", "", page)
    assert "predict: nothing taken from the real run" in words
