"""CPU usage relative to the start of each task: exact resampling, criteria, missing data."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.fidelity.runs import run, windows
from twinloop.fidelity import Criteria, Verdict, assess
from twinloop.fidelity.compared_run import ComparedRun
from twinloop.fidelity.cpu_usage import resample_usage
from twinloop.trace import Manifest, Trace

VARIED = [1.0, 2.0, 1.0, 2.0, 4.0] * 4


def used(*tasks: list[float], waits: list[float] | None = None) -> Trace:
    usage = {str(number): cores for number, cores in enumerate(tasks)}
    length = [float(len(cores)) for cores in tasks]
    return run([0.0] * len(tasks) if waits is None else waits, length, usage=usage)


def figures(verdict: Verdict) -> dict[str, float | None]:
    return {found.name: found.figure for found in verdict.findings if found.metric == "cpu usage"}


def test_the_three_figures_by_hand() -> None:
    real, twin = [2.0] * 10 + [4.0] * 10, [2.0] * 10 + [5.0] * 10
    verdict = assess(used(real), used(twin))
    assert figures(verdict) == {
        "Pearson r": pytest.approx(1.0),
        "sMAPE": pytest.approx(0.5 * 2 * 1 / 9),
        "RMSE / median": pytest.approx(np.sqrt(0.5) / 3),
    }
    assert verdict.metrics["cpu usage"] == "FAIL"


@pytest.mark.parametrize(
    ("factor", "failing"),
    [
        (1.05, set()),  # sMAPE 0.1 / 2.05 = 4.88 %
        (1.052, {"sMAPE"}),  # 0.104 / 2.052 = 5.07 %
        (1.11, {"sMAPE", "RMSE / median"}),
    ],
)
def test_a_scaled_usage_fails_on_size_and_not_on_trend(factor: float, failing: set[str]) -> None:
    level = [9.5, 10.5] * 10  # median 10, varies by 5 %
    verdict = assess(used(level), used([factor * cores for cores in level]))
    assert verdict["Pearson r"].figure == pytest.approx(1.0)
    assert verdict["sMAPE"].figure == pytest.approx(2 * (factor - 1) / (factor + 1))
    assert {f.name for f in verdict.findings if f.status == "FAIL"} == failing


def test_pearson_at_both_sides_of_its_bound() -> None:
    """With orthogonal noise e of the same spread as x, r(x, x + g e) = 1 / sqrt(1 + g^2)."""
    x = np.array([1.0, 1.0, -1.0, -1.0] * 5)
    e = np.array([1.0, -1.0, 1.0, -1.0] * 5)
    for g, status in ((0.32, "PASS"), (0.34, "FAIL")):
        found = assess(used(list(10 + x)), used(list(10 + x + g * e)))["Pearson r"]
        assert found.figure == pytest.approx(1 / np.sqrt(1 + g * g))
        assert found.status == status


@pytest.mark.parametrize(("swing", "assessable"), [(0.049, False), (0.0501, True)])
def test_pearson_needs_a_usage_that_varies_by_5_per_cent(swing: float, assessable: bool) -> None:
    real = used([1 + swing, 1 - swing] * 10)  # coefficient of variation: swing
    verdict = assess(real, real)
    assert verdict["Pearson r"].status == ("PASS" if assessable else "not assessable")
    assert (verdict["sMAPE"].status, verdict["RMSE / median"].status) == ("PASS", "PASS")


def test_a_twin_that_never_varies_fails_the_trend() -> None:
    verdict = assess(used(VARIED), used([2.0] * 20))
    assert (verdict["Pearson r"].figure, verdict["Pearson r"].status) == (0.0, "FAIL")


def test_a_median_of_0_is_not_assessable_and_0_over_0_is_0() -> None:
    idle = used([0.0] * 15 + [1.0] * 5)
    verdict = assess(idle, idle)
    assert verdict["RMSE / median"].status == "not assessable"
    assert (verdict["sMAPE"].figure, verdict["sMAPE"].status) == (0.0, "PASS")
    nothing = used([0.0] * 20)
    assert assess(nothing, nothing)["Pearson r"].status == "not assessable"


@pytest.mark.parametrize(("seconds", "assessable"), [(9, False), (10, True)])
def test_ten_pairs_are_needed(seconds: int, assessable: bool) -> None:
    real = used(VARIED[:seconds])
    assert (assess(real, real)["sMAPE"].status == "PASS") is assessable


def test_tasks_are_compared_relative_to_their_starts() -> None:
    """Law: waiting changes no usage."""
    verdict = assess(used(VARIED, VARIED), used(VARIED, VARIED, waits=[3.25, 100.0]))
    assert figures(verdict)["sMAPE"] == pytest.approx(0.0, abs=1e-9)
    assert verdict["sMAPE"].figures["pairs"] == 40
    assert verdict.series["usage"].columns == ["task", "t", "real", "twin"]


def test_windows_of_any_length_are_resampled_by_overlap() -> None:
    real = run([0.0], 20.0, usage={"0": VARIED})
    coarse = real.replace(usage=windows("0", [1.5, 3.0, 2.5], 0.0, dt=4.0))
    pairs = assess(real, coarse).series["usage"]
    assert pairs["t"].to_list() == list(range(12))
    assert pairs["twin"].to_list() == pytest.approx([1.5] * 4 + [3.0] * 4 + [2.5] * 4)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=30),
    st.sampled_from([0.5, 1.0, 3.0]),
)
@examples(20)
def test_resampling_keeps_the_cpu_time(given: list[tuple[int, int]], step: float) -> None:
    """Law: windows without gaps have the same CPU time after as before, but for the last bit."""
    lengths = np.array([tenths / 10 for tenths, _ in given])
    cpu = np.array([tenths / 10 for _, tenths in given])
    end = np.cumsum(lengths)
    frame = pl.DataFrame(
        {"task": 0, "stream": 0, "begin": end - lengths, "end": end, "rate": cpu / lengths}
    )
    found = resample_usage(frame, np.array([int(np.ceil(end[-1] / step))]), step)
    whole = int((end[-1] + 1e-9) // step)
    assert not np.isnan(found[:whole]).any()
    up_to = whole * step
    expected = np.interp(up_to, np.concatenate([[0], end]), np.concatenate([[0], np.cumsum(cpu)]))
    assert found[:whole].sum() * step == pytest.approx(expected, abs=1e-6)


def test_a_window_that_begins_before_the_task_counts_all_after_its_start() -> None:
    usage = pl.DataFrame({"task": ["0"], "t": [2.0], "dt": [2.0], "cpu": [1.0]})
    trace = run([1.0], 10.0).replace(usage=usage)
    assert ComparedRun(trace, "it").windows.select("begin", "end", "rate").rows() == [
        (0.0, 1.0, 1.0)
    ]


def test_partially_known_seconds_are_no_pairs() -> None:
    """A second with a missing half, and the last 0.3 s of a task."""
    whole = run([0.0], 20.0).replace(usage=windows("0", VARIED, 0.0))
    halves = [cores for cores in VARIED for _ in range(2)]
    parts = windows("0", halves, 0.0, dt=0.5).filter(pl.col("t") != 3.5)
    for pair in ((whole, whole.replace(usage=parts)), (whole.replace(usage=parts), whole)):
        pairs = assess(*pair).series["usage"]
        assert pairs["t"].to_list() == [t for t in range(20) if t != 3]
    last = windows("0", [1.0], 20.0, dt=0.3)
    longer = whole.replace(usage=pl.concat([windows("0", VARIED, 0.0), last]))
    assert assess(longer, longer).series["usage"]["t"].max() == 19


def test_processes_of_one_task_add_up() -> None:
    one = windows("0", VARIED, 0.0)
    two = pl.concat([one.with_columns(pid=1), one.with_columns(pid=2)])
    verdict = assess(
        run([0.0], 20.0).replace(usage=one.with_columns(pl.col("cpu") * 2)),
        run([0.0], 20.0).replace(usage=two.with_columns(pl.col("pid").cast(pl.Int64))),
    )
    assert figures(verdict)["sMAPE"] == pytest.approx(0.0)


def test_seconds_of_different_clocks_are_compared_in_mhz() -> None:
    slow, fast = used([2 * cores for cores in VARIED]), used(VARIED)
    verdict = assess(
        slow.replace(manifest=Manifest(reference_mhz=1000.0)),
        fast.replace(manifest=Manifest(reference_mhz=2000.0)),
    )
    assert figures(verdict)["sMAPE"] == pytest.approx(0.0)
    assert verdict["RMSE / median"].figures["median_mhz"] == 4000
    assert "in MHz" in verdict["sMAPE"].note


def test_too_many_windows_are_merged_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twinloop.fidelity.cpu_usage.MAX_WINDOWS", 10)
    verdict = assess(used(VARIED), used(VARIED), criteria=Criteria(usage={"least_pairs": 4}))
    assert "windows of 2 s" in verdict["sMAPE"].note
    assert verdict["sMAPE"].figures["pairs"] == 10


def test_the_side_without_usage_is_named() -> None:
    assert assess(run([0.0]), used(VARIED))["sMAPE"].note == "the real run has no CPU usage"
    note = assess(used(VARIED), run([0.0]))["sMAPE"].note
    assert note == "the twin has no CPU usage (record it with twinloop simulate --usage 1s)"
