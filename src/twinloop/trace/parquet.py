"""Opening of Parquet files by their exact names; no other module opens one.

Polars treats a path as a pattern: `run[1]/tasks.parquet` would be the table of `run1`, `all*` the
tables of every matching folder, and `~` the home folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from twinloop.description.input_limit import check_table_size
from twinloop.trace.parquet_footer import read_column_chunks


def read_parquet(path: Path, types: Iterable[Any] | None = None) -> pl.DataFrame:
    """Read one Parquet file, after a check of its size against the input limit.

    Args:
        path: The file.
        types: The column types that it will be cast to; by default those of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     for name in ("run1", "run[1]"):
    ...         Path(temporary, name).mkdir()
    ...         pl.DataFrame({"id": [name]}).write_parquet(Path(temporary, name, "tasks.parquet"))
    ...     read_parquet(Path(temporary, "run[1]", "tasks.parquet"))["id"].to_list()
    ['run[1]']
    """
    _check_size(path, types)
    return pl.read_parquet(to_exact_path(path), glob=False, hive_partitioning=False)


def scan_parquet(path: Path) -> pl.LazyFrame:
    """Scan one Parquet file lazily, so that only the selected columns are read."""
    return pl.scan_parquet(to_exact_path(path), glob=False, hive_partitioning=False)


def read_parquet_schema(path: Path) -> dict[str, pl.DataType]:
    """Read the names and types of the columns of one Parquet file."""
    return dict(scan_parquet(path).collect_schema())


def _check_size(path: Path, types: Iterable[Any] | None) -> None:
    """Raise an InputError if the table is above the input limit, by the counts in its footer.

    All columns of the file count, also columns that are rejected after reading. No page is read.
    For a file that is not Parquet, the reader raises the error.
    """
    try:
        scan = scan_parquet(path)
        schema = scan.collect_schema()
        rows = int(scan.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return
    check_table_size(
        path, rows, schema.dtypes(), types or (), listed=estimate_list_bytes(path, schema)
    )


def estimate_list_bytes(path: Path, columns: Mapping[str, pl.DataType]) -> int:
    """Estimate the memory of list values in these columns beyond one value per row (bytes)."""
    nested = {name for name, dtype in columns.items() if dtype.is_nested()}
    chunks = [each for each in read_column_chunks(path) if each.column in nested] if nested else []
    return sum(max(0, each.values - each.rows) * (16 if each.is_text else 8) for each in chunks)


def to_exact_path(path: Path) -> str:
    """Return an absolute path, which Polars does not expand even if a name begins with a tilde."""
    return os.fspath(path.absolute())
