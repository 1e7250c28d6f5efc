"""The example of projectiles: exact solutions with drag, recovery of physics, and invariance."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.example_scripts import load_example

gravity = load_example("gravity")


def solve_exactly(height: float, speed: float, drag: float) -> float:
    """Compute the time of the impact by the closed solution of quadratic drag."""
    g = gravity.GRAVITY
    terminal = math.sqrt(g / drag)
    rise = terminal / g * math.atan(speed / terminal)
    apex = height + terminal**2 / (2 * g) * math.log1p((speed / terminal) ** 2)
    # acosh(exp(x)) without overflow.
    x = g * apex / terminal**2
    fall = terminal / g * (x + math.log1p(math.sqrt(-math.expm1(-2 * x))))
    return rise + fall


@pytest.mark.parametrize("density", [2.0, 200.0, 20_000.0])
@pytest.mark.parametrize("radius", [0.005, 5.0])
def test_the_truth_is_the_exact_solution_on_the_time_grid(density: float, radius: float) -> None:
    drag = gravity.compute_drag(density, radius)
    for height, speed in product((1.0, 1000.0), (0.0, 10.0, 1000.0)):
        impact = gravity.follow(height, speed, drag)["impact"]
        exact = solve_exactly(height, speed, drag)
        assert exact - 1e-4 * exact <= impact <= exact * (1 + 1e-4) + gravity.STEP


def test_the_drag_of_a_sphere() -> None:
    """As printed: half of 1.225 x 0.47 x 2 pi r^2, over 4/3 pi r^3 of the density."""
    assert gravity.compute_drag(2.0, 5.0) == pytest.approx(0.5 * 1.225 * 0.47 * 2 / (4 / 3 * 10))
    # It depends on density x radius only, so that the 20 spheres have 8 values.
    drags = {
        round(gravity.compute_drag(*sphere), 12)
        for sphere in product(gravity.DENSITIES, gravity.RADII)
    }
    assert len(drags) == 8
    launches = len(gravity.HEIGHTS) * len(gravity.SPEEDS)
    assert len(gravity.DENSITIES) * len(gravity.RADII) * launches == 400


def test_physics_is_recovered_without_air() -> None:
    experiments = gravity.make_experiments((math.inf,), (1.0,))
    assert len(experiments) == 20
    for each in experiments:
        h, v = each.case["height"], each.case["speed"]
        exact = (v + math.sqrt(v * v + 2 * gravity.GRAVITY * h)) / gravity.GRAVITY
        assert 0 <= each.truth["impact"] - exact + 1e-9 <= gravity.STEP + 1e-9
        assert gravity.simulate(gravity.PHYSICS, each.case) == pytest.approx(each.truth, rel=1e-6)
    fit = gravity.calibrate(experiments[::3], budget=400)
    for name, value in gravity.PHYSICS.items():
        assert fit.values[name] == pytest.approx(value, rel=2e-3)


@given(st.floats(0.1, 2.0), st.floats(0.0, 1000.0), st.floats(1.0, 1000.0))
def test_the_impact_depends_on_ratios_of_the_parameters_only(
    factor: float, speed: float, height: float
) -> None:
    """So the time of the impact alone cannot identify all three."""
    case = {"height": height, "speed": speed, "impact": 1.0}
    scaled = {name: value * factor for name, value in gravity.PHYSICS.items()}
    one, other = (gravity.simulate(v, case)["impact"] for v in (gravity.PHYSICS, scaled))
    assert one == pytest.approx(other, abs=gravity.STEP * 1.001)


@pytest.mark.long
def test_gravity_appears_lower_for_light_spheres() -> None:
    """The densest sphere gives A / C of physics within 2 %, a light one much less."""
    ratios = []
    for density, radius in ((20_000.0, 5.0), (2.0, 5.0)):
        found = gravity.keep_impact(gravity.make_experiments((density,), (radius,)))
        fit = gravity.calibrate(found, budget=200)
        ratios.append(fit.values["A"] / fit.values["C"])
        error = gravity.compute_error(found, gravity.PHYSICS)
        assert gravity.compute_error(found, fit.values) <= 1.05 * error
    assert ratios[0] == pytest.approx(gravity.PHYSICS["A"], rel=0.02)
    assert abs(ratios[1]) < 0.7 * abs(ratios[0])
