"""The folder of a study: what was asked, what came out, and a copy of the fit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from twinloop import __version__
from twinloop.calibrate.fit import Fit
from twinloop.explore.design import Design
from twinloop.explore.planning import Plan, Run, seeded
from twinloop.explore.study import JOURNAL, MANIFEST, Study
from twinloop.scenario import Scenario
from twinloop.trace.errors import InputError
from twinloop.trace.files import writing

#: What the journal of every study begins with.
HEADER: Final = {"study": 1}


def keep(
    folder: Path, scenario: Scenario, design: Design, plan: Plan, fit: Fit | None, by: str
) -> None:
    """Write what is asked, before anything runs."""
    told = {
        "twinloop": __version__,
        "scenario": scenario.to_manifest(),
        "design": design.to_dict(),
        "by": by,
        "baseline": plan.baseline,
        "keys": [run.key for run in plan.runs],
        "fit": None if fit is None else _keep_fit(folder, fit),
    }
    with writing(folder / MANIFEST) as stream:
        stream.write(json.dumps(told, indent=1, allow_nan=False, default=str).encode())


def _keep_fit(folder: Path, fit: Fit) -> str:
    """A copy of the fit beside its study, under a name of its own: a study may get another one."""
    name = f"fit-{digest_of(fit)[:8]}"
    if not (folder / name).exists():
        fit.save(folder / name)
    return name


def digest_of(fit: Fit) -> str:
    """What tells two fits apart: their values, and the calibrations that the data allows."""
    told = json.dumps(fit.values, sort_keys=True, default=str).encode()
    if fit.draws is not None:
        told += fit.draws.write_csv().encode()
    return hashlib.sha256(told).hexdigest()


def results_in(rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """What became of each run, by its key; of a run that was made again, the last."""
    return {row["key"]: row for row in rows}


def loaded(folder: Path) -> Study:
    """The study that is kept in a folder, as far as it has come."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError("no study is kept there", file=folder, remedy=f"it would have {MANIFEST}")
    try:
        kept = json.loads(path.read_bytes())
        design = Design.from_dict(kept["design"])
        scenario = Scenario.from_manifest(kept["scenario"])
        keys, baseline, fit, by = (kept[name] for name in ("keys", "baseline", "fit", "by"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    configurations = tuple(design.configurations())
    pairs = [(each, seed) for seed in design.seeds or (None,) for each in configurations]
    if len(pairs) != len(keys):
        raise InputError("does not fit together: it was written by another version", file=path)
    runs = tuple(
        Run(each.number, _seed(each.changes, seed, scenario), seeded(each.changes, seed), key)
        for (each, seed), key in zip(pairs, keys, strict=True)
    )
    return Study(
        scenario,
        design,
        configurations,
        runs,
        results_in(_rows(folder / JOURNAL)),
        baseline,
        None if fit is None else Fit.load(folder / fit),
        folder,
        by,
    )


def _seed(changes: Mapping[str, Any], seed: int | None, scenario: Scenario) -> int:
    return int(changes.get("seed", scenario.seed)) if seed is None else seed


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    """The rows of a journal that somebody may be writing: one that is not whole is left out."""
    if not path.is_file():
        return
    with path.open("rb") as lines:
        next(lines, None)
        for line in lines:
            if not line.endswith(b"\n"):
                return
            try:
                yield json.loads(line)
            except ValueError:
                return
