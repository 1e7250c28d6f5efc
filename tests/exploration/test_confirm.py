"""Confirmations: the order of runs, the verdicts, and real runs, stored and resumed."""

import json
import math
import resource
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import twinloop as tl
from twinloop.description.errors import InputError, UnwritableError
from twinloop.exploration.confirmation.bundles import bundle
from twinloop.exploration.confirmation.plan import ConfirmationPlan, compute_fingerprint
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.confirmation.run import confirm
from twinloop.exploration.confirmation.runs import (
    ConfirmationProgress,
    TimeBudget,
    load_complete_run,
)
from twinloop.exploration.ranking.candidate import Candidate


def waiting(seconds: float, tasks: int = 2, **more: Any) -> tl.Scenario:
    """A scenario of sleeping tasks, whose duration does not depend on the load of the machine."""
    command = ["sleep", str(seconds)]
    listed = [{"id": f"t{i}", "command": command, "run_time": seconds} for i in range(tasks)]
    return tl.Scenario(
        **{"platform": "1x1", "policy": "fifo", "workload": {"tasks": listed}, **more}  # type: ignore[arg-type]
    )


def named(name: str, predicted: float = 1.0, **more: Any) -> Candidate:
    """A candidate that is never executed."""
    scenario = tl.Scenario(platform="1x1", policy="fifo", workload="log.swf", name=name)
    return Candidate(name, scenario.replace(seed=len(name)), {"makespan_s": predicted}, **more)


def make_confirmation(
    predicted: dict[str, float], real: dict[str, list[float]], **more: Any
) -> Confirmation:
    """Make a confirmation from makespans; the last candidate is the baseline."""
    every = [named(name, value) for name, value in predicted.items()]
    rows = [
        {"candidate": name, "repetition": r, "makespan_s": None if math.isnan(s) else s}
        for name, values in real.items()
        for r, s in enumerate(values, start=1)
    ]
    return Confirmation.of(every[:-1], every[-1], rows, ["makespan_s"], **more)


# --- plan ----------------------------------------------------------------------------------------


@given(st.integers(1, 6), st.integers(1, 7), st.integers(0, 1000))
def test_each_block_contains_each_configuration_once(
    count: int, repetitions: int, seed: int
) -> None:
    every = [named("x" * (i + 1)) for i in range(count + 1)]
    plan = ConfirmationPlan(tuple(every[:-1]), every[-1], repetitions, seed)
    for number, block in enumerate(plan.blocks(), start=1):
        assert sorted(run.configuration for run in block) == list(range(count + 1))
        assert {run.repetition for run in block} == {number}
    assert [run.order for run in plan.runs] == list(range(1, (count + 1) * repetitions + 1))
    assert len({run.name for run in plan.runs}) == len(plan.runs)
    # Additional repetitions do not change earlier ones.
    longer = ConfirmationPlan(tuple(every[:-1]), every[-1], repetitions + 1, seed)
    assert longer.runs[: len(plan.runs)] == plan.runs


def test_orders_are_random_and_depend_on_the_seed() -> None:
    every = tuple(named("x" * (i + 1)) for i in range(3))
    orders = [
        tuple(run.configuration for run in block)
        for seed in range(20)
        for block in ConfirmationPlan(every[:2], every[2], 10, seed).blocks()
    ]
    counts = Counter(orders)
    # Six orders of three; each is expected in a sixth of 200 draws (sd 5.3).
    assert len(counts) == 6
    assert all(10 < times < 60 for times in counts.values())


def test_names_that_differ_only_in_signs_have_different_files() -> None:
    every = [named("pack +"), named("pack -"), named("!")]
    assert ConfirmationPlan((every[0], every[1]), every[2], 1).slugs == (
        "pack",
        "pack-2",
        "configuration",
    )


