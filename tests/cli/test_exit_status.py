"""Exit status and messages of commands if runs failed or nothing ran."""

from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from tests.cli.test_commands import answer, run
from twinloop import metrics
from twinloop.policy import Policy

TASKS = {"tasks": [{"id": f"t{i}", "run_time": 10, "cores": 1} for i in range(3)]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tl.Scenario(platform="2x4", policy="fifo", workload=TASKS).save("scenario.yaml")
    return tmp_path


def explore(levels: str, *words: object, ends_with: int) -> Any:
    Path("factors.yaml").write_text(f"factors: {levels}\n")
    return run("explore", "scenario.yaml", "factors.yaml", "-o", "s", *words, ends_with=ends_with)


# --- explore -------------------------------------------------------------------------------------


def test_failed_runs_are_reported_with_exit_status_1(folder: Path) -> None:
    (folder / "bad.csv").write_text("nothing of the kind\n")
    levels = "{load: {levels: {good: {policy: easy}, bad: {workload: bad.csv}}}}"
    found = explore(levels, ends_with=1)
    assert "1 of 2 runs failed" in found.stderr
    assert "bad.csv" in found.stderr
    assert "good" in found.stdout
    again = answer("explore", "scenario.yaml", "factors.yaml", "-o", "s", ends_with=1)
    assert again["failed"] == 1
    assert "bad.csv" in again["errors"][0]  # type: ignore[index]
    # Showing the study is no failure.
    assert answer("explore", "s")["failed"] == 1


def test_all_runs_failed(folder: Path) -> None:
    (folder / "bad.csv").write_text("nothing of the kind\n")
    levels = "{load: {levels: {a: {workload: bad.csv}, b: {workload: bad.csv, policy: easy}}}}"
    assert "2 of 2 runs failed" in explore(levels, ends_with=1).stderr
    again = answer("explore", "scenario.yaml", "factors.yaml", "-o", "s", ends_with=1)
    assert (again["failed"], again["top"]) == (2, [])


@pytest.mark.parametrize("levels", ["{policy: ['mine:Mine', fifo]}", "{policy: ['mine:Mine']}"])
def test_code_that_is_not_allowed_is_an_error_before_the_start(folder: Path, levels: str) -> None:
    found = explore(levels, ends_with=2)
    assert "--allow-code" in found.stderr
    assert not (folder / "s").exists()


# --- simulate ------------------------------------------------------------------------------------


def test_a_log_without_a_runnable_task_gives_exit_status_1(folder: Path) -> None:
    words = ("simulate", "scenario.yaml", "--set", "platform=1x1", "--policy", "fcfs")
    run(*words)  # one core is enough
    wide = {"tasks": [{"id": "a", "run_time": 10, "cores": 64}, {"id": "b", "run_time": 1,
        "cores": 65}]}  # fmt: skip
    tl.Scenario(platform="2x4", policy="fcfs", workload=wide).save("wide.yaml")
    found = run("simulate", "wide.yaml", ends_with=1)
    assert "no task could run: 2 rejected" in found.stderr
    assert answer("simulate", "wide.yaml", ends_with=1)["rejected"] == 2


@pytest.mark.parametrize(
    ("boot", "reason"),
    [("failed", "10 boots failed"), ("refused", "10 requests refused"), (None, "")],
)
def test_the_reason_is_named_if_no_instance_boots(
    folder: Path, boot: str | None, reason: str
) -> None:
    image = {"name": "a", "boot": {"delay": 5} | ({boot: 1} if boot else {})}
    cloud = {"name": "east", "types": [{"name": "small", "cores": 1}], "images": [image]}
    task = {"id": "a", "run_time": 5, "requested_time": 5}
    platform = {"clusters": [{"hosts": [{"cores": 1}]}], "clouds": [cloud]}
    tl.Scenario(platform=platform, policy="asap", workload={"tasks": [task]}).save("cloud.yaml")
    found = run("simulate", "cloud.yaml", ends_with=1 if boot else 0)
    expected = f"no task could run: 1 killed; no instance booted: {reason}\n"
    assert found.stderr == (expected if boot else "")


class Idle(Policy):
    """A policy that never places the tasks with these names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def decide(self, view: Any) -> Any:
        from twinloop.policy import Place

        return [Place(task, 0) for task in view.waiting if view.id(task) not in self.names]


def test_starved_tasks_are_named_in_the_notes() -> None:
    starved = tl.Scenario(platform="1x8", policy=Idle("t0", "t2"), workload=TASKS)
    found = metrics.figures(tl.simulate(starved))
    assert found.statuses["failed"] == 2
    (note,) = found.notes
    assert note.startswith("2 tasks failed without being started")
    assert "t0, t2" in note
    none = metrics.figures(tl.simulate(starved.replace(policy="fifo")))
    assert none.notes == ()


# --- messages ------------------------------------------------------------------------------------


def test_overcommitted_cores_are_reported(folder: Path) -> None:
    packed = {"name": "pack-ic", "options": {"overcommit": 2}}
    crowd = {"tasks": [{"id": f"t{i}", "run_time": 10, "cores": 1} for i in range(8)]}
    made = tl.Scenario(platform="1x4", policy=packed, workload=crowd)
    found = metrics.figures(tl.simulate(made))
    assert found.utilisation is not None
    assert found.utilisation > 1
    assert any("overcommitted" in note for note in found.notes)
    made.save("crowd.yaml")
    assert "overcommitted" in run("simulate", "crowd.yaml").stdout


def test_equal_values_have_no_spread() -> None:
    """The mean of equal numbers often differs from them in the last digit."""
    same = [0.1] * 3
    assert sum(same) / 3 != 0.1
    found = metrics.confidence_interval(same)
    assert (found.mean, found.half_width) == (0.1, 0.0)
    assert str(found).startswith("0.1 ± 0 ")
    tasks = {"tasks": [{"id": "a", "run_time": 0.1}]}
    base = tl.Scenario(platform="2x4", policy="fifo", workload=tasks)
    study = tl.explore(base, {"policy": ["random", "easy"], "seeds": 3}, on="serial")
    assert study.configurations["makespan_s_sd"].to_list() == [0.0, 0.0]
    assert study.configurations["makespan_s"].to_list() == [0.1, 0.1]
    assert study.candidate("random").spread["makespan_s"] == 0.0
    assert study.candidate("random").predicted["makespan_s"] == 0.1
