"""`twinloop explore` as a user meets it."""

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
from tests.cli.test_commands import answer, run

LOG = {"generate": {"name": "poisson", "parameters": {"tasks": 40}}}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    tl.Scenario(platform="2x4", policy="fifo", workload=LOG).save(tmp_path / "scenario.yaml")
    (tmp_path / "factors.yaml").write_text("policy: [fifo, easy, sjf]\nplatform: [2x4, 1x8]\n")
    return tmp_path


def test_the_answer_as_text_and_as_json(files: Path) -> None:
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
    # The tables and the page lie in the folder.
    csv = pl.read_csv(files / "study" / "runs.csv")
    assert csv["makespan_s"].to_list() == study.runs["makespan_s"].to_list()
    assert (files / "study" / "report.html").stat().st_size > 10_000


def test_a_study_is_looked_at_without_running_anything(files: Path) -> None:
    run("explore", files / "scenario.yaml", files / "factors.yaml", "-o", files / "study")
    before = (files / "study" / "journal.jsonl").read_bytes()
    assert answer("explore", files / "study")["done"] == 6
    assert (files / "study" / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("scenario.yaml", "factors.yaml"), "nobody said where to keep the study"),
        (("scenario.yaml", "-o", "study"), "scenario.yaml"),
        (("factors.yaml", "-o", "study"), "names no scenario"),
        (("scenario.yaml", "nosuch.yaml", "-o", "study"), "nosuch.yaml"),
        (("nosuch.yaml", "factors.yaml", "-o", "study"), "nosuch.yaml"),
        (("scenario.yaml", "factors.yaml", "-o", "study", "--by", "waits"), "is no KPI"),
        (("scenario.yaml", "factors.yaml", "-o", "study", "--fit", "x"), "no calibration"),
        (("scenario.yaml", "factors.yaml", "-o", "study", "--on", "moon"), "no place to run on"),
    ],
)
def test_what_cannot_be_is_said(
    files: Path, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    found = run("explore", *words, ends_with=2)
    assert said in " ".join(found.stderr.split())
    assert not (files / "study").exists() or said == "no place to run on"


def test_who_interrupts_it_can_go_on(files: Path) -> None:
    (files / "factors.yaml").write_text(
        "factors: {model.speed_factor: {levels: [" + ", ".join(map(str, range(1, 400))) + "]}}\n"
    )
    command = [
        sys.executable, "-m", "twinloop", "explore", "scenario.yaml", "factors.yaml", "-o", "study",
        "--on", "serial",
    ]  # fmt: skip
    child = subprocess.Popen(command, cwd=files, stderr=subprocess.PIPE, text=True)
    try:
        journal = files / "study" / "journal.jsonl"
        until = time.monotonic() + 60
        while not journal.exists() or journal.read_bytes().count(b"\n") < 5:
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait(60)
    assert child.returncode == 130, said
    assert "the same command goes on from study" in " ".join(said.split())
    done = tl.Study.load(files / "study").done
    assert 4 <= done < 399
    ended = answer(
        "explore", files / "scenario.yaml", files / "factors.yaml", "-o", files / "study"
    )
    assert (ended["done"], ended["planned"]) == (399, 399)
    rows = journal.read_bytes().splitlines()[1:]
    assert len(rows) == len({json.loads(row)["key"] for row in rows}) == 399
