"""Waits: KS against SciPy and against tables, percentiles below and above their bounds."""

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp, wasserstein_distance

from tests.fidelity.runs import run
from twinloop.fidelity import Verdict, assess
from twinloop.fidelity.waits import smallest_detectable_distance

NAMES = {"KS p", "p50", "p95", "p99"}


def failing(verdict: Verdict) -> set[str]:
    return {found.name for found in verdict.findings if found.status == "FAIL"}


def test_ks_is_scipys_on_the_waits_of_both_sides() -> None:
    rng = np.random.default_rng(4)
    real, twin = np.round(rng.exponential(60, 200), 3), np.round(rng.exponential(80, 150), 3)
    found = assess(run(real), run(twin))["KS p"]
    oracle = ks_2samp(real, twin)
    assert found.figure == pytest.approx(oracle.pvalue, rel=1e-9)
    assert found.figures["D"] == pytest.approx(oracle.statistic, rel=1e-12)
    over = wasserstein_distance(real, twin) / real.mean()
    assert found.figures["wasserstein_over_mean"] == pytest.approx(over, rel=1e-9)
    assert (found.figures["n_real"], found.figures["n_twin"]) == (200, 150)


def test_ks_by_hand() -> None:
    """Of four and four that do not overlap: D = 1, and p = 2 / C(8, 4) exactly."""
    found = assess(run([1, 2, 3, 4]), run([11, 12, 13, 14]))["KS p"]
    assert found.figures["D"] == 1
    assert found.figure == pytest.approx(2 / math.comb(8, 4))
    assert found.status == "FAIL"
    assert found.note.startswith("weak: 4 tasks")


def test_the_smallest_detectable_d_is_that_of_the_tables() -> None:
    """Critical values of large samples: 1.358 sqrt((n + m) / (n m)) at 5 %, 1.628 at 1 %."""
    assert smallest_detectable_distance(100, 100, 0.05) == pytest.approx(
        1.358 * math.sqrt(0.02), rel=1e-3
    )
    assert smallest_detectable_distance(100, 50, 0.01) == pytest.approx(
        1.628 * math.sqrt(0.03), rel=1e-3
    )


@pytest.mark.parametrize(("tasks", "weak"), [(39, True), (40, False)])
def test_under_40_tasks_ks_is_weak_and_keeps_its_status(tasks: int, weak: bool) -> None:
    same = assess(run(range(tasks)), run(range(tasks)))["KS p"]
    other = assess(run(range(tasks)), run(range(1000, 1000 + tasks)))["KS p"]
    assert (same.status, other.status) == ("PASS", "FAIL")
    assert ("weak" in same.note, "weak" in other.note) == (weak, weak)


@pytest.mark.parametrize("shift", [0, 1000])
def test_a_percentile_of_few_tasks_is_weak_whether_it_passes_or_fails(shift: int) -> None:
    found = assess(run(range(1, 11)), run(range(1 + shift, 11 + shift)))["p99"]
    assert found.status == ("FAIL" if shift else "PASS")
    assert "weak: 10 tasks" in found.note
    assert found.is_weak


@pytest.mark.parametrize(
    ("tasks", "moved", "name", "status"),
    [
        (2000, 0.06, "KS p", "FAIL"),
        (2001, 0.06, "KS D", "FAIL"),
        # p would reject it and D accepts it: a significant but small difference.
        (20000, 0.04, "KS D", "PASS"),
    ],
)
def test_above_2000_tasks_d_decides(tasks: int, moved: float, name: str, status: str) -> None:
    real = np.arange(tasks, dtype=float)
    found = assess(run(real), run(real + round(moved * tasks)))[name]
    assert found.figures["D"] == pytest.approx(moved, abs=1e-3)
    assert found.status == status
    assert found.figures["p"] < 0.05


@pytest.mark.parametrize("tasks", [0, 1, 3])
def test_three_tasks_are_too_few_for_a_distribution(tasks: int) -> None:
    verdict = assess(run([1.0] * tasks), run([1.0] * tasks))
    assert {found.name for found in verdict.findings if found.metric == "wait times"} == NAMES
    assert verdict.metrics["wait times"] == "not assessable"
    assert assess(run([1.0] * 4), run([1.0] * 4)).metrics["wait times"] == "PASS"


def test_constant_waits_pass_against_themselves_despite_rounding() -> None:
    real = run([0.1] * 50)
    assert not failing(assess(real, real))
    twin = run([0.1] * 50, shift=1e7)  # where 0.1 s is not quite 0.1 s
    verdict = assess(real, twin)
    assert not failing(verdict)
    assert verdict["KS p"].figures["D"] == 0


# Of 101 waits 0, 100, 200... the p-th percentile is one of them: nothing is interpolated.
@pytest.mark.parametrize(
    ("name", "place", "bound"), [("p50", 50, 0.05), ("p95", 95, 0.10), ("p99", 99, 0.20)]
)
def test_a_percentile_passes_up_to_its_bound(name: str, place: int, bound: float) -> None:
    real = np.arange(101) * 100.0
    for factor, status in ((1 + bound, "PASS"), (1 + bound + 1e-4, "FAIL"), (1 - bound, "PASS")):
        # All values above the percentile move with it, so that the order is kept.
        twin = np.where(np.arange(101) >= place, real * factor, real)
        twin[:place] = np.minimum(twin[:place], twin[place])
        found = assess(run(real), run(twin))[name]
        assert found.figure == pytest.approx(abs(factor - 1), rel=1e-9)
        assert found.status == status
        assert found.figures["real_s"] == place * 100


@pytest.mark.parametrize(
    ("facts", "off", "status"),
    [
        ({}, 0.0099, "PASS"),
        ({}, 0.0101, "FAIL"),
        ({"latency": {"start": {"mean_s": 0.02}}}, 0.0399, "PASS"),
        ({"latency": {"start": {"mean_s": 0.02}}}, 0.0401, "FAIL"),
        ({"latency": {"start": {"mean_s": 0.002}}}, 0.0099, "PASS"),
        ({"latency": "unknown"}, 0.0099, "PASS"),
    ],
)
def test_a_small_absolute_error_passes_too(
    facts: dict[str, object], off: float, status: str
) -> None:
    verdict = assess(run([0.001] * 60, facts=facts), run([0.001 + off] * 60))
    assert {verdict[name].status for name in ("p50", "p95", "p99")} == {status}


def test_a_percentile_of_zero_is_assessed_by_the_absolute_error() -> None:
    near = assess(run([0.0] * 60), run([0.005] * 60))["p50"]
    far = assess(run([0.0] * 60), run([5.0] * 60))["p50"]
    assert (near.figure, near.status) == (None, "PASS")
    assert (far.figure, far.status) == (None, "FAIL")
    assert "5 s off" in far.note


def test_the_series_is_the_two_distribution_functions() -> None:
    verdict = assess(run([0, 10, 10, 20]), run([0, 10, 20, 20]))
    assert verdict.series["waits"].rows() == [
        (0, 0.25, 0.25, 0),
        (10, 0.75, 0.5, -0.25),
        (20, 1, 1, 0),
    ]
