"""Calibration of all versions of a scenario at several levels of detail."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import numpy as np

from twinloop import __version__
from twinloop.calibration.cases import Case, make_cases
from twinloop.calibration.detail.crude_baseline import SCHEDULED, MeanRunTimes, simulate_baseline
from twinloop.calibration.detail.ideal_simulator import compute_ideal_error
from twinloop.calibration.detail.inactive_parameters import find_inactive_parameters
from twinloop.calibration.detail.levels import Levels, Version
from twinloop.calibration.detail.spec_sheet import SpecSheet
from twinloop.calibration.detail.study import (
    BASELINE,
    BEFORE,
    FITTED,
    MANIFEST,
    SPEC_SHEET,
    WARM_STARTED,
    DetailStudy,
    make_tables,
)
from twinloop.calibration.detail.version_runs import (
    TRAINING,
    VALIDATION,
    VersionRuns,
    compare_runs,
)
from twinloop.calibration.detail.version_search import (
    AnalysisTask,
    EvaluationTask,
    SearchTask,
    Task,
    VersionWorker,
)
from twinloop.calibration.fit import make_folder
from twinloop.calibration.losses import DEFAULT_LOSS, LOSSES, Loss
from twinloop.calibration.parameters import defaults
from twinloop.calibration.parameters.applicability import refuse_inapplicable
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.parameters.kinds import Parameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.run import (
    NamedRuns,
    collect_facts,
    refuse_duplicate_runs,
    refuse_incomparable,
    resolve_loss,
)
from twinloop.calibration.search.minimisation import SearchBudget
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.search.stage import identify_code
from twinloop.campaign import CampaignJournal, Coordinator, coordinator
from twinloop.description.errors import InputError
from twinloop.execution.announcement import COMMANDS
from twinloop.fidelity.alignment import digest_trace
from twinloop.scenario import Scenario
from twinloop.scenario.identity import Identities, values_to_hash
from twinloop.trace import Trace
from twinloop.trace.trace import require_trace

#: The journal of finished searches, and the folder of those of unfinished ones.
JOURNAL: Final = "journal.jsonl"
SEARCHES: Final = "searches"
_HEADER: Final = {"detail": 1}
#: The least number of evaluations of an analysis: for all, and per parameter.
_MIN_ANALYSIS, _MIN_ANALYSIS_EACH = 200, 60
_ADDRESS: Final = "://"


@dataclass(frozen=True)
class DetailProgress:
    """The progress of a study: finished tasks, failed ones, and the time since its start (s)."""

    done: int
    total: int
    failed: int
    seconds: float


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
    runs = [real] if isinstance(real, Trace) else list(real)
    if not runs:
        raise InputError(
            "there is no run to fit to",
            kind="no-runs",
            field="real",
            remedy="give at least one run",
        )
    for trace in (*runs, *validation):
        require_trace(trace)
    labels = list(names) if names else [f"run {i + 1}" for i in range(len(runs) + len(validation))]
    refuse_duplicate_runs(list(zip(labels, [*runs, *validation], strict=True)))
    if isinstance(scenario, str | Path):
        scenario = Scenario.load(scenario)
    plan = _DetailPlan(
        levels=Levels.of(levels),
        training=NamedRuns(runs, labels[: len(runs)]),
        held_out=NamedRuns(list(validation), labels[len(runs) :]),
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
    versions = plan.make_versions(parameters)
    store = None if folder is None else _prepare_folder(Path(folder))
    is_remote = on is not None and _ADDRESS in on
    worker = VersionWorker(
        {number: each.runs for number, each in versions.items()},
        optimiser,
        plan.budget,
        None if store is None or is_remote else store / SEARCHES,
    )
    if worker.journals is not None:
        make_folder(worker.journals)
    with coordinator(on or "threads", workers=workers) as places:
        if store is None:
            study = _Execution(plan, versions, worker, places, progress).run()
        else:
            with CampaignJournal.open(store / JOURNAL, _HEADER) as journal:
                study = _Execution(plan, versions, worker, places, progress, journal).run()
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


def _prepare_folder(folder: Path) -> Path:
    """Create the folder of a study; raise an error if it contains something else."""
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "is not a folder",
            kind="wrong-file-type",
            file=folder,
            remedy="name a folder that does not exist",
        )
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
    make_folder(folder)
    return folder


@dataclass(frozen=True)
class _PlannedVersion:
    """A version with its objectives, and what identifies its searches."""

    version: Version
    runs: VersionRuns
    #: The scenario of its first case.
    scenario: Scenario
    skipped: tuple[str, ...]
    identity: Mapping[str, Any]
    #: The digests of the validation runs, on which the results of a search do not depend.
    held_out: tuple[Any, ...]

    @property
    def space(self) -> Space:
        """The parameters of the version."""
        return self.runs.training.space


@dataclass(frozen=True)
class _DetailPlan:
    """The input of a study."""

    levels: Levels
    training: NamedRuns
    held_out: NamedRuns
    scenario: Scenario | None
    loss: Loss
    aggregate: str | None
    optimiser: str
    budget: SearchBudget
    seeds: tuple[int, ...]
    analysis: int | None
    sheet: SpecSheet | None
    warm_start: bool
    allow_code: bool

    def make_versions(self, parameters: Any) -> dict[int, _PlannedVersion]:
        """Make the objectives of all versions, each with the parameters that it has."""
        cases = {
            version.number: self._make_first_cases(version) for version in self.levels.versions
        }
        spaces, skipped = self._divide_parameters(parameters, cases)
        for number, space in spaces.items():
            refuse_inapplicable(space, cases[number], parameters)
        return {
            version.number: self._make_version(
                version, spaces[version.number], skipped[version.number]
            )
            for version in self.levels.versions
        }

    def make_cases(
        self, version: Version, runs: NamedRuns, fitted: Sequence[str] = ()
    ) -> list[Case]:
        """Make the cases of these runs for a version."""
        needs_power = "power" in self.loss.needs
        return make_cases(
            runs.traces,
            names=runs.names,
            scenario=self.scenario,
            fitted=fitted,
            # Latencies of held-out runs must not enter the model.
            latencies=self.training.traces,
            adapt=partial(self.levels.apply, version),
            allow_code=self.allow_code,
            power_step=defaults.find_power_step(self.training.traces[0]) if needs_power else None,
        )

    def _make_first_cases(self, version: Version) -> list[Case]:
        """Make the cases of the training runs; an error that only a later version has names it."""
        try:
            return self.make_cases(version, self.training)
        except InputError as error:
            if version is self.levels.versions[0] or version.name in error.problem:
                raise
            raise self.levels.locate(error, version) from None

    def _divide_parameters(
        self, parameters: Any, cases: Mapping[int, list[Case]]
    ) -> tuple[dict[int, Space], dict[int, tuple[str, ...]]]:
        """Find the parameters that each version has, and those that it does not have."""
        every: dict[str, Parameter] = {}
        if parameters is None:
            for of_version in cases.values():
                for each in defaults.choose_default_space(of_version):
                    every.setdefault(each.name, each)
        else:
            every = {each.name: each for each in _read_space(parameters, cases)}
        for factor in self.levels.factors:
            for name in every:
                if factor.path in (name, f"model.{name}"):
                    raise InputError(
                        f"'{name}' is a parameter as well as a factor of the levels",
                        kind="conflicting-fields",
                        field="parameters",
                        remedy="remove it from one of the files",
                    )
        absent = {
            number: set(find_inactive_parameters(of_version[0].scenario, every))
            for number, of_version in cases.items()
        }
        # Values that no version has are created, as in every calibration.
        nowhere = set.intersection(*absent.values())
        spaces, skipped = {}, {}
        for version in self.levels.versions:
            left_out = absent[version.number] - nowhere
            kept = [each for each in every.values() if each.name not in left_out]
            if not kept:
                raise InputError(
                    f"the version '{version.name}' has none of the parameters",
                    kind="no-runs",
                    field="parameters",
                    remedy="add a parameter that it has, such as speed_factor",
                )
            spaces[version.number] = Space(kept)
            skipped[version.number] = tuple(name for name in every if name in left_out)
        return spaces, skipped

    def _make_version(
        self, version: Version, space: Space, skipped: tuple[str, ...]
    ) -> _PlannedVersion:
        cases = self.make_cases(version, self.training, space.names)
        training = self._make_objective(space, cases)
        refuse_incomparable(training)
        names = {TRAINING: _list_names(self.training, cases)}
        validation = None
        if self.held_out.traces:
            held_cases = self.make_cases(version, self.held_out, space.names)
            validation = self._make_objective(space, held_cases)
            refuse_incomparable(validation)
            names[VALIDATION] = _list_names(self.held_out, held_cases)
        return _PlannedVersion(
            version,
            VersionRuns(version.number, training, validation, names),
            cases[0].scenario,
            skipped,
            self._identify(training),
            () if validation is None else tuple(_digest_cases(validation.cases)),
        )

    def _make_objective(self, space: Space, cases: Sequence[Case]) -> TwinObjective:
        return TwinObjective(space, cases, self.loss, aggregate=self.aggregate, threads=1)

    def _identify(self, objective: TwinObjective) -> dict[str, Any]:
        """Return everything that the results of a search depend on, but its seed and start."""
        identities = Identities(allow_code=self.allow_code)
        identity: dict[str, Any] = {
            "twinloop": __version__,
            "parameters": [journal_text(parameter) for parameter in objective.space],
            "loss": objective.loss.name,
            "aggregation": objective.aggregation,
            "optimiser": self.optimiser,
            "evaluations": self.budget.evaluations,
            "runs": list(_digest_cases(objective.cases)),
            "objects": [identities.identify(case.scenario) for case in objective.cases],
        }
        if LOSSES.get(objective.loss.name) is not objective.loss:  # its code may change
            identity["loss_code"] = identify_code(objective.loss, None, "loss")
        return identity


def _read_space(parameters: Any, cases: Mapping[int, list[Case]]) -> Space:
    """Read the parameters; the scenario that has most of them gives the default ranges."""
    every = [each for of_version in cases.values() for each in of_version[:1]]
    if isinstance(parameters, Mapping):
        given = parameters.get("parameters", parameters)
        names = list(given) if isinstance(given, Mapping) else []
        every.sort(key=lambda case: len(find_inactive_parameters(case.scenario, map(str, names))))
    return defaults.make_space(parameters, every)


def _list_names(runs: NamedRuns, cases: Sequence[Case]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(runs.name_of(trace) for trace in case.traces) for case in cases)


def _digest_cases(cases: Iterable[Case]) -> Iterator[Any]:
    for case in cases:
        yield [
            values_to_hash(case.scenario.to_manifest()),
            [digest_trace(trace) for trace in case.traces],
        ]


def _make_key(**parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class _Execution:
    """The execution of a plan: the tasks that are not in the journal, and the tables."""

    def __init__(
        self,
        plan: _DetailPlan,
        versions: Mapping[int, _PlannedVersion],
        worker: VersionWorker,
        places: Coordinator,
        progress: Callable[[DetailProgress], None] | None,
        journal: CampaignJournal | None = None,
    ) -> None:
        self.plan, self.versions, self.worker, self.places = plan, versions, worker, places
        self.report, self.journal = progress, journal
        self.results: dict[str, Mapping[str, Any]] = (
            {} if journal is None else {row["key"]: row for row in journal.rows}
        )
        self.began = perf_counter()
        self.done, self.failed = 0, 0
        # Each search and its evaluation, the values before, the sheet, and the analysis.
        searches = len(plan.seeds) * (2 if plan.warm_start else 1)
        self.total = len(versions) * (2 * searches + 2 + (plan.sheet is not None))
        if plan.warm_start:
            self.total -= 2 * len(plan.seeds)

    def run(self) -> DetailStudy:
        """Do all tasks and make the study."""
        try:
            searches = {FITTED: self._search_versions()}
            if self.plan.warm_start:
                searches[WARM_STARTED] = self._search_from_others(searches[FITTED])
            analyses = self._analyse_versions(searches[FITTED])
            rows = self._list_rows(searches, analyses)
        except BaseException:
            self.worker.stop()
            raise
        return self._make_study(rows, analyses)

    def _do(self, tasks: Sequence[Task]) -> list[Mapping[str, Any]]:
        """Do the tasks whose results are not in the journal; return the results of all."""
        missing = {task.key: task for task in tasks if task.key not in self.results}
        self._count(len(tasks) - len(missing), 0)
        outcomes = self.places.map(self.worker, missing.values())
        for task, outcome in zip(missing.values(), outcomes, strict=True):
            row: Mapping[str, Any] = outcome.value or {"key": task.key, "error": outcome.error}
            # Other errors, such as the death of a worker, may not happen again.
            if self.journal is not None and (row.get("error") is None or "losses" in row):
                self.journal.append(row)
                if (path := self.worker.get_journal(task.key)) is not None:
                    path.unlink(missing_ok=True)
            self.results[task.key] = row
            self._count(1, row.get("error") is not None)
        return [self.results[task.key] for task in tasks]

    def _count(self, done: int, failed: int) -> None:
        self.done, self.failed = self.done + done, self.failed + failed
        if self.report is not None and done:
            seconds = perf_counter() - self.began
            self.report(DetailProgress(self.done, self.total, self.failed, seconds))

    # --- tasks -----------------------------------------------------------------------------------

    def _search_versions(self) -> dict[tuple[int, int], Mapping[str, Any]]:
        tasks = [
            self._make_search(number, seed, None)
            for number in self.versions
            for seed in self.plan.seeds
        ]
        return {(t.version, t.seed): row for t, row in zip(tasks, self._do(tasks), strict=True)}

    def _make_search(self, number: int, seed: int, start: Mapping[str, Any] | None) -> SearchTask:
        key = _make_key(search=self.versions[number].identity, seed=seed, start=start)
        return SearchTask(key, number, seed, start)

    def _search_from_others(
        self, cold: Mapping[tuple[int, int], Mapping[str, Any]]
    ) -> dict[tuple[int, int], Mapping[str, Any]]:
        """Search each version but the first from the values fitted to an earlier one.

        The values are those of the version with the fewest differences, found with the same seed.
        """
        tasks = []
        for number, planned in self.versions.items():
            earlier = [each for each in self.versions.values() if each.version.number < number]
            if not earlier:
                continue
            source = min(
                earlier, key=lambda each: planned.version.count_differences(each.version)
            ).version.number
            for seed in self.plan.seeds:
                found = cold[source, seed].get("values") or {}
                start = {k: v for k, v in found.items() if k in planned.space.names}
                if start:
                    tasks.append(self._make_search(number, seed, start))
        return {(t.version, t.seed): row for t, row in zip(tasks, self._do(tasks), strict=True)}

    def _analyse_versions(
        self, searches: Mapping[tuple[int, int], Mapping[str, Any]]
    ) -> dict[int, Mapping[str, Any]]:
        """Analyse the best fit of each version."""
        tasks = []
        for number, planned in self.versions.items():
            found = [
                row
                for (version, _), row in searches.items()
                if version == number and row.get("error") is None
            ]
            if not found:
                continue
            best = min(found, key=lambda row: float(row["loss"]))
            count = self.plan.analysis
            if count is None:
                least = _MIN_ANALYSIS + _MIN_ANALYSIS_EACH * len(planned.space)
                count = max(self.plan.budget.evaluations or 0, least)
            facts = collect_facts(planned.runs.training.cases, self.plan.training.traces)
            key = _make_key(
                analysis=planned.identity, point=best["point"], evaluations=count, facts=facts
            )
            tasks.append(AnalysisTask(key, number, best["point"], count, facts))
        return {task.version: row for task, row in zip(tasks, self._do(tasks), strict=True)}

    def _evaluate(self, chosen: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Mapping[str, Any]]:
        """Compute the losses of versions with these values, run by run."""
        return self._do(
            [
                EvaluationTask(
                    _make_key(
                        evaluation=self.versions[number].identity,
                        held_out=self.versions[number].held_out,
                        names=self.plan.training.names + self.plan.held_out.names,
                        values=values,
                    ),
                    number,
                    values,
                )
                for number, values in chosen
            ]
        )

    # --- tables ----------------------------------------------------------------------------------

    def _list_rows(
        self,
        searches: Mapping[str, Mapping[tuple[int, int], Mapping[str, Any]]],
        analyses: Mapping[int, Mapping[str, Any]],
    ) -> dict[str, list[dict[str, Any]]]:
        rows: dict[str, list[dict[str, Any]]] = {
            name: []
            for name in ("searches", "losses", "values", "identifiability", "history", "times")
        }
        for values, found in searches.items():
            complete = [each for each in found.items() if each[1].get("error") is None]
            losses = self._evaluate([(key[0], row["values"]) for key, row in complete])
            by_search = {key: each for (key, _), each in zip(complete, losses, strict=True)}
            for key, row in found.items():
                self._add_search(rows, values, key, row, by_search.get(key, {}))
        self._add_fixed_values(rows, BEFORE, {number: {} for number in self.versions})
        if self.plan.sheet is not None:
            self._add_fixed_values(rows, SPEC_SHEET, self._read_sheet(self.plan.sheet))
        for number, row in analyses.items():
            rows["identifiability"] += self._list_parameters(number, row)
        return rows

    def _add_search(
        self,
        rows: dict[str, list[dict[str, Any]]],
        values: str,
        key: tuple[int, int],
        row: Mapping[str, Any],
        losses: Mapping[str, Any],
    ) -> None:
        number, seed = key
        common = {
            "version": number,
            "name": self.versions[number].version.name,
            "values": values,
            "seed": seed,
        }
        tried = np.array(row.get("losses", ()), dtype=np.float64)
        rows["searches"].append(
            common
            | {
                "optimiser": row.get("optimiser"),
                "evaluations": len(tried),
                "failed": row.get("failed"),
                "training_loss": losses.get(TRAINING),
                "validation_loss": losses.get(VALIDATION),
                "error": row.get("error") or losses.get("error"),
            }
        )
        rows["losses"] += [common | each for each in losses.get("runs", ())]
        rows["values"] += [
            common
            | {
                "parameter": name,
                "value": str(value),
                "number": float(value) if isinstance(value, int | float) else None,
            }
            for name, value in (row.get("values") or {}).items()
        ]
        smallest = np.fmin.accumulate(tried) if len(tried) else tried
        rows["history"] += [
            {**common, "evaluation": place, "loss": _know(loss), "best": _know(best)}
            for place, (loss, best) in enumerate(
                zip(tried.tolist(), smallest.tolist(), strict=True), start=1
            )
        ]
        if row.get("error") is None:
            seconds = self.versions[number].runs.measure_seconds(row["values"])
            rows["times"].append(common | {"search_s": row["seconds"], "run_s": seconds})

    def _add_fixed_values(
        self,
        rows: dict[str, list[dict[str, Any]]],
        values: str,
        chosen: Mapping[int, Mapping[str, Any]],
    ) -> None:
        """Add the losses of versions with values that are not fitted."""
        found = self._evaluate(list(chosen.items()))
        for number, each in zip(chosen, found, strict=True):
            name = self.versions[number].version.name
            common = {"version": number, "name": name, "values": values}
            rows["losses"] += [common | {"seed": None} | run for run in each.get("runs", ())]

    def _read_sheet(self, sheet: SpecSheet) -> dict[int, dict[str, Any]]:
        absent = {
            number: set(find_inactive_parameters(each.scenario, sheet.values))
            for number, each in self.versions.items()
        }
        nowhere = set.intersection(*absent.values())
        return {
            number: sheet.select(absent[number] - nowhere).read_values(
                each.scenario, each.space.names
            )
            for number, each in self.versions.items()
        }

    def _list_parameters(self, number: int, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """List the rows of the identifiability of a version."""
        found = {
            each["parameter"]: each for each in row.get("identifiability", {}).get("table", ())
        }
        for name in self.versions[number].space.names:
            yield {
                "version": number,
                "name": self.versions[number].version.name,
                **{"parameter": name, "effect": name not in row.get("no_effect", ())},
                **found.get(name, {}),
            }

    # --- study -----------------------------------------------------------------------------------

    def _make_study(
        self, rows: dict[str, list[dict[str, Any]]], analyses: Mapping[int, Mapping[str, Any]]
    ) -> DetailStudy:
        plan, notes = self.plan, []
        first = self.versions[min(self.versions)]
        cases = plan.make_cases(
            first.version,
            NamedRuns(
                plan.training.traces + plan.held_out.traces,
                plan.training.names + plan.held_out.names,
            ),
        )
        ideal = compute_ideal_error(plan.loss, cases)
        baseline = self._add_baseline(rows["losses"])
        for number, row in analyses.items():
            if row.get("error"):
                name = self.versions[number].version.name
                notes.append(f"{name}: not analysed: {row['error']}")
        failed = [row for row in rows["searches"] if row["error"] is not None]
        notes += [f"{row['name']}, seed {row['seed']}: {row['error']}" for row in failed[:3]]
        if len(failed) > 3:
            notes.append(f"{len(failed) - 3} further searches failed: see searches.csv")
        objective = first.runs.training
        return DetailStudy(
            factors=plan.levels.factors,
            versions=plan.levels.versions,
            parameters={number: each.space.names for number, each in self.versions.items()},
            skipped={number: each.skipped for number, each in self.versions.items()},
            **make_tables(rows),
            sentences={
                number: tuple(row.get("identifiability", {}).get("sentences", ()))
                for number, row in analyses.items()
            },
            settings={
                "loss": objective.loss.name,
                "aggregation": objective.aggregation,
                "optimiser": plan.optimiser,
                "budget": plan.budget.evaluations,
                "seeds": list(plan.seeds),
                "analysis": plan.analysis,
                "warm_start": plan.warm_start,
                "except": [dict(each) for each in plan.levels.exceptions],
                "parameters": self._list_ranges(),
            },
            runs=tuple(self._describe_runs()),
            ideal=None if ideal is None else ideal.to_dict(),
            baseline=baseline,
            notes=tuple(notes),
            folder=None if self.journal is None else self.journal.path.parent,
        )

    def _list_ranges(self) -> dict[str, Any]:
        ranges: dict[str, Any] = {}
        for each in self.versions.values():
            ranges = each.space.to_dict()["parameters"] | ranges
        return ranges

    def _describe_runs(self) -> Iterator[dict[str, Any]]:
        first = self.versions[min(self.versions)].runs
        for used, objective in ((TRAINING, first.training), (VALIDATION, first.validation)):
            if objective is None:
                continue
            for case, names in zip(objective.cases, first.names[used], strict=True):
                for name in names:
                    yield {
                        "name": name,
                        "used": used,
                        "workload": case.name,
                        "mode": case.mode,
                        "tasks": len(case.compiled.arrays),
                        "injected": list(case.compiled.injected),
                    }

    def _add_baseline(self, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Add the losses of the crude baseline; return what it is from. None if it has no loss."""
        first = self.versions[min(self.versions)].runs
        if not self.plan.loss.needs <= SCHEDULED:
            return None
        means = MeanRunTimes.of(first.training.cases)
        if not np.isfinite(means.overall):
            return None
        losses: dict[str, list[float]] = {}
        counts: dict[str, int] = {}
        for used, objective in ((TRAINING, first.training), (VALIDATION, first.validation)):
            for case, names in zip(
                () if objective is None else objective.cases,
                first.names.get(used, ()),
                strict=True,
            ):
                times, sources = means.predict(case)
                twin = simulate_baseline(case, times)
                for source, count in sources.items():
                    counts[source] = counts.get(source, 0) + count
                with suppress(InputError):
                    for run, workload, loss in compare_runs(self.plan.loss, case, names, twin):
                        losses.setdefault(used, []).append(loss)
                        rows.append(
                            {"values": BASELINE, "run": run, "workload": workload, "used": used}
                            | {"loss": loss}
                        )
        compared = losses.get(VALIDATION) or losses.get(TRAINING)
        if not compared:
            return None
        return {"loss": float(np.mean(compared)), "run_times_by": counts}


def _know(loss: float) -> float | None:
    return loss if np.isfinite(loss) else None
