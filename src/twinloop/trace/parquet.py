"""Parquet files by their exact names: the only place that opens one.

Polars takes a path for a pattern: `run[1]/tasks.parquet` would be the table of `run1`, `all*` the
tables of every folder that fits, and `~` the home folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from twinloop.trace.input_bound import check_table


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
    return pl.read_parquet(exact(path), glob=False, hive_partitioning=False)


def scan_parquet(path: Path) -> pl.LazyFrame:
    """One Parquet file, of which only the columns that are asked for are read."""
    return pl.scan_parquet(exact(path), glob=False, hive_partitioning=False)


def read_parquet_schema(path: Path) -> dict[str, pl.DataType]:
    """The names and types of the columns of one Parquet file."""
    return dict(scan_parquet(path).collect_schema())


def _check_size(path: Path, types: Iterable[Any] | None) -> None:
    """Raise an InputError if the table is beyond the bound, by the rows that its footer names.

    No page is read. What is no Parquet file is left to the reader.
    """
    try:
        scan = scan_parquet(path)
        types = scan.collect_schema().dtypes() if types is None else types
        rows = int(scan.select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return
    check_table(path, rows, types)


def exact(path: Path) -> str:
    """The path as Polars takes it as it stands: a relative one may begin with a tilde."""
    return os.fspath(path.absolute())
