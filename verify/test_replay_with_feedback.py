"""All 18 simulations of the KTH log in "Replay with feedback", beside the published figures.

Writes `build/verify/replay-with-feedback.md`, and `.html` with the figures. Skipped without the
log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import replay_page as page
from replay_experiments import (
    EXPERIMENTS,
    LOG,
    PUBLISHED,
    PUBLISHED_ORDER,
    PUBLISHED_PERCENTILES,
    RECORDED,
    REPLAYS,
    ReplayRun,
    lengthen_slightly,
    run,
    select_first_jobs,
)
from replay_figures import FIGURES, by_hour_of_week, growth, weekly

import twinloop as tl

pytestmark = pytest.mark.realdata

BUILD = Path(__file__).parents[1] / "build" / "verify"
EASY_ROWS = [key for key in PUBLISHED if key[0] != "FCFS"]
SIZES = (2_500, 5_000, 10_000, 15_000, 20_000, 25_000, 28_475)
TIME_ZONE = 3600


@pytest.fixture(scope="module")
def log(real_data: Path) -> tl.Trace:
    return tl.read(real_data / LOG)


@pytest.fixture(scope="module")
def runs(log: tl.Trace) -> dict[tuple[str, str], ReplayRun]:
    return {key: run(log, *key) for key in PUBLISHED}


@pytest.fixture(scope="module")
def recorded(log: tl.Trace) -> ReplayRun:
    return ReplayRun.of(log, 100)


@pytest.fixture(scope="module")
def spread(log: tl.Trace) -> dict[tuple[str, str], list[Any]]:
    logs = [lengthen_slightly(log, seed) for seed in range(8)]
    return {key: [run(one, *key).row for one in logs] for key in PUBLISHED}


@pytest.fixture(scope="module")
def epoch(log: tl.Trace) -> float:
    assert log.manifest.epoch_ms is not None
    return log.manifest.epoch_ms / 1000 + TIME_ZONE


@pytest.fixture(scope="module")
def figures(log, runs, epoch) -> dict[str, Any]:
    made = {number: draw(runs) for number, draw in FIGURES.items()}
    made["8"] = weekly(runs, epoch)
    parts = {size: select_first_jobs(log, size) for size in SIZES}
    made["11"] = growth(
        {
            name: {size: run(part, name, "a60").row.additional for size, part in parts.items()}
            for name in EXPERIMENTS
        }
    )
    return made


@pytest.fixture(scope="module")
def variants(log, runs) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        key: {"easy": runs[key].row, "easy-time": run(log, *key, policy="easy-time").row}
        for key in EASY_ROWS
    }


@pytest.fixture(scope="module")
def tables(runs, recorded, spread, variants) -> dict[str, str]:
    return {
        "table 1": page.scheduling(runs, recorded.row),
        "table 2": page.lateness(runs),
        "table order": page.ranking(runs),
        "table users": page.users(runs),
        "table windows": page.windows(runs),
        "table spread": page.spread(spread),
        "table variants": page.variants(variants),
    }


def test_the_page_is_written_and_the_documentation_has_its_figures(tables, figures):
    frame = page.FRAME.read_text(encoding="utf-8")
    fresh = page.fill_page(frame, tables)
    page.write(BUILD, fresh, figures)
    print(f"\n{BUILD / page.FRAME.name}")
    assert set(page.blocks(frame)) == set(tables)
    assert set(page.PLACE.findall(frame)) == set(figures)
    assert page.blocks(frame) == page.blocks(fresh), (
        f"{page.FRAME} has old figures: copy {BUILD / page.FRAME.name} there"
    )


def test_the_recorded_log_is_the_one_of_the_paper(recorded):
    assert [round(x, 2) for x in recorded.row[:3]] == list(RECORDED[:3])


def test_fcfs_rigid_is_as_published_to_the_printed_digit(runs):
    assert [round(x, 2) for x in runs["FCFS", "rigid"].row[:3]] == [333.10, 4.51, 11.79]


@pytest.mark.parametrize("replay", ["a0", "a60"])
@pytest.mark.parametrize("field", ["makespan", "wait_mean", "wait_max", "lateness", "additional"])
def test_fcfs_with_feedback_is_within_one_and_a_half_percent(runs, replay, field):
    ours = getattr(runs["FCFS", replay].row, field)
    published = getattr(PUBLISHED["FCFS", replay], field)
    # Half a unit of the last printed digit is more than 1.5 % of a mean wait of 0.29 days.
    assert ours == pytest.approx(published, abs=0.015 * published + 0.005)


def test_the_makespan_of_easy_on_the_original_machine_is_as_published(runs):
    assert round(runs["EASY", "rigid"].row.makespan, 2) == 332.91


@pytest.mark.parametrize("key", EASY_ROWS, ids=" ".join)
def test_mean_waits_of_easy_are_within_a_quarter(runs, key):
    ours, published = runs[key].row.wait_mean, PUBLISHED[key].wait_mean
    if key == ("infra/2", "rigid"):
        # Classic EASY waits longer than printed; see the page.
        assert 5.5 < ours < 6.5
    elif key[0] == "infra*2":
        # Printed as 0.00; in the text between 162 and 229 s.
        assert 162 * 0.75 < ours * 86_400 < 229 * 1.25
    else:
        assert ours == pytest.approx(published, abs=0.25 * published + 0.005)


@pytest.mark.parametrize("key", EASY_ROWS, ids=" ".join)
@pytest.mark.parametrize("field", ["makespan", "wait_mean"])
def test_classic_easy_is_nearer_to_the_paper_than_its_time_condition_alone(variants, key, field):
    classic, time_only = (round(getattr(row, field), 2) for row in variants[key].values())
    published = getattr(PUBLISHED[key], field)
    assert abs(classic - published) <= abs(time_only - published)


@pytest.mark.parametrize("key", EASY_ROWS, ids=" ".join)
def test_makespans_of_easy_are_within_three_percent(runs, key):
    assert runs[key].row.makespan == pytest.approx(PUBLISHED[key].makespan, rel=0.03)


@pytest.mark.parametrize("replay", ["a0", "a60"])
def test_the_experiments_are_in_the_published_order_by_lateness(runs, replay):
    assert page.order(runs, replay) == PUBLISHED_ORDER


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a60_submits_earlier_than_a0(runs, name):
    """Section 7.2: mean lateness is always lower with a60."""
    assert runs[name, "a60"].row.lateness < runs[name, "a0"].row.lateness


def test_650_jobs_never_fit_on_half_the_nodes(runs):
    assert {key: found.rejected for key, found in runs.items()} == {
        key: 650 if key[0] == "infra/2" else 0 for key in PUBLISHED
    }
    assert all(found.rejected + found.jobs.height == 28_475 for found in runs.values())


@pytest.mark.parametrize("replay", ["a0", "a60"])
def test_the_paper_counts_jobs_that_never_fit(replay):
    """Equation 6 solved for n, as far as the printed digits go."""
    row = PUBLISHED["infra/2", replay]
    few = 1 + 2 * (row.lateness - 0.005) * 86_400 / (row.additional + 0.005)
    many = 1 + 2 * (row.lateness + 0.005) * 86_400 / (row.additional - 0.005)
    assert 27_825 < few < 28_475 < many


@pytest.mark.parametrize("name", PUBLISHED_PERCENTILES)
def test_the_median_user_is_late_or_early_as_published(runs, name):
    ours, published = page.percentiles(runs[name, "a60"]), PUBLISHED_PERCENTILES[name]
    assert np.sign(ours[1]) == np.sign(published[1])


def test_throughput_and_use_are_those_of_figure_9(runs):
    """Section 7.3.3, in every window."""
    for months in (4, 6, 8):
        for name in ("perf*2", "infra*2"):
            nodes = EXPERIMENTS[name].nodes
            rigid, *feedback = (runs[name, replay].window(months) for replay in REPLAYS)
            # A larger machine changes nothing while the arrivals are fixed.
            same = runs["EASY", "rigid"].window(months)[0]
            assert rigid[0] == pytest.approx(same, rel=0.01)
            assert rigid[1] / nodes < 0.40
            for throughput, busy in feedback:
                assert 1.02 < throughput / rigid[0] < 1.15
                assert 0.37 < busy / nodes < 0.50
        for name in ("perf/2", "infra/2"):
            assert runs[name, "rigid"].window(months)[1] / EXPERIMENTS[name].nodes > 0.85


def test_days_and_nights_are_lost_in_a_replay_with_feedback(runs, epoch):
    """Fig. 8: nights and weekends are quiet in the record, and less so with feedback."""
    unevenness = {}
    for replay in REPLAYS:
        counts = by_hour_of_week(runs["EASY", replay], epoch)
        unevenness[replay] = counts.std() / counts.mean()
    assert unevenness["a0"] < unevenness["rigid"]
    assert unevenness["a60"] < unevenness["rigid"]


def test_new_users_come_until_a_few_days_before_the_end(recorded):
    """Fig. 10."""
    first = recorded.jobs.group_by("user").agg(first=pl.col("submit").min())
    assert recorded.jobs["submit"].max() - first["first"].max() < 10 * 86_400
