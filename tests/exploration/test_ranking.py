"""Rankings: the order, its uncertainty, and the text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import InputError
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.ranking.ranking import Ranking, rank_candidates
from twinloop.exploration.ranking.uncertainty import compute_probability_better
from twinloop.scenario import Scenario

SCENARIO = Scenario(platform="2x8", workload="log.swf", policy="easy")
SCATTER = {"makespan_s": {"share": 0.02, "freedom": 10.0}}


def candidate(name: str, seconds: float = 100.0, joules: float = 10.0, **more: Any) -> Candidate:
    return Candidate(name, SCENARIO, {"makespan_s": seconds, "energy_j": joules}, **more)


def names(ranking: Ranking) -> list[str]:
    return [each.name for each in ranking]


#: The three highlighted configurations of a published study: makespan (s), energy per task (J) and
#: the 95th percentile of the wait (s).
PUBLISHED = {
    "Spread-IC- 2.0": (4297.19, 734.05, 490.79),
    "FirstFit 1.0": (4229.52, 732.72, 1227.33),
    "Pack-IC+ 1.25": (4205.65, 732.20, 816.38),
}


@pytest.fixture
def published() -> list[Candidate]:
    kpis = ("makespan_s", "energy_per_task_j", "wait_p95_s")
    return [
        Candidate(name, SCENARIO, dict(zip(kpis, row, strict=True)))
        for name, row in PUBLISHED.items()
    ]


# --- order ---------------------------------------------------------------------------------------


def test_the_published_candidates_have_the_published_roles(published: list[Candidate]) -> None:
    for by, best in (
        ("makespan_s", "Pack-IC+ 1.25"),
        ("energy_per_task_j", "Pack-IC+ 1.25"),
        ("wait_p95_s", "Spread-IC- 2.0"),
    ):
        assert rank_candidates(published, by, baseline=published[1])[0].name == best
    # All makespans are within 3 % of the best, so the wait decides.
    by_wait = rank_candidates(
        published, ["makespan_s", "wait_p95_s"], baseline=published[1], tolerance=0.03
    )
    assert names(by_wait) == ["Spread-IC- 2.0", "Pack-IC+ 1.25", "FirstFit 1.0"]
    assert by_wait.how == "lexicographic by makespan_s (equal within 3 %), then wait_p95_s"


def test_a_weighted_score_is_the_mean_of_scaled_values() -> None:
    many = [candidate("a", 100, 30), candidate("b", 150, 10), candidate("c", 200, 20)]
    found = rank_candidates(many, {"makespan_s": 3, "energy_j": 1}, baseline=many[0])
    # a: (3 x 0 + 1) / 4, b: (3 x 0.5 + 0) / 4, c: (3 x 1 + 0.5) / 4
    assert names(found) == ["a", "b", "c"]
    assert found.table["score"].to_list() == pytest.approx([0.25, 0.375, 0.875])
    assert found.how == "weighted by 3 makespan_s + 1 energy_j"
    turned = rank_candidates(many, {"makespan_s": 0, "energy_j": 1}, baseline=many[0])
    assert names(turned) == ["b", "c", "a"]
    same = rank_candidates(many[:1], {"makespan_s": 1}, baseline=many[0])
    assert same.table["score"].to_list() == [0.0]


def test_utilisation_is_maximised() -> None:
    many = [Candidate(str(u), SCENARIO, {"utilisation": u}) for u in (0.5, 0.9, 0.7)]
    assert names(rank_candidates(many, "utilisation", baseline=many[0])) == ["0.9", "0.7", "0.5"]
    weighted = rank_candidates(many, {"utilisation": 1}, baseline=many[0])
    assert weighted.table["score"].to_list() == pytest.approx([0.0, 0.5, 1.0])


pairs = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=12)


@given(pairs)
def test_without_tolerance_the_order_is_that_of_tuples(values: list[tuple[int, int]]) -> None:
    many = [candidate(str(i), *map(float, pair)) for i, pair in enumerate(values)]
    found = rank_candidates(many, ["makespan_s", "energy_j"], baseline=many[0])
    expected = sorted(range(len(many)), key=lambda i: values[i])
    assert names(found) == [str(i) for i in expected]


@given(pairs, st.floats(0.0, 1.0))
def test_the_first_candidate_is_within_the_tolerance_of_the_best(
    values: list[tuple[int, int]], tolerance: float
) -> None:
    many = [candidate(str(i), *map(float, pair)) for i, pair in enumerate(values)]
    found = rank_candidates(many, ["makespan_s", "energy_j"], baseline=many[0], tolerance=tolerance)
    assert sorted(names(found)) == sorted(each.name for each in many)
    lowest = min(first for first, _ in values)
    near = [pair for pair in values if pair[0] <= lowest * (1 + tolerance)]
    assert found[0].predicted["energy_j"] == min(second for _, second in near)


def test_failed_candidates_are_left_out_and_named() -> None:
    many = [candidate("fine"), candidate("failed", math.nan), Candidate("empty", SCENARIO, {})]
    found = rank_candidates(many, baseline=many[0])
    assert names(found) == ["fine"]
    assert [each.name for each in found.left_out] == ["failed", "empty"]
    assert "Not ranked, because a value is missing: failed, empty." in str(found)


# --- uncertainty ---------------------------------------------------------------------------------


def test_probabilities_are_of_each_against_the_next() -> None:
    rng = np.random.default_rng(0)
    many = [
        candidate(str(i), 100 + 2 * i, draws={"makespan_s": 100 + 2 * i + rng.normal(0, 2, 50)})
        for i in range(5)
    ]
    found = rank_candidates(many, baseline=many[0], noise=SCATTER)
    held = [
        compute_probability_better(many[i], many[i + 1], "makespan_s", SCATTER) for i in range(4)
    ]
    assert found.table["probability"].to_list() == [*held, None]
    assert found.table["best"].sum() == pytest.approx(1.0)
    kept = rank_candidates(many, baseline=many[0], noise=SCATTER, k=2)
    assert kept.table.equals(found[:2].table)
    assert kept.table["probability"][1] == held[1]


def test_close_candidates_are_tied() -> None:
    """Two of 100 s and two of 150 s, with a scatter of 2 %: these pairs are not distinguishable."""
    many = [candidate(n, s) for n, s in (("a", 100), ("b", 101), ("c", 150), ("d", 151))]
    many.append(candidate("e", 300))
    found = rank_candidates(many, baseline=many[-1], noise=SCATTER)
    assert found.table["tie"].to_list() == [1, 1, 2, 2, None]
    assert "the probability of their order is below 90 %" in str(found)
    assert "not known" not in found.notes[0]
    assert found.table["best"].to_list()[0] > 0.5 > found.table["best"].to_list()[1]


def test_without_a_fit_equal_candidates_are_tied() -> None:
    many = [candidate("a"), candidate("b"), candidate("c", 100.001)]
    found = rank_candidates(many, baseline=many[2])
    assert found.table["tie"].to_list() == [1, 1, None]
    assert found.table["probability"].null_count() == found.table["best"].null_count() == 3
    assert "without a fit, the uncertainty of the model is unknown" in str(found)


def test_without_a_fit_seeds_that_disagree_are_a_tie() -> None:
    """Three seeds: Student's t with two degrees of freedom has 90 % within 2.92 errors."""
    slow = np.array([100.0, 110.0, 130.0])
    for apart, tied in (([2.0, 2.0, 2.1], False), ([2.0, -3.0, 2.5], True)):
        found = [
            candidate("a", 10.0, by_seed={"makespan_s": slow - np.array(apart)}),
            candidate("b", 10.0 + np.mean(apart), by_seed={"makespan_s": slow}),
        ]
        # By hand: the mean over its standard error against 2.92.
        assert (abs(np.mean(apart)) <= 2.92 * np.std(apart, ddof=1) / 3**0.5) == tied
        ranking = rank_candidates(found, baseline=found[1])
        assert ranking.table["tie"].to_list() == ([1, 1] if tied else [None, None])


