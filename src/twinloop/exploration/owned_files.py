"""The files that fits, studies, confirmations and loops own: what may be replaced with them."""

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
from twinloop.execution.run_folder import find_run_files as owned_by_run
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
from twinloop.trace.folder import find_owned_files as owned_by_trace
from twinloop.trace.parquet import read_parquet

#: The page that is drawn from a folder, and the text that fits and confirmations have besides.
_PAGE: Final = "report.html"
_PAGES: Final = (_PAGE, "report.md")
_FITTED: Final = re.compile(r"fit-[0-9a-f]{8}")
_KEPT: Final = re.compile(r"workload-[0-9a-f]{12}")


def list_loop_files(folder: Path) -> OwnedFiles:
    """The files of a loop, as its `loop.json` names its parts; an error if it is no loop."""
    try:
        kept = read_loop_manifest(folder) or {}
    except InputError:
        kept = {}
    plan = kept.get("plan")
    probes = plan.get("probes") if isinstance(plan, dict) else None
    beginning = OwnedFiles.of([RATES, LOCK_FILE]) | find_command_file(folder)
    if set(_names(folder)) <= beginning.files:  # one that ended before it was described
        return beginning
    if "twinloop" not in kept or not isinstance(probes, dict):
        raise InputError(
            "is there and is no loop, so it is not replaced",
            file=folder,
            remedy="choose another name, or remove it yourself",
        )
    found = beginning | OwnedFiles.of([MANIFEST, _PAGE])
    found |= _owned_run(folder / REAL).add_prefix(REAL) | _owned_run(folder / TWIN).add_prefix(TWIN)
    for name in probes:
        place = join_below(folder / PROBES, name, file=folder / MANIFEST, field="plan.probes")
        found |= _owned_run(place).add_prefix(f"{PROBES}/{name}")
    found |= list_fit_files(folder / FIT).add_prefix(FIT)
    found |= list_study_files(folder / STUDY).add_prefix(STUDY)
    copied = kept.get("offline") is True
    return found | list_confirmation_files(folder / CONFIRMATION, copied=copied).add_prefix(
        CONFIRMATION
    )


def list_fit_files(folder: Path) -> OwnedFiles:
    """The files of a fit, finished or not.

    >>> "fit.json" in list_fit_files(Path("nowhere")).files
    True
    """
    kept = _document(folder / fits.MANIFEST)
    scenarios = kept.get("scenarios")
    count = len(scenarios) if isinstance(scenarios, list) else 1
    return (
        find_command_file(folder)
        | _owned_workloads(folder)
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
    """The files of a study, with the copies of its fits and of a workload that was in memory.

    >>> "runs.csv" in list_study_files(Path("nowhere")).files
    True
    """
    tables = [f"{name}.{suffix}" for name in TABLES for suffix in ("csv", "parquet")]
    found = OwnedFiles.of([studies.MANIFEST, studies.JOURNAL, _PAGE, *tables])
    found |= _owned_run(folder / WORKLOAD).add_prefix(WORKLOAD)
    for name in _names(folder):
        if _FITTED.fullmatch(name.removeprefix(".")):
            found |= list_fit_files(folder / name).add_prefix(name)
    return found


def list_confirmation_files(folder: Path, *, copied: bool = False) -> OwnedFiles:
    """The files of a confirmation, with the runs that its plan or its table names.

    Args:
        folder: Where it is kept.
        copied: Whether all runs in it are copies of runs that are kept elsewhere.
    """
    found = OwnedFiles.of([PLAN, CONFIRMATION_MANIFEST, TABLE, LOCK_FILE, *_PAGES])
    found |= find_command_file(folder) | _owned_workloads(folder)
    planned = set(_planned(folder))
    for name in _names(folder / RUNS):
        place = folder / RUNS / name
        if place.is_dir() and (copied or name in planned):
            found |= _owned_run(place).add_prefix(f"{RUNS}/{name}")
        elif copied and any(name.startswith(f"{run}.") for run in planned):  # the log of a run
            found |= OwnedFiles.of([f"{RUNS}/{name}"])
    return found | (OwnedFiles(trees=frozenset({f".{RUNS}"})) if copied else OwnedFiles())


def _planned(folder: Path) -> Iterator[str]:
    """The names of the runs of a confirmation."""
    runs = _document(folder / PLAN).get("runs")
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


def _owned_workloads(folder: Path) -> OwnedFiles:
    """The workloads that were held in memory, each in a folder named by its hash."""
    found = OwnedFiles()
    for name in _names(folder):
        if _KEPT.fullmatch(name):
            found |= _owned_run(folder / name).add_prefix(name)
    return found


def _owned_run(folder: Path) -> OwnedFiles:
    """The files of a run or of another trace; none where there is neither."""
    try:
        return owned_by_run(folder)
    except InputError:
        pass  # a trace that was not recorded here
    try:
        return owned_by_trace(folder)
    except DamagedTraceError:
        return OwnedFiles()


def _document(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
