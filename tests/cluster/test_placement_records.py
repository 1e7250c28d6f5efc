"""Laws of the table of placements: records are sorted and repeated as by NumPy."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine.run_trace import repeat_records, sort_records

NUMBERS = st.integers(0, 3) | st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=30))
def test_records_are_sorted_by_task_attempt_and_machine(
    records: list[tuple[int, int, int]],
) -> None:
    task, attempt, machine = np.array(records, dtype=np.uint32).reshape(-1, 3).T
    expected = np.lexsort((machine, attempt, task)).tolist()
    assert sort_records(task, attempt, machine).tolist() == expected


@pytest.mark.parametrize("values", [[1.5, 1.5, 1.5], [1.5, 2.0, 2.0], ["a", "a", "a"], ["a", "b"]])
def test_values_of_records_are_repeated(values: list[float] | list[str]) -> None:
    counts = np.array([2, 1, 3][: len(values)], dtype=np.uint32)
    given_values = pl.Series(values) if isinstance(values[0], str) else np.array(values)
    frame = pl.DataFrame({"row": np.arange(counts.sum())})
    found = frame.with_columns(value=repeat_records(given_values, counts))["value"]
    assert found.to_list() == [
        value for value, count in zip(values, counts, strict=True) for _ in range(count)
    ]


def test_no_record_gives_an_empty_column() -> None:
    empty = repeat_records(np.zeros(0), np.zeros(0, dtype=np.uint32))
    assert pl.DataFrame({"row": []}).with_columns(value=empty)["value"].to_list() == []
