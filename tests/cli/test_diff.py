"""The command `twinloop diff`: the differences between two runs."""

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
    """A log, and a folder with the same tasks, the second of which starts 20 s earlier."""
    log = tmp_path / "log.swf"
    log.write_text(SWF)
    trace = tl.read(log)
    sooner = pl.col("task") == "2"
    moved = trace.placements.with_columns(
        pl.when(sooner).then(pl.col(name) - 20).otherwise(name).alias(name)
        for name in ("start", "end")
    )
    return log, trace.replace(placements=moved).save(tmp_path / "other")


def test_the_differences_of_a_log_and_a_folder_are_printed(logs: tuple[Path, Path]) -> None:
    text = run(*logs).stdout
    assert "2 tasks are in both; first starts in B: 1 earlier, 0 later, 1 at the same time" in text
    assert "task 2 of user 8: 20 s earlier, at 50 s in A and at 30 s in B" in text
    assert "the mean wait is shorter in B: 17.5 s in A, 7.5 s in B (-57.1 %)" in text
    line = next(line for line in text.splitlines() if line.startswith("makespan_s"))
    assert line.split() == ["makespan_s", "80", "s", "60", "s", "-20", "s", "-25", "%"]


def test_json_output_is_one_object(logs: tuple[Path, Path]) -> None:
    document = json.loads(run(*logs, "--json").stdout)
    assert set(document) == {
        "a", "b", "figures", "without_scenario", "scenario", "tasks", "users", "notes",
    }  # fmt: skip
    assert document["a"] == str(logs[0])
    assert document["tasks"]["earlier"] == 1
    assert document["users"]["gains"][0]["user"] == "8"
    by_name = {row["figure"]: row for row in document["figures"]}
    assert by_name["wait_mean_s"]["change"] == -10.0


def test_different_runs_are_no_failure_and_missing_runs_are(
    logs: tuple[Path, Path], tmp_path: Path
) -> None:
    assert "all figures are the same" in run(logs[0], logs[0]).stdout
    document = json.loads(run(logs[0], tmp_path / "none", "--json", ends_with=2).stdout)
    assert "none" in document["error"]["message"]


def test_equal_runs_have_no_table(logs: tuple[Path, Path]) -> None:
    text = run(logs[0], logs[0]).stdout
    assert "all figures are the same" in text
    assert "change" not in text


def test_a_log_without_starts_is_reported(logs: tuple[Path, Path], tmp_path: Path) -> None:
    bare = tmp_path / "bare.swf"
    # Neither wait nor run time is known.
    bare.write_text("; MaxProcs: 8\n1 0 -1 -1 4 -1 -1 4 60 -1 1 7 1 -1 1 -1 -1 -1\n")
    printed = run(bare, logs[1]).stdout
    assert "1 task is in both; no task of A has a start" in printed
    assert "0 earlier" not in printed
    assert "source bare.swf: only in A" in printed
    assert "source log.swf: only in B" in printed
    assert "1 task is in both; no task of B has a start" in run(logs[1], bare).stdout
    assert "no task of A has a start and no task of B has a start" in run(bare, bare).stdout


def test_files_are_shown_by_name_and_not_by_hash(logs: tuple[Path, Path], tmp_path: Path) -> None:
    other = tmp_path / "other" / "log.swf"
    other.write_text(SWF.replace("8 1 -1 1", "9 1 -1 1"))
    assert "source log.swf: other content in B" in run(logs[0], other).stdout
    made = tl.generate("poisson", tasks=2, seed=1).save(tmp_path / "made")
    text = run(logs[0], made).stdout
    assert "source: log.swf in A, no file in B" in text
    assert "{" not in text


def test_large_changes_are_factors_and_energies_have_one_unit(
    logs: tuple[Path, Path], tmp_path: Path
) -> None:
    trace = tl.read(logs[0])
    runs = []
    # Two completed tasks: 3.2e5 J each at first, below a tenth of a kWh, and then 27 times that.
    for name, watts in (("low", 6400.0), ("high", 27 * 6400.0)):
        power = pl.DataFrame({"t": [100.0], "dt": [100.0], "watts": [watts]})
        runs.append(trace.replace(power=power).save(tmp_path / name))
    text = run(*runs).stdout
    line = next(line for line in text.splitlines() if line.startswith("energy_per_task_j"))
    cells = line.split()[1:]
    assert cells == ["0.0889", "kWh", "2.4", "kWh", "2.31", "kWh", "27", "times"]
    assert "the energy is higher in B: 0.178 kWh in A, 4.8 kWh in B (27 times)" in text
