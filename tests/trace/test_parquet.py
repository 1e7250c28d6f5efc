"""Columns of Parquet files of other programs are equal for any size of the pieces that are read."""

import tempfile
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.trace.formats import opendc, parquet

NAMES = {"length": ("length", "old_length")}


def numbers(piece):
    return piece.select(parquet.cast_number(piece, "length", Path("it"))).to_series()


def pieces_of(rows):
    return mock.patch.multiple(parquet, MIN_PIECE_ROWS=rows, MAX_PIECES=1 << 30)


@given(
    values=st.lists(st.none() | st.integers(-(2**40), 2**40), max_size=20),
    rows=st.integers(1, 7),
    group=st.integers(1, 9),
)
def test_a_column_is_the_same_in_pieces_of_any_size(values, rows, group):
    with tempfile.TemporaryDirectory() as there:
        file = Path(there) / "it.parquet"
        table = pl.DataFrame({"old_length": values}, schema={"old_length": pl.Int64})
        table.write_parquet(file, row_group_size=group)
        with pieces_of(rows):
            found = parquet.convert_column(file, NAMES, ("length",), "length", numbers)
    assert found.dtype == pl.Float64
    assert found.to_list() == values


# A workload is two files and a manifest: fewer of them.
@examples(12)
@given(tasks=st.lists(st.sampled_from("abcx"), min_size=1, max_size=20), rows=st.integers(1, 7))
def test_a_workload_of_opendc_is_the_same_in_pieces_of_any_size(tasks, rows):
    with tempfile.TemporaryDirectory() as there:
        pl.DataFrame(
            {
                "id": ["c", "a", "b"],
                "submission_time": [3000, 1000, 2000],
                "duration": [1000, 1000, 1000],
                "cpu_count": [1, 1, 1],
                "cpu_capacity": [1024.0, 1024.0, 1024.0],
            }
        ).write_parquet(there + "/tasks.parquet")
        usage = [float(place) for place in range(len(tasks))]
        pl.DataFrame(
            {"id": tasks, "duration": [500] * len(tasks), "cpu_usage": usage}
        ).write_parquet(there + "/fragments.parquet")
        whole = opendc.FORMAT.read(Path(there))
        with pieces_of(rows):
            assert opendc.FORMAT.read(Path(there)) == whole
    known = [name for name in tasks if name != "x"]
    assert whole.usage["task"].to_list() == known
    assert (whole.usage["cpu"] * 2048).to_list() == [
        use for name, use in zip(tasks, usage, strict=True) if name != "x"
    ]


def test_a_damaged_file_is_an_input_error(tmp_path):
    file = tmp_path / "it.parquet"
    pl.DataFrame({"length": list(range(100_000))}).write_parquet(file)
    content = file.read_bytes()
    file.write_bytes(content[:100] + bytes(len(content) - 1000) + content[-900:])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        parquet.convert_column(file, NAMES, ("length",), "length", numbers)
