"""The result of a study: the configurations of its factors, their runs, and rankings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.plugins import load_component
from twinloop.description.safe_text import escape_name
from twinloop.exploration.factors.design import Configuration, Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.completion import compute_shortfalls, describe_fewer_completions
from twinloop.exploration.ranking.objectives import KPIS, Objective, explain_missing_kpi
from twinloop.exploration.study.input_hashes import RERUN_REMEDY, Hashes, find_changed_inputs
from twinloop.exploration.study.intervals import PREDICTION_LEVEL, make_intervals_table
from twinloop.exploration.study.plan import StudyRun, count_duplicates
from twinloop.exploration.study.state import StudyState
from twinloop.scenario import Scenario

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit
    from twinloop.exploration.ranking.ranking import Ranking

#: Files of the folder of a study.
MANIFEST: Final = "study.json"
JOURNAL: Final = "journal.jsonl"
#: The name of the base scenario if it is not one of the configurations.
AS_GIVEN: Final = "as given"
#: Maximum number of the best candidates that are checked for extrapolation beyond the fit.
MAX_EXAMINED: Final = 50


@dataclass(frozen=True, repr=False)
class Study(StudyState):
    """A study: its design and the results so far.

    `runs` has a row per run: its configuration, the level of each factor (null if the factor is not
    active), the seed, the KPIs, and the error of a failed run. `configurations` has a row per
    configuration: the mean of each KPI over the seeds, with `_sd`, `_min` and `_max`. This table,
    the candidates, the Pareto front and the effects use only the `seeds` that all configurations
    have. A KPI is null if a run with one of these seeds lacks it.

    >>> import twinloop as tl
    >>> tasks = [{"id": f"t{i}", "run_time": 10 + i, "cores": 1 + i % 3} for i in range(20)]
    >>> scenario = tl.Scenario(platform="2x4", policy="fifo", workload={"tasks": tasks})
    >>> study = tl.explore(scenario, {"policy": ["fifo", "fcfs", "easy", "sjf"]})
    >>> study
    <Study: 4 configurations of policy, 4 of 4 runs done>
    >>> study.top(1)[0].name
    'easy'
    >>> study.configurations.select("name", "makespan_s").height
    4
    """

    scenario: Scenario
    design: Design
    planned_configurations: tuple[Configuration, ...]
    planned_runs: tuple[StudyRun, ...]
    #: The result of each run that has ended, by its key: `kpis`, `seconds`, `error`, `draws`,
    #: `notes`, `cleaned`.
    results: Mapping[str, Mapping[str, Any]] = field(compare=False)
    #: The runs of the unchanged scenario, one for each seed.
    planned_baseline: tuple[StudyRun, ...] = ()
    fit: Fit | None = field(default=None, compare=False)
    folder: Path | None = None
    #: The KPI to optimise, with an optional direction such as `max:`.
    by: str = "makespan_s"
    #: Whether policies named as `module:Class` may be imported and run.
    allow_code: bool = False
    #: Notes of the plan.
    planning_notes: tuple[str, ...] = ()
    #: The hashes of all files that the runs read, by path; None: the file did not exist.
    inputs: Hashes = field(default_factory=dict, compare=False)

    # --- state -----------------------------------------------------------------------------------

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes on the study as a whole."""
        notes = [*self.planning_notes]
        if changed := find_changed_inputs(self.inputs):
            notes.append(f"changed since the simulation: {', '.join(changed)} ({RERUN_REMEDY})")
        if self._has_equal_seeds:
            notes.append(
                "the seeds made no difference: each configuration has the same result with every "
                "seed"
            )
        fewer = (
            describe_fewer_completions(self._outlines, self.baseline) if self._outlines else None
        )
        notes += [] if fewer is None else [fewer]
        done = [self.results[run.key] for run in self.planned_runs if run.key in self.results]
        counts = Counter(note for result in done for note in result.get("notes") or ())
        notes += [f"{note} ({times:,} of {len(done):,} runs)" for note, times in counts.items()]
        return (*notes, *self._describe_cleaning())

    def _describe_cleaning(self) -> Iterator[str]:
        """Describe the rows of the workload that are missing or were changed, by what was done."""
        found: dict[str, list[int]] = {}
        for _, what, count in self._list_cleaning():
            found.setdefault(what, []).append(count)
        for what, counts in found.items():
            low, high = min(counts), max(counts)
            number = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            runs = (
                "each run" if len(counts) == self.done else f"{len(counts):,} of {self.done:,} runs"
            )
            yield f"{what}: {number} in {runs}"

    @property
    def _has_equal_seeds(self) -> bool:
        """Whether the results of each configuration are equal for all of several seeds."""
        if len(self.seeds) < 2 or self.planning_notes or not self.kpis:
            return False
        same = self._compared_runs.group_by("configuration").agg(pl.col(self.kpis).n_unique())
        return bool((same.select(pl.max_horizontal(self.kpis)).to_series() == 1).all())

    @property
    def repeated(self) -> int:
        """The number of runs that are identical to an earlier one and were not simulated again."""
        return count_duplicates(self.planned_runs)

    @cached_property
    def kpis(self) -> tuple[str, ...]:
        """The KPIs that at least one run has."""
        names = {
            name
            for result in self.results.values()
            for name, value in (result["kpis"] or {}).items()
            if value is not None and math.isfinite(value)
        }
        return tuple(name for name in KPIS if name in names)

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row per run that has ended."""
        from twinloop.exploration.study.tables import make_runs_table

        return make_runs_table(self)

    @cached_property
    def configurations(self) -> pl.DataFrame:
        """A row per configuration with an ended run: means over the `seeds`, and spread."""
        from twinloop.exploration.study.tables import make_configurations_table

        return make_configurations_table(self)

    # --- candidates ------------------------------------------------------------------------------

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The configurations with at least one successful run, as candidates."""
        return tuple(map(self._complete_candidate, self._outlines))

    def candidate(self, configuration: int | str) -> Candidate:
        """Return a configuration with a successful run by its number or its name."""
        for each in self._outlines:
            if configuration in (each.configuration, each.name):
                return self._add_extrapolations(self._complete_candidate(each))
        raise InputError(
            f"the study has no configuration {configuration!r} with a successful run",
            kind="unknown-reference",
            field="configuration",
            remedy="`configurations` lists them",
        )

    @cached_property
    def baseline(self) -> Candidate:
        """The unchanged base scenario, with which all candidates are compared.

        It has no predictions if its runs failed or have not ended yet.
        """
        keys = {run.key for run in self.planned_baseline[:1]}
        unchanged = {run.configuration for run in self.planned_runs if run.key in keys}
        for each in self._outlines:
            if each.configuration in unchanged:
                return self._add_extrapolations(self._complete_candidate(each))
        runs = {run.seed: run for run in self.planned_baseline if self._has_succeeded(run)}
        chosen = [seed for seed in self.seeds if seed in runs] or list(runs)
        results = [self.results[runs[seed].key] for seed in chosen]
        if not results:
            return Candidate(AS_GIVEN, self.scenario, {}, inputs=self.inputs)
        scenario = self.scenario.replace(seed=chosen[0])
        candidate = Candidate.of_runs(AS_GIVEN, scenario, results)
        return self._add_extrapolations(replace(candidate, inputs=self.inputs))

    def _has_succeeded(self, run: StudyRun) -> bool:
        """Whether a run has ended and did not fail."""
        result = self.results.get(run.key)
        return result is not None and result["error"] is None

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds for which all candidates have a successful run; only these are compared.

        Configurations without any successful run are ignored.
        """
        sets = [
            {run.seed for run in runs if self._has_succeeded(run)}
            for runs in self._by_configuration.values()
        ]
        shared = set.intersection(*([each for each in sets if each] or [set()]))
        order = dict.fromkeys(run.seed for run in self.planned_runs)
        return tuple(seed for seed in order if seed in shared)

    @cached_property
    def _outlines(self) -> tuple[Candidate, ...]:
        """All candidates, with the base scenario instead of their own.

        The scenarios of thousands of candidates would take long to make, and few are needed.
        """
        outlines = []
        for number, runs in self._by_configuration.items():
            compared = self._select_compared(runs)
            if compared:
                configuration = self.planned_configurations[number]
                results = [self.results[run.key] for run in compared]
                outlines.append(
                    Candidate.of_runs(
                        configuration.name, self.scenario, results, configuration.labels, number
                    )
                )
        return tuple(outlines)

    def _select_compared(self, runs: Sequence[StudyRun]) -> list[StudyRun]:
        """Select the successful runs with shared seeds; all of them if no seed is shared."""
        successful = [run for run in runs if self._has_succeeded(run)]
        return [run for run in successful if run.seed in self.seeds] or successful

    def _complete_candidate(self, outline: Candidate) -> Candidate:
        if outline.configuration is None:
            return outline
        first = self._select_compared(self._by_configuration[outline.configuration])[0]
        scenario = apply_changes(self.scenario, first.changes)
        return replace(outline, scenario=scenario, inputs=self.inputs)

    def _add_extrapolations(self, candidate: Candidate) -> Candidate:
        """Return the candidate with its extrapolations beyond the data of the fit."""
        if self.fit is None:
            return candidate
        from twinloop.exploration.extrapolation.support import find_extrapolations

        try:
            sentences = find_extrapolations(
                candidate.scenario, self.fit, allow_code=self.allow_code
            )
        except TwinloopError as error:
            sentences = (
                f"The extrapolation beyond the fitted runs could not be examined: {error}",
            )
        return replace(candidate, unsupported=sentences)

    @cached_property
    def _by_configuration(self) -> dict[int, list[StudyRun]]:
        runs_by_configuration: dict[int, list[StudyRun]] = {}
        for run in self.planned_runs:
            runs_by_configuration.setdefault(run.configuration, []).append(run)
        return runs_by_configuration

    # --- decision --------------------------------------------------------------------------------

    def pareto(self, *objectives: str | Objective) -> pl.DataFrame:
        """Return the Pareto front of the objectives, sorted by the first objective.

        The default objectives are the KPI of the study and the energy per task, or the bill if the
        energy is not known, or the wait if neither is. A configuration that completes a smaller
        share of its tasks than another is not on the front, because less work improves all other
        KPIs.
        """
        from twinloop.exploration.ranking.pareto import find_front

        chosen = [Objective.of(each) for each in objectives or self.objectives]
        for each in chosen:
            self._check_kpi(each.kpi)
        table = self.configurations
        values = table.select(each.kpi for each in chosen).cast(pl.Float64).fill_null(math.nan)
        comparable = values.with_columns(
            pl.when(table["configuration"].is_in(self.fewer_tasks))
            .then(math.nan)
            .otherwise(pl.all())
            .name.keep()
        )
        on_front = find_front(comparable.to_numpy(), [each.lower for each in chosen])
        first = chosen[0]
        return table.filter(pl.Series(on_front)).sort(first.kpi, descending=not first.lower)

    @cached_property
    def fewer_tasks(self) -> tuple[int, ...]:
        """The numbers of the configurations that complete a smaller share of tasks than others."""
        shortfalls = compute_shortfalls(self._outlines, self.baseline)
        lowest = min(shortfalls, default=0.0)
        return tuple(
            each.configuration
            for each, shortfall in zip(self._outlines, shortfalls, strict=True)
            if each.configuration is not None and shortfall > lowest
        )

    @property
    def objectives(self) -> tuple[str, str]:
        """The default objectives of the Pareto front, `by` first.

        The other one is the first of energy per task, bill and wait that is known and not 0.
        """
        known = (
            kpi
            for kpi in ("energy_per_task_j", "bill")
            if kpi in self.kpis and self.runs[kpi].max()
        )
        others = (next(known, "wait_p95_s"), "makespan_s")
        return (self.by, next(kpi for kpi in others if kpi != Objective.of(self.by).kpi))

    def rank(self, by: Any = None, *, tolerance: float = 0.0) -> Ranking:
        """Rank all candidates, best first.

        Args:
            by: A KPI; several KPIs in lexicographic order; or a mapping of KPIs to weights. By
                default the KPI of the study.
            tolerance: Relative difference up to which values count as equal.
        """
        return self._rank(by, None, tolerance)

    def top(self, k: int = 3, by: Any = None, *, tolerance: float = 0.0) -> Ranking:
        """Rank the best `k` candidates; see `rank`."""
        if k < 1:
            raise InputError(f"must be 1 or more, not {k}", kind="out-of-range", field="k")
        return self._rank(by, k, tolerance)

    def _rank(self, by: Any, k: int | None, tolerance: float) -> Ranking:
        from twinloop.exploration.ranking.ranking import rank_candidates

        by = self.by if by is None else by
        if not self._outlines:
            raise InputError(
                "no run of the study has succeeded yet", kind="no-usable-runs", file=self.folder
            )
        if isinstance(by, str):
            self._check_kpi(by)
        ranking = rank_candidates(
            self._outlines,
            by,
            baseline=self.baseline,
            noise={} if self.fit is None else self.fit.noise,
            k=k,
            tolerance=tolerance,
            fit=self.fit,
        )
        candidates = [self._complete_candidate(each) for each in ranking]
        candidates = [
            *map(self._add_extrapolations, candidates[:MAX_EXAMINED]),
            *candidates[MAX_EXAMINED:],
        ]
        places = zip(ranking.places, candidates, strict=True)
        return replace(
            ranking, places=tuple(replace(place, candidate=each) for place, each in places)
        )

    def intervals(self, *kpis: str, level: float = PREDICTION_LEVEL) -> pl.DataFrame:
        """Return the range of a further run of each configuration, from its runs over the seeds.

        A row per configuration and KPI: the median of the runs, and the limits `low` and `high` of
        the prediction interval, null with fewer than 19 runs (for the level 0.9) or if a run lacks
        the KPI; see `compute_prediction_interval`. It contains what differs between the seeds and
        nothing else.

        Args:
            kpis: The KPIs; by default the objectives of the Pareto front.
            level: The probability with which an interval contains a further run.
        """
        named = kpis or tuple(Objective.of(each).kpi for each in self.objectives)
        chosen = [*map(self._check_kpi, named)]
        return make_intervals_table(self._outlines, self._compared_runs, chosen, level)

    def effects(self, kpi: str | None = None) -> pl.DataFrame:
        """Return the main effects of the factors on a KPI; see `compute_main_effects`."""
        from twinloop.exploration.study.effects import compute_main_effects

        kpi = self._check_kpi(kpi)
        return compute_main_effects(self._select_with_kpi(kpi), self.factors, kpi)

    def interactions(self, kpi: str | None = None) -> pl.DataFrame:
        """Return the two-factor interactions for a KPI; see `compute_interactions`."""
        from twinloop.exploration.study.effects import compute_interactions

        kpi = self._check_kpi(kpi)
        return compute_interactions(self._select_with_kpi(kpi), self.factors, kpi)

    @property
    def _compared_runs(self) -> pl.DataFrame:
        """The runs by which configurations are compared."""
        from twinloop.exploration.study.tables import is_compared

        return self.runs.filter(is_compared(self))

    def _select_with_kpi(self, kpi: str) -> pl.DataFrame:
        """Select the runs of configurations that have a KPI for every seed, as a ranking does."""
        lacks = pl.col(kpi).null_count().over("configuration") > 0
        return self._compared_runs.filter(~lacks)

    def _check_kpi(self, kpi: str | None) -> str:
        kpi = Objective.of(self.by if kpi is None else kpi).kpi
        if kpi not in self.kpis:
            reason = self.why_unknown(kpi)
            raise InputError(
                f"the runs have no {kpi}" + ("" if reason is None else f": {reason}"),
                kind="missing-data",
                field="kpi",
                remedy=f"available: {', '.join(self.kpis) or 'none yet'}",
            )
        return kpi

    def why_unknown(self, kpi: str) -> str | None:
        """Return the reason why no run has a KPI; None if a run has it or no reason is known."""
        if kpi in self.kpis:
            return None
        for result in self.results.values():
            if reason := (result.get("unknown") or {}).get(kpi):
                return str(reason)
        return explain_missing_kpi(self.scenario, kpi)

    # --- storage and output ----------------------------------------------------------------------

    def export(self, folder: str | Path) -> tuple[Path, ...]:
        """Write both tables as CSV and as Parquet."""
        from twinloop.exploration.study.tables import export

        return export(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, allow_code: bool = False) -> Study:
        """Read a study from its folder, also while it is running."""
        from twinloop.exploration.study.storage import load_study

        return load_study(Path(folder), allow_code=allow_code)

    @property
    def plot(self) -> Any:
        """Plotly figures of the study: `study.plot.pareto()`; see `StudyPlots`."""
        return load_component("study-plots")(self)

    def __str__(self) -> str:
        from twinloop.exploration.study.text import study_to_text

        return study_to_text(self)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        return escape_name(
            f"<Study: {len(self.planned_configurations):,} configurations of "
            f"{', '.join(self.factors)}, {self.done:,} of {self.planned:,} runs done{failed}>"
        )
