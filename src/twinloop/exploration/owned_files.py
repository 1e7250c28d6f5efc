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

#: The page of a result, and the reports of fits and confirmations.
_REPORT: Final = "report.html"
_REPORTS: Final = (_REPORT, "report.md")
_FIT_FOLDER: Final = re.compile(r"fit-[0-9a-f]{8}")
_WORKLOAD_FOLDER: Final = re.compile(r"workload-[0-9a-f]{12}")


def list_loop_files(folder: Path) -> OwnedFiles:
    """List the files of a loop from its manifest; raise an error if the folder is not a loop."""
    try:
        content = read_loop_manifest(folder) or {}
    except InputError:
        content = {}
    plan = content.get("plan")
    probes = plan.get("probes") if isinstance(plan, dict) else None
    early_files = OwnedFiles.of([RATES, LOCK_FILE]) | find_command_file(folder)
    if set(_list_names(folder)) <= early_files.files:  # interrupted before the manifest was written
        return early_files
    if "twinloop" not in content or not isinstance(probes, dict):
        raise InputError(
            "exists and is not a loop, so it is not replaced",
            kind="not-replaceable",
            file=folder,
            remedy="choose another name, or remove it",
        )
    owned = early_files | OwnedFiles.of([MANIFEST, _REPORT])
    owned |= _find_run_files(folder / REAL).add_prefix(REAL) | _find_run_files(
        folder / TWIN
    ).add_prefix(TWIN)
    for name in probes:
        path = join_below(folder / PROBES, name, file=folder / MANIFEST, field="plan.probes")
        owned |= _find_run_files(path).add_prefix(f"{PROBES}/{name}")
    owned |= list_fit_files(folder / FIT).add_prefix(FIT)
    owned |= list_study_files(folder / STUDY).add_prefix(STUDY)
    is_copied = content.get("offline") is True
    return owned | list_confirmation_files(folder / CONFIRMATION, copied=is_copied).add_prefix(
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
                    *_REPORTS,
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
    owned = OwnedFiles.of([studies.MANIFEST, studies.JOURNAL, _REPORT, *tables])
    owned |= _find_run_files(folder / WORKLOAD).add_prefix(WORKLOAD)
    for name in _list_names(folder):
        if _FIT_FOLDER.fullmatch(name.removeprefix(".")):
            owned |= list_fit_files(folder / name).add_prefix(name)
    return owned


def list_confirmation_files(folder: Path, *, copied: bool = False) -> OwnedFiles:
    """List the files of a confirmation, with the runs in its plan or its table.

    Args:
        folder: The folder of the confirmation.
        copied: Whether all its runs are copies of runs stored elsewhere.
    """
    owned = OwnedFiles.of([PLAN, CONFIRMATION_MANIFEST, TABLE, LOCK_FILE, *_REPORTS])
    owned |= find_command_file(folder) | _find_workload_files(folder)
    planned = set(_list_planned_runs(folder))
    for name in _list_names(folder / RUNS):
        path = folder / RUNS / name
        if path.is_dir() and (copied or name in planned):
            owned |= _find_run_files(path).add_prefix(f"{RUNS}/{name}")
        elif copied and any(name.startswith(f"{run}.") for run in planned):  # the log of a run
            owned |= OwnedFiles.of([f"{RUNS}/{name}"])
    return owned | (OwnedFiles(trees=frozenset({f".{RUNS}"})) if copied else OwnedFiles())


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
    owned = OwnedFiles()
    for name in _list_names(folder):
        if _WORKLOAD_FOLDER.fullmatch(name):
            owned |= _find_run_files(folder / name).add_prefix(name)
    return owned


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