def test_ties_are_with_the_best_of_a_group_without_chains() -> None:
    noise = {"makespan_s": {"share": 0.02, "freedom": 50.0}}
    many = [candidate(f"c{i}", 100.0 * 1.02**i) for i in range(8)]
    ties = rank_candidates(many, baseline=many[-1], noise=noise).table["tie"].to_list()
    for group in {tie for tie in ties if tie is not None}:
        members = [many[i] for i, tie in enumerate(ties) if tie == group]
        for each in members[1:]:
            assert compute_probability_better(members[0], each, "makespan_s", noise) < 0.9
    assert len({tie for tie in ties if tie is not None}) > 1


def test_unknown_parts_of_the_uncertainty_are_noted() -> None:
    drawn = [candidate("a", 1, draws={"makespan_s": np.array([1.0, 2.0])}), candidate("b", 2)]
    assert "the probabilities include only the uncertainty of the calibration" in str(
        rank_candidates(drawn, baseline=drawn[0])
    )
    plain = [candidate("a", 1), candidate("b", 2)]
    assert "include only the scatter of real runs" in str(
        rank_candidates(plain, baseline=plain[0], noise=SCATTER)
    )


@pytest.mark.parametrize(
    "by", [["makespan_s", "energy_j"], {"makespan_s": 1, "energy_j": 1}], ids=["one by one", "sum"]
)
def test_orders_of_several_kpis_have_probabilities(by: Any) -> None:
    rng = np.random.default_rng(1)
    shifts = rng.normal(0, 5, 200)
    many = [
        candidate("sure", 50, 5, draws={"makespan_s": 50 + shifts, "energy_j": np.full(200, 5.0)}),
        candidate("a", 100, 10, draws={"makespan_s": 100 + shifts}),
        candidate("b", 101, 10.1, draws={"makespan_s": 101 - shifts}),
    ]
    found = rank_candidates(many, by, baseline=many[2])
    assert names(found) == ["sure", "a", "b"]
    assert found.table["tie"].to_list() == [None, 2 - 1, 1]
    assert found.table["best"].to_list() == [1.0, 0.0, 0.0]
    # a is ahead of b where 100 + shift < 101 - shift; in the sum, energy shifts that a little.
    share = float(np.mean(shifts < 0.5)), float(np.mean(shifts < 1.0))
    held = found.table["probability"][1]
    assert share[0] <= held <= share[1]


