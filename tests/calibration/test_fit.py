"""Stored calibrations: complete, never overwritten, equal for any number of threads."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from twinloop.calibration import Fit, Space, calibrate
from twinloop.description.errors import InputError
from twinloop.engine import simulate
from twinloop.scenario import Scenario
from twinloop.trace import Trace

SPEED = {"speed_factor": {"linear": [0.5, 2]}}
BOTH = {**SPEED, "startup_overhead": {"linear": [0, 2]}}
#: Fields with durations and dates.
CLOCKS = ("seconds",)


def scenario(tasks: int = 12, **changes: Any) -> Scenario:
    made = Scenario(
        platform="2x1",
        policy="fcfs",
        workload={"generate": {"name": "poisson", "parameters": {"tasks": tasks}}},
        seed=3,
    )
    return made.replace(**{f"model.{name}": value for name, value in changes.items()})


def truth(tasks: int = 12, **values: Any) -> Trace:
    """A run simulated with these values, with the default values in its manifest."""
    run = simulate(scenario(tasks, **values))
    manifest = run.manifest.model_copy(update={"scenario": scenario(tasks).to_manifest()})
    return run.replace(manifest=manifest)


def untimed(fit: Fit) -> dict[str, Any]:
    return {name: value for name, value in fit.to_dict().items() if name not in CLOCKS}


@pytest.fixture(scope="module")
def real() -> Trace:
    return truth(speed_factor=0.8, startup_overhead=0.5)


@pytest.fixture(scope="module")
def fit(real: Trace) -> Fit:
    return calibrate(real, parameters=BOTH, budget=200, analysis=1500)


# --- stored and read back ------------------------------------------------------------------------


def test_a_saved_fit_is_read_unchanged(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit")
    read = Fit.load(tmp_path / "fit")
    assert read == fit
    # The verdicts are not stored, because the runs can be assessed again.
    assert {**untimed(read), "verdicts": 0} == {**untimed(fit), "verdicts": 0}
    for name in ("history", "confidence_region", "draws"):
        assert getattr(read, name).equals(getattr(fit, name))
    assert Scenario.load(tmp_path / "fit" / "scenario.yaml") == fit.scenario
    assert str(read).splitlines()[0] == "predict: nothing taken from the real runs"


def test_a_fit_is_never_overwritten(fit: Fit, real: Trace, tmp_path: Path) -> None:
    kept = fit.save(tmp_path / "fit")
    before = {path.name: path.read_bytes() for path in kept.iterdir()}
    with pytest.raises(InputError, match="stored there already"):
        fit.save(kept)
    with pytest.raises(InputError, match="stored there already"):
        calibrate(real, parameters=SPEED, folder=kept)
    run = real.save(tmp_path / "run")
    with pytest.raises(InputError, match="is not a calibration"):
        fit.save(run)
    with pytest.raises(InputError, match="is not a folder"):
        fit.save(run / "manifest.json")
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before


def test_the_settings_suffice_to_repeat_a_fit(fit: Fit, real: Trace, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit")
    kept = Fit.load(tmp_path / "fit")
    again = calibrate(
        real,
        parameters=kept.settings["parameters"],
        loss=kept.loss_name,
        aggregate=kept.aggregation,
        optimiser=kept.settings["optimiser"],
        budget=kept.settings["budget"]["evaluations"],
        seed=kept.seed,
        analysis=kept.settings["analysis"],
    )
    assert untimed(again) == untimed(fit)
    assert again.history.equals(kept.history)
    (run,) = kept.runs
    assert len(run["manifest_sha256"]) == 64
    changed = real.replace(manifest=real.manifest.model_copy(update={"epoch_ms": 1}))
    other = calibrate(changed, parameters=SPEED, budget=20, analysis=0)
    assert other.runs[0]["manifest_sha256"] != run["manifest_sha256"]


@pytest.mark.parametrize("damage", ["{", "[]", '{"values": {}}'])
def test_a_folder_that_cannot_be_read_is_named(fit: Fit, tmp_path: Path, damage: str) -> None:
    with pytest.raises(InputError, match="no calibration is stored there"):
        Fit.load(tmp_path)
    fit.save(tmp_path / "fit")
    (tmp_path / "fit" / "fit.json").write_text(damage)
    with pytest.raises(InputError, match=r"fit\.json: (\w+: )?cannot be read"):
        Fit.load(tmp_path / "fit")


def test_the_report_has_every_value_verdict_and_run(fit: Fit) -> None:
    text = fit.markdown()
    assert text.splitlines()[2] == "predict: nothing taken from the real runs"
    for name, value in fit.values.items():
        assert f"| {name} | {fit.defaults[name]:.4g} | {value:.4g} |" in text
    (before,), (after,) = fit.before, fit.after
    assert f"| run 1 | {before[1].status} | {after[1].status} |" in text
    for found in after[1].findings:
        assert f"| run 1 | {found.metric}, {found.name} | {found.threshold} |" in text
    assert fit.runs[0]["manifest_sha256"] in text
    assert '| range of speed_factor | `{"linear": [0.5, 2.0]}` |' in text
    assert "Criteria: the defaults" in text
    assert all(line.strip() in text for line in fit.recipe)


# --- reproducibility -----------------------------------------------------------------------------


@pytest.mark.real
def test_a_calibration_killed_twice_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Processes are killed one after the other, during and after the search."""
    run = truth(30, speed_factor=0.8).save(tmp_path / "run")
    params = tmp_path / "params.yaml"
    params.write_text(json.dumps(Space.from_dict({"parameters": BOTH}).to_dict()))
    words: dict[str, Any] = {"optimiser": "de", "budget": 448, "analysis": 0}
    given = {"names": [str(run)], "parameters": BOTH, **words}
    whole = calibrate(Trace.load(run), folder=tmp_path / "whole", **given)
    there = tmp_path / "killed"
    journal = there / "journal.jsonl"
    rows = lines(tmp_path / "whole" / "journal.jsonl")
    command = [sys.executable, "-m", "twinloop", "calibrate", str(run), "--params", str(params)]
    command += [word for name, value in words.items() for word in (f"--{name}", str(value))]
    for moment in (3, rows):
        child = subprocess.Popen(
            [*command, "-o", str(there)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 120
        while lines(journal) < moment and child.poll() is None and time.monotonic() < until:
            time.sleep(0.002)
        child.kill()
        child.wait()
        assert journal.exists()
    if not (there / "fit.json").exists():  # unless the last process ended before it was killed
        calibrate(Trace.load(run), folder=there, **given)
    again, kept = Fit.load(there), Fit.load(tmp_path / "whole")
    assert again.values == whole.values
    assert untimed(again) == untimed(kept)
    one, other = (folder / "history.parquet" for folder in (there, tmp_path / "whole"))
    assert one.read_bytes() == other.read_bytes()
    assert not [path for path in there.iterdir() if path.name.startswith(".")]


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_the_number_of_threads_changes_nothing(real: Trace, tmp_path: Path) -> None:
    for threads in (1, 2):
        calibrate(
            real,
            parameters=BOTH,
            budget=150,
            analysis=1300,
            threads=threads,
            folder=tmp_path / f"{threads}",
        )
    one, two = (Fit.load(tmp_path / name) for name in "12")
    assert untimed(one) == untimed(two)
    for name in ("history", "cloud", "draws"):
        first, second = (tmp_path / folder / f"{name}.parquet" for folder in "12")
        assert first.read_bytes() == second.read_bytes(), name


def test_a_different_calibration_does_not_resume_from_the_journal(
    real: Trace, tmp_path: Path
) -> None:
    class Killed(Exception):
        pass

    def die(what: str, at: Any) -> None:
        raise Killed

    with pytest.raises(Killed):
        calibrate(real, parameters=SPEED, budget=200, folder=tmp_path / "fit", progress=die)
    for changes in ({"seed": 1}, {"budget": 300}, {"loss": "makespan"}, {"parameters": BOTH}):
        words = {"parameters": SPEED, "budget": 200, **changes}
        with pytest.raises(InputError, match="when the journal was created"):
            calibrate(real, folder=tmp_path / "fit", **words)
    fit = calibrate(real, parameters=SPEED, budget=200, analysis=0, folder=tmp_path / "fit")
    assert fit.evaluations == 200

    def loss_of(factor: float) -> Any:
        def mine(first: Any, twin: Any) -> float:
            return float(abs(twin.makespan - factor * first.makespan))

        return mine

    own = {"parameters": SPEED, "budget": 20, "analysis": 0, "folder": tmp_path / "own"}
    with pytest.raises(Killed):
        calibrate(real, loss=loss_of(1.0), progress=die, **own)
    with pytest.raises(InputError, match=r"loss_code: was .* when the journal was created"):
        calibrate(real, loss=loss_of(1.2), **own)
    assert calibrate(real, loss=loss_of(1.0), **own).evaluations == 20


# --- hold-out runs, failures and warnings --------------------------------------------------------


def test_held_out_runs_affect_only_the_validation_loss(real: Trace) -> None:
    other = truth(speed_factor=1.6, startup_overhead=0.5)
    alone = calibrate(real, parameters=BOTH, budget=200, analysis=0)
    fit = calibrate(real, parameters=BOTH, budget=200, analysis=0, validation=[other])
    assert fit.values == alone.values
    assert alone.validation_loss is None
    assert [run["used"] for run in fit.runs] == ["training", "validation"]
    assert fit.validation_loss is not None
    assert fit.validation_loss > fit.loss
    assert any("the fit does not generalise" in line for line in fit.warnings)
    with pytest.raises(InputError, match="same run"):
        calibrate(real, parameters=BOTH, validation=[real])
    # A repetition with the same result.
    later = real.replace(placements=real.placements.with_columns(pl.col("end") + 1e-9))
    same = calibrate(real, parameters=BOTH, budget=200, analysis=0, validation=[later])
    assert same.validation_loss == pytest.approx(same.loss, abs=1e-6)
    assert not any("the fit does not generalise" in line for line in same.warnings)


def test_a_replay_is_named_a_replay(tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    log.write_text(
        "".join(
            f"{n} {n} 0 {5 + 3 * (n % 3)} 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n"
            for n in range(1, 13)
        )
    )
    given = Scenario(platform="2x1", policy="fcfs", workload=str(log))
    real = simulate(given.replace(**{"model.speed_factor": 0.9}))
    fit = calibrate(real, scenario=given, parameters=SPEED, budget=100, analysis=0)
    assert fit.values["speed_factor"] == pytest.approx(0.9, rel=0.02)
    assert str(fit).splitlines()[0].startswith("replay: ")
    assert any("(replay)" in line for line in fit.warnings)
    assert fit.markdown().splitlines()[2].startswith("replay: ")


def test_values_that_cannot_be_simulated_are_counted_and_explained(real: Trace) -> None:
    """In a third of the range, hosts are too small for every task."""
    space = {**SPEED, "platform.clusters[0].hosts[0].cores": {"linear": [0, 2], "integer": True}}
    fit = calibrate(real, parameters=space, budget=48, optimiser="random", analysis=0)
    assert 0 < fit.failed < 48
    assert fit.failed == fit.history["failed"].sum()
    assert fit.values["platform.clusters[0].hosts[0].cores"] == 1
    assert any("evaluations failed: " in line for line in fit.warnings)
    assert f"{fit.failed:,} failed" in str(fit)


def test_a_fit_without_any_simulation_is_an_error_and_can_be_retried(
    real: Trace, tmp_path: Path
) -> None:
    words = {"parameters": SPEED, "budget": 20, "folder": tmp_path / "fit", "analysis": 0}
    with pytest.raises(InputError, match=r"all 20 evaluations failed: threads"):
        calibrate(real, threads=0, **words)
    assert calibrate(real, **words).evaluations == 20


def test_an_incomplete_confidence_region_is_reported(real: Trace, fit: Fit) -> None:
    short = calibrate(real, parameters=BOTH, budget=30, analysis=40)
    assert any("the confidence region is incomplete" in line for line in short.warnings)
    assert not any("the confidence region" in line for line in fit.warnings)


def test_a_budget_that_is_too_small_for_the_analysis_affects_nothing_else(real: Trace) -> None:
    fit = calibrate(real, parameters=BOTH, budget=100, analysis=60)
    assert fit.values["speed_factor"] == pytest.approx(0.8, rel=0.1)
    assert fit.draws is None
    assert any("60 evaluations are too few" in line for line in fit.warnings)


def test_a_loss_below_the_noise_floor_is_no_proof_of_a_good_model() -> None:
    """The twin between two repetitions is closer to both than they are to each other."""
    below = calibrate(
        [truth(speed_factor=0.8), truth(speed_factor=0.84)], parameters=SPEED, budget=60, analysis=0
    )
    assert below.floor is not None
    assert below.loss < below.floor
    warning = "the fit is closer to these runs than they are to each other"
    assert warning in str(below)
    assert warning.capitalize() in below.markdown()
    for text in (str(below), below.markdown()):
        assert "much better" not in text
    # With a scenario without repetitions, floor and loss would be of different runs.
    mixed = [truth(speed_factor=0.8), truth(speed_factor=0.84), truth(20, speed_factor=0.82)]
    assert calibrate(mixed, parameters=SPEED, budget=60, analysis=0).floor is None


def test_values_that_are_no_improvement_give_a_warning() -> None:
    found = calibrate(truth(), parameters=SPEED, budget=4, optimiser="random", analysis=0)
    assert found.loss > found.loss_before == 0.0
    assert any("no better than the values before" in line for line in found.warnings)
    assert not any("better" in line for line in found.recipe)


def test_a_value_at_the_end_of_its_range_gives_a_warning(real: Trace) -> None:
    narrow = {"speed_factor": {"linear": [1, 2]}}
    fit = calibrate(real, parameters=narrow, budget=100, analysis=0)
    assert any("is at the end of its range" in line for line in fit.warnings)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("startup_overhed", "did you mean 'startup_overhead'"),
        ("service_factors.cahce", "no task has the kind 'cahce'"),
        ("contention.kinds.cpu.pressure", "no task has the kind 'cpu'"),
        ("power.idle", "power model"),
        ("platform.clusters[3].hosts[0].mhz", "no item 3"),
        ("policy.nmae", "nmae"),
        ("contention.table[2]", "contention"),
        ("source", "is neither a value of the model"),
    ],
)
def test_an_unknown_value_is_refused_before_any_simulation(
    real: Trace, tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        calibrate(real, parameters={name: {"linear": [0.5, 1]}}, folder=tmp_path / "fit")
    assert message in str(error.value)
    assert error.value.field == f"parameters.{name}"
    assert not (tmp_path / "fit").exists()


# --- predictions ---------------------------------------------------------------------------------


def test_intervals_contain_the_median_and_widen_with_the_level(fit: Fit) -> None:
    larger = scenario(40)
    outputs = ("makespan_s", "wait_mean_s", "turnaround_mean_s")
    widths = []
    for level in (0.5, 0.9, 0.99):
        found = fit.predict(larger, level=level, outputs=outputs)
        assert found.table["figure"].to_list() == list(outputs)
        for figure in outputs:
            low, median, high = found[figure]
            assert low <= median <= high
        widths.append([high - low for low, _, high in (found[figure] for figure in outputs)])
    for narrow, wide in pairwise(widths):
        assert all(one < other for one, other in zip(narrow, wide, strict=True))


def test_intervals_from_one_run_are_reported_as_too_narrow(fit: Fit, tmp_path: Path) -> None:
    prediction = fit.predict(scenario(20))
    assert not prediction.scatter_known
    assert "of runs" not in str(prediction)
    assert "the scatter of real runs is unknown" in str(prediction)
    assert any("cannot be estimated from one run per" in line for line in fit.warnings)
    fit.save(tmp_path / "fit")
    assert not Fit.load(tmp_path / "fit").predict(scenario(20)).scatter_known
    two = [truth(speed_factor=0.8), truth(speed_factor=0.84)]
    repeated = calibrate(two, parameters=SPEED, budget=60, analysis=1500)
    assert repeated.predict(scenario(20)).scatter_known
    assert "90% of runs between" in str(repeated.predict(scenario(20)))
    assert not any("cannot be estimated from one run per" in line for line in repeated.warnings)


def test_a_loss_without_residuals_by_run_gives_a_warning() -> None:
    two = [truth(speed_factor=0.8), truth(speed_factor=0.84)]
    shown, hidden = (
        calibrate(two, parameters=SPEED, budget=20, analysis=1500, loss=loss).warnings
        for loss in ("matched", "hausdorff-all")
    )
    assert any("the variance between runs" in line for line in hidden)
    assert not any("the variance between runs" in line for line in shown)


def test_a_fit_that_was_read_predicts_the_same(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit")
    read = Fit.load(tmp_path / "fit")
    assert read.predict(scenario(20)).table.equals(fit.predict(scenario(20)).table)
    with pytest.raises(InputError, match="energy_j"):
        fit.predict(scenario(20), outputs=("energy_j",))


def test_without_an_analysis_there_is_no_prediction(real: Trace) -> None:
    fit = calibrate(real, parameters=SPEED, budget=30, analysis=0)
    with pytest.raises(InputError, match="has no analysis"):
        fit.predict(scenario(20))
