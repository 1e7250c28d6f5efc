"""Calibration of external simulators: values are found, failures are tolerated and reported."""

from __future__ import annotations

import json
import math
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from examples.black_box.drops import fall
from tests.cli.test_commands import run
from twinloop.calibration import (
    BlackBoxCalibration,
    BlackBoxObjective,
    Experiment,
    calibrate_black_box,
)
from twinloop.cli import app
from twinloop.description.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "examples" / "black_box" / "bench.yaml"
TRUE = {"gravity": 9.81, "drag": 0.05, "bounce": 0.8}


@pytest.mark.real
def test_the_shipped_black_box_has_its_documented_values() -> None:
    bench = BlackBoxCalibration.load(BENCH)
    assert bench.space is not None
    assert set(bench.space.names) == set(TRUE)
    for each in bench.experiments:
        exact = fall(each.case["height"], **TRUE)
        for name, value in each.truth.items():
            assert value == pytest.approx(exact[name], abs=1e-4)
    # With these values the program gives the measured figures.
    objective = BlackBoxObjective(bench.space, bench.black_box, bench.experiments, on="threads")
    assert objective.at(TRUE) < 1e-3
    objective.close()


def one_ball(tmp_path: Path, program: str | None = None, *, seconds: str = "240s") -> Path:
    """A black box with the shipped or a given program, in which only gravity is unknown."""
    script = ROOT / "examples" / "black_box" / "drops.py"
    if program is not None:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(program))
    words = [sys.executable, "-S", "-E", str(script), "--height={case.height}"]
    words += ["--gravity={gravity}", "--drag=0.05", "--bounce=0.3"]
    first = fall(2.0, gravity=9.81, drag=0.05, bounce=0.3)["first"]
    file = tmp_path / "bench.yaml"
    bench = {
        "black_box": {"command": words, "timeout": seconds},
        "parameters": {"gravity": {"linear": [5, 15]}},
        "experiments": [{"case": {"height": 2.0}, "truth": {"first": first}}],
    }
    file.write_text(json.dumps(bench))  # JSON is valid YAML
    return file


@pytest.mark.real
def test_the_command_recovers_gravity_from_a_program(tmp_path: Path) -> None:
    words = ("--black-box", one_ball(tmp_path), "--budget", 24, "--workers", 2, "--json")
    done = run("calibrate", *words, "--on", "threads", "-o", tmp_path / "fit")
    document = json.loads(done.stdout)
    assert document["values"]["gravity"] == pytest.approx(9.81, rel=0.02)
    assert document["evaluations"] == 24
    assert document["failed"] == 0
    assert "drops.py" in document["asked"]["simulator"]
    assert done.stderr.startswith("runs ")  # the announcement comes first
    listed = (tmp_path / "fit" / "commands.txt").read_text()
    assert f"every command: {tmp_path / 'fit' / 'commands.txt'}" in done.stderr
    printed = run("calibrate", "--black-box", tmp_path / "bench.yaml", "--dry-run").stdout
    assert printed == listed
    assert "--height=2 '--gravity={gravity}' --drag=0.05" in listed
    text = (tmp_path / "fit" / "report.md").read_text()
    assert "height" in text
    assert (tmp_path / "fit" / "report.html").exists()
    assert not (tmp_path / "fit" / "scenario.yaml").exists()


#: Crashes, hangs, prints garbage or NaN, depending on its input; else a ball without air.
MOODY = """
    import json, sys, time
    given = dict(word[2:].split("=") for word in sys.argv[1:])
    gravity = float(given["gravity"])
    if gravity > 14: sys.exit("too heavy")
    if gravity > 13: time.sleep(600)
    if gravity > 12: print("no idea"); sys.exit()
    first = float("nan") if gravity > 11 else (2 * float(given["height"]) / gravity) ** 0.5
    print(json.dumps({"first": first}))
"""


