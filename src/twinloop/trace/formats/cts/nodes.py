"""Reader of `nodes.json`: one node or a list of nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.description.files import read_text
from twinloop.description.json_text import object_from_pairs
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.formats.cts.units import MAX_INTEGER, MB

NODES_FILE: Final = "nodes.json"

_COLUMNS: Final = {"cpu_cores": "cores", "cpu_freq_mhz": "mhz", "mem_mb": "memory"}
_SCHEMA: Final = {"node": pl.String, "cores": pl.Float64, "mhz": pl.Float64, "memory": pl.Float64}


def read_nodes(file: Path, *, strict: bool, tally: Tally) -> pl.DataFrame:
    """Read the nodes; an invalid entry is skipped and counted, or raises an error if strict."""
    try:
        document = json.loads(
            read_text(file, limit=1 << 26),
            object_pairs_hook=_make_object,
            parse_constant=_refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        line = getattr(error, "lineno", None)
        raise InputError(
            f"is not valid JSON: {error}", kind="not-json", file=file, line=line
        ) from None
    entries = document if isinstance(document, list) else [document]
    rows = []
    for number, entry in enumerate(entries):
        try:
            rows.append(_make_row(entry, f"[{number}]" if entries is document else "", tally))
        except InputError as error:
            problem = error.at(file=file)
            if strict or len(entries) == 1:
                raise problem from None
            example = f"{file.name}: {error.field}: {error.problem}"
            tally.note("skipped", "nodes that cannot be read", examples=[example])
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _make_row(entry: Any, where: str, tally: Tally) -> tuple[Any, ...]:
    if not isinstance(entry, Mapping):
        raise InputError("is not a JSON object", kind="not-json", field=where or "top level")
    for name in entry:
        if name != "node_id" and name not in _COLUMNS:
            tally.note("ignored", f"field '{name}' of {NODES_FILE}")
    name = entry.get("node_id")
    if name is not None and not isinstance(name, str):
        raise InputError(
            f"{name!r} is not text", kind="invalid-value", field=f"{where}.node_id".lstrip(".")
        )
    figures: dict[str, float | None] = {}
    for field, column in _COLUMNS.items():
        value = entry.get(field)
        address = f"{where}.{field}".lstrip(".")
        if value is None:
            figures[column] = None
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{value!r} is not a number", kind="invalid-value", field=address)
        if not 0 <= value <= MAX_INTEGER:
            raise InputError(f"{value!r} is out of range", kind="invalid-value", field=address)
        figures[column] = float(value) * (MB if column == "memory" else 1)
    return (name, figures["cores"], figures["mhz"], figures["memory"])


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return object_from_pairs(pairs, on_repeat=_refuse_repeat)


def _refuse_repeat(_name: str) -> None:
    raise ValueError("a field occurs twice in one object")


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number in JSON")
