"""The areas under the curves equal the core-seconds, waits and energy of the run."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given

from tests.report.sample_runs import (
    FEWER,
    draw_tasks,
    run_fcfs,
    sum_core_seconds,
    sum_seconds,
    tasks_to_run,
)
from twinloop.description import InputError
from twinloop.report import plot_gantt, plot_power, plot_queue, plot_utilisation, plot_waits
from twinloop.trace import Trace

Tasks = list[tuple[float, float, int]]


def compute_area(curve: Any, scale: float = 1.0) -> float:
    return float(np.nansum(np.asarray(curve.y)[:-1] * np.diff(curve.x))) * scale


@FEWER
@given(tasks_to_run)
def test_the_area_under_the_utilisation_is_the_core_seconds(tasks: Tasks) -> None:
    trace = run_fcfs(tasks)
    if sum_core_seconds(trace) == 0:
        with pytest.raises(InputError, match="no execution uses a core for any time"):
            plot_utilisation(trace)
        return
    figure = plot_utilisation(trace)
    assert compute_area(figure.data[0], sum_seconds(figure)) == pytest.approx(
        sum_core_seconds(trace)
    )
    assert max(figure.data[0].y) <= 8


@FEWER
@given(tasks_to_run)
def test_the_area_under_the_queue_is_the_sum_of_the_waits(tasks: Tasks) -> None:
    trace = run_fcfs(tasks)
    both = trace.tasks.join(trace.placements, left_on="id", right_on="task")
    waited = (both["start"] - both["submit"]).to_numpy()
    figure = plot_queue(trace)
    scale = sum_seconds(figure)
    count, cores = figure.data
    assert compute_area(count, scale) == pytest.approx(waited.sum())
    assert compute_area(cores, scale) == pytest.approx(waited @ both["requested_cores"].to_numpy())


@FEWER
@given(tasks_to_run)
def test_the_distribution_of_waits_is_the_share_with_at_most_this_wait(tasks: Tasks) -> None:
    trace = run_fcfs(tasks)
    both = trace.tasks.join(trace.placements, left_on="id", right_on="task")
    waited = (both["start"] - both["submit"]).to_numpy()
    (curve,) = plot_waits(trace).data
    for wait, share in zip(curve.x, curve.y, strict=True):
        assert share == pytest.approx(np.mean(waited <= wait))
    assert curve.y[-1] == 1.0


def test_a_long_run_keeps_its_extremes_and_its_exact_means() -> None:
    trace = run_fcfs(draw_tasks(20_000), nodes=4)
    figure = plot_utilisation(trace)
    thin, means, _ = figure.data
    assert len(thin.x) <= 4000
    assert compute_area(means, sum_seconds(figure)) == pytest.approx(sum_core_seconds(trace))
    whole = trace.placements.select(
        pl.concat_list(pl.struct(t="start", c="cores"), pl.struct(t="end", c=-pl.col("cores")))
        .explode()
        .alias("event")
    ).unnest("event")
    levels = whole.group_by("t").agg(pl.col("c").sum()).sort("t")["c"].cum_sum()
    assert (max(thin.y), min(thin.y)) == (levels.max(), levels.min())


def test_capacity_decreases_once_while_nodes_are_down() -> None:
    states = pl.DataFrame(
        {
            "node": ["n0", "n0", "n1", "n0"],
            "start": [10.0, 20.0, 15.0, 27.0],
            "end": [30.0, 25.0, None, 35.0],
            "state": ["maintenance", "down", "down", "off"],
        }
    )
    trace = run_fcfs([(0.0, 100.0, 1)]).replace(node_states=states)
    there = plot_utilisation(trace).data[-1]
    assert there.x.tolist() == [0.0, 10.0, 15.0, 35.0, 100.0]
    assert there.y.tolist() == [8.0, 4.0, 0.0, 4.0, 4.0]


def test_nodes_are_available_only_while_they_run() -> None:
    """Two of three nodes are off at first, one until the end; both ends of the curve are levels."""
    rows = [
        ("n0", 0.0, 5.0, "switching-on"),
        ("n1", 0.0, 30.0, "off"),
        ("n1", 30.0, 40.0, "switching-on"),
        ("n1", 80.0, 90.0, "switching-off"),
        ("n1", 90.0, None, "off"),
        ("n2", 0.0, None, "asleep"),  # a state that only its platform describes
        ("n0", 50.0, 60.0, "draining"),  # its tasks go on
    ]
    states = pl.DataFrame(rows, schema=["node", "start", "end", "state"], orient="row")
    trace = Trace(
        nodes=pl.DataFrame({"node": ["n0", "n1", "n2"], "cores": 16.0}),
        placements=pl.DataFrame({"task": ["a"], "cores": 2.0, "start": 10.0, "end": 100.0}),
        node_states=states,
    )
    there = plot_utilisation(trace).data[-1]
    assert list(zip(there.x, there.y, strict=True)) == [
        (10.0, 16.0), (40.0, 32.0), (80.0, 16.0), (100.0, 16.0),
    ]  # fmt: skip


def test_waits_of_children_begin_when_they_are_ready() -> None:
    trace = Trace(
        tasks=pl.DataFrame(
            {"id": ["a", "b"], "submit": 0.0, "ready": [0.0, 10.0], "parents": [[], ["a"]]}
        ),
        placements=pl.DataFrame({"task": ["a", "b"], "start": [0.0, 13.0], "end": [10.0, 20.0]}),
    )
    assert plot_queue(trace).data[0].x.tolist() == [10.0, 13.0]
    assert plot_waits(trace).data[0].x.tolist() == [0.0, 3.0]


def test_tasks_that_never_started_are_named_and_not_drawn() -> None:
    trace = run_fcfs([(0.0, 50.0, 4)] * 3)
    tasks = pl.concat([trace.tasks, trace.tasks[:1].with_columns(id=pl.lit("never"))])
    figure = plot_queue(trace.replace(tasks=tasks))
    assert max(figure.data[0].y) == 1
    assert figure.layout.meta["notes"] == [
        "not counted: 1 task that never started or whose wait is unknown"
    ]


@pytest.mark.parametrize("nodes", [[None], ["n0", "n1"]])
def test_the_area_under_the_power_is_the_energy_and_gaps_are_not_filled(
    nodes: list[str | None],
) -> None:
    windows = [(10.0, 90.0), (20.0, 120.0), (40.0, 70.0)]
    rows = [(node, t, 10.0, watts) for node in nodes for t, watts in windows]
    frame = pl.DataFrame(rows, schema=["node", "t", "dt", "watts"], orient="row")
    (curve,) = plot_power(Trace(power=frame)).data
    assert compute_area(curve) == pytest.approx(2800.0 * len(nodes))
    assert np.isnan(curve.y).sum() == 1


def test_totals_are_not_added_to_the_power_of_nodes() -> None:
    frame = pl.DataFrame({"node": ["n0", None], "t": 10.0, "dt": 10.0, "watts": [90.0, 150.0]})
    (curve,) = plot_power(Trace(power=frame)).data
    assert curve.y[0] == 150.0


def test_a_long_power_series_keeps_extremes_energy_and_gaps() -> None:
    t = np.arange(1.0, 20_001.0)
    watts = 100.0 + np.arange(20_000) % 37
    keep = (t < 9000) | (t > 11_000)
    frame = pl.DataFrame({"t": t[keep], "dt": 1.0, "watts": watts[keep]})
    thin, means = plot_power(Trace(power=frame)).data
    assert (np.nanmin(thin.y), np.nanmax(thin.y)) == (100.0, 136.0)
    assert np.isnan(thin.y).any()
    assert np.isnan(means.y).any()
    assert np.nanmin(means.y) >= 100.0


@pytest.mark.parametrize("draw", [plot_queue, plot_utilisation, plot_power, plot_waits])
def test_a_trace_without_the_data_is_an_error_that_names_them(draw: Any) -> None:
    with pytest.raises(InputError, match=r"there (is|are) no"):
        draw(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})))


@pytest.mark.realdata
def test_the_kth_log_has_its_published_capacity_and_its_own_core_seconds(real_data: Any) -> None:
    import twinloop as tl

    trace = tl.read(real_data / "swf" / "KTH-SP2-1996-2.1-cln.swf.gz")
    thin, means, there = plot_utilisation(trace).data
    assert set(there.y) == {100.0}
    assert max(thin.y) >= 100.0
    known = trace.placements.drop_nulls(["start", "end"]).filter(pl.col("end") >= pl.col("start"))
    sized = (known["cores"].fill_null(1.0) * (known["end"] - known["start"])).sum()
    assert compute_area(means, 0.001) == pytest.approx(sized, rel=1e-6)
    assert plot_gantt(trace).data[0].type == "heatmap"
    assert plot_waits(trace).data[0].y[-1] == 1.0
