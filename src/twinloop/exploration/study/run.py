"""Explore: run what is missing of a study, and return it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from twinloop.calibration.fit import Fit
from twinloop.campaign import CampaignJournal, Coordinator, coordinator
from twinloop.description.errors import InputError, TwinloopError
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
from twinloop.exploration.study.runner import DOUBTED, DRAWS, Runner, select_draws
from twinloop.exploration.study.storage import (
    FITTED,
    HEADER,
    hash_fit,
    is_study,
    read_results,
    save_plan,
)
from twinloop.exploration.study.study import JOURNAL, Study
from twinloop.scenario import Scenario

#: Studies that need less than this (s) stay in this process: others would start for longer.
SHORT: Final = 4.0


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """How far a study is.

    >>> StudyProgress(50, 100, 2, 10.0).left
    10.0
    """

    done: int
    total: int
    failed: int
    #: Since it was begun or resumed.
    seconds: float
    #: Runs that were there already when it was begun.
    before: int = 0

    @property
    def left(self) -> float | None:
        """Seconds that the rest will take; None: nobody knows yet."""
        made = self.done - self.before
        return None if not made else self.seconds / made * (self.total - self.done)


def explore(
    scenario: Scenario | str | Path | None,
    factors: Design | Mapping[str, Any] | str | Path,
    fit: Fit | str | Path | None = None,
    *,
    by: str = "makespan_s",
    folder: str | Path | None = None,
    on: str | None = None,
    workers: int | None = None,
    draws: int = DRAWS,
    retry: bool = False,
    allow_code: bool = False,
    progress: Callable[[StudyProgress], None] | None = None,
) -> Study:
    """Simulate a scenario with all combinations of some levels, and return the study.

    What is in the folder already is not run again: a study that was interrupted goes on, and one
    with new levels or seeds runs what is missing. Runs of scenarios that are the same are made
    once. A run that fails is recorded, and the others go on.

    Args:
        scenario: What is changed; None: the factors name it.
        factors: A Design, a mapping of factors and levels, or the path of a YAML file, to which
            paths in its levels are relative; else they are relative to the current folder.
        fit: A calibration: its values are laid on the scenario, and the doubt that it leaves goes
            with every run.
        by: The KPI that is to be good: what rankings and pictures are by.
        folder: Where to keep the study; without one it is in memory only.
        on: `threads`, `processes`, `serial`, `dask`, or the address of a Dask scheduler; by
            default this process for short studies, else processes.
        workers: How many runs at the same time.
        draws: Calibrations that each run is tried with; 0: the fitted values alone.
        retry: Whether runs that failed are made again.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        progress: Told how far it is, after every run.

    >>> tasks = [{"id": f"t{i}", "run_time": 10, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = explore(scenario, {"policy": ["fifo", "easy"], "platform": ["2x4", "1x8"]})
    >>> study.runs.select("policy", "platform", "makespan_s").rows()
    [('fifo', '2x4', 100.0), ('fifo', '1x8', 200.0), ('easy', '2x4', 50.0), ('easy', '1x8', 50.0)]
    """
    Objective.of(by)
    # Absolute paths from here on, so that the study is the same from any folder.
    design = read_design(factors).located(Path(), whole=True)
    base = _scenario(scenario, design)
    laid = Fit.load(fit) if isinstance(fit, str | Path) else fit
    if laid is not None:
        base = laid.apply(base)
    fresh = folder is not None and not Path(folder).exists()
    place = None if folder is None else _folder(Path(folder))
    rows = select_draws(laid, draws)
    beside = {} if not rows or laid is None else {"draws": [hash_fit(laid), draws, DOUBTED]}
    # The journal is the lock of the folder: nothing is written there without it.
    with (
        CampaignJournal.open(place / JOURNAL, HEADER)
        if place is not None
        else nullcontext() as journal
    ):
        try:
            base = make_paths_absolute(base if place is None else store_study_workload(base, place))
            plan = plan_runs(base, design, beside, by=by, allow_code=allow_code)
        except TwinloopError:
            if fresh and place is not None:
                _leave(place)
            raise
        design = plan.design
        if place is not None:
            save_plan(place, base, design, plan, laid, by)
        keys = {run.key for run in (*plan.runs, *plan.baseline)}
        results = {} if journal is None else read_results(journal, journal.path, keys)
        if retry:
            results = {key: row for key, row in results.items() if row["error"] is None}
        study = Study(
            base, design, plan.configurations, plan.runs, results, plan.baseline, laid, place, by,
            allow_code, plan.notes, plan.inputs,
        )  # fmt: skip
        missing = _missing(plan, results)
        told = _ProgressReporter(plan, results, progress)
        for row in _run(Runner(base, allow_code, rows, plan.code), missing, on, workers):
            if journal is not None:
                journal.append(row)
            results[row["key"]] = row
            told(row)
    if place is not None:
        study.export(place)
    return study


def _scenario(given: Scenario | str | Path | None, design: Design) -> Scenario:
    if isinstance(given, Scenario):
        return given
    path = design.scenario if given is None else given
    if path is None:
        raise InputError(
            "nobody said which scenario is changed",
            field="scenario",
            remedy="give one, or name its file in the factors: `scenario: scenario.yaml`",
        )
    return Scenario.load(path)


def _folder(folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise InputError("is no folder", file=folder, remedy="name one that is not there yet")
    strange = folder.is_dir() and any(not _own(each.name) for each in folder.iterdir())
    if strange and not is_study(folder):
        raise InputError(
            "is there already, and is no study",
            file=folder,
            remedy="name a folder that is not there yet",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", file=folder) from None
    return folder


def _leave(folder: Path) -> None:
    """Take a folder away again that was made for a study which cannot be begun."""
    (folder / JOURNAL).unlink(missing_ok=True)
    shutil.rmtree(folder / WORKLOAD, ignore_errors=True)
    with suppress(OSError):
        folder.rmdir()


def _own(name: str) -> bool:
    """Whether a study that was killed before it said what it is may have left this."""
    return name in (JOURNAL, WORKLOAD) or name.startswith((FITTED, "."))


def _missing(plan: StudyPlan, results: Mapping[str, Any]) -> list[StudyRun]:
    """The runs that are not there, those that are the same once; the baseline last."""
    found: dict[str, StudyRun] = {}
    for run in (*plan.runs, *plan.baseline):
        if run.key not in results:
            found.setdefault(run.key, run)
    return list(found.values())


def _run(
    runner: Runner, runs: list[StudyRun], on: str | None, workers: int | None
) -> Iterator[dict[str, Any]]:
    """What becomes of each run, in their order, whoever does them."""
    for run in runs:
        if run.refused is not None:
            yield {"key": run.key, "kpis": None, "seconds": 0.0, "error": run.refused}
    rest = [run for run in runs if run.refused is None]
    if on is None and rest:
        # Two here: the second, for which all is loaded, says how long the others will take.
        with coordinator("serial") as here:
            first = list(_mapped(here, runner, rest[:2]))
        yield from first
        rest = rest[2:]
        on = "threads" if first[-1]["seconds"] * len(rest) < SHORT else "processes"
    if rest:
        with coordinator(on, workers=workers) as many:
            yield from _mapped(many, runner, rest)


def _mapped(workers: Coordinator, runner: Runner, runs: list[StudyRun]) -> Iterator[dict[str, Any]]:
    found = workers.map(runner, (run.changes for run in runs))
    for run, outcome in zip(runs, found, strict=True):
        row = {"key": run.key, "kpis": None, "seconds": outcome.seconds, "error": outcome.error}
        yield row | (outcome.value or {})


class _ProgressReporter:
    """Tells whoever waits how far it is."""

    def __init__(
        self,
        plan: StudyPlan,
        results: Mapping[str, Any],
        tell: Callable[[StudyProgress], None] | None,
    ) -> None:
        self._tell = tell
        self._began = time.monotonic()
        keys = {run.key for run in (*plan.runs, *plan.baseline)}
        self._total = len(keys)
        self._before = self._done = len(keys & results.keys())
        self._failed = sum(results[key]["error"] is not None for key in keys & results.keys())

    def __call__(self, row: Mapping[str, Any]) -> None:
        self._done += 1
        self._failed += row["error"] is not None
        if self._tell is not None:
            spent = time.monotonic() - self._began
            self._tell(StudyProgress(self._done, self._total, self._failed, spent, self._before))
