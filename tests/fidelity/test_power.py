"""The trend of the power: segments, lags, surrogate scores, missing data."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fidelity.runs import run
from twinloop.fidelity import Criteria, Finding, assess
from twinloop.fidelity.surrogates import randomise_phases
from twinloop.trace import Trace

# Segments of 10 s with a lag of at most 20 s, so that they can be computed by hand.
SMALL = Criteria(power={"segment": 10, "lag": 20, "surrogates": 0})
STILL = Criteria(power={"segment": 10, "lag": 0, "surrogates": 0})


def powered(watts: list[float] | np.ndarray) -> Trace:
    return run([0.0], float(len(watts)), watts=list(watts))


def found(real: Trace, twin: Trace, criteria: Criteria = SMALL) -> Finding:
    return assess(real, twin, criteria=criteria)["mean segment r"]


def noise(n: int, seed: int = 0) -> np.ndarray:
    return 100 + 10 * np.random.default_rng(seed).standard_normal(n)


def test_the_mean_of_the_segments_is_pearsons_of_each() -> None:
    a, b = noise(40), noise(40, 1)
    finding = found(powered(a), powered(b), STILL)
    expected = [np.corrcoef(a[i : i + 10], b[i : i + 10])[0, 1] for i in range(0, 40, 10)]
    assert finding.series["r"].to_list() == pytest.approx(expected)
    assert finding.figure == pytest.approx(np.mean(expected))


def test_the_best_lag_is_that_of_a_search_over_all() -> None:
    a, b = noise(60), noise(60, 1)
    finding = found(powered(a), powered(b))
    for row in finding.series.iter_rows(named=True):
        begin = int(row["start"])
        r = {
            lag: np.corrcoef(a[begin : begin + 10], b[begin + lag : begin + lag + 10])[0, 1]
            for lag in range(-20, 21)
            if 0 <= begin + lag <= 50
        }
        assert row["lag"] == max(r, key=lambda lag: r[lag])
        assert row["r"] == pytest.approx(max(r.values()))
        assert row["r_without_lag"] == pytest.approx(r[0])


@given(st.integers(-20, 20))
@examples(6)
def test_a_delay_is_found_in_every_complete_segment(lag: int) -> None:
    base = noise(200)
    real, twin = base[50:150], base[50 - lag : 150 - lag]
    segments = found(powered(real), powered(twin)).series
    inside = segments.filter((pl.col("start") + lag >= 0) & (pl.col("start") + lag <= 90))
    assert inside.height >= 8
    assert set(inside["lag"]) == {float(lag)}
    assert inside["r"].to_numpy() == pytest.approx(1.0)


def test_the_bound_is_0_9() -> None:
    """With orthogonal noise e as wide as x, r(x, x + g e) = 1 / sqrt(1 + g^2): 0.9 at g = 0.484."""
    x, e = np.tile([1.0, 1.0, -1.0, -1.0], 10), np.tile([1.0, -1.0, 1.0, -1.0], 10)
    criteria = Criteria(power={"segment": 4, "lag": 0, "surrogates": 0})
    for g, status in ((0.48, "PASS"), (0.49, "FAIL")):
        finding = found(powered(100 + x), powered(100 + x + g * e), criteria)
        assert finding.figure == pytest.approx(1 / np.sqrt(1 + g * g))
        assert finding.status == status


@given(st.floats(0.1, 10), st.floats(0, 500))
@examples(6)
def test_scale_and_idle_power_are_invisible_to_the_trend(scale: float, idle: float) -> None:
    """Law: z-scores do not depend on them; the errors in watts do."""
    real = noise(40)
    verdict = assess(powered(real), powered(scale * real + idle), criteria=SMALL)
    assert verdict["mean segment r"].figure == pytest.approx(1.0)
    bias = (scale * real + idle - real).mean()
    assert verdict.errors.power_bias == pytest.approx(bias, abs=1e-9)
    share = np.abs((scale - 1) + idle / real).mean()
    assert verdict.errors.power_mape == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize(("seconds", "assessable"), [(29, False), (30, True)])
def test_three_whole_segments_are_needed(seconds: int, assessable: bool) -> None:
    real = powered(noise(seconds))
    finding = found(real, real)
    assert (finding.status == "PASS") is assessable
    assert (finding.status == "not assessable") is not assessable


def test_constant_segments_are_left_out_on_either_side() -> None:
    a, b = noise(50), noise(50)
    a[10:20], b[20:30] = 70.0, 70.0
    finding = found(powered(a), powered(b))
    assert finding.series["status"].to_list() == [
        "used", "constant in the real run", "constant in the twin", "used", "used",
    ]  # fmt: skip
    assert finding.figures["used"] == 3
    assert "1 constant in the twin" in finding.note
    flat = found(powered(a), powered([70.0] * 50))
    assert (flat.status, flat.figure) == ("not assessable", None)


def test_incomplete_segments_are_left_out() -> None:
    real, twin = powered(noise(50)), powered(noise(50))
    gap = twin.replace(power=twin.power.filter(pl.col("t") != 15.0))
    finding = found(real, gap)
    assert finding.series["status"].to_list() == ["used", "incomplete", "used", "used", "used"]
    short = found(real, powered(noise(40)))
    assert short.series["status"].to_list()[-1] == "incomplete"


def test_the_power_of_nodes_adds_up_and_all_of_them_must_be_known() -> None:
    a, b = noise(40), noise(40, 1)
    total = powered(a + b)
    rows = [total.power.with_columns(node=pl.lit(n), watts=w) for n, w in (("n1", a), ("n2", b))]
    nodes = total.replace(power=pl.concat(rows))
    assert found(total, nodes).figure == pytest.approx(1.0)
    assert assess(total, nodes, criteria=SMALL).errors.power_mape == pytest.approx(0, abs=1e-12)
    without = total.replace(power=pl.concat([rows[0], rows[1].filter(pl.col("t") > 10)]))
    assert found(total, without).series["status"].to_list()[0] == "incomplete"


def test_windows_of_any_length_keep_their_energy() -> None:
    watts = np.repeat(noise(20), 2)
    fine = powered(watts)
    coarse = fine.replace(
        power=pl.DataFrame({"t": np.arange(2.0, 41, 2), "dt": 2.0, "watts": watts[::2]})
    )
    trend = assess(fine, coarse, criteria=SMALL).series["power"]
    assert trend["twin_w"].to_list() == pytest.approx(list(watts))
    assert trend["residual"].to_list() == pytest.approx([0.0] * 40, abs=1e-9)
    assert trend["real"].mean() == pytest.approx(0, abs=1e-9)
    assert trend["real"].std(ddof=0) == pytest.approx(1)


def test_unrelated_surrogate_series_are_scored_and_smooth_series_give_a_warning() -> None:
    slow = 100 + 10 * np.sin(2 * np.pi * np.arange(400) / 100)  # a lag for every phase
    smooth = Criteria(power={"segment": 10, "lag": 100})
    weak = found(powered(slow), powered(slow), smooth)
    assert weak.figures["unrelated_mean"] > 0.9
    assert weak.note.startswith("weak")
    rough = found(powered(noise(400)), powered(noise(400)), Criteria(power={"segment": 50}))
    assert rough.figures["unrelated_mean"] < 0.7
    assert "weak" not in rough.note
    again = found(powered(noise(400)), powered(noise(400)), Criteria(power={"segment": 50}))
    assert again.figures == rough.figures


def test_the_defaults_take_a_quarter_of_an_hour() -> None:
    real = powered(noise(900))
    assert found(real, real, Criteria()).status == "PASS"
    short = found(powered(noise(899)), powered(noise(899)), Criteria())
    assert short.note == "2 segments of 300 s to compare, needs 3"


@given(st.integers(2, 60), st.integers(0, 5))
@examples(15)
def test_a_surrogate_keeps_the_spectrum(n: int, seed: int) -> None:
    """Law: the same power at every frequency (Theiler et al. 1992), so mean and variance too."""
    values = noise(n, seed)
    other = randomise_phases(values, np.random.default_rng(seed))
    spectra = [np.abs(np.fft.rfft(each)) for each in (values, other)]
    assert spectra[1] == pytest.approx(spectra[0])


def test_the_side_without_power_is_named() -> None:
    assert found(run([0.0]), powered(noise(30))).note == "the real run has no power"
    assert found(powered(noise(30)), run([0.0])).note == "the twin has no power"


def test_watts_are_assessed_only_on_request() -> None:
    def run(watts: float) -> Trace:
        table = {"t": [10.0, 20.0], "dt": [10.0, 10.0], "watts": [watts, 2 * watts]}
        return Trace(power=pl.DataFrame(table))

    def found(limit: float) -> dict[str, str]:
        verdict = assess(run(100.0), run(107.0), criteria=Criteria(power={"watts": limit}))
        return {f.name: f.status for f in verdict.findings if f.metric == "power"}

    assert "watts" not in found(0.0)
    assert found(0.08)["watts"] == "PASS"
    assert found(0.06)["watts"] == "FAIL"
    verdict = assess(run(100.0), run(107.0), criteria=Criteria(power={"watts": 0.06}))
    assert verdict["watts"].figure == pytest.approx(0.07)
    assert verdict["watts"].figures["bias_w"] == pytest.approx(10.5)
    assert verdict.status == "FAIL"
