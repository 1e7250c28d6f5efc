"""The figures of an assessment show exactly its series."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.report.sample_runs import draw_tasks, run_fcfs, sum_seconds
from twinloop.description import InputError
from twinloop.fidelity import Verdict, assess
from twinloop.report import VerdictPlots, plot_assessment
from twinloop.trace import Trace

NOTHING = assess(Trace(), Trace())


def make_verdict(**series: pl.DataFrame) -> Verdict:
    return replace(NOTHING, series={**NOTHING.series, **series})


def make_series(size: int, **columns: Any) -> pl.DataFrame:
    rng = np.random.default_rng(size)
    real, twin = np.cumsum(rng.random(size)), np.cumsum(rng.random(size))
    return pl.DataFrame({**columns, "real": real, "twin": twin, "residual": twin - real})


def read_curves(figure: Any) -> dict[str, list[float]]:
    return {curve.name: list(curve.y) for curve in figure.data}


def read_window(trace: Trace) -> tuple[list[float], list[float]]:
    """Compute the waits and the ends of the tasks from the tables."""
    rows = trace.tasks.join(trace.placements, left_on="id", right_on="task")
    return (rows["start"] - rows["submit"]).to_list(), rows["end"].to_list()


@pytest.mark.parametrize(("count", "factor"), [(4, 0.5), (40, 1.25), (300, 1.25)])
def test_the_waits_of_two_runs_are_counted(count: int, factor: float) -> None:
    tasks = draw_tasks(count, seed=count)
    real = run_fcfs(tasks)
    twin = run_fcfs([(gap, factor * length, cores) for gap, length, cores in tasks])
    figure = plot_assessment(assess(real, twin))["waits"]
    curves = {curve.name: curve for curve in figure.data}
    for name, run in (("real", real), ("twin", twin)):
        waits, curve = np.array(read_window(run)[0]), curves[name]
        assert set(waits) <= set(curve.x)
        shares = [float(np.mean(waits <= x)) for x in curve.x]
        assert curve.y == pytest.approx(shares)
    below = curves["twin - real"].y
    assert below == pytest.approx(np.array(curves["twin"].y) - np.array(curves["real"].y))


def test_the_completions_of_two_runs_are_counted() -> None:
    tasks = draw_tasks(100)
    real, twin = run_fcfs(tasks), run_fcfs([(gap, 1.1 * run, cores) for gap, run, cores in tasks])
    figure = plot_assessment(assess(real, twin))["completions"]
    first = min(real.tasks["submit"])
    for curve, run in zip(figure.data[:2], (real, twin), strict=True):
        ends = np.array(read_window(run)[1]) - first
        t = np.array(curve.x) * sum_seconds(figure)
        assert curve.y.tolist() == [int((ends <= moment + 1e-6).sum()) for moment in t]
        assert curve.y[-1] == 100 or run is twin


def test_curves_over_time_are_the_series_above_their_difference() -> None:
    t = np.arange(50) * 60.0
    verdict = make_verdict(
        completions=make_series(50, t=t, lagged=0.0),
        power=make_series(50, t=t, real_w=1.0, twin_w=1.0),
    )
    figures = plot_assessment(verdict)
    for name, series in (("completions", "completions"), ("trend", "power")):
        figure, rows = figures[name], verdict.series[series]
        assert read_curves(figure) == {
            "real": rows["real"].to_list(),
            "twin": rows["twin"].to_list(),
            "twin - real": rows["residual"].to_list(),
        }
        assert figure.data[0].x * sum_seconds(figure) == pytest.approx(t)
        assert [curve.yaxis for curve in figure.data] == [None, None, "y2"]
        assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]


def test_very_many_rows_are_thinned_to_rows_of_the_series_with_its_extremes() -> None:
    rows = make_series(30_000, t=np.arange(30_000.0), real_w=1.0, twin_w=1.0)
    figure = VerdictPlots(make_verdict(power=rows)).trend()
    real, twin, below = (list(curve.y) for curve in figure.data)
    assert len(real) < 5000
    assert set(zip(real, twin, below, strict=True)) <= set(rows.select(
        "real", "twin", "residual").rows())  # fmt: skip
    assert {max(below), min(below)} == {rows["residual"].max(), rows["residual"].min()}
    assert (real[0], real[-1]) == (rows["real"][0], rows["real"][-1])
    assert "only the rows" in figure.layout.meta["notes"][0]


def test_the_power_curve_has_gaps_where_both_sides_have_no_data() -> None:
    rows = make_series(6, t=[0.0, 1.0, 2.0, 7.0, 8.0, 9.0], real_w=1.0, twin_w=1.0)
    figure = VerdictPlots(make_verdict(power=rows)).trend()
    assert figure.data[0].x.tolist() == [0.0, 1.0, 2.0, 3.0, 7.0, 8.0, 9.0]
    assert np.isnan(figure.data[0].y).tolist() == [False] * 3 + [True] + [False] * 3


def test_the_usage_is_a_point_per_pair_beside_the_line_of_equals() -> None:
    rows = pl.DataFrame({"task": "a", "t": [0.0, 1.0, 2.0], "real": [0.5, 1.0, 2.0],
                         "twin": [0.25, 1.0, None]})  # fmt: skip
    points, line = VerdictPlots(make_verdict(usage=rows)).usage().data
    assert list(zip(points.x, points.y, strict=True)) == [(0.5, 0.25), (1.0, 1.0)]
    assert list(line.x) == list(line.y)


def test_the_axes_of_the_usage_have_its_unit() -> None:
    rows = pl.DataFrame({"task": "a", "t": [0.0], "real": [0.5], "twin": [0.5]})
    verdict = make_verdict(usage=rows)
    found = replace(verdict["sMAPE"], figures={"median_cores": 0.5})
    figure = VerdictPlots(replace(verdict, findings=(found,))).usage()
    assert figure.layout.xaxis.title.text == "real (cores)"


def test_segments_have_their_correlation_and_their_lag_at_their_time() -> None:
    rows = pl.DataFrame({
        "segment": [0, 1, 2, 3], "start": [0.0, 300.0, 600.0, 900.0], "lag": [0.0, None, 5.0, -9.0],
        "r": [0.9, None, 0.8, -0.2], "r_without_lag": [0.9, None, 0.1, -0.3],
        "status": ["used", "incomplete", "used", "used"],
    })  # fmt: skip
    figure = VerdictPlots(make_verdict(segments=rows)).segments()
    best, lag, least = figure.data
    assert (best.y.tolist(), lag.y.tolist()) == ([0.9, 0.8, -0.2], [0.0, 5.0, -9.0])
    assert best.x * sum_seconds(figure) == pytest.approx([150.0, 750.0, 1050.0])
    assert best.width * sum_seconds(figure) == pytest.approx(300.0)
    assert lag.yaxis == "y2"
    assert set(least.y) == {NOTHING.criteria.power.correlation}
    assert figure.layout.yaxis.range[0] < -0.2
    assert figure.layout.meta["notes"] == ["1 segment not used: incomplete"]


def test_missing_segments_are_reported() -> None:
    rows = NOTHING.series["segments"].clear(2).with_columns(
        segment=0, start=0.0, status=pl.lit("incomplete")
    )  # fmt: skip
    with pytest.raises(InputError, match="2 segments not used: incomplete"):
        VerdictPlots(make_verdict(segments=rows)).segments()


def test_short_waits_beside_a_long_one_are_drawn_by_their_logarithm() -> None:
    wait = [0.0, 0.5, 10.0, 100_000.0]
    rows = pl.DataFrame({"wait": wait, "real": [0.2, 0.6, 0.8, 1.0], "twin": [0.3, 0.5, 0.9, 1.0]})
    rows = rows.with_columns(residual=pl.col("twin") - pl.col("real"))
    figure = VerdictPlots(make_verdict(waits=rows)).waits()
    assert figure.layout.xaxis.type == "log"
    assert figure.data[0].x.tolist() == [1.0, 10.0, 100_000.0]
    assert figure.data[0].y.tolist() == [0.6, 0.8, 1.0]
    even = rows.with_columns(wait=pl.Series([0.0, 30_000.0, 60_000.0, 100_000.0]))
    assert VerdictPlots(make_verdict(waits=even)).waits().layout.xaxis.type is None


def test_missing_series_raise_an_error_with_the_reason() -> None:
    assert plot_assessment(NOTHING) == {}
    with pytest.raises(InputError, match=r"no figure of usage: .*have no CPU usage"):
        VerdictPlots(NOTHING).usage()
    with pytest.raises(InputError, match="no figure of waits: 0 completed tasks"):
        VerdictPlots(NOTHING).waits()


def test_figures_are_methods_of_the_verdict() -> None:
    tasks = draw_tasks(30)
    verdict = assess(run_fcfs(tasks), run_fcfs(tasks))
    assert "completions, page, segments, trend, usage, waits" in repr(VerdictPlots(verdict))
    assert set(VerdictPlots(verdict).completions().data[2].y) == {0.0}
