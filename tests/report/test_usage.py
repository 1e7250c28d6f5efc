"""The drawn CPU usage equals the sampled CPU seconds, below the limit of the available cores."""

import json
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.page_reader import EVIL, read_figures
from tests.report.sample_runs import FEWER, draw_tasks, run_fcfs, sum_seconds
from tests.report.test_run_page import write_page
from twinloop.description import InputError
from twinloop.report import plot_gantt, plot_usage, render_run_chart, render_run_svg
from twinloop.report.figures.usage import MAX_WINDOWS, make_lanes
from twinloop.trace import Manifest, Trace

SVG = "{http://www.w3.org/2000/svg}"

Samples = list[tuple[int, float, float, float]]

#: Node, begin, length and CPU seconds of a sample; some lengths are much shorter than others.
samples = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 400).map(lambda quarter: quarter / 4),
        st.sampled_from([1.0, 1.0, 0.25, 1 / 3, 0.001]),
        st.integers(0, 40).map(lambda tenth: tenth / 10),
    ),
    min_size=1,
    max_size=60,
)


def make_samples(rows: Samples, cores: float = 2.0, **more: Any) -> Trace:
    node, begin, length, cpu = zip(*rows, strict=True)
    names = [f"n{each}" for each in range(max(node) + 1)]
    return Trace(
        usage=pl.DataFrame(
            {
                "task": [str(each) for each in range(len(rows))],
                "machine": [names[each] for each in node],
                "t": np.add(begin, length),
                "dt": length,
                "cpu": cpu,
            }
        ),
        nodes=pl.DataFrame({"node": names, "cores": cores}),
        **more,
    )


def record_run(
    tasks: list[tuple[float, float, int]], period: float = 1.0, busy: float = 0.8
) -> Trace:
    """A run whose tasks keep this share of their cores busy, sampled with this period."""
    trace = run_fcfs(tasks, manifest=Manifest(kind="recorded"))
    rows = []
    for task, machine, cores, start, end in trace.placements.select(
        "task", "machine", "cores", "start", "end"
    ).iter_rows():
        edges = np.append(np.arange(start, end, period), end)
        for before, after in pairwise(edges):
            length = after - before
            rows.append((task, machine, after, length, length * cores * busy))
    names = ["task", "machine", "t", "dt", "cpu"]
    return trace.replace(usage=pl.DataFrame(rows, schema=names, orient="row"))


def compute_area(t: Any, level: Any) -> float:
    return float(np.asarray(level)[:-1] @ np.diff(t))


@given(samples, st.integers(0, 5))
def test_the_area_of_each_node_is_its_cpu_seconds(rows: Samples, most: int) -> None:
    found, _ = make_lanes(make_samples(rows), most)
    nodes = max(node for node, *_ in rows) + 1
    assert len(found) == (nodes if nodes <= most else 1)
    for lane in found:
        mine = sum(cpu for node, _, _, cpu in rows if lane.name in (f"n{node}", "all nodes"))
        assert lane.cpu_use.area == pytest.approx(mine, abs=1e-9)
        assert lane.cpu_use.level.min() >= 0


@given(samples)
def test_between_two_times_the_level_is_that_of_the_windows(rows: Samples) -> None:
    """With short windows it is the mean over a thousandth of the time."""
    rows = [(0, begin, length, cpu) for _, begin, length, cpu in rows]
    (lane,), notes = make_lanes(make_samples(rows), 8)
    _, begin, length, cpu = np.array(rows).T[:, :, None]
    left, right = lane.cpu_use.t[:-1], lane.cpu_use.t[1:]
    inside = np.minimum(begin + length, right) - np.maximum(begin, left)
    used = (cpu / length * np.maximum(inside, 0.0)).sum(axis=0)
    assert lane.cpu_use.level[:-1] * (right - left) == pytest.approx(used, abs=1e-9)
    short, span = length.min(), (begin + length).max() - begin.min()
    if short < span / MAX_WINDOWS:
        assert notes
    assert lane.cpu_use.t.size <= MAX_WINDOWS + 1


@FEWER
@given(samples)
def test_the_figure_has_the_cpu_seconds_and_a_limit_for_each_node(rows: Samples) -> None:
    trace = make_samples(rows)
    figure = plot_usage(trace)
    scale = sum_seconds(figure)
    curves = {curve.name: curve for curve in figure.data}
    for node in trace.nodes["node"]:
        mine = trace.usage.filter(pl.col("machine") == node)["cpu"].sum()
        curve, limit = curves.pop(node), curves.pop(f"cores of {node}")
        assert compute_area(curve.x, curve.y) * scale == pytest.approx(mine, abs=1e-6)
        assert set(limit.y) == {2.0}
        assert curve.yaxis == limit.yaxis
    assert not curves