@pytest.mark.real
def test_failing_programs_are_counted_and_tolerated(tmp_path: Path) -> None:
    """With a longer time limit, since other runs exceed a short one on a busy machine."""
    for limit in (0.5, 2, 8, 32):
        bench = one_ball(tmp_path, MOODY, seconds=f"{limit}s")
        words = ("--black-box", bench, "--budget", 20, "--optimiser", "lhs", "--json")
        place = ("--on", "threads", "-o", tmp_path / f"fit-{limit}")
        done = CliRunner().invoke(app, [str(word) for word in ("calibrate", *words, *place)])
        # Of twenty points evenly spread over 5 to 15, eight are above 11: two per kind of failure.
        document = json.loads(done.stdout)
        if document.get("failed") == 8:
            break
    assert done.exit_code == 0, done.output
    assert document["evaluations"] == 20
    assert document["failed"] == 8
    assert document["values"]["gravity"] < 11
    warnings = " ".join(document["warnings"])
    assert "too heavy" in warnings


@pytest.mark.real
def test_a_simulator_that_always_fails_is_an_error_and_can_be_retried(tmp_path: Path) -> None:
    bench = one_ball(tmp_path, "import sys; sys.exit('not installed')")
    words = ("--black-box", bench, "--budget", 4, "--on", "threads", "-o", tmp_path / "fit")
    refused = run("calibrate", *words, ends_with=2)
    assert "all 4 evaluations failed" in refused.stderr
    assert "not installed" in refused.stderr
    (tmp_path / "program.py").write_text("print(0.65)")  # a single number is the only output
    run("calibrate", *words)
    assert (tmp_path / "fit" / "fit.json").exists()


def truck(values: dict[str, float], case: dict[str, float]) -> dict[str, float]:
    if values["speed"] > 90:
        raise ValueError("too fast")
    time = case["distance"] / values["speed"] + values["loading"]
    return {"time": math.nan if values["speed"] > 80 else time}


TRIPS = [
    Experiment(case={"distance": d}, truth={"time": d / 30.0 + 0.5}) for d in (30.0, 60.0, 240.0)
]
SPACE = {"speed": {"exponential": [10, 100]}, "loading": {"linear": [0, 2]}}


def test_a_function_is_calibrated_and_its_failures_are_tolerated(tmp_path: Path) -> None:
    words: dict[str, Any] = {"on": "serial", "budget": 250}
    fit = calibrate_black_box(truck, TRIPS, SPACE, folder=tmp_path / "fit", **words)
    assert fit.values["speed"] == pytest.approx(30.0, rel=0.01)
    assert fit.values["loading"] == pytest.approx(0.5, rel=0.05)
    assert 0 < fit.failed < 250
    assert any("too fast" in line for line in fit.warnings)
    again = calibrate_black_box(truck, TRIPS, SPACE, **words)
    assert again.values == fit.values
    assert again.history.equals(fit.history)


def test_an_edited_function_does_not_resume_the_search_of_the_previous_one(tmp_path: Path) -> None:
    def truck_of(factor: float) -> Any:
        def drive(values: dict[str, float], case: dict[str, float]) -> dict[str, float]:
            return {"time": factor * case["distance"] / values["speed"]}

        return drive

    def die(what: str, at: Any) -> None:
        raise KeyError("killed")

    trips = [Experiment(case={"distance": 60.0}, truth={"time": 2.0})]
    words: dict[str, Any] = {
        "parameters": {"speed": {"linear": [10, 100]}},
        "on": "serial",
        "budget": 40,
        "analysis": 0,
        "folder": tmp_path / "fit",
    }
    with pytest.raises(KeyError, match="killed"):
        calibrate_black_box(truck_of(1.0), trips, progress=die, **words)
    with pytest.raises(InputError, match=r"code: was .* when the journal was created"):
        calibrate_black_box(truck_of(2.0), trips, **words)
    assert calibrate_black_box(truck_of(1.0), trips, **words).evaluations == 40


class Interrupted(Exception):
    pass


def stop(*_: object) -> None:
    raise Interrupted