def test_fingerprints_depend_on_real_runs_and_not_on_the_model() -> None:
    base = waiting(0.1)

    def of(scenario: tl.Scenario) -> str:
        return compute_fingerprint(scenario.to_manifest())

    for change in (
        {"model.speed_factor": 2.0},
        {"name": "another"},
        {"model.overrides": {"clusters[0].hosts[0].mhz": "3 GHz"}},
    ):
        assert of(base.replace(**change)) == of(base)
    for change in (
        {"policy": "easy"},
        {"seed": 5},
        {"platform": "1x2"},
        {"model.kill_at_requested_time": True},
        {"model.overrides": {"clusters[0].hosts[0].cores": 2}},
    ):
        assert of(base.replace(**change)) != of(base)
    assert of(waiting(0.2)) != of(base)


@pytest.mark.parametrize(
    ("candidates", "baseline", "problem"),
    [
        ([named("a")], None, "there is no baseline to compare the candidates with"),
        ([named("a")], named("a"), "there is no candidate other than the baseline"),
        ([named("a"), named("bb")], Candidate("a", named("ccc").scenario, {}), "have the name 'a'"),
    ],
)
def test_invalid_candidates_are_errors(
    candidates: list[Candidate], baseline: Candidate | None, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        confirm(candidates, baseline=baseline)


# --- verdicts ------------------------------------------------------------------------------------


def test_verdicts_and_sentences() -> None:
    found = make_confirmation(
        {"fast": 86.0, "slow": 95.0, "like": 97.0, "base": 100.0},
        {
            "fast": [87.0, 88.0, 89.0, 88.0, 88.0],
            "slow": [106.0, 107.0, 105.0, 106.0, 106.0],
            "like": [95.0, 105.0, 100.0, 98.0, 102.0],
            "base": [100.0, 100.0, 100.0, 100.0, 100.0],
        },
    )
    assert [each.verdict for each in found.recommendations] == ["holds", "reversed", "tie"]
    assert found.status == "holds"
    fast, slow, like = (each.sentence for each in found.recommendations)
    # By hand: mean -12, sd 0.7071, t(4, 95 %) = 2.132, so -12 -+ 0.674.
    assert fast == "fast is 12 % faster than base (11 to 13 %), as predicted (14 %): holds"
    assert slow.startswith("slow is 6 % slower than base (5.3 to 6.7 %), but 5 % faster was")
    assert like.startswith("like against base, makespan_s: between 3.6 % faster and 3.6 % slower")
    assert found.recommendations[0].low == pytest.approx(
        -12 - 2.131847 * 0.5**0.5 / 5**0.5, abs=1e-4
    )
    # Six pairs; the order of the means is fast, base and like, slow.
    (row,) = found.ranks.to_dicts()
    assert not row["same"]
    assert row["pairs"] == row["agree"] + row["disagree"] + row["ties"] == 6
    assert found.reversed


def test_some_metrics_are_maximised() -> None:
    every = [Candidate("a", named("a").scenario, {"utilisation": 0.9})]
    every.append(Candidate("b", named("bb").scenario, {"utilisation": 0.5}))
    rows = [
        {"candidate": name, "repetition": r, "utilisation": value + r / 1000}
        for name, value in (("a", 0.8), ("b", 0.5))
        for r in (1, 2)
    ]
    found = Confirmation.of(every[:1], every[1], rows, ["utilisation"])
    assert found.table["predicted_rank"].to_list() == [1.0, 2.0]
    assert found.table["real_rank"].to_list() == [1.0, 2.0]
    assert found.status == "holds"


def test_one_repetition_has_no_interval() -> None:
    found = make_confirmation({"a": 9.0, "b": 10.0}, {"a": [9.0], "b": [10.0]})
    assert found.status == "not assessable"
    assert "one repetition has no interval" in found.recommendations[0].sentence
    assert found.ranks["same"].to_list() == [True]


def test_a_missing_prediction_is_not_described_as_no_difference() -> None:
    # By hand: mean -0.9, sd 0.1414, t(1, 95 %) = 6.314, so -0.9 -+ 0.631.
    for measured, expected in (
        ([9.0], "10 % faster (nothing was predicted); one repetition has no interval"),
        ([9.0, 9.2], "9 % faster (2.7 to 15 %); nothing was predicted"),
        ([], "nothing was predicted, and nothing was measured"),
    ):
        repetitions = range(1, len(measured) + 1)
        rows = [
            {"candidate": name, "repetition": r, "makespan_s": value}
            for name, values in (("a", measured), ("bb", [10.0] * len(measured)))
            for r, value in zip(repetitions, values, strict=True)
        ]
        rows = rows or [{"candidate": "a", "repetition": 1, "error": "lost"}]
        candidate, baseline = (replace(named(name), predicted={}) for name in ("a", "bb"))
        found = Confirmation.of([candidate], baseline, rows, ["makespan_s"])
        assert expected in found.recommendations[0].sentence


def test_missing_metrics_are_left_out_and_noted() -> None:
    every = [named("a"), named("bb")]
    rows = [
        {"candidate": each.name, "repetition": r, "makespan_s": r + len(each.name)}
        for each in every
        for r in (1, 2)
    ]
    found = Confirmation.of(every[:1], every[1], rows, ["makespan_s", "energy_per_task_j"])
    assert found.table["metric"].unique().to_list() == ["makespan_s"]
    assert found.notes == ("energy_per_task_j was not measured",)
    nothing = Confirmation.of(every[:1], every[1], rows, ["energy_per_task_j", "makespan_s"])
    assert nothing.status == "not measured"
    assert nothing.by == "energy_per_task_j"


def test_failed_repetitions_are_left_out_of_both() -> None:
    found = make_confirmation(
        {"a": 9.0, "b": 10.0},
        {"a": [9.0, math.nan, 9.2, 9.1], "b": [10.0, 50.0, 10.1, 10.2]},
    )
    assert found.status == "holds"
    (one,) = found.recommendations
    assert one.real == pytest.approx(-1.0)


def test_a_stored_confirmation_is_read_back(tmp_path: Path) -> None:
    found = make_confirmation(
        {"a": 9.0, "b": 10.0},
        {"a": [9.0, 9.1], "b": [10.0, 10.3]},
        probabilities={"a": 0.8},
        notes=["a note"],
        seed=3,
    )
    again = Confirmation.load(found.save(tmp_path / "kept"))
    assert again == found
    for table in ("runs", "table", "ranks", "pairs"):
        assert getattr(again, table).equals(getattr(found, table))
    assert (str(again), again.markdown()) == (str(found), found.markdown())
    assert again.recommendations[0].probability == 0.8
    (tmp_path / "kept" / "confirmation.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be read"):
        Confirmation.load(tmp_path / "kept")


def test_a_budget_cuts_repetitions_but_not_below_two() -> None:
    """Blocks of 10 s: 25 s allow two of five, 5 s also two, and one if one was requested."""

    def blocks(seconds: float, asked: int) -> int:
        number = 0
        while number < asked and TimeBudget.of(seconds).fits(10.0 * number, number, asked):
            number += 1
        return number

    assert [blocks(s, 5) for s in (5, 19, 25, 30, 49, 50, 500)] == [2, 2, 2, 3, 4, 5, 5]
    assert blocks(1, 1) == 1
    with pytest.raises(InputError, match="must be a positive time"):
        TimeBudget.of(0)


# --- real runs -----------------------------------------------------------------------------------


NAMES = ("short", "long")


def pair() -> tuple[list[Candidate], Candidate]:
    """A candidate with a sixth of the work of the baseline."""
    short = Candidate("short", waiting(0.1), {"makespan_s": 0.2, "wait_p95_s": 0.1})
    long = Candidate("long", waiting(0.6), {"makespan_s": 1.2, "wait_p95_s": 0.6})
    return [short], long


@pytest.mark.real
def test_real_runs_are_evaluated_stored_and_resumed(tmp_path: Path) -> None:
    candidates, baseline = pair()
    messages: list[str] = []
    steps: list[ConfirmationProgress] = []
    first = confirm(
        candidates,
        baseline=baseline,
        repetitions=2,
        folder=tmp_path / "kept",
        announce=messages.append,
        progress=steps.append,
    )
    # The times depend on the load of the machine; the verdict follows from them.
    seconds = {name: first.runs.filter(candidate=name).sort("repetition") for name in NAMES}
    paired = stats.ttest_rel(*(seconds[name]["makespan_s"].to_numpy() for name in NAMES))
    interval = paired.confidence_interval(0.9)
    (one,) = first.recommendations
    assert (one.low, one.high) == pytest.approx((interval.low, interval.high))
    verdict = "holds" if interval.high < 0 else "reversed" if interval.low > 0 else "tie"
    assert first.status == one.verdict == verdict
    assert messages[0].startswith("will execute 4 runs: 2 configurations, 2 times each, about 3 s")
    assert "  short: 2 x sleep" in messages
    assert len(messages) == len(set(messages))
    assert (steps[-1].done, steps[-1].planned) == (4, 4)
    assert first.runs["order"].to_list() == [1, 2, 3, 4]
    assert first.runs.group_by("repetition").len()["len"].to_list() == [2, 2]
    assert first.runs["makespan_s"].min() >= 0.2  # type: ignore[operator]
    assert first.objectives[0].kpi == "makespan_s"
    # The figures are those of the stored traces.
    for row in first.runs.to_dicts():
        trace = tl.read(tmp_path / "kept" / row["trace"])
        assert row["makespan_s"] == tl.metrics.figures(trace).makespan
    if not first.traces[0].power.height:
        assert any(note.startswith("no energy was measured") for note in first.notes)
    assert Confirmation.load(tmp_path / "kept") == first

    # Only an interrupted run is repeated.
    kept = tmp_path / "kept" / first.runs["trace"][3]
    before = {row: _bytes(tmp_path / "kept" / row) for row in first.runs["trace"][:3]}
    (kept / "manifest.json").unlink()
    plan = shutil.ignore_patterns("output")
    whole = tmp_path / "kept" / first.runs["trace"][0]
    shutil.copytree(whole, kept / "recording" / "plan", ignore=plan)
    again = confirm(
        candidates,
        baseline=baseline,
        repetitions=2,
        folder=tmp_path / "kept",
        announce=lambda text: None,
    )
    assert {row: _bytes(tmp_path / "kept" / row) for row in again.runs["trace"][:3]} == before
    assert again.runs[:3].equals(first.runs[:3])
    assert (kept / "manifest.json").is_file()

    with pytest.raises(InputError, match="with another seed"):
        confirm(candidates, baseline=baseline, folder=tmp_path / "kept", seed=1)
    with pytest.raises(InputError, match="of other configurations"):
        confirm([baseline], baseline=candidates[0], folder=tmp_path / "kept")


def _bytes(folder: Path) -> bytes:
    return (folder / "manifest.json").read_bytes()


@pytest.mark.real
def test_a_failed_run_does_not_stop_the_others(tmp_path: Path) -> None:
    tasks = [{"id": "a", "command": ["sh", "-c", "exit 3"], "run_time": 0.1}]
    broken = Candidate("broken", waiting(0.1).replace(workload={"tasks": tasks}), {})
    fine = Candidate("fine", waiting(0.02, tasks=1), {"makespan_s": 0.02})
    base = Candidate("base", waiting(0.03, tasks=1), {"makespan_s": 0.03})
    found = confirm(
        [fine, broken], baseline=base, repetitions=3, budget=0.01, announce=lambda text: None
    )
    # At least two repetitions, whatever their duration.
    assert found.repetitions == 2
    assert any(note.startswith("2 of 3 repetitions were executed") for note in found.notes)
    assert (
        found.runs.filter(candidate="broken")["error"].to_list()
        == ["1 of 1 task did not complete, such as a (failed)"] * 2
    )
    assert any("failed: 1 of 1 task did not complete" in note for note in found.notes)
    assert found.recommendations[1].verdict == "not measured"
    assert found.runs.filter(pl.col("error").is_null())["makespan_s"].null_count() == 0


def test_an_interrupted_run_is_not_complete(tmp_path: Path) -> None:
    (one,), _ = pair()
    for interrupted in (True, False):
        trace = tl.simulate(one.scenario)
        facts = {"run": {"interrupted": interrupted}}
        manifest = trace.manifest.model_copy(update={"facts": facts})
        kept = trace.replace(manifest=manifest).save(tmp_path / str(interrupted))
        assert (load_complete_run(kept, one) is None) == interrupted
    assert load_complete_run(tmp_path / "nothing", one) is None


def test_another_load_is_noted(tmp_path: Path) -> None:
    (one,), base = pair()
    for run in ConfirmationPlan((one,), base, 1).runs:
        scenario = (one, base)[run.configuration].scenario
        trace = tl.simulate(scenario)
        tasks = trace.tasks.with_columns(
            kind=pl.lit("cpu").cast(trace.tasks.schema["kind"]), cpu_time=pl.lit(0.01)
        )
        trace.replace(tasks=tasks).save(tmp_path / run.name)
    found = confirm([one], baseline=base, repetitions=1, traces=tmp_path, announce=print)
    messages = [note for note in found.notes if "disturbed" in note]
    assert len(messages) == 1
    assert messages[0].startswith("2 of 2 runs disturbed: 0")
    assert "another load was running" in messages[0]


def test_tasks_without_commands_are_an_error_before_anything_runs(tmp_path: Path) -> None:
    silent = waiting(0.1).replace(workload={"tasks": [{"id": "a", "run_time": 1}]})
    with pytest.raises(InputError, match=r"silent: 1 of 1 tasks have no command.*--bundle"):
        confirm(
            [Candidate("silent", silent, {})],
            baseline=Candidate("base", waiting(0.1), {}),
            folder=tmp_path / "kept",
            announce=lambda text: None,
        )
    assert not (tmp_path / "kept").exists()


def test_a_folder_with_foreign_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    candidates, baseline = pair()
    with pytest.raises(InputError, match=r"is not a confirmation: it contains mine\.txt"):
        confirm(candidates, baseline=baseline, folder=tmp_path, announce=lambda text: None)


def test_a_perfect_twin_is_never_reversed_for_any_seed(tmp_path: Path) -> None:
    """A run has one of the seeds of the study and is compared with the prediction for it."""
    log = {"generate": {"name": "poisson", "parameters": {"tasks": 60, "cores": "1:2,4:1"}}}
    base = tl.Scenario(platform="1x4", policy="easy", workload=log)
    study = tl.explore(base, {"factors": {"policy": ["fcfs", "sjf", "easy"]}, "seeds": 3})
    ranking = study.rank("wait_mean_s")
    plan = bundle(ranking, tmp_path / "b", repetitions=2)
    for run in json.loads((plan / "plan.json").read_text())["runs"]:
        scenario = next(c for c in (*ranking, ranking.baseline) if c.name == run["configuration"])
        tl.simulate(scenario.scenario).save(plan / "runs" / run["name"])
    found = confirm(ranking, traces=plan, repetitions=2, diagnose=False)
    assert {each.verdict for each in found.recommendations} <= {"holds", "not assessable"}
    for row in found.table.filter(metric="wait_mean_s").iter_rows(named=True):
        assert row["predicted"] == pytest.approx(row["real"], rel=1e-9)


@pytest.mark.real
def test_a_full_disk_ends_a_confirmation_without_loss_of_runs(tmp_path: Path) -> None:
    """No further run is started, and a second confirmation executes the missing runs."""
    one, base = (Candidate(name, waiting(0.0, name=name), {"makespan_s": 0.0}) for name in "ab")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    seen: list[int] = []

    def fill_disk(at: ConfirmationProgress) -> None:
        seen.append(at.done)
        if at.done == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))

    asked = {"baseline": base, "repetitions": 3, "folder": tmp_path / "real"}
    try:
        with pytest.raises(UnwritableError) as error:
            confirm([one], progress=fill_disk, announce=lambda text: None, **asked)  # type: ignore[arg-type]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(tmp_path / "real") in str(error.value)
    assert max(seen) == 2
    kept = {file: file.stat().st_mtime_ns for file in tmp_path.glob("real/runs/*/manifest.json")}
    assert len(kept) == 2
    made = confirm([one], announce=lambda text: None, **asked)  # type: ignore[arg-type]
    assert made.runs["error"].to_list() == [None] * 6
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
