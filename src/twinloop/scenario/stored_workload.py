"""Storage of workloads that are objects in memory: with the trace of a run, or in a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from twinloop.description.errors import InputError
from twinloop.trace import Manifest, Trace
from twinloop.trace.folder import find_owned_files, save_folder
from twinloop.trace.stored_workload import StorableWorkload, StoredWorkload
from twinloop.workload import Workload
from twinloop.workload.stored_workload import workload_from_stored

if TYPE_CHECKING:
    from twinloop.scenario.scenario import Scenario


def restore_workload(workload: StorableWorkload) -> Trace | Workload:
    """Restore the Trace or Workload that is stored with a run.

    >>> log = Trace()
    >>> restore_workload(log.to_stored()) == log
    True
    """
    if isinstance(workload, Trace | Workload):
        return workload
    stored: StoredWorkload = workload.to_stored()
    if stored.kind == "Workload":
        return workload_from_stored(stored)
    try:
        manifest = Manifest.model_validate(stored.facts)
    except pydantic.ValidationError as error:
        raise InputError(
            f"is not a stored trace: {error.errors()[0]['msg']}", kind="damaged-file"
        ) from None
    return Trace(manifest=manifest, **stored.tables)


def save_workload(workload: Trace | Workload, path: Path) -> Path:
    """Write a workload as a trace folder for use in a scenario; an existing one is replaced.

    A Trace cannot represent all of a Workload, so the Workload itself is stored with it.

    >>> import tempfile
    >>> import polars as pl
    >>> workload = Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "speed": [2.0]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_workload(workload, Path(folder) / "workload")
    ...     unpack_workload(Trace.load(path)) == workload
    True
    """
    if isinstance(workload, Workload):
        workload = workload.to_trace().with_workload(workload)
    # The folder is reserved for the workload: any trace in it may be replaced.
    return save_folder(
        workload.tables,
        workload.manifest,
        path,
        overwrite=True,
        owner=find_owned_files,
        timings=workload.timings,
        workload=workload.workload,
    )


def store_workload(scenario: Scenario, folder: Path, name: str | None = None) -> Scenario:
    """Write the workload in memory of a scenario into a folder; return the scenario with its path.

    A scenario without a workload in memory is returned unchanged. Without a `name` the workload
    is stored under its hash, once for all scenarios that share it.
    """
    workload = scenario.workload.object
    if workload is None:
        return scenario
    path = workload_folder(folder, workload.content_hash()) if name is None else folder / name
    if name is not None or not path.exists():
        save_workload(workload, path)
    # A relative path, so that the folder can be moved together with the scenario file.
    relative_path = Path(os.path.relpath(path)).as_posix()
    described = scenario.workload.model_copy(update={"object": None, "path": relative_path})
    return scenario.replace(workload=described)


def workload_folder(folder: Path, sha256: str) -> Path:
    """Return the folder of a stored workload within a folder of results, by its hash.

    >>> workload_folder(Path("fit"), 64 * "a").as_posix()
    'fit/workload-aaaaaaaaaaaa'
    """
    if not re.fullmatch("[0-9a-f]{64}", str(sha256)):
        raise InputError("is not a SHA-256 hash", kind="wrong-type", field="workload.sha256")
    return folder / f"workload-{sha256[:12]}"


def read_scenario(values: Mapping[str, Any], folder: Path) -> Scenario:
    """Read the scenario of a manifest of results, with the workload stored in their folder."""
    from twinloop.scenario.scenario import Scenario

    described = values["workload"]
    if "object" not in described or "sha256" not in described:
        return Scenario.from_manifest(values)
    stored_folder = workload_folder(folder, described["sha256"])
    stored = unpack_workload(Trace.load(stored_folder)) if stored_folder.is_dir() else None
    return Scenario.from_manifest(values, workload=stored)


def unpack_workload(trace: Trace) -> Trace | Workload:
    """Return the object that `save_workload` wrote: the stored Workload, or the trace itself.

    A trace that `save_workload` did not write is returned itself.
    """
    if trace.manifest.kind != "generated" or trace.workload is None:
        return trace
    return restore_workload(trace.workload)
