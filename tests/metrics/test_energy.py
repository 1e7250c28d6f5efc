"""Energy, carbon and cost: integrals do not depend on the windows."""

import math

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.traces import hand_made
from twinloop.description import InputError
from twinloop.metrics import carbon, cost, energy, figures
from twinloop.scenario import Prices
from twinloop.trace import Manifest, Trace

WATTS = st.lists(st.integers(0, 500).map(float), min_size=1, max_size=20)
GRAMS = st.lists(st.integers(0, 800).map(float), min_size=1, max_size=20)


def powered(watts: list[float], dt: float = 4.0) -> Trace:
    t = [dt * (number + 1) for number in range(len(watts))]
    return Trace(power=pl.DataFrame({"t": t, "dt": [dt] * len(t), "watts": watts}))


def intensities(grams: list[float], step: float = 3.0) -> pl.DataFrame:
    t = [step * number for number in range(len(grams))]
    return pl.DataFrame({"t": t, "grams_per_kwh": grams})


@given(WATTS, st.floats(0, 100))
def test_energy_is_the_sum_of_its_parts(watts: list[float], at: float) -> None:
    trace = powered(watts)
    whole = energy(trace)
    assert whole == pytest.approx(sum(watt * 4 for watt in watts))
    parts = (energy(trace, end=at), energy(trace, start=at))
    assert sum(part or 0 for part in parts) == pytest.approx(whole)


@given(WATTS, GRAMS, st.integers(0, 80), st.integers(0, 80))
def test_carbon_is_that_of_a_literal_sum_over_seconds(
    watts: list[float], grams: list[float], one: int, other: int
) -> None:
    start, end = min(one, other), max(one, other)
    # Power changes every 4 s and intensity every 3 s: both are constant within a whole second.
    total = sum(
        watts[second // 4] * grams[min(second // 3, len(grams) - 1)]
        for second in range(start, min(end, 4 * len(watts)))
    )
    found = carbon(powered(watts), intensities(grams), start, end)
    if start >= 4 * len(watts) or end == 0:
        assert found is None  # no power is known then
    else:
        assert found == pytest.approx(total / 3.6e6, abs=1e-12)


@given(WATTS, st.integers(0, 800).map(float))
def test_a_constant_intensity_is_a_factor(watts: list[float], grams: float) -> None:
    trace = powered(watts)
    joules = energy(trace)
    assert joules is not None
    assert carbon(trace, grams) == pytest.approx(joules / 3.6e6 * grams)
    assert carbon(trace, intensities([grams])) == pytest.approx(joules / 3.6e6 * grams)


def test_the_total_counts_where_nodes_and_their_total_are_given() -> None:
    rows = {"node": ["n1", "n2", None], "t": [1.0] * 3, "dt": [1.0] * 3, "watts": [3.0, 4.0, 8.0]}
    trace = Trace(power=pl.DataFrame(rows))
    assert energy(trace) == 8.0
    nodes = trace.power.drop_nulls("node")
    assert energy(trace.replace(power=nodes)) == 7.0


def test_an_intensity_in_unix_time_needs_the_epoch() -> None:
    series = pl.DataFrame({"unix_ms": [1_000_000, 1_008_000], "grams_per_kwh": [100.0, 300.0]})
    trace = powered([3.6e6, 3.6e6, 3.6e6])
    with pytest.raises(InputError, match="t = 0"):
        carbon(trace, series)
    dated = trace.replace(manifest=Manifest(epoch_ms=1_000_000))
    assert carbon(dated, series) == pytest.approx(8 * 100 + 4 * 300)
    assert figures(dated, intensity=series).notes == (
        "power after t = 8 s is taken at the last carbon intensity",
    )
    early = trace.replace(manifest=Manifest(epoch_ms=990_000))
    with pytest.raises(InputError, match="starts at t = 10 s"):
        carbon(early, series)


@pytest.mark.parametrize(
    "wrong",
    [
        pl.DataFrame({"t": [0.0]}),
        pl.DataFrame({"t": [0.0], "grams_per_kwh": ["much"]}),
        pl.DataFrame({"t": [0.0], "grams_per_kwh": [None]}),
        pl.DataFrame({"t": [0.0], "grams_per_kwh": [-1.0]}),
        pl.DataFrame({"t": [5.0, 5.0], "grams_per_kwh": [1.0, 1.0]}),
        pl.DataFrame({"t": [5.0], "grams_per_kwh": [1.0]}).head(0),
        math.nan,
    ],
)
def test_an_intensity_that_is_none_is_refused(wrong: pl.DataFrame | float) -> None:
    with pytest.raises(InputError, match="intensity"):
        carbon(powered([1.0]), wrong)


def test_prices_are_bounded_so_that_costs_stay_finite() -> None:
    for field in ("core_hour", "kwh"):
        assert Prices(**{field: 1e15})
        with pytest.raises(InputError, match=f"{field}: must be at most"):
            Prices(**{field: 1e308})


def test_cost_worked_out_by_hand() -> None:
    # 40 core-seconds and 4,000 J.
    price = cost(hand_made(), Prices(core_hour=9.0, kwh=36.0))
    assert (price.cores, price.energy) == (pytest.approx(0.1), pytest.approx(0.04))
    assert price.total == pytest.approx(0.14)
    unpowered = hand_made().replace(power=Trace().power)
    assert cost(unpowered, Prices(core_hour=9.0)).total == pytest.approx(0.1)
    assert cost(unpowered, Prices(core_hour=9.0, kwh=36.0)).total is None
    assert energy(unpowered) is None
    assert carbon(unpowered, 5.0) is None


def test_energy_of_a_time_whose_power_is_unknown_is_unknown() -> None:
    trace = hand_made().replace(power=pl.DataFrame({"t": [1.0], "dt": [1.0], "watts": [100.0]}))
    assert energy(trace, 0.5, 9.0) == 50.0
    assert energy(trace, 1.0, 9.0) is None
    assert carbon(trace, 300.0, 1.0, 9.0) is None
    late = figures(trace, warm_up=2.0, intensity=300.0)
    assert (late.energy, late.energy_per_task, late.carbon) == (None, None, None)
