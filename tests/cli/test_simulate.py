"""The command `twinloop simulate`: figures, output, options and errors."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import twinloop as tl
from tests.cli.test_commands import answer, run

# Three tasks on two cores: 1 takes both, 2 and 3 wait for it; 3 can never run with one core less.
SWF = """\
; MaxProcs: 2
1 0 0 10 2 -1 -1 2 20 -1 1 7 1 -1 1 -1 -1 -1
2 1 9 5 1 -1 -1 1 20 -1 1 7 1 -1 1 -1 -1 -1
3 2 8 5 2 -1 -1 2 20 -1 1 8 1 -1 1 -1 -1 -1
4 3 -1 -1 -1 -1 -1 -1 20 -1 0 8 1 -1 1 -1 -1 -1
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    return path


def parts(log: Path, **changes: str) -> list[str]:
    given = {"workload": str(log), "platform": "2x1", "policy": "fcfs", **changes}
    return [word for name, value in given.items() for word in (f"--{name}", value)]


def test_the_figures_equal_those_computed_by_hand(log: Path) -> None:
    document = answer("simulate", *parts(log))
    # 1 runs 0-10, 2 runs 10-15, 3 needs both cores: 15-20. Record 4 has no values.
    assert document["tasks"] == 4
    counts = ("completed", "rejected", "killed", "failed", "skipped")
    assert [document[name] for name in counts] == [3, 0, 0, 0, 1]
    assert document["makespan_s"] == 20
    assert document["wait_mean_s"] == pytest.approx((0 + 9 + 13) / 3)
    assert document["wait_max_s"] == 13
    assert document["utilisation"] == pytest.approx((20 + 5 + 10) / 40)
    assert document["energy_j"] is None
    assert document["lateness_mean_s"] == 0
    for name in ("wait_p50_s", "wait_p95_s", "wait_p99_s", "lateness_relative", "events", "wall_s"):
        assert isinstance(document[name], int | float)
    assert document["lateness_additional_s"] == 0
    assert document["total_s"] >= document["wall_s"] > 0


def test_tasks_that_never_fit_are_rejected_and_in_no_mean(log: Path) -> None:
    document = answer("simulate", *parts(log, platform="1x1"))
    counts = ("tasks", "completed", "rejected", "skipped")
    assert [document[name] for name in counts] == [4, 1, 2, 1]
    assert document["wait_mean_s"] == 0


def test_twice_the_speed_halves_the_runs(log: Path) -> None:
    assert answer("simulate", *parts(log), "--speed", 2)["makespan_s"] == 10


def test_a_run_is_written_and_can_be_read_compared_and_replayed(log: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run("simulate", *parts(log), "-o", first)
    run("simulate", *parts(log, policy="sjf"), "-o", second, "--picture", tmp_path / "run.html")
    trace = tl.Trace.load(first)
    assert trace.manifest.kind == "simulated"
    assert tl.Scenario.from_manifest(trace.manifest).policy.name == "fcfs"
    assert trace.tasks["status"].to_list() == ["completed"] * 3
    assert (tmp_path / "run.html").stat().st_size > 1000
    assert answer("diff", first, second)["tasks"]["matched"] == 3
    again = answer("simulate", *parts(first))
    assert again["makespan_s"] == 20  # a folder is a workload
    run("simulate", *parts(log), "-o", first, ends_with=2)
    run("simulate", *parts(log), "-o", first, "--overwrite")


def test_a_scenario_file_and_changes_of_it(log: Path, tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(f"platform: 2x1\nworkload: {log.name}\npolicy: fcfs\n")
    assert answer("simulate", file)["makespan_s"] == 20
    killed = answer("simulate", file, "--set", "model.kill_at_requested_time=true", "--speed", 0.1)
    assert killed["killed"] == 3
    options = ("--policy", "conservative", "--option", "compress=false")
    assert answer("simulate", file, *options)["policy"] == "conservative"


def test_users_who_wait_submit_later(log: Path) -> None:
    document = answer("simulate", *parts(log, source="sessions:0"), "--speed", 0.5)
    assert document["lateness_mean_s"] >= 0
    assert document["lateness_relative"] >= 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "esay"], "did you mean 'easy'"),
        (["--platform", "many"], "2x8"),
        (["--source", "sometimes"], "is not a source"),
        (["--set", "model.sped_factor=2"], "speed_factor"),
        (["--option", "dept=3"], "is not an option"),
        (["--speed", "-1"], "speed_factor"),
    ],
)
def test_invalid_arguments_are_explained(log: Path, words: list[str], message: str) -> None:
    document = answer("simulate", *parts(log), *words, ends_with=2)
    assert message in str(document["error"])


