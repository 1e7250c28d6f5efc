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
from twinloop.description.file_names import below
from twinloop.description.locks import LOCK
from twinloop.description.replacement import Owned
from twinloop.execution.run_folder import owned as owned_by_run
from twinloop.execution.run_folder import owned_commands
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
from twinloop.trace.folder import owned as owned_by_trace
from twinloop.trace.parquet import read_parquet

#: The page that is drawn from a folder, and the text that fits and confirmations have besides.
_PAGE: Final = "report.html"
_PAGES: Final = (_PAGE, "report.md")
_FITTED: Final = re.compile(r"fit-[0-9a-f]{8}")
_KEPT: Final = re.compile(r"workload-[0-9a-f]{12}")


def list_loop_files(folder: Path) -> Owned:
    """The files of a loop, as its `loop.json` names its parts; an error if it is no loop."""
    try:
        kept = read_loop_manifest(folder) or {}
    except InputError:
        kept = {}
    plan = kept.get("plan")
    probes = plan.get("probes") if isinstance(plan, dict) else None
    beginning = Owned.of([RATES, LOCK]) | owned_commands(folder)
    if set(_names(folder)) <= beginning.files:  # one that ended before it was described
        return beginning
    if "twinloop" not in kept or not isinstance(probes, dict):
        raise InputError(
            "is there and is no loop, so it is not replaced",
            file=folder,
            remedy="choose another name, or remove it yourself",
        )
    found = beginning | Owned.of([MANIFEST, _PAGE])
    found |= _owned_run(folder / REAL).inside(REAL) | _owned_run(folder / TWIN).inside(TWIN)
    for name in probes:
        place = below(folder / PROBES, name, file=folder / MANIFEST, field="plan.probes")
        found |= _owned_run(place).inside(f"{PROBES}/{name}")
    found |= list_fit_files(folder / FIT).inside(FIT)
    found |= list_study_files(folder / STUDY).inside(STUDY)
    copied = kept.get("offline") is True
    return found | list_confirmation_files(folder / CONFIRMATION, copied=copied).inside(
        CONFIRMATION
    )


def list_fit_files(folder: Path) -> Owned:
    """The files of a fit, finished or not.

    >>> "fit.json" in list_fit_files(Path("nowhere")).files
    True
    """
    kept = _document(folder / fits.MANIFEST)
    scenarios = kept.get("scenarios")
    count = len(scenarios) if isinstance(scenarios, list) else 1
    return (
        owned_commands(folder)
        | _owned_workloads(folder)
        | Owned.of(
            [
                *(fits.MANIFEST, fits.JOURNAL, f"power-{fits.JOURNAL}"),
                *(fits.HISTORY, fits.CLOUD, fits.DRAWS, "choice.csv", *_PAGES, "scenario.yaml"),
                *(f"scenario-{number}.yaml" for number in range(2, count + 1)),
            ]
        )
    )


def list_study_files(folder: Path) -> Owned:
    """The files of a study, with the copies of its fits and of a workload that was in memory.

    >>> "runs.csv" in list_study_files(Path("nowhere")).files
    True
    """
    tables = [f"{name}.{suffix}" for name in TABLES for suffix in ("csv", "parquet")]
    found = Owned.of([studies.MANIFEST, studies.JOURNAL, _PAGE, *tables])
    found |= _owned_run(folder / WORKLOAD).inside(WORKLOAD)
    for name in _names(folder):
        if _FITTED.fullmatch(name.removeprefix(".")):
            found |= list_fit_files(folder / name).inside(name)
    return found


def list_confirmation_files(folder: Path, *, copied: bool = False) -> Owned:
    """The files of a confirmation, with the runs that its plan or its table names.

    Args:
        folder: Where it is kept.
        copied: Whether all runs in it are copies of runs that are kept elsewhere.
    """
    found = Owned.of([PLAN, CONFIRMATION_MANIFEST, TABLE, LOCK, *_PAGES])
    found |= owned_commands(folder) | _owned_workloads(folder)
    planned = set(_planned(folder))
    for name in _names(folder / RUNS):
        place = folder / RUNS / name
        if place.is_dir() and (copied or name in planned):
            found |= _owned_run(place).inside(f"{RUNS}/{name}")
        elif copied and any(name.startswith(f"{run}.") for run in planned):  # the log of a run
            found |= Owned.of([f"{RUNS}/{name}"])
    return found | (Owned(trees=frozenset({f".{RUNS}"})) if copied else Owned())


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


def _owned_workloads(folder: Path) -> Owned:
    """The workloads that were held in memory, each in a folder named by its hash."""
    found = Owned()
    for name in _names(folder):
        if _KEPT.fullmatch(name):
            found |= _owned_run(folder / name).inside(name)
    return found


def _owned_run(folder: Path) -> Owned:
    """The files of a run or of another trace; none where there is neither."""
    try:
        return owned_by_run(folder)
    except InputError:
        pass  # a trace that was not recorded here
    try:
        return owned_by_trace(folder)
    except DamagedTraceError:
        return Owned()


def _document(file: Path) -> dict[str, Any]:
    try:
        kept = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
