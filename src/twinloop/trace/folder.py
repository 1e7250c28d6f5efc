"""A Trace on disk: a folder with one Parquet file per table, and `manifest.json`.

The manifest names every table with its rows and its hash, and holds a hash of itself. Measured
times stand in `timings.json`, which no hash covers: the same scenario and seed give the same bytes
of all else. The folder is written under another name and renamed when it is complete, so a folder
with a manifest that does not fit was damaged later.
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
#: Measured times, which differ between runs of the same scenario: no hash covers this file.
TIMINGS: Final = "timings.json"
#: Files that a trace folder may have beside its manifest and the tables that this names.
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
    """Write tables, manifest and kept workload as the folder `path`, whole or not at all.

    A folder that is there is replaced if asked, and if it is a trace of the same kind and nothing
    else; `owner` says of a folder of ours what else may be replaced.
    """
    if path.exists() and not overwrite:
        raise InputError("is there already", file=path, remedy="overwrite=True replaces it")
    with write_folder_atomically(path, owner or make_ownership_rule(manifest.kind)) as new:
        if timings:
            text = json.dumps(dict(timings), indent=2) + "\n"
            (new / TIMINGS).write_text(text, encoding="utf-8")
        write_tables(tables, manifest, new, workload=workload)
    return path


def find_owned_files(path: Path) -> OwnedFiles:
    """The files of a trace folder that its manifest names; an error if it is no trace folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as there:
    ...     run = save_folder({}, Manifest(), Path(there, "run"), overwrite=False)
    ...     "manifest.json" in find_owned_files(run).files
    True
    """
    return OwnedFiles.of([MANIFEST, *EXTRA_FILES, *_named(_document(path))])


def make_ownership_rule(kind: str) -> OwnershipRule:
    """Says which files of a trace folder may be replaced by a trace of this kind.

    A recorded run is not replaced by a simulated one, nor the other way round: it was written by
    another command, which would have to be given again.
    """

    def owner(path: Path) -> OwnedFiles:
        try:
            document = _document(path)
        except DamagedTraceError:
            return OwnedFiles()  # it is no trace, so nothing in it was written as one
        if document.get("kind") != kind:
            raise InputError(
                f"holds a trace of another kind ({document.get('kind')}, not {kind}), so it is not "
                "replaced",
                file=path,
                remedy="choose another name, or remove it yourself",
            )
        return find_owned_files(path)

    return owner


def _named(document: Mapping[str, Any]) -> list[str]:
    """The files that a manifest names, as far as this program knows them."""
    tables = [file for file in (f"{name}.parquet" for name in TABLES) if file in document["tables"]]
    return [*tables, *(WORKLOAD_FILES if document.get("workload") is not None else ())]


def write_tables(
    tables: Mapping[str, pl.DataFrame],
    manifest: Manifest,
    path: Path,
    *,
    workload: StorableWorkload | None = None,
) -> None:
    """Write tables and manifest into a folder that is there; the manifest comes last.

    A folder without a manifest is no trace, so one that is half written is never read as whole.
    """

    def write(frame: pl.DataFrame, name: str) -> dict[str, Any]:
        return _write_table(frame, path / name)

    written = {
        f"{name}.parquet": write(frame, f"{name}.parquet")
        for name, frame in tables.items()
        if frame.height
    }
    document = manifest.model_dump(mode="json") | {"tables": written}
    if workload is not None:
        document["workload"] = write_workload(workload.to_stored(), tables, write)
    document["sha256"] = _hash_manifest(document)
    unfinished = path / f".{MANIFEST}"
    unfinished.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(path / MANIFEST)


def load_folder(path: Path) -> tuple[dict[str, pl.DataFrame], Manifest, StoredWorkload | None]:
    """Read what `save_folder` wrote; check every file against the manifest."""
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
    if said != _hash_manifest(document):
        raise DamagedTraceError("is not as it was saved: its hash differs", file=path / MANIFEST)
    written = document.pop("tables")
    kept = document.pop("workload", None)
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
    return tables, manifest, _read_workload(kept, tables, path)


def _read_workload(
    said: Any, tables: Mapping[str, pl.DataFrame], path: Path
) -> StoredWorkload | None:
    """The workload that is kept beside the tables of the run; None: the manifest names none."""
    named: set[str] = set()

    def read(name: str, expected: Any) -> pl.DataFrame:
        named.add(name)
        return _read_table(path / name, expected)

    found = None if said is None else read_workload(said, tables, path / MANIFEST, read)
    for name in WORKLOAD_FILES:
        if name not in named and (path / name).exists():
            raise DamagedTraceError("is there, but the manifest does not name it", file=path / name)
    return found


def _write_table(frame: pl.DataFrame, file: Path) -> dict[str, Any]:
    """Write a table as a file; its rows and its hash, as the manifest names them."""
    unfinished = file.with_name(f".{file.name}")
    try:
        frame.write_parquet(to_exact_path(unfinished), compression="zstd")
    except pl.exceptions.PolarsError as error:
        raise OSError(str(error)) from None
    unfinished.replace(file)
    return {"rows": frame.height, "sha256": hash_file(file)}


def load_timings(path: Path) -> dict[str, float]:
    """The measured times of a trace folder; none where they are missing or cannot be read."""
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
        largest = {"s": MAX_TIME, "W": MAX_POWER}.get(column.unit)
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
    frame = _read_table(file, expected, [column.dtype for column in TABLES[name].values()])
    try:
        return _bounded(conform_table(name, frame), name)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DamagedTraceError(f"cannot be read: {error}", file=file) from None
    except TwinloopError as error:
        raise DamagedTraceError(str(error).splitlines()[0], file=file) from None


def _read_table(file: Path, expected: Any, types: Iterable[Any] | None = None) -> pl.DataFrame:
    if not file.is_file():
        raise DamagedTraceError("is missing, but the manifest names it", file=file)
    if not isinstance(expected, dict) or hash_file(file) != expected.get("sha256"):
        raise DamagedTraceError("is not the file that was saved: its hash differs", file=file)
    try:
        return read_parquet(file, types)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DamagedTraceError(f"cannot be read: {error}", file=file) from None
