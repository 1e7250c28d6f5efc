"""Probabilities of an order: exact values, symmetry, and calibration by simulation."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import InputError
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.ranking.uncertainty import (
    compute_probability_better,
    compute_win_shares,
    sample_outcomes,
)
from twinloop.scenario import Scenario

SCENARIO = Scenario(platform="2x8", workload="log.swf", policy="easy")
MAKESPAN = Objective.of("makespan_s")


def candidate(predicted: float, draws: Any = (), kpi: str = "makespan_s") -> Candidate:
    drawn = {kpi: np.asarray(draws, dtype=float)} if len(draws) else {}
    return Candidate(f"{predicted:g}", SCENARIO, {kpi: predicted}, draws=drawn)


def noise(share: float, freedom: float, kpi: str = "makespan_s") -> dict[str, dict[str, float]]:
    return {kpi: {"share": share, "freedom": freedom}}


# --- exact values --------------------------------------------------------------------------------


def test_without_scatter_draws_are_counted() -> None:
    one, other = candidate(2, [1, 2, 3, 4]), candidate(2, [2, 2, 4, 1])
    assert compute_probability_better(one, other, "makespan_s", {}) == pytest.approx(2.5 / 4)
    assert compute_probability_better(one, other, "makespan_s", noise(0.0, 3)) == pytest.approx(
        2.5 / 4
    )


def test_draws_are_paired() -> None:
    """Draws differ by a factor of ten, but the order is the same in all of them."""
    seconds = np.geomspace(10, 100, 50)
    assert (
        compute_probability_better(
            candidate(30, seconds), candidate(31, 1.03 * seconds), "makespan_s", {}
        )
        == 1.0
    )


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
def test_known_scatter_is_normal(share: float) -> None:
    found = compute_probability_better(
        candidate(95), candidate(100), "makespan_s", noise(share, 1e9)
    )
    standardised = 5 / (share * math.hypot(95, 100))
    assert found == pytest.approx(NormalDist().cdf(standardised), abs=1e-6)


def test_scatter_with_one_degree_of_freedom_has_a_cauchy_distribution() -> None:
    found = compute_probability_better(candidate(95), candidate(100), "makespan_s", noise(0.05, 1))
    standardised = 5 / (0.05 * math.hypot(95, 100))
    assert found == pytest.approx(0.5 + math.atan(standardised) / math.pi)


def test_maximised_kpis() -> None:
    low, high = candidate(0.5, [0.5], "utilisation"), candidate(0.9, [0.9], "utilisation")
    assert compute_probability_better(high, low, "utilisation", {}) == 1.0
    assert compute_probability_better(high, low, "min:utilisation", {}) == 0.0
    found = compute_probability_better(high, low, "utilisation", noise(0.2, 1e9, "utilisation"))
    assert found == pytest.approx(NormalDist().cdf(0.4 / (0.2 * math.hypot(0.5, 0.9))), abs=1e-6)


def test_energy_per_task_has_the_scatter_of_energy() -> None:
    one, other = (candidate(each, kpi="energy_per_task_j") for each in (9.0, 10.0))
    scatter = noise(0.1, 5)["makespan_s"]
    assert compute_probability_better(
        one, other, "energy_per_task_j", {"energy_j": scatter}
    ) == compute_probability_better(one, other, "energy_per_task_j", {"energy_per_task_j": scatter})


def test_without_known_uncertainty_there_is_no_probability() -> None:
    assert math.isnan(compute_probability_better(candidate(1), candidate(2), "makespan_s", {}))
    failed = candidate(1, [math.nan, math.nan])
    assert math.isnan(
        compute_probability_better(failed, candidate(2, [2, 2]), "makespan_s", noise(0.1, 3))
    )


def test_failed_draws_are_ignored() -> None:
    one, other = candidate(1, [1, math.nan, 3]), candidate(2, [2, 2, 2])
    assert compute_probability_better(one, other, "makespan_s", {}) == 0.5


def test_different_numbers_of_draws_are_an_error() -> None:
    with pytest.raises(InputError, match="candidates have 1 and 2 draws"):
        compute_probability_better(candidate(1, [1]), candidate(1, [1, 2]), "makespan_s", {})


# --- properties ----------------------------------------------------------------------------------

seconds = st.floats(1.0, 1e4)


@given(
    st.lists(st.tuples(seconds, seconds), min_size=1, max_size=20),
    st.floats(0.0, 0.5),
    st.floats(1.0, 50.0),
)
def test_probabilities_of_both_orders_add_up_to_one(
    pairs: list[tuple[float, float]], share: float, freedom: float
) -> None:
    one, other = (candidate(1, column) for column in zip(*pairs, strict=True))
    scatter = noise(share, freedom)
    there, back = (
        compute_probability_better(*both, MAKESPAN, scatter)
        for both in ((one, other), (other, one))
    )
    assert there + back == pytest.approx(1.0)
    assert 0.0 <= there <= 1.0
    assert compute_probability_better(one, one, MAKESPAN, scatter) == pytest.approx(0.5)


@given(st.lists(seconds, min_size=2, max_size=6), st.floats(0.001, 0.2))
def test_probabilities_of_the_best_add_up_to_one(values: list[float], share: float) -> None:
    many = [candidate(each) for each in values]
    found = compute_win_shares(sample_outcomes(many, [MAKESPAN], noise(share, 5)))
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


@pytest.mark.parametrize("freedom", [1.0, 2.0, 30.0])
@pytest.mark.parametrize("spread_of_draws", [0.0, 0.1])
def test_sampled_outcomes_agree_with_the_formula(freedom: float, spread_of_draws: float) -> None:
    rng = np.random.default_rng(4)
    drawn = 100 * np.exp(spread_of_draws * rng.standard_normal((2, 200)))
    one, other = candidate(100, drawn[0]), candidate(110, drawn[1] + 10)
    scatter = noise(0.05, freedom)
    found = compute_win_shares(sample_outcomes([one, other], [MAKESPAN], scatter))
    exact = compute_probability_better(one, other, MAKESPAN, scatter)
    assert found[0] == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 4000))


def test_probabilities_are_calibrated() -> None:
    """Simulate twins whose true parameter is estimated from four noisy runs.

    The true value t and the noise of the runs are normal, so the posterior of t is normal with a
    known mean and variance. Two candidates depend on t in different ways, and the scatter of their
    real runs is estimated with f degrees of freedom.
    """
    rng = np.random.default_rng(11)
    predicted, occurred = [], []
    for _ in range(3000):
        truth = rng.standard_normal()
        seen = truth + 0.8 * rng.standard_normal(4)
        variance = 1 / (1 + 4 / 0.8**2)
        allowed = variance * 4 / 0.8**2 * seen.mean() + np.sqrt(variance) * rng.standard_normal(200)
        base, slope = rng.uniform(95, 105, 2), rng.uniform(-8, 8, 2)

        def kpi(t: Any, which: int, base: Any = base, slope: Any = slope) -> Any:
            return base[which] + slope[which] * t

        freedom = int(rng.integers(1, 12))
        estimate = 0.03
        share = estimate * np.sqrt(freedom / rng.chisquare(freedom))
        real = [kpi(truth, i) * (1 + share * rng.standard_normal()) for i in (0, 1)]
        one, other = (candidate(kpi(0, i), kpi(allowed, i)) for i in (0, 1))
        predicted.append(compute_probability_better(one, other, MAKESPAN, noise(estimate, freedom)))
        occurred.append(real[0] < real[1])
    p, held = np.array(predicted), np.array(occurred)
    assert np.mean(np.abs(p - 0.5) > 0.4) > 0.1  # some probabilities are informative
    for low in np.arange(0, 1, 0.1):
        here = (p >= low) & (p < low + 0.1)
        limit = 4 * math.sqrt((p[here] * (1 - p[here])).sum())
        assert abs(held[here].sum() - p[here].sum()) < limit + 1
    # The expected Brier score of calibrated probabilities is the mean of p (1 - p).
    spread = np.std((p - held) ** 2) / math.sqrt(len(p))
    assert np.mean((p - held) ** 2) == pytest.approx(np.mean(p * (1 - p)), abs=4 * spread)


def test_probabilities_of_the_best_are_calibrated() -> None:
    rng = np.random.default_rng(12)
    predicted, occurred = [], []
    for _ in range(150):
        base = rng.uniform(95, 105, 5)
        allowed = rng.standard_normal(100)
        slope = rng.uniform(-5, 5, 5)
        many = [candidate(b, b + s * allowed) for b, s in zip(base, slope, strict=True)]
        scale = 0.02 * np.sqrt(6 / rng.chisquare(6))
        real = (base + slope * rng.standard_normal()) * (1 + scale * rng.standard_normal(5))
        predicted += compute_win_shares(sample_outcomes(many, [MAKESPAN], noise(0.02, 6))).tolist()
        occurred += (np.arange(5) == real.argmin()).tolist()
    p, held = np.array(predicted), np.array(occurred)
    for low in np.arange(0, 1, 0.2):
        here = (p >= low) & (p <= low + 0.2)
        limit = 4 * math.sqrt((p[here] * (1 - p[here])).sum())
        assert abs(held[here].sum() - p[here].sum()) < limit + 1


def test_the_second_kpi_decides_between_equal_values() -> None:
    found = np.array([[[10.0, 5.0], [10.4, 1.0], [12.0, 0.0]]])
    assert compute_win_shares(found).tolist() == [1.0, 0.0, 0.0]
    assert compute_win_shares(found, tolerance=0.05).tolist() == [0.0, 1.0, 0.0]
    assert compute_win_shares(np.array([[[1.0], [1.0]], [[np.nan], [3.0]]])).tolist() == [
        0.25,
        0.75,
    ]


def test_negligible_scatter_leaves_the_draws() -> None:
    one, other = candidate(1, [1.0, 3.0, 2.0]), candidate(1, [2.0, 2.0, 2.0])
    assert compute_probability_better(one, other, MAKESPAN, noise(5e-324, 4)) == pytest.approx(0.5)
