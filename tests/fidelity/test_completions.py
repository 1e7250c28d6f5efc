"""The completion curve and the makespan, just below and above every bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fidelity.runs import run
from twinloop.fidelity import Finding, assess
from twinloop.fidelity.completions import SHORT_RUN, CompletionCurves
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
    ("length", "bin", "has_note"),
    [(1140.5, 60, False), (1140.0, 1140 / 50, True), (50.0, 1.0, True)],
)
def test_fewer_than_20_bins_become_50_with_a_note(
    length: float, bin: float, has_note: bool
) -> None:
    real = run([0, 0, 0, 0], [length / 4, length / 3, length / 2, length])
    found = curve(real, real)
    assert found.figures["bin_s"] == pytest.approx(bin)
    assert ("makespan / 50" in found.note) is has_note


@pytest.mark.parametrize("lag", range(-5, 6))
def test_the_lag_of_a_shifted_curve_is_found(lag: int) -> None:
    """Law: moving all completions by whole bins moves the best lag, and leaves no error."""
    ends = 600 + 60.0 * np.array([1, 2, 3, 7, 8, 12, 13, 14, 20, 26, 30])
    found = CompletionCurves.from_ends(ends, ends + 60 * lag, width=60.0, max_lag=5)
    assert (found.lag, found.rmse) == (lag, 0.0)
    assert (found.rmse_without_lag > 0) is (lag != 0)


moments = st.lists(st.integers(-20, 400).map(lambda n: n / 10), min_size=1, max_size=12).map(sorted)


@examples(40)
@given(moments, moments, st.sampled_from([0.7, 1.0, 3.3]), st.integers(0, 3))
def test_the_error_is_the_mean_over_all_bins_at_the_best_lag(
    real: list[float], twin: list[float], bin: float, most: int
) -> None:
    """Counted one by one, at the end of each bin."""
    found = CompletionCurves.from_ends(np.array(real), np.array(twin), bin, most)
    bins = range(1, max(1, math.ceil(round(max(0.0, *real, *twin) / bin, 9))) + 1)

    def rmse(lag: int) -> float:
        def passed(ends: list[float], n: int) -> int:
            return sum(end <= bin * n + 5e-7 for end in ends)

        return math.sqrt(
            sum((passed(twin, n + lag) - passed(real, n)) ** 2 for n in bins) / bins[-1]
        )

    assert found.bins == bins[-1]
    assert found.rmse_without_lag == pytest.approx(rmse(0), rel=1e-12)
    assert found.rmse == pytest.approx(rmse(found.lag), rel=1e-12)
    assert found.rmse <= min(map(rmse, range(-most, most + 1))) + 1e-9
    assert found.t.tolist() == [bin * n for n in bins]


def test_a_very_long_twin_needs_no_more_time() -> None:
    """Real 1 s in 50 bins of 20 ms, twin 100,000 s: one task of 4 is missing in 5,000,000 bins.

    Three end with the real ones, and the fourth in the last bin.
    """
    real, twin = run([0] * 4, [0.25, 0.5, 0.75, 1.0]), run([0] * 4, [0.25, 0.5, 0.75, 1e5])
    found = curve(real, twin)
    assert found.figures["bins"] == 5_000_000
    # One task is missing from bin 50 to the last but one.
    assert found.figures["without_lag"] == pytest.approx(math.sqrt((5e6 - 50) / 5e6) / 4, rel=1e-12)
    assert "of 5,000,000 bins the series has one in 5" in found.note
    assert found.series.height == 1_000_000
    assert found.series.row(-1, named=True)["twin"] == 4


def test_the_lag_has_a_limit() -> None:
    ends = 600 + 60.0 * np.arange(1, 31)
    found = curve(run(ends - 10, 10), run(ends + 360 - 10, 10))
    assert found.figures["lag_bins"] == 5
    assert found.figure is not None
    assert found.figure > 0


def test_curves_are_extended_by_zero_and_by_their_final_value() -> None:
    curves = CompletionCurves.from_ends(
        np.array([5.0, 15.0]), np.array([15.0, 25.0]), width=10.0, max_lag=1
    )
    assert curves.real.tolist() == [1, 2, 2]
    assert curves.twin.tolist() == [0, 1, 2]
    assert curves.lagged.tolist() == [1, 2, 2]
    assert (curves.lag, curves.rmse) == (1, 0.0)
    early = CompletionCurves.from_ends(
        np.array([15.0, 25.0]), np.array([5.0, 15.0]), width=10.0, max_lag=1
    )
    assert early.lagged.tolist() == [0, 1, 2]


def test_a_task_missing_in_the_twin_is_missing_until_the_end() -> None:
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
        # Under two minutes also 5 %, which is less than 6 s there.
        (119, 124.9, {"makespan", SHORT_RUN}, set()),
        (119, 124.96, {"makespan", SHORT_RUN}, {SHORT_RUN}),
        (10, 10.5, {"makespan", SHORT_RUN}, set()),
        (10, 10.6, {"makespan", SHORT_RUN}, {SHORT_RUN}),
        (10, 17, {"makespan", SHORT_RUN}, {"makespan", SHORT_RUN}),
    ],
)
def test_the_rule_of_the_makespan_depends_on_its_length(
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


def test_a_twin_without_completed_tasks_fails() -> None:
    whole = run([0.0] * 6, 10.0)
    verdict = assess(whole, Trace(tasks=whole.tasks))
    assert verdict["curve RMSE"].status == "FAIL"
    assert "completes 0 of 6 tasks" in verdict["curve RMSE"].note
    assert verdict.status == "FAIL"
