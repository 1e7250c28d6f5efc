"""Content hash of tables, independent of file format and library version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

#: Number of rows that are copied at once.
_PIECE_ROWS: Final = 1 << 16


def hash_tables(
    tables: Mapping[str, pl.DataFrame],
    facts: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]] | None = None,
) -> str:
    """Compute the SHA-256 of named tables, plain data and arrays, in hexadecimal.

    Tables without rows and columns without values are skipped, so that a column which a later
    version adds does not change the hash.

    >>> digest = hash_tables({"tasks": pl.DataFrame({"id": ["a", "b"], "user": [None, None]})}, {})
    >>> digest == hash_tables({"tasks": pl.DataFrame({"id": ["a", "b"]})}, {})
    True
    >>> digest == hash_tables({"tasks": pl.DataFrame({"id": ["ab", ""]})}, {})
    False
    """
    digest = hashlib.sha256(json.dumps(dict(facts), sort_keys=True, default=str).encode())
    for name in sorted(tables):
        table = tables[name]
        nulls = dict(zip(table.columns, table.null_count().row(0), strict=True))
        for column in sorted(table.columns):
            if nulls[column] < table.height:
                values = table[column]
                digest.update(f"\0{name}\0{column}\0{values.dtype}\0{values.len()}\0".encode())
                _add_column(digest, values)
    for name, array in sorted((arrays or {}).items()):
        digest.update(f"\0{name}\0{array.dtype}\0{len(array)}\0".encode())
        for begin in range(0, len(array), _PIECE_ROWS):
            _add_array(digest, array[begin : begin + _PIECE_ROWS])
    return digest.hexdigest()


def _add_column(digest: hashlib._Hash, values: pl.Series) -> None:
    """Add a column in pieces: a copy of a large one would need as much memory again."""
    if values.null_count():
        for mask in _split(values.is_null()):
            _add_array(digest, mask.to_numpy())
    if values.dtype.is_numeric():
        for numbers in _split(values):
            _add_array(digest, numbers.fill_null(0).to_numpy())
    elif values.dtype == pl.String:
        for texts in _split(values):
            _add_array(digest, texts.fill_null("").str.len_bytes().to_numpy())
        for texts in _split(values):
            digest.update((texts.fill_null("").str.join("").item() or "").encode())
    else:  # lists and structures
        digest.update(json.dumps(values.to_list(), default=str).encode())


def _split(values: pl.Series) -> Iterator[pl.Series]:
    """Split a column into pieces, without a copy."""
    for begin in range(0, values.len(), _PIECE_ROWS):
        yield values.slice(begin, _PIECE_ROWS)


def _add_array(digest: hashlib._Hash, array: NDArray[Any]) -> None:
    if array.dtype.kind == "f":
        array = array + 0.0  # -0.0 and 0.0 are equal, so they have one hash
        array[np.isnan(array)] = np.nan  # one bit pattern
    digest.update(np.ascontiguousarray(array).data)
