"""Studies: each run once, results independent of the workers, resumption, recorded failures."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from twinloop import metrics
from twinloop.campaign import CampaignJournal
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.study import runner

FACTORS = {
    "factors": {"platform": ["2x4", "4x2", "1x8"], "policy": ["fifo", "fcfs", "easy", "sjf"]},
    "seeds": 2,
}
LOG = {"generate": {"name": "poisson", "parameters": {"tasks": 60, "cores": "1:3,2:1"}}}
BASE = tl.Scenario(platform="2x4", policy="fifo", workload=LOG)


def values(study: tl.Study) -> pl.DataFrame:
    """All columns except the duration."""
    return study.runs.drop("seconds")


@pytest.fixture(scope="module")
def study() -> tl.Study:
    return tl.explore(BASE, FACTORS)


def test_runs_equal_simulations_of_their_scenarios(study: tl.Study) -> None:
    """Compare the table with `simulate` and `metrics`, run by run."""
    assert study.complete
    assert study.runs.height == 24
    for row in study.runs[::5].iter_rows(named=True):
        run = study.planned_runs[row["run"]]
        found = metrics.figures(tl.simulate(apply_changes(BASE, run.changes))).to_dict()
        for name in ("makespan_s", "wait_p95_s", "turnaround_mean_s", "utilisation", "completed"):
            assert row[name] == pytest.approx(found[name], rel=1e-9), name
        assert (row["platform"], row["policy"]) == (run.changes["platform"], run.changes["policy"])


def test_configurations_are_means_over_the_seeds(study: tl.Study) -> None:
    for row in study.configurations.iter_rows(named=True):
        mine = study.runs.filter(configuration=row["configuration"])["makespan_s"]
        assert row["runs"] == 2
        assert row["makespan_s"] == pytest.approx(mine.mean())
        assert row["makespan_s_sd"] == pytest.approx(mine.std())
        assert (row["makespan_s_min"], row["makespan_s_max"]) == (mine.min(), mine.max())


@pytest.mark.parametrize(
    "on", ["serial", "threads", pytest.param("processes", marks=pytest.mark.real)]
)
def test_results_do_not_depend_on_the_workers(study: tl.Study, on: str) -> None:
    workers = None if on == "serial" else 2
    assert values(tl.explore(BASE, FACTORS, on=on, workers=workers)).equals(values(study))


def test_stored_runs_are_reused_and_new_levels_are_added(tmp_path: Path) -> None:
    made: list[int] = []
    first = tl.explore(
        BASE, FACTORS, folder=tmp_path / "s", progress=lambda at: made.append(at.done)
    )
    assert made == list(range(1, 25))
    again = tl.explore(
        BASE, FACTORS, folder=tmp_path / "s", progress=lambda at: made.append(-at.done)
    )
    assert made == list(range(1, 25))
    assert values(again).equals(values(first))
    more = {"factors": {**FACTORS["factors"], "policy": ["fifo", "ljf"]}, "seeds": 3}  # type: ignore[dict-item]
    made.clear()
    wider = tl.explore(BASE, more, folder=tmp_path / "s", progress=lambda at: made.append(at.done))
    # Three platforms: fifo lacks the third seed, ljf all three.
    assert len(made) == 3 * (1 + 3)
    assert wider.complete
    shared = wider.runs.filter((pl.col("policy") == "fifo") & (pl.col("seed") < 2))
    old = first.runs.filter(policy="fifo")
    assert shared["makespan_s"].sort().equals(old["makespan_s"].sort())
    assert values(tl.Study.load(tmp_path / "s")).equals(values(wider))


def test_identical_scenarios_are_simulated_once() -> None:
    made = []
    same = {"platform": ["2x4"], "shape": [{"platform": "2x4"}, {"platform": "4x2"}]}
    found = tl.explore(BASE, same, progress=made.append)
    # `shape` overrides `platform`: two scenarios.
    assert len(made) == 2
    twice = {
        "policy": {"levels": {"one": "easy", "the same": {"name": "easy"}, "other": "fifo"}},
    }
    made.clear()
    found = tl.explore(BASE, twice, progress=made.append)
    assert (len(made), found.planned, found.repeated) == (2, 3, 1)
    times = found.configurations["makespan_s"]
    assert times[0] == times[1]


def test_a_failed_run_is_recorded_and_the_study_continues(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("nothing of the kind\n")
    factors = {
        "policy": ["fifo", "easy"],
        "load": [{"workload": LOG}, {"workload": str(tmp_path / "good.csv")}, {"platform": "0x4"}],
    }
    found = tl.explore(BASE, factors, folder=tmp_path / "s")
    assert (found.done, found.failed) == (6, 4)
    bad = found.runs.filter(pl.col("error").is_not_null())
    assert bad["makespan_s"].is_null().all()
    assert any("good.csv" in error for error in bad["error"])
    assert any("platform" in error for error in bad["error"])
    assert len(found.candidates) == 2
    assert found.rank()[0].name.startswith(("fifo", "easy"))
    # Failed runs are simulated again only with `retry`.
    made: list[object] = []
    tl.explore(BASE, factors, folder=tmp_path / "s", progress=made.append)
    assert made == []
    tl.explore(BASE, factors, folder=tmp_path / "s", progress=made.append, retry=True)
    assert len(made) == 4


SCRIPT = textwrap.dedent("""
    import sys, time
    import twinloop as tl
    from tests.exploration.test_study import BASE, FACTORS
    print("began", flush=True)
    tl.explore(BASE, FACTORS, folder=sys.argv[1], on="threads", workers=2,
               progress=lambda at: time.sleep(0.02))
