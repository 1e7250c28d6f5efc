"""The workload that a scenario held in memory: out of the trace of its run, and in a folder."""

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
    """The Trace or Workload that was kept with a run.

    >>> log = Trace()
    >>> restore_workload(log.to_stored()) == log
    True
    """
    if isinstance(workload, Trace | Workload):
        return workload
    kept: StoredWorkload = workload.to_stored()
    if kept.kind == "Workload":
        return workload_from_stored(kept)
    try:
        manifest = Manifest.model_validate(kept.facts)
    except pydantic.ValidationError as error:
        raise InputError(f"is no kept trace: {error.errors()[0]['msg']}") from None
    return Trace(manifest=manifest, **kept.tables)


def save_workload(workload: Trace | Workload, path: Path) -> Path:
    """Write a workload as a trace folder that a scenario can name; what is there is replaced.

    A Trace has no place for all that a Workload says, so the Workload is kept with it as it is.

    >>> import tempfile
    >>> import polars as pl
    >>> workload = Workload(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "speed": [2.0]}))
    >>> with tempfile.TemporaryDirectory() as there:
    ...     path = save_workload(workload, Path(there) / "workload")
    ...     unpack_workload(Trace.load(path)) == workload
    True
    """
    if isinstance(workload, Workload):
        workload = workload.to_trace().with_workload(workload)
    # The folder belongs to what keeps the workload: any trace in it may make room for another.
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
    """The scenario with a workload in memory written into a folder, and named by its path.

    Without a name it is kept by its hash, once for all scenarios that share it.
    """
    held = scenario.workload.object
    if held is None:
        return scenario
    path = workload_folder(folder, held.content_hash()) if name is None else folder / name
    if name is not None or not path.exists():
        save_workload(held, path)
    # Relative, so that a file beside the folder names it relatively and both can be moved.
    place = Path(os.path.relpath(path)).as_posix()
    described = scenario.workload.model_copy(update={"object": None, "path": place})
    return scenario.replace(workload=described)


def workload_folder(folder: Path, sha256: str) -> Path:
    """Where a folder of results keeps a workload that was held in memory, by its hash.

    >>> workload_folder(Path("fit"), 64 * "a").as_posix()
    'fit/workload-aaaaaaaaaaaa'
    """
    if not re.fullmatch("[0-9a-f]{64}", str(sha256)):
        raise InputError("is no hash", field="workload.sha256")
    return folder / f"workload-{sha256[:12]}"


def read_scenario(kept: Mapping[str, Any], folder: Path) -> Scenario:
    """A scenario as the manifest of a folder of results has it, with the workload kept there."""
    from twinloop.scenario.scenario import Scenario

    noted = kept["workload"]
    if "object" not in noted or "sha256" not in noted:
        return Scenario.from_manifest(kept)
    place = workload_folder(folder, noted["sha256"])
    held = unpack_workload(Trace.load(place)) if place.is_dir() else None
    return Scenario.from_manifest(kept, workload=held)


def unpack_workload(trace: Trace) -> Trace | Workload:
    """What was given to `save_workload`: the Workload itself, if the trace was made of one."""
    if trace.manifest.kind != "generated" or trace.workload is None:
        return trace
    return restore_workload(trace.workload)
