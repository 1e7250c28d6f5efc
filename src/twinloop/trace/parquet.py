"""Parquet files by their exact names: the only place that opens one.

Polars takes a path for a pattern: `run[1]/tasks.parquet` would be the table of `run1`, `all*` the
tables of every folder that fits, and `~` the home folder.
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
    """Read one Parquet file, if its table is within the memory that an input may take.

    Args:
        path: The file.
        types: The types of the columns into which it will be brought; by default those of the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     for name in ("run1", "run[1]"):
    ...         Path(there, name).mkdir()
    ...         pl.DataFrame({"id": [name]}).write_parquet(Path(there, name, "tasks.parquet"))
    ...     read_parquet(Path(there, "run[1]", "tasks.parquet"))["id"].to_list()
    ['run[1]']
    """
    _check_size(path, types)
    return pl.read_parquet(to_exact_path(path), glob=False, hive_partitioning=False)


def scan_parquet(path: Path) -> pl.LazyFrame:
    """One Parquet file, of which only the columns that are asked for are read."""
    return pl.scan_parquet(to_exact_path(path), glob=False, hive_partitioning=False)


def read_parquet_schema(path: Path) -> dict[str, pl.DataType]:
    """The names and types of the columns of one Parquet file."""
    return dict(scan_parquet(path).collect_schema())


def _check_size(path: Path, types: Iterable[Any] | None) -> None:
    """Raise an InputError if the table is beyond the bound, by the values that its footer names.

    All columns of the file count, also those that will be refused: they are read first. No page is
    read. What is no Parquet file is left to the reader.
    """
    try:
        scan = scan_parquet(path)
        held = scan.collect_schema()
        rows = int(scan.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return
    check_table_size(path, rows, held.dtypes(), types or (), listed=estimate_list_bytes(path, held))


def estimate_list_bytes(path: Path, columns: Mapping[str, pl.DataType]) -> int:
    """What the values of lists in these columns take, besides one value for each row (bytes)."""
    nested = {name for name, dtype in columns.items() if dtype.is_nested()}
    chunks = [each for each in read_column_chunks(path) if each.column in nested] if nested else []
    return sum(max(0, each.values - each.rows) * (16 if each.is_text else 8) for each in chunks)


def to_exact_path(path: Path) -> str:
    """The path as Polars takes it as it stands: a relative one may begin with a tilde."""
    return os.fspath(path.absolute())
