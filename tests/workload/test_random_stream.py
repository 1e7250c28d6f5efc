"""Random streams: distributions, and the same bits on every machine."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.workload.generators.elementary import exp, gamma_cdf, log, log_gamma
from twinloop.workload.generators.random_stream import RandomStream
from twinloop.workload.generators.shares import apportion

MANY = 200_000


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_log_is_within_two_units_in_the_last_place(x: float) -> None:
    assert abs(float(log(x)) - math.log(x)) <= 2 * math.ulp(math.log(x))


@given(st.floats(min_value=-700, max_value=700))
def test_exp_is_within_two_units_in_the_last_place(x: float) -> None:
    assert abs(float(exp(x)) - math.exp(x)) <= 2 * math.ulp(math.exp(x))


@given(st.floats(min_value=1e-3, max_value=1e4))
def test_log_gamma_agrees_with_the_library(a: float) -> None:
    assert log_gamma(a) == pytest.approx(math.lgamma(a), rel=1e-12, abs=1e-12)


@given(st.integers(1, 40), st.floats(0.01, 100), st.floats(0.2, 10))
def test_gamma_cdf_of_a_whole_shape_is_that_of_a_poisson_process(
    shape: int, x: float, scale: float
) -> None:
    """P(gamma of shape n <= x) = P(at least n events of a Poisson process until x)."""
    rate = x / scale
    fewer = sum(math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(shape))
    assert float(gamma_cdf(x, float(shape), scale)) == pytest.approx(1 - fewer, abs=1e-11)


def test_uniform_figures_are_those_of_numpy_for_the_same_stream() -> None:
    draws = RandomStream(42, "stream")
    ours = draws.uniform(1000)
    theirs = np.random.Generator(type(draws._bits)(draws._bits.seed_seq)).random(1000)
    assert ours.tolist() == theirs.tolist()


def test_streams_with_other_names_or_seeds_differ() -> None:
    first = RandomStream(1, "a").uniform(8).tolist()
    assert first != RandomStream(1, "b").uniform(8).tolist()
    assert first != RandomStream(2, "a").uniform(8).tolist()


def assert_distributed(figures: np.ndarray, cdf: list[float], at: list[float]) -> None:
    """The empirical distribution function is within 5 sigma of the distribution."""
    for point, expected in zip(at, cdf, strict=True):
        sigma = math.sqrt(expected * (1 - expected) / figures.size)
        assert abs(np.mean(figures <= point) - expected) < 5 * sigma, point


def test_exponential() -> None:
    at = [0.05, 0.3, 1.0, 2.0, 4.0]
    assert_distributed(RandomStream(1, "x").exponential(MANY), [1 - math.exp(-x) for x in at], at)


def test_exponential_below_a_bound_is_the_conditional_distribution() -> None:
    at = [0.1, 0.5, 1.0, 1.4]
    figures = RandomStream(1, "x").exponential(MANY, below=1.5)
    assert figures.max() < 1.5
    assert_distributed(figures, [(1 - math.exp(-x)) / (1 - math.exp(-1.5)) for x in at], at)


def test_normal() -> None:
    at = [-2.5, -1.0, -0.2, 0.0, 0.7, 1.5, 3.0]
    normal = [0.5 * (1 + math.erf(x / math.sqrt(2))) for x in at]
    assert_distributed(RandomStream(1, "x").normal(MANY), normal, at)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_normal_gives_the_requested_number(count: int) -> None:
    assert RandomStream(1, "x").normal(count).size == count


def test_lognormal_has_the_mean_and_the_variation() -> None:
    figures = RandomStream(1, "x").lognormal(MANY, 600.0, 1.5)
    sigma = math.sqrt(math.log(1 + 1.5**2))
    median = 600.0 * math.exp(-(sigma**2) / 2)
    assert_distributed(figures, [0.5], [median])
    assert_distributed(
        figures, [0.5 * (1 + math.erf(1 / math.sqrt(2)))], [median * math.exp(sigma)]
    )
    assert abs(figures.mean() - 600.0) < 5 * 600.0 * 1.5 / math.sqrt(MANY)


@pytest.mark.parametrize("shape", [1.0, 2.0, 5.0, 30.0])
def test_gamma(shape: float) -> None:
    """A gamma variate of whole shape is a sum of exponential ones (see the test of the cdf)."""
    at = [shape * part for part in (0.3, 0.7, 1.0, 1.3, 2.0)]
    cdf = [
        1 - sum(math.exp(k * math.log(x) - x - math.lgamma(k + 1)) for k in range(int(shape)))
        for x in at
    ]
    assert_distributed(RandomStream(1, "x").gamma(np.full(MANY, shape)), cdf, at)


def test_integers_and_choice_have_their_probabilities() -> None:
    figures = RandomStream(1, "x").integers(3, 6, MANY)
    assert set(figures.tolist()) == {3, 4, 5, 6}
    assert_distributed(figures, [0.25, 0.5, 0.75], [3, 4, 5])
    picked = RandomStream(1, "x").choice([1, 0, 7, 2], MANY)
    assert set(picked.tolist()) == {0, 2, 3}
    assert_distributed(picked, [0.1, 0.8], [0, 2])


@given(st.integers(0, 200), st.integers(0, 2**64))
def test_permutation_is_a_permutation(count: int, seed: int) -> None:
    assert sorted(RandomStream(seed, "x").permutation(count).tolist()) == list(range(count))


@given(st.integers(0, 10_000), st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30))
def test_shares_add_up_and_are_off_by_less_than_one(whole: int, shares: list[float]) -> None:
    parts = apportion(whole, np.array(shares))
    assert parts.sum() == whole
    ideal = whole * np.array(shares) / sum(shares)
    assert np.all(np.abs(parts - ideal) < 1 + 1e-9)


def test_the_bits_are_the_same_on_every_machine() -> None:
    """The digests must not change, so that a seed in a publication stays valid."""
    draws = RandomStream(20250901, "promise")
    figures = [
        draws.uniform(1000),
        draws.exponential(1000),
        draws.normal(1000),
        draws.gamma(np.linspace(1.0, 700.0, 1000)),
        draws.lognormal(1000, 600.0, 2.0),
    ]
    digest = hashlib.sha256(np.concatenate(figures).astype("<f8").tobytes()).hexdigest()
    assert digest == "eafee211d985e343ed76e83b65f71d54b1680c56421bacd70c097a3edd9b2e78"
