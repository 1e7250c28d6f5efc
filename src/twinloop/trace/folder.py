"""Trace folders: one Parquet file per table, and `manifest.json`.

The manifest lists every table with its number of rows and its hash, and has a hash of itself.
Measured times are in `timings.json`, which no hash covers: the same scenario and seed give the
same bytes in all other files. The folder is written under a temporary name and renamed when it is
complete, so that a folder that does not match its manifest must have been damaged later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl
import pydantic

from twinloop.description.errors import DamagedTraceError, InputError, TwinloopError
from twinloop.description.files import hash_file, write_folder_atomically
from twinloop.description.locks import LOCK_FILE
from twinloop.description.quantities import MAX_POWER, MAX_TIME
from twinloop.description.replacement import OwnedFiles, OwnershipRule
from twinloop.trace.manifest import Manifest
from twinloop.trace.parquet import read_parquet, to_exact_path
from twinloop.trace.stored_workload import FILES as WORKLOAD_FILES
from twinloop.trace.stored_workload import (
    StorableWorkload,
    StoredWorkload,
    read_workload,
    write_workload,
)
from twinloop.trace.tables import SCHEMA_VERSION, TABLES, conform_table

MANIFEST = "manifest.json"
#: Measured times, which differ between runs of the same scenario; no hash covers this file.
TIMINGS: Final = "timings.json"
#: Files that a trace folder may have beside its manifest and its tables.
EXTRA_FILES: Final = (LOCK_FILE, TIMINGS)


def save_folder(
    tables: Mapping[str, pl.DataFrame],
    manifest: Manifest,
    path: Path,
    *,
    overwrite: bool,
    owner: OwnershipRule | None = None,
    timings: Mapping[str, float] | None = None,
    workload: StorableWorkload | None = None,
) -> Path:
    """Write tables, manifest and stored workload as the folder `path`, atomically.

    With `overwrite`, an existing folder is replaced if it contains only a trace of the same kind;
    `owner` returns further files that may be replaced.
    """
    if path.exists() and not overwrite:
        raise InputError(
            "exists already", kind="output-exists", file=path, remedy="overwrite=True replaces it"
        )
    with write_folder_atomically(path, owner or make_ownership_rule(manifest.kind)) as new:
        if timings:
            text = json.dumps(dict(timings), indent=2) + "\n"
            (new / TIMINGS).write_text(text, encoding="utf-8")
        write_tables(tables, manifest, new, workload=workload)
    return path


def find_owned_files(path: Path) -> OwnedFiles:
    """Find the files of a trace in a folder, by its manifest; raise an error if it has none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as temporary:
    ...     run = save_folder({}, Manifest(), Path(temporary, "run"), overwrite=False)
    ...     "manifest.json" in find_owned_files(run).files
    True
    """
    return OwnedFiles.of([MANIFEST, *EXTRA_FILES, *_list_files(_read_manifest(path))])


def make_ownership_rule(kind: str) -> OwnershipRule:
    """Make the rule for the files of a trace folder that a trace of this kind may replace.

    A recorded run is never replaced by a simulated one, nor a simulated run by a recorded one:
    they are results of different commands.
    """

    def owner(path: Path) -> OwnedFiles:
        try:
            document = _read_manifest(path)
        except DamagedTraceError:
            return OwnedFiles()  # it is not a trace folder
        if document.get("kind") != kind:
            raise InputError(
                f"contains a trace of another kind ({document.get('kind')}, not {kind}), so it is "
                "not replaced",
                kind="not-replaceable",
                file=path,
                remedy="choose another name, or remove it yourself",
            )
        return find_owned_files(path)

    return owner


def _list_files(document: Mapping[str, Any]) -> list[str]:
    """List the files of a manifest that this version defines."""
    tables = [file for file in (f"{name}.parquet" for name in TABLES) if file in document["tables"]]
    return [*tables, *(WORKLOAD_FILES if document.get("workload") is not None else ())]


def write_tables(
    tables: Mapping[str, pl.DataFrame],
    manifest: Manifest,
    path: Path,
    *,
    workload: StorableWorkload | None = None,
) -> None:
    """Write tables and manifest into an existing folder; the manifest is written last.

    A folder without a manifest is not a trace, so that a half-written one is never read.
    """

    def write(frame: pl.DataFrame, name: str) -> dict[str, Any]:
        return _write_table(frame, path / name)

    entries = {
        f"{name}.parquet": write(frame, f"{name}.parquet")
        for name, frame in tables.items()
        if frame.height
    }
    document = manifest.model_dump(mode="json") | {"tables": entries}
    if workload is not None:
        document["workload"] = write_workload(workload.to_stored(), tables, write)
    document["sha256"] = _hash_manifest(document)
    unfinished = path / f".{MANIFEST}"
    unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path / MANIFEST)


def load_folder(path: Path) -> tuple[dict[str, pl.DataFrame], Manifest, StoredWorkload | None]:
    """Read a folder written by `save_folder`; check every file against the manifest."""
    document = _read_manifest(path)
    version = document.get("schema_version")
    if type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise DamagedTraceError(
            f"schema version {version!r} is not supported (1 to {SCHEMA_VERSION})",
            kind="unsupported-version",
            file=path / MANIFEST,
            field="schema_version",
            remedy="update twinloop",
        )
    expected_hash = document.pop("sha256", None)
    if expected_hash != _hash_manifest(document):
        raise DamagedTraceError(
            "has changed since it was saved: its hash differs",
            kind="hash-mismatch",
            file=path / MANIFEST,
        )
    entries = document.pop("tables")
    workload_entry = document.pop("workload", None)
    try:
        manifest = Manifest.model_validate(document)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        raise DamagedTraceError(
            problem["msg"], kind="damaged-file", file=path / MANIFEST, field=field
        ) from None
    tables = {}
    for name in TABLES:
        expected = entries.pop(f"{name}.parquet", None)
        if expected is not None:
            tables[name] = _load_table(path / f"{name}.parquet", name, expected)
        elif (path / f"{name}.parquet").exists():
            raise DamagedTraceError(
                "exists, but the manifest does not list it",
                kind="incomplete-trace",
                file=path / f"{name}.parquet",
            )
    if entries:
        raise DamagedTraceError(
            f"lists unknown tables: {', '.join(entries)}",
            kind="incomplete-trace",
            file=path / MANIFEST,
        )
    return tables, manifest, _read_workload(workload_entry, tables, path)


def _read_workload(
    entry: Any, tables: Mapping[str, pl.DataFrame], path: Path
) -> StoredWorkload | None:
    """Read the workload stored beside the tables of the run; None if the manifest has none."""
    read_files: set[str] = set()

    def read(name: str, expected: Any) -> pl.DataFrame:
        read_files.add(name)
        return _read_table(path / name, expected)

    workload = None if entry is None else read_workload(entry, tables, path / MANIFEST, read)
    for name in WORKLOAD_FILES:
        if name not in read_files and (path / name).exists():
            raise DamagedTraceError(
                "exists, but the manifest does not list it",
                kind="incomplete-trace",
                file=path / name,
            )
    return workload


def _write_table(frame: pl.DataFrame, file: Path) -> dict[str, Any]:
    """Write a table as a Parquet file; return its entry in the manifest."""
    unfinished = file.with_name(f".{file.name}")
    try:
        frame.write_parquet(to_exact_path(unfinished), compression="zstd")
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from None
    unfinished.replace(file)
    return {"rows": frame.height, "sha256": hash_file(file)}


def load_timings(path: Path) -> dict[str, float]:
    """Read the measured times of a trace folder; empty if they are missing or unreadable."""
    try:
        document = json.loads((path / TIMINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        name: float(value)
        for name, value in document.items()
        if type(value) in (int, float) and abs(value) < 1e15
    }


def _hash_manifest(document: dict[str, Any]) -> str:
    """Compute the hash of a manifest without its field `sha256`."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not path.is_dir():
        raise DamagedTraceError(
            "is not a folder" if path.exists() else "does not exist",
            kind="file-not-found",
            file=path,
        )
    if not file.is_file():
        raise DamagedTraceError(
            f"has no {MANIFEST}: it is incomplete, or not a trace folder",
            kind="incomplete-trace",
            file=path,
        )
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise DamagedTraceError(
            f"is not valid JSON: {error}", kind="damaged-file", file=file, line=line
        ) from None
    if not isinstance(document, dict) or not isinstance(document.get("tables"), dict):
        raise DamagedTraceError(
            "is not the manifest of a trace", kind="incomplete-trace", file=file
        )
    return document


