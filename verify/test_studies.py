"""Long tests of studies: ten kills of one study, and ten thousand runs in less than 1 GB.

pytest verify/test_studies.py -s
"""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import polars as pl
import pytest

import twinloop as tl

LOG = {"generate": {"name": "poisson", "parameters": {"tasks": 400}}}
BASE = tl.Scenario(platform="4x4", policy="fifo", workload=LOG)
FACTORS = Path(__file__).parents[1] / "examples" / "factors.yaml"

STUDY = textwrap.dedent("""
    import sys
    import twinloop as tl
    from pathlib import Path
    scenario = tl.load(sys.argv[2])
    tl.explore(scenario, sys.argv[3], folder=sys.argv[1], on=sys.argv[4], workers=2)
""")
FIT = textwrap.dedent("""
    import sys
    import twinloop as tl
    truth = tl.read(sys.argv[2])
    tl.calibrate(truth, parameters={"speed_factor": {"linear": [0.5, 2]},
                                    "startup_overhead": {"linear": [0, 5]}},
                 budget=3000, analysis=1500, folder=sys.argv[1])
""")


def kill_repeatedly(moments: int, longest: float, *words: str) -> int:
    """Start and kill a program at random times; return how often it was still running."""
    draw = random.Random(1)
    alive = 0
    for _ in range(moments):
        child = subprocess.Popen([sys.executable, "-c", *words], stderr=subprocess.DEVNULL)
        try:
            child.wait(timeout=draw.uniform(0.3, longest))
        except subprocess.TimeoutExpired:
            alive += 1
        finally:
            os.kill(child.pid, signal.SIGKILL) if child.poll() is None else None
            child.wait(60)
    return alive


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_a_study_killed_ten_times_has_the_same_result(tmp_path: Path, on: str) -> None:
    BASE.save(tmp_path / "scenario.yaml")
    whole = tl.explore(BASE, FACTORS, folder=tmp_path / "whole")
    words = (STUDY, str(tmp_path / "s"), str(tmp_path / "scenario.yaml"), str(FACTORS), on)
    alive = kill_repeatedly(10, 9.0 if on == "processes" else 2.5, *words)
    before = tl.Study.load(tmp_path / "s").done if (tmp_path / "s" / "study.json").exists() else 0
    ended = tl.explore(tmp_path / "scenario.yaml", FACTORS, folder=tmp_path / "s")
    print(f"on {on}: killed {alive} times while it ran, {before} of 84 runs were stored at the end")
    assert alive
    assert ended.runs.drop("seconds").equals(whole.runs.drop("seconds"))
    assert ended.configurations.equals(whole.configurations)


def test_a_calibration_killed_ten_times_has_the_same_result(tmp_path: Path) -> None:
    truth = tl.simulate(BASE.replace(**{"model.speed_factor": 0.8, "model.startup_overhead": 1.5}))
    # The manifest must not contain the true values.
    manifest = truth.manifest.model_copy(update={"scenario": BASE.to_manifest()})
    path = str(truth.replace(manifest=manifest).save(tmp_path / "truth"))
    subprocess.run([sys.executable, "-c", FIT, str(tmp_path / "whole"), path], check=True)
    alive = kill_repeatedly(10, 5.0, FIT, str(tmp_path / "f"), path)
    if not (tmp_path / "f" / "fit.json").exists():
        subprocess.run([sys.executable, "-c", FIT, str(tmp_path / "f"), path], check=True)
    print(f"killed {alive} times while it ran")
    assert alive
    one, other = tl.Fit.load(tmp_path / "whole"), tl.Fit.load(tmp_path / "f")
    assert one.values == other.values
    assert one.loss == other.loss
    assert one.history.equals(other.history)
    assert one.draws is not None
    assert other.draws is not None
    assert one.draws.equals(other.draws)


LARGE = textwrap.dedent("""
    import resource, sys, time
    import twinloop as tl
    from twinloop.report import write_study_page
    scenario = tl.load(sys.argv[1])
    design = {"design": "latin-hypercube", "samples": 5000, "seeds": 2, "factors": {
        "policy": ["fcfs", "easy", "sjf", "ljf", "first-fit"],
        "model.speed_factor": {"range": [0.5, 2]},
        "time_scale": {"range": [0.5, 2]},
        "nodes": {"field": "platform.clusters[0].hosts[0].count", "range": [2, 16],
                  "integer": True}}}
    def report(what, began):
        print(f"{what}: {time.perf_counter() - began:.1f} s", flush=True)
    began = time.perf_counter()
    study = tl.explore(scenario, design, folder=sys.argv[2])
    report(f"{study.done:,} runs", began)
    began = time.perf_counter(); study = tl.Study.load(sys.argv[2]); report("load", began)
    began = time.perf_counter(); study.configurations; report("tables", began)
    began = time.perf_counter(); study.top(3); report("top 3", began)
    began = time.perf_counter(); study.pareto(); report("pareto", began)
    began = time.perf_counter(); study.effects(); report("effects", began)
    page = sys.argv[2] + "/report.html"
    began = time.perf_counter(); write_study_page(study, page); report("page", began)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, study.done, study.failed)
""")


def test_ten_thousand_runs_take_less_than_a_gigabyte(tmp_path: Path) -> None:
    BASE.replace(**{"workload.generate.parameters.tasks": 100}).save(tmp_path / "scenario.yaml")
    words = [sys.executable, "-c", LARGE, str(tmp_path / "scenario.yaml"), str(tmp_path / "s")]
    began = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=1200)
    print(done.stdout)
    megabytes, runs, failed = map(int, done.stdout.split("\n")[-2].split())
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    print(f"{megabytes} MB at most, {workers} MB in any process, {time.monotonic() - began:.0f} s")
    assert (runs, failed) == (10_000, 0)
    assert max(megabytes, workers) < 1000
    assert (tmp_path / "s" / "report.html").stat().st_size < 8_000_000
    assert pl.read_parquet(tmp_path / "s" / "runs.parquet").height == 10_000
