"""Law: rows of unique names are the same with and without a search."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from twinloop.workload.fragments import find_rows


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.permutations("abcdef"))
def test_rows_of_unique_names_are_found_with_or_without_a_search(
    names: list[str], ids: list[str]
) -> None:
    for known in (ids, names):
        arguments = (pl.Series(known, dtype=pl.String), pl.Series(names, dtype=pl.String))
        assert find_rows(*arguments, unique=True).tolist() == find_rows(*arguments).tolist()
