"""A Gantt chart shows exactly the executions, with their nodes and times."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given

from tests.report.sample_runs import (
    FEWER,
    draw_tasks,
    remove_machines,
    run_fcfs,
    sum_core_seconds,
    sum_seconds,
    tasks_to_run,
)
from twinloop.description import InputError
from twinloop.report import plot_gantt
from twinloop.trace import Manifest, Trace

Tasks = list[tuple[float, float, int]]


def compute_area(figure: Any) -> float:
    """Cores times seconds of all bars."""
    bars = (float(np.sum(part.x * part.width)) for part in figure.data)
    return sum(bars) * sum_seconds(figure)


@FEWER
@given(tasks_to_run)
def test_the_bars_are_the_placements_in_place_time_and_area(tasks: Tasks) -> None:
    trace = run_fcfs(tasks)
    figure = plot_gantt(trace)
    # A task in two pieces is on cores that are not adjacent.
    found = {
        text.partition("</b>")[0].removeprefix("<b>"): (base, length)
        for part in figure.data
        for text, base, length in zip(part.hovertext, part.base, part.x, strict=True)
    }
    unit = sum_seconds(figure)
    assert {
        task: pytest.approx((start / unit, (end - start) / unit))
        for task, start, end in trace.placements.select("task", "start", "end").rows()
    } == found
    assert compute_area(figure) == pytest.approx(sum_core_seconds(trace))


@FEWER
@given(tasks_to_run)
def test_bars_of_a_node_stay_in_its_band(tasks: Tasks) -> None:
    trace = run_fcfs(tasks)
    figure = plot_gantt(trace)
    centre = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    for part in figure.data:
        for text, y, width in zip(part.hovertext, part.y, part.width, strict=True):
            node = text.partition("machine ")[2].partition("<")[0]
            assert abs(y - centre[node]) + width / 2 <= 4 / 2 + 1e-9


@FEWER
@given(tasks_to_run)
def test_without_machines_the_tasks_are_packed_onto_the_available_cores(tasks: Tasks) -> None:
    trace = remove_machines(run_fcfs(tasks))
    figure = plot_gantt(trace)
    assert compute_area(figure) == pytest.approx(sum_core_seconds(trace))
    assert all(np.all(part.y + part.width / 2 <= 8) for part in figure.data)


def test_a_placement_on_adjacent_cores_is_one_bar() -> None:
    trace = run_fcfs([(5.0, 10.0, 4)] * 30)
    assert sum(len(part.x) for part in plot_gantt(trace).data) == trace.placements.height


def test_the_hover_text_has_user_task_and_times() -> None:
    trace = run_fcfs([(0.0, 60.0, 4), (0.0, 60.0, 4), (30.0, 90.0, 2)])
    text = next(
        text for part in plot_gantt(trace).data for text in part.hovertext if "task 2" in text
    )  # fmt: skip
    for label in ("user 2", "cores 2", "submit 30 s", "start 60 s", "end 150 s", "wait 30 s"):
        assert label in text


def test_many_users_share_nine_colours_and_a_grey() -> None:
    trace = run_fcfs(draw_tasks(60))
    users = pl.Series("user", [f"u{number % 20}" for number in range(60)])
    figure = plot_gantt(trace.replace(tasks=trace.tasks.with_columns(users)))
    assert len(figure.data) == 10
    assert figure.data[-1].name == "others (11)"
    assert len({part.marker.color for part in figure.data}) == 10


def test_colour_by_status_uses_the_end_of_the_execution() -> None:
    trace = run_fcfs([(0.0, 9.0, 1)] * 2)
    reasons = pl.Series("reason", ["preempted", None])
    figure = plot_gantt(
        trace.replace(placements=trace.placements.with_columns(reasons)), colour="status"
    )
    assert {part.name for part in figure.data} == {"preempted", "completed"}


def test_node_states_are_drawn_on_their_node() -> None:
    states = pl.DataFrame(
        {"node": ["n1", "n1"], "start": [2.0, 4.0], "end": [5.0, 9.0], "state": "down"}
    )
    away = plot_gantt(run_fcfs([(0.0, 20.0, 1)] * 3).replace(node_states=states)).data[-1]
    assert (away.name, away.base.tolist(), away.x.tolist()) == ("not available", [2.0], [7.0])


def test_a_large_run_is_a_heat_map_with_the_same_area() -> None:
    trace = run_fcfs(draw_tasks(5001), nodes=3)
    (heat,) = plot_gantt(trace).data
    assert heat.type == "heatmap"
    assert list(heat.y) == ["n0", "n1", "n2"]
    first, last = trace.placements["start"].min(), trace.placements["end"].max()
    width = (last - first) / heat.z.shape[1]
    assert float(heat.z.sum(dtype=float)) * width * 4 == pytest.approx(
        sum_core_seconds(trace), 1e-6
    )


def test_more_than_200_nodes_are_drawn_in_groups() -> None:
    trace = run_fcfs([(1.0, 50.0, 2)] * 300, nodes=450)
    (heat,) = plot_gantt(trace).data
    assert heat.z.shape[0] == 150
    assert heat.y[0] == "n0 … n2"
    assert heat.z.max() <= 1.0


def test_a_large_run_without_machines_is_a_heat_map_of_users() -> None:
    trace = remove_machines(run_fcfs(draw_tasks(5001)))
    (heat,) = plot_gantt(trace).data
    assert sorted(heat.y) == ["user 0", "user 1", "user 2"]
    width = (trace.placements["end"].max() - trace.placements["start"].min()) / heat.z.shape[1]
    assert float(heat.z.sum(dtype=float)) * width == pytest.approx(sum_core_seconds(trace), 1e-6)


def test_a_window_draws_the_executions_in_it() -> None:
    trace = run_fcfs(draw_tasks(6000))
    inside = trace.placements.filter((pl.col("start") < 2000) & (pl.col("end") >= 1000))
    figure = plot_gantt(trace, window=(1000.0, 2000.0))
    shown = {text.partition("</b>")[0][3:] for part in figure.data for text in part.hovertext}
    assert shown == set(inside["task"])


def test_with_an_epoch_the_axis_has_dates() -> None:
    epoch = 1_726_128_000_000
    figure = plot_gantt(run_fcfs([(0.0, 60.0, 1)], manifest=Manifest(epoch_ms=epoch)))
    assert figure.layout.xaxis.type == "date"
    assert (figure.data[0].base[0], figure.data[0].x[0]) == (epoch, 60_000)
    assert "start 2024-09-12 08:00:00" in figure.data[0].hovertext[0]


def test_omitted_executions_are_reported() -> None:
    trace = run_fcfs([(0.0, 60.0, 1)] * 3)
    ends = pl.Series("end", [60.0, None, 60.0])
    figure = plot_gantt(trace.replace(placements=trace.placements.with_columns(ends)))
    assert sum(len(part.x) for part in figure.data) == 2
    assert figure.layout.meta["notes"] == [
        "not drawn: 1 execution without a start, or without an end after it"
    ]


@pytest.mark.parametrize(
    ("trace", "options", "message"),
    [
        (Trace(), {}, "no execution has a start and an end"),
        (run_fcfs([(0.0, 1.0, 1)]), {"window": (5.0, 5.0)}, "window from 5.0 to 5.0 s is empty"),
        (run_fcfs([(0.0, 1.0, 1)]), {"colour": "size"}, "use user, queue, status or kind"),
    ],
)
def test_missing_data_raise_an_error_with_the_reason(
    trace: Trace, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        plot_gantt(trace, **options)  # type: ignore[arg-type]
