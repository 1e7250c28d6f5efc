"""A Trace on disk: a folder with one Parquet file per table, and `manifest.json`.

The manifest names every file with its rows and its hash, and holds a hash of itself. The folder is
written under another name and renamed when it is complete, so a folder with a manifest that does
not fit was damaged later.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pydantic

from twinloop.trace.errors import DamagedTraceError, InputError, TwinloopError
from twinloop.trace.files import appearing, sha256
from twinloop.trace.input_bound import check_parquet
from twinloop.trace.manifest import Manifest
from twinloop.trace.tables import (
    LARGEST_POWER,
    LATEST_TIME,
    SCHEMA_VERSION,
    TABLES,
    conform,
)

MANIFEST = "manifest.json"


def save(
    tables: Mapping[str, pl.DataFrame], manifest: Manifest, path: Path, *, overwrite: bool
) -> Path:
    """Write tables and manifest as the folder `path`, whole or not at all."""
    if path.exists() and not overwrite:
        raise InputError("is there already", file=path, remedy="overwrite=True replaces it")
    own = {MANIFEST, *(f"{name}.parquet" for name in TABLES)}
    with appearing(path, own) as new:
        complete(tables, manifest, new)
    return path


def complete(tables: Mapping[str, pl.DataFrame], manifest: Manifest, path: Path) -> None:
    """Write tables and manifest into a folder that is there; the manifest comes last.

    Without its manifest a folder is no trace, so nobody takes one that is half written for whole.
    """
    written = {}
    for name, frame in tables.items():
        if frame.height:
            file = path / f"{name}.parquet"
            unfinished = path / f".{file.name}"
            try:
                frame.write_parquet(unfinished, compression="zstd")
            except pl.exceptions.PolarsError as error:
                raise OSError(str(error)) from None
            unfinished.replace(file)
            written[file.name] = {"rows": frame.height, "sha256": sha256(file)}
    document = manifest.model_dump(mode="json") | {"tables": written}
    document["sha256"] = _own_hash(document)
    unfinished = path / f".{MANIFEST}"
    unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path / MANIFEST)


def load(path: Path) -> tuple[dict[str, pl.DataFrame], Manifest]:
    """Read what `save` wrote; check every file against the manifest."""
    document = _document(path)
    version = document.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise DamagedTraceError(
            f"schema version {version!r} is none that this program reads (1 to {SCHEMA_VERSION})",
            file=path / MANIFEST,
            field="schema_version",
            remedy="update twinloop",
        )
    said = document.pop("sha256", None)
    if said != _own_hash(document):
        raise DamagedTraceError("is not as it was saved: its hash differs", file=path / MANIFEST)
    written = document.pop("tables")
    try:
        manifest = Manifest.model_validate(document)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DamagedTraceError(first["msg"], file=path / MANIFEST, field=field) from None
    tables = {}
    for name in TABLES:
        expected = written.pop(f"{name}.parquet", None)
        if expected is not None:
            tables[name] = _table(path / f"{name}.parquet", name, expected)
        elif (path / f"{name}.parquet").exists():
            raise DamagedTraceError(
                "is there, but the manifest does not name it", file=path / f"{name}.parquet"
            )
    if written:
        raise DamagedTraceError(
            f"names tables that this program does not know: {', '.join(written)}",
            file=path / MANIFEST,
        )
    return tables, manifest


def _own_hash(document: dict[str, Any]) -> str:
    """The hash of what a manifest says, apart from this."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _document(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not path.is_dir():
        raise DamagedTraceError("is no folder" if path.exists() else "does not exist", file=path)
    if not file.is_file():
        raise DamagedTraceError(
            f"has no {MANIFEST}: it is unfinished, or no trace folder", file=path
        )
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise DamagedTraceError(f"is no JSON: {error}", file=file, line=line) from None
    if not isinstance(document, dict) or not isinstance(document.get("tables"), dict):
        raise DamagedTraceError("is no manifest of a trace", file=file)
    return document


def _bounded(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """The table, if no time and no power in it is beyond what can be one."""
    for field, column in TABLES[name].items():
        largest = {"s": LATEST_TIME, "W": LARGEST_POWER}.get(column.unit)
        if largest is None:
            continue
        values = table[field]
        beyond = values.is_finite() & (values.abs() > largest)
        if beyond.any():
            row = int(beyond.arg_true()[0])
            raise TwinloopError(
                f"{field} in row {row + 1}: {values[row]:g} {column.unit} is beyond "
                f"{largest:g} {column.unit}, the largest that is taken"
            )
    return table


def _table(file: Path, name: str, expected: Any) -> pl.DataFrame:
    if not file.is_file():
        raise DamagedTraceError("is missing, but the manifest names it", file=file)
    if not isinstance(expected, dict) or sha256(file) != expected.get("sha256"):
        raise DamagedTraceError("is not the file that was saved: its hash differs", file=file)
    check_parquet(file, [column.dtype for column in TABLES[name].values()])
    try:
        return _bounded(conform(name, pl.read_parquet(os.fspath(file))), name)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DamagedTraceError(f"cannot be read: {error}", file=file) from None
    except TwinloopError as error:
        raise DamagedTraceError(str(error).splitlines()[0], file=file) from None
