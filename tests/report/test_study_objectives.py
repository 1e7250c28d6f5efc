"""Study with two objectives, a conditional factor, and a strategy that completes fewer tasks."""

import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import twinloop as tl
from twinloop.exploration.study.study import Study
from twinloop.report.figures.label_boxes import count_overlaps, list_line_boxes
from twinloop.report.figures.pareto import plot_pareto
from twinloop.report.figures.study import plot_available, plot_effects
from twinloop.report.pages.study import describe_recommendation, rank_configurations

CLOUD = {
    "name": "cloud",
    "clusters": ["hosts"],
    "types": [{"name": "small", "cores": 1}],
    "images": [{"name": "base", "boot": {"delay": 30}}],
    "billing": {"unit": "1h", "price": 5.25},
}


@cache
def make_rental_study() -> Study:
    """Six tasks, one of them longer than an hour: on one to six instances, or for one hour."""
    times = (1800, 1800, 2700, 2700, 2700, 4200)
    tasks = [{"id": f"t{n}", "run_time": time, "cores": 1} for n, time in enumerate(times)]
    scenario = tl.Scenario(
        platform={
            "clusters": [{"name": "hosts", "hosts": [{"name": "h", "count": 9, "cores": 1}]}],
            "clouds": [CLOUD],
        },
        policy="one-instance",
        workload={"tasks": tasks},
    )
    strategies = {
        "one": "one-instance",
        "each": "one-per-task",
        "list": "list",
        "budget": {"name": "budget", "options": {"budget": 6}},
    }
    limit = {"field": "policy.options.instances", "levels": [2, 3], "when": {"strategy": ["list"]}}
    factors = {"strategy": {"field": "policy", "levels": strategies}, "limit": limit}
    return tl.explore(scenario, {"factors": factors})


def test_the_headline_has_all_objectives() -> None:
    study = make_rental_study()
    lines = describe_recommendation(study, rank_configurations(study))
    # Six instances are paid for seven hours; the one of the baseline for five: 4.4 h and a boot.
    assert lines[0].startswith("strategy each is predicted to be best by makespan: 1.18 h, -73.4 %")
    assert lines[0].endswith("; bill 36.75, +40 %.")
    assert lines[-1] == (
        "It is best by makespan only, and one of the 3 configurations on the Pareto front of "
        "makespan and bill."
    )


def test_a_level_with_fewer_tasks_is_marked_and_not_the_lowest() -> None:
    study = make_rental_study()
    effects = {(row["factor"], row["level"]): row for row in study.effects().rows(named=True)}
    assert effects["strategy", "budget"]["mean"] < effects["strategy", "each"]["mean"]
    marked = [key for key, row in effects.items() if row["fewer_tasks"]]
    assert marked == [("strategy", "budget"), ("limit", "-")]
    lines = [" ".join(line.split()) for line in str(study).split("\n")]
    assert "strategy 97% each (4230) one (15,930)" in lines
    assert "limit 3% 3 (6030) 2 (8730)" in lines
    assert lines[-1] == "fewer tasks: strategy budget (2730), limit not active (7630)"
    figure = plot_effects(study)
    assert "strategy: budget (fewer tasks)" in figure.layout.yaxis.ticktext
    (points,) = (trace for trace in figure.data if (trace.name or "").startswith("strategy"))
    assert list(points.marker.symbol) == ["circle", "circle", "circle", "circle-open"]


def test_a_factor_that_needs_one_level_of_another_has_no_interaction_with_it() -> None:
    study = make_rental_study()
    assert study.interactions().is_empty()
    figures, missing = plot_available(study)
    assert "interactions" not in figures
    assert missing == ["there are no interactions to draw: no pair of factors varies independently"]


def test_the_trade_off_has_hours_logarithmic_axes_and_all_names() -> None:
    figure = plot_pareto(make_rental_study())
    assert figure.layout.xaxis.title.text == "makespan (h), logarithmic, less is better"
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.yaxis.title.text == "bill, logarithmic, less is better"
    points = {trace.name: trace for trace in figure.data if trace.customdata is not None}
    assert list(points["each"].x) == [4230 / 3600]
    # The second factor has the symbol of a level; open is a configuration with fewer tasks.
    assert points["each"].marker.symbol == ("circle",)
    assert points["budget"].marker.symbol == ("circle-open",)
    assert "open: fewer tasks complete than in other configurations" in figure.layout.meta["notes"]
    (names,) = (trace for trace in figure.data if trace.name == "names")
    assert {text.strip() for text in names.text} == {
        "each", "list, 3", "one", "budget (fewer tasks)",
    }  # fmt: skip
    best = [trace.name for trace in figure.data if (trace.name or "").startswith("best by")]
    assert best == ["best by makespan: each"]


def test_no_label_of_the_picture_in_the_tutorial_is_crossed_by_the_front() -> None:
    path = Path(__file__).resolve().parents[2] / "docs" / "assets" / "cost.svg"
    root = ET.parse(path).getroot()
    name = "{http://www.w3.org/2000/svg}"
    (front,) = root.iter(f"{name}polyline")
    corners = [each.split(",") for each in front.get("points", "").split()]
    line = list_line_boxes([(float(x), float(y)) for x, y in corners])
    labels = list(root.iter(f"{name}text"))[-9:]
    assert labels[0].text == "asap"
    for label in labels:
        left, base = float(label.get("x", 0)), float(label.get("y", 0))
        width = 6.2 * len(label.text or "")
        assert not count_overlaps((left, base - 10, left + width, base + 3), line), label.text
