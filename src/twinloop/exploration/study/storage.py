"""The folder of a study: its plan, the results of its runs, and a copy of the fit."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from pydantic import Field, model_validator

from twinloop import __version__
from twinloop.calibration.fit import MANIFEST as FIT_MANIFEST
from twinloop.calibration.fit import Fit
from twinloop.campaign import CampaignJournal
from twinloop.campaign.journal import TRUNCATE_REMEDY
from twinloop.description.errors import InputError
from twinloop.description.file_names import join_below
from twinloop.description.files import write_atomically
from twinloop.description.saved_json import StoredJson, check_shape, read_stored_json
from twinloop.exploration.factors.design import Design
from twinloop.exploration.study.plan import StudyPlan, StudyRun, add_seed
from twinloop.exploration.study.study import JOURNAL, MANIFEST, Study
from twinloop.scenario import Scenario

#: The first row of the journal of a study.
HEADER: Final = {"study": 1}
#: What to do if the manifest of a study is damaged.
MANIFEST_REMEDY: Final = (
    "run the same `twinloop explore` again: it rewrites the file and keeps all runs"
)
#: Prefix of the name of the folder of the fit.
FIT_PREFIX: Final = "fit-"


def save_plan(
    folder: Path, scenario: Scenario, design: Design, plan: StudyPlan, fit: Fit | None, by: str
) -> None:
    """Write the manifest of a study before the first run."""
    manifest = {
        "twinloop": __version__,
        "scenario": scenario.to_manifest(),
        "design": design.to_dict(),
        "by": by,
        "baseline": [run.key for run in plan.baseline],
        "keys": [run.key for run in plan.runs],
        "notes": list(plan.notes),
        "inputs": dict(plan.inputs),
        "fit": None if fit is None else _store_fit(folder, fit),
    }
    with write_atomically(folder / MANIFEST) as stream:
        stream.write(json.dumps(manifest, indent=1, allow_nan=False, default=str).encode())


def _store_fit(folder: Path, fit: Fit) -> str:
    """Store a copy of the fit; return its name, which contains its hash.

    A study may be continued with another fit later.
    """
    name = f"{FIT_PREFIX}{hash_fit(fit)[:8]}"
    if not (folder / name / FIT_MANIFEST).exists():
        # The copy is renamed when it is complete; an interrupted one is removed.
        partial = folder / f".{name}"
        for incomplete in (partial, folder / name):
            shutil.rmtree(incomplete, ignore_errors=True)
        fit.save(partial).rename(folder / name)
    return name


def hash_fit(fit: Fit) -> str:
    """Return a hash of the values and the draws of a fit."""
    content = json.dumps(fit.values, sort_keys=True, default=str).encode()
    if fit.draws is not None:
        content += fit.draws.write_csv().encode()
    return hashlib.sha256(content).hexdigest()


class _JournalRow(StoredJson):
    """A row of the journal: the result of a run."""

    key: str
    kpis: dict[str, float | None] | None
    seconds: float
    error: str | None
    draws: dict[str, list[float]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    unknown: dict[str, str] = Field(default_factory=dict)
    cleaned: dict[str, int] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_result(self) -> Self:
        if (self.kpis is None) == (self.error is None):
            raise ValueError("a run has either `kpis` or an `error`")
        if len(set(map(len, self.draws.values()))) > 1:
            raise ValueError("`draws` has different numbers of values for different KPIs")
        return self


def read_results(
    rows: Iterable[Any], file: Path | None = None, keys: Collection[str] = ()
) -> dict[str, Mapping[str, Any]]:
    """Return the result of each run by its key; the last one of a repeated run.

    Args:
        rows: The rows of the journal.
        file: The journal, for error messages.
        keys: The keys of compared runs, which must have the same number of draws.

    >>> read_results([{"key": "a", "kpis": {}, "seconds": 0.1, "error": None}]).keys()
    dict_keys(['a'])
    """
    results: dict[str, Mapping[str, Any]] = {}
    compared = frozenset(keys)
    draws = 0
    for number, row in enumerate(rows, start=2):
        checked = check_shape(row, _JournalRow, file, TRUNCATE_REMEDY, line=number)
        results[checked.key] = row
        count = len(next(iter(checked.draws.values()), ()))
        if count and checked.key in compared:
            draws = draws or count
            if count != draws:
                problem = f"has {count} values of each KPI, but earlier runs have {draws}"
                raise InputError(
                    problem,
                    kind="damaged-file",
                    file=file,
                    line=number,
                    field="draws",
                    remedy=TRUNCATE_REMEDY,
                )
    return results


def is_study(folder: Path) -> bool:
    """Whether a folder contains a study, possibly damaged, not a `study.json` of another program.

    >>> is_study(Path("nowhere"))
    False
    """
    try:
        stored = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return (folder / MANIFEST).is_file() and (folder / JOURNAL).is_file()  # damaged
    return isinstance(stored, dict) and {"twinloop", "design", "keys"} <= stored.keys()


class _StudyFile(StoredJson):
    """The contents of `study.json`."""

    scenario: dict[str, Any]
    design: dict[str, Any]
    keys: list[str]
    baseline: list[str]
    fit: str | None
    by: str
    notes: list[str] = Field(default_factory=list)
    inputs: dict[str, str | None] | None = None


_Manifest = TypeVar("_Manifest", bound=StoredJson)


def read_manifest(folder: Path, kind: type[_Manifest]) -> _Manifest:
    """Read the manifest of a study from its folder."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            "contains no study" if folder.exists() else "does not exist",
            kind="not-a-result" if folder.exists() else "file-not-found",
            file=folder,
            remedy=f"the folder of a study contains {MANIFEST}",
        )
    return read_stored_json(path, kind, MANIFEST_REMEDY)


