"""Differences of losses, noise floor and baseline, against hand-computed values and SciPy."""

import numpy as np
import pytest
from scipy import stats

from tests.calibration.detail_runs import make_scenario, make_truth
from tests.calibration.simulated_runs import make_runs
from twinloop.calibration.cases import Case, make_cases
from twinloop.calibration.detail.crude_baseline import (
    MeanRunTimes,
    schedule_list,
    simulate_baseline,
)
from twinloop.calibration.detail.differences import compare_losses
from twinloop.calibration.detail.ideal_simulator import average_runs, compute_ideal_error
from twinloop.calibration.detail.levels import Levels
from twinloop.calibration.detail.verdict import compare_levels, recommend
from twinloop.calibration.losses import get_loss
from twinloop.engine import simulate
from twinloop.scenario import Scenario


def test_one_search_per_version_is_the_paired_t_test() -> None:
    a, b = np.random.default_rng(1).uniform(0.1, 0.4, size=(2, 9))
    found = compare_losses({1: a[None], 2: b[None]}, {1: 1.0, 2: -1.0})
    interval = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_one_run_is_the_test_of_welch_over_the_searches() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.uniform(0.1, 0.4, size=4), rng.uniform(0.2, 0.3, size=7)
    found = compare_losses({1: a[:, None], 2: b[:, None]}, {1: 1.0, 2: -1.0})
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_several_comparisons_have_a_higher_level() -> None:
    a, b = np.random.default_rng(3).uniform(0.1, 0.4, size=(2, 9))
    found = compare_losses({1: a[None], 2: b[None]}, {1: 1.0, 2: -1.0}, comparisons=5)
    interval = stats.ttest_rel(a, b).confidence_interval(0.99)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_intervals_contain_the_true_difference_of_runs_and_searches() -> None:
    rng = np.random.default_rng(4)
    covered = 0
    for _ in range(400):
        # Effects of runs are shared; those of searches, and of runs in a version, are not.
        runs = rng.normal(0.0, 0.2, size=8)
        losses = {
            version: mean
            + runs
            + rng.normal(0.0, 0.02, size=8)
            + rng.normal(0.0, 0.03, size=(3, 1))
            + rng.normal(0.0, 0.01, size=(3, 8))
            for version, mean in ((1, 0.5), (2, 0.4))
        }
        found = compare_losses(losses, {1: 1.0, 2: -1.0})
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.1 <= found.high
    assert 0.92 <= covered / 400 <= 0.99


def test_without_variation_there_is_no_interval() -> None:
    one = compare_losses({1: np.array([[0.3]]), 2: np.array([[0.1]])}, {1: 1.0, 2: -1.0})
    assert (one.low, one.verdict) == (None, "unknown")


def test_a_level_is_compared_in_pairs_of_versions_that_are_equal_otherwise() -> None:
    levels = Levels.of(
        {"policy": ["fcfs", "sjf"], "seed": [1, 2], "except": [{"policy": "sjf", "seed": 2}]}
    )
    rows = np.array([[0.0, 0.01, 0.02]])
    losses = {1: 0.5 + rows, 2: 0.1 + rows, 3: 0.2 + rows}
    found = list(compare_levels(levels.factors, levels.versions, losses))
    # The version without a partner, with seed 2, does not count for the policy.
    assert [(each.factor, each.pairs) for each in found] == [("policy", 1), ("seed", 1)]
    assert [each.difference.estimate for each in found] == pytest.approx([-0.3, -0.4])
    # The best version is the second: with its seed there is no pair of policies.
    assert [each.at_best is None for each in found] == [True, False]


def test_a_difference_too_small_to_matter_does_not_count() -> None:
    rows = np.array([[0.1, 0.2, 0.3]])
    assert recommend({1: rows, 2: rows + 5e-4}, {1: 5, 2: 2}) == (2, [1, 2])
    assert recommend({1: rows, 2: rows + 5e-3}, {1: 5, 2: 2}) == (1, [1])


def test_the_ideal_simulator_returns_the_mean_of_the_repetitions() -> None:
    case = Case.of([make_truth(1, 0), make_truth(1, 1)], scenario=make_scenario(1))
    a, b = (real.makespan for real in case.reals)
    found = compute_ideal_error(get_loss("makespan"), [case])
    assert found is not None
    mean = (a + b) / 2
    assert found.loss == pytest.approx((abs(a - mean) / a + abs(b - mean) / b) / 2)
    assert (found.runs, found.workloads) == (2, 1)
    # A repetition that is not compared counts for the mean alone.
    other = Case.of([make_truth(1, 2)], scenario=make_scenario(1))
    found = compute_ideal_error(get_loss("makespan"), [case], [other])
    assert found is not None
    mean = (a + b + other.reals[0].makespan) / 3
    assert found.loss == pytest.approx((abs(a - mean) / a + abs(b - mean) / b) / 2)
    alone = Case.of([make_truth(1, 0)], scenario=make_scenario(1))
    assert compute_ideal_error(get_loss("makespan"), [alone]) is None


def test_a_task_that_never_completed_has_no_mean() -> None:
    runs = make_runs([[1.0, np.nan], [3.0, np.nan]])
    assert average_runs([runs[0], runs[1]]).run_time.tolist()[0] == 2.0


def test_a_list_schedule_of_a_graph_by_hand() -> None:
    # Two cores; a (4 s) and b (2 s) start, c (1 s) needs b, d (3 s, two cores) needs a and c,
    # e (1 s) is submitted at 3 s.
    start, end = schedule_list(
        np.array([0.0, 0.0, 0.0, 0.0, 3.0]),
        np.array([1.0, 1.0, 1.0, 2.0, 1.0]),
        np.array([4.0, 2.0, 1.0, 3.0, 1.0]),
        [[], [], [1], [0, 2], []],
        2.0,
    )
    assert start.tolist() == [0.0, 0.0, 2.0, 4.0, 3.0]
    assert end.tolist() == [4.0, 2.0, 3.0, 7.0, 4.0]


def test_independent_tasks_are_scheduled_as_by_fcfs() -> None:
    scenario = make_scenario(5)
    (case,) = make_cases([simulate(scenario)], scenario=scenario)
    twin = simulate_baseline(case, MeanRunTimes.of([case]).predict(case)[0], 3.0)
    assert twin[0].end == pytest.approx(case.reals[0].end)
    assert twin[0].makespan == pytest.approx(case.reals[0].makespan)


def test_mean_run_times_are_of_the_same_task_else_of_its_kind_else_of_all() -> None:
    def make_case(tasks: dict[str, tuple[float, str]]) -> Case:
        described = [
            {"id": name, "run_time": seconds, "kind": kind}
            for name, (seconds, kind) in tasks.items()
        ]
        scenario = Scenario(platform="1x8", policy="fcfs", workload={"tasks": described})
        runs = [simulate(scenario.replace(**{"model.speed_factor": each})) for each in (1.0, 2.0)]
        return Case.of(runs, scenario=scenario)

    first = make_case({"a": (10.0, "cpu"), "b": (20.0, "cpu"), "c": (60.0, "io")})
    means = MeanRunTimes.of([first])
    times, sources = means.predict(first)
    assert times.tolist() == [7.5, 15.0, 45.0]
    assert sources == {"task": 3, "name": 0, "kind": 0, "all": 0}
    # Tasks of another workload may have the same ids.
    times, sources = means.predict(make_case({"a": (99.0, "cpu"), "b": (99.0, "disk")}))
    assert times.tolist() == [11.25, 22.5]
    assert sources == {"task": 0, "name": 0, "kind": 1, "all": 1}