def test_a_function_that_cannot_be_compared_does_not_resume_another_search(tmp_path: Path) -> None:
    lock = threading.Lock()

    def of_speed(factor: float) -> Any:
        def simulator(values: dict[str, float], case: dict[str, float]) -> dict[str, float]:
            with lock:
                return {"time": factor * case["distance"] / values["speed"]}

        return simulator

    experiments = [Experiment(case={"distance": 60.0}, truth={"time": 2.0})]
    settings: dict[str, Any] = {"on": "serial", "budget": 200, "folder": tmp_path / "fit"}
    speed = {"speed": {"linear": [10, 100]}}
    with pytest.raises(Interrupted):
        calibrate_black_box(of_speed(1.0), experiments, speed, progress=stop, **settings)
    kept = (tmp_path / "fit" / "journal.jsonl").read_bytes()
    with pytest.raises(InputError, match=r"simulator: cannot be compared .* \(start again"):
        calibrate_black_box(of_speed(2.0), experiments, speed, **settings)
    assert (tmp_path / "fit" / "journal.jsonl").read_bytes() == kept


@pytest.mark.real
@pytest.mark.parametrize("way", ["program", "argument", "file of a case"])
def test_an_edited_program_does_not_resume_the_search_of_the_previous_one(
    tmp_path: Path, way: str
) -> None:
    program = tmp_path / "sim.py"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(2 / float(sys.argv[1]))\n")
    program.chmod(0o755)
    given = tmp_path / "input.txt"
    given.write_text("2")
    words = [str(program)] if way == "program" else [sys.executable, "{folder}/sim.py"]
    command = {"command": [*words, "{speed}", "{case.input}"], "folder": str(tmp_path)}
    experiments = [Experiment(case={"input": str(given)}, truth={"value": 1.0})]
    settings: dict[str, Any] = {"on": "serial", "budget": 16, "folder": tmp_path / "fit"}
    speed = {"speed": {"linear": [1, 10]}}
    with pytest.raises(Interrupted):
        calibrate_black_box(command, experiments, speed, progress=stop, **settings)
    edited = given if way == "file of a case" else program
    edited.write_text(edited.read_text() + "\n")
    with pytest.raises(InputError, match=rf"programs.*{edited.name}.*when the journal was created"):
        calibrate_black_box(command, experiments, speed, **settings)


def test_a_loss_of_the_user_is_minimised() -> None:
    def late(truth: Any, output: Any) -> float:
        return abs(output["time"] - truth["time"] - 1.0)

    fit = calibrate_black_box(
        lambda values: {"time": values["x"]},
        [Experiment(truth={"time": 2.0})],
        {"x": {"linear": [0, 10]}},
        loss=late,
        on="serial",
        budget=200,
    )
    assert fit.values["x"] == pytest.approx(3.0, rel=0.01)
    assert fit.loss_name.endswith("late")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runs/a"], "REAL applies to recorded runs"),
        (["--loss", "makespan"], "--loss applies to recorded runs"),
        (["--choose"], "--choose applies to recorded runs"),
        (["--validate", "runs/a"], "--validate applies to recorded runs"),
        (["--on", "moon"], "moon"),
        (["--workers", "0"], "0"),
    ],
)
def test_options_that_do_not_apply_to_a_black_box_are_refused(
    tmp_path: Path, words: list[str], message: str
) -> None:
    given = ("--black-box", one_ball(tmp_path), "--budget", 2, "-o", tmp_path / "fit", *words)
    refused = run("calibrate", *given, ends_with=2)
    assert message in refused.stderr
    assert "Traceback" not in refused.output


def test_problems_of_a_black_box_file_have_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "bench.yaml"
    file.write_text("black_box: {command: [sim]}\nexperiments:\n  - case: {height: 1}\n")
    with pytest.raises(InputError) as error:
        BlackBoxCalibration.load(file)
    assert f"{file}:3: experiments[0].truth: is missing" in str(error.value)
    file.write_text("black_box: {command: [sim]}\nexperiments:\n  - truth: {time: 1}\n")
    refused = run("calibrate", "--black-box", file, "-o", tmp_path / "fit", ends_with=2)
    assert "the parameters to fit are missing" in refused.stderr
