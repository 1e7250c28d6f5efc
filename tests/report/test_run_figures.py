"""Machines over time, carbon, lateness and sessions equal values computed by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.report.page_reader import PageReader, read_figures
from tests.report.sample_runs import (
    draw_tasks,
    remove_machines,
    run_fcfs,
    sum_core_seconds,
    sum_seconds,
)
from twinloop.description import Cleaning, InputError
from twinloop.metrics import carbon as grams
from twinloop.report import write_run_page
from twinloop.report.figures.carbon import plot_carbon
from twinloop.report.figures.heat import plot_heat
from twinloop.report.figures.lateness import plot_lateness
from twinloop.report.figures.sessions import plot_sessions
from twinloop.report.pages.data_quality import list_missing_data
from twinloop.trace import Manifest, Trace


def test_the_heat_map_of_machines_has_all_core_seconds() -> None:
    trace = run_fcfs(draw_tasks(80))
    figure = plot_heat(trace)
    found = figure.data[0]
    step = float(np.diff(found.x).mean()) * sum_seconds(figure)
    assert list(found.y) == ["n0", "n1"]
    assert float(found.z.sum()) * 4 * step == pytest.approx(sum_core_seconds(trace), rel=1e-4)
    with pytest.raises(InputError, match="the machines of the tasks are not recorded"):
        plot_heat(remove_machines(trace))


POWER = pl.DataFrame({"t": [3600.0, 7200.0], "dt": 3600.0, "watts": [1000.0, 500.0]})
INTENSITY = pl.DataFrame({"t": [0.0, 3600.0], "grams_per_kwh": [100.0, 300.0]})


def test_carbon_is_power_times_intensity() -> None:
    trace = Trace(power=POWER)
    figure = plot_carbon(trace, INTENSITY)
    above, below = figure.data
    assert above.y[0] == pytest.approx(100.0)
    assert above.y[-1] == pytest.approx(150.0)
    assert [below.y[0], below.y[-1]] == pytest.approx([100.0, 300.0])
    assert grams(trace, INTENSITY) == 250.0
    assert figure.layout.meta["notes"] == ["250 g in total"]
    # The curve is in g/h, and the axis in hours: the area is the carbon.
    assert np.sum(above.y[:-1] * np.diff(above.x)) * sum_seconds(figure) / 3600 == pytest.approx(
        250.0
    )


def test_carbon_needs_power_and_an_intensity(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="carbon intensity of the electricity is not known"):
        plot_carbon(Trace(power=POWER))
    with pytest.raises(InputError, match="no known value"):
        plot_carbon(Trace(), 100.0)


def test_the_page_draws_the_carbon_of_the_platform_or_reports_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "carbon.parquet"
    frame = pl.DataFrame({"timestamp": [0, 3600_000], "carbon_intensity": [100.0, 300.0]})
    frame.with_columns(pl.col("timestamp").cast(pl.Datetime("ms"))).write_parquet(file)
    trace = run_fcfs([(0.0, 5.0, 1)]).replace(power=POWER)

    def page(path: Path) -> PageReader:
        platform = {"clusters": [{"carbon": str(path)}]}
        manifest = Manifest(kind="simulated", scenario={"platform": platform}, epoch_ms=0)
        made = write_run_page(trace.replace(manifest=manifest), tmp_path / "run.html")
        return PageReader(made.read_text(encoding="utf-8"))

    drawn = page(file)
    assert "carbon" in read_figures(drawn)
    assert "250 g in total" in drawn.text
    missing = page(tmp_path / "none.parquet")
    assert "carbon" not in read_figures(missing)
    assert "there is no carbon to draw" in missing.text


def test_lateness_of_users_is_that_of_their_tasks() -> None:
    trace = Trace(
        tasks=pl.DataFrame({
            "id": ["a", "b", "c"], "user": ["u", "u", "v"], "submit": [0.0, 14.0, 3.0],
            "submit_recorded": [0.0, 10.0, 1.0], "deadline": [4.0, 30.0, None],
        }),
        placements=pl.DataFrame({
            "task": ["a", "b", "c"], "start": [0.0, 15.0, 4.0], "end": [5.0, 20.0, 9.0],
        }),
    )  # fmt: skip
    late, past = plot_lateness(trace).data
    assert dict(zip(late.y, late.x, strict=True)) == {"u": 2.0, "v": 2.0}
    # One of u's tasks ended 1 s after its deadline, one in time; v has none.
    assert dict(zip(past.y, past.x, strict=True)) == {"u": 0.5, "v": None}
    with pytest.raises(InputError, match="no lateness to draw"):
        plot_lateness(run_fcfs([(0.0, 5.0, 1)]))


def test_lateness_below_the_threshold_or_without_users_is_left_out(tmp_path: Path) -> None:
    ran = pl.DataFrame({"task": ["a"], "start": [5.0], "end": [6.0]})

    def page(user: str | None, recorded: float) -> PageReader:
        tasks = pl.DataFrame(
            {"id": ["a"], "user": [user], "submit": [5.0], "submit_recorded": [recorded]},
            schema_overrides={"user": pl.String},
        )
        made = write_run_page(Trace(tasks=tasks, placements=ran), tmp_path / "run.html")
        return PageReader(made.read_text(encoding="utf-8"))

    held_up = page("u", 3.0)
    assert "lateness" in read_figures(held_up)
    assert "lateness, mean" in held_up.text
    for other in (page("u", 4.95), page(None, 3.0)):
        assert "lateness" not in read_figures(other)
        assert "no lateness to draw" not in other.text
    assert "lateness, mean" not in page("u", 4.95).text


def test_sessions_of_the_busiest_user_and_their_dependencies() -> None:
    log = Trace(tasks=pl.DataFrame({
        "id": ["1", "2", "3", "4"], "user": ["ann", "ann", "bob", "ann"],
        "submit": [0.0, 3600.0, 0.0, 10800.0], "requested_cores": 1.0,
        "run_time": [900.0, 9000.0, 5.0, 1800.0],
    }))  # fmt: skip
    figure = plot_sessions(log)
    links, bars, middles = figure.data
    assert figure.layout.title.text == "Sessions of user 'ann'"
    # Session 2 begins at 3 h: the first had finished, the second (1 h to 3.5 h) had not.
    assert list(bars.x) == [0.0, 0.25, None, 1.0, 3.5, None, 3.0, 3.5, None]
    assert list(links.x) == [0.25, 1.0, None, 0.25, 3.0, None]
    assert list(middles.y) == [0, 0, 1]
    assert len(plot_sessions(log, "bob").data[2].x) == 1
    with pytest.raises(InputError, match="unknown user"):
        plot_sessions(log, "eve")
    with pytest.raises(InputError, match="the users of the tasks are not recorded"):
        plot_sessions(log.replace(tasks=log.tasks.drop("user")))


def test_the_page_has_the_findings_of_the_gate_and_the_data_cleaning(tmp_path: Path) -> None:
    notes = (
        Cleaning(kind="removed", what="tasks outside", count=3),
        Cleaning(kind="assumed", what="the unit is MB", count=1),
        Cleaning(kind="repaired", what="ends before starts", count=2, examples=("a:7",)),
    )
    broken = run_fcfs([(0.0, 5.0, 1), (1.0, 5.0, 1)], manifest=Manifest(cleaned=notes))
    broken = broken.replace(tasks=broken.tasks.with_columns(id=pl.lit("task 0")))
    text = write_run_page(broken, tmp_path / "run.html").read_text(encoding="utf-8")
    page = PageReader(text)
    _, rest = page.text.split("Data quality")
    assert "3 dropped, 2 repaired, 1 imputed" in rest
    assert "unique-names" in rest
    assert "<td>imputed</td><td>assumed</td>" in text
    assert "a:7" in rest


def test_exactly_the_missing_data_are_listed() -> None:
    trace = run_fcfs(draw_tasks(5))
    usual = " ".join(list_missing_data(trace))
    assert "power" in usual
    assert "machines of tasks" not in usual
    assert "machines of tasks" in " ".join(list_missing_data(remove_machines(trace)))
    some = trace.tasks.with_columns(user=pl.Series(["a", None, None, None, None]))
    assert "user of 4 tasks of 5" in list_missing_data(trace.replace(tasks=some))
