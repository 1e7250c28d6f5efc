"""Prediction intervals against textbook formulas, and their coverage in synthetic runs."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calibration.models import Bag, LossOnly
from tests.examples import examples
from twinloop.calibration.identifiability.constrained_fits import LeastSquaresFit
from twinloop.calibration.parameters.kinds import LinearParameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.uncertainty.evaluation_count import Evaluations
from twinloop.calibration.uncertainty.prediction_intervals import (
    compute_intervals,
    estimate_noise,
    sample_posterior,
)
from twinloop.description.errors import InputError


def covered(bag, seed, budget):
    """Return whether a new run is in the interval that was predicted from the other runs."""
    middle = np.full(len(bag.space), 0.5)
    best, _ = LeastSquaresFit(Evaluations(bag, 2000), 0.05, np.full(len(middle), 0.01)).fit(
        middle, None, 0.0
    )
    found = sample_posterior(bag, best, count=100, budget=budget, seed=seed)
    limits = compute_intervals(
        bag.makespan(found.points, *bag.new), noise=found.noise, freedom=found.freedom
    )
    return limits.low[0] <= bag.outcome <= limits.high[0]


@pytest.mark.long
def test_nine_of_ten_outcomes_are_in_their_intervals():
    # Every other bag has two parameters of which only the ratio is identifiable.
    held = [covered(Bag(seed, loose=seed % 2 == 1), seed, 1000) for seed in range(200)]
    assert 0.85 <= np.mean(held) <= 0.95


class Line:
    """Straight lines through noisy points, with the intervals of linear regression."""

    space = Space([LinearParameter("intercept", -10, 10), LinearParameter("slope", -20, 20)])
    x = np.linspace(0, 1, 8)

    def __init__(self):
        rng = np.random.default_rng(3)
        self.y = 1 + 2 * self.x + 0.2 * rng.standard_normal(8)
        self.design = np.column_stack([np.ones(8), self.x])
        self.fit, squares, *_ = np.linalg.lstsq(self.design, self.y, rcond=None)
        self.variance = squares[0] / 6
        self.best = self.space.encode({"intercept": self.fit[0], "slope": self.fit[1]})

    def at(self, points, x):
        intercept, slope = (v[:, np.newaxis] for v in self.space.decode(points).values())
        return intercept + slope * x

    def outputs(self, points):
        return self.at(points, self.x) - self.y

    def __call__(self, points):
        return (self.outputs(points) ** 2).mean(axis=1)


T_OF_6 = 1.9431803  # Student's t of 6 degrees of freedom, 95 %


@pytest.mark.parametrize("seen", ["outputs", "loss"])
def test_predictions_of_a_line_have_the_intervals_of_regression(seen):
    line = Line()
    objective, options = (line, {}) if seen == "outputs" else (LossOnly(line), {"power": 2})
    found = sample_posterior(
        objective, line.best, observations=8, count=2000, budget=20_000, seed=1, **options
    )
    new = np.array([0.5, 2.0])
    limits = compute_intervals(
        line.at(found.points, new), noise=found.noise, freedom=found.freedom, relative=False
    )
    rows = np.column_stack([np.ones(2), new])
    leverage = np.einsum("ij,jk,ik->i", rows, np.linalg.inv(line.design.T @ line.design), rows)
    half = T_OF_6 * np.sqrt(line.variance * (1 + leverage))
    middle = rows @ line.fit
    assert limits.low == pytest.approx(middle - half, abs=0.12 * half.max())
    assert limits.high == pytest.approx(middle + half, abs=0.12 * half.max())


def test_known_noise_gives_normal_intervals():
    line = Line()
    found = sample_posterior(line, line.best, noise=0.2, count=2000, budget=20_000, seed=1)
    assert found.freedom is None
    spread = np.cov(np.array(list(found.values().values())))
    expected = 0.04 * np.linalg.inv(line.design.T @ line.design)
    assert spread == pytest.approx(expected, rel=0.2)


def test_fewer_independent_observations_give_wider_intervals():
    line = Line()
    all_of_them, half = (
        np.std(sample_posterior(line, line.best, observations=each, budget=8000).points, axis=0)
        for each in (8, 4)
    )
    assert (half > 1.2 * all_of_them).all()


def _standard(share, freedom):
    """Quantiles of the normal distribution, and of Student's t where they are elementary."""
    if freedom is None:
        return NormalDist().inv_cdf(share)
    if freedom == 1:
        return math.tan(math.pi * (share - 0.5))
    return 2 * (share - 0.5) * math.sqrt(2 / (4 * share * (1 - share)))


@examples(30)
@given(
    centre=st.floats(0.1, 1e6),
    noise=st.floats(1e-4, 0.5),
    freedom=st.sampled_from([None, 1, 2]),
    level=st.floats(0.05, 0.99),
)
def test_one_calibration_has_the_interval_of_its_noise(centre, noise, freedom, level):
    found = compute_intervals(np.array([[centre]]), noise=noise, freedom=freedom, level=level)
    half = _standard((1 + level) / 2, freedom) * noise * centre
    assert found.high[0] == pytest.approx(centre + half, rel=1e-6)
    assert found.low[0] == pytest.approx(centre - half, rel=1e-6, abs=1e-6 * centre)
    assert found.median[0] == pytest.approx(centre, rel=1e-6)


def test_without_noise_the_interval_is_given_by_weighted_predictions():
    predictions = np.arange(1.0, 101.0)[:, np.newaxis]
    plain = compute_intervals(predictions, level=0.9)
    assert (plain.low[0], plain.high[0]) == pytest.approx((5.0, 95.0), abs=1.01)
    heavy = compute_intervals(predictions, weights=np.repeat([0.0, 1.0], 50), level=0.9)
    assert heavy.low[0] > 50.9


def test_a_failed_prediction_is_not_used():
    found = compute_intervals(np.array([[1.0, np.nan], [np.nan, np.nan]]), noise=0.1)
    assert found.median[0] == pytest.approx(1.0)
    assert math.isnan(found.low[1])


def test_noise_of_residuals_is_that_of_regression():
    line = Line()
    sd, freedom = estimate_noise(line.outputs(line.best[np.newaxis])[0], 2)
    assert (sd**2, freedom) == (pytest.approx(line.variance), 6)


def test_the_same_seed_draws_the_same_values():
    line = Line()
    first, second = (sample_posterior(line, line.best, budget=3000, seed=4) for _ in range(2))
    assert (first.points == second.points).all()
    assert first.evaluations <= 3000


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sample_posterior(LossOnly(Line()), Line().best),
            "observations: is required if the objective has no outputs",
        ),
        (
            lambda: sample_posterior(Line(), Line().best, observations=2),
            "2 observations are too few for 2 parameters",
        ),
        (lambda: sample_posterior(Line(), Line().best, budget=50), "50 evaluations are too few"),
        (lambda: sample_posterior(Line(), Line().best, power=3), "power: must be 1 or 2"),
        (lambda: estimate_noise(np.array([0.1]), 1), "1 residuals are too few for 1 parameters"),
        (lambda: compute_intervals(np.array([1.0])), "a row per calibration"),
        (lambda: compute_intervals(np.array([[1.0]]), level=1.5), "level: must be between"),
        (lambda: compute_intervals(np.array([[1.0]]), weights=np.zeros(1)), "weights: must be one"),
    ],
)
def test_errors_state_the_problem(make, message):
    with pytest.raises(InputError, match=message):
        make()
