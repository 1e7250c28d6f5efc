"""The command `twinloop execute`: output, progress and errors."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from tests.cli.on_terminal import run_on_terminal
from tests.cli.test_commands import answer, run
from tests.execution.child_processes import PATIENCE
from tests.execution.runs import EXECUTE, left, read_output, scenario, statuses, task

pytestmark = pytest.mark.real

#: The documented keys that `twinloop simulate` does not have.
OWN = {
    *("isolation", "warnings", "dispatch_latency_s", "release_latency_s", "recording_share"),
    "interrupted",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    given = scenario(
        task("a", "echo", "hello"),
        task("b", "sh", "-c", "echo noise >&2; exit 3"),
        task("c", "true", parents=["b"]),
        workload={"prepare": [{"command": ["echo", "prepared"]}]},
    )
    return given.save(tmp_path / "scenario.yaml")


def execute(*words: object, ends_with: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*EXECUTE, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == ends_with, done.stdout + done.stderr
    return done


def test_json_output_is_only_one_object(file: Path, tmp_path: Path) -> None:
    done = execute(file, "-o", tmp_path / "run", "--json", ends_with=1)
    document = json.loads(done.stdout)
    simulated = answer("simulate", file)
    assert set(document) == set(simulated) | OWN
    counts = ("tasks", "completed", "failed", "killed", "rejected", "skipped")
    assert [document[name] for name in counts] == [3, 1, 2, 0, 0, 0]
    assert document["policy"] == "fifo"
    assert document["output"] == str(tmp_path / "run")
    assert document["events"] > 0
    assert document["total_s"] == document["wall_s"] > 0
    assert document["interrupted"] is False
    assert document["isolation"] in ("cgroup2", "cgroup1", "affinity")
    assert document["dispatch_latency_s"] >= 0
    # The output of tasks is not mixed in.
    assert "prepared" in done.stderr
    assert "noise" not in done.stderr.splitlines()
    assert read_output(tmp_path / "run", "a") == "hello\n"
    assert read_output(tmp_path / "run", "b", kind="err") == "noise\n"


def test_without_a_terminal_there_are_plain_lines(file: Path, tmp_path: Path) -> None:
    done = execute(file, "-o", tmp_path / "run", "--isolation", "affinity", ends_with=1)
    lines = done.stderr.splitlines()
    # The commands are announced before any of them is run.
    commands = tmp_path / "run" / "commands.txt"
    assert lines[:5] == [
        "first: echo prepared",
        "will run 1 x echo hello",
        "will run 1 x sh -c 'echo noise >&2; exit 3'",
        "will run 1 x true",
        f"every command: {commands}",
    ]
    assert lines.index("prepared") > 4
    assert commands.read_text().splitlines()[1:] == [
        *("# preparation, run once", "1 x echo prepared", f"# in {Path.cwd()}", "1 x echo hello"),
        *("1 x sh -c 'echo noise >&2; exit 3'", "1 x true"),
    ]
    warning = "less isolation than requested: CPUs are assigned by affinity"
    assert any(line.startswith(warning) for line in lines)
    assert any("3 of 3 tasks ended (1 completed, 2 failed)" in line for line in lines)
    assert lines[-1] == f"wrote {tmp_path / 'run'}"
    assert "\x1b" not in done.stdout + done.stderr
    assert "isolation by affinity" in done.stdout
    assert "dispatch latency" in done.stdout
    assert statuses(tl.read(tmp_path / "run")) == {"a": "completed", "b": "failed", "c": "failed"}


def test_a_dry_run_prints_every_command_and_runs_nothing(tmp_path: Path) -> None:
    made = tmp_path / "made"
    many = [
        task(f"{n}", "touch", f"{made}\x1b[2K{n}", environment={"LD_PRELOAD": "\u202eevil"})
        for n in range(9)
    ]
    given = scenario(*many, workload={"prepare": [{"command": ["touch", str(made)]}]})
    file = given.save(tmp_path / "scenario.yaml")
    printed = run("execute", file, "--dry-run").stdout
    assert "1 x touch " + str(made) in printed
    for n in range(9):
        command = f"1 x env 'LD_PRELOAD=\\u202eevil' touch '{made}\\x1b[2K{n}'\n"
        assert printed.count(command) == 1
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    document = answer("execute", file, "--dry-run", "-o", tmp_path / "run")
    assert set(document) == {"commands", "prepare", "programs", "missing", "sources", "files"}
    assert document["programs"] == {"touch": 9}
    assert {each["tasks"] for each in document["commands"]} == {1}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["scenario.yaml"]


def test_a_terminal_shows_the_progress_of_the_run(tmp_path: Path) -> None:
    # No task ends before it was shown.
    seen = tmp_path / "seen"
    held = ["sh", "-c", f"until [ -e {seen} ]; do sleep 0.05; done"]
    given = scenario(*(task(name, *held) for name in ("[red]", "\u202eb", "c")), platform="2x1")
    file = given.save(tmp_path / "scenario.yaml")

    def watch(text: str) -> None:
        if "0 of 3 tasks ended" in text and "[red]" in text:
            seen.touch()

    words = ("execute", str(file), "-o", str(tmp_path / "run"))
    try:
        process, status, text = run_on_terminal(*words, folder=tmp_path, watch=watch)
    finally:
        seen.touch()
    assert status == 0, text
    assert "0 of 3 tasks ended" in text
    assert "[red]" in text
    assert "Traceback" not in text
    assert f"wrote {tmp_path}" in text.replace("\r\n", "")
    assert left(process) == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "an output folder is needed"),
        (["-o", "RUN", "--interval", "soon"], "soon"),
        (["-o", "RUN", "--interval", "1ms"], "0.001 s is too short"),
        (["-o", "RUN", "--isolation", "jail"], "jail"),
        (["-o", "RUN", "--task-limit", "-1s"], "task_limit"),
        (["-o", "RUN", "--policy", "no-such"], "no-such"),
        (["-o", "RUN", "--platform", "1x1000"], "requests 1000 cores, but this machine has"),
        (["-o", "RUN", "--time-scale", "0"], "time_scale"),
    ],
)
def test_invalid_options_are_an_error_and_nothing_is_run(
    file: Path, tmp_path: Path, words: list[str], problem: str
) -> None:
    place = tmp_path / "run"
    given = [str(place) if word == "RUN" else word for word in words]
    refused = run("execute", file, *given, ends_with=2)
    assert problem in refused.stderr
    assert "Traceback" not in refused.output
    error: Any = answer("execute", file, *given, ends_with=2)["error"]
    assert problem in error["message"]
    assert not place.exists()


def test_an_existing_run_is_replaced_only_with_overwrite(file: Path, tmp_path: Path) -> None:
    words = ("execute", file, "-o", tmp_path / "run")
    run(*words, ends_with=1)
    assert "--overwrite replaces it" in run(*words, ends_with=2).stderr
    run(*words, "--overwrite", "--seed", 7, ends_with=1)
    assert tl.read(tmp_path / "run").manifest.seed == 7


def test_parts_of_a_scenario_can_be_given_as_options(file: Path, tmp_path: Path) -> None:
    document = answer(
        *("execute", file, "-o", tmp_path / "run", "--platform", "1x1", "--policy", "fcfs"),
        *("--set", "model.kill_at_requested_time=true", "--power", "none"),
        *("--picture", tmp_path / "run.html", "--interval", "50ms"),
        ends_with=1,
    )
    assert document["policy"] == "fcfs"
    assert (tmp_path / "run.html").read_text().lower().startswith("<!doctype html")
    trace = tl.read(tmp_path / "run")
    assert trace.nodes.height == 1
    assert trace.manifest.sampling_period == 0.05
    assert trace.manifest.scenario["model"]["kill_at_requested_time"] is True


def test_a_recorded_run_passes_the_gate_and_is_replayed(tmp_path: Path) -> None:
    given = scenario(*(task(f"{n}", "sleep", 0.05, submit=0.02 * n) for n in range(6)))
    file = given.save(tmp_path / "scenario.yaml")
    run("execute", file, "-o", tmp_path / "run")
    run("check", tmp_path / "run")
    replayed = answer("simulate", tmp_path / "run")
    assert replayed["completed"] == 6
    assert "6 tasks" in run("inspect", tmp_path / "run").stdout


def test_code_runs_only_with_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mine_to_run.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w').close()\n"
        "from twinloop.policy import Policy\n"
        "class Mine(Policy): pass\n"
    )
    words = ["execute", file, "-o", tmp_path / "run", "--policy", "mine_to_run:Mine"]
    assert "--allow-code" in run(*words, ends_with=2).stderr
    assert not (tmp_path / "imported").exists()
    assert not (tmp_path / "run").exists()
