"""Effects of factors, compared with tables computed by hand and with other least-squares fits."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import InputError
from twinloop.exploration.study.effects import compute_interactions, compute_main_effects


def by_level(table: pl.DataFrame, *columns: str) -> dict[Any, tuple[Any, ...]]:
    """Return rows by factor and level, or by both factors and both levels."""
    keys = [name for name in ("factor", "other", "level", "other_level") if name in table.columns]
    return {tuple(row[k] for k in keys): tuple(row[c] for c in columns) for row in table.rows(
        named=True
    )}  # fmt: skip


def shares(table: pl.DataFrame) -> dict[str, float]:
    names = [name for name in ("factor", "other") if name in table.columns]
    return {" x ".join(row[name] for name in names): row["share"] for row in table.rows(named=True)}


# --- by hand -------------------------------------------------------------------------------------


def test_two_by_two_with_two_runs_each() -> None:
    """Means 11, 21, 31, 61; SS of A 1800, B 800, interaction 200, residual 8, total 2808."""
    runs = pl.DataFrame(
        {
            "a": ["low"] * 4 + ["high"] * 4,
            "b": [1, 1, 2, 2] * 2,
            "kpi": [10.0, 12.0, 20.0, 22.0, 30.0, 32.0, 60.0, 62.0],
        }
    )
    main = compute_main_effects(runs, ["a", "b"], "kpi")
    assert by_level(main, "runs", "mean", "effect") == {
        ("a", "low"): (4, 16.0, -15.0),
        ("a", "high"): (4, 46.0, 15.0),
        ("b", "1"): (4, 21.0, -10.0),
        ("b", "2"): (4, 41.0, 10.0),
    }
    assert shares(main) == pytest.approx({"a": 1800 / 2808, "b": 800 / 2808})
    # 16 ± t(3; 97.5 %) x sd / 2, the sd of 10, 12, 20, 22 being sqrt(104 / 3)
    half = 3.18244631 * (104 / 3) ** 0.5 / 2
    assert by_level(main, "low", "high")["a", "low"] == pytest.approx((16 - half, 16 + half))
    both = compute_interactions(runs, ["a", "b"], "kpi")
    assert shares(both) == pytest.approx({"a x b": 200 / 2808})
    assert {key: row[0] for key, row in by_level(both, "interaction").items()} == pytest.approx(
        {
            ("a", "b", "low", "1"): 5.0,
            ("a", "b", "low", "2"): -5.0,
            ("a", "b", "high", "1"): -5.0,
            ("a", "b", "high", "2"): 5.0,
        }
    )


def test_two_by_three() -> None:
    """Rows 1 2 6 and 5 6 4: means 3 and 5, 3 4 5, 4; SS 6, 4 and 12 of 22."""
    cells = {("x", 1): 1, ("x", 2): 2, ("x", 3): 6, ("y", 1): 5, ("y", 2): 6, ("y", 3): 4}
    runs = pl.DataFrame(
        [{"row": row, "column": column, "kpi": value} for (row, column), value in cells.items()]
    )
    main = compute_main_effects(runs, ["row", "column"], "kpi")
    assert [row[-1] for row in by_level(main, "effect").values()] == [-1.0, 1.0, -1.0, 0.0, 1.0]
    assert shares(main) == pytest.approx({"row": 6 / 22, "column": 4 / 22})
    both = compute_interactions(runs, ["row", "column"], "kpi")
    assert both["interaction"].to_list() == pytest.approx([-1, -1, 2, 1, 1, -2])
    assert both["share"][0] == pytest.approx(12 / 22)
    assert main["low"].is_null().sum() == 0


def test_a_pure_interaction_has_no_main_effects() -> None:
    runs = pl.DataFrame(
        [{"a": a, "b": b, "kpi": 50.0 + 7 * a * b} for a, b in product((-1, 1), repeat=2)]
    )
    main = compute_main_effects(runs, ["a", "b"], "kpi")
    assert main["effect"].to_list() == pytest.approx([0.0] * 4)
    assert main["share"].to_list() == pytest.approx([0.0] * 4)
    both = compute_interactions(runs, ["a", "b"], "kpi")
    assert both["share"].to_list() == pytest.approx([1.0] * 4)
    assert both["interaction"].to_list() == pytest.approx([7.0, -7.0, -7.0, 7.0])


# --- factors that are not always active ----------------------------------------------------------


def conditional() -> pl.DataFrame:
    """Two plain policies and two policies with an overcommit, on two platforms."""
    rows = []
    for platform, policy in product(("4x4", "2x8"), ("plain", "simple", "pack", "spread")):
        for overcommit in (1.0, 2.0) if policy in ("pack", "spread") else (None,):
            value = 100.0 - 20 * (platform == "2x8") + {"pack": 5, "spread": 9}.get(policy, 0)
            value += 6 * (overcommit == 2.0) - 3 * (overcommit is not None)
            rows.append(
                {"platform": platform, "policy": policy, "overcommit": overcommit, "kpi": value}
            )
    return pl.DataFrame(rows)


def test_a_conditional_factor_has_an_effect_where_it_is_active() -> None:
    runs = conditional()
    main = compute_main_effects(runs, ["platform", "policy", "overcommit"], "kpi")
    found = by_level(main, "runs", "effect")
    assert found["overcommit", "1"] == (4, pytest.approx(-3.0))
    assert found["overcommit", "2"] == (4, pytest.approx(3.0))
    assert found["overcommit", "-"] == (4, None)
    # It explains 8 runs that differ by 3 from their mean; all shares add up to 1.
    values = runs["kpi"].to_numpy()
    whole = float(((values - values.mean()) ** 2).sum())
    known = shares(main)
    assert known["overcommit"] == pytest.approx(8 * 9 / whole)
    assert known["platform"] == pytest.approx(12 * 100 / whole)
    assert sum(known.values()) == pytest.approx(1.0)
    both = compute_interactions(runs, ["platform", "policy", "overcommit"], "kpi")
    assert both["interaction"].to_list() == pytest.approx([0.0] * both.height)
    assert "-" not in both["other_level"]


# --- properties ----------------------------------------------------------------------------------


@st.composite
def designs(draw: st.DrawFn) -> tuple[pl.DataFrame, list[str]]:
    """Designs with any number of runs of each combination, including none."""
    names = ["a", "b", "c"][: draw(st.integers(2, 3))]
    levels = {name: draw(st.integers(1, 4)) for name in names}
    row = st.fixed_dictionaries({name: st.integers(0, levels[name] - 1) for name in names})
    rows = draw(st.lists(row, min_size=1, max_size=30))
    return pl.DataFrame(rows).with_columns(pl.all().cast(pl.String)), names


@given(designs(), st.integers(0, 2**32 - 1))
def test_additive_factors_have_no_interaction(
    design: tuple[pl.DataFrame, list[str]], seed: int
) -> None:
    runs, names = design
    rng = np.random.default_rng(seed)
    adds = {name: rng.normal(size=4) * 10 for name in names}
    kpi = sum(adds[name][runs[name].cast(pl.Int64).to_numpy()] for name in names)
    runs = runs.with_columns(kpi=pl.Series(100.0 + kpi))
    found = compute_interactions(runs, names, "kpi")
    assert np.abs(found["interaction"].to_numpy()).max(initial=0.0) < 1e-6
    assert found["share"].max() is None or found["share"].max() < 1e-6


@given(designs(), st.integers(0, 2**32 - 1))
def test_shares_equal_the_difference_of_two_regressions(
    design: tuple[pl.DataFrame, list[str]], seed: int
) -> None:
    """Compare with regressions with and without a factor, by another solver."""
    runs, names = design
    values = np.random.default_rng(seed).normal(50, 10, runs.height)
    runs = runs.with_columns(kpi=pl.Series(values))

    def unexplained(kept: list[str]) -> float:
        dummies = [runs[name].to_dummies().to_numpy().astype(float) for name in kept]
        design_matrix = np.hstack([np.ones((runs.height, 1)), *dummies])
        solved, *_ = np.linalg.lstsq(design_matrix, values, rcond=None)
        return float(((values - design_matrix @ solved) ** 2).sum())

    whole = float(((values - values.mean()) ** 2).sum())
    for name, share in shares(compute_main_effects(runs, names, "kpi")).items():
        gained = unexplained([each for each in names if each != name]) - unexplained(names)
        assert share == pytest.approx(gained / whole if whole else 0.0, abs=1e-6)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_shares_of_a_balanced_factorial_add_up_to_one(seed: int, repeats: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [{"a": a, "b": b} for a, b, _ in product("xyz", "pq", range(repeats))]
    runs = pl.DataFrame(rows).with_columns(kpi=pl.Series(rng.normal(size=len(rows))))
    main, both = (
        shares(find(runs, ["a", "b"], "kpi"))
        for find in (compute_main_effects, compute_interactions)
    )
    cells = runs.with_columns(mean=pl.col("kpi").mean().over("a", "b"))
    values = runs["kpi"].to_numpy()
    within = float(((values - cells["mean"].to_numpy()) ** 2).sum())
    whole = float(((values - values.mean()) ** 2).sum())
    assert sum(main.values()) + sum(both.values()) + within / whole == pytest.approx(1.0)


def test_many_numeric_levels_are_binned_by_quartile() -> None:
    numbers = np.random.default_rng(1).permutation(np.linspace(1.0, 2.0, 40))
    runs = pl.DataFrame({"x": numbers, "kpi": numbers})
    main = compute_main_effects(runs, ["x"], "kpi")
    assert main["runs"].to_list() == [10] * 4
    assert main["effect"].to_list() == pytest.approx(
        [np.mean(part) - 1.5 for part in np.split(np.sort(numbers), 4)]
    )
    assert main["level"][0] == "1 to 1.231"


def test_failed_runs_are_left_out() -> None:
    runs = pl.DataFrame({"a": ["x", "x", "y"], "kpi": [1.0, None, 3.0]})
    assert compute_main_effects(runs, ["a"], "kpi")["runs"].to_list() == [1, 1]


def test_equal_runs_have_shares_of_zero() -> None:
    runs = pl.DataFrame({"a": ["x", "y"], "b": ["p", "q"], "kpi": [0.1 + 0.2, 0.3]})
    assert compute_main_effects(runs, ["a", "b"], "kpi")["share"].to_list() == [0.0] * 4


def test_missing_columns_are_errors() -> None:
    runs = pl.DataFrame({"a": ["x"], "kpi": [None]}, schema={"a": pl.String, "kpi": pl.Float64})
    with pytest.raises(InputError, match="factors: the runs have no column 'b'"):
        compute_main_effects(runs, ["b"], "kpi")
    with pytest.raises(InputError, match="kpi: no run has 'kpi'"):
        compute_interactions(runs, ["a"], "kpi")
    with pytest.raises(InputError, match="kpi: 'a' is not numeric"):
        compute_main_effects(runs, ["a"], "a")