# --- output --------------------------------------------------------------------------------------


def make_ranking() -> Ranking:
    many = [
        candidate("pack, overcommit 2", 80, levels={"policy": "pack", "overcommit": 2, "name": 1},
                  unsupported=("It puts 2 tasks on a core.",)),
        candidate("fifo", 100, levels={"policy": "fifo"}),
        candidate("spread <&>", 120, levels={"policy": "spread", "overcommit": 1.5}),
    ]  # fmt: skip
    return rank_candidates(many, ["makespan_s", "energy_j"], baseline=many[1], noise=SCATTER)


def test_the_table_has_levels_values_and_uncertainty() -> None:
    table = make_ranking().table
    assert table.columns == [
        *("rank", "name", "policy", "overcommit", "name (level)", "makespan_s", "energy_j"),
        *("probability", "best", "tie", "unsupported"),
    ]
    assert table["overcommit"].to_list() == [2.0, None, 1.5]
    assert table["name (level)"].dtype == pl.Int64
    assert table["unsupported"].to_list() == ["It puts 2 tasks on a core.", None, None]


def test_the_text_of_a_ranking() -> None:
    lines = str(make_ranking()).splitlines()
    assert lines[0] == (
        "3 candidates lexicographic by makespan_s, then energy_j; "
        "the baseline is fifo, makespan_s 100"
    )
    assert lines[2].split() == [
        *("candidate", "makespan_s", "(s)", "energy_j", "(J)", "to", "baseline"),
        *("P(beats", "next)", "P(best)", "tie"),
    ]
    first = lines[3].split()
    assert first[0] == "1"
    assert first[-5:] == ["100", "%", "100", "%", "unsupported"]
    assert "-20.0 %" in lines[3]
    assert lines[-1] == "Unsupported (1): It puts 2 tasks on a core."
    assert all(len(line) < 130 for line in lines[:6])


def test_names_are_escaped_in_html() -> None:
    html = make_ranking()._repr_html_()
    assert "spread &lt;&amp;&gt;" in html
    assert html.count("<tr>") == 4


def test_a_slice_is_a_ranking_that_keeps_its_ranks() -> None:
    whole = make_ranking()
    rest = whole[1:]
    assert isinstance(rest, Ranking)
    assert rest.table["rank"].to_list() == [2, 3]
    assert rest.baseline is whole.baseline
    assert list(whole) == [whole[0], *rest]
    assert whole[-1].name == "spread <&>"
    assert len(whole[5:]) == 0
    assert repr(whole[5:]).startswith("<Ranking of 0")
    assert whole[5:].table.columns == ["rank", "name", *whole.table.columns[5:]]
    assert "0 candidates" in str(whole[5:])


@pytest.mark.parametrize(
    ("by", "options", "message"),
    [
        ("makespam_s", {}, "is not a KPI"),
        ([], {}, "by: names no KPI"),
        (["energy_j", Objective("energy_j")], {}, "names a KPI twice"),
        ({"energy_j": -1.0}, {}, "must not be negative"),
        ({"energy_j": 0.0}, {}, "not all 0"),
        ("energy_j", {"tolerance": 0.1}, "tolerance: applies only to several KPIs"),
        (["energy_j", "makespan_s"], {"tolerance": -0.1}, "tolerance: must be 0 or more"),
        ("energy_j", {"k": 0}, "k: must be at least 1"),
        ("cost", {}, "no candidate has cost"),
    ],
)
def test_invalid_criteria_are_errors(by: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rank_candidates([candidate("a")], by, baseline=candidate("a"), **options)
