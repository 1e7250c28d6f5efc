"""Page of a calibration: values, uncertainty, and only results that exist."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, read_figures
from tests.report.sample_runs import draw_tasks, run_fcfs
from twinloop.fidelity import Verdict, assess
from twinloop.report import plot_calibration, write_calibration_page


@dataclass(frozen=True)
class SampleIdentifiability:
    sentences: list[str]
    table: pl.DataFrame


@dataclass(frozen=True)
class SampleFit:
    """A calibration with only the given attributes."""

    values: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    loss: float = 0.0123
    loss_before: float = 0.789
    loss_name: str = "makespan"
    floor: float | None = None
    optimiser: str = "cma"
    runs: Sequence[Mapping[str, Any]] = ()
    validation_loss: float | None = None
    history: pl.DataFrame = field(default_factory=pl.DataFrame)
    confidence_region: pl.DataFrame | None = None
    identifiability: SampleIdentifiability | None = None
    recipe: Sequence[str] = ()
    before: Sequence[tuple[str, Verdict]] = ()
    after: Sequence[tuple[str, Verdict]] = ()
    warnings: Sequence[str] = ()


def make_history(losses: Sequence[float]) -> pl.DataFrame:
    loss = np.array(losses)
    return pl.DataFrame({
        "evaluation": range(loss.size), "loss": loss, "best": np.fmin.accumulate(loss),
        "failed": np.isnan(loss),
    })  # fmt: skip


def make_points(parameters: int, count: int = 30) -> pl.DataFrame:
    rng = np.random.default_rng(parameters)
    columns = {f"p{at}": rng.uniform(0.5, 2.0, count) for at in range(parameters)}
    return pl.DataFrame({**columns, "loss": rng.random(count)})


def make_fit(confidence_region: pl.DataFrame) -> SampleFit:
    best = confidence_region.sort("loss").row(0, named=True)
    return SampleFit(
        values={name: best[name] for name in confidence_region.columns if name != "loss"},
        confidence_region=confidence_region,
    )


def make_intervals(**rows: tuple[Any, Any, Any, bool]) -> SampleIdentifiability:
    columns = ["parameter", "value", "low", "high", "identifiable", "why"]
    table = [(name, *row, f"why {name}") for name, row in rows.items()]
    return SampleIdentifiability(["plain words"], pl.DataFrame(table, schema=columns, orient="row"))


def write_page(fit: SampleFit, folder: Path) -> tuple[str, PageReader]:
    text = write_calibration_page(fit, folder / "fit.html").read_text(encoding="utf-8")
    return text, PageReader(text)


def test_the_history_has_every_loss_and_the_best_so_far() -> None:
    losses = [5.0, 7.0, float("nan"), 2.0, 3.0]
    figure = plot_calibration(SampleFit(history=make_history(losses)))["convergence"]
    loss, best, before = figure.data
    assert set(before.y) == {SampleFit().loss_before}
    assert before.line.dash == "dash"
    assert (loss.x.tolist(), loss.y.tolist()) == ([1, 2, 4, 5], [5.0, 7.0, 2.0, 3.0])
    assert (best.x.tolist(), best.y.tolist()) == ([1, 2, 3, 4, 5], [5.0, 5.0, 5.0, 2.0, 2.0])
    assert figure.layout.yaxis.type == "log"
    assert figure.layout.meta["notes"] == ["not drawn: 1 failed evaluation"]


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_losses_that_are_not_positive_have_a_linear_axis(least: float) -> None:
    figure = plot_calibration(SampleFit(history=make_history([5.0, least])))["convergence"]
    assert figure.layout.yaxis.type == "linear"


def test_a_long_history_keeps_its_extremes_and_its_best() -> None:
    history = make_history(np.random.default_rng(1).random(50_000).tolist())
    loss, best, _ = plot_calibration(SampleFit(history=history))["convergence"].data
    assert len(loss.y) <= 1000
    assert {min(loss.y), max(loss.y)} == {history["loss"].min(), history["loss"].max()}
    assert set(zip(loss.x - 1, loss.y, strict=True)) <= set(
        history.select("evaluation", "loss").rows()
    )
    # A step curve through the corners is the best at every evaluation.
    steps = np.searchsorted(best.x, np.arange(1, 50_001), side="right") - 1
    assert best.y[steps].tolist() == history["best"].to_list()
    assert len(best.x) < 100


def test_a_second_search_has_a_separate_best() -> None:
    history = pl.concat([make_history([5.0, 3.0]), make_history([9.0, 8.0, 7.0])])
    figure = plot_calibration(SampleFit(history=history))["convergence"]
    losses, first, second = figure.data
    assert losses.y.tolist() == [5.0, 3.0, 9.0, 8.0, 7.0]
    assert (first.x.tolist(), first.y.tolist()) == ([1, 2], [5.0, 3.0])
    assert (second.x.tolist(), second.y.tolist()) == ([3, 4, 5], [9.0, 8.0, 7.0])
    assert figure.layout.meta["notes"][0].startswith(
        "evaluation 3 starts a search of other parameters"
    )


def test_a_region_of_few_parameters_has_a_panel_for_each_pair() -> None:
    confidence_region = make_points(4)
    fit = make_fit(confidence_region)
    figure = plot_calibration(fit)["confidence_region"]
    panels = [(p, mark) for p, mark in zip(figure.data[::2], figure.data[1::2], strict=True)]
    assert len(panels) == 6
    seen = set()
    for drawn, mark in panels:
        across, below = (int((axis or "x1")[1:] or 1) for axis in (drawn.xaxis, drawn.yaxis))
        names = f"p{across - 1}", f"p{below}"
        seen.add(names)
        assert set(zip(drawn.x, drawn.y, strict=True)) == set(
            confidence_region.select(names).rows()
        )
        assert (mark.x[0], mark.y[0]) == tuple(fit.values[name] for name in names)
        # The best point is drawn last, above the others, and has the lowest colour.
        assert (drawn.x[-1], drawn.y[-1]) == (mark.x[0], mark.y[0])
        assert min(drawn.marker.color) == drawn.marker.color[-1]
    assert len(seen) == 6
    assert figure.layout.coloraxis.cmin == pytest.approx(np.log10(confidence_region["loss"].min()))


def test_a_region_of_one_parameter_has_the_loss_over_it() -> None:
    confidence_region = make_points(1)
    (drawn,) = plot_calibration(make_fit(confidence_region))["confidence_region"].data
    assert set(zip(drawn.x, drawn.y, strict=True)) == set(confidence_region.rows())


def test_a_region_of_many_parameters_has_a_line_for_each_point() -> None:
    confidence_region = make_points(8).with_columns(mode=pl.Series(["a", "b", "c"] * 10))
    confidence_region = confidence_region.select("mode", *(f"p{at}" for at in range(8)), "loss")
    figure = plot_calibration(make_fit(confidence_region))["confidence_region"]
    lines = [part for part in figure.data if part.mode == "lines"]
    found = np.concatenate([np.array(part.x).reshape(-1, 10) for part in lines])
    assert np.isnan(found[:, -1]).all()
    scaled = confidence_region.select(
        [(pl.col(f"p{at}") - pl.col(f"p{at}").min())
         / (pl.col(f"p{at}").max() - pl.col(f"p{at}").min()) for at in range(8)]
    ).to_numpy()  # fmt: skip
    assert sorted(map(tuple, found[:, 1:-1].round(9))) == sorted(map(tuple, scaled.round(9)))
    assert set(found[:, 0]) == {0.0, 0.5, 1.0}
    assert list(figure.layout.yaxis.ticktext) == confidence_region.columns[:-1]


def test_failed_points_and_too_many_points_are_noted() -> None:
    confidence_region = make_points(2, 3000).with_columns(
        loss=pl.when(pl.col("p0") > 1.9).then(float("nan")).otherwise("loss")
    )
    figure = plot_calibration(make_fit(confidence_region.fill_nan(9.0)))["confidence_region"]
    assert len(figure.data[0].x) == 500
    failed = int(confidence_region["loss"].is_nan().sum())
    fit = replace(make_fit(confidence_region.fill_nan(9.0)), confidence_region=confidence_region)
    notes = plot_calibration(fit)["confidence_region"].layout.meta["notes"]
    assert f"{failed} points whose evaluation failed" in notes[1]
    assert f"500 of {3000 - failed:,} points" in notes[2]


def test_intervals_are_within_the_searched_range() -> None:
    fit = SampleFit(
        values={"speed": 1.0, "latency": 0.1, "mode": "a"},
        defaults={"speed": 4.0, "latency": 1.0, "mode": "b"},
        history=pl.DataFrame({"speed": [0.0, 4.0], "latency": [0.01, 1.0], "mode": ["a", "b"]}),
        identifiability=make_intervals(
            speed=(1.0, 0.5, 2.0, True), latency=(0.1, 0.01, 1.0, False)
        ),
    )
    figure = plot_calibration(fit)["intervals"]
    curves = {curve.name: curve for curve in figure.data}
    names = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
    known, unknown = curves["identifiable"], curves["not identifiable"]
    assert known.x[:2] == (0.125, 0.5)
    assert {names[y] for y in known.y[:2]} == {"speed"}
    # On a logarithmic axis, because they span two orders of magnitude.
    assert unknown.x[:2] == pytest.approx((0.0, 1.0))
    assert {names[y] for y in unknown.y[:2]} == {"latency"}
    assert curves["fitted value"].x == pytest.approx((0.25, 0.5))
    assert curves["value before"].x == pytest.approx((1.0, 1.0))


def test_the_interval_of_a_categorical_value_is_its_levels(tmp_path: Path) -> None:
    found = make_intervals(mode=(None, None, None, False))
    levels = pl.Series("levels", [["a", "c"]])
    known = replace(found, table=found.table.with_columns(levels))
    fit = SampleFit(values={"mode": "a"}, defaults={"mode": "b"}, identifiability=known)
    text, _ = write_page(fit, tmp_path)
    assert '<td class="number">a, c</td><td>no</td>' in text
    assert "intervals" not in plot_calibration(fit)


def test_values_without_an_interval_are_drawn_and_named() -> None:
    fit = SampleFit(identifiability=make_intervals(speed=(1.0, None, None, False)))
    figure = plot_calibration(fit)["intervals"]
    assert [curve.name for curve in figure.data] == ["fitted value"]
    assert figure.layout.meta["notes"] == ["interval unknown: speed"]


@cache
def make_verdicts() -> tuple[Verdict, Verdict]:
    tasks = draw_tasks(60)
    real = run_fcfs(tasks)
    return assess(real, run_fcfs([(gap, 1.3 * run, n) for gap, run, n in tasks])), assess(
        real, real
    )


def test_the_sections_of_the_page_are_in_order(tmp_path: Path) -> None:
    worse, better = make_verdicts()
    assert (worse.status, better.status) == ("FAIL", "PASS")
    fit = SampleFit(
        values={"speed": 1.0734567, "mode": "b"},
        defaults={"speed": 1.0, "mode": "a"},
        validation_loss=0.0456,
        floor=0.00321,
        runs=[
            {"name": "run 1", "used": "training", "mode": "predict", "injected": []},
            {"name": "run 2", "used": "training", "mode": "predict", "injected": []},
            {"name": "run 3", "used": "validation"},
        ],
        history=make_history([0.5, float("nan"), 0.0123]).with_columns(
            speed=pl.Series([1.0, 1.1, 1.07]), mode=pl.lit("a")
        ),
        confidence_region=make_points(2).rename({"p0": "speed"}).drop("p1"),
        identifiability=make_intervals(speed=(1.0734567, 1.05, 1.09, True)),
        recipe=["speed rose by 7 %: the twin was slow"],
        before=[("run 1", worse), ("run 2", better)],
        after=[("run 1", better)],
        warnings=["the two losses part"],
    )
    text, page = write_page(fit, tmp_path)
    check_loads_nothing(text, page)
    headings = (
        "predict: nothing injected from the real runs",
        "2 parameters fitted to 2 runs (run 1, run 2), with 1 run held out (run 3): the lowest "
        "makespan loss that the optimiser cma found in 3 evaluations.",
        "the two losses part", "plain words", "1.0735", "1.05 to 1.09", "why speed",
        "speed rose by 7 %: the twin was slow", "0.789", "0.0123", "0.0456",
        "0.00321", "failed evaluations",
        "Verdicts before and after", "Convergence of the calibration",
        "Parameter values around the fit",
        "Acceptable intervals of the values",
    )  # fmt: skip
    places = [page.text.index(each) for each in headings]
    assert places == sorted(places)
    assert list(read_figures(page)) == ["convergence", "confidence_region", "intervals"]
    fail, passed = (
        '<span class="status fail">FAIL</span>',
        '<span class="status pass">PASS</span>',
    )
    assert f"<td>run 1</td><td>{fail}</td><td>{passed}</td>" in text
    assert f"<td>run 2</td><td>{passed}</td><td>-</td>" in text
    makespan = worse["makespan"]
    assert f"<td>completions, makespan</td><td>{makespan.threshold.replace('<', '&lt;')}" in text
    assert f'<td class="number">{makespan.figure_text}</td>' in text


def test_a_minimal_calibration_has_a_page(tmp_path: Path) -> None:
    text, page = write_page(SampleFit(), tmp_path)
    check_loads_nothing(text, page)
    assert read_figures(page) == {}
    for text in (
        "No run was assessed",
        "no run was held out",
        "was not analysed",
        "Omitted figures",
    ):
        assert text in page.text
    failed = SampleFit(
        values={"a": 1},
        history=make_history([float("nan")]),
        confidence_region=make_points(1).clear(),
    )
    assert plot_calibration(failed) == {}


@pytest.mark.parametrize("parameters", [1, 3, 7])
def test_no_name_becomes_markup(tmp_path: Path, parameters: int) -> None:
    confidence_region = make_points(parameters).rename(
        lambda name: name if name == "loss" else EVIL + name
    )
    if parameters > 1:
        last = confidence_region.columns[-2]
        confidence_region = confidence_region.with_columns(pl.Series(last, [EVIL, "b", "c"] * 10))
    fit = make_fit(confidence_region)
    found = make_intervals(**dict.fromkeys(fit.values, (1.0, 0.5, None, True)))
    worse, better = make_verdicts()
    fit = replace(
        fit, defaults=dict.fromkeys(fit.values, EVIL),
        history=confidence_region.with_columns(best=1.0),
        identifiability=replace(found, sentences=[EVIL]), recipe=[EVIL], warnings=[EVIL],
        before=[(EVIL, worse)], after=[(EVIL, better)], loss_name=EVIL, optimiser=EVIL,
        runs=[{"name": EVIL, "used": "training", "mode": "replay", "injected": [EVIL]}],
    )  # fmt: skip
    text, page = write_page(fit, tmp_path)
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert EVIL not in text
    drawn = json.dumps(read_figures(page))
    assert len(read_figures(page)) == 3
    assert "<a" not in drawn
    assert "<script" not in drawn
    assert page.text.count(EVIL) >= 6
