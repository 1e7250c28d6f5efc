"""The figures of traces: worked out by hand, laws on random ones, a published table."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.metrics.traces import few, hand_made, runs
from twinloop.description import InputError, TwinloopError
from twinloop.metrics import FIGURES, Distribution, cores_in_use, figures, per_task
from twinloop.scenario import Prices
from twinloop.trace import Manifest, Trace


def test_figures_worked_out_by_hand() -> None:
    found = figures(hand_made(), prices=Prices(core_hour=3.6, kwh=3600.0), intensity=3600.0)
    assert found.to_dict() == pytest.approx(
        {
            "tasks": 4, "completed": 2, "rejected": 1, "killed": 1, "failed": 0, "lost": 0,
            "cancelled": 0, "unknown": 0, "ran": 3, "left_out": 0,
            "makespan_s": 30.0,
            # Waits 0, 8, 8; turnarounds 10, 20, 14; run times 10, 12, 6.
            "wait_mean_s": 16 / 3, "wait_p50_s": 8.0, "wait_p95_s": 8.0, "wait_p99_s": 8.0,
            "wait_max_s": 8.0,
            "turnaround_mean_s": 44 / 3, "turnaround_p50_s": 14.0, "turnaround_p95_s": 19.4,
            "turnaround_p99_s": 19.88, "turnaround_max_s": 20.0,
            "slowdown_mean": (1 + 20 / 12 + 14 / 6) / 3, "slowdown_p50": 20 / 12,
            "slowdown_p95": 20 / 12 + 0.9 * (14 / 6 - 20 / 12),
            "slowdown_p99": 20 / 12 + 0.98 * (14 / 6 - 20 / 12), "slowdown_max": 14 / 6,
            # c ran for less than the bound of 10 s: 14 / 10.
            "bounded_slowdown_mean": (1 + 20 / 12 + 1.4) / 3, "bounded_slowdown_p50": 1.4,
            "bounded_slowdown_p95": 1.4 + 0.9 * (20 / 12 - 1.4),
            "bounded_slowdown_p99": 1.4 + 0.98 * (20 / 12 - 1.4), "bounded_slowdown_max": 20 / 12,
            "core_s": 40.0, "cores": 2.0, "utilisation": 40 / 60, "throughput_per_s": 0.1,
            "busy_cores_mean": 40 / 30, "busy_nodes_mean": (22 + 18) / 30,
            "energy_j": 4000.0, "energy_per_task_j": 2000.0, "carbon_g": 4.0,
            "cost": 0.04 + 4.0, "cost_cores": 0.04, "cost_energy": 4.0,
            # b ended a second late, c was killed, d rejected.
            "deadlines": 4, "deadline_misses": 3,
            "lateness_mean_s": 2.0, "lateness_relative": 1.2, "lateness_additional_s": 2.0,
            # No instance was rented.
            **dict.fromkeys(
                ("instances", "instances_refused", "instances_lost", "instances_interrupted",
                 "instance_wait_mean_s", "instance_core_s", "bill", "transfer_price",
                 "migrations", "downtime_s")
            ),
        }
    )  # fmt: skip
    assert found.window == (0.0, 30.0)
    assert found.notes == ()


def test_a_warm_up_leaves_out_tasks_and_time() -> None:
    found = figures(hand_made(), warm_up=2.0, until=20.0)
    # b, c and d are submitted in [2, 20); a still runs in that time.
    assert (found.tasks, found.left_out, found.ran) == (3, 1, 2)
    assert found.wait is not None
    assert found.wait.mean == 8.0
    assert found.makespan == 28.0
    assert found.window == (2.0, 20.0)
    assert found.core_seconds == 8 + 2 * 10
    assert found.throughput == 1 / 18  # a
    assert found.energy == 8 * 100 + 10 * 150
    assert found.energy_per_task == found.energy


def test_warm_up_is_counted_from_the_first_submission() -> None:
    late = hand_made()
    moved = late.replace(
        tasks=late.tasks.with_columns(pl.col("submit", "submit_recorded", "deadline") + 1000),
        placements=late.placements.with_columns(pl.col("start", "end") + 1000),
        power=late.power.with_columns(pl.col("t") + 1000),
    )
    for cut in ({}, {"warm_up": 2.0, "until": 20.0}):
        before, after = figures(late, **cut), figures(moved, **cut)
        assert before.to_dict() == pytest.approx(after.to_dict())


def test_only_tasks_that_may_have_met_their_deadline_are_noted_as_not_missed() -> None:
    trace = Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b"],
                "submit": [0.0, 0.0],
                "deadline": [9.0, 9.0],
                "status": [None, "failed"],
            }
        ),
        placements=pl.DataFrame(
            {"task": ["a", "b"], "start": [1.0, 1.0], "end": [None, None]},
            schema_overrides={"end": pl.Float64},
        ),
    )
    found = figures(trace)
    assert (found.deadlines, found.deadline_misses) == (2, 1)
    assert "1 task with a deadline and no known end: not a miss" in found.notes


def test_a_task_with_parents_waits_from_when_it_is_ready() -> None:
    trace = Trace(
        tasks=pl.DataFrame(
            {
                "id": ["a", "b", "c"],
                "submit": [0.0, 0.0, 0.0],
                "ready": [5.0, 12.0, None],
                "parents": [[], ["a"], ["a"]],
            }
        ),
        placements=pl.DataFrame(
            {"task": ["a", "b", "c"], "start": [6.0, 15.0, 16.0], "end": [10.0, 20.0, 20.0]}
        ),
    )
    assert per_task(trace)["wait"].to_list() == [6.0, 3.0, 16.0]
    assert any("1 task with parents" in note for note in figures(trace).notes)


def test_a_task_that_was_started_again_is_done_after_its_last_attempt() -> None:
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]}),
        placements=pl.DataFrame(
            {
                "task": ["a", "a"],
                "attempt": [0, 1],
                "cores": [2.0, 2.0],
                "start": [5.0, 50.0],
                "end": [20.0, 90.0],
            }
        ),
    )
    row = per_task(trace).row(0, named=True)
    assert (row["wait"], row["turnaround"], row["slowdown"]) == (5.0, 90.0, 90 / 40)
    assert figures(trace).core_seconds == 2 * 15 + 2 * 40
    unended = trace.placements.with_columns(end=pl.Series([20.0, None]))
    assert per_task(trace.replace(placements=unended))["end"].to_list() == [None]
    lost = trace.placements.with_columns(end=pl.Series([None, 90.0]))
    assert per_task(trace.replace(placements=lost))["end"].to_list() == [90.0]


def test_an_attempt_lasts_from_its_first_node_to_its_last() -> None:
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]}),
        placements=pl.DataFrame(
            {
                "task": ["a", "a", "a"],
                "attempt": [0, 0, 0],
                "machine": ["n1", "n2", "n3"],
                "cores": [1.0, 1.0, 1.0],
                "start": [5.0, 3.0, 4.0],
                "end": [9.0, 8.0, 10.0],
            }
        ),
    )
    row = per_task(trace).row(0, named=True)
    assert (row["start"], row["end"], row["run_time"]) == (3.0, 10.0, 7.0)


def test_unknown_figures_are_none_with_a_note() -> None:
    found = figures(Trace())
    assert {name for name, value in found.to_dict().items() if value not in (None, 0)} == set()
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a", "b"], "submit": [None, 4.0]}),
        placements=pl.DataFrame({"task": ["a", "b"], "start": [1.0, 3.0], "end": [2.0, None]}),
        power=pl.DataFrame({"t": [1.0, 2.0], "dt": [1.0, 1.0], "watts": [5.0, None]}),
    )
    found = figures(trace)
    assert (found.core_seconds, found.utilisation, found.busy_nodes) == (None, None, None)
    assert found.energy == 5.0
    assert found.notes == (
        "1 task of unknown submission: no wait, and out of any window",
        "1 task that started before its submission: a negative wait",
        "1 task that ran and has no known end: no turnaround",
        "1 execution of unknown size: not in the core-seconds",
        "1 window of unknown power: not in the energy",
    )


def test_placements_without_cores_use_the_requested_cores() -> None:
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 0.0], "requested_cores": [6.0, 1.0]}),
        placements=pl.DataFrame(
            {
                "task": ["a", "a", "a", "b"],
                "cores": [2.0, None, None, 1.0],
                "start": [0.0, 0.0, 0.0, 0.0],
                "end": [10.0, 10.0, 10.0, 5.0],
            }
        ),
    )
    assert figures(trace).core_seconds == 65.0


def test_a_simulated_run_stores_its_cores_and_carbon() -> None:
    facts = {"run": {"cores": 4, "carbon_g": 7.5}}
    trace = hand_made().replace(manifest=Manifest(facts=facts), nodes=Trace().nodes)
    found = figures(trace)
    assert (found.cores, found.carbon) == (4.0, 7.5)
    assert figures(trace, warm_up=1.0).carbon is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"warm_up": -1.0},
        {"warm_up": math.nan},
        {"until": 0.0},
        {"warm_up": 5.0, "until": 5.0},
        {"bound": 0.0},
        {"cores": 0.0},
    ],
)
def test_options_without_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        figures(hand_made(), **wrong)


def test_only_a_trace_has_figures() -> None:
    with pytest.raises(TwinloopError, match="a Trace is needed"):
        figures("log.swf")  # type: ignore[arg-type]


def test_every_figure_is_shown_with_its_name() -> None:
    found = figures(hand_made())
    text, page = repr(found), found._repr_html_()
    assert "makespan_s                        30" in text
    assert "wait_s                       5.33333             8" in text
    assert list(found.to_dict()) == list(FIGURES)
    for name, value in found.to_dict().items():
        if value:
            assert f"<th>{name}</th>" in page


def test_every_figure_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    rows = [f"| `{name}` | {figure.unit} | {figure.meaning} |" for name, figure in FIGURES.items()]
    assert "\n".join(["| figure | unit | meaning |", "|---|---|---|", *rows]) in page.read_text()


@few
@given(runs(), st.randoms(use_true_random=False))
def test_results_do_not_depend_on_the_order_of_rows(trace: Trace, random: object) -> None:
    def shuffled(frame: pl.DataFrame) -> pl.DataFrame:
        order = list(range(frame.height))
        random.shuffle(order)  # type: ignore[attr-defined]
        return frame[order]

    other = trace.replace(tasks=shuffled(trace.tasks), placements=shuffled(trace.placements))
    before, after = figures(trace, cores=9), figures(other, cores=9)
    # What is not known is None in both; numbers agree but for the order of their sums.
    one, two = before.to_dict(), after.to_dict()
    assert {name for name in one if one[name] is None} == {n for n in two if two[n] is None}
    known = {name: value for name, value in two.items() if value is not None}
    assert {name: one[name] for name in known} == pytest.approx(known, rel=1e-12)
    assert cores_in_use(trace).equals(cores_in_use(other))


@given(st.lists(st.floats(-1e9, 1e9) | st.none(), min_size=1))
def test_percentiles_ascend_between_the_least_and_the_largest(values: list[float | None]) -> None:
    known = [value for value in values if value is not None]
    found = Distribution.of(pl.Series(values, dtype=pl.Float64))
    if not known:
        assert found is None
        return
    assert found is not None
    assert found.known == len(known)
    marks = [min(known), found.p50, found.p95, found.p99, found.max]
    assert all(a <= b or b == pytest.approx(a) for a, b in pairwise(marks))
    assert min(known) <= found.mean <= max(known)
    assert found.max == max(known)
    # The definition, literally: position p (n - 1) among the sorted values.
    ordered = sorted(known)
    at = 0.95 * (len(known) - 1)
    below, above = ordered[math.floor(at)], ordered[math.ceil(at)]
    expected = below + (above - below) * (at - math.floor(at))
    assert found.p95 == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(runs())
def test_utilisation_is_at_most_one_where_no_core_is_held_twice(trace: Trace) -> None:
    curve = cores_in_use(trace)
    if curve.height:
        found = figures(trace, cores=float(np.max(curve["cores"].to_numpy())))
        assert found.utilisation is not None
        assert 0 <= found.utilisation <= 1 + 1e-12
        assert found.busy_nodes is not None
        assert 0 <= found.busy_nodes <= 3


@few
@given(runs())
def test_statuses_add_up_and_wide_windows_include_everything(trace: Trace) -> None:
    found = figures(trace)
    assert sum(found.statuses.values()) == found.tasks == trace.tasks.height
    assert figures(trace, until=1e9).to_dict() == found.to_dict()


@few
@given(runs(min_tasks=1), st.integers(1, 400).map(lambda n: n / 4))
def test_warm_up_and_what_is_before_it_divide_the_tasks(trace: Trace, at: float) -> None:
    whole, head, tail = figures(trace), figures(trace, until=at), figures(trace, warm_up=at)
    assert head.tasks + tail.tasks == whole.tasks
    assert head.left_out == tail.tasks
    if head.core_seconds is not None and whole.core_seconds is not None:
        assert head.core_seconds + (tail.core_seconds or 0) == pytest.approx(whole.core_seconds)


@pytest.mark.realdata
def test_the_recorded_log_of_kth_is_as_published(real_data: Path) -> None:
    """Madon et al. 2024, Table 1, row "Recorded log", KTH, in days."""
    log = tl.read(real_data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    found = figures(log)
    assert found.wait is not None
    assert found.makespan is not None
    days = [round(x / 86400, 2) for x in (found.makespan, found.wait.mean, found.wait.max)]
    assert days == [332.93, 0.18, 11.34]
    # Section 7.3.3: the utilisation of the original machine is "above 70 %".
    day = 86400.0
    for months in (4, 6, 8):
        window = figures(log, warm_up=14 * day, until=(14 + 30 * months) * day)
        assert window.utilisation is not None
        assert 0.70 < window.utilisation < 0.75