def load_study(folder: Path, *, allow_code: bool = False) -> Study:
    """Read a study from its folder, with the results so far."""
    path = folder / MANIFEST
    stored = read_manifest(folder, _StudyFile)
    try:
        design = Design.from_dict(stored.design)
        scenario = Scenario.from_manifest(stored.scenario)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        problem = f"is damaged or from another version: {error}"
        raise InputError(problem, kind="damaged-file", file=path, remedy=MANIFEST_REMEDY) from None
    keys, baseline, fit, by = stored.keys, stored.baseline, stored.fit, stored.by
    configurations = tuple(design.configurations())
    pairs = [(each, seed) for seed in design.seeds or (None,) for each in configurations]
    if len(pairs) != len(keys) or len(baseline) != len(design.seeds or (None,)):
        problem = "is inconsistent: it is damaged or from another version"
        raise InputError(problem, kind="damaged-file", file=path, remedy=MANIFEST_REMEDY)
    runs = tuple(
        StudyRun(
            each.number, _get_seed(each.changes, seed, scenario), add_seed(each.changes, seed), key
        )
        for (each, seed), key in zip(pairs, keys, strict=True)
    )
    baseline_runs = tuple(
        StudyRun(-1, scenario.seed if seed is None else seed, add_seed({}, seed), key)
        for seed, key in zip(design.seeds or (None,), baseline, strict=True)
    )
    journal = folder / JOURNAL
    rows = CampaignJournal.read_rows(journal) if journal.is_file() else ()
    return Study(
        scenario,
        design,
        configurations,
        runs,
        read_results(rows, journal, {*keys, *baseline}),
        baseline_runs,
        None if fit is None else Fit.load(join_below(folder, fit, file=path, field="fit")),
        folder,
        by,
        allow_code,
        tuple(stored.notes),
        _get_input_hashes(stored),
    )


def _get_input_hashes(stored: _StudyFile) -> dict[str, str | None]:
    """Return the hashes of the input files; old studies have only those of their scenario."""
    if stored.inputs is not None:
        return stored.inputs
    hashes = stored.scenario.get("inputs")
    return dict(hashes) if isinstance(hashes, Mapping) else {}


def _get_seed(changes: Mapping[str, Any], seed: int | None, scenario: Scenario) -> int:
    return int(changes.get("seed", scenario.seed)) if seed is None else seed
