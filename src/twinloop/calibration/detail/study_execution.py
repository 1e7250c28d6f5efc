"""The execution of a study: searches, evaluations and analyses on many workers, resumable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, TypeAlias

from twinloop.calibration.detail.inactive_parameters import find_inactive_parameters
from twinloop.calibration.detail.levels import Version
from twinloop.calibration.detail.plan import DetailPlan, PlannedVersion
from twinloop.calibration.detail.spec_sheet import SpecSheet
from twinloop.calibration.detail.study_tables import (
    BEFORE,
    FITTED,
    SPEC_SHEET,
    WARM_STARTED,
)
from twinloop.calibration.detail.version_search import (
    AnalysisTask,
    EvaluationTask,
    SearchTask,
    Task,
    VersionWorker,
)
from twinloop.calibration.run import collect_facts
from twinloop.campaign import CampaignJournal, Coordinator
from twinloop.campaign.journal import TRUNCATE_REMEDY
from twinloop.description.saved_json import StoredJson, check_shape

#: The result of a task, as the journal has it.
Result: TypeAlias = Mapping[str, Any]
#: A version, and the seed of its search; None: its values were not searched.
SearchId: TypeAlias = tuple[int, int | None]
#: The least number of evaluations of an analysis: for all, and per parameter.
_MIN_ANALYSIS: Final = 200
_MIN_ANALYSIS_EACH: Final = 60


def make_key(**parts: Any) -> str:
    """Return a hash of everything that a result depends on.

    >>> make_key(seed=1) == make_key(seed=1), make_key(seed=1) == make_key(seed=2)
    (True, False)
    """
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def derive_seed(seed: int, version: Version) -> int:
    """Derive the seed of the search of a version.

    With the same seed, searches of versions with the same parameters would try the same points, and
    their results would not be independent.

    >>> from twinloop.calibration.detail.levels import Levels
    >>> first, second = Levels.of({"policy": ["fcfs", "sjf"]}).versions
    >>> derive_seed(0, first) == derive_seed(0, second)
    False
    """
    text = json.dumps([seed, dict(version.labels)], sort_keys=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


@dataclass(frozen=True)
class DetailProgress:
    """The progress of a study: finished tasks, failed ones, and the time since its start (s)."""

    done: int
    total: int
    failed: int
    seconds: float


@dataclass(frozen=True)
class StudyResults:
    """The results of all tasks.

    `searches` and `evaluations` are by what the values are and by version and seed; values that
    were not searched have no seed. `analyses` are by version.
    """

    searches: Mapping[str, Mapping[SearchId, Result]]
    evaluations: Mapping[str, Mapping[SearchId, Result]]
    analyses: Mapping[int, Result]


class StudyExecution:
    """The execution of a plan: the tasks whose results are not in the journal."""

    def __init__(
        self,
        plan: DetailPlan,
        versions: Mapping[int, PlannedVersion],
        worker: VersionWorker,
        places: Coordinator,
        progress: Callable[[DetailProgress], None] | None,
        journal: CampaignJournal | None = None,
    ) -> None:
        self.plan, self.versions, self.worker, self.places = plan, versions, worker, places
        self.report, self.journal = progress, journal
        self.results: dict[str, Result] = {} if journal is None else read_results(journal)
        self.began = perf_counter()
        self.done, self.failed = 0, 0
        # Each search and its evaluation, the values before, the sheet, and the analysis.
        searches = len(plan.seeds) * (2 if plan.warm_start else 1)
        self.total = len(versions) * (2 * searches + 2 + (plan.sheet is not None))
        if plan.warm_start:
            self.total -= 2 * len(plan.seeds)

    def run(self) -> StudyResults:
        """Do all tasks; on an interrupt, those that are running on threads end soon."""
        try:
            searches = {FITTED: self._search_versions()}
            if self.plan.warm_start:
                searches[WARM_STARTED] = self._search_from_others(searches[FITTED])
            return StudyResults(
                searches,
                self._evaluate_all(searches),
                self._analyse_versions(searches[FITTED]),
            )
        except BaseException:
            self.worker.stop()
            raise

    def _do(self, tasks: Sequence[Task]) -> list[Result]:
        """Do the tasks whose results are not in the journal; return the results of all."""
        missing = {task.key: task for task in tasks if task.key not in self.results}
        self._count(len(tasks) - len(missing), 0)
        outcomes = self.places.map(self.worker, missing.values())
        for task, outcome in zip(missing.values(), outcomes, strict=True):
            row: Result = outcome.value or {"key": task.key, "error": outcome.error}
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

    def _search_versions(self) -> dict[SearchId, Result]:
        tasks = [
            self._make_search(number, seed, None)
            for number in self.versions
            for seed in self.plan.seeds
        ]
        return {(t.version, t.seed): row for t, row in zip(tasks, self._do(tasks), strict=True)}

    def _make_search(self, number: int, seed: int, start: Mapping[str, Any] | None) -> SearchTask:
        planned = self.versions[number]
        own_seed = derive_seed(seed, planned.version)
        key = make_key(search=planned.identity, seed=own_seed, start=start)
        return SearchTask(key, number, seed, own_seed, start)

    def _search_from_others(self, cold: Mapping[SearchId, Result]) -> dict[SearchId, Result]:
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

    def _analyse_versions(self, searches: Mapping[SearchId, Result]) -> dict[int, Result]:
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
            key = make_key(
                analysis=planned.identity, point=best["point"], evaluations=count, facts=facts
            )
            tasks.append(AnalysisTask(key, number, best["point"], count, facts))
        return {task.version: row for task, row in zip(tasks, self._do(tasks), strict=True)}

    def _evaluate_all(
        self, searches: Mapping[str, Mapping[SearchId, Result]]
    ) -> dict[str, dict[SearchId, Result]]:
        """Compute the losses with the fitted values, those before, and those of the sheet."""
        chosen: dict[str, dict[SearchId, Mapping[str, Any]]] = {
            values: {key: row["values"] for key, row in found.items() if row.get("error") is None}
            for values, found in searches.items()
        }
        chosen[BEFORE] = {(number, None): {} for number in self.versions}
        if self.plan.sheet is not None:
            chosen[SPEC_SHEET] = self._read_sheet(self.plan.sheet)
        return {
            values: dict(zip(each, self._evaluate(list(each.items())), strict=True))
            for values, each in chosen.items()
        }

    def _evaluate(self, chosen: Sequence[tuple[SearchId, Mapping[str, Any]]]) -> list[Result]:
        """Compute the losses of versions with these values, run by run."""
        return self._do(
            [
                EvaluationTask(
                    make_key(
                        evaluation=self.versions[number].identity,
                        held_out=self.versions[number].held_out,
                        names=self.plan.training.names + self.plan.held_out.names,
                        values=values,
                    ),
                    number,
                    values,
                )
                for (number, _), values in chosen
            ]
        )

    def _read_sheet(self, sheet: SpecSheet) -> dict[SearchId, Mapping[str, Any]]:
        """Read the values of the sheet for each version, without those that it does not have."""
        absent = {
            number: set(find_inactive_parameters(each.scenario, sheet.values))
            for number, each in self.versions.items()
        }
        nowhere = set.intersection(*absent.values())
        return {
            (number, None): sheet.select(absent[number] - nowhere).read_values(
                each.scenario, each.space.names
            )
            for number, each in self.versions.items()
        }


def read_results(journal: CampaignJournal) -> dict[str, Result]:
    """Read the results in a journal by their keys."""
    results: dict[str, Result] = {}
    for number, row in enumerate(journal.rows, start=2):
        checked = check_shape(row, _StoredResult, journal.path, TRUNCATE_REMEDY, line=number)
        results[checked.key] = row
    return results


class _StoredResult(StoredJson):
    """A row of the journal; what else it has depends on the task."""

    key: str
    error: str | None = None
