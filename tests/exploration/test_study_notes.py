"""Notes of studies on the data cleaning of their workload."""

from dataclasses import replace
from pathlib import Path

import pytest

import twinloop as tl
from tests.cli.test_commands import answer, run

ROWS = "id,submit,requested_time,requested_cores\na,0,10min,1\nb,0,300,1\nc,0,-5,1\n"
NOTES = [
    "skipped: lines whose requested_time is not a time in range: 1 in each run",
    "skipped: tasks that cannot be run: no run time: 1 in each run",
]


@pytest.fixture
def study(tmp_path: Path) -> tl.Study:
    (tmp_path / "tasks.csv").write_text(ROWS)
    workload = {"path": str(tmp_path / "tasks.csv"), "inject": "predictions"}
    scenario = tl.Scenario(platform="2x4", policy="fifo", workload=workload)
    return tl.explore(scenario, {"policy": ["fifo", "easy"]}, folder=tmp_path / "study")


def test_dropped_rows_are_notes_in_text_json_and_on_the_page(
    study: tl.Study, tmp_path: Path
) -> None:
    assert study.runs["tasks"].to_list() == [1.0, 1.0]
    assert list(study.notes) == NOTES
    assert list(tl.Study.load(tmp_path / "study").notes) == NOTES
    assert all(f"note: {note}" in run("explore", tmp_path / "study").stdout for note in NOTES)
    assert answer("explore", tmp_path / "study")["notes"] == NOTES
    page = tl.report.write_study_page(study, tmp_path / "page.html").read_text()
    assert all(note in page for note in NOTES)


def test_counts_that_differ_between_runs_are_a_range(study: tl.Study) -> None:
    first, second = (run.key for run in study.planned_runs)
    row = {**study.results[first], "cleaned": {"skipped: lines": 4}}
    stored = {first: row, second: {**row, "cleaned": {"skipped: lines": 2, "removed: tasks": 1}}}
    assert replace(study, results=stored).notes == (
        "skipped: lines: 2 to 4 in each run",
        "removed: tasks: 1 in 1 of 2 runs",
    )
