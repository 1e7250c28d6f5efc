"""Tasks with a requested time and no run time: hints of `check` and `simulate`."""

from pathlib import Path

import pytest

from tests.cli.test_commands import run

SETTING = "workload.inject=predictions"


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.csv"
    path.write_text("id,submit,requested_time,requested_cores\na,0,300,1\nb,0,300,1\n")
    return path


def test_check_names_the_setting_that_lets_tasks_run(tasks: Path) -> None:
    shown = run("check", tasks).stdout
    assert "it has no run time (with `workload: inject: predictions` tasks run as long as" in shown


def test_simulate_names_the_setting_that_lets_tasks_run(tasks: Path) -> None:
    words = ("simulate", "--workload", tasks, "--platform", "2x1", "--policy", "fifo")
    without = run(*words, ends_with=1)
    assert "2 of which cannot be run" in without.stdout
    assert f"--set {SETTING}" in " ".join(without.stderr.split())
    found = run(*words, "--set", SETTING)
    assert SETTING not in found.stderr
    assert "completed              2" in found.stdout
