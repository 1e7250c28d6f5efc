"""Confidence regions of known shape, and the coverage of the bound in simulated regressions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.calibration.parameters.kinds import (
    CategoricalParameter,
    ExponentialParameter,
    LinearParameter,
)
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.uncertainty.confidence_region import (
    compute_loss_bound,
    find_confidence_region,
)
from twinloop.calibration.uncertainty.ensemble_mcmc import sample_by_ensemble
from twinloop.description.errors import InputError


class Bowl:
    """The distance from a centre, over a radius for each axis: the bound cuts out an ellipsoid."""

    def __init__(self, centre, radii):
        self.centre, self.radii = np.array(centre), np.array(radii)
        self.space = Space([LinearParameter(f"p{axis}", 0, 1) for axis in range(len(centre))])
        self.count = 0

    def __call__(self, points):
        self.count += len(points)
        return np.sqrt((((points - self.centre) / self.radii) ** 2).sum(axis=1))


class Valley:
    """Only the mean of all coordinates matters."""

    def __init__(self, dimensions):
        self.space = Space([LinearParameter(f"p{axis}", 0, 1) for axis in range(dimensions)])

    def __call__(self, points):
        return abs(points.mean(axis=1) - 0.5)


def test_grid_finds_an_ellipse():
    bowl = Bowl([0.4, 0.6], [0.3, 0.05])
    found = find_confidence_region(bowl, bowl.centre, loss_bound=1.0, outer_bound=1.5, budget=4000)
    assert found.method == "grid"
    assert found.spread["min"].to_list() == pytest.approx([0.1, 0.55], abs=0.02)
    assert found.spread["max"].to_list() == pytest.approx([0.7, 0.65], abs=0.02)
    # The box reaches from the axes at the second loss, cut off by the range.
    assert found.box.T.tolist() == [
        pytest.approx([0.0, 0.85], abs=0.01),
        pytest.approx([0.525, 0.675], abs=0.001),
    ]
    # The share of the area of a box that is in its ellipse.
    even = found.weights > 0
    inside = np.count_nonzero(even) / 3600
    assert inside == pytest.approx(math.pi * 0.3 * 0.05 / (0.85 * 0.15), rel=0.15)


@pytest.mark.parametrize("radius", [0.3, 0.02])
def test_points_are_uniform_in_a_ball_in_five_dimensions(radius):
    bowl = Bowl([0.5] * 5, [radius] * 5)
    found = find_confidence_region(bowl, bowl.centre, loss_bound=1.0, budget=8000, seed=3)
    deviations = np.sqrt(np.average((found.points - 0.5) ** 2, axis=0, weights=found.weights))
    # The second moment of a ball along an axis is r² / (d + 2).
    assert deviations == pytest.approx(np.full(5, radius / math.sqrt(7)), rel=0.15)


def test_walkers_draw_from_the_given_density():
    # A narrow normal density with a known covariance.
    rng = np.random.default_rng(2)
    shape = 0.03 * np.linalg.qr(rng.normal(size=(6, 6)))[0] * np.array([1, 1, 1, 0.3, 0.1, 0.03])
    back = np.linalg.inv(shape)

    def log_density(points):
        return -0.5 * (((points - 0.5) @ back.T) ** 2).sum(axis=1)

    start = 0.5 + 0.3 * rng.standard_normal((64, 6)) @ shape.T
    places, logs = sample_by_ensemble(log_density, start, log_density(start), 1500, rng)
    settled = (places[300:].reshape(-1, 6) - 0.5) @ back.T
    assert settled.std(axis=0) == pytest.approx(np.ones(6), rel=0.06)
    assert log_density(places[-1]) == pytest.approx(logs[-1])


def test_random_walks_follow_a_diagonal_valley():
    found = find_confidence_region(Valley(4), np.full(4, 0.5), loss_bound=0.002, budget=6000)
    assert found.method == "drawn from the region"
    assert found.spread["share"].min() > 0.8
    sums = found.points.sum(axis=1)
    assert abs(sums - 2.0).max() <= 0.008 + 1e-12
    # Four with a fixed sum: any two have a correlation of -1/3.
    pairs = found.correlation.drop("parameter").to_numpy()[np.triu_indices(4, 1)]
    assert pairs == pytest.approx(np.full(6, -1 / 3), abs=0.2)


def test_the_box_grows_along_a_valley_that_the_axes_miss():
    found = find_confidence_region(Valley(2), np.full(2, 0.5), loss_bound=0.01, budget=4000)
    assert found.spread["share"].min() > 0.9
    assert found.correlation["p1"][0] < -0.99


def test_a_curved_valley_is_followed_to_its_ends():
    class Bend:
        space = Space([ExponentialParameter(name, 0.1, 10) for name in ("a", "b", "c")])

        def __call__(self, points):
            a, b, c = self.space.decode(points).values()
            return abs(1 / a + 1 / b - 2) / 2 + abs(c - 1)

    found = find_confidence_region(Bend(), np.full(3, 0.5), loss_bound=0.02, budget=4000)
    # With the other one at 10, either can be as low as 1 / (2 x 1.02 - 0.1).
    low, high = found.spread["min"].to_list(), found.spread["max"].to_list()
    assert low[:2] == pytest.approx([0.515, 0.515], rel=0.1)
    assert min(high[:2]) > 5.0
    assert found.spread["share"][2] < 0.02


@examples(15)
@given(
    dimensions=st.integers(1, 5),
    radius=st.floats(0.01, 0.5),
    place=st.floats(0, 1),
    budget=st.integers(1, 700),
)
def test_everything_is_below_the_bound_and_within_the_budget(dimensions, radius, place, budget):
    bowl = Bowl([place] * dimensions, [radius] * dimensions)
    found = find_confidence_region(bowl, bowl.centre, loss_bound=1.0, budget=budget)
    assert bowl.count == found.evaluations <= budget
    assert (bowl(found.points) <= 1.0).all()
    assert bowl(found.points) == pytest.approx(found.losses)
    assert ((found.points >= 0) & (found.points <= 1)).all()
    assert found.weights.sum() == pytest.approx(1.0)
    assert len(found.frame) == len(found) >= 1


def test_all_acceptable_discrete_values_are_found():
    class Mixed:
        space = Space(
            [
                CategoricalParameter("mode", ["a", "b", "c"]),
                ExponentialParameter("cores", 1, 64, integer=True),
                LinearParameter("speed", 0, 10),
            ]
        )

        def __call__(self, points):
            values = self.space.decode(points)
            wrong = np.array([mode == "b" for mode in values["mode"]])
            return wrong + abs(values["cores"] - 4) / 10 + abs(values["speed"] - 5) / 10

    space = Mixed.space
    best = space.encode({"mode": "a", "cores": 4, "speed": 5.0})
    found = find_confidence_region(Mixed(), best, loss_bound=0.25, budget=5000)
    assert set(found.frame["mode"]) == {"a", "c"}
    assert set(found.frame["cores"]) == {2, 3, 4, 5, 6}
    mode, _, speed = found.spread.rows(named=True)
    assert sorted(mode["levels"]) == ["a", "c"]
    assert mode["min"] is None
    assert (speed["min"], speed["max"]) == pytest.approx((2.5, 7.5), abs=0.2)


def test_failed_points_are_not_in_the_region():
    bowl = Bowl([0.5, 0.5], [0.3, 0.3])

    class Half:
        space = bowl.space

        def __call__(self, points):
            return np.where(points[:, 0] > 0.5, np.nan, bowl(points))

    found = find_confidence_region(Half(), bowl.centre, loss_bound=1.0, budget=2000)
    assert found.points[:, 0].max() <= 0.5
    assert found.points[:, 0].min() == pytest.approx(0.2, abs=0.02)


def test_the_same_seed_gives_the_same_points():
    first, second = (
        find_confidence_region(Valley(4), np.full(4, 0.5), loss_bound=0.01, budget=2000, seed=7)
        for _ in range(2)
    )
    assert first.frame.equals(second.frame)


def test_a_perfect_fit_has_acceptable_points():
    bowl = Bowl([0.5], [1.0])
    found = find_confidence_region(bowl, bowl.centre, budget=500)
    assert (found.best_loss, found.loss_bound) == (0.0, 0.001)
    assert np.ptp(found.points) == pytest.approx(0.002, rel=0.1)


def test_a_constant_parameter_has_no_correlation():
    bowl = Bowl([0.5], [0.1])
    found = find_confidence_region(bowl, bowl.centre, loss_bound=1.0, budget=1)
    assert found.correlation["p0"].to_list() == [None]
    assert found.method == "none"


@pytest.mark.parametrize(
    ("best", "bound", "message"),
    [
        ([0.5, 0.5], 1.0, "best: must be 1 numbers between 0 and 1"),
        ([1.5], 1.0, "best: must be 1 numbers between 0 and 1"),
        ([0.9], 1.0, "loss_bound: must be at least the loss of the calibration, 4, not 1"),
    ],
)
def test_errors_state_the_problem(best, bound, message):
    with pytest.raises(InputError, match=message):
        find_confidence_region(Bowl([0.5], [0.1]), np.array(best), loss_bound=bound)


def test_no_loss_at_the_calibration():
    class Broken:
        space = Space([LinearParameter("x", 0, 1)])

        def __call__(self, points):
            return np.full(len(points), np.nan)

    with pytest.raises(InputError, match="fails at the calibration"):
        find_confidence_region(Broken(), np.array([0.5]))


def test_the_region_of_a_mean_of_squares_has_its_nominal_coverage():
    # Linear regression, where the region is exact: 4,000 draws of 12 observations, 3 parameters.
    rng = np.random.default_rng(5)
    design = rng.normal(size=(12, 3))
    noise = rng.normal(size=(4000, 12))
    left = noise - noise @ np.linalg.pinv(design).T @ design.T
    best = (left**2).mean(axis=1)
    factor = compute_loss_bound(1.0, observations=12, parameters=3, power=2, level=0.9)
    held = ((noise**2).mean(axis=1) <= best * factor).mean()
    assert held == pytest.approx(0.9, abs=0.015)


def test_the_region_of_a_mean_of_absolute_values_has_about_its_nominal_coverage():
    # One location, whose least absolute deviation is the median.
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(4000, 25))
    best = abs(noise - np.median(noise, axis=1, keepdims=True)).mean(axis=1)
    factor = compute_loss_bound(1.0, observations=25, parameters=1, level=0.9)
    assert (abs(noise).mean(axis=1) <= best * factor).mean() == pytest.approx(0.9, abs=0.03)


def test_only_first_and_second_powers():
    with pytest.raises(InputError, match="power: must be 1 or 2, not 3"):
        compute_loss_bound(1.0, observations=10, parameters=2, power=3)
