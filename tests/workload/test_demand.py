"""Conversion of usage to demand: CPU seconds and durations are conserved."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.trace.manifest import Manifest
from twinloop.trace.trace import Trace
from twinloop.workload import Workload
from twinloop.workload.fragments import Fragments


def run(samples, *, start=0.0, end=10.0, mhz=None, missing="synthetic", task="a", **more):
    """One task from start to end on node n, sampled at (t, dt, cpu)."""
    nodes = pl.DataFrame({"node": ["n"], "mhz": [mhz]}, schema_overrides={"mhz": pl.Float64})
    trace = Trace(
        tasks=pl.DataFrame({"id": [task], "submit": [0.0]}),
        placements=pl.DataFrame({"task": [task], "machine": ["n"], "start": [start], "end": [end]}),
        usage=pl.DataFrame(
            {
                "task": [task] * len(samples),
                "machine": ["n"] * len(samples),
                "pid": [1] * len(samples),
                "t": [float(s[0]) for s in samples],
                "dt": [float(s[1]) for s in samples],
                "cpu": [float(s[2]) for s in samples],
            }
            | more
        ),
        nodes=nodes,
    )
    return Workload.from_trace(trace, missing=missing)


def fragments(workload):
    return workload.fragments.select("duration", "rate").rows()


def notes(workload, kind):
    return {note.what: note.count for note in workload.cleaned if note.kind == kind}


def test_the_published_example():
    # Tables 4.1 and 4.2 of the OpenDC adapter's thesis: a head of 727 ms, then samples of 1008
    # and 1001 ms. The printed MHz are 1000/1008 and 1010/1001 of a clock of 2399 MHz.
    workload = run([(1.735, 1.008, 1.000), (2.736, 1.001, 1.010)], end=2.736, mhz=2399.0)
    durations, rates = zip(*fragments(workload), strict=True)
    assert durations == pytest.approx([0.727, 1.008, 1.001], abs=1e-12)
    mhz = np.array(rates) * workload.reference_mhz
    assert mhz == pytest.approx([2379.9603174603176, 2379.9603174603176, 2420.5694305694306])
    assert workload.tasks["cores"].to_list() == [1.0]


def test_capacity_is_the_95th_percentile_of_all_fragments():
    # 21 fragments at 1..21 tenths of a core: rank 0.95 * 20 = 19 counted from 0 is the 20th.
    samples = [(i + 1, 1.0, (i + 1) / 10) for i in range(21)]
    assert run(samples, end=21.0).capacities().tolist() == pytest.approx([2.0])


@given(st.lists(st.lists(st.floats(0, 100), min_size=1, max_size=30), min_size=1, max_size=5))
def test_the_percentile_is_numpys(rates):
    rows = np.repeat(np.arange(len(rates)), [len(r) for r in rates])
    some = Fragments.from_rows(rows, np.ones(len(rows)), np.concatenate(rates))
    expected = [np.percentile(r, 95) for r in rates]
    assert some.capacity().tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("rate", "cores"), [(0.0, 1.0), (0.3, 1.0), (1.02, 1.0), (1.06, 2.0), (2.04, 2.0), (2.5, 3.0)]
)
def test_unknown_cores_follow_from_the_capacity(rate, cores):
    assert run([(10.0, 10.0, 10 * rate)]).tasks["cores"].to_list() == [cores]


def test_head_gap_and_tail_are_filled_and_counted():
    workload = run([(3.0, 1.0, 0.2), (6.0, 2.0, 1.0)], end=9.0)
    assert fragments(workload) == [(2.0, 0.2), (1.0, 0.2), (1.0, 0.5), (2.0, 0.5), (3.0, 0.5)]
    assert notes(workload, "invented") == {
        "unknown numbers of cores, by the 95th percentile of the fragments": 1,
        "heads of 2.000 s in all, before the first sample of a task, with its rate": 1,
        "gaps of 1.000 s in all, between samples, with the rate of the next one": 1,
        "tails of 3.000 s in all, after the last sample of a task, with its rate": 1,
    }


def test_samples_are_cut_at_the_execution_and_left_out_beyond_it():
    samples = [(1.0, 1.0, 9.0), (3.0, 2.0, 1.0), (5.0, 2.0, 2.0), (7.0, 1.0, 9.0)]
    workload = run(samples, start=2.0, end=4.0)
    assert fragments(workload) == [(1.0, 0.5), (1.0, 1.0)]
    assert notes(workload, "skipped") == {"samples outside the execution of their task": 2}
    (what,) = notes(workload, "repaired")
    assert what.startswith("samples cut by 1.500 CPU s in all")


def test_a_sample_of_covered_time_is_left_out_and_one_that_overlaps_is_cut():
    workload = run([(4.0, 4.0, 4.0), (4.0, 4.0, 8.0), (5.0, 2.0, 1.0)], end=5.0)
    assert fragments(workload) == [(4.0, 1.0), (1.0, 0.5)]
    assert notes(workload, "skipped") == {"samples of time that is covered by another sample": 1}


def test_samples_may_come_in_any_order():
    assert fragments(run([(2.0, 1.0, 0.5), (1.0, 1.0, 1.0)], end=2.0)) == [(1.0, 1.0), (1.0, 0.5)]


def test_processes_sampled_at_the_same_time_add_up():
    samples = [(2.0, 2.0, 2.0), (4.0, 2.0, 1.0), (3.0, 3.0, 3.0), (4.0, 1.0, 0.25)]
    workload = run(samples, end=4.0, pid=[1, 1, 2, 2])
    assert fragments(workload) == [(2.0, 2.0), (1.0, 1.5), (1.0, 0.75)]
    assert workload.tasks["work"].to_list() == pytest.approx([6.25])


def test_samples_without_length_or_cpu_are_counted():
    workload = run([(1.0, 0.0, 1.0), (2.0, 2.0, -1.0), (10.0, 10.0, 5.0)])
    assert fragments(workload) == [(10.0, 0.5)]
    what = "samples without a positive duration or a valid CPU time"
    assert notes(workload, "skipped") == {what: 2}


def test_rates_are_in_reference_cores():
    trace = Trace(
        tasks=pl.DataFrame({"id": ["s", "f"], "submit": [0.0, 0.0]}),
        placements=pl.DataFrame(
            {"task": ["s", "f"], "machine": ["slow", "fast"], "start": [0.0] * 2, "end": [4.0] * 2}
        ),
        usage=pl.DataFrame({"task": ["s", "f"], "t": [4.0] * 2, "dt": [4.0] * 2, "cpu": [4.0] * 2}),
        nodes=pl.DataFrame({"node": ["slow", "fast"], "mhz": [1200.0, 2400.0]}),
    )
    workload = Workload.from_trace(trace)
    assert workload.reference_mhz == 2400.0
    assert workload.tasks.select("limit", "work", "speed", "cores").rows() == [
        (0.5, 2.0, 0.5, 1.0),
        (1.0, 4.0, 1.0, 1.0),
    ]
    counted = Workload.from_trace(trace, reference_mhz=4800.0)
    assert counted.tasks["work"].to_list() == [1.0, 2.0]


def test_a_trace_that_counts_in_one_clock_ignores_the_nodes():
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "run_time": [4.0]}),
        usage=pl.DataFrame({"task": ["a"], "machine": ["n"], "dt": [4.0], "cpu": [4.0]}),
        nodes=pl.DataFrame({"node": ["n"], "mhz": [1200.0]}),
        manifest=Manifest(reference_mhz=3000.0),
    )
    assert Workload.from_trace(trace).tasks["work"].to_list() == [4.0]
    assert Workload.from_trace(trace, reference_mhz=1500.0).tasks["work"].to_list() == [8.0]


def test_memory_is_the_peak_within_the_execution():
    samples = [(1.0, 1.0, 1.0), (3.0, 1.0, 1.0), (20.0, 1.0, 1.0)]
    workload = run(samples, rss=[5.0, 7.0, 99.0])
    assert workload.tasks["memory"].to_list() == [7.0]
    assert "memory" in workload.injected


def two_runs_of_one_pid(missing):
    """Two tasks with the same process id, one after the other; the second is never sampled."""
    trace = Trace(
        tasks=pl.DataFrame({"id": ["1", "2"], "submit": [0.0, 0.0], "pid": [7, 7]}),
        placements=pl.DataFrame({"task": ["1", "2"], "start": [0.0, 10.0], "end": [10.0, 14.0]}),
        usage=pl.DataFrame({"task": ["1"], "pid": [7], "t": [10.0], "dt": [10.0], "cpu": [3.0]}),
    )
    return Workload.from_trace(trace, missing=missing)


def test_a_process_id_used_again_does_not_mix_two_tasks():
    workload = two_runs_of_one_pid("synthetic")
    assert workload.tasks.select("id", "work", "limit").rows() == [("1", 3.0, 0.3), ("2", 2.0, 0.5)]
    assert workload.durations().tolist() == pytest.approx([10.0, 4.0])


@pytest.mark.parametrize(
    ("missing", "kind", "names"),
    [("synthetic", "invented", "1 2"), ("drop", "skipped", "1"), ("leave", "ignored", "1 2")],
)
def test_tasks_without_a_sample_are_always_counted(missing, kind, names):
    workload = two_runs_of_one_pid(missing)
    (found,) = [n for n in workload.cleaned if "without a sample" in n.what]
    assert (found.kind, found.count, found.examples) == (kind, 1, ("2",))
    assert workload.tasks["id"].to_list() == names.split()


def test_fragments_take_precedence_and_the_difference_is_reported():
    trace = Trace(
        tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0] * 2, "run_time": [12.0, 10.0]}),
        usage=pl.DataFrame({"task": ["a", "b"], "dt": [10.0] * 2, "cpu": [5.0] * 2}),
    )
    workload = Workload.from_trace(trace)
    assert workload.durations().tolist() == [10.0, 10.0]
    (note,) = [n for n in workload.cleaned if n.kind == "ignored"]
    assert (note.count, note.examples) == (1, ("a",))
    assert note.what.endswith("2.000 s in all, 2.000 s at worst")


@st.composite
def sampled_task(draw):
    """Milliseconds: a start, an end, and sampling windows of one process that do not overlap."""
    start = draw(st.integers(0, 10_000))
    length = draw(st.integers(1, 60_000))
    samples, t = [], start - draw(st.integers(0, 5_000))
    for _ in range(draw(st.integers(1, 8))):
        t += draw(st.integers(0, 3_000))
        dt = draw(st.integers(1, 20_000))
        t += dt
        samples.append((t / 1000, dt / 1000, draw(st.integers(0, 100_000)) / 1000))
    return start / 1000, (start + length) / 1000, samples


@given(sampled_task())
def test_durations_are_the_executions_and_cpu_seconds_are_kept(task):
    start, end, samples = task
    workload = run(samples, start=start, end=end, missing="leave")
    inside = [s for s in samples if s[0] > start + 1e-6 and s[0] - s[1] < end - 1e-6]
    if not inside:
        assert fragments(workload) == []
        return
    assert workload.durations()[0] == pytest.approx(end - start, abs=1e-9)
    # Work done at any time of the execution, from the fragments.
    durations, rates = (np.array(column) for column in zip(*fragments(workload), strict=True))
    edges = start + np.concatenate([[0.0], np.cumsum(durations)])
    done = np.concatenate([[0.0], np.cumsum(durations * rates)])
    for t, dt, cpu in inside:
        low, high = max(t - dt, start), min(t, end)
        work = np.interp(high, edges, done) - np.interp(low, edges, done)
        assert work == pytest.approx(cpu / dt * (high - low), rel=1e-6, abs=1e-6)


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(0, 9)), min_size=1),
    st.integers(0, 20),
    st.integers(1, 20),
)
def test_samples_may_overlap_in_any_way_without_time_counted_twice(samples, start, length):
    workload = run(samples, start=float(start), end=float(start + length), missing="leave")
    inside = any(t > start and t - dt < start + length for t, dt, _ in samples)
    durations = [duration for duration, _ in fragments(workload)]
    assert sum(durations) == pytest.approx(length if inside else 0.0)
    assert all(duration > 0 for duration in durations)
