"""Bundles: files for runs on another machine, and the evaluation of returned runs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import twinloop as tl
from twinloop.description.errors import InputError
from twinloop.description.files import hash_file
from twinloop.exploration.confirmation.bundles import bundle
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.confirmation.run import confirm
from twinloop.exploration.ranking.candidate import Candidate

LOG = """\
; MaxProcs: 2
1 0 0 1 1 -1 -1 1 60 -1 1 7 1 -1 1 -1 -1 -1
2 0 0 2 1 -1 -1 1 60 -1 1 8 1 -1 1 -1 -1 -1
3 0 0 3 2 -1 -1 2 60 -1 1 8 1 -1 1 -1 -1 -1
"""


def quiet(text: str) -> None:
    """Ignore a message."""


def write_log(path: Path, *, speed: float = 1.0) -> Path:
    """Write a log with the tasks of LOG, their run times multiplied by a factor."""
    lines = LOG.splitlines()
    for i, line in enumerate(lines[1:], start=1):
        words = line.split()
        words[3] = str(float(words[3]) * speed)
        lines[i] = " ".join(words)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[list[Candidate], Candidate]:
    log = write_log(tmp_path / "elsewhere" / "log.swf")
    fcfs = tl.Scenario(platform="1x2", policy="fcfs", workload=str(log))
    fifo = tl.Scenario(platform="1x2", policy="easy", workload=str(log))
    return [Candidate("fcfs, plain", fcfs, {"makespan_s": 5.0})], Candidate(
        "easy", fifo, {"makespan_s": 6.0}
    )


def test_a_bundle_can_be_moved(pair: Any, tmp_path: Path) -> None:
    made = bundle(pair[0], tmp_path / "bundle", baseline=pair[1], repetitions=2, seed=3)
    moved = made.rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "elsewhere")
    plan = json.loads((moved / "plan.json").read_text())
    for name, known in plan["inputs"].items():
        assert hash_file(moved / name) == known
    assert len(plan["runs"]) == 4
    assert [each["name"] for each in plan["configurations"]] == ["fcfs, plain", "easy"]
    for each in plan["configurations"]:
        text = (moved / "scenarios" / f"{each['file']}.yaml").read_text()
        assert str(tmp_path) not in text
        scenario = tl.load(moved / "scenarios" / f"{each['file']}.yaml")
        assert tl.simulate(scenario).tasks.height == 3
    readme = (moved / "README.md").read_text()
    assert f"runs/{plan['runs'][0]['name']}.swf" in readme
    for run in plan["runs"]:
        assert f" {run['name']} " in (moved / "run.sh").read_text()
    assert "`inputs/` contains their input files." in readme
    with pytest.raises(InputError, match="exists already"):
        bundle(pair[0], moved, baseline=pair[1])


def test_the_readme_mentions_inputs_only_if_there_are_any(tmp_path: Path) -> None:
    tasks = [{"id": "a", "command": ["true"], "run_time": 1}]
    fifo = tl.Scenario(platform="1x1", policy="fifo", workload={"tasks": tasks})
    easy = Candidate("easy", fifo.replace(policy="easy"), {"makespan_s": 1.0})
    made = bundle([easy], tmp_path / "bundle", baseline=Candidate("fifo", fifo, {}))
    assert not (made / "inputs").exists()
    assert "inputs/" not in (made / "README.md").read_text()


def test_logs_of_another_scheduler_are_evaluated_and_missing_ones_named(
    pair: Any, tmp_path: Path
) -> None:
    made = bundle(pair[0], tmp_path / "bundle", baseline=pair[1], repetitions=3, seed=3)
    runs = json.loads((made / "plan.json").read_text())["runs"]
    for run in runs[:-1]:
        speed = (10 if run["configuration"] == "easy" else 8) + run["repetition"] / 10
        write_log(made / "runs" / f"{run['name']}.swf", speed=speed)
    found = confirm(pair[0], baseline=pair[1], traces=made, announce=quiet)
    # By hand: tasks of 1, 2 and 3 s that all start at 0, so the makespan is the longest run time.
    assert found.runs.sort("order")["makespan_s"].to_list() == pytest.approx(
        [
            3 * ((10 if run["configuration"] == "easy" else 8) + run["repetition"] / 10)
            for run in runs[:-1]
        ]
    )
    assert found.status == "holds"
    assert found.recommendations[0].real == pytest.approx(-6.0)
    assert found.seed == 3
    assert f"1 of 6 runs are missing: {runs[-1]['name']}" in found.notes
    # A confirmation in another folder contains copies of the runs.
    kept = confirm(pair[0], baseline=pair[1], traces=made, folder=tmp_path / "kept", announce=quiet)
    assert Confirmation.load(tmp_path / "kept").traces == found.traces == kept.traces
    # An interrupted copy is resumed.
    for file in ("confirmation.json", "runs.parquet"):
        (tmp_path / "kept" / file).unlink()
    shutil.rmtree(tmp_path / "kept" / "runs" / runs[1]["name"])
    assert (
        confirm(pair[0], baseline=pair[1], traces=made, folder=tmp_path / "kept", announce=quiet)
        == kept
    )
    # The folder of the runs is accepted, too.
    again = confirm(pair[0], baseline=pair[1], traces=made / "runs", announce=quiet)
    assert again.recommendations == found.recommendations

    write_log(made / "runs" / f"{runs[0]['name']}.txt")
    with pytest.raises(InputError, match="have the name of the same run"):
        confirm(pair[0], baseline=pair[1], traces=made, announce=quiet)


def test_runs_of_other_scenarios_are_errors(pair: Any, tmp_path: Path) -> None:
    made = bundle(pair[0], tmp_path / "bundle", baseline=pair[1], repetitions=1)
    with pytest.raises(InputError, match="contains none of the 2 runs"):
        confirm(pair[0], baseline=pair[1], traces=made, announce=quiet)
    name = json.loads((made / "plan.json").read_text())["runs"][0]["name"]
    (made / "runs" / f"{name}.swf").write_text("".join(LOG.splitlines(keepends=True)[:3]))
    with pytest.raises(InputError, match="has 2 tasks, but its scenario has 3 tasks"):
        confirm(pair[0], baseline=pair[1], traces=made, announce=quiet)
    (made / "runs" / f"{name}.swf").write_text(
        LOG.replace("3 0 0 3 2 -1 -1 2", "3 0 0 3 1 -1 -1 1")
    )
    with pytest.raises(InputError, match="tasks of other sizes"):
        confirm(pair[0], baseline=pair[1], traces=made, announce=quiet)
    (made / "runs" / f"{name}.swf").unlink()
    tl.simulate(pair[0][0].scenario.replace(policy="sjf")).save(made / "runs" / name)
    with pytest.raises(InputError, match="is a run of another scenario"):
        confirm(pair[0], baseline=pair[1], traces=made, announce=quiet)
    with pytest.raises(InputError, match="of other configurations"):
        confirm([pair[1]], baseline=pair[0][0], traces=made, announce=quiet)


def test_paths_on_this_machine_are_errors(pair: Any, tmp_path: Path) -> None:
    there = pair[0][0].scenario.replace(**{"workload.folder": str(tmp_path)})
    with pytest.raises(InputError, match=r"workload\.folder: fcfs: .* is a path on this machine"):
        bundle([Candidate("fcfs", there, {})], tmp_path / "bundle", baseline=pair[1])
    held = pair[0][0].scenario.replace(workload=tl.read(tmp_path / "elsewhere" / "log.swf"))
    with pytest.raises(InputError, match="cannot contain an object in memory"):
        bundle([Candidate("fcfs", held, {})], tmp_path / "bundle", baseline=pair[1])
    assert not (tmp_path / "bundle").exists()


@pytest.mark.real
def test_the_script_executes_the_runs_and_resumes(tmp_path: Path) -> None:
    def short(name: str, seconds: float) -> Candidate:
        task = {"id": "a", "command": ["sleep", str(seconds)], "run_time": seconds}
        scenario = tl.Scenario(platform="1x1", policy="fifo", workload={"tasks": [task]})
        return Candidate(name, scenario, {"makespan_s": seconds})

    fast, slow = short("fast", 0.05), short("slow", 0.3)
    made = bundle([fast], tmp_path / "bundle", baseline=slow, repetitions=1, seed=1)
    environment = os.environ | {"TWINLOOP": "false"}

    def script(ends_with: int = 0) -> str:
        done = subprocess.run(
            ["sh", str(made / "run.sh")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == ends_with, done.stderr
        return done.stdout

    first, second = (run["name"] for run in json.loads((made / "plan.json").read_text())["runs"])
    # A failing program leaves no run.
    script(ends_with=1)
    assert not list((made / "runs").iterdir())
    environment["TWINLOOP"] = f"{sys.executable} -m twinloop"
    # An existing run is not repeated.
    tl.execute(slow.scenario if "slow" in first else fast.scenario, made / "runs" / first)
    assert f"{first}: exists" in script()
    assert (made / "runs" / second / "manifest.json").is_file()
    assert sorted(entry.name for entry in (made / "runs").iterdir()) == sorted([first, second])
    found = confirm([fast], baseline=slow, traces=made, announce=quiet)
    assert found.runs.height == 2
    assert not any("missing" in note for note in found.notes)
    assert found.status == "not assessable"
