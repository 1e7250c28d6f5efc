"""Verification of rankings on a simulated truth and on the recorded runs.

`verify/decide.py` prints the same tables without pytest. Only simulations are run here.
"""

from pathlib import Path

import polars as pl
import pytest
from decide import ALONE, SHIPPED, TWINS, WITH, WITHOUT, DecisionStudy, study
from decide_runs import (
    BAGS,
    BASELINE,
    CANDIDATES,
    LENGTHS,
    TRIED,
    _remove_details,
    plan,
    scenario,
    simulate_truth,
)
from decide_tables import TABLES
from replay_page import blocks, fill_page

import twinloop as tl
from twinloop.metrics import figures
from twinloop.recordings import open_runs

PAGE = Path(__file__).parents[1] / "docs" / "decide.md"
OVERCOMMITTED = [name for name in CANDIDATES if name != BASELINE]


@pytest.fixture(scope="module")
def known():
    """A simulated truth with known contention."""
    return DecisionStudy(simulate_truth(noise=0.003), {}, budget=2500, analysis=0)


@pytest.fixture(scope="module")
def shipped():
    """The recorded runs, assessed as by the command."""
    if not SHIPPED.exists():
        pytest.skip("no recorded runs")
    return study(SHIPPED)


def compare_with_baseline(found, twin, bag):
    """Return the predicted difference to the baseline and the verdict of each candidate."""
    recommended = found.confirmations[twin, bag].recommendations
    return {each.candidate: (each.predicted, each.verdict) for each in recommended}


@pytest.mark.parametrize("twin", [ALONE, WITHOUT])
def test_a_twin_without_contention_recommends_overcommitment_and_is_reversed(known, twin):
    found = compare_with_baseline(known, twin, "heavy")
    assert sorted(found) == sorted(OVERCOMMITTED)
    assert all(predicted < 0 and verdict == "reversed" for predicted, verdict in found.values())
    assert known.confirmations[twin, "heavy"].ranks["tau"][0] < 0


def test_with_contention_every_significant_pair_is_ranked_correctly(known):
    assert list(known.failures()) == []
    assert known.pairs(WITH, "heavy").height == 6
    assert all(
        verdict == "holds" for _, verdict in compare_with_baseline(known, WITH, "heavy").values()
    )


def test_the_diagnosis_names_contention(known):
    found = known.diagnosis
    assert (found.cause, found.turned) == ("contention", "on")


def test_overcommitment_of_the_light_bag_is_recommended_and_holds(known):
    found = compare_with_baseline(known, WITH, "light")
    assert all(predicted < 0 and verdict == "holds" for predicted, verdict in found.values())


def test_no_contention_is_found_where_there_is_none():
    free = DecisionStudy(simulate_truth(noise=0.003, free=True), {}, budget=2500, analysis=0)
    for bag in BAGS:
        found = compare_with_baseline(free, WITH, bag)
        assert all(predicted < 0 and verdict == "holds" for predicted, verdict in found.values())


def test_a_pair_that_is_ranked_wrongly_is_listed(known):
    runs = dict(known.runs)
    for key in plan():
        if key.bag == "heavy" and key.name == BASELINE:
            other = key._replace(name="spread-ic 4")
            runs[key], runs[other] = runs[other], runs[key]
    swapped = DecisionStudy(runs, {})
    vars(swapped)["fits"] = known.fits
    assert any("spread-ic 4" in line and BASELINE in line for line in swapped.failures())


def test_candidates_within_the_noise_are_not_assessable(known):
    runs = dict(known.runs)
    for key in plan():
        # Every candidate is the slowest and the fastest in turn.
        if key.bag == "heavy":
            names = [BASELINE, *OVERCOMMITTED]
            turned = names[(names.index(key.name) + key.repetition) % len(names)]
            runs[key] = known.runs[key._replace(name=turned)]
    noisy = DecisionStudy(runs, {})
    vars(noisy)["fits"] = known.fits
    assert any("not assessable" in line for line in noisy.failures())


def test_no_run_of_a_candidate_is_fitted(known):
    for twin in TWINS:
        assert all(run["name"].startswith("probe-") for run in known.fits[twin].runs)
    assert {run["name"] for run in known.fits[ALONE].runs} == {f"probe-1-{r}" for r in (1, 2, 3)}


def test_every_repetition_has_all_candidates_in_another_order_after_the_probes():
    keys = plan()
    probes = [key.bag == "probe" for key in keys]
    assert probes == sorted(probes, reverse=True)
    blocks_ = {}
    for key in keys[sum(probes) :]:
        blocks_.setdefault(key.repetition, []).append((key.bag, key.name))
    assert [key.repetition for key in keys[sum(probes) :]] == sorted(
        key.repetition for key in keys[sum(probes) :]
    )
    tried = sorted((bag, name) for bag, names in TRIED.items() for name in names)
    assert all(sorted(block) == tried for block in blocks_.values())
    assert len({tuple(block) for block in blocks_.values()}) == len(blocks_) >= 4


@pytest.mark.parametrize("name", CANDIDATES)
def test_without_contention_both_bags_have_the_same_makespan(name):
    heavy, light = (figures(tl.simulate(scenario(bag, name))).makespan for bag in BAGS)
    assert heavy == light >= sum(LENGTHS) / 2


def test_the_twin_ranks_the_recorded_runs_correctly(shipped):
    assert list(shipped.failures()) == []


def test_the_page_has_the_figures_of_the_recorded_runs(shipped):
    frame = PAGE.read_text(encoding="utf-8")
    assert set(blocks(frame)) == set(TABLES)
    assert fill_page(frame, {name: draw(shipped) for name, draw in TABLES.items()}) == frame


def test_recorded_runs_are_complete_and_small(shipped):
    assert set(shipped.notes) == {str(key) for key in plan()}
    with open_runs(SHIPPED) as folder:
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 2e6
        assert {path.suffix for path in files} == {".parquet", ".json"}
    for trace in shipped.runs.values():
        assert trace.tasks.select((pl.col("status") == "completed").all()).item()


def test_a_recorded_run_keeps_only_its_tables(known, tmp_path):
    """The other files of an execution are removed."""
    whole = next(iter(known.runs.values()))
    folder = whole.save(tmp_path / "run")
    (folder / "output").mkdir()
    (folder / "commands.txt").touch()
    _remove_details(folder)
    slim = tl.Trace.load(folder)
    assert whole.usage.height > slim.usage.height == 0
    assert slim.tasks.equals(whole.tasks)
    assert {path.suffix for path in folder.iterdir()} == {".parquet", ".json"}
