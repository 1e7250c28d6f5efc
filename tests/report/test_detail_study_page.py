"""Page of a study of the level of detail: its figures agree with the tables; it loads nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.calibration.detail_runs import LEVELS, PARAMETERS, list_runs
from tests.report.page_reader import EVIL, PageReader, check_loads_nothing, read_figures
from twinloop.calibration import DetailStudy, calibrate_levels
from twinloop.report import plot_detail_study, write_detail_study_page
from twinloop.report.figures.detail_study import plot_version_losses
from twinloop.report.view.index import Index


@pytest.fixture(scope="module")
def study() -> DetailStudy:
    training, held_out = list_runs()
    return calibrate_levels(
        training,
        LEVELS,
        parameters=PARAMETERS,
        validation=held_out,
        loss="makespan",
        budget=12,
        seeds=2,
        spec_sheet={"speed_factor": 1.0},
        analysis=0,
    )


def write_page(study: DetailStudy, folder: Path) -> tuple[str, PageReader]:
    text = write_detail_study_page(study, folder / "page.html").read_text(encoding="utf-8")
    return text, PageReader(text)


def test_the_page_has_verdict_tables_and_figures(study: DetailStudy, tmp_path: Path) -> None:
    text, page = write_page(study, tmp_path)
    check_loads_nothing(text, page)
    assert list(read_figures(page)) == ["versions", "searches"]
    for line in study.verdict:
        assert line in page.text
    for version in study.versions:
        assert version.name in page.text
    for heading in ("Versions", "Differences between levels", "Identifiability", "Fitted values"):
        assert heading in page.text
    # The mode stands above everything, and beside the losses.
    assert page.text.lower().count("predict: nothing taken from the real runs") == 2
    assert text == write_page(study, tmp_path)[0]


def test_the_bars_are_the_means_and_their_ends_single_runs(study: DetailStudy) -> None:
    figure = plot_version_losses(study)
    rows = {row["name"]: row for row in study.summarise().iter_rows(named=True)}
    bars = [series for series in figure.data if series.type == "bar"]
    # The factor with the fewest levels, the first of equal ones, has the colours.
    assert [series.name for series in bars] == ["policy: fcfs", "policy: sjf"]
    assert sum(len(series.x) for series in bars) == len(study.versions)
    for series in bars:
        for place, (name, low, high) in enumerate(series.customdata):
            row = rows[name]
            assert series.x[place] == pytest.approx(100 * row["mean"])
            assert (low, high) == pytest.approx((100 * row["lowest"], 100 * row["highest"]))
            assert series.error_x.array[place] == pytest.approx(high - series.x[place])
            assert series.error_x.arrayminus[place] == pytest.approx(series.x[place] - low)
    lines = {series.name.partition(":")[0]: series.x[0] for series in figure.data[len(bars) :]}
    assert study.ideal is not None
    assert study.baseline is not None
    assert lines == pytest.approx(
        {"noise floor": 100 * study.ideal["loss"], "crude baseline": 100 * study.baseline["loss"]}
    )


def test_the_searches_never_get_worse(study: DetailStudy) -> None:
    for series in plot_detail_study(study)["searches"].data:
        assert list(series.y) == sorted(series.y, reverse=True)


def test_names_are_text_not_markup(study: DetailStudy, tmp_path: Path) -> None:
    first = replace(study.versions[0], name=EVIL)
    evil = replace(study, versions=(first, *study.versions[1:]), notes=(EVIL,))
    text, page = write_page(evil, tmp_path)
    assert EVIL not in text
    assert EVIL in page.text
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert "<script" not in json.dumps(read_figures(page))


def test_the_browser_lists_a_study_with_its_factors_and_the_version(
    study: DetailStudy, tmp_path: Path
) -> None:
    study.save(tmp_path / "detail")
    (entry,), _ = Index(tmp_path).entries()
    assert study.recommended is not None
    assert (entry.kind, entry.title) == ("detail", "policy, decision_interval, contention")
    assert entry.verdict == study.recommended.name