""")


@pytest.mark.real
@pytest.mark.long
def test_a_killed_study_resumes_with_the_same_results(study: tl.Study, tmp_path: Path) -> None:
    """Kill a study three times; verify/ kills it ten times, also with calibrations."""
    folder = tmp_path / "s"
    counts = []
    for pause in (0.05, 0.15, 0.1):
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(folder)], stdout=subprocess.PIPE
        )
        try:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(pause)
            os.kill(child.pid, signal.SIGKILL)
        finally:
            child.kill()
            child.wait(60)
            child.stdout.close()  # type: ignore[union-attr]
        if (folder / "study.json").exists():
            seen = tl.Study.load(folder)
            counts.append(seen.done)
            if seen.done:
                assert values(seen).equals(values(study).filter(pl.col("run") < seen.done))
    assert counts == sorted(counts)
    ended = tl.explore(BASE, FACTORS, folder=folder)
    assert values(ended).equals(values(study))
    assert (folder / "runs.csv").exists()
    assert pl.read_parquet(folder / "runs.parquet").drop("seconds").equals(values(study))


def test_a_fit_provides_values_and_uncertainty(tmp_path: Path) -> None:
    truth = tl.simulate(BASE.replace(**{"model.speed_factor": 0.8}))
    fit = tl.calibrate(
        truth,
        scenario=BASE,
        parameters={"speed_factor": {"linear": [0.5, 2]}},
        budget=200,
        analysis=3000,
    )
    found = tl.explore(BASE, {"policy": ["fifo", "easy"]}, fit, folder=tmp_path / "s", draws=16)
    slower = tl.simulate(fit.apply(BASE))
    mine = found.candidate("fifo")
    assert mine.predicted["makespan_s"] == pytest.approx(metrics.figures(slower).makespan)
    assert mine.scenario.model.speed_factor == pytest.approx(0.8, rel=0.01)
    assert 1 <= len(mine.draws["makespan_s"]) <= 16
    assert mine.draws["makespan_s"].mean() == pytest.approx(mine.predicted["makespan_s"], rel=0.05)
    back = tl.Study.load(tmp_path / "s")
    assert back.fit is not None
    assert back.fit.values == fit.values
    assert back.candidate("fifo").draws["makespan_s"].tolist() == mine.draws["makespan_s"].tolist()
    # A level takes precedence over a fitted value.
    levels = tl.explore(BASE, {"model.speed_factor": [1, 2]}, fit)
    times = [
        metrics.figures(tl.simulate(BASE.replace(**{"model.speed_factor": s}))) for s in (1, 2)
    ]
    assert levels.runs["makespan_s"].to_list() == pytest.approx([each.makespan for each in times])


def test_cost_and_carbon_are_kpis_if_prices_and_intensity_are_given() -> None:
    power = {"model": "linear", "idle": "100 W", "max": "300 W"}
    host = {"cores": 4, "count": 2, "power": power}
    priced = BASE.replace(
        prices={"core_hour": 0.1, "kwh": 0.3},
        platform={"clusters": [{"hosts": [host], "carbon": "300 g/kWh"}]},
    )
    found = tl.explore(priced, {"policy": ["fifo", "easy"]})
    for row, policy in zip(found.runs.iter_rows(named=True), ("fifo", "easy"), strict=True):
        run = metrics.figures(tl.simulate(priced.replace(policy=policy)), prices=priced.prices)
        assert row["cost"] == pytest.approx(run.to_dict()["cost"])
        assert row["carbon_g"] == pytest.approx(run.to_dict()["energy_j"] / 3.6e6 * 300)  # type: ignore[operator]
    assert not {"cost", "carbon_g"} & set(tl.explore(BASE, {"policy": ["fifo"]}).kpis)


def test_the_baseline_is_the_unchanged_scenario(study: tl.Study) -> None:
    assert study.baseline.name == "2x4, fifo"
    outside = tl.explore(BASE, {"policy": ["easy", "sjf"]})
    assert outside.baseline.configuration is None
    assert outside.baseline.predicted["makespan_s"] == pytest.approx(
        metrics.figures(tl.simulate(BASE)).makespan
    )


def test_a_workload_in_memory_is_stored_with_the_study(tmp_path: Path) -> None:
    log = tl.generate("poisson", seed=3, tasks=30)
    held = BASE.replace(workload=log)
    made = tl.explore(held, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s")
    back = tl.Study.load(tmp_path / "s")
    assert tl.simulate(back.candidate("easy").scenario).tasks.height == 30
    assert values(back).equals(values(made))


def test_foreign_folders_and_invalid_inputs_are_errors(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(tl.InputError, match="is not a study"):
        tl.explore(BASE, FACTORS, folder=tmp_path / "mine")
    with pytest.raises(tl.InputError, match="contains no study"):
        tl.Study.load(tmp_path / "mine")
    with pytest.raises(tl.InputError, match="no run can be simulated"):
        tl.explore(BASE, {"policy": ["no-such-policy"]})
    with pytest.raises(tl.InputError, match="'makespam_s' is not a KPI"):
        tl.explore(BASE, {"policy": ["fifo"]}).rank("makespam_s")
    with pytest.raises(tl.InputError, match=r"known: tasks, .*bill, .*carbon_g, cost\)"):
        tl.explore(BASE, {"policy": ["fifo"]}, by="zzz")
    with pytest.raises(tl.InputError, match="'mean:makespan_s' has the direction 'mean', which"):
        tl.explore(BASE, {"policy": ["fifo"]}, by="mean:makespan_s")


def test_too_many_runs_are_an_error_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinloop.exploration.study.plan.MAX_RUNS", 1)
    with pytest.raises(tl.InputError, match="the design has 2 runs, more than 1"):
        tl.explore(BASE, {"policy": ["fifo", "easy"]})


# --- inputs, seeds and folders -------------------------------------------------------------------


def swf(path: Path, seconds: int) -> Path:
    """Write a log of three jobs with this run time."""
    path.write_text(
        "".join(
            f"{i} {i} -1 {seconds} 1 -1 -1 1 {seconds} -1 1 1 1 1 1 -1 -1 -1\n" for i in (1, 2, 3)
        )
    )
    return path


def test_a_changed_log_is_simulated_again(tmp_path: Path) -> None:
    log = swf(tmp_path / "log.swf", 50)
    base = tl.Scenario(platform="1x1", policy="fifo", workload=str(log))
    factors = {"policy": ["fifo", "easy"]}
    first = tl.explore(base, factors, folder=tmp_path / "s")
    swf(log, 500)
    second = tl.explore(base, factors, folder=tmp_path / "s")
    assert first.runs["makespan_s"].to_list() == [150.0, 150.0]
    assert second.runs["makespan_s"].to_list() == [1500.0, 1500.0]


def test_a_run_gets_its_own_workload_despite_concurrent_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Busy(deque[Any]):
        """A cache in which another thread stores another workload after each append."""

        def append(self, item: Any) -> None:
            super().append(item)
            super().append((item[0], runner.LoadedWorkload(BASE.replace(seed=99))))

    monkeypatch.setattr(runner, "_LOADED", Busy(maxlen=8))
    mine = runner.Runner(BASE)({"seed": 3})["kpis"]["makespan_s"]
    assert mine == pytest.approx(metrics.figures(tl.simulate(BASE.replace(seed=3))).makespan)


def test_candidates_are_compared_by_shared_seeds(study: tl.Study) -> None:
    """A candidate without its worst seed would appear too good."""
    worst = study.runs.sort("makespan_s")["run"][-1]
    lost = study.planned_runs[worst]
    results = dict(study.results)
    results[lost.key] = {**results[lost.key], "kpis": None, "error": "lost"}
    less = replace(study, results=results)
    other = next(seed for seed in (0, 1) if seed != lost.seed)
    assert less.seeds == (other,)
    for each in less.candidates:
        row = study.runs.filter(configuration=each.configuration, seed=other)
        assert each.predicted["makespan_s"] == row["makespan_s"].item()
        assert each.scenario.seed == other


def make_study_with_failures() -> tl.Study:
    """Two policies and three seeds; the slower policy failed for the difficult seeds."""
    kpis = [{"makespan_s": s, "wait_p95_s": s} for s in (10.0, 100.0, 130.0, 20.0, 101.0, 131.0)]
    study = tl.explore(BASE, {"factors": {"policy": ["fifo", "easy"]}, "seeds": 3}, on="serial")
    results = dict(study.results)
    runs = sorted(study.planned_runs, key=lambda run: (run.configuration, run.seed))
    for run, figures in zip(runs, kpis, strict=True):
        lost = run.configuration == 1 and run.seed > 0
        outcome = {"kpis": None, "error": "lost"} if lost else {"kpis": figures}
        results[run.key] = {**results[run.key], **outcome}
    return replace(study, results=results)


def test_failures_with_difficult_seeds_do_not_improve_a_mean() -> None:
    study = make_study_with_failures()
    assert study.seeds == (0,)
    table = study.configurations
    assert table["makespan_s"].to_list() == [10.0, 20.0]
    assert table["makespan_s_sd"].to_list() == [None, None]
    assert table["makespan_s_max"].to_list() == [10.0, 20.0]
    assert (table["runs"].to_list(), table["failed_runs"].to_list()) == ([3, 3], [0, 2])
    assert study.pareto("makespan_s")["name"].to_list() == ["fifo"]
    assert [each.name for each in study.rank()] == ["fifo", "easy"]
    effects = study.effects("makespan_s")
    assert effects.select("level", "runs", "mean").rows() == [("fifo", 1, 10.0), ("easy", 1, 20.0)]
    assert study.runs.height == 6


def test_a_mean_is_null_if_a_seed_lacks_the_kpi() -> None:
    """The ranking excludes such a candidate; tables, front and effects have no mean of it."""
    study = tl.explore(BASE, {"factors": {"policy": ["fifo", "easy"]}, "seeds": 2}, on="serial")
    hard = max((run for run in study.planned_runs if run.configuration), key=lambda run: run.seed)
    results = dict(study.results)
    kpis = {**results[hard.key]["kpis"], "wait_p95_s": None}
    results[hard.key] = {**results[hard.key], "kpis": kpis}
    less = replace(study, results=results)
    assert [each.name for each in less.rank("wait_p95_s").left_out] == ["easy"]
    row = less.configurations.row(1, named=True)
    lacking = ("wait_p95_s", "wait_p95_s_sd", "wait_p95_s_min", "wait_p95_s_max")
    assert [row[name] for name in lacking] == [None] * 4
    assert row["makespan_s"] == study.configurations["makespan_s"][1]
    assert less.pareto("wait_p95_s")["name"].to_list() == ["fifo"]
    assert less.effects("wait_p95_s")["level"].to_list() == ["fifo"]
    assert less.runs["wait_p95_s"].null_count() == 1


def test_without_shared_seeds_all_runs_are_used(study: tl.Study) -> None:
    kept = {run.key: run for run in study.planned_runs if run.configuration % 2 == run.seed}
    few = replace(study, results={key: study.results[key] for key in kept})
    assert few.seeds == ()
    assert few.configurations["runs"].to_list() == [1] * 12
    assert few.configurations["makespan_s"].null_count() == 0


def test_predictions_of_a_scenario_are_those_of_its_seed(study: tl.Study) -> None:
    for each in study.candidates[:3]:
        alone = each.of_its_scenario()
        found = metrics.figures(tl.simulate(each.scenario)).makespan
        assert alone.predicted["makespan_s"] == pytest.approx(found)
        assert each.predicted["makespan_s"] == pytest.approx(each.by_seed["makespan_s"].mean())


def test_a_locked_folder_is_not_changed(tmp_path: Path) -> None:
    tl.explore(BASE, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s")
    before = (tmp_path / "s" / "study.json").read_bytes()
    with (
        CampaignJournal.open(tmp_path / "s" / "journal.jsonl", {"study": 1}),
        pytest.raises(tl.InputError, match="is being written by"),
    ):
        tl.explore(BASE, {"policy": ["sjf"]}, folder=tmp_path / "s")
    assert (tmp_path / "s" / "study.json").read_bytes() == before


def test_a_study_killed_before_its_manifest_resumes(tmp_path: Path) -> None:
    there = tmp_path / "s"
    log = tl.generate("poisson", seed=3, tasks=10)
    log.save(there / "workload")
    (there / "fit-01234567").mkdir()
    (there / "fit-01234567" / "history.parquet").write_bytes(b"half")
    assert tl.explore(BASE.replace(workload=log), {"policy": ["fifo"]}, folder=there).complete


@pytest.mark.parametrize("row", ["{}", "[1, 2]", "5", '{"key": "a"}', "garbage"])
def test_errors_of_a_damaged_journal_name_the_line(tmp_path: Path, row: str) -> None:
    tl.explore(BASE, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s")
    journal = tmp_path / "s" / "journal.jsonl"
    head, *rows = journal.read_text().splitlines()
    journal.write_text("\n".join([head, row, *rows]) + "\n")
    with pytest.raises(tl.InputError, match=r"journal.jsonl:2: "):
        tl.Study.load(tmp_path / "s")
    with pytest.raises(tl.InputError, match=r"journal.jsonl:2: "):
        tl.explore(BASE, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s")
    # An incomplete last line is left by a kill and is ignored.
    journal.write_text("\n".join([head, *rows]) + '\n{"key": "x')
    assert tl.Study.load(tmp_path / "s").complete


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("key", value) for value in (5, None, ["a"])),
        *(("kpis", value) for value in ("x", [1], None, {"cost": "high"}, {"cost": []})),
        *(("seconds", value) for value in ("long", None, {})),
        pytest.param("seconds", 10**400, id="seconds-huge"),
        *(("error", value) for value in (5, ["x"], "a reason, and figures as well")),
        *(("notes", value) for value in (5, "x", [5], {"a": 1})),
        *(("unknown", value) for value in (5, ["x"], {"carbon_g": 5})),
        *(("draws", value) for value in (5, {"makespan_s": 5}, {"makespan_s": ["x"]})),
        ("draws", {"makespan_s": [1.0], "energy_j": [1.0, 2.0]}),
    ],
)
def test_a_row_of_a_study_has_the_right_types(tmp_path: Path, field: str, value: Any) -> None:
    tl.explore(BASE, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s")
    journal = tmp_path / "s" / "journal.jsonl"
    head, first, *rows = journal.read_text().splitlines()
    spoiled = json.dumps(json.loads(first) | {field: value})
    journal.write_text("\n".join([head, spoiled, *rows]) + "\n")
    kept = journal.read_bytes()
    for read in (
        lambda: tl.Study.load(tmp_path / "s"),
        lambda: tl.explore(BASE, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s"),
    ):
        with pytest.raises(tl.InputError, match=r"journal.jsonl:2: .* \(truncate the file"):
            read()
    assert journal.read_bytes() == kept


def test_compared_runs_have_the_same_number_of_draws(tmp_path: Path) -> None:
    tl.explore(BASE, {"policy": ["fifo", "easy"]}, folder=tmp_path / "s")
    journal = tmp_path / "s" / "journal.jsonl"
    head, *rows = journal.read_text().splitlines()
    drawn = [
        json.dumps(json.loads(row) | {"draws": {"makespan_s": [1.0] * (3 + at)}})
        for at, row in enumerate(rows)
    ]
    other = json.dumps(json.loads(rows[0]) | {"key": "of another study"})
    journal.write_text("\n".join([head, drawn[0], other, *drawn[1:]]) + "\n")
    with pytest.raises(tl.InputError, match=r"journal.jsonl:4: draws: has 4 values .* have 3"):
        tl.Study.load(tmp_path / "s")


def test_candidates_are_ranked_if_the_baseline_fails(tmp_path: Path) -> None:
    broken = BASE.replace(workload=str(tmp_path / "nosuch.swf"))
    found = tl.explore(broken, {"load": [{"workload": LOG, "policy": p} for p in ("fifo", "sjf")]})
    assert found.top(1)[0].predicted["makespan_s"] > 0
    assert found.baseline.predicted == {}
    assert "as given" in str(found)


def test_a_study_does_not_depend_on_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    swf(tmp_path / "log.swf", 50)
    base = tl.Scenario(platform="1x1", policy="fcfs", workload="log.swf")
    tl.explore(base, {"policy": ["fifo", "easy"]}, folder="s")
    monkeypatch.chdir("/")
    best = tl.Study.load(tmp_path / "s").top(1)[0]
    assert metrics.figures(tl.simulate(best.scenario)).makespan == 150.0
