"""Studies over real executions: simulate the missing runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from twinloop.campaign import CampaignJournal, coordinator
from twinloop.description.errors import InputError, TwinloopError
from twinloop.exploration.executions.design import ExecutionDesign, read_execution_design
from twinloop.exploration.executions.measurements import MeasuredResults, read_measurements
from twinloop.exploration.executions.plan import ExecutionPlan, plan_execution_runs
from twinloop.exploration.executions.runner import ExecutionJob, ExecutionRunner, SetRun
from twinloop.exploration.executions.storage import HEADER, save_execution_plan
from twinloop.exploration.executions.study import ExecutionStudy
from twinloop.exploration.study.progress import ProgressReporter, StudyProgress
from twinloop.exploration.study.run import prepare_folder, remove_folder
from twinloop.exploration.study.storage import read_results
from twinloop.exploration.study.study import JOURNAL

#: Studies with at most this estimated duration (s) run in this process, because starting other
#: processes would take longer.
MAX_SERIAL_SECONDS: Final = 4.0


def explore_executions(
    design: ExecutionDesign | Mapping[str, Any] | str | Path,
    *,
    folder: str | Path | None = None,
    on: str | None = None,
    workers: int | None = None,
    retry: bool = False,
    allow_code: bool = False,
    progress: Callable[[StudyProgress], None] | None = None,
) -> ExecutionStudy:
    """Simulate all recorded executions with all sets of injected data, and compute the errors.

    Runs that are stored in the folder are not simulated again: an interrupted study resumes, and a
    study with new executions or sets simulates the missing runs. A failed run is recorded, and the
    study continues.

    Args:
        design: An ExecutionDesign, a mapping of factors to levels, or the path of a YAML file.
        folder: The folder to store the study in; None: it is in memory only.
        on: `threads`, `processes`, `serial`, `dask`, or the address of a Dask scheduler; by
            default this process for short studies, else processes.
        workers: The number of executions that are simulated at the same time.
        retry: Whether failed runs are simulated again.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        progress: Called with the progress after each run.
    """
    design = read_execution_design(design)
    is_new = folder is not None and not Path(folder).exists()
    study_folder = None if folder is None else prepare_folder(Path(folder))
    # The open journal is the lock of the folder: nothing is written without it.
    with (
        CampaignJournal.open(study_folder / JOURNAL, HEADER)
        if study_folder is not None
        else nullcontext() as journal
    ):
        try:
            plan = plan_execution_runs(design, allow_code=allow_code)
            measured = _read_measurements(design, plan)
        except TwinloopError:
            if is_new and study_folder is not None:
                remove_folder(study_folder)
            raise
        if study_folder is not None:
            save_execution_plan(study_folder, design, plan, measured)
        keys = {run.key for run in plan.runs}
        results = {} if journal is None else read_results(journal, journal.path, keys)
        if retry:
            results = {key: row for key, row in results.items() if row["error"] is None}
        study = ExecutionStudy(
            design, plan.executions, plan.sets, plan.runs, results, measured, study_folder,
            plan.inputs,
        )  # fmt: skip
        report = ProgressReporter(keys, results, progress)
        runner = ExecutionRunner(plan.base, plan.repetitions, allow_code, plan.code)
        for row in _run_missing(plan, runner, results, on, workers):
            if journal is not None:
                journal.append(row)
            results[row["key"]] = row
            report(row)
    if study_folder is not None:
        study.export(study_folder)
    return study


def _read_measurements(design: ExecutionDesign, plan: ExecutionPlan) -> MeasuredResults:
    """Read the measured results; their notes are followed by those of the plan."""
    try:
        found = read_measurements(design.measured, plan.executions)
    except InputError as error:
        raise design.locate_missing(error) from None
    return replace(found, notes=(*found.notes, *plan.notes))


def _run_missing(
    plan: ExecutionPlan,
    runner: ExecutionRunner,
    results: Mapping[str, Any],
    on: str | None,
    workers: int | None,
) -> Iterator[dict[str, Any]]:
    """Simulate the runs without a result: identical ones once, one execution at a time."""
    missing = {run.key: run for run in reversed(plan.runs) if run.key not in results}
    runs = sorted(missing.values(), key=lambda run: (run.execution, run.set))
    for run in runs:
        if run.refused is not None:
            yield {"key": run.key, "kpis": None, "seconds": 0.0, "error": run.refused}
    jobs = [
        ExecutionJob(
            plan.executions[number].path,
            tuple(SetRun(run.key, plan.sets[run.set], run.models) for run in members),
        )
        for number, members in groupby(
            (run for run in runs if run.refused is None), key=lambda run: run.execution
        )
    ]
    if on is None and jobs:
        # The first execution also loads libraries; the duration of the second one is typical.
        first, jobs = jobs[:2], jobs[2:]
        rows: list[dict[str, Any]] = []
        for job in first:
            rows = runner(job)
            yield from rows
        seconds = sum(row["seconds"] for row in rows) * len(jobs)
        on = "serial" if seconds < MAX_SERIAL_SECONDS else "processes"
    if jobs:
        with coordinator(on, workers=workers) as parallel:
            outcomes = parallel.map(runner, jobs)
            for job, outcome in zip(jobs, outcomes, strict=True):
                # A whole execution fails if its worker was killed.
                lost = [
                    {
                        "key": run.key,
                        "kpis": None,
                        "seconds": outcome.seconds,
                        "error": outcome.error,
                    }
                    for run in job.runs
                ]
                yield from outcome.value or lost
