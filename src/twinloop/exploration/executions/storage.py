"""The folder of a study over real executions: its plan, and the results of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pydantic import Field

from twinloop import __version__
from twinloop.campaign import CampaignJournal
from twinloop.description.errors import InputError
from twinloop.description.files import write_atomically
from twinloop.description.saved_json import StoredJson
from twinloop.exploration.executions.design import ExecutionDesign
from twinloop.exploration.executions.measurements import MeasuredResults
from twinloop.exploration.executions.plan import ExecutionPlan, ExecutionRun, RecordedExecution
from twinloop.exploration.executions.study import ExecutionStudy
from twinloop.exploration.study.storage import MANIFEST_REMEDY, read_manifest, read_results
from twinloop.exploration.study.study import JOURNAL, MANIFEST

#: The first row of the journal of a study over real executions.
HEADER: Final = {"execution study": 1}


def save_execution_plan(
    folder: Path,
    design: ExecutionDesign,
    plan: ExecutionPlan,
    measured: MeasuredResults,
) -> None:
    """Write the manifest of a study before the first run."""
    manifest = {
        "twinloop": __version__,
        "design": design.to_dict(),
        "executions": [
            {"name": each.name, "path": each.path, "labels": dict(each.labels)}
            for each in plan.executions
        ],
        "measured": measured.values,
        "notes": list(measured.notes),
        "keys": [run.key for run in plan.runs],
        "inputs": dict(plan.inputs),
    }
    with write_atomically(folder / MANIFEST) as stream:
        stream.write(json.dumps(manifest, indent=1, allow_nan=False).encode())


def is_execution_study(folder: Path) -> bool:
    """Whether a folder contains a study over real executions.

    >>> is_execution_study(Path("nowhere"))
    False
    """
    try:
        stored = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and {"twinloop", "executions", "keys"} <= stored.keys()


class _StoredExecution(StoredJson):
    """An execution in the manifest."""

    name: str
    path: str
    labels: dict[str, str]


class _ExecutionStudyFile(StoredJson):
    """The contents of `study.json`."""

    design: dict[str, Any]
    executions: list[_StoredExecution]
    keys: list[str]
    measured: dict[str, dict[str, float]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    inputs: dict[str, str | None] = Field(default_factory=dict)


def load_execution_study(folder: Path) -> ExecutionStudy:
    """Read a study from its folder, with the results so far."""
    path = folder / MANIFEST
    stored = read_manifest(folder, _ExecutionStudyFile)
    try:
        design = ExecutionDesign.from_dict(stored.design)
    except ValueError as error:
        problem = f"is damaged or from another version: {error}"
        raise InputError(problem, kind="damaged-file", file=path, remedy=MANIFEST_REMEDY) from None
    executions = tuple(
        RecordedExecution(each.name, each.path, each.labels) for each in stored.executions
    )
    sets = design.sets()
    pairs = [(number, index) for number in range(len(executions)) for index in range(len(sets))]
    if len(pairs) != len(stored.keys):
        problem = "is inconsistent: it is damaged or from another version"
        raise InputError(problem, kind="damaged-file", file=path, remedy=MANIFEST_REMEDY)
    runs = tuple(ExecutionRun(*pair, key) for pair, key in zip(pairs, stored.keys, strict=True))
    journal = folder / JOURNAL
    rows = CampaignJournal.read_rows(journal) if journal.is_file() else ()
    results = read_results(rows, journal, set(stored.keys))
    return ExecutionStudy(
        design,
        executions,
        sets,
        runs,
        results,
        MeasuredResults(stored.measured, tuple(stored.notes)),
        folder,
        stored.inputs,
    )