def test_a_long_run_of_many_tasks_is_a_thousand_windows_with_the_same_cpu_seconds() -> None:
    rng = np.random.default_rng(1)
    count = 200_000
    begin, length = rng.uniform(0, 86400, count), rng.uniform(0.01, 1.0, count)
    used = pl.DataFrame(
        {"task": "a", "machine": "n1", "t": begin + length, "dt": length, "cpu": rng.random(count)}
    )
    figure = plot_usage(Trace(usage=used))
    (curve,) = figure.data
    assert len(curve.x) == MAX_WINDOWS + 1
    assert compute_area(curve.x, curve.y) * sum_seconds(figure) == pytest.approx(used["cpu"].sum())
    assert "the CPU seconds are exact" in figure.layout.meta["notes"][0]


def test_more_than_eight_nodes_are_drawn_together_under_all_their_cores() -> None:
    rows = [(node, 0.0, 10.0, 5.0) for node in range(9)]
    use, limit = plot_usage(make_samples(rows)).data
    assert (use.name, use.y.tolist(), limit.y.tolist()) == ("all nodes", [4.5, 0], [18, 18])
    assert len(plot_usage(make_samples(rows[:8])).data) == 16


def test_the_limit_of_a_node_falls_while_it_is_down() -> None:
    away = pl.DataFrame({"node": ["n1"], "start": [2.0], "end": [5.0], "state": ["down"]})
    trace = make_samples([(0, 0.0, 10.0, 5.0), (1, 0.0, 2.0, 4.0)], node_states=away)
    first, second = make_lanes(trace, 2)[0]
    assert first.limit is not None
    assert second.limit is not None
    assert first.limit.level.tolist() == [2, 2]
    assert second.limit.level.tolist() == [2, 0, 2, 2]
    assert second.limit.t.tolist() == [0, 2, 5, 10]


def test_an_idle_node_has_a_curve() -> None:
    trace = make_samples([(1, 0.0, 2.0, 1.0)])
    idle, busy = make_lanes(trace, 2)[0]
    assert (idle.name, idle.cpu_use.area, busy.cpu_use.area) == ("n0", 0.0, 1.0)


def test_samples_without_a_machine_are_drawn_together() -> None:
    trace = make_samples([(0, 0.0, 2.0, 1.0)])
    unknown = trace.usage.with_columns(machine=pl.lit(None, dtype=pl.String))
    (lane,), _ = make_lanes(trace.replace(usage=unknown), 8)
    assert (lane.name, lane.cpu_use.area) == ("all nodes", 1.0)
    both = trace.replace(usage=pl.concat([trace.usage, unknown]))
    assert [lane.name for lane in make_lanes(both, 8)[0]] == ["n0", "machine not recorded"]


def test_missing_and_incomplete_samples_are_reported() -> None:
    with pytest.raises(InputError, match="no CPU use to draw: the trace has no valid sample"):
        plot_usage(Trace())
    trace = make_samples([(0, 0.0, 1.0, 1.0)] * 4)
    broken = trace.usage.with_columns(
        dt=pl.Series([1.0, 0.0, None, 1.0]), cpu=pl.Series([0.5, 0.25, 4.0, None])
    )
    figure = plot_usage(trace.replace(usage=broken))
    assert compute_area(figure.data[0].x, figure.data[0].y) == 0.5
    (note,) = figure.layout.meta["notes"]
    assert note == (
        "not drawn: 3 samples without a time, a length or CPU seconds, 4.25 CPU s in total"
    )
    with pytest.raises(InputError, match="no CPU use to draw"):
        plot_usage(trace.replace(usage=broken[1:]))


def test_a_recorded_run_has_its_cpu_usage_on_the_page(tmp_path: Path) -> None:
    trace = record_run(draw_tasks(30))
    _, page = write_page(trace, tmp_path)
    drawn = read_figures(page)
    assert list(drawn) == ["gantt", "queue", "utilisation", "heat", "usage", "waits"]
    assert drawn["usage"]["layout"]["xaxis"]["range"] == drawn["gantt"]["layout"]["xaxis"]["range"]
    without = trace.replace(usage=trace.usage.clear())
    assert "no CPU use to draw" in write_page(without, tmp_path)[0]
    simulated = without.replace(manifest=Manifest(kind="simulated"))
    assert "CPU use" not in write_page(simulated, tmp_path)[0]


def test_no_name_of_a_node_becomes_markup(tmp_path: Path) -> None:
    trace = record_run(draw_tasks(5))
    called = pl.lit(EVIL) + pl.col("node")
    trace = trace.replace(
        nodes=trace.nodes.with_columns(node=called),
        usage=trace.usage.with_columns(machine=pl.lit(EVIL) + pl.col("machine")),
    )
    text, page = write_page(trace, tmp_path)
    assert EVIL not in text
    figures = json.dumps(read_figures(page))
    assert "<a" not in figures
    assert "<script" not in figures
    ET.fromstring(render_run_svg(trace))


