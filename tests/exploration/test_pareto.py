"""The Pareto front, compared with its definition row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import InputError
from twinloop.exploration.ranking.pareto import find_front


def by_definition(rows: list[list[float]], lower: list[bool]) -> list[bool]:
    """No other row is as good in all columns and better in one; rows with NaN are excluded."""
    signs = [1.0 if low else -1.0 for low in lower]

    def beats(one: list[float], other: list[float]) -> bool:
        pairs = [(s * a, s * b) for s, a, b in zip(signs, one, other, strict=True)]
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    whole = [not any(np.isnan(row)) for row in rows]
    both = list(zip(rows, whole, strict=True))
    return [
        known and not any(fine and beats(other, row) for other, fine in both) for row, known in both
    ]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[float]], list[bool]]:
    columns = draw(st.integers(1, 5))
    few = st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, float("inf"), float("-inf"), float("nan")])
    any_value = st.one_of(few, st.floats(-1e9, 1e9))
    value = draw(st.sampled_from([few, any_value]))
    rows = draw(st.lists(st.lists(value, min_size=columns, max_size=columns), max_size=40))
    return rows, draw(st.lists(st.booleans(), min_size=columns, max_size=columns))


@given(tables())
def test_the_front_matches_its_definition(table: tuple[list[list[float]], list[bool]]) -> None:
    rows, lower = table
    found = find_front(np.array(rows, dtype=float).reshape(len(rows), len(lower)), lower)
    assert found.tolist() == by_definition(rows, lower)


@pytest.mark.parametrize("columns", [2, 3, 4])
def test_more_rows_than_a_block(columns: int) -> None:
    rng = np.random.default_rng(columns)
    rows = rng.integers(0, 30, (700, columns)).astype(float)
    assert find_front(rows, [True] * columns).tolist() == by_definition(
        rows.tolist(), [True] * columns
    )


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_ten_thousand_rows_without_domination(columns: int) -> None:
    """All rows have the same sum, so a lower value in one column is a higher one in another."""
    whole = np.random.default_rng(0).integers(0, 2**20, (10_000, columns))
    whole[:, -1] = -whole[:, :-1].sum(axis=1)
    assert find_front(whole, [True] * columns).all()
    # A row that is better than all others in every column is alone on the front.
    best = np.vstack([whole, np.full(columns, -(2**40))])
    assert np.flatnonzero(find_front(best, [True] * columns)).tolist() == [10_000]


def test_an_empty_table_has_no_front() -> None:
    assert find_front(np.empty((0, 2)), [True, True]).tolist() == []


@pytest.mark.parametrize(
    ("values", "lower"), [([[1.0, 2.0]], [True]), ([1.0, 2.0], [True]), ([[]], [])]
)
def test_a_table_with_a_wrong_number_of_columns_is_an_error(
    values: list[object], lower: list[bool]
) -> None:
    with pytest.raises(InputError, match="values: must have a row per configuration"):
        find_front(values, lower)  # type: ignore[arg-type]