def _check_range(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """Raise an error if a time or a power in a table is out of range; return the table."""
    for field, column in TABLES[name].items():
        limit = {"s": MAX_TIME, "W": MAX_POWER}.get(column.unit)
        if limit is None:
            continue
        values = table[field]
        out_of_range = values.is_finite() & (values.abs() > limit)
        if out_of_range.any():
            row = int(out_of_range.arg_true()[0])
            raise InputError(
                f"{field} in row {row + 1}: {values[row]:g} {column.unit} is beyond "
                f"{limit:g} {column.unit}, the largest value allowed",
                kind="out-of-range",
            )
    return table


def _load_table(file: Path, name: str, expected: Any) -> pl.DataFrame:
    frame = _read_table(file, expected, [column.dtype for column in TABLES[name].values()])
    try:
        return _check_range(conform_table(name, frame), name)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DamagedTraceError(
            f"cannot be read: {error}", kind="damaged-file", file=file
        ) from None
    except TwinloopError as error:
        raise DamagedTraceError(
            str(error).splitlines()[0], kind="damaged-file", file=file
        ) from None


def _read_table(file: Path, expected: Any, types: Iterable[Any] | None = None) -> pl.DataFrame:
    if not file.is_file():
        raise DamagedTraceError(
            "is missing, but the manifest lists it", kind="incomplete-trace", file=file
        )
    if not isinstance(expected, dict) or hash_file(file) != expected.get("sha256"):
        raise DamagedTraceError(
            "has changed since it was saved: its hash differs", kind="hash-mismatch", file=file
        )
    try:
        return read_parquet(file, types)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DamagedTraceError(
            f"cannot be read: {error}", kind="damaged-file", file=file
        ) from None
