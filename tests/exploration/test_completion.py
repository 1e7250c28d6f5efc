"""Candidates that complete fewer tasks are not preferred: rankings, fronts, confirmations."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import twinloop as tl
from twinloop.cli import app
from twinloop.exploration.confirmation.plan import PlannedRun
from twinloop.exploration.confirmation.runs import measure_run
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.ranking import Ranking, rank_candidates

SCENARIO = tl.Scenario(platform="2x8", workload="log.swf", policy="easy")
#: Two small tasks, and a task of eight cores with most of the work.
SIZES = {"id": ["a", "b", "c"], "cores": [1.0, 1.0, 8.0], "work": [10.0, 10.0, 8000.0]}
WORK = tl.Workload(tasks=pl.DataFrame({**SIZES, "submit": 0.0, "limit": [1.0, 1.0, 8.0]}))


def candidate(name: str, seconds: float, completed: float = 4.0, **more: Any) -> Candidate:
    kpis = {"makespan_s": seconds, "energy_j": 1.0, "tasks": 4.0, "completed": completed}
    return Candidate(name, SCENARIO, {**kpis, **more.pop("kpis", {})}, **more)


def names(ranking: Ranking) -> list[str]:
    return [each.name for each in ranking]


@pytest.fixture(scope="module")
def study() -> tl.Study:
    base = tl.Scenario(platform="2x8", workload=WORK, policy="fcfs")
    return tl.explore(base, {"platform": ["1x4", "1x8", "2x8"]})


def test_a_platform_that_rejects_tasks_is_ranked_last_and_named(
    study: tl.Study,
) -> None:
    ranking = study.top(3)
    assert names(ranking) == ["2x8", "1x8", "1x4"]
    note = "fewer tasks complete in 1x4 (2 of 3 tasks) than in others"
    assert note in study.notes
    remark = "candidates that complete fewer tasks are ranked after all others."
    assert f"F{note[1:]}: {remark}" in str(ranking)
    assert [place.fewer for place in ranking.places] == [False, False, True]
    assert "fewer tasks" in str(ranking).splitlines()[5]


def test_candidates_that_complete_fewer_tasks_are_not_on_the_front(study: tl.Study) -> None:
    assert study.pareto("makespan_s")["name"].to_list() == ["2x8"]
    assert study.pareto("makespan_s", "max:utilisation")["name"].to_list() == ["2x8", "1x8"]


def test_equal_numbers_of_completed_tasks_are_not_noted() -> None:
    base = tl.Scenario(platform="1x4", workload=WORK, policy="fcfs")
    study = tl.explore(base, {"policy": ["fcfs", "easy"]})
    assert study.runs["completed"].to_list() == [2.0, 2.0]
    assert study.notes == ()
    assert study.pareto("makespan_s").height == 2


def test_shares_are_compared_for_different_workloads() -> None:
    """Three of three tasks are a larger share than three of four."""
    some = candidate("some", 10, completed=3)
    small = candidate("small", 20, kpis={"tasks": 3.0, "completed": 3.0})
    assert names(rank_candidates([some, small], baseline=small)) == ["small", "some"]


def test_the_baseline_shows_how_many_tasks_can_complete() -> None:
    fast, slow = candidate("fast", 10, completed=2), candidate("slow", 20, completed=3)
    found = rank_candidates([fast, slow], baseline=candidate("base", 30))
    assert names(found) == ["slow", "fast"]
    assert "in slow (3 of 4 tasks), fast (2 of 4 tasks) than in others" in found.notes[0]


def test_a_baseline_that_completes_fewer_is_named() -> None:
    found = rank_candidates([candidate("a", 10)], baseline=candidate("as given", 5, completed=1.5))
    assert found.notes[0].startswith("Fewer tasks complete in as given (1.50 of 4 tasks) than in")


def test_candidates_without_completion_counts_are_ranked() -> None:
    many = [Candidate(str(s), SCENARIO, {"makespan_s": s}) for s in (30.0, 10.0)]
    found = rank_candidates([*many, candidate("known", 20)], baseline=many[0])
    assert names(found) == ["10.0", "known", "30.0"]
    assert not any(place.fewer for place in found.places)


@pytest.mark.parametrize("by", ["makespan_s", {"makespan_s": 1, "energy_j": 1}])
def test_candidates_that_complete_fewer_tasks_are_excluded_from_ties(by: Any) -> None:
    noise = {"makespan_s": {"share": 0.02, "freedom": 10.0}}
    done = [candidate("a", 100), candidate("b", 120)]
    alone = rank_candidates(done, by, baseline=done[0], noise=noise)
    found = rank_candidates([candidate("less", 99, 3), *done], by, baseline=done[0], noise=noise)
    assert names(found) == ["a", "b", "less"]
    assert found.table["tie"].to_list() == [None, None, None]
    assert found.table["probability"].to_list()[1:] == [None, None]
    assert found.table["best"].to_list()[2] is None
    assert sum(found.table["best"].to_list()[:2]) == pytest.approx(1.0)
    if "score" in found.table:
        assert found.table["score"].to_list()[:2] == alone.table["score"].to_list()


def test_candidates_that_complete_fewer_tasks_do_not_affect_equality() -> None:
    """By hand: 100 and 109 are within 10 % of each other, and not within 10 % of 95."""
    slow = candidate("slow", 109, kpis={"energy_j": 1.0})
    fast = candidate("fast", 100, kpis={"energy_j": 2.0})
    less = candidate("less", 95, completed=3)
    found = rank_candidates(
        [fast, slow, less], ["makespan_s", "energy_j"], baseline=fast, tolerance=0.1
    )
    assert names(found) == ["slow", "fast", "less"]


# --- real runs -----------------------------------------------------------------------------------


def limited(kill: bool = True) -> tl.Scenario:
    """Two tasks, one of which requests less time than it needs."""
    tasks = [
        {"id": "a", "run_time": 10, "requested_time": 5},
        {"id": "b", "run_time": 10, "requested_time": 20},
    ]
    changes = {"model.kill_at_requested_time": kill}
    base = tl.Scenario(platform="1x2", policy="fifo", workload={"tasks": tasks})
    return base.replace(**changes)


def find_error(trace: tl.Trace, one: Candidate) -> str | None:
    return measure_run(PlannedRun(1, 0, 1, "01-one-1"), trace, one, None).error


def test_a_run_with_predicted_kills_is_valid() -> None:
    scenario = limited()
    trace = tl.simulate(scenario)
    assert trace.tasks["status"].to_list() == ["killed", "completed"]
    assert find_error(trace, Candidate("one", scenario, {"killed": 1.0})) is None
    # Without a prediction, the scenario shows that tasks are killed.
    assert find_error(trace, Candidate("one", scenario, {})) is None


def test_a_run_with_more_kills_than_predicted_is_an_error() -> None:
    scenario, unlimited = limited(), limited(kill=False)
    trace = tl.simulate(scenario)
    message = "1 of 2 tasks did not complete, such as a (killed)"
    assert find_error(trace, Candidate("one", scenario, {"killed": 0.0})) == message
    assert find_error(trace, Candidate("one", unlimited, {})) == message


def test_a_run_with_rejected_tasks_is_an_error_unless_predicted() -> None:
    scenario = tl.Scenario(platform="1x4", workload=WORK, policy="fcfs")
    trace = tl.simulate(scenario)
    message = "1 of 3 tasks did not complete, such as c (rejected)"
    assert find_error(trace, Candidate("one", scenario, {})) == message
    assert find_error(trace, Candidate("one", scenario, {"rejected": 1.0})) is None
    twice = trace.tasks.with_columns(pl.lit("rejected").alias("status"))
    more = find_error(trace.replace(tasks=twice), Candidate("one", scenario, {"rejected": 1.0}))
    assert more is not None
    assert more.startswith("3 of 3 tasks did not complete")
    assert more.endswith("; 1 rejected were predicted")


def test_rounding_errors_of_shares_are_ignored() -> None:
    means = [float(np.mean(row)) for row in ([4, 3, 3], [3, 4, 3])]
    found = rank_candidates(
        [candidate("a", 20, means[0]), candidate("b", 10, means[1])], baseline=candidate("c", 9, 3)
    )
    assert names(found) == ["b", "a"]


def test_the_json_output_marks_candidates_that_complete_fewer_tasks(tmp_path: Path) -> None:
    tasks = [
        {"id": task, "run_time": work / cores, "cores": cores}
        for task, cores, work in zip(*SIZES.values(), strict=True)
    ]
    base = tl.Scenario(platform="2x8", workload={"tasks": tasks}, policy="fcfs")
    file = base.save(tmp_path / "scenario.yaml")
    (tmp_path / "factors.yaml").write_text("platform: [1x4, 2x8]\n")
    words = [
        "explore",
        str(file),
        str(tmp_path / "factors.yaml"),
        "--json",
        "-o",
        str(tmp_path / "study"),
    ]
    found = json.loads(CliRunner().invoke(app, words).stdout)["top"]
    assert {each["name"]: each["fewer_tasks"] for each in found} == {"1x4": True, "2x8": False}
