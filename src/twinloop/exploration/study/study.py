"""A Study: a set of scenarios made from factors and levels, and their results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
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
from twinloop.exploration.study.input_hashes import AGAIN, Hashes, find_changed_inputs
from twinloop.exploration.study.plan import StudyRun, count_duplicates
from twinloop.scenario import Scenario

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit
    from twinloop.exploration.ranking.ranking import Ranking

#: Files of the folder of a study.
MANIFEST: Final = "study.json"
JOURNAL: Final = "journal.jsonl"
#: What the scenario is called that was given, where it is none of the configurations.
AS_GIVEN: Final = "as given"
#: How many of the best are looked at for what the fit cannot know.
SUPPORTED: Final = 50


@dataclass(frozen=True, repr=False)
class Study:
    """What was asked, and what came out so far.

    `runs` has a row per run: its configuration, the level of each factor (null where the factor
    is not active), the seed, the KPIs, and the error of a run that failed. `configurations` has a
    row per configuration: the mean of each KPI over the seeds, with `_sd`, `_min` and `_max`. Like
    candidates, front and effects it is over the `seeds` that all configurations have, and a KPI is
    null where a run with one of them lacks it.

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
    #: What became of each run that is done, by its key: `kpis`, `seconds`, `error`, `draws`,
    #: `notes`.
    results: Mapping[str, Mapping[str, Any]] = field(compare=False)
    #: The scenario as it is, with each seed.
    planned_baseline: tuple[StudyRun, ...] = ()
    fit: Fit | None = field(default=None, compare=False)
    folder: Path | None = None
    #: The KPI that is to be good.
    by: str = "makespan_s"
    #: Whether policies named as `module:Class` may be imported and run.
    allow_code: bool = False
    #: What was said when it was planned.
    planning_notes: tuple[str, ...] = ()
    #: The hashes of all files that the runs read, by path; None: the file was not there.
    inputs: Hashes = field(default_factory=dict, compare=False)

    # --- what there is ---------------------------------------------------------------------------

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of the factors."""
        return tuple(self.design.factors)

    @property
    def planned(self) -> int:
        """How many runs the design has."""
        return len(self.planned_runs)

    @cached_property
    def done(self) -> int:
        """How many runs are over, the failed ones among them."""
        return sum(run.key in self.results for run in self.planned_runs)

    @cached_property
    def failed(self) -> int:
        """How many runs failed."""
        found = (self.results.get(run.key) for run in self.planned_runs)
        return sum(one is not None and one["error"] is not None for one in found)

    @cached_property
    def errors(self) -> tuple[str, ...]:
        """Why runs failed, each reason once."""
        found = (self.results.get(run.key) for run in self.planned_runs)
        said = (one["error"] for one in found if one is not None and one["error"] is not None)
        return tuple(dict.fromkeys(map(str, said)))

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is worth knowing of it as a whole, in sentences."""
        found = [*self.planning_notes]
        if other := find_changed_inputs(self.inputs):
            found.append(f"changed since it was simulated: {', '.join(other)} ({AGAIN})")
        if self._is_replicated_in_vain:
            found.append(
                "the seeds made no difference: with every seed each configuration is the same"
            )
        said = describe_fewer_completions(self._outlines, self.baseline) if self._outlines else None
        found += [] if said is None else [said]
        done = [self.results[run.key] for run in self.planned_runs if run.key in self.results]
        noted = Counter(note for one in done for note in one.get("notes") or ())
        found += [f"{note} ({times:,} of {len(done):,} runs)" for note, times in noted.items()]
        return tuple(found)

    @property
    def _is_replicated_in_vain(self) -> bool:
        """Whether the runs of all configurations are the same with each of several seeds."""
        if len(self.seeds) < 2 or self.planning_notes or not self.kpis:
            return False
        same = self._whole.group_by("configuration").agg(pl.col(self.kpis).n_unique())
        return bool((same.select(pl.max_horizontal(self.kpis)).to_series() == 1).all())

    @property
    def complete(self) -> bool:
        """Whether all runs are over."""
        return self.done == self.planned

    @property
    def repeated(self) -> int:
        """How many runs are the same as another one, and so were made once."""
        return count_duplicates(self.planned_runs)

    @cached_property
    def kpis(self) -> tuple[str, ...]:
        """The KPIs that the runs have."""
        found = {
            name
            for one in self.results.values()
            for name, value in (one["kpis"] or {}).items()
            if value is not None and math.isfinite(value)
        }
        return tuple(name for name in KPIS if name in found)

    @cached_property
    def runs(self) -> pl.DataFrame:
        """A row per run that is over."""
        from twinloop.exploration.study.tables import make_runs_table

        return make_runs_table(self)

    @cached_property
    def configurations(self) -> pl.DataFrame:
        """A row per configuration of which a run is over: means over the `seeds`, and spread."""
        from twinloop.exploration.study.tables import make_configurations_table

        return make_configurations_table(self)

    # --- candidates ------------------------------------------------------------------------------

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        """The configurations of which a run did not fail, as candidates."""
        return tuple(map(self._whole_of, self._outlines))

    def candidate(self, configuration: int | str) -> Candidate:
        """One configuration, by its number or its name."""
        for each in self._outlines:
            if configuration in (each.configuration, each.name):
                return self._supported(self._whole_of(each))
        raise InputError(
            f"the study has no configuration {configuration!r} that ran",
            field="configuration",
            remedy="`configurations` lists them",
        )

    @cached_property
    def baseline(self) -> Candidate:
        """The scenario that was given, unchanged: what all candidates are held against.

        Where its runs failed, or are still to come, nothing is predicted of it.
        """
        keys = {run.key for run in self.planned_baseline[:1]}
        same = {run.configuration for run in self.planned_runs if run.key in keys}
        for each in self._outlines:
            if each.configuration in same:
                return self._supported(self._whole_of(each))
        runs = {run.seed: run for run in self.planned_baseline if self._well(run)}
        chosen = [seed for seed in self.seeds if seed in runs] or list(runs)
        found = [self.results[runs[seed].key] for seed in chosen]
        if not found:
            return Candidate(AS_GIVEN, self.scenario, {}, inputs=self.inputs)
        first = self.scenario.replace(seed=chosen[0])
        made = Candidate.of_runs(AS_GIVEN, first, found)
        return self._supported(replace(made, inputs=self.inputs))

    def _well(self, run: StudyRun) -> bool:
        """Whether a run is over and did not fail."""
        found = self.results.get(run.key)
        return found is not None and found["error"] is None

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that candidates are compared by: those that all of them have.

        Of a configuration none of whose runs is over or all failed there is nothing to compare.
        """
        sets = [
            {run.seed for run in runs if self._well(run)}
            for runs in self._by_configuration.values()
        ]
        shared = set.intersection(*([each for each in sets if each] or [set()]))
        order = dict.fromkeys(run.seed for run in self.planned_runs)
        return tuple(seed for seed in order if seed in shared)

    @cached_property
    def _outlines(self) -> tuple[Candidate, ...]:
        """All candidates with the scenario still unchanged: of thousands, few are ever run."""
        made = []
        for number, runs in self._by_configuration.items():
            whole = self._compared(runs)
            if whole:
                known = self.planned_configurations[number]
                found = [self.results[run.key] for run in whole]
                made.append(
                    Candidate.of_runs(known.name, self.scenario, found, known.labels, number)
                )
        return tuple(made)

    def _compared(self, runs: Sequence[StudyRun]) -> list[StudyRun]:
        """The runs that a candidate is made of; all that it has where no seed is shared."""
        well = [run for run in runs if self._well(run)]
        return [run for run in well if run.seed in self.seeds] or well

    def _whole_of(self, outline: Candidate) -> Candidate:
        if outline.configuration is None:
            return outline
        first = self._compared(self._by_configuration[outline.configuration])[0]
        scenario = apply_changes(self.scenario, first.changes)
        return replace(outline, scenario=scenario, inputs=self.inputs)

    def _supported(self, candidate: Candidate) -> Candidate:
        """The candidate with what it leans on that the fit cannot know."""
        if self.fit is None:
            return candidate
        from twinloop.exploration.extrapolation.support import find_extrapolations

        try:
            leans = find_extrapolations(candidate.scenario, self.fit, allow_code=self.allow_code)
        except TwinloopError as error:
            leans = (f"What it leans on could not be examined: {error}",)
        return replace(candidate, unsupported=leans)

    @cached_property
    def _by_configuration(self) -> dict[int, list[StudyRun]]:
        found: dict[int, list[StudyRun]] = {}
        for run in self.planned_runs:
            found.setdefault(run.configuration, []).append(run)
        return found

    # --- deciding --------------------------------------------------------------------------------

    def pareto(self, *objectives: str | Objective) -> pl.DataFrame:
        """The configurations that no other one beats in all objectives, best by the first first.

        By default what the study is by, and energy per task, or wait where no energy is known. A
        configuration that completes fewer of its tasks than another is not on the front: it is no
        better for what it leaves undone.
        """
        from twinloop.exploration.ranking.pareto import find_front

        chosen = [Objective.of(each) for each in objectives or self.objectives]
        for each in chosen:
            self._checked(each.kpi)
        table = self.configurations
        values = table.select(each.kpi for each in chosen).cast(pl.Float64).fill_null(math.nan)
        short = compute_shortfalls(self._outlines, self.baseline)
        least = min(short, default=0.0)
        fewer = [
            each.configuration
            for each, lack in zip(self._outlines, short, strict=True)
            if lack > least
        ]
        whole = values.with_columns(
            pl.when(table["configuration"].is_in(fewer))
            .then(math.nan)
            .otherwise(pl.all())
            .name.keep()
        )
        kept = find_front(whole.to_numpy(), [each.lower for each in chosen])
        first = chosen[0]
        return table.filter(pl.Series(kept)).sort(first.kpi, descending=not first.lower)

    @property
    def objectives(self) -> tuple[str, str]:
        """The trade-off that is looked at unless another is asked for, `by` first."""
        energy = "energy_per_task_j" in self.kpis and bool(self.runs["energy_per_task_j"].max())
        usual = ("energy_per_task_j" if energy else "wait_p95_s", "makespan_s")
        return (self.by, next(kpi for kpi in usual if kpi != Objective.of(self.by).kpi))

    def rank(self, by: Any = None, *, tolerance: float = 0.0) -> Ranking:
        """All candidates, best first.

        Args:
            by: A KPI; several, of which a later one decides between those that are equal in the
                earlier ones; or a mapping of KPIs and weights. By default what the study is by.
            tolerance: Values that differ by no more than this share count as equal.
        """
        return self._ranked(by, None, tolerance)

    def top(self, k: int = 3, by: Any = None, *, tolerance: float = 0.0) -> Ranking:
        """The best candidates; see `rank`."""
        if k < 1:
            raise InputError(f"must be 1 or more, not {k}", field="k")
        return self._ranked(by, k, tolerance)

    def _ranked(self, by: Any, k: int | None, tolerance: float) -> Ranking:
        from twinloop.exploration.ranking.ranking import rank_candidates

        by = self.by if by is None else by
        if not self._outlines:
            raise InputError("no run of the study is over that did not fail", file=self.folder)
        if isinstance(by, str):
            self._checked(by)
        found = rank_candidates(
            self._outlines,
            by,
            baseline=self.baseline,
            noise={} if self.fit is None else self.fit.noise,
            k=k,
            tolerance=tolerance,
            fit=self.fit,
        )
        whole = [self._whole_of(each) for each in found]
        whole = [*map(self._supported, whole[:SUPPORTED]), *whole[SUPPORTED:]]
        places = zip(found.places, whole, strict=True)
        return replace(found, places=tuple(replace(at, candidate=each) for at, each in places))

    def effects(self, kpi: str | None = None) -> pl.DataFrame:
        """The main effect of each level of each factor on a KPI; see `compute_main_effects`."""
        from twinloop.exploration.study.effects import compute_main_effects

        kpi = self._checked(kpi)
        return compute_main_effects(self._having(kpi), self.factors, kpi)

    def interactions(self, kpi: str | None = None) -> pl.DataFrame:
        """What two factors do together that neither does alone; see `compute_interactions`."""
        from twinloop.exploration.study.effects import compute_interactions

        kpi = self._checked(kpi)
        return compute_interactions(self._having(kpi), self.factors, kpi)

    @property
    def _whole(self) -> pl.DataFrame:
        """The runs that configurations are compared by."""
        from twinloop.exploration.study.tables import is_compared

        return self.runs.filter(is_compared(self))

    def _having(self, kpi: str) -> pl.DataFrame:
        """Those of configurations that have a KPI with every seed, as a ranking has them."""
        lacks = pl.col(kpi).null_count().over("configuration") > 0
        return self._whole.filter(~lacks)

    def _checked(self, kpi: str | None) -> str:
        kpi = Objective.of(self.by if kpi is None else kpi).kpi
        if kpi not in self.kpis:
            why = self.why_unknown(kpi)
            raise InputError(
                f"the runs have no {kpi}" + ("" if why is None else f": {why}"),
                field="kpi",
                remedy=f"they have: {', '.join(self.kpis) or 'nothing yet'}",
            )
        return kpi

    def why_unknown(self, kpi: str) -> str | None:
        """Why the runs have no such KPI; None: they have it, or did not say."""
        if kpi in self.kpis:
            return None
        for one in self.results.values():
            if why := (one.get("unknown") or {}).get(kpi):
                return str(why)
        return explain_missing_kpi(self.scenario, kpi)

    # --- keeping and showing ---------------------------------------------------------------------

    def export(self, folder: str | Path) -> tuple[Path, ...]:
        """Write both tables as CSV and as Parquet."""
        from twinloop.exploration.study.tables import export

        return export(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, *, allow_code: bool = False) -> Study:
        """Read a study back, also one that is still running."""
        from twinloop.exploration.study.storage import load_study

        return load_study(Path(folder), allow_code=allow_code)

    @property
    def plot(self) -> Any:
        """Its pictures, as Plotly figures: `study.plot.pareto()`; see `StudyPlots`."""
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
