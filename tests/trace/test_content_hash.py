"""Law: the content hash of tables does not depend on the size of the pieces it is computed in."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from twinloop.trace import content_hash
from twinloop.trace.content_hash import hash_tables

TABLE = pl.DataFrame(
    {
        "id": ["a", None, "", "bcd", "e"],
        "number": [1.5, None, math.nan, -0.0, 3.0],
        "count": [1, 2, None, 4, 5],
        "flag": pl.Series([1, 2, 3, 4, 5], dtype=pl.UInt8),
        "parents": [["a"], None, [], ["b", "c"], ["d"]],
        "unknown": pl.Series([None] * 5, dtype=pl.Float64),
    }
)
#: Computed when each column was hashed as a whole.
DIGEST = "96c601730a9e44de2b0e7decc5c028311ee40238c964f2e3ccb472980706e6ab"


@pytest.mark.parametrize("rows", [1, 2, 5, 1 << 16])
def test_pieces_do_not_change_the_hash(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_hash, "_PIECE_ROWS", rows)
    arrays = {"rates": np.array([0.0, -0.0, 2.5]), "none": np.zeros(0)}
    tables = {"tasks": TABLE, "empty": TABLE.clear()}
    assert hash_tables(tables, {"seed": 1}, arrays) == DIGEST
