"""Probabilities that come true as often as they say."""

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
    count_wins,
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


# --- what is known by hand -----------------------------------------------------------------------


def test_without_scatter_the_calibrations_are_counted() -> None:
    one, other = candidate(2, [1, 2, 3, 4]), candidate(2, [2, 2, 4, 1])
    assert compute_probability_better(one, other, "makespan_s", {}) == pytest.approx(2.5 / 4)
    assert compute_probability_better(one, other, "makespan_s", noise(0.0, 3)) == pytest.approx(
        2.5 / 4
    )


def test_calibrations_are_paired() -> None:
    """They disagree by a factor of ten, and yet none doubts the order."""
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
    apart = 5 / (share * math.hypot(95, 100))
    assert found == pytest.approx(NormalDist().cdf(apart), abs=1e-6)


def test_scatter_that_is_known_from_one_run_has_cauchys_tails() -> None:
    found = compute_probability_better(candidate(95), candidate(100), "makespan_s", noise(0.05, 1))
    apart = 5 / (0.05 * math.hypot(95, 100))
    assert found == pytest.approx(0.5 + math.atan(apart) / math.pi)


def test_of_what_more_is_better_more_wins() -> None:
    low, high = candidate(0.5, [0.5], "utilisation"), candidate(0.9, [0.9], "utilisation")
    assert compute_probability_better(high, low, "utilisation", {}) == 1.0
    assert compute_probability_better(high, low, "min:utilisation", {}) == 0.0
    found = compute_probability_better(high, low, "utilisation", noise(0.2, 1e9, "utilisation"))
    assert found == pytest.approx(NormalDist().cdf(0.4 / (0.2 * math.hypot(0.5, 0.9))), abs=1e-6)


def test_energy_per_task_scatters_as_energy_does() -> None:
    one, other = (candidate(each, kpi="energy_per_task_j") for each in (9.0, 10.0))
    scatter = noise(0.1, 5)["makespan_s"]
    assert compute_probability_better(
        one, other, "energy_per_task_j", {"energy_j": scatter}
    ) == compute_probability_better(one, other, "energy_per_task_j", {"energy_per_task_j": scatter})


def test_where_nothing_is_known_of_the_doubt_there_is_no_probability() -> None:
    assert math.isnan(compute_probability_better(candidate(1), candidate(2), "makespan_s", {}))
    failed = candidate(1, [math.nan, math.nan])
    assert math.isnan(
        compute_probability_better(failed, candidate(2, [2, 2]), "makespan_s", noise(0.1, 3))
    )


def test_a_calibration_under_which_one_failed_does_not_count() -> None:
    one, other = candidate(1, [1, math.nan, 3]), candidate(2, [2, 2, 2])
    assert compute_probability_better(one, other, "makespan_s", {}) == 0.5


def test_candidates_of_different_fits_are_refused() -> None:
    with pytest.raises(InputError, match="tried with 1 and 2 calibrations"):
        compute_probability_better(candidate(1, [1]), candidate(1, [1, 2]), "makespan_s", {})


# --- laws ----------------------------------------------------------------------------------------

seconds = st.floats(1.0, 1e4)


@given(
    st.lists(st.tuples(seconds, seconds), min_size=1, max_size=20),
    st.floats(0.0, 0.5),
    st.floats(1.0, 50.0),
)
def test_either_this_one_is_better_or_the_other(
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
def test_somebody_is_the_best(values: list[float], share: float) -> None:
    many = [candidate(each) for each in values]
    found = count_wins(sample_outcomes(many, [MAKESPAN], noise(share, 5)))
    assert found.sum() == pytest.approx(1.0)
    assert (found >= 0).all()


@pytest.mark.parametrize("freedom", [1.0, 2.0, 30.0])
@pytest.mark.parametrize("doubted", [0.0, 0.1])
def test_drawn_outcomes_agree_with_the_formula(freedom: float, doubted: float) -> None:
    rng = np.random.default_rng(4)
    drawn = 100 * np.exp(doubted * rng.standard_normal((2, 200)))
    one, other = candidate(100, drawn[0]), candidate(110, drawn[1] + 10)
    scatter = noise(0.05, freedom)
    found = count_wins(sample_outcomes([one, other], [MAKESPAN], scatter))
    exact = compute_probability_better(one, other, MAKESPAN, scatter)
    assert found[0] == pytest.approx(exact, abs=4 * math.sqrt(0.25 / 4000))


def test_what_is_said_comes_true_as_often_as_it_is_said() -> None:
    """Twins whose true calibration nobody knows, but what four noisy runs of it gave.

    The truth t is normal, so are the runs; then what they leave open of t is normal, with a mean
    and a variance from the textbook. Two candidates depend on t in different ways, and their real
    runs scatter by an unknown share, which is known from f of them.
    """
    rng = np.random.default_rng(11)
    said, came = [], []
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
        said.append(compute_probability_better(one, other, MAKESPAN, noise(estimate, freedom)))
        came.append(real[0] < real[1])
    p, held = np.array(said), np.array(came)
    assert np.mean(np.abs(p - 0.5) > 0.4) > 0.1  # it does say something
    for low in np.arange(0, 1, 0.1):
        here = (p >= low) & (p < low + 0.1)
        limit = 4 * math.sqrt((p[here] * (1 - p[here])).sum())
        assert abs(held[here].sum() - p[here].sum()) < limit + 1
    # Brier's score is that of probabilities which are true: the mean of p (1 - p).
    spread = np.std((p - held) ** 2) / math.sqrt(len(p))
    assert np.mean((p - held) ** 2) == pytest.approx(np.mean(p * (1 - p)), abs=4 * spread)


def test_the_best_of_many_is_so_as_often_as_it_is_said() -> None:
    rng = np.random.default_rng(12)
    said, came = [], []
    for _ in range(150):
        base = rng.uniform(95, 105, 5)
        allowed = rng.standard_normal(100)
        slope = rng.uniform(-5, 5, 5)
        many = [candidate(b, b + s * allowed) for b, s in zip(base, slope, strict=True)]
        scale = 0.02 * np.sqrt(6 / rng.chisquare(6))
        real = (base + slope * rng.standard_normal()) * (1 + scale * rng.standard_normal(5))
        said += count_wins(sample_outcomes(many, [MAKESPAN], noise(0.02, 6))).tolist()
        came += (np.arange(5) == real.argmin()).tolist()
    p, held = np.array(said), np.array(came)
    for low in np.arange(0, 1, 0.2):
        here = (p >= low) & (p <= low + 0.2)
        limit = 4 * math.sqrt((p[here] * (1 - p[here])).sum())
        assert abs(held[here].sum() - p[here].sum()) < limit + 1


def test_the_second_kpi_decides_among_equals() -> None:
    found = np.array([[[10.0, 5.0], [10.4, 1.0], [12.0, 0.0]]])
    assert count_wins(found).tolist() == [1.0, 0.0, 0.0]
    assert count_wins(found, tolerance=0.05).tolist() == [0.0, 1.0, 0.0]
    assert count_wins(np.array([[[1.0], [1.0]], [[np.nan], [3.0]]])).tolist() == [0.25, 0.75]


def test_scatter_of_next_to_nothing_leaves_the_calibrations() -> None:
    one, other = candidate(1, [1.0, 3.0, 2.0]), candidate(1, [2.0, 2.0, 2.0])
    assert compute_probability_better(one, other, MAKESPAN, noise(5e-324, 4)) == pytest.approx(0.5)
