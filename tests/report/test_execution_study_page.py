"""Page of a study over executions: its figures agree with the tables, and it loads nothing."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.exploration.test_execution_tables import CELL, SETS, make_study
from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, read_figures
from twinloop.exploration import ExecutionStudy
from twinloop.report import plot_execution_errors, write_execution_study_page
from twinloop.report.figures.execution_errors import (
    plot_cell_frequencies,
    plot_error_changes,
    plot_error_distributions,
    plot_error_frequencies,
    plot_simulated_over_measured,
)


def make_sample(name: str = "run") -> ExecutionStudy:
    """Four executions in two cells, with the errors 0, 0.1, 0.2, 0.3 and 0.2, 0.2, 0.5, 0.5."""
    labels = {
        f"{name}-{n}": {**CELL, "platform": "pq"[n // 2], "repetition": str(n)} for n in range(4)
    }
    makespans = dict(zip(SETS, ((100, 110, 120, 130), (120, 120, 150, 150)), strict=True))
    return make_study(
        labels,
        {key: {"makespan_s": 100.0} for key in labels},
        {
            (execution, each): {"makespan_s": float(makespans[each][number])}
            for number, execution in enumerate(labels)
            for each in SETS
        },
    )


def write_page(study: ExecutionStudy, folder: Path) -> tuple[str, PageReader]:
    text = write_execution_study_page(study, folder / "page.html").read_text(encoding="utf-8")
    return text, PageReader(text)


def test_the_page_has_the_tables_and_the_figures(tmp_path: Path) -> None:
    text, page = write_page(make_sample(), tmp_path)
    check_loads_nothing(text, page)
    assert list(read_figures(page)) == [
        f"{name}-makespan"
        for name in ("frequencies", "cells", "distributions", "changes", "comparison")
    ]
    assert "best (replay): the absolute error of the makespan is 0.150 in the mean" in page.text
    assert "predictions (predict): the absolute error of the makespan is 0.350" in page.text
    for title in (
        "Errors: best",
        "Baseline",
        "Differences of the errors to best",
        "Largest errors",
    ):
        assert title in page.text
    # The noise between repetitions stands below the errors of each set: here there is none.
    assert page.text.count("noise of repetitions") == 2


def test_frequencies_are_those_of_the_histogram() -> None:
    study = make_sample()
    best, predicted = plot_error_frequencies(study).data
    assert dict(zip(best.x, best.y, strict=True))["0 to 0.05"] == 0.25
    assert dict(zip(predicted.x, predicted.y, strict=True))["0.5 to 0.55"] == 0.5
    assert sum(best.y) == sum(predicted.y) == pytest.approx(1.0)


def test_each_cell_has_its_own_frequencies() -> None:
    """The errors of the first set are 0 and 0.1 in one cell, 0.2 and 0.3 in the other."""
    first, second = plot_cell_frequencies(make_sample()).data
    assert (first.name, second.name) == ("p / a", "q / a")
    found = dict(zip(first.x, first.y, strict=True))
    assert {label: share for label, share in found.items() if share} == {
        "0 to 0.05": 0.5,
        "0.1 to 0.15": 0.5,
    }


def test_distributions_and_changes_are_cumulative() -> None:
    study = make_sample()
    best, _ = plot_error_distributions(study).data
    assert np.allclose(best.x, [1e-4, 0.1, 0.2, 0.3])
    assert np.allclose(best.y, [0.25, 0.5, 0.75, 1.0])
    (change,) = plot_error_changes(study).data
    assert np.allclose(change.x, [0.1, 0.2, 0.2, 0.3])


def test_points_are_the_runs() -> None:
    line, best, _ = plot_simulated_over_measured(make_sample()).data
    assert list(line.x) == list(line.y)
    assert list(best.x) == [100.0] * 4
    assert list(best.y) == [100.0, 110.0, 120.0, 130.0]


def test_a_study_without_errors_has_a_page_without_figures(tmp_path: Path) -> None:
    study = make_study({"x": CELL}, {}, {("x", "best"): {"makespan_s": 9.0}})
    assert plot_execution_errors(study) == {}
    _, page = write_page(study, tmp_path)
    assert "There are no errors" in page.text
    assert "The study is not complete: 1 of 2 runs are done." in page.text


def test_failed_runs_are_listed_with_their_reason(tmp_path: Path) -> None:
    study = make_sample()
    key = study.planned_runs[0].key
    lost = {"kpis": None, "seconds": 0.1, "error": "InputError: no boots"}
    failed = replace(study, results={**study.results, key: lost})
    _, page = write_page(failed, tmp_path)
    assert "InputError: no boots" in page.text


def test_names_with_markup_are_text(tmp_path: Path) -> None:
    text, page = write_page(make_sample(EVIL), tmp_path)
    assert EVIL not in text
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    figures = json.dumps(read_figures(page))
    assert "<a" not in figures
    assert "<script" not in figures


def test_intervals_are_bars_and_a_table(tmp_path: Path) -> None:
    """A set with fitted models: from the ends of the interval to the median, and the coverage."""
    values = {"makespan_s": 90.0, "makespan_s_low": 60.0, "makespan_s_high": 100.0}
    study = make_study(
        {"x": CELL},
        {"x": {"makespan_s": 100.0}},
        {("x", "predictions"): {"makespan_s": 80.0}, ("x", "fit boots"): values},
        {"run": "executions", "inject": ["predictions"], "fit": [["boots"]]},
    )
    traces = {each.name: each for each in plot_simulated_over_measured(study).data}
    bars = traces["fit boots (predict)"].error_y
    assert (list(bars.array), list(bars.arrayminus)) == ([10.0], [30.0])
    assert traces["predictions (predict)"].error_y.array is None
    text, page = write_page(study, tmp_path)
    check_loads_nothing(text, page)
    assert (
        "100 % of the measured makespans lie within the 90 % intervals of fit boots." in page.text
    )
    assert page.text.count("Measured values within the predicted intervals") == 1
