"""`twinloop diff` as a user meets it."""

import json
from pathlib import Path

import polars as pl
import pytest
import typer
from typer.testing import CliRunner, Result

import twinloop as tl
from twinloop.cli.diff import diff

SWF = """\
; UnixStartTime: 1000
; MaxProcs: 8
1 0 5 10 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1
2 20 30 30 2 -1 -1 2 60 -1 1 8 1 -1 1 -1 -1 -1
"""

app = typer.Typer()
app.command()(diff)


def run(*words: object, ends_with: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == ends_with, result.output
    return result


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    """A log, and a folder with the same tasks, of which the second starts 20 s earlier."""
    log = tmp_path / "log.swf"
    log.write_text(SWF)
    trace = tl.read(log)
    sooner = pl.col("task") == "2"
    moved = trace.placements.with_columns(
        pl.when(sooner).then(pl.col(name) - 20).otherwise(name).alias(name)
        for name in ("start", "end")
    )
    return log, trace.replace(placements=moved).save(tmp_path / "other")


def test_diff_says_how_a_log_and_a_folder_differ(logs: tuple[Path, Path]) -> None:
    text = run(*logs).stdout
    assert "2 tasks are in both; first starts in B: 1 earlier, 0 later, 1 at the same time" in text
    assert "task 2 of user 8: 20 s earlier, at 50 s in A and at 30 s in B" in text
    assert "the mean wait is shorter in B: 17.5 s in A, 7.5 s in B (-57.1 %)" in text
    line = next(line for line in text.splitlines() if line.startswith("makespan_s"))
    assert line.split() == ["makespan_s", "80", "s", "60", "s", "-20", "s", "-25", "%"]


def test_diff_gives_one_json_object(logs: tuple[Path, Path]) -> None:
    document = json.loads(run(*logs, "--json").stdout)
    assert set(document) == {
        "a", "b", "figures", "without_scenario", "scenario", "tasks", "users", "notes",
    }  # fmt: skip
    assert document["a"] == str(logs[0])
    assert document["tasks"]["earlier"] == 1
    assert document["users"]["gains"][0]["user"] == "8"
    by_name = {row["figure"]: row for row in document["figures"]}
    assert by_name["wait_mean_s"]["change"] == -10.0


def test_runs_that_differ_are_no_failure_and_runs_that_are_not_there_are(
    logs: tuple[Path, Path], tmp_path: Path
) -> None:
    assert "all figures are the same" in run(logs[0], logs[0]).stdout
    document = json.loads(run(logs[0], tmp_path / "none", "--json", ends_with=2).stdout)
    assert "none" in document["error"]["message"]
