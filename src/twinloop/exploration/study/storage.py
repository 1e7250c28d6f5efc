"""The folder of a study: what was asked, what came out, and a copy of the fit."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

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

#: What the journal of every study begins with.
HEADER: Final = {"study": 1}
_AGAIN: Final = "give the same `twinloop explore` again: it writes it anew, and keeps all runs"
#: What the folder of the fit begins with.
FITTED: Final = "fit-"


def save_plan(
    folder: Path, scenario: Scenario, design: Design, plan: StudyPlan, fit: Fit | None, by: str
) -> None:
    """Write what is asked, before anything runs."""
    told = {
        "twinloop": __version__,
        "scenario": scenario.to_manifest(),
        "design": design.to_dict(),
        "by": by,
        "baseline": [run.key for run in plan.baseline],
        "keys": [run.key for run in plan.runs],
        "notes": list(plan.notes),
        "inputs": dict(plan.inputs),
        "fit": None if fit is None else _keep_fit(folder, fit),
    }
    with write_atomically(folder / MANIFEST) as stream:
        stream.write(json.dumps(told, indent=1, allow_nan=False, default=str).encode())


def _keep_fit(folder: Path, fit: Fit) -> str:
    """A copy of the fit beside its study, under a name of its own: a study may get another one."""
    name = f"{FITTED}{hash_fit(fit)[:8]}"
    if not (folder / name / FIT_MANIFEST).exists():
        # Whole or not at all: one that was killed over it left some of it.
        new = folder / f".{name}"
        for left in (new, folder / name):
            shutil.rmtree(left, ignore_errors=True)
        fit.save(new).rename(folder / name)
    return name


def hash_fit(fit: Fit) -> str:
    """What tells two fits apart: their values, and the calibrations that the data allows."""
    told = json.dumps(fit.values, sort_keys=True, default=str).encode()
    if fit.draws is not None:
        told += fit.draws.write_csv().encode()
    return hashlib.sha256(told).hexdigest()


class _JournalRow(StoredJson):
    """What a line of the journal holds: a run that is over."""

    key: str
    kpis: dict[str, float | None] | None
    seconds: float
    error: str | None
    draws: dict[str, list[float]] = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    unknown: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _is_over(self) -> Self:
        if (self.kpis is None) == (self.error is None):
            raise ValueError("a run has either `kpis` or an `error`")
        if len(set(map(len, self.draws.values()))) > 1:
            raise ValueError("`draws` has more values of one KPI than of another")
        return self


def read_results(
    rows: Iterable[Any], file: Path | None = None, keys: Collection[str] = ()
) -> dict[str, Mapping[str, Any]]:
    """What became of each run, by its key; of a run that was made again, the last.

    Args:
        rows: What the journal holds.
        file: The journal, for errors.
        keys: The runs that are compared, so that all have draws of the same calibrations.

    >>> read_results([{"key": "a", "kpis": {}, "seconds": 0.1, "error": None}]).keys()
    dict_keys(['a'])
    """
    found: dict[str, Mapping[str, Any]] = {}
    compared = frozenset(keys)
    draws = 0
    for number, row in enumerate(rows, start=2):
        checked = check_shape(row, _JournalRow, file, TRUNCATE_REMEDY, line=number)
        found[checked.key] = row
        here = len(next(iter(checked.draws.values()), ()))
        if here and checked.key in compared:
            draws = draws or here
            if here != draws:
                said = f"has {here} values of each KPI, where runs before have {draws}"
                raise InputError(
                    said, file=file, line=number, field="draws", remedy=TRUNCATE_REMEDY
                )
    return found


def is_study(folder: Path) -> bool:
    """Whether a folder keeps a study; another program may call a file of its own `study.json`.

    >>> is_study(Path("nowhere"))
    False
    """
    try:
        kept = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return (folder / MANIFEST).is_file() and (folder / JOURNAL).is_file()  # a damaged one
    return isinstance(kept, dict) and {"twinloop", "design", "keys"} <= kept.keys()


class _StudyFile(StoredJson):
    """What `study.json` holds."""

    scenario: dict[str, Any]
    design: dict[str, Any]
    keys: list[str]
    baseline: list[str]
    fit: str | None
    by: str
    notes: list[str] = Field(default_factory=list)
    inputs: dict[str, str | None] | None = None


def load_study(folder: Path, *, allow_code: bool = False) -> Study:
    """The study that is kept in a folder, as far as it has come."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError("no study is kept there", file=folder, remedy=f"it would have {MANIFEST}")
    kept = read_stored_json(path, _StudyFile, _AGAIN)
    try:
        design = Design.from_dict(kept.design)
        scenario = Scenario.from_manifest(kept.scenario)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        said = f"is damaged, or is of another version: {error}"
        raise InputError(said, file=path, remedy=_AGAIN) from None
    keys, baseline, fit, by = kept.keys, kept.baseline, kept.fit, kept.by
    configurations = tuple(design.configurations())
    pairs = [(each, seed) for seed in design.seeds or (None,) for each in configurations]
    if len(pairs) != len(keys) or len(baseline) != len(design.seeds or (None,)):
        said = "does not fit together: it is damaged, or of another version"
        raise InputError(said, file=path, remedy=_AGAIN)
    runs = tuple(
        StudyRun(
            each.number, _seed(each.changes, seed, scenario), add_seed(each.changes, seed), key
        )
        for (each, seed), key in zip(pairs, keys, strict=True)
    )
    as_it_is = tuple(
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
        as_it_is,
        None if fit is None else Fit.load(join_below(folder, fit, file=path, field="fit")),
        folder,
        by,
        allow_code,
        tuple(kept.notes),
        _inputs(kept),
    )


def _inputs(kept: _StudyFile) -> dict[str, str | None]:
    """The hashes of what was read; a study of before these were kept has those of its scenario."""
    if kept.inputs is not None:
        return kept.inputs
    found = kept.scenario.get("inputs")
    return dict(found) if isinstance(found, Mapping) else {}


def _seed(changes: Mapping[str, Any], seed: int | None, scenario: Scenario) -> int:
    return int(changes.get("seed", scenario.seed)) if seed is None else seed
