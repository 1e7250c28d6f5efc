"""The files of fits, studies, confirmations and loops, which `--overwrite` may replace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import polars as pl

from twinloop.calibration import fit as fits
from twinloop.description.errors import DamagedTraceError, InputError
from twinloop.description.file_names import join_below
from twinloop.description.locks import LOCK_FILE
from twinloop.description.replacement import OwnedFiles
from twinloop.execution.run_folder import find_command_file
from twinloop.execution.run_folder import find_run_files as find_execution_files
from twinloop.exploration.closed_loop.result import (
    CONFIRMATION,
    FIT,
    MANIFEST,
    PROBES,
    RATES,
    REAL,
    STUDY,
    TWIN,
    read_loop_manifest,
)
from twinloop.exploration.confirmation.plan import PLAN, RUNS
from twinloop.exploration.confirmation.result import MANIFEST as CONFIRMATION_MANIFEST
from twinloop.exploration.confirmation.result import TABLE
from twinloop.exploration.study import study as studies
from twinloop.exploration.study.plan import WORKLOAD
from twinloop.exploration.study.tables import TABLES
from twinloop.trace.folder import find_owned_files as find_trace_files
from twinloop.trace.parquet import read_parquet

#: The report of a folder, and the text report of fits and confirmations.
_PAGE: Final = "report.html"
_PAGES: Final = (_PAGE, "report.md")
_FIT_FOLDER: Final = re.compile(r"fit-[0-9a-f]{8}")
_WORKLOAD_FOLDER: Final = re.compile(r"workload-[0-9a-f]{12}")


def list_loop_files(folder: Path) -> OwnedFiles:
    """List the files of a loop from its manifest; an error if the folder is not a loop."""
    try:
        content = read_loop_manifest(folder) or {}
    except InputError:
        content = {}
    plan = content.get("plan")
    probes = plan.get("probes") if isinstance(plan, dict) else None
    beginning = OwnedFiles.of([RATES, LOCK_FILE]) | find_command_file(folder)
    if set(_list_names(folder)) <= beginning.files:  # interrupted before its manifest was written
        return beginning
    if "twinloop" not in content or not isinstance(probes, dict):
        raise InputError(
            "exists and is not a loop, so it is not replaced",
            kind="not-replaceable",
            file=folder,
            remedy="choose another name, or remove it",
        )
    found = beginning | OwnedFiles.of([MANIFEST, _PAGE])
    found |= _find_run_files(folder / REAL).add_prefix(REAL) | _find_run_files(
        folder / TWIN
    ).add_prefix(TWIN)
    for name in probes:
        place = join_below(folder / PROBES, name, file=folder / MANIFEST, field="plan.probes")
        found |= _find_run_files(place).add_prefix(f"{PROBES}/{name}")
    found |= list_fit_files(folder / FIT).add_prefix(FIT)
    found |= list_study_files(folder / STUDY).add_prefix(STUDY)
    copied = content.get("offline") is True
    return found | list_confirmation_files(folder / CONFIRMATION, copied=copied).add_prefix(
        CONFIRMATION
    )


def list_fit_files(folder: Path) -> OwnedFiles:
    """List the files of a fit, finished or not.

    >>> "fit.json" in list_fit_files(Path("nowhere")).files
    True
    """
    content = _read_json(folder / fits.MANIFEST)
    scenarios = content.get("scenarios")
    count = len(scenarios) if isinstance(scenarios, list) else 1
    return (
        find_command_file(folder)
        | _find_workload_files(folder)
        | OwnedFiles.of(
            [
                *(fits.MANIFEST, fits.JOURNAL, f"power-{fits.JOURNAL}"),
                *(
                    fits.HISTORY,
                    fits.CONFIDENCE_REGION,
                    fits.DRAWS,
                    "choice.csv",
                    *_PAGES,
                    "scenario.yaml",
                ),
                *(f"scenario-{number}.yaml" for number in range(2, count + 1)),
            ]
        )
    )


def list_study_files(folder: Path) -> OwnedFiles:
    """List the files of a study, with copies of its fits and of a workload in memory.

    >>> "runs.csv" in list_study_files(Path("nowhere")).files
    True
    """
    tables = [f"{name}.{suffix}" for name in TABLES for suffix in ("csv", "parquet")]
    found = OwnedFiles.of([studies.MANIFEST, studies.JOURNAL, _PAGE, *tables])
    found |= _find_run_files(folder / WORKLOAD).add_prefix(WORKLOAD)
    for name in _list_names(folder):
        if _FIT_FOLDER.fullmatch(name.removeprefix(".")):
            found |= list_fit_files(folder / name).add_prefix(name)
    return found


def list_confirmation_files(folder: Path, *, copied: bool = False) -> OwnedFiles:
    """List the files of a confirmation, with the runs in its plan or its table.

    Args:
        folder: The folder of the confirmation.
        copied: Whether all its runs are copies of runs stored elsewhere.
    """
    found = OwnedFiles.of([PLAN, CONFIRMATION_MANIFEST, TABLE, LOCK_FILE, *_PAGES])
    found |= find_command_file(folder) | _find_workload_files(folder)
    planned = set(_list_planned_runs(folder))
    for name in _list_names(folder / RUNS):
        place = folder / RUNS / name
        if place.is_dir() and (copied or name in planned):
            found |= _find_run_files(place).add_prefix(f"{RUNS}/{name}")
        elif copied and any(name.startswith(f"{run}.") for run in planned):  # the log of a run
            found |= OwnedFiles.of([f"{RUNS}/{name}"])
    return found | (OwnedFiles(trees=frozenset({f".{RUNS}"})) if copied else OwnedFiles())


def _list_planned_runs(folder: Path) -> Iterator[str]:
    """Generate the names of the runs of a confirmation."""
    runs = _read_json(folder / PLAN).get("runs")
    for run in runs if isinstance(runs, list) else ():
        if isinstance(run, dict) and isinstance(run.get("name"), str):
            yield run["name"]
    if not (folder / TABLE).is_file():
        return
    try:
        paths = read_parquet(folder / TABLE)["trace"].drop_nulls().to_list()
    except (pl.exceptions.PolarsError, OSError):
        return
    yield from (str(path).removeprefix(f"{RUNS}/") for path in paths)


def _find_workload_files(folder: Path) -> OwnedFiles:
    """Find the files of stored workloads, each in a folder named by its hash."""
    found = OwnedFiles()
    for name in _list_names(folder):
        if _WORKLOAD_FOLDER.fullmatch(name):
            found |= _find_run_files(folder / name).add_prefix(name)
    return found


def _find_run_files(folder: Path) -> OwnedFiles:
    """Find the files of a run or of another trace; empty if there is neither."""
    try:
        return find_execution_files(folder)
    except InputError:
        pass  # not an executed run
    try:
        return find_trace_files(folder)
    except DamagedTraceError:
        return OwnedFiles()


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _list_names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
