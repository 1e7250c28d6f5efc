"""Calibration of all versions of a scenario at several levels of detail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from twinloop.calibration.detail.levels import Levels
from twinloop.calibration.detail.plan import DetailPlan
from twinloop.calibration.detail.spec_sheet import SpecSheet
from twinloop.calibration.detail.study import MANIFEST, DetailStudy
from twinloop.calibration.detail.study_assembly import make_study
from twinloop.calibration.detail.study_execution import DetailProgress, StudyExecution
from twinloop.calibration.detail.version_search import VersionWorker
from twinloop.calibration.fit import make_folder
from twinloop.calibration.losses import DEFAULT_LOSS, Loss
from twinloop.calibration.run import list_runs, name_runs, resolve_loss
from twinloop.calibration.search.minimisation import SearchBudget
from twinloop.campaign import CampaignJournal, coordinator
from twinloop.description.errors import InputError
from twinloop.description.files import refuse_file
from twinloop.execution.announcement import COMMANDS
from twinloop.scenario import Scenario
from twinloop.trace import Trace

#: The journal of finished searches, and the folder of those of unfinished ones.
JOURNAL: Final = "journal.jsonl"
SEARCHES: Final = "searches"
_HEADER: Final = {"detail": 1}
_ADDRESS: Final = "://"


def calibrate_levels(
    real: Trace | Sequence[Trace],
    levels: Levels | Mapping[str, Any] | str | Path,
    *,
    parameters: Any = None,
    scenario: Scenario | str | Path | None = None,
    validation: Sequence[Trace] = (),
    loss: str | Loss = DEFAULT_LOSS,
    aggregate: str | None = None,
    optimiser: str = "auto",
    budget: str | float | SearchBudget = 2000,
    seeds: int | Sequence[int] = 3,
    names: Sequence[str] | None = None,
    folder: str | Path | None = None,
    analysis: int | None = None,
    spec_sheet: SpecSheet | Scenario | Mapping[str, Any] | str | Path | None = None,
    warm_start: bool = False,
    on: str | None = None,
    workers: int | None = None,
    allow_code: bool = False,
    progress: Callable[[DetailProgress], None] | None = None,
) -> DetailStudy:
    """Calibrate versions of a scenario at several levels of detail, and compare them.

    Every version is calibrated with the same number of evaluations and several seeds, and its loss
    is computed on the validation runs. Searches that are stored in the folder are not repeated: an
    interrupted study resumes, and a study with new levels or seeds does what is missing.

    Args:
        real: The runs to fit to; runs of one scenario are repetitions.
        levels: Paths of the scenario with lists of values, or a file with them; all combinations
            are versions, except those that `except` lists.
        parameters: The values to fit and their ranges, or a file with them. A version is searched
            in those that it has.
        scenario: The scenario of the runs, if their manifests contain none.
        validation: Runs held out from the fits, on which the versions are compared.
        loss: The loss to minimise: a name, a `Loss`, or a function of a real and a simulated run.
        aggregate: How the losses of several scenarios are combined: `avg` or `max`.
        optimiser: The name of an optimiser.
        budget: The number of evaluations of each search.
        seeds: The random seeds of the searches of each version, or their number.
        names: The names of the runs, those of `validation` last.
        folder: The folder to store the study in.
        analysis: The number of evaluations for the identifiability of each version; by default
            the budget, and at least 200 + 60 per parameter; 0: no analysis.
        spec_sheet: Values of a specification sheet, whose losses stand beside those of the fits.
        warm_start: Whether each version is also searched from the values fitted to another one.
        on: Where to search: `threads` (by default), `processes`, `serial`, `dask`, or the address
            of a Dask scheduler; one search at a time per worker.
        workers: The number of workers there; the result does not depend on it.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        progress: Called with the progress after each task.

    >>> from twinloop.engine import simulate
    >>> tasks = [{"id": f"t{i}", "run_time": 5 + i} for i in range(6)]
    >>> scenario = Scenario(platform="1x2@2GHz", policy="fcfs", workload={"tasks": tasks})
    >>> truth = simulate(scenario.replace(**{"policy": "ljf", "model.speed_factor": 1.1}))
    >>> study = calibrate_levels(truth, {"policy": ["fcfs", "ljf"]}, scenario=scenario, budget=40,
    ...     parameters={"speed_factor": {"linear": [0.5, 2]}}, analysis=0, loss="matched")
    >>> study.best.name
    'ljf'
    """
    training, held_out = name_runs(list_runs(real, validation), validation, names)
    if isinstance(scenario, str | Path):
        scenario = Scenario.load(scenario)
    plan = DetailPlan(
        levels=Levels.of(levels),
        training=training,
        held_out=held_out,
        scenario=scenario,
        loss=resolve_loss(loss, allow_code=allow_code),
        aggregate=aggregate,
        optimiser=optimiser,
        budget=_read_budget(budget),
        seeds=_read_seeds(seeds),
        analysis=analysis,
        sheet=None if spec_sheet is None else SpecSheet.of(spec_sheet),
        warm_start=warm_start,
        allow_code=allow_code,
    )
    store = None if folder is None else Path(folder)
    if store is not None:
        _check_folder(store)
    versions = plan.make_versions(parameters)
    if store is not None:
        make_folder(store)
    is_remote = on is not None and _ADDRESS in on
    worker = VersionWorker(
        {number: each.runs for number, each in versions.items()},
        optimiser,
        plan.budget,
        None if store is None or is_remote else store / SEARCHES,
    )
    if worker.journals is not None:
        make_folder(worker.journals)
    with (
        coordinator(on or "threads", workers=workers) as places,
        nullcontext()
        if store is None
        else CampaignJournal.open(store / JOURNAL, _HEADER) as journal,
    ):
        results = StudyExecution(plan, versions, worker, places, progress, journal).run()
    study = make_study(plan, versions, results, store)
    if store is not None:
        study.save(store)
    return study


def _read_budget(given: str | float | SearchBudget) -> SearchBudget:
    budget = SearchBudget.of(given)
    if budget.evaluations is None:
        raise InputError(
            "must be a number of evaluations: in the same time, versions that are simulated faster "
            "would be searched more thoroughly",
            kind="wrong-argument",
            field="budget",
            remedy="such as 500",
        )
    return budget


def _read_seeds(given: int | Sequence[int]) -> tuple[int, ...]:
    seeds = tuple(range(given)) if isinstance(given, int) else tuple(given)
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise InputError(
            f"must be a positive number, or different seeds that are not negative, not {given}",
            kind="out-of-range",
            field="seeds",
        )
    return seeds


def _check_folder(folder: Path) -> None:
    """Raise an error if the folder of a study contains something else."""
    refuse_file(folder)
    is_study = (folder / MANIFEST).is_file() or (folder / SEARCHES).is_dir()
    if folder.is_dir() and not is_study:
        for other in folder.iterdir():
            if other.name not in (JOURNAL, COMMANDS):
                raise InputError(
                    "exists already and is not a study of the level of detail: it contains "
                    f"{other.name}",
                    kind="not-replaceable",
                    file=folder,
                    remedy="name a folder that does not exist",
                )
