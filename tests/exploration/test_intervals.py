"""Prediction intervals of a study: their coverage, and where they are shown."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from twinloop.exploration.study.intervals import (
    compute_prediction_interval,
    count_required_runs,
)
from twinloop.exploration.study.text import study_to_text
from twinloop.report import plot_pareto, render_study_svg
from twinloop.report.pages.page import Page
from twinloop.report.pages.study import add_study, rank_configurations

SVG = "{http://www.w3.org/2000/svg}"
CLOUD = """
platform:
  clusters: [{name: rack, hosts: [{count: 8, cores: 1}]}]
  clouds:
    - name: east
      types: [{name: small, cores: 1}]
      images: [{name: base, boot: {delay: 50s, spread: 0.5}}]
      billing: {unit: 60s, price: 0.5}
workload:
  tasks:
    - {id: a, run_time: 20, requested_time: 20}
    - {id: b, run_time: 40, requested_time: 40}
    - {id: c, run_time: 90, requested_time: 90}
policy: one-per-task
"""


def study_of(seeds: int, policies: tuple[Any, ...] = ("one-per-task", "afap")) -> Any:
    factors = {"factors": {"policy": {"levels": list(policies)}}, "seeds": seeds}
    return tl.explore(tl.Scenario.from_text(CLOUD), factors, on="serial")


@given(
    st.sampled_from([19, 39]).flatmap(
        lambda n: st.lists(
            st.floats(0.0, 1e6, allow_subnormal=False), min_size=n + 1, max_size=n + 1, unique=True
        )
    )
)
def test_nine_of_ten_runs_lie_in_the_interval_of_the_others(runs: list[float]) -> None:
    """Each of exchangeable runs is the further one with the same probability."""
    inside = 0
    for number, further in enumerate(runs):
        interval = compute_prediction_interval(runs[:number] + runs[number + 1 :])
        assert interval is not None
        inside += interval[0] <= further <= interval[1]
    assert inside == round(0.9 * len(runs))


def test_an_interval_needs_enough_runs() -> None:
    assert [count_required_runs(level) for level in (0.5, 0.8, 0.9, 0.95, 0.99)] == [
        3, 9, 19, 39, 199,
    ]  # fmt: skip
    assert compute_prediction_interval(range(18)) is None
    assert compute_prediction_interval(range(19)) == (0.0, 18.0)
    assert compute_prediction_interval(range(19), 0.5) == (4.0, 14.0)
    for level in (0.0, 1.0, 1.5):
        with pytest.raises(tl.InputError, match="level: must be between 0 and 1"):
            count_required_runs(level)


def test_a_configuration_with_runs_that_lack_a_kpi_has_no_interval() -> None:
    """In some runs no instance boots, so that they have no makespan; all have a bill."""
    text = CLOUD.replace("spread: 0.5", "failed: 0.8")
    single = {"name": "asap", "options": {"attempts": 1}}
    factors = {"factors": {"policy": {"levels": [single, "afap"]}}, "seeds": 40}
    study = tl.explore(tl.Scenario.from_text(text), factors, on="serial")
    found = study.intervals().filter(configuration=0)
    assert found["kpi"].to_list() == ["makespan_s", "bill"]
    known = study.runs.filter(configuration=0)["makespan_s"].count()
    assert 0 < known < 40
    assert found["runs"].to_list() == [known, 40]
    assert found["low"].is_null().to_list() == [True, False]
    assert compute_prediction_interval([float("nan"), *range(1, 20)]) is None


def test_the_intervals_of_a_study_are_those_of_its_runs() -> None:
    study = study_of(19)
    found = study.intervals()
    assert found["kpi"].unique().sort().to_list() == ["bill", "makespan_s"]
    for row in found.rows(named=True):
        runs = study.runs.filter(configuration=row["configuration"])[row["kpi"]]
        assert (row["low"], row["high"]) == (runs.min(), runs.max())
        assert (row["median"], row["runs"]) == (runs.median(), 19)
    assert study.intervals("makespan_s", level=0.5)["kpi"].unique().to_list() == ["makespan_s"]
    few = study_of(3).intervals("bill")
    assert few["low"].null_count() == few.height == 2
    with pytest.raises(tl.InputError, match="no host has a power model"):
        study.intervals("energy_j")


def test_a_study_of_a_cloud_compares_with_the_bill() -> None:
    study = study_of(1)
    assert study.objectives == ("makespan_s", "bill")
    assert tl.explore(tl.Scenario.from_text(CLOUD), {"policy": ["afap"]}, by="bill").objectives == (
        "bill",
        "makespan_s",
    )
    free = tl.Scenario.from_text(CLOUD).replace(**{"platform.clouds[0].billing": None})
    without_bill = tl.explore(free, {"policy": ["one-per-task"]})
    assert without_bill.objectives == ("makespan_s", "wait_p95_s")


def test_texts_and_pages_have_intervals_only_with_enough_seeds() -> None:
    for seeds, shown in ((19, True), (3, False)):
        study = study_of(seeds, ("one-per-task", "one-instance"))
        text = study_to_text(study)
        assert ("90 % of runs" in text) is shown
        page = Page("What if")
        add_study(page, study, rank_configurations(study))
        assert ("90 % of runs from" in page.render()) is shown


@pytest.mark.parametrize(("seeds", "name"), [(19, "90 % prediction interval"), (3, "deviation")])
def test_the_bars_of_a_figure_are_named(seeds: int, name: str) -> None:
    study = study_of(seeds)
    figure = plot_pareto(study)
    assert figure.layout.xaxis.title.text == "makespan (s), less is better"
    assert figure.layout.yaxis.title.text == "bill, less is better"
    assert any(name in note for note in figure.layout.meta["notes"])
    points = next(each for each in figure.data if each.name == "one-per-task")
    table = study.intervals("makespan_s").filter(name="one-per-task")
    if seeds == 19:
        assert points.x[0] + points.error_x.array[0] == pytest.approx(table["high"].item())
        assert points.x[0] - points.error_x.arrayminus[0] == pytest.approx(table["low"].item())
    else:
        deviation = study.configurations.filter(pl.col("name") == "one-per-task")["makespan_s_sd"]
        assert points.error_x.array[0] == deviation.item()


def test_the_static_picture_has_all_configurations_and_fills_the_front() -> None:
    policies = ("one-per-task", "afap", "one-instance")
    study = study_of(19, policies)
    root = ET.fromstring(render_study_svg(study))
    circles = list(root.iter(f"{SVG}circle"))
    filled = [
        each.findtext(f"{SVG}title", "") for each in circles if each.get("fill-opacity") == "1"
    ]
    assert len(circles) == len(policies)
    assert {text.split(":")[0] for text in filled} == set(study.pareto()["name"])
    # The better side of both axes is left and below.
    order = study.configurations.sort("makespan_s")["name"].to_list()
    by_position = sorted(circles, key=lambda each: float(each.get("cx", 0)))
    assert [each.findtext(f"{SVG}title", "").split(":")[0] for each in by_position] == order
    assert {text.text for text in root.iter(f"{SVG}text")} >= set(policies)


def test_a_static_picture_refuses_what_it_cannot_show() -> None:
    study = study_of(1)
    with pytest.raises(tl.InputError, match="1 objectives cannot be drawn"):
        render_study_svg(study, "bill")
    many = tl.explore(
        tl.Scenario.from_text(CLOUD),
        {"price": {"field": "platform.clouds[0].billing.price", "levels": [*range(1, 32)]}},
        on="serial",
    )
    with pytest.raises(tl.InputError, match="31 configurations are too many"):
        render_study_svg(many)
