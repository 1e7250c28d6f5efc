"""The command `twinloop explore`: results, errors and interrupts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

import twinloop as tl
from tests.cli.json_page import list_keys
from tests.cli.on_terminal import run_on_terminal
from tests.cli.test_commands import answer, run

#: Time limit (s), long enough for a busy machine.
PATIENCE = 240.0
LOG = {"generate": {"name": "poisson", "parameters": {"tasks": 40}}}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    tl.Scenario(platform="2x4", policy="fifo", workload=LOG).save(tmp_path / "scenario.yaml")
    (tmp_path / "factors.yaml").write_text("policy: [fifo, easy, sjf]\nplatform: [2x4, 1x8]\n")
    return tmp_path


def test_the_result_as_text_and_as_json(files: Path) -> None:
    words = ("explore", files / "scenario.yaml", files / "factors.yaml", "-o", files / "study")
    shown = run(*words)
    assert "6 configurations of policy, platform: 6 of 6 runs done" in shown.stdout
    assert "the baseline is fifo, 2x4" in shown.stdout
    found = answer(*words, "--by", "wait_mean_s", "--top", 2)
    study = tl.Study.load(files / "study")
    assert (found["planned"], found["done"], found["failed"]) == (6, 6, 0)
    assert [each["name"] for each in found["top"]] == [
        each.name for each in study.top(2, "wait_mean_s")
    ]
    assert found["top"][0]["kpis"]["wait_mean_s"] == study.runs["wait_mean_s"].min()
    assert set(found["pareto"]) <= set(study.configurations["name"])
    # The tables and the page are in the folder.
    csv = pl.read_csv(files / "study" / "runs.csv")
    assert csv["makespan_s"].to_list() == study.runs["makespan_s"].to_list()
    assert (files / "study" / "report.html").stat().st_size > 10_000


def test_json_has_the_prediction_intervals(files: Path) -> None:
    (files / "seeds.yaml").write_text("policy: [fifo, easy]\nseeds: 19\n")
    names = ("scenario.yaml", "seeds.yaml")
    found = answer("explore", *(files / name for name in names), "-o", files / "study")
    assert set(found) <= list_keys("explore")
    study = tl.Study.load(files / "study")
    assert found["intervals"] == study.intervals().drop("configuration").to_dicts()
    row = next(each for each in found["intervals"] if each["kpi"] == "makespan_s")
    runs = study.runs.filter(configuration=study.runs["configuration"][0])["makespan_s"]
    # Of 19 runs the interval of 90 % is from the first to the last.
    assert (row["low"], row["high"], row["runs"]) == (runs.min(), runs.max(), 19)


def test_a_study_is_shown_without_running_anything(files: Path) -> None:
    run("explore", files / "scenario.yaml", files / "factors.yaml", "-o", files / "study")
    before = (files / "study" / "journal.jsonl").read_bytes()
    assert answer("explore", files / "study")["done"] == 6
    assert (files / "study" / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("scenario.yaml", "factors.yaml"), "an output folder is needed"),
        (("scenario.yaml", "-o", "study"), "scenario.yaml"),
        (("factors.yaml", "-o", "study"), "names no scenario"),
        (("scenario.yaml", "nosuch.yaml", "-o", "study"), "nosuch.yaml"),
        (("nosuch.yaml", "factors.yaml", "-o", "study"), "nosuch.yaml"),
        (("scenario.yaml", "factors.yaml", "-o", "study", "--by", "waits"), "is not a KPI"),
        (("scenario.yaml", "factors.yaml", "-o", "study", "--fit", "x"), "no calibration"),
        (
            ("scenario.yaml", "factors.yaml", "-o", "study", "--on", "moon"),
            "there is no coordinator",
        ),
    ],
)
def test_invalid_arguments_are_reported(
    files: Path, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    found = run("explore", *words, ends_with=2)
    assert message in " ".join(found.stderr.split())
    assert not (files / "study").exists() or message == "there is no coordinator"


#: First come, first served on single cores; its sixth run waits until it is released.
GATE = """
import pathlib, time
from twinloop.policy import Place, Policy

class Gate(Policy):
    def decide(self, view):
        journal = pathlib.Path("study/journal.jsonl")
        while pathlib.Path("hold").exists() and journal.read_bytes().count(b"\\n") > 5:
            time.sleep(0.01)
        free = view.free_cores.copy()
        for task in view.waiting:
            machine = int(free.argmax())
            if free[machine] < 1:
                break
            free[machine] -= 1
            yield Place(task, machine)
"""


def test_a_terminal_shows_the_progress_and_the_result(files: Path) -> None:
    words = ("explore", "scenario.yaml", "factors.yaml", "-o", "study", "--on", "serial")
    shown = run_on_terminal(*words, folder=files)
    assert shown.status == 0, shown.text
    assert "exploring" in shown.text
    assert "6 of 6 runs" in shown.text
    assert "6 configurations of policy, platform" in shown.text


@pytest.mark.real
def test_an_interrupted_study_can_be_resumed(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (files / "gate.py").write_text(GATE)
    (files / "hold").touch()
    log = {"generate": {"name": "poisson", "parameters": {"tasks": 20, "cores": "1:1"}}}
    tl.Scenario(platform="2x4", policy="gate:Gate", workload=log).save(files / "scenario.yaml")
    (files / "factors.yaml").write_text(
        "factors: {model.speed_factor: {levels: [" + ", ".join(map(str, range(1, 101))) + "]}}\n"
    )
    words = ["explore", "scenario.yaml", "factors.yaml", "-o", "study", "--allow-code"]
    command = [sys.executable, "-m", "twinloop", *words, "--on", "serial"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        journal = files / "study" / "journal.jsonl"
        until = time.monotonic() + PATIENCE
        while not journal.exists() or journal.read_bytes().count(b"\n") <= 5:
            assert time.monotonic() < until
            assert child.poll() is None
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGINT)
        _, printed = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
        child.wait(PATIENCE)
    assert child.returncode == 130, printed
    assert "the same command resumes from study" in " ".join(printed.split())
    assert tl.Study.load(files / "study").done == 5
    (files / "hold").unlink()
    ended = answer(*words, "--on", "threads")
    assert (ended["done"], ended["planned"]) == (100, 100)
    rows = journal.read_bytes().splitlines()[1:]
    assert len(rows) == len({json.loads(row)["key"] for row in rows}) == 100
