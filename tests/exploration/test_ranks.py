"""Ranks, Kendall's tau and paired intervals: definitions, a published table, simulations."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from twinloop.exploration.ranking.comparison import (
    PairedDifference,
    compute_ranks,
    compute_tau,
    judge_difference,
)

FEW = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=8)
PAIRS = FEW.flatmap(
    lambda one: st.tuples(
        st.just(one),
        st.lists(st.integers(-5, 5).map(float), min_size=len(one), max_size=len(one)),
    )
)
#: Few distinct values, so that many are equal; some are missing.
FIGURES = st.one_of(st.integers(-3, 3).map(float), st.just(math.nan), st.floats(-1e3, 1e3))


def average_rank(value: float, values: list[float], *, lower: bool) -> float:
    """The definition: one more than the better values, and half a rank for each other equal one."""
    if math.isnan(value):
        return math.nan
    better = sum(each < value if lower else each > value for each in values)
    return better + (sum(each == value for each in values) + 1) / 2


def tau_b(pairs: list[tuple[float, float]]) -> float | None:
    """The definition: concordant less discordant pairs, over the roots of the untied ones."""
    known = [pair for pair in pairs if not any(map(math.isnan, pair))]
    score = untied_one = untied_other = 0
    for (x, y), (v, w) in combinations(known, 2):
        order_one, order_other = (x > v) - (x < v), (y > w) - (y < w)
        score += order_one * order_other
        untied_one += order_one != 0
        untied_other += order_other != 0
    untied = untied_one * untied_other
    return score / math.sqrt(untied) if untied else None


@given(st.lists(FIGURES, max_size=10), st.booleans())
def test_ranks_are_those_of_the_definition(values: list[float], lower: bool) -> None:
    expected = [average_rank(value, values, lower=lower) for value in values]
    np.testing.assert_array_equal(compute_ranks(values, lower=lower), expected)


@given(st.lists(st.tuples(FIGURES, FIGURES), max_size=10))
def test_tau_is_that_of_the_definition(pairs: list[tuple[float, float]]) -> None:
    found = compute_tau([one for one, _ in pairs], [other for _, other in pairs])
    expected = tau_b(pairs)
    assert (found is None) == (expected is None)
    if found is not None:
        assert found == pytest.approx(expected, rel=1e-15, abs=1e-15)
        assert -1.0 <= found <= 1.0


@given(PAIRS)
def test_the_paired_interval_is_that_of_the_t_test(pair: tuple[list[float], list[float]]) -> None:
    one, other = pair
    found = PairedDifference.of(one, other)
    assert found is not None
    if np.ptp(np.subtract(one, other)) == 0:
        assert found.low == found.high == found.mean
        return
    interval = stats.ttest_rel(one, other).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


@given(PAIRS)
def test_swapped_configurations_get_the_same_verdict(
    pair: tuple[list[float], list[float]],
) -> None:
    one, other = pair
    for predicted in (-1.0, 1.0):
        assert judge_difference(predicted, PairedDifference.of(one, other)) == judge_difference(
            -predicted, PairedDifference.of(other, one)
        )


@given(PAIRS, st.floats(-1e3, 1e3))
def test_drift_of_a_block_changes_nothing(
    pair: tuple[list[float], list[float]], drift: float
) -> None:
    """An effect that all runs of a repetition share cancels; this is the purpose of blocks."""
    one, other = pair
    moved = [drift * repetition for repetition in range(len(one))]
    before, after = (
        PairedDifference.of(one, other),
        PairedDifference.of(np.add(one, moved), np.add(other, moved)),
    )
    assert before is not None
    assert after is not None
    assert (after.mean, after.low, after.high) == pytest.approx(
        (before.mean, before.low, before.high), abs=1e-8
    )


def test_missing_repetitions_are_left_out() -> None:
    found = PairedDifference.of([1.0, math.nan, 3.0], [0.0, 7.0, math.nan])
    assert found == PairedDifference(1.0, None, None, 1)
    assert judge_difference(1.0, found) == "not assessable"
    assert PairedDifference.of([math.nan], [1.0]) is None
    assert compute_ranks([math.nan, 2.0, 1.0]).tolist()[1:] == [2.0, 1.0]
    assert compute_tau([math.nan, 2.0, 1.0], [9.0, 2.0, 1.0]) == 1.0


def test_ranks_of_a_published_table() -> None:
    """Xie, From Reality to Simulation, table 5.10: Pack-IC+, FirstFit, Spread-IC-."""
    table = {
        "makespan": ([4205.65, 4229.52, 4297.19], [4440.66, 4358.72, 4412.81]),
        "energy per task": ([732.21, 732.72, 734.06], [298.78, 298.35, 298.68]),
        "95 % wait": ([816.38, 1227.33, 490.79], [985.44, 1361.72, 694.29]),
    }
    published = {
        "makespan": ([1, 2, 3], [3, 1, 2]),
        "energy per task": ([1, 2, 3], [3, 1, 2]),
        "95 % wait": ([2, 3, 1], [2, 3, 1]),
    }
    for metric, (predicted, real) in table.items():
        assert (compute_ranks(predicted).tolist(), compute_ranks(real).tolist()) == published[
            metric
        ]
    # By hand: of three pairs of the makespan, one is in the right order and two are reversed.
    assert compute_tau(*table["makespan"]) == pytest.approx(-1 / 3)
    assert compute_tau(*table["energy per task"]) == pytest.approx(-1 / 3)
    assert compute_tau(*table["95 % wait"]) == 1.0


def test_the_interval_covers_the_truth_in_nine_of_ten_cases() -> None:
    random = np.random.default_rng(7)
    for repetitions in (2, 5):
        drift = random.normal(0, 10, (2000, repetitions))
        one = drift + 3.0 + random.normal(0, 1, drift.shape)
        other = drift + random.normal(0, 1, drift.shape)
        covered = 0
        for first, second in zip(one, other, strict=True):
            found = PairedDifference.of(first, second)
            assert found is not None
            assert found.low is not None
            assert found.high is not None
            covered += found.low <= 3.0 <= found.high
        # The standard error of a share of 0.9 in 2,000 is 0.0067.
        assert 0.87 < covered / 2000 < 0.93


def test_verdicts_on_large_and_on_absent_differences() -> None:
    random = np.random.default_rng(3)
    verdicts: dict[float, list[str]] = {0.0: [], 5.0: []}
    for truth, found in verdicts.items():
        for _ in range(500):
            noise = random.normal(0, 1, (2, 5))
            found.append(judge_difference(1.0, PairedDifference.of(noise[0] + truth, noise[1])))
    assert verdicts[5.0].count("holds") > 495
    assert verdicts[5.0].count("reversed") == 0
    # Without a difference, each sign is found in 5 of 100 cases.
    assert 0.85 < verdicts[0.0].count("tie") / 500 < 0.95


def test_the_pooled_variance_of_two_configurations_is_that_of_their_differences() -> None:
    rng = np.random.default_rng(4)
    for repetitions in (2, 3, 4):
        one, other = rng.normal(10, 1, (2, repetitions)).tolist()
        assert PairedDifference.of(one, other, all_runs=[one, other]) == pytest.approx(
            PairedDifference.of(one, other)
        )


@pytest.mark.parametrize(("configurations", "repetitions"), [(4, 2), (3, 3), (6, 2)])
def test_the_pooled_interval_covers_the_truth_in_nine_of_ten_cases(
    configurations: int, repetitions: int
) -> None:
    """Blocks with drift, different configurations, and the same variance for all."""
    rng = np.random.default_rng(2)
    count, covered = 2000, 0
    means = np.arange(configurations, dtype=float)[:, None]
    for _ in range(count):
        drift = rng.normal(0, 5, repetitions)
        runs = (means + drift + rng.normal(0, 0.7, (configurations, repetitions))).tolist()
        found = PairedDifference.of(runs[0], runs[-1], all_runs=runs)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= means[0, 0] - means[-1, 0] <= found.high
    # Four standard errors of a share of 90 %.
    assert abs(covered / count - 0.9) < 4 * (0.09 / count) ** 0.5


def test_the_variance_of_five_pairs_is_not_pooled() -> None:
    one, other, wild = [1.0, 2, 3, 4, 5], [2.0, 3, 4, 5, 6.5], [0.0, 50, -50, 80, 9]
    assert PairedDifference.of(one, other, all_runs=[one, other, wild]) == PairedDifference.of(
        one, other
    )