def test_missing_parts_of_a_scenario_are_named() -> None:
    assert "--workload" in str(answer("simulate", "--platform", "2x1", ends_with=2)["error"])


SLOW = """
import pathlib, time
from twinloop.policy import Policy, Wake

class Slow(Policy):
    def decide(self, view):
        pathlib.Path("deciding").touch()
        time.sleep(0.02)
        return [Wake(view.now + 1)]
"""


@pytest.mark.real
def test_an_interrupted_simulation_leaves_no_output(log: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    words = [*parts(log, policy="slow:Slow"), "--allow-code", "-o", "out", "--picture", "run.html"]
    command = [sys.executable, "-m", "twinloop", "simulate", *words]
    child = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        while not (tmp_path / "deciding").exists() and child.poll() is None:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        _, printed = child.communicate(timeout=240)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert "Traceback" not in printed
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"log.swf", "slow.py", "deciding"}


BROKEN = """
from twinloop.policy import Place, Policy, Wake

class Raises(Policy):
    def decide(self, view):
        raise KeyError("mine")

class ByName(Policy):
    def decide(self, view):
        return [Place(view.waiting[0], view.machine_name(0))]

class Never(Policy):
    def decide(self, view):
        return None

class Ever(Policy):
    def decide(self, view):
        return [Wake(view.now + 1)]

class Now(Policy):
    def decide(self, view):
        return [Wake(view.now)]
"""


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("Raises", "broken.py:6"),
        ("ByName", "a machine must be an index"),
        ("Ever", "keeps requesting wake-ups"),
        ("Now", "later than now"),
    ],
)
def test_the_error_of_a_policy_names_it(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    words = [*parts(log, policy=f"broken:{policy}"), "--allow-code"]
    problem = str(answer("simulate", *words, ends_with=2)["error"])
    assert message in problem
    assert policy in problem


def test_tasks_that_the_policy_never_places_fail_and_are_reported(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    document = answer("simulate", *parts(log, policy="broken:Never"), "--allow-code", ends_with=1)
    assert document["failed"] == 3
    assert "the policy never placed 1, 2, 3" in str(document["notes"])
    assert "still waiting" in str(document["cleaned"])


def test_stdout_has_one_object_and_stderr_is_empty(log: Path) -> None:
    command = [sys.executable, "-m", "twinloop", "simulate", *parts(log), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["completed"] == 3
    assert done.stderr == ""


def test_usage_in_windows(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    answer("simulate", *parts(log), "--usage", "4s", "-o", str(folder))
    windows = tl.read(folder).usage.filter(task="1").select("machine", "t", "dt", "cpu").rows()
    nodes = ("C01-H01-001", "C01-H01-002")
    spans = ((4.0, 4.0), (8.0, 4.0), (10.0, 2.0))
    assert windows == [(node, t, dt, dt) for t, dt in spans for node in nodes]
    answer("simulate", *parts(log), "--usage", "none", "-o", str(folder), "--overwrite")
    assert tl.read(folder).usage.is_empty()
    refused = run("simulate", *parts(log), "--usage", "often", ends_with=2)
    assert "--usage must be a duration" in refused.stderr
