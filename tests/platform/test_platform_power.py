"""Power models: properties of their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description import DescriptionError, InputError
from twinloop.platform import (
    Asymptotic,
    Constant,
    Cubic,
    Linear,
    Mse,
    PowerModel,
    Sqrt,
    Square,
    Table,
)

WATTS = st.floats(0, 1e6)
ENDS = st.tuples(WATTS, WATTS).map(lambda pair: {"idle": min(pair), "max": max(pair)})
SHARES = st.floats(0, 1)
EXPONENTS = st.floats(0.1, 10)
WIDTHS = st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 1e-300, 0.3])

MEETING_BOTH_ENDS: list[Callable[..., PowerModel]] = [Linear, Sqrt, Square, Cubic]


@given(ENDS, st.sampled_from(MEETING_BOTH_ENDS))
def test_power_goes_from_idle_at_0_to_max_at_1(
    ends: dict[str, float], model: Callable[..., PowerModel]
) -> None:
    assert model(**ends).watts([0, 1]) == pytest.approx([ends["idle"], ends["max"]])


@given(ENDS, EXPONENTS)
def test_mse_is_idle_at_0_and_max_at_1_for_every_exponent(ends: dict[str, float], r: float) -> None:
    assert Mse(**ends, r=r).watts([0, 1]) == pytest.approx([ends["idle"], ends["max"]])


@given(ENDS, WIDTHS, st.booleans())
def test_asymptotic_is_idle_at_0_for_every_a_and_never_above_max(
    ends: dict[str, float], a: float, dvfs: bool
) -> None:
    model = Asymptotic(**ends, a=a, dvfs=dvfs)
    assert float(model.watts(0)) == ends["idle"]
    watts = model.watts(np.linspace(0, 1, 21))
    assert np.all(watts <= ends["max"] * (1 + 1e-12))
    gap = (ends["max"] - ends["idle"]) / 2 * (math.exp(-1 / a) if a > 1e-300 else 0.0)
    assert watts[-1] == pytest.approx(ends["max"] - gap)


@given(ENDS, WIDTHS, st.lists(SHARES, min_size=2), st.booleans())
def test_power_grows_with_utilisation(
    ends: dict[str, float], a: float, shares: list[float], dvfs: bool
) -> None:
    shares = sorted(shares)
    models: list[PowerModel] = [model(**ends) for model in MEETING_BOTH_ENDS]
    models += [Asymptotic(**ends, a=a, dvfs=dvfs), Mse(**ends, r=1.4)]
    for model in models:
        assert np.all(np.diff(model.watts(shares)) >= -1e-9 * ends["max"])


@given(ENDS, SHARES)
def test_between_0_and_1_a_higher_power_of_u_draws_less(ends: dict[str, float], u: float) -> None:
    by_model = [float(model(**ends).watts(u)) for model in (Sqrt, Linear, Square, Cubic)]
    assert by_model == pytest.approx(sorted(by_model, reverse=True))


@pytest.mark.parametrize(
    ("model", "u", "watts"),
    [
        # (25, 174): max - idle = 149
        (Linear(idle=25, max=174), 0.5, 99.5),
        (Sqrt(idle=25, max=174), 0.25, 99.5),
        (Square(idle=25, max=174), 0.5, 62.25),
        (Cubic(idle=25, max=174), 0.5, 43.625),
        (Mse(idle=25, max=174, r=4), 0.5, 164.6875),  # 2*0.5 - 0.5^4 = 0.9375
        (Mse(idle=25, max=174, r=1), 0.5, 99.5),
        (Asymptotic(idle=0, max=200, a=0.5), 0.5, 100 * (1.5 - math.exp(-1))),
        (Asymptotic(idle=0, max=200, a=0.5, dvfs=True), 0.5, 100 * (1.125 - math.exp(-0.25))),
        (Asymptotic(idle=0, max=200, a=0), 0.5, 150.0),
        (Constant(power="1 kW"), 0.3, 1000.0),
        (Table(points=[(0, 50), (0.5, 100), (1, 200)]), 0.25, 75.0),
        (Table(points=[(0, 50), (0.5, 100), (1, 200)]), 0.75, 150.0),
    ],
)
def test_hand_computed_powers(model: PowerModel, u: float, watts: float) -> None:
    assert float(model.watts(u)) == pytest.approx(watts)


def test_a_table_passes_through_its_points() -> None:
    # SPECpower-like: watts at idle and 10..100 % load.
    watts = [50.0, 80, 95, 110, 125, 140, 158, 180, 205, 230, 260]
    table = Table(points=[(level / 10, power) for level, power in enumerate(watts)])
    assert table.watts(np.arange(11) / 10) == pytest.approx(watts)


def test_an_array_gives_the_same_powers_as_single_values() -> None:
    model = Mse(idle=25, max=174, r=4)
    grid = np.linspace(0, 1, 12).reshape(3, 4)
    assert model.watts(grid).shape == (3, 4)
    assert model.watts(grid)[1, 2] == float(model.watts(grid[1, 2]))


@pytest.mark.parametrize("u", [-0.1, 1.1, math.nan, math.inf, [0.5, 2.0]])
def test_a_utilisation_outside_0_to_1_is_refused(u: object) -> None:
    with pytest.raises(InputError, match="utilisation: must be between 0 and 1"):
        Linear(idle=1, max=2).watts(u)  # type: ignore[arg-type]


def test_a_rounding_error_above_1_is_accepted() -> None:
    assert float(Linear(idle=1, max=2).watts(1 + 1e-12)) == 2.0


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([(0.1, 1), (1, 2)], "points[0]: must be the power at utilisation 0"),
        ([(0, 1), (0.9, 2)], "points[1]: must be the power at utilisation 1"),
        ([(0, 1), (0.5, 2), (0.5, 3), (1, 4)], "points[2]: must have a higher utilisation"),
        ([(0, 1)], "points: must have at least 2 items"),
    ],
)
def test_an_incomplete_power_table_is_refused(points: list[tuple[float, float]], said: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        Table(points=points)
    assert said in str(caught.value)
