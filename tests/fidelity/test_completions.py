"""The completion curve and the makespan, at both sides of every bound."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fidelity.runs import run
from twinloop.fidelity import Finding, assess
from twinloop.fidelity.completions import SHORT_RUN, Curves
from twinloop.trace import Trace


def curve(real: Trace, twin: Trace) -> Finding:
    return assess(real, twin)["curve RMSE"]


def test_the_rmse_by_hand() -> None:
    """Of 20 tasks one is 3 bins of 60 s late: sqrt(3 x 1 / 20 bins) / 20 tasks."""
    ends = np.arange(1, 21) * 60.0
    late = ends.copy()
    late[4] = ends[7]
    found = curve(run(ends - 10, 10), run(late - 10, 10))
    assert found.figures["bin_s"] == 60
    assert found.figures["lag_bins"] == 0
    assert found.figure == pytest.approx(np.sqrt(3 / 20) / 20, rel=1e-12)


@pytest.mark.parametrize(
    ("late", "status"), [(7, "PASS"), (8, "FAIL")]
)  # sqrt(7 / 20) / 20 = 2.96 %, sqrt(8 / 20) / 20 = 3.16 %
def test_three_per_cent_is_the_bound(late: int, status: str) -> None:
    ends = np.arange(1, 21) * 60.0
    moved = ends.copy()
    moved[4] = ends[4 + late]
    found = curve(run(ends - 10, 10), run(moved - 10, 10))
    assert found.figure == pytest.approx(np.sqrt(late / 20) / 20)
    assert found.status == status


@pytest.mark.parametrize(
    ("length", "bin", "said"), [(1140.5, 60, False), (1140.0, 1140 / 50, True), (50.0, 1.0, True)]
)
def test_fewer_than_20_bins_are_made_50_and_that_is_said(
    length: float, bin: float, said: bool
) -> None:
    real = run([0, 0, 0, 0], [length / 4, length / 3, length / 2, length])
    found = curve(real, real)
    assert found.figures["bin_s"] == pytest.approx(bin)
    assert ("makespan / 50" in found.note) is said


@given(st.integers(-5, 5))
def test_a_shifted_curve_is_found_again_by_the_lag(lag: int) -> None:
    """Law: moving all completions by whole bins moves the best lag, and leaves no error."""
    ends = 600 + 60.0 * np.array([1, 2, 3, 7, 8, 12, 13, 14, 20, 26, 30])
    found = curve(run(ends - 10, 10), run(ends + 60 * lag - 10, 10))
    assert (found.figures["lag_bins"], found.figure) == (lag, 0.0)
    assert (found.figures["without_lag"] > 0) is (lag != 0)


def test_the_lag_has_a_limit() -> None:
    ends = 600 + 60.0 * np.arange(1, 31)
    found = curve(run(ends - 10, 10), run(ends + 360 - 10, 10))
    assert found.figures["lag_bins"] == 5
    assert found.figure is not None
    assert found.figure > 0


def test_curves_are_extended_by_nothing_and_by_what_they_came_to() -> None:
    curves = Curves.of(np.array([5.0, 15.0]), np.array([15.0, 25.0]), bin=10.0, most=1)
    assert curves.real.tolist() == [1, 2, 2]
    assert curves.twin.tolist() == [0, 1, 2]
    assert curves.lagged.tolist() == [1, 2, 2]
    assert (curves.lag, curves.rmse) == (1, 0.0)
    early = Curves.of(np.array([15.0, 25.0]), np.array([5.0, 15.0]), bin=10.0, most=1)
    assert early.lagged.tolist() == [0, 1, 2]


def test_a_task_that_the_twin_loses_stays_missing_to_the_end() -> None:
    ends = np.arange(1, 21) * 60.0
    found = curve(run(ends - 10, 10), run(ends[:10] - 10, 10))
    missing = np.arange(1, 11)
    assert found.figures["completed_twin"] == 10
    assert found.figures["without_lag"] == pytest.approx(np.sqrt((missing**2).sum() / 20) / 20)
    assert found.status == "FAIL"


@pytest.mark.parametrize(
    ("real", "twin", "names", "failing"),
    [
        # From ten minutes on 1 %.
        (600, 606, {"makespan"}, set()),
        (600, 606.1, {"makespan"}, {"makespan"}),
        (10000, 10099, {"makespan"}, set()),
        # Under ten minutes 6 s.
        (599, 605, {"makespan"}, set()),
        (599, 605.1, {"makespan"}, {"makespan"}),
        (120, 114, {"makespan"}, set()),
        # Under two minutes 5 % beside, which is less than 6 s there.
        (119, 124.9, {"makespan", SHORT_RUN}, set()),
        (119, 124.96, {"makespan", SHORT_RUN}, {SHORT_RUN}),
        (10, 10.5, {"makespan", SHORT_RUN}, set()),
        (10, 10.6, {"makespan", SHORT_RUN}, {SHORT_RUN}),
        (10, 17, {"makespan", SHORT_RUN}, {"makespan", SHORT_RUN}),
    ],
)
def test_the_makespan_keeps_the_rule_of_its_length(
    real: float, twin: float, names: set[str], failing: set[str]
) -> None:
    verdict = assess(run([0] * 4, [1, 2, 3, real]), run([0] * 4, [1, 2, 3, twin]))
    found = {found.name: found for found in verdict.findings if "makespan" in found.name}
    assert set(found) == names
    assert {name for name in found if found[name].status == "FAIL"} == failing
    assert all(one.figures["error_s"] == pytest.approx(twin - real) for one in found.values())


def test_runs_of_no_length_and_of_few_tasks_are_not_assessable() -> None:
    nothing = run([0] * 5, 0)
    verdict = assess(nothing, nothing)
    assert verdict.metrics["completions"] == "not assessable"
    assert verdict["makespan"].note == "the real run has no length"
    few = run([0, 1, 2])
    assert assess(few, few).metrics["completions"] == "not assessable"
    assert assess(few, few).status == "not assessable"
