"""Time series: areas and final values equal those of the tasks."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.traces import few, hand_made, runs
from twinloop.description import InputError
from twinloop.metrics import (
    busy_cores,
    busy_nodes,
    completions,
    cores_in_use,
    per_task,
    queue_length,
    submissions,
    terminations,
    throughput,
)
from twinloop.trace import Trace


def area(curve: pl.DataFrame, name: str) -> float:
    if not curve.height:
        return 0.0
    level, t = curve[name].to_numpy(), curve["t"].to_numpy()
    assert level[-1] == 0
    return float(np.sum(level[:-1] * np.diff(t)))


@given(runs())
def test_the_area_of_the_queue_is_the_sum_of_the_waits(trace: Trace) -> None:
    """Little's law, of a run that ends with an empty queue."""
    assert area(queue_length(trace), "waiting") == per_task(trace)["wait"].sum()


@given(runs())
def test_the_area_of_the_cores_in_use_is_the_core_seconds(trace: Trace) -> None:
    seconds = trace.placements["end"] - trace.placements["start"]
    assert area(cores_in_use(trace), "cores") == (trace.placements["cores"] * seconds).sum()


@given(runs(), st.lists(st.floats(0, 400), max_size=20))
def test_cores_in_use_equal_the_cores_of_running_placements(
    trace: Trace, moments: list[float]
) -> None:
    curve = cores_in_use(trace).rows()
    rows = trace.placements.select("cores", "start", "end").rows()
    for moment in moments:
        shown = [cores for t, cores in curve if t <= moment]
        running = [cores for cores, start, end in rows if start <= moment < end]
        assert (shown[-1] if shown else 0.0) == sum(running)


@few
@given(runs(), st.none() | st.sampled_from([0.25, 7.0, 1000.0]))
def test_counts_end_with_all_tasks(trace: Trace, bin: float | None) -> None:
    tasks = per_task(trace)
    completed = tasks.filter((pl.col("status") == "completed") & pl.col("ran"))
    for curve, total in (
        (submissions(trace, bin), tasks.height),
        (terminations(trace, bin), int(tasks["ran"].sum())),
        (completions(trace, bin), completed.height),
    ):
        assert curve["count"].sum() == total
        assert curve["total"].to_list() == curve["count"].cum_sum().to_list()
        assert not total or curve["total"][-1] == total


@given(runs(), st.sampled_from([0.25, 7.0]))
def test_bins_agree_with_the_events_at_their_ends(trace: Trace, bin: float) -> None:
    events = terminations(trace)
    t, count = events["t"].to_numpy(), events["count"].to_numpy()
    binned = terminations(trace, bin)
    expected = [count[t <= end].sum() for end in binned["t"].to_numpy()]
    assert binned["total"].to_list() == expected


@given(runs(min_tasks=1), st.tuples(st.integers(0, 300), st.integers(1, 80)))
def test_means_in_a_window_equal_a_direct_count(trace: Trace, window: tuple[int, int]) -> None:
    start, end = float(window[0]), float(window[0] + window[1])
    # All times are quarters of a second, so that what holds in the middle of each holds in it.
    middles = np.arange(start, end, 0.25) + 0.125
    cores, nodes = [], []
    rows = trace.placements.select("machine", "cores", "start", "end").rows()
    for moment in middles:
        held = [(machine, size) for machine, size, begin, stop in rows if begin <= moment < stop]
        cores.append(sum(size for _, size in held))
        nodes.append(len({machine for machine, _ in held}))
    assert busy_cores(trace, start, end) == pytest.approx(np.mean(cores))
    assert busy_nodes(trace, start, end) == pytest.approx(np.mean(nodes))
    ended = [t for t in per_task(trace)["end"].drop_nulls() if start < t <= end]
    assert throughput(trace, start, end) == pytest.approx(len(ended) / (end - start))


def test_series_worked_out_by_hand() -> None:
    trace = hand_made()
    assert queue_length(trace).rows() == [(2.0, 1), (10.0, 0), (16.0, 1), (24.0, 0)]
    assert cores_in_use(trace).rows() == [(0, 1), (10, 2), (22, 0), (24, 1), (30, 0)]
    assert completions(trace).rows() == [(10.0, 1, 1), (22.0, 1, 2)]
    assert terminations(trace, bin=15).rows() == [(15.0, 1, 1), (30.0, 2, 3)]
    assert submissions(trace)["t"].to_list() == [0.0, 2.0, 3.0, 16.0]


def test_a_node_is_busy_once_while_a_long_task_outlasts_short_ones() -> None:
    rows = {"task": list("abc"), "machine": ["n"] * 3, "start": [0.0, 1.0, 3.0]}
    trace = Trace(placements=pl.DataFrame(rows | {"end": [10.0, 2.0, 4.0]}))
    assert busy_nodes(trace, 0, 20) == 0.5


def test_a_trace_without_anything_has_empty_series() -> None:
    for series in (queue_length, cores_in_use, submissions, completions, terminations):
        assert series(Trace()).height == 0
    assert submissions(Trace(), bin=5).height == 0


def test_windows_and_bins_without_sense_are_refused() -> None:
    with pytest.raises(InputError, match="not a valid interval"):
        busy_cores(hand_made(), 5, 5)
    with pytest.raises(InputError, match="must be a positive duration"):
        submissions(hand_made(), bin=0)
    with pytest.raises(InputError, match="bins"):
        submissions(hand_made(), bin=1e-9)
