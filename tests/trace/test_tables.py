"""Given tables are converted to the columns of the schema, and keep their rows."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import TwinloopError
from twinloop.trace import Trace
from twinloop.trace.tables import TABLES, conform_table, make_empty_table

NAMES = st.sampled_from(sorted(TABLES))


@given(table=NAMES, data=st.data(), height=st.integers(0, 3))
def test_any_columns_in_any_order_become_all_columns_in_order(
    table: str, data: st.DataObject, height: int
) -> None:
    schema = {name: column.dtype for name, column in TABLES[table].items()}
    given_names = data.draw(st.lists(st.sampled_from(sorted(schema)), unique=True))
    frame = pl.DataFrame(
        {name: pl.Series([None] * height, dtype=schema[name]) for name in given_names}
    )
    whole = conform_table(table, frame)
    assert dict(whole.schema) == schema
    assert whole.columns == list(schema)
    assert whole.height == frame.height
    assert conform_table(table, whole).equals(whole)


def test_a_table_without_columns_has_no_row() -> None:
    assert Trace(tasks=pl.DataFrame()).tasks.height == 0


def test_changes_of_a_given_or_returned_frame_do_not_change_the_trace() -> None:
    frame = conform_table("files", pl.DataFrame({"file": ["a"]}))
    trace = Trace(files=frame)
    frame.insert_column(0, pl.Series("new", [1]))
    blank = make_empty_table("files")
    blank.insert_column(0, pl.Series("new", [], pl.Int64))
    assert (
        trace.tables["files"].columns == make_empty_table("files").columns == list(TABLES["files"])
    )


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"sise": [1]}), "table 'files' has no column 'sise'"),
        (pl.DataFrame({"size": ["much"]}), "table 'files': .*much"),
        (pl.DataFrame({"file": [[1]]}), r"table 'files': column 'file' is List\(Int64\), not"),
    ],
)
def test_columns_that_do_not_fit_are_named(frame: pl.DataFrame, message: str) -> None:
    with pytest.raises(TwinloopError, match=message):
        conform_table("files", frame)
