"""Exploration: simulate the missing runs of a study."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, Final

from twinloop.calibration.fit import Fit
from twinloop.campaign import CampaignJournal, Coordinator, coordinator
from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.files import refuse_file
from twinloop.exploration.factors.design import Design, read_design
from twinloop.exploration.factors.level_files import make_paths_absolute
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.study.plan import (
    WORKLOAD,
    StudyPlan,
    StudyRun,
    plan_runs,
    store_study_workload,
)
from twinloop.exploration.study.progress import ProgressReporter, StudyProgress
from twinloop.exploration.study.runner import DEFAULT_DRAWS, DRAWN_KPIS, Runner, select_draws
from twinloop.exploration.study.storage import (
    FIT_PREFIX,
    HEADER,
    hash_fit,
    is_study,
    read_results,
    save_plan,
)
from twinloop.exploration.study.study import JOURNAL, Study
from twinloop.scenario import Scenario

#: Studies with at most this estimated duration (s) run on threads of this process, because starting
#: other processes would take longer.
MAX_THREADS_SECONDS: Final = 4.0


def explore(
    scenario: Scenario | str | Path | None,
    factors: Design | Mapping[str, Any] | str | Path,
    fit: Fit | str | Path | None = None,
    *,
    by: str = "makespan_s",
    folder: str | Path | None = None,
    on: str | None = None,
    workers: int | None = None,
    draws: int = DEFAULT_DRAWS,
    retry: bool = False,
    allow_code: bool = False,
    progress: Callable[[StudyProgress], None] | None = None,
) -> Study:
    """Simulate a scenario with all combinations of levels of a design.

    Runs that are stored in the folder are not simulated again: an interrupted study resumes, and a
    study with new levels or seeds simulates the missing runs. Identical scenarios are simulated
    once. A failed run is recorded, and the study continues.

    Args:
        scenario: The base scenario; None: the design contains its path.
        factors: A Design, a mapping of factors to levels, or the path of a YAML file. Paths in its
            levels are relative to that file, else to the current folder.
        fit: A calibration: the scenario gets its values, and each run is repeated with parameter
            values drawn from its uncertainty.
        by: The KPI to optimise; rankings and plots use it by default.
        folder: The folder to store the study in; None: it is in memory only.
        on: `threads`, `processes`, `serial`, `dask`, or the address of a Dask scheduler; by
            default this process for short studies, else processes.
        workers: The number of simultaneous runs.
        draws: The number of draws of parameter values per run; 0: the fitted values only.
        retry: Whether failed runs are simulated again.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        progress: Called with the progress after each run.

    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = explore(scenario, {"policy": ["fifo", "easy"], "platform": ["2x4", "1x8"]})
    >>> study.runs.select("policy", "platform", "makespan_s").rows()
    [('fifo', '2x4', 100.0), ('fifo', '1x8', 200.0), ('easy', '2x4', 50.0), ('easy', '1x8', 50.0)]
    """
    Objective.of(by)
    # Absolute paths, so that the study does not depend on the current folder.
    design = read_design(factors).located(Path(), whole=True)
    base = _load_scenario(scenario, design)
    loaded_fit = Fit.load(fit) if isinstance(fit, str | Path) else fit
    if loaded_fit is not None:
        base = loaded_fit.apply(base)
    is_new = folder is not None and not Path(folder).exists()
    study_folder = None if folder is None else prepare_folder(Path(folder))
    fit_draws = select_draws(loaded_fit, draws)
    extra = (
        {}
        if not fit_draws or loaded_fit is None
        else {"draws": [hash_fit(loaded_fit), draws, DRAWN_KPIS]}
    )
    # The open journal is the lock of the folder: nothing is written without it.
    with (
        CampaignJournal.open(study_folder / JOURNAL, HEADER)
        if study_folder is not None
        else nullcontext() as journal
    ):
        try:
            base = make_paths_absolute(
                base if study_folder is None else store_study_workload(base, study_folder)
            )
            plan = plan_runs(base, design, extra, by=by, allow_code=allow_code)
        except TwinloopError:
            if is_new and study_folder is not None:
                remove_folder(study_folder)
            raise
        design = plan.design
        if study_folder is not None:
            save_plan(study_folder, base, design, plan, loaded_fit, by)
        keys = {run.key for run in (*plan.runs, *plan.baseline)}
        results = {} if journal is None else read_results(journal, journal.path, keys)
        if retry:
            results = {key: row for key, row in results.items() if row["error"] is None}
        study = Study(
            base, design, plan.configurations, plan.runs, results, plan.baseline, loaded_fit,
            study_folder, by, allow_code, plan.notes, plan.inputs,
        )  # fmt: skip
        missing = _list_missing(plan, results)
        report = ProgressReporter(keys, results, progress)
        for row in _run_all(Runner(base, allow_code, fit_draws, plan.code), missing, on, workers):
            if journal is not None:
                journal.append(row)
            results[row["key"]] = row
            report(row)
    if study_folder is not None:
        study.export(study_folder)
    return study


def _load_scenario(given: Scenario | str | Path | None, design: Design) -> Scenario:
    if isinstance(given, Scenario):
        return given
    path = design.scenario if given is None else given
    if path is None:
        raise InputError(
            "no scenario is given",
            kind="missing-scenario",
            field="scenario",
            remedy="give one, or name its file beside the factors: `scenario: scenario.yaml`",
        )
    return Scenario.load(path)


def prepare_folder(folder: Path) -> Path:
    """Create the folder of a study, unless it exists; raise an error if it is not a study."""
    refuse_file(folder)
    foreign = folder.is_dir() and any(not _is_leftover(each.name) for each in folder.iterdir())
    if foreign and not is_study(folder):
        raise InputError(
            "exists already and is not a study",
            kind="not-replaceable",
            file=folder,
            remedy="name a folder that does not exist",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot be created: {error.strerror}", kind="cannot-write", file=folder
        ) from None
    return folder


def remove_folder(folder: Path) -> None:
    """Remove the folder that was created for a study that cannot be started."""
    (folder / JOURNAL).unlink(missing_ok=True)
    shutil.rmtree(folder / WORKLOAD, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _is_leftover(name: str) -> bool:
    """Whether a study that was killed before it wrote its manifest may have left this file."""
    return name in (JOURNAL, WORKLOAD) or name.startswith((FIT_PREFIX, "."))


def _list_missing(plan: StudyPlan, results: Mapping[str, Any]) -> list[StudyRun]:
    """List the runs without a result, identical ones once, the baseline last."""
    missing: dict[str, StudyRun] = {}
    for run in (*plan.runs, *plan.baseline):
        if run.key not in results:
            missing.setdefault(run.key, run)
    return list(missing.values())


def _run_all(
    runner: Runner, runs: list[StudyRun], on: str | None, workers: int | None
) -> Iterator[dict[str, Any]]:
    """Simulate runs and generate their results: those of invalid scenarios first."""
    for run in runs:
        if run.refused is not None:
            yield {"key": run.key, "kpis": None, "seconds": 0.0, "error": run.refused}
    rest = [run for run in runs if run.refused is None]
    if on is None and rest:
        # The duration of a run is that of the second one, because the first loads the workload.
        with coordinator("serial") as serial:
            first = list(_map_runs(serial, runner, rest[:2]))
        yield from first
        rest = rest[2:]
        on = "threads" if first[-1]["seconds"] * len(rest) < MAX_THREADS_SECONDS else "processes"
    if rest:
        with coordinator(on, workers=workers) as parallel:
            yield from _map_runs(parallel, runner, rest)


def _map_runs(
    workers: Coordinator, runner: Runner, runs: list[StudyRun]
) -> Iterator[dict[str, Any]]:
    outcomes = workers.map(runner, (run.changes for run in runs))
    for run, outcome in zip(runs, outcomes, strict=True):
        row = {"key": run.key, "kpis": None, "seconds": outcome.seconds, "error": outcome.error}
        yield row | (outcome.value or {})
