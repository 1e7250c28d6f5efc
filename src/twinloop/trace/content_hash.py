"""Content hash of tables, independent of file format and library version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


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
        for column in sorted(tables[name].columns):
            values = tables[name][column]
            if values.null_count() < values.len():
                digest.update(f"\0{name}\0{column}\0{values.dtype}\0{values.len()}\0".encode())
                _add_column(digest, values)
    for name, array in sorted((arrays or {}).items()):
        digest.update(f"\0{name}\0{array.dtype}\0{len(array)}\0".encode())
        _add_array(digest, array)
    return digest.hexdigest()


def _add_column(digest: hashlib._Hash, values: pl.Series) -> None:
    if values.null_count():
        _add_array(digest, values.is_null().to_numpy())
    if values.dtype.is_numeric():
        _add_array(digest, values.fill_null(0).to_numpy())
    elif values.dtype == pl.String:
        texts = values.fill_null("")
        _add_array(digest, texts.str.len_bytes().to_numpy())
        digest.update((texts.str.join("").item() or "").encode())
    else:  # lists and structures
        digest.update(json.dumps(values.to_list(), default=str).encode())


def _add_array(digest: hashlib._Hash, array: NDArray[Any]) -> None:
    if array.dtype.kind == "f":
        array = array + 0.0  # -0.0 and 0.0 are equal, so they have one hash
        array[np.isnan(array)] = np.nan  # one bit pattern
    digest.update(np.ascontiguousarray(array).data)
