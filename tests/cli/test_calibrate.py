"""The command `twinloop calibrate`: output, journal, hold-out runs and errors."""

import doctest
import json
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import twinloop as tl
from tests.calibration.test_fit import truth, untimed
from tests.cli.json_page import list_keys
from tests.cli.test_commands import answer, run
from twinloop.calibration import Fit
from twinloop.cli import app
from twinloop.recordings import __main__ as recordings

ROOT = Path(__file__).resolve().parents[2]
TRUST = ROOT / "examples" / "trust"
PAGE = ROOT / "docs" / "calibrate.md"
SAME = doctest.OutputChecker().check_output
QUICK = ("--budget", 64, "--analysis", 0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two runs of one scenario, a run of a larger scenario, and the parameter file."""
    there = tmp_path_factory.mktemp("runs")
    made = {
        "a": truth(speed_factor=0.8),
        "b": truth(speed_factor=0.82),
        "large": truth(20, speed_factor=0.8),
    }
    found = {name: trace.save(there / name) for name, trace in made.items()}
    found["params"] = there / "params.yaml"
    found["params"].write_text("parameters:\n  speed_factor: {linear: [0.5, 2]}\n")
    return found


def test_the_value_is_found_and_all_reported_files_are_written(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    there = tmp_path / "fit"
    words = ("calibrate", runs["a"], runs["large"], "--params", runs["params"], "-o", there)
    done = run(*words, "--budget", 100, "--analysis", 1300)
    assert done.stdout.splitlines()[0] == "predict: nothing taken from the real runs"
    assert "speed_factor" in done.stdout
    assert f"wrote {there}" in done.stderr
    assert {path.name for path in there.iterdir()} == {
        *("scenario.yaml", "scenario-2.yaml", "fit.json", "report.html", "report.md"),
        *("history.parquet", "cloud.parquet", "draws.parquet", "journal.jsonl"),
    }
    fit = tl.Fit.load(there)
    assert fit.values["speed_factor"] == pytest.approx(0.8, rel=0.01)
    assert tl.Scenario.load(there / "scenario-2.yaml").model == fit.model
    assert answer("simulate", there / "scenario.yaml")["tasks"] == 12
    assert (there / "report.md").read_text().startswith("# Calibration\n\npredict: nothing")
    assert "<html" in (there / "report.html").read_text().lower()

    before = {path.name: path.read_bytes() for path in there.iterdir()}
    refused = run(*words, ends_with=2)
    assert "a calibration is stored there already" in refused.stderr
    assert {path.name: path.read_bytes() for path in there.iterdir()} == before


def test_json_output_is_one_object_with_the_documented_keys(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    words = ["calibrate", runs["a"], "--params", runs["params"], "-o", tmp_path / "fit", *QUICK]
    done = run(*words, "--json")
    document = json.loads(done.stdout)
    assert set(document) == list_keys("calibrate")
    kept = json.loads((tmp_path / "fit" / "fit.json").read_bytes())
    assert {**kept, "output": str(tmp_path / "fit")} == document
    assert document["asked"]["budget"] == {"evaluations": 64, "seconds": None}
    assert document["runs"][0]["name"] == str(runs["a"])
    assert "64 tried" in done.stderr
    error: Any = answer(*words, ends_with=2)["error"]
    assert "stored there already" in error["message"]


def test_a_search_with_a_journal_is_resumed(runs: dict[str, Path], tmp_path: Path) -> None:
    words = ["calibrate", runs["a"], "--params", runs["params"], "--optimiser", "de", *QUICK, "-o"]
    run(*words, tmp_path / "whole")
    # A killed process leaves the beginning of its journal.
    journal = tmp_path / "killed" / "journal.jsonl"
    journal.parent.mkdir()
    first = (tmp_path / "whole" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(first[:2]) + first[2][:9])
    assert f"resuming from {journal}" in run(*words, journal.parent).stderr.replace("\n", "")
    killed, whole = Fit.load(journal.parent), Fit.load(tmp_path / "whole")
    assert untimed(killed) == untimed(whole)
    assert killed.history.equals(whole.history)


def test_the_best_pair_is_chosen_and_all_are_stored(runs: dict[str, Path], tmp_path: Path) -> None:
    words = ("calibrate", runs["a"], "--params", runs["params"], "-o", tmp_path / "fit")
    found = answer(*words, "--choose", *QUICK)
    tried = pl.read_csv(tmp_path / "fit" / "choice.csv")
    assert tried["distance"].drop_nulls().is_sorted()
    assert (found["loss_name"], found["optimiser"]) == tried.row(0)[:2]
    assert found["values"]["speed_factor"] == pytest.approx(0.8, rel=0.01)


def test_runs_are_held_out_by_name_or_by_a_rule(runs: dict[str, Path], tmp_path: Path) -> None:
    params = ("--params", runs["params"], *QUICK)
    words = ("calibrate", runs["a"], runs["large"])
    by_size = answer(*words, *params, "--hold-out", "size", "-o", tmp_path / "size")
    named = answer(
        "calibrate", runs["a"], "--validate", runs["large"], *params, "-o", tmp_path / "named"
    )
    used: Any = {each["name"]: each["used"] for each in by_size["runs"]}  # type: ignore[attr-defined]
    assert used == {str(runs["a"]): "training", str(runs["large"]): "validation"}
    assert by_size["values"] == named["values"]
    assert by_size["validation_loss"] == named["validation_loss"]
    report = (tmp_path / "named" / "report.md").read_text()
    assert f"| {runs['large']} | validation |" in report


def test_repetitions_give_the_noise_floor(runs: dict[str, Path], tmp_path: Path) -> None:
    words = ("calibrate", runs["a"], runs["b"], "--params", runs["params"], *QUICK)
    text = run(*words, "-o", tmp_path / "fit").stdout
    assert "between repetitions of the real runs (noise floor): " in text
    assert not (tmp_path / "fit" / "scenario-2.yaml").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parameters:\n  startup_overhed: {linear: [0, 1]}\n", ":2: parameters.startup_overhed: "),
        ("parameters:\n\n  speed_factor: {linear: [2, 1]}\n", ":3: parameters.speed_factor.linear"),
        ("parameters:\n  speed_factor: {linaer: [1, 2]}\n", ":2: parameters.speed_factor: "),
        ("parameters:\n  speed_factor: {linear: [-2, 1]}\n", ":2: parameters.speed_factor: "),
        ("speed_factor: {linear: [1, 2]}\n", ":1: speed_factor: is not a field"),
    ],
)
def test_errors_in_the_parameters_have_file_line_and_field(
    runs: dict[str, Path], tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(text)
    words = ("calibrate", runs["a"], "--params", file, "-o", tmp_path / "fit")
    assert f"{file}{message}" in run(*words, ends_with=2).stderr.replace("\n", "")
    error: Any = answer(*words, ends_with=2)["error"]
    assert error["file"] == str(file)
    assert error["line"] == int(message[1])
    assert not (tmp_path / "fit").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["A"], "an output folder is needed"),
        (["-o", "FIT"], "at least one run is needed"),
        (["A", "-o", "A"], "is not a calibration"),
        (["A", "-o", "PARAMS"], "is not a folder"),
        (["A", "A", "-o", "FIT"], "is given twice"),
        (["A", "--validate", "A", "-o", "FIT"], "cannot be validation data"),
        (["A", "--hold-out", "run", "-o", "FIT"], "cannot be divided"),
        (["A", "B", "--validate", "LARGE", "--hold-out", "run", "-o", "FIT"], "--hold-out"),
        (["A", "--budget", "soon", "-o", "FIT"], "budget"),
        (["A", "--loss", "nosuch", "-o", "FIT"], "no loss is called 'nosuch'"),
        (["A", "--optimiser", "nosuch", "-o", "FIT"], "nosuch"),
        (["A", "--aggregate", "median", "-o", "FIT"], "median"),
        (["A", "--seed", "-1", "-o", "FIT"], "seed"),
        (["A", "--workers", "0", "-o", "FIT"], "--workers: must be at least 1, not 0 [TL0206]"),
        (["A", "--on", "clouds", "-o", "FIT"], "there is no coordinator"),
        (["A", "--criteria", "PARAMS", "-o", "FIT"], "parameters"),
    ],
)
def test_invalid_options_are_an_error_and_leave_no_output(
    runs: dict[str, Path], tmp_path: Path, words: list[str], message: str
) -> None:
    there = tmp_path / "fit"
    known = {name.upper(): str(path) for name, path in runs.items()} | {"FIT": str(there)}
    given = [known.get(word, word) for word in words]
    refused = run("calibrate", *given, "--params", runs["params"], *_quick(words), ends_with=2)
    assert message in refused.stderr
    assert "Traceback" not in refused.output
    assert not there.exists() or not list(there.iterdir())


def _quick(words: list[str]) -> tuple[object, ...]:
    return () if "--budget" in words else QUICK


def test_a_log_without_a_scenario_needs_the_option(tmp_path: Path, runs: dict[str, Path]) -> None:
    log = tmp_path / "log.swf"
    log.write_text(
        "".join(f"{n} {n} 0 5 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 -1 -1\n" for n in range(1, 9))
    )
    words = ("calibrate", log, "--params", runs["params"], *QUICK, "-o", tmp_path / "fit")
    assert "--scenario scenario.yaml" in run(*words, ends_with=2).stderr
    file = tmp_path / "scenario.yaml"
    file.write_text("platform: 1x8\nworkload: log.swf\npolicy: fcfs\n")
    text = run(*words, "--scenario", file).stdout
    assert text.startswith("replay: ")


# --- the shipped example and its page ------------------------------------------------------------


def test_the_shipped_runs_have_no_paths_and_are_runs_of_the_shipped_scenarios(
    trust_runs: Path,
) -> None:
    found = sorted(trust_runs.iterdir())
    assert [path.name for path in found] == ["one", "one-again", "two", "two-again"]
    size = 0
    for folder in found:
        trace = tl.Trace.load(folder)
        scenario = tl.Scenario.load(TRUST / f"{folder.name.removesuffix('-again')}.yaml")
        assert tl.Scenario.from_manifest(trace.manifest) == scenario
        assert trace.manifest.facts["mode"] == "real"
        assert (trace.tasks["status"] == "completed").all()
        assert {path.suffix for path in folder.iterdir()} == {".json", ".parquet"}
        size += sum(path.stat().st_size for path in folder.iterdir())
        texts = (folder / "manifest.json").read_text() + str(trace.tasks.rows())
        assert not re.search(r"[\"' ]/\w", texts), "an absolute path"
    assert size < 300_000


def test_the_commands_of_the_page_print_the_shown_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    extraction = re.search(r"^python -m twinloop.recordings (.+)$", PAGE.read_text(), re.MULTILINE)
    assert extraction is not None
    assert recordings.main(shlex.split(extraction[1])) == 0
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    count = 0
    for block in blocks:
        for part in block.split("$ ")[1:]:
            command, _, expected = part.replace("\\\n", "").partition("\n")
            program, *words = shlex.split(command)
            assert program == "twinloop"
            result = CliRunner().invoke(app, words)
            # A verdict may be PASS, FAIL or not assessable.
            assert result.exit_code in ((0, 1, 3) if words[0] == "assess" else (0,)), result.output
            shown = result.stderr + result.stdout
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            assert SAME(expected, shown, flags), f"{command}\n{shown}"
            count += 1
    assert count >= 5
