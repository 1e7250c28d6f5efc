"""Static charts, and the charts that are methods of a trace."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.sample_runs import (
    draw_tasks,
    remove_machines,
    run_fcfs,
    sum_core_seconds,
    tasks_to_run,
)
from twinloop.description import InputError
from twinloop.report import Plots, render_run_chart, render_run_svg

SVG = "{http://www.w3.org/2000/svg}"


@given(tasks_to_run)
def test_the_svg_has_the_area_of_the_tasks(tasks: list[tuple[float, float, int]]) -> None:
    tasks = [(gap, run_time + 1.0, size) for gap, run_time, size in tasks]
    trace = remove_machines(run_fcfs(tasks))
    root = ET.fromstring(render_run_svg(trace))
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("class") == "task"]
    shown = sum(float(box.get("width", 0)) * float(box.get("height", 0)) for box in boxes)
    # 712 x 260 pixels for all cores from the first submission to the last end.
    span = trace.placements["end"].max() - trace.tasks["submit"].min()  # type: ignore[operator]
    assert shown == pytest.approx(sum_core_seconds(trace) * 712 * 260 / (span * 8), rel=0.02)


def test_the_svg_is_one_file_that_loads_nothing_and_escapes_names() -> None:
    trace = run_fcfs(draw_tasks(40))
    evil = '<script>"&'
    trace = trace.replace(
        nodes=trace.nodes.with_columns(node=pl.lit(evil) + pl.col("node")),
        placements=trace.placements.with_columns(
            task=pl.lit(evil) + pl.col("task"), machine=pl.lit(evil) + pl.col("machine")
        ),
    )
    text = render_run_svg(trace)
    tags = {element.tag.removeprefix(SVG) for element in ET.fromstring(text).iter()}
    assert tags == {"svg", "title", "text", "rect", "line", "polygon", "polyline"}
    assert text.count("http") == 1  # the name of the language
    assert sum(1 for _ in ET.fromstring(text).iter(f"{SVG}rect")) >= 40


def test_at_most_three_hundred_tasks_are_a_static_chart() -> None:
    assert render_run_svg(run_fcfs(draw_tasks(300))).count('class="task"') >= 300
    with pytest.raises(InputError, match="301 tasks are too many"):
        render_run_svg(run_fcfs(draw_tasks(301)))


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_chart_fits_the_terminal(width: int) -> None:
    lines = render_run_chart(run_fcfs(draw_tasks(100)), width).splitlines()
    drawn = [line for line in lines if "┤" in line or "└" in line]
    assert max(map(len, drawn)) == width


def test_the_chart_names_means_and_extremes() -> None:
    trace = run_fcfs([(0.0, 50.0, 4), (0.0, 50.0, 4), (0.0, 50.0, 4), (0.0, 100.0, 4)])
    # 4 x 4 cores of 50, 50, 50 and 100 s in 150 s; two tasks wait for 50 s.
    text = render_run_chart(trace)
    assert "cores in use: 6.67 of 8 on average, at most 8" in text
    assert "waiting tasks: 0.667 on average, at most 2" in text


def test_a_record_without_submissions_has_no_queue_to_show() -> None:
    trace = run_fcfs(draw_tasks(10))
    unknown = pl.lit(None, dtype=pl.Float64)
    trace = trace.replace(tasks=trace.tasks.with_columns(submit=unknown))
    assert "waiting" not in render_run_chart(trace)
    assert render_run_svg(trace).count("<polyline") == 2


def test_a_trace_has_methods_for_its_charts() -> None:
    trace = run_fcfs(draw_tasks(20))
    assert isinstance(trace.plot, Plots)
    assert trace.plot.gantt(colour="status").data[0].name == "completed"
    assert trace.plot.queue().to_plotly_json()["data"][0]["name"] == "tasks"
    assert np.isclose(trace.plot.waits().data[0].y[-1], 1.0)


def test_importing_a_trace_loads_no_chart_library() -> None:
    code = (
        "import sys, twinloop.trace as t; t.Trace(); "
        "assert not any(n.startswith(('twinloop.report', 'plotly')) for n in sys.modules); "
        "t.Trace().plot; assert 'plotly' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def list_texts(picture: str) -> list[tuple[str, float, str]]:
    """List the texts beside bars, with their position and alignment."""
    found = [t for t in ET.fromstring(picture).iter(f"{SVG}text") if t.get("class") != "name"]
    return [(t.text or "", float(t.get("x", 0)), t.get("text-anchor", "")) for t in found]


@pytest.mark.parametrize("name", ["C01-H01-001", "c", "a-very-long-name-of-a-rack-node-"])
def test_names_of_machines_lie_within_the_picture(name: str) -> None:
    trace = run_fcfs(draw_tasks(20))
    called = {node: name + node for node in trace.nodes["node"]}
    trace = trace.replace(
        nodes=trace.nodes.with_columns(pl.col("node").replace(called)),
        placements=trace.placements.with_columns(pl.col("machine").replace(called)),
    )
    texts = [
        (text, x) for text, x, _ in list_texts(render_run_svg(trace)) if text.endswith(("n0", "n1"))
    ]
    assert len({text for text, _ in texts}) == 2
    # A letter of 11 pixels is at most 7 wide on average.
    assert all(x - 7 * len(text) >= 0 for text, x in texts)


@given(st.floats(0.01, 1e9), st.floats(0, 1e6))
def test_times_below_the_svg_have_a_suitable_unit(span: float, first: float) -> None:
    trace = run_fcfs([(first, span, 1)])
    below = [(text, x) for text, x, how in list_texts(render_run_svg(trace)) if how != "start"]
    ticks = [(text, x) for text, x in below if x > 76]
    assert len(ticks) <= 9
    size = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "y": 365.25 * 86400}
    for text, x in ticks:
        number, unit = text.split()
        t = float(number.replace(",", "")) * size[unit]
        there = first + (x - 76) / 712 * span
        # Times have three digits, and a pixel has a width.
        assert abs(t - there) <= max(0.006 * there, span / 700) + 1e-9
