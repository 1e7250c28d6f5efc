"""Machines over time, carbon, lateness and sessions are what can be worked out by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.report.pages import Reader, pictures
from tests.report.runs import core_seconds, drawn_tasks, fcfs, seconds, without_machines
from twinloop.description import Cleaning, InputError
from twinloop.metrics import carbon as grams
from twinloop.report import write_run_page
from twinloop.report.figures.carbon import plot_carbon
from twinloop.report.figures.heat import plot_heat
from twinloop.report.figures.lateness import plot_lateness
from twinloop.report.figures.sessions import plot_sessions
from twinloop.report.pages.data_quality import list_missing_data
from twinloop.trace import Manifest, Trace


def test_the_map_of_machines_has_all_core_seconds() -> None:
    trace = fcfs(drawn_tasks(80))
    figure = plot_heat(trace)
    found = figure.data[0]
    step = float(np.diff(found.x).mean()) * seconds(figure)
    assert list(found.y) == ["n0", "n1"]
    assert float(found.z.sum()) * 4 * step == pytest.approx(core_seconds(trace), rel=1e-4)
    with pytest.raises(InputError, match="where the tasks ran is not recorded"):
        plot_heat(without_machines(trace))


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
    assert figure.layout.meta["notes"] == ["250 g in all"]
    # The curve is in g/h, and the axis in hours: the area is the carbon.
    assert np.sum(above.y[:-1] * np.diff(above.x)) * seconds(figure) / 3600 == pytest.approx(250.0)


def test_carbon_needs_power_and_an_intensity(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="carbon intensity of the electricity is not known"):
        plot_carbon(Trace(power=POWER))
    with pytest.raises(InputError, match="no window of power"):
        plot_carbon(Trace(), 100.0)


def test_the_page_draws_the_carbon_of_the_platform_or_says_why_not(tmp_path: Path) -> None:
    file = tmp_path / "carbon.parquet"
    frame = pl.DataFrame({"timestamp": [0, 3600_000], "carbon_intensity": [100.0, 300.0]})
    frame.with_columns(pl.col("timestamp").cast(pl.Datetime("ms"))).write_parquet(file)
    trace = fcfs([(0.0, 5.0, 1)]).replace(power=POWER)

    def page(path: Path) -> Reader:
        platform = {"clusters": [{"carbon": str(path)}]}
        manifest = Manifest(kind="simulated", scenario={"platform": platform}, epoch_ms=0)
        made = write_run_page(trace.replace(manifest=manifest), tmp_path / "run.html")
        return Reader(made.read_text(encoding="utf-8"))

    drawn = page(file)
    assert "carbon" in pictures(drawn)
    assert "250 g in all" in drawn.text
    missing = page(tmp_path / "none.parquet")
    assert "carbon" not in pictures(missing)
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
        plot_lateness(fcfs([(0.0, 5.0, 1)]))


def test_lateness_that_nobody_notices_or_of_nobody_is_left_out(tmp_path: Path) -> None:
    ran = pl.DataFrame({"task": ["a"], "start": [5.0], "end": [6.0]})

    def page(user: str | None, recorded: float) -> Reader:
        tasks = pl.DataFrame(
            {"id": ["a"], "user": [user], "submit": [5.0], "submit_recorded": [recorded]},
            schema_overrides={"user": pl.String},
        )
        made = write_run_page(Trace(tasks=tasks, placements=ran), tmp_path / "run.html")
        return Reader(made.read_text(encoding="utf-8"))

    held_up = page("u", 3.0)
    assert "lateness" in pictures(held_up)
    assert "lateness, mean" in held_up.text
    for other in (page("u", 4.95), page(None, 3.0)):
        assert "lateness" not in pictures(other)
        assert "no lateness to draw" not in other.text
    assert "lateness, mean" not in page("u", 4.95).text


def test_sessions_of_the_busiest_user_and_which_wait_for_which() -> None:
    log = Trace(tasks=pl.DataFrame({
        "id": ["1", "2", "3", "4"], "user": ["ann", "ann", "bob", "ann"],
        "submit": [0.0, 3600.0, 0.0, 10800.0], "requested_cores": 1.0,
        "run_time": [900.0, 9000.0, 5.0, 1800.0],
    }))  # fmt: skip
    figure = plot_sessions(log)
    links, bars, middles = figure.data
    assert figure.layout.title.text == "Sessions of user ann"
    # Session 2 begins at 3 h: the first had finished, the second (1 h to 3.5 h) had not.
    assert list(bars.x) == [0.0, 0.25, None, 1.0, 3.5, None, 3.0, 3.5, None]
    assert list(links.x) == [0.25, 1.0, None, 0.25, 3.0, None]
    assert list(middles.y) == [0, 0, 1]
    assert len(plot_sessions(log, "bob").data[2].x) == 1
    with pytest.raises(InputError, match="no user is called"):
        plot_sessions(log, "eve")
    with pytest.raises(InputError, match="whose the tasks are is not recorded"):
        plot_sessions(log.replace(tasks=log.tasks.drop("user")))


def test_the_page_says_what_the_gate_found_and_what_became_of_what(tmp_path: Path) -> None:
    notes = (
        Cleaning(kind="removed", what="tasks outside", count=3),
        Cleaning(kind="assumed", what="the unit is MB", count=1),
        Cleaning(kind="repaired", what="ends before starts", count=2, examples=("a:7",)),
    )
    broken = fcfs([(0.0, 5.0, 1), (1.0, 5.0, 1)], manifest=Manifest(cleaned=notes))
    broken = broken.replace(tasks=broken.tasks.with_columns(id=pl.lit("task 0")))
    text = write_run_page(broken, tmp_path / "run.html").read_text(encoding="utf-8")
    page = Reader(text)
    _, rest = page.text.split("Data quality")
    assert "3 dropped, 2 repaired, 1 invented" in rest
    assert "unique-names" in rest
    assert "<td>invented</td><td>assumed</td>" in text
    assert "a:7" in rest


def test_what_is_not_recorded_is_said_and_nothing_else() -> None:
    trace = fcfs(drawn_tasks(5))
    usual = " ".join(list_missing_data(trace))
    assert "power" in usual
    assert "where tasks ran" not in usual
    assert "where tasks ran" in " ".join(list_missing_data(without_machines(trace)))
    some = trace.tasks.with_columns(user=pl.Series(["a", None, None, None, None]))
    assert "the user of 4 tasks of 5" in list_missing_data(trace.replace(tasks=some))