@FEWER
@given(st.integers(1, 6), st.floats(0.1, 1.0))
def test_the_static_chart_has_the_cpu_seconds(nodes: int, busy: float) -> None:
    """A lane for each of up to four nodes, or one for all; its area is to scale."""
    rows = [(node, 10.0 * at, 10.0, 20.0 * busy) for node in range(nodes) for at in range(5)]
    ran = [
        (str(at), f"n{node}", 2.0, begin, begin + 10.0) for at, (node, begin, *_) in enumerate(rows)
    ]
    placed = pl.DataFrame(ran, schema=["task", "machine", "cores", "start", "end"], orient="row")
    trace = make_samples(rows, placements=placed)
    root = ET.fromstring(render_run_svg(trace))
    titles = [text.text or "" for text in root.iter(f"{SVG}text")]
    lane_titles = [title for title in titles if title.startswith("CPU use")]
    assert len(lane_titles) == (nodes if nodes <= 4 else 1)
    for lane in list(root.iter(f"{SVG}polygon"))[1 : 1 + len(lane_titles)]:
        points = np.array([pair.split(",") for pair in lane.get("points", "").split()], dtype=float)
        x, y = points.T
        drawn = abs(float(x @ np.roll(y, 1) - y @ np.roll(x, 1))) / 2
        height = 36.0 if 1 < nodes <= 4 else 70.0
        assert drawn == pytest.approx(712 * height * busy, rel=0.01)


def test_the_chart_of_a_recorded_run_has_its_mean_cpu_use() -> None:
    # Two tasks of four cores side by side for 50 s, which keep 0.75 of them busy.
    trace = record_run([(0.0, 50.0, 4), (0.0, 50.0, 4)], busy=0.75)
    text = render_run_chart(trace)
    assert "CPU use: 6 of 8 cores on average" in text
    assert [line.split(":")[0] for line in text.splitlines() if ":" in line] == [
        "cores in use", "CPU use", "waiting tasks",
    ]  # fmt: skip


def real_run() -> Trace:
    """Two nodes: a task on both, one that failed and ran again, one killed and one lost."""
    rows = [
        ("wide", 0, "node1", 0.0, 4.0, "completed"),
        ("wide", 0, "node2", 0.0, 3.0, "completed"),
        ("again", 0, "node1", 4.0, 5.0, "failed"),
        ("again", 1, "node1", 5.0, 9.0, "completed"),
        ("long", 0, "node2", 3.0, 8.0, "killed"),
        ("last", 0, "node2", 8.0, 9.0, "lost"),
    ]
    names = ["task", "attempt", "machine", "start", "end", "reason"]
    placed = pl.DataFrame(rows, schema=names, orient="row").with_columns(cores=1.0)
    tasks = pl.DataFrame(
        {
            "id": ["wide", "again", "long", "last"],
            "submit": 0.0,
            "requested_cores": [2.0, 1.0, 1.0, 1.0],
            "status": ["completed", "completed", "killed", "lost"],
            "kind": ["cpu", "cpu", "cache", "cache"],
        }
    )
    nodes = pl.DataFrame({"node": ["node1", "node2"], "cores": 1.0})
    manifest = Manifest(kind="recorded", epoch_ms=1_757_000_000_000)
    return Trace(tasks=tasks, placements=placed, nodes=nodes, manifest=manifest)


def test_the_gantt_of_a_real_run_distinguishes_attempts_and_ends() -> None:
    bars = {bar.name: len(bar.x) for bar in plot_gantt(real_run()).data}
    assert bars == {"completed": 3, "killed": 1, "failed": 1, "lost": 1}
    labels = [text for bar in plot_gantt(real_run()).data for text in bar.hovertext]
    assert sum("attempt 1" in text for text in labels) == 1
    by_kind = {bar.name: len(bar.x) for bar in plot_gantt(real_run(), colour="kind").data}
    assert by_kind == {"cpu": 4, "cache": 2}


def test_the_static_chart_of_a_real_run_has_names_ends_and_times() -> None:
    away = pl.DataFrame({"node": ["node2"], "start": [8.5], "end": [None], "state": ["down"]})
    root = ET.fromstring(render_run_svg(real_run().replace(node_states=away)))
    boxes = list(root.iter(f"{SVG}rect"))
    shades = [box.get("fill") for box in boxes if box.get("class") == "task"]
    assert len(shades) == 6
    assert len(set(shades)) == 4
    (gone,) = (box for box in boxes if box.get("class") == "away")
    # 712 pixels for 9 s, 260 for two nodes and the gap between them.
    assert float(gone.get("width", 0)) == pytest.approx(0.5 / 9 * 712, abs=0.02)
    texts = [(text.get("class"), text.text or "") for text in root.iter(f"{SVG}text")]
    assert [text for kind, text in texts if kind == "name"].count("wide") == 2
    others = [text for kind, text in texts if kind is None]
    for wanted in ("node1", "node2", "failed", "killed", "lost", "4 s"):
        assert wanted in others
    assert any(re.fullmatch(r"2025-09-04 \d\d:\d\d:\d\d", text) for text in others)
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert "again, attempt 2: 1 cores, 4 s, completed" in titles
