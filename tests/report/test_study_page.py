"""Page of a study: the recommendation comes first, and the figures agree with the tables."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import twinloop as tl
from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, read_figures
from tests.report.sample_results import make_scenario, make_study
from twinloop.description import InputError
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.ranking import rank_candidates
from twinloop.exploration.study.study import Study
from twinloop.report import write_study_page
from twinloop.report.figures.pareto import plot_pareto
from twinloop.report.figures.study import plot_effects, plot_interactions
from twinloop.report.pages.ranking_groups import (
    get_lead_probability,
    group_equal_places,
    name_group,
)
from twinloop.report.pages.study import describe_recommendation, rank_configurations


def write_page(of: Study, folder: Path) -> tuple[str, PageReader]:
    text = write_study_page(of, folder / "study.html").read_text(encoding="utf-8")
    return text, PageReader(text)


def fail_runs(of: Study, message: str) -> Study:
    """The study with its first run failed."""
    key = of.planned_runs[0].key
    lost = {"kpis": None, "seconds": 0.1, "error": message, "draws": None}
    return replace(of, results={**of.results, key: lost})


def test_the_recommendation_comes_first(tmp_path: Path) -> None:
    text, page = write_page(make_study(), tmp_path)
    check_loads_nothing(text, page)
    best = make_study().configurations.sort("makespan_s").row(0, named=True)
    first = page.text.index("is predicted to be best by makespan")
    # 390 core-seconds on 8 cores give the lower bound, and the baseline takes 100 s.
    assert best["makespan_s"] == 390 / 8
    assert "48.8 s, -51.2 % against the baseline (2x4, fifo)" in page.text
    assert first < page.text.index("Trade-off")
    assert list(read_figures(page)) == ["pareto", "effects", "interactions"]


def test_every_configuration_is_a_point_of_the_trade_off() -> None:
    found = {
        name: (x, y)
        for trace in plot_pareto(make_study(), "makespan_s", "wait_p95_s").data
        if trace.customdata is not None
        for name, x, y in zip(trace.text, trace.x, trace.y, strict=True)
    }
    table = make_study().configurations.select("name", "makespan_s", "wait_p95_s")
    assert found == {name: (x, y) for name, x, y in table.rows()}


def test_the_front_is_that_of_the_study_and_labels_have_all_figures() -> None:
    figure = plot_pareto(make_study(), "makespan_s", "wait_p95_s")
    front = next(trace for trace in figure.data if trace.name == "Pareto front")
    best = make_study().pareto("makespan_s", "wait_p95_s")
    assert list(front.x) == best["makespan_s"].to_list()
    points = next(trace for trace in figure.data if trace.customdata is not None)
    names = points.meta["columns"]["customdata"]
    row = make_study().configurations.row(by_predicate=pl.col("name") == points.text[0], named=True)
    label = dict(zip(names, points.customdata[0], strict=True))
    assert label["95th percentile wait (s), mean"] == pytest.approx(row["wait_p95_s"], rel=1e-5)
    assert label["on the front"] == ("yes" if row["name"] in best["name"] else "no")
    assert points.hovertemplate.count("customdata[") == len(make_study().kpis)


def test_labels_have_the_levels_and_energies_have_the_unit_of_the_headline() -> None:
    """A busy host has 100 W: one for 7.2 h, or two for 3.6 h, need 720 Wh."""
    host = {"cores": 1, "power": {"model": "linear", "idle": "50 W", "max": "100 W"}}
    tasks = [{"id": name, "run_time": 3.6 * 3600} for name in "ab"]
    scenario = tl.Scenario(
        platform={"clusters": [{"hosts": [host]}]}, workload={"tasks": tasks}, policy="fifo"
    )
    factors = {
        "number of hosts": {"field": "platform.clusters[0].hosts[0].count", "levels": [1, 2]},
        "scheduling policy": {"field": "policy", "levels": ["conservative", "easy"]},
    }
    study = tl.explore(scenario, factors, by="energy_j")
    figure = plot_pareto(study, "energy_j", "makespan_s")
    names = next(trace for trace in figure.data if trace.name == "names")
    assert [each.strip() for each in names.text] == ["2, conservative +1 equal"]
    assert list(names.x) == pytest.approx([0.72])
    assert figure.layout.xaxis.title.text == "energy (kWh), less is better"
    answer = describe_recommendation(study, rank_configurations(study))[0]
    assert "best by energy: 0.72 kWh" in answer


def test_effects_are_the_means_of_the_runs_with_that_level() -> None:
    figure = plot_effects(make_study(), "makespan_s")
    ticks = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
    drawn = {
        ticks[y]: x
        for trace in figure.data
        if trace.customdata is not None
        for x, y in zip(trace.x, trace.y, strict=True)
    }
    runs = make_study().runs
    for factor, level, rows in (
        ("policy", "easy", runs.filter(policy="easy")),
        ("platform", "1x8", runs.filter(platform="1x8")),
        ("overcommit", "2", runs.filter(overcommit=2.0)),
        ("overcommit", "not active", runs.filter(pl.col("overcommit").is_null())),
    ):
        assert drawn[f"{factor}: {level}"] == pytest.approx(rows["makespan_s"].mean())


def test_interactions_are_those_of_the_study() -> None:
    drawn = plot_interactions(make_study(), "makespan_s").data[0]
    for row in make_study().interactions("makespan_s").rows(named=True):
        down = drawn.y.index(f"{row['factor']}: {row['level']}")
        across = drawn.x.index(f"{row['other']}: {row['other_level']}")
        assert drawn.z[down][across] == pytest.approx(row["interaction"], rel=1e-5, abs=1e-8)


def test_failed_runs_are_counted_and_listed(tmp_path: Path) -> None:
    _, page = write_page(fail_runs(make_study(), "the disk is full"), tmp_path)
    _, rest = page.text.split("Failed runs")
    assert "the disk is full" in rest
    assert "failed runs1" in page.text.replace("\n", "")
    assert "Failed runs" not in write_page(make_study(), tmp_path)[1].text


def test_an_incomplete_study_is_reported_and_one_without_results_has_no_recommendation(
    tmp_path: Path,
) -> None:
    some = dict(list(make_study().results.items())[:3])
    _, page = write_page(replace(make_study(), results=some), tmp_path)
    assert "The study is not complete: " in page.text
    _, page = write_page(replace(make_study(), results={}), tmp_path)
    assert "There is no recommendation" in page.text
    assert page.text.count("there is nothing to draw") == 1
    assert "the runs have no" not in page.text
    assert read_figures(page) == {}


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    of = fail_runs(make_study(EVIL), EVIL)
    text, page = write_page(of, tmp_path)
    assert EVIL not in text
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    figures = json.dumps(read_figures(page))
    assert "<a" not in figures
    assert "<script" not in figures


def test_the_page_of_many_configurations_lists_the_best_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("twinloop.report.pages.study.MAX_LISTED", 2)
    monkeypatch.setattr("twinloop.report.figures.pareto.MAX_POINTS", 3)
    text, page = write_page(make_study(), tmp_path)
    total = make_study().configurations.height
    assert f"the best 2 of {total} by makespan" in page.text
    assert (
        text.split("All configurations")[1].split("Inputs of the study")[0].count("<tr>") == 1 + 2
    )
    assert f"the front and 3 of {total} configurations" in page.text


def test_a_scatter_has_two_objectives_that_exist() -> None:
    with pytest.raises(InputError, match="two objectives"):
        plot_pareto(make_study(), "makespan_s")
    with pytest.raises(InputError, match="is not a KPI"):
        plot_pareto(make_study(), "makespan_s", "speed")


def test_the_guide_of_the_front_names_the_better_side(tmp_path: Path) -> None:
    import twinloop as tl

    for by, expected in (
        ("makespan_s", "further left and further down are better"),
        ("utilisation", "further right and further down are better"),
    ):
        study = tl.explore(make_scenario(), {"policy": ["fifo", "easy"]}, by=by)
        _, page = write_page(study, tmp_path)
        assert expected in page.text


def test_one_factor_has_no_interactions_and_the_page_reports_it(tmp_path: Path) -> None:
    import twinloop as tl

    _, page = write_page(tl.explore(make_scenario(), {"policy": ["fifo", "easy"]}), tmp_path)
    assert list(read_figures(page)) == ["pareto", "effects"]
    assert "fewer than two factors" in page.text


def test_the_baseline_is_marked() -> None:
    marks: Any = [
        trace for trace in plot_pareto(make_study()).data if trace.name.startswith("baseline")
    ]
    (mark,) = marks
    assert (mark.x[0], list(mark.text)) == (100.0, ["2x4, fifo"])


def make_candidates(**seconds: float) -> list[Candidate]:
    return [
        Candidate(name, make_scenario(), {"makespan_s": value}) for name, value in seconds.items()
    ]


def test_the_probability_of_a_lead_is_reported_if_known() -> None:
    noise = {"makespan_s": {"share": 0.02, "freedom": 10.0}}
    many = make_candidates(a=80.0, b=81.0, c=200.0)
    ranking = rank_candidates(many, baseline=many[-1], noise=noise)
    sure = ranking.places[0].probability
    assert sure is not None
    assert sure < 0.9
    lines = describe_recommendation(make_study(), ranking)
    assert lines[1] == (
        f"It is better than b with a probability of {100 * sure:.3g} %; below 90 % this is a tie."
    )
    assert not any("c" in line.split() for line in lines[1:])


def test_equal_predictions_are_one_row_with_the_lead_over_the_next() -> None:
    noise = {"makespan_s": {"share": 0.02, "freedom": 10.0}}
    many = make_candidates(a=80.0, b=80.0, c=80.0, d=200.0)
    ranking = rank_candidates(many, baseline=many[-1], noise=noise)
    first, second = group_equal_places(ranking)
    assert [name_group(fold) for fold in (first, second)] == [
        "a (+2 equal)", "d",
    ]  # fmt: skip
    sure = get_lead_probability(first, ranking)
    assert sure is not None
    assert sure > 0.99
    assert get_lead_probability(first[:1], ranking) is None
    lines = describe_recommendation(make_study(), ranking)
    assert (
        "the probability that it, or a configuration with equal predictions, is the best of all is "
        "100 %" in lines[0]
    )
    assert lines[1] == "b; c have equal predictions."


def test_the_recommended_configuration_has_a_ring_and_coinciding_points_are_counted() -> None:
    figure = plot_pareto(make_study(), "makespan_s", "wait_p95_s")
    (ring,) = (trace for trace in figure.data if trace.name.startswith("best by makespan"))
    assert ring.x[0] == make_study().configurations["makespan_s"].min()
    (names,) = (trace for trace in figure.data if trace.name == "names")
    assert 1 <= len(names.text) <= 6
    table = make_study().pareto("makespan_s", "wait_p95_s")
    for x, y, text in zip(names.x, names.y, names.text, strict=True):
        there = table.filter(makespan_s=x, wait_p95_s=y)
        assert there.height
        assert text.endswith(f"+{there.height - 1} equal") == (there.height > 1)


def test_utilisation_is_in_percent_and_more_than_all_is_explained(tmp_path: Path) -> None:
    figure = plot_effects(make_study(), "utilisation")
    assert "(%)" in figure.layout.xaxis.title.text
    most = max(x for trace in figure.data if trace.customdata is not None for x in trace.x)
    assert most > 1.0
    every = make_study().configurations["utilisation"]
    drawn = [x for trace in plot_pareto(make_study(), "utilisation", "makespan_s").data
             if trace.customdata is not None for x in trace.x]  # fmt: skip
    assert sorted(drawn) == pytest.approx(sorted(100 * every))
    _, page = write_page(make_study(), tmp_path)
    assert ("cores are overcommitted" in page.text) == bool((every > 1).any())
