"""The tables of a study of the level of detail: their columns, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import require_input
from twinloop.trace.parquet import read_parquet

#: What the values of a simulated version are.
FITTED: Final = "fitted"
WARM_STARTED: Final = "warm-started"
BEFORE: Final = "before"
SPEC_SHEET: Final = "spec-sheet"
BASELINE: Final = "baseline"

_SEARCHES: Final = {
    "version": pl.Int64,
    "name": pl.String,
    "values": pl.String,
    "seed": pl.Int64,
    "optimiser": pl.String,
    "evaluations": pl.Int64,
    "failed": pl.Int64,
    "training_loss": pl.Float64,
    "validation_loss": pl.Float64,
    "error": pl.String,
}
_LOSSES: Final = {
    "version": pl.Int64,
    "name": pl.String,
    "values": pl.String,
    "seed": pl.Int64,
    "run": pl.String,
    "workload": pl.String,
    "used": pl.String,
    "loss": pl.Float64,
}
_VALUES: Final = {
    "version": pl.Int64,
    "name": pl.String,
    "values": pl.String,
    "seed": pl.Int64,
    "parameter": pl.String,
    "value": pl.String,
    "number": pl.Float64,
}
_IDENTIFIABILITY: Final = {
    "version": pl.Int64,
    "name": pl.String,
    "parameter": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "share": pl.Float64,
    "identifiable": pl.Boolean,
    "effect": pl.Boolean,
    "why": pl.String,
}
_HISTORY: Final = {
    "version": pl.Int64,
    "values": pl.String,
    "seed": pl.Int64,
    "evaluation": pl.Int64,
    "loss": pl.Float64,
    "best": pl.Float64,
}
_TIMES: Final = {
    "version": pl.Int64,
    "values": pl.String,
    "seed": pl.Int64,
    "search_s": pl.Float64,
    "run_s": pl.Float64,
}
#: The tables of a study with their columns; each is a file.
TABLES: Final[Mapping[str, Mapping[str, Any]]] = {
    "searches": _SEARCHES,
    "losses": _LOSSES,
    "values": _VALUES,
    "identifiability": _IDENTIFIABILITY,
    "history": _HISTORY,
    "times": _TIMES,
}


def make_tables(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pl.DataFrame]:
    """Make the tables of a study from rows.

    >>> make_tables({"times": [{"version": 1, "search_s": 0.5}]})["times"]["search_s"].to_list()
    [0.5]
    """
    return {
        name: pl.DataFrame(
            [{column: row.get(column) for column in schema} for row in rows.get(name, ())],
            schema=dict(schema),
        )
        for name, schema in TABLES.items()
    }


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """Read a table of a stored study; raise an error if its columns are others."""
    path = folder / f"{name}.parquet"
    require_input(path)
    table = read_parquet(path)
    schema = TABLES[name]
    if dict(table.schema) != dict(schema):
        raise InputError("has other columns", kind="damaged-file", file=path)
    return table
