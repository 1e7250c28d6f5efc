"""Parquet files by their exact names: the only place that opens one.

Polars takes a path for a pattern: `run[1]/tasks.parquet` would be the table of `run1`, `all*` the
tables of every folder that fits, and `~` the home folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl


def read_parquet(path: Path) -> pl.DataFrame:
    """Read one Parquet file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     for name in ("run1", "run[1]"):
    ...         Path(there, name).mkdir()
    ...         pl.DataFrame({"id": [name]}).write_parquet(Path(there, name, "tasks.parquet"))
    ...     read_parquet(Path(there, "run[1]", "tasks.parquet"))["id"].to_list()
    ['run[1]']
    """
    return pl.read_parquet(exact(path), glob=False, hive_partitioning=False)


def scan_parquet(path: Path) -> pl.LazyFrame:
    """One Parquet file, of which only the columns that are asked for are read."""
    return pl.scan_parquet(exact(path), glob=False, hive_partitioning=False)


def read_parquet_schema(path: Path) -> dict[str, pl.DataType]:
    """The names and types of the columns of one Parquet file."""
    return dict(scan_parquet(path).collect_schema())


def exact(path: Path) -> str:
    """The path as Polars takes it as it stands: a relative one may begin with a tilde."""
    return os.fspath(path.absolute())
