"""Calibration: fit one Model to many real runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from twinloop import __version__
from twinloop.calibration.cases import Case, make_cases
from twinloop.calibration.error_attribution import explain_changes
from twinloop.calibration.fit import JOURNAL, Fit, make_folder, refuse_existing
from twinloop.calibration.identifiability import Identifiability
from twinloop.calibration.losses import (
    DEFAULT_LOSS,
    LOSSES,
    Loss,
    evaluate,
    get_loss,
    loss_from_function,
)
from twinloop.calibration.losses.noise_floor import estimate_noise_floor
from twinloop.calibration.losses.registry import FUNCTION_NEEDS
from twinloop.calibration.parameters import defaults
from twinloop.calibration.parameters.applicability import refuse_inapplicable
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import get_value, is_power_value
from twinloop.calibration.run_columns import RunBatch
from twinloop.calibration.search.distributed_objective import DistributedObjective
from twinloop.calibration.search.minimisation import SearchBudget
from twinloop.calibration.search.objective import TwinObjective
from twinloop.calibration.search.stage import (
    ProgressCallback,
    SearchSettings,
    StageResult,
    check_improvement,
    identify_code,
    run_stage,
)
from twinloop.calibration.splits import check_overfitting, select_tasks
from twinloop.calibration.uncertainty.prediction import estimate_scatter
from twinloop.campaign import Coordinator, coordinator
from twinloop.description.errors import InputError
from twinloop.engine import simulate
from twinloop.fidelity import Criteria, NoiseFloor, Verdict, assess
from twinloop.fidelity.alignment import digest_trace
from twinloop.scenario import Scenario
from twinloop.scenario.identity import Identities, values_to_hash
from twinloop.trace import Manifest, Trace
from twinloop.trace.trace import require_trace

#: The loss by which values of a power model are fitted.
POWER_LOSS: Final = "power"
#: A wait above this fraction of the makespan counts as queueing behind other tasks.
_QUEUED_FRACTION: Final = 0.01
#: The approximate duration of an analysis (s), and the limits of its number of evaluations.
_ANALYSIS_SECONDS, _MAX_ANALYSIS, _MIN_ANALYSIS = 1.0, 10_000, 1_300


def calibrate(
    real: Trace | Sequence[Trace],
    *,
    parameters: Any = None,
    scenario: Scenario | str | Path | None = None,
    validation: Sequence[Trace] = (),
    loss: str | Loss = DEFAULT_LOSS,
    aggregate: str | None = None,
    optimiser: str = "auto",
    budget: str | float | SearchBudget = 2000,
    seed: int = 0,
    names: Sequence[str] | None = None,
    folder: str | Path | None = None,
    criteria: Criteria | str | Path | None = None,
    analysis: int | None = None,
    threads: int | None = None,
    on: str | None = None,
    workers: int | None = None,
    allow_code: bool = False,
    progress: ProgressCallback | None = None,
    report: Callable[[Fit], None] | None = None,
) -> Fit:
    """Fit one Model to many real runs: find the values with the smallest loss of the twin.

    The manifest of each run contains its scenario. That scenario is simulated with the declared
    work, not with measured durations.

    Args:
        real: The runs to fit to; runs of one scenario are repetitions.
        parameters: The values to fit and their ranges, or a file with them; by default the values
            that these runs contain information about.
        scenario: The scenario of the runs, if their manifests contain none.
        validation: Runs held out from the fit, on which it is validated.
        loss: The loss to minimise: a name, a `Loss`, or a function of a real and a simulated run.
        aggregate: How the losses of several scenarios are combined: `avg` or `max`; by default
            the aggregation of the loss, else `avg`.
        optimiser: The name of an optimiser.
        budget: A number of evaluations, or a time such as `60s`.
        seed: The random seed of the search.
        names: The names of the runs, those of `validation` last.
        folder: The folder to store the fit in; an interrupted calibration resumes from it.
        criteria: The thresholds of the verdicts.
        analysis: The number of evaluations for the analysis of identifiability and uncertainty;
            0: no analysis.
        threads: The number of threads to simulate on; the result does not depend on it.
        on: Where to simulate: by default on threads of this process; else `processes`, `dask`, or
            `tls://host:port`, the address of a Dask scheduler, for runs that take seconds.
        workers: The number of workers there.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        progress: Called with the current activity and its progress.
        report: Called with the fit before it is stored, to write further files beside it.

    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 30}}})
    >>> truth = simulate(scenario.replace(**{"model.speed_factor": 1.07}))
    >>> fit = calibrate(truth, scenario=scenario, parameters={"speed_factor": {"linear": [0.5, 2]}},
    ...                 budget=300, analysis=0)
    >>> round(fit.values["speed_factor"], 3)
    1.07
    """
    runs = list_runs(real, validation)
    store = None if folder is None else Path(folder)
    refuse_existing(store)
    if scenario is not None and not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if isinstance(criteria, str | Path):
        criteria = Criteria.load(criteria)
    training, held_out = name_runs(runs, validation, names)
    if workers is not None and on is None:
        raise InputError("needs `on`", kind="no-effect", field="workers", remedy="on='processes'")
    if threads is not None and on is not None:
        raise InputError(
            "cannot be combined with `on`",
            kind="conflicting-fields",
            field="threads",
            remedy="give workers",
        )
    calibration = _Calibration(
        training,
        held_out,
        scenario,
        aggregate,
        SearchSettings(
            optimiser, SearchBudget.of(budget), seed, -1 if analysis is None else analysis, progress
        ),
        store,
        threads,
        allow_code,
    )
    space = None
    if parameters is not None:
        cases = calibration._make_cases(calibration.training, {})
        space = defaults.make_space(parameters, cases)
        refuse_inapplicable(space, cases, parameters)
    measure = resolve_loss(loss, allow_code=allow_code)
    with nullcontext() if on is None else coordinator(on, workers=workers) as remote:
        fit = replace(calibration, remote=remote).run(space, measure, criteria)
    if report is not None:
        report(fit)
    if store is not None:
        fit.save(store)
    return fit


def resolve_loss(given: str | Loss | Callable[..., float], *, allow_code: bool = False) -> Loss:
    """Return a loss from its name, an object with the interface of `Loss`, or a function."""
    if isinstance(given, str):
        return get_loss(given, allow_code=allow_code)
    if hasattr(given, "needs"):
        return given  # type: ignore[return-value]
    if callable(given):
        return loss_from_function(given, needs=FUNCTION_NEEDS)
    raise InputError(
        f"must be a name, a loss or a function, not {given!r}", kind="wrong-argument", field="loss"
    )


@dataclass(frozen=True)
class NamedRuns:
    """Runs with their names in messages."""

    traces: list[Trace]
    names: list[str]

    def __iter__(self) -> Iterator[tuple[str, Trace]]:
        return iter(zip(self.names, self.traces, strict=True))

    def name_of(self, trace: Trace) -> str:
        """Return the name of a run."""
        return next(name for name, each in self if each is trace)


def list_runs(real: Trace | Sequence[Trace], validation: Sequence[Trace]) -> list[Trace]:
    """List the runs to fit to; there must be one, and all must be traces."""
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
    return runs


def name_runs(
    runs: list[Trace], validation: Sequence[Trace], names: Sequence[str] | None
) -> tuple[NamedRuns, NamedRuns]:
    """Name the runs to fit to and those held out; no run may be given twice."""
    labels = list(names) if names else [f"run {i + 1}" for i in range(len(runs) + len(validation))]
    refuse_duplicate_runs(list(zip(labels, [*runs, *validation], strict=True)))
    count = len(runs)
    return NamedRuns(runs, labels[:count]), NamedRuns(list(validation), labels[count:])


@dataclass(frozen=True)
class _Calibration:
    training: NamedRuns
    held_out: NamedRuns
    scenario: Scenario | None
    aggregate: str | None
    settings: SearchSettings
    folder: Path | None
    threads: int | None
    allow_code: bool
    #: The workers that simulate; None: threads of this process.
    remote: Coordinator | None = None

    def run(self, space: Space | None, loss: Loss, criteria: Criteria | str | Path | None) -> Fit:
        stages: list[StageResult] = []
        defaults_before: dict[str, Any] = {}
        values: dict[str, Any] = {}
        searched = []
        for part, measure in self._divide_searches(space, loss):
            objective = self._make_objective(self.training, part, measure, values)
            refuse_incomparable(objective)
            defaults_before |= _get_defaults(objective.cases[0], part)
            searched.append(objective)
            stages.append(self._run_stage(objective, first=not stages))
            values |= stages[-1].history.best_values
        cases = self._make_cases(self.training, values)
        before, _ = self._assess_twins(self.training, {}, criteria)
        after, pairs = self._assess_twins(self.training, values, criteria)
        unseen, _ = self._assess_twins(self.held_out, values, criteria)
        first = stages[0]
        fit = Fit(
            values=values,
            defaults=defaults_before,
            loss=first.history.best_loss,
            loss_before=first.objective.at({}),
            loss_name=searched[0].loss.name,
            aggregation=searched[0].aggregation,
            optimiser=first.history.optimiser,
            seed=self.settings.seed,
            evaluations=sum(len(stage.history.losses) for stage in stages),
            failed=sum(stage.history.failed for stage in stages),
            seconds=sum(stage.history.seconds for stage in stages),
            history=pl.concat([stage.history.table() for stage in stages], how="diagonal"),
            confidence_region=first.frame,
            draws=_join_draws([stage.draws for stage in stages]),
            noise=estimate_scatter(pairs, min(len(values), len(cases))),
            identifiability=_combine_identifiability([stage.identifiability for stage in stages]),
            validation_loss=self._compute_validation_loss(values, searched[0]),
            # The floor is comparable with the loss only if all scenarios were repeated.
            floor=_average_noise_floor(searched[0])
            if all(len(case.reals) > 1 for case in searched[0].cases)
            else None,
            runs=tuple(self._describe_runs(cases)),
            before=before,
            after=after,
            unseen=unseen,
            recipe=explain_changes(before, after, defaults_before, values),
            settings=self.settings.to_dict([each.space for each in searched])
            | {"criteria": after[0][1].to_dict()["criteria"]},
            scenarios=tuple(self._mark_fitted(case.scenario) for case in cases),
        )
        disturbances = [
            text
            for name, trace in self.training
            if (text := defaults.describe_disturbance(trace, name))
        ]
        return replace(fit, warnings=(*disturbances, *_list_warnings(fit, stages, searched[0])))

    def _divide_searches(self, space: Space | None, loss: Loss) -> list[tuple[Space, Loss]]:
        """Divide the parameters into searches, each with its loss: first times, then power.

        Power does not change a schedule, so values of the power model are fitted after the others.
        """
        power_space: Space | None = None
        if space is None:
            space = defaults.choose_default_space(self._make_cases(self.training, {}))
            power_space = self._make_power_space()
        elif not loss.needs & {"power", "energy"}:
            power_parameters = [each for each in space if is_power_value(each.name)]
            if len(power_parameters) == len(space):
                return [(space, get_loss(POWER_LOSS))]
            if power_parameters:
                space = Space([each for each in space if each not in power_parameters])
                power_space = Space(power_parameters)
        parts = [(space, loss)]
        return parts if power_space is None else [*parts, (power_space, get_loss(POWER_LOSS))]

    def _make_power_space(self) -> Space | None:
        """Make the space of the power model; None if no power was measured or there is no model."""
        if defaults.find_power_step(self.training.traces[0]) is None:
            return None
        case = self._make_cases(self.training, {}, power=True)[0]
        has_power_model = any(map(is_power_value, case.compiled.value_names))
        return defaults.make_power_space(case) if has_power_model else None

    def _make_cases(
        self,
        runs: NamedRuns,
        values: dict[str, Any],
        *,
        fitted: Sequence[str] = (),
        power: bool = False,
    ) -> list[Case]:
        """Make the cases of these runs, with the values that earlier searches fitted."""
        step = defaults.find_power_step(runs.traces[0]) if power else None
        return make_cases(
            runs.traces,
            names=runs.names,
            scenario=self.scenario,
            values=values,
            fitted=fitted,
            # Latencies of held-out runs must not enter the model.
            latencies=self.training.traces,
            allow_code=self.allow_code,
            power_step=step,
        )

    def _make_objective(
        self, runs: NamedRuns, space: Space, loss: Loss, values: dict[str, Any]
    ) -> TwinObjective:
        cases = self._make_cases(runs, values, fitted=space.names, power="power" in loss.needs)
        if self.remote is not None:
            return DistributedObjective(
                space, cases, loss, aggregate=self.aggregate, workers=self.remote
            )
        return TwinObjective(space, cases, loss, aggregate=self.aggregate, threads=self.threads)

    def _run_stage(self, objective: TwinObjective, *, first: bool) -> StageResult:
        journal = None
        if self.folder is not None:
            make_folder(self.folder)
            journal = self.folder / (JOURNAL if first else f"power-{JOURNAL}")
        settings = self.settings
        if settings.analysis < 0:
            affordable = int(_ANALYSIS_SECONDS / max(objective.cost, 1e-9))
            settings = replace(
                settings, analysis=min(_MAX_ANALYSIS, max(_MIN_ANALYSIS, affordable))
            )
        header = {
            "parameters": [journal_text(parameter) for parameter in objective.space],
            "loss": objective.loss.name,
            "aggregation": objective.aggregation,
            "evaluations": settings.budget.evaluations,
            "scenarios": [values_to_hash(case.scenario.to_manifest()) for case in objective.cases],
            "runs": [[digest_trace(trace) for trace in case.traces] for case in objective.cases],
            "twinloop": __version__,
        }
        identities = Identities(allow_code=self.allow_code)
        objects = [identities.identify(case.scenario) for case in objective.cases]
        if any(objects):  # different workloads in memory may have equal manifests
            header["objects"] = objects
        if LOSSES.get(objective.loss.name) is not objective.loss:  # its code may change
            header["loss_code"] = identify_code(objective.loss, journal, "loss")
        return run_stage(
            objective,
            settings,
            journal=journal,
            header=header,
            observations=_count_observations(objective),
            facts=collect_facts(objective.cases, self.training.traces),
        )

    def _mark_fitted(self, scenario: Scenario) -> Scenario:
        """Store in the scenario the digests of the runs that its values were fitted to."""
        digests = tuple(digest_trace(trace) for trace in self.training.traces)
        return scenario.replace(**{"model.fitted_on": digests})

    def _assess_twins(
        self,
        runs: NamedRuns,
        values: dict[str, Any],
        criteria: Criteria | str | Path | None,
    ) -> tuple[tuple[tuple[str, Verdict], ...], list[tuple[Trace, Trace]]]:
        """Assess the twin of each run: verdicts by name, and pairs of run and twin."""
        verdicts, pairs = [], []
        for case in self._make_cases(runs, values) if runs.traces else ():
            sampled = any(trace.usage.height for trace in case.traces)
            twin = simulate(
                self._mark_fitted(case.scenario) if values else case.scenario,
                allow_code=self.allow_code,
                usage_step=1.0 if sampled else None,
            )
            if case.part is not None:
                twin = select_tasks(twin, case.traces[0].tasks["id"])
            floor = NoiseFloor.from_traces(case.traces, criteria)
            for trace in case.traces:
                verdict = assess(trace, twin, floor=floor)
                verdicts.append((runs.name_of(trace), verdict))
                pairs.append((trace, twin))
        return tuple(verdicts), pairs

    def _compute_validation_loss(
        self, values: dict[str, Any], objective: TwinObjective
    ) -> float | None:
        """Compute the loss of the fitted values on the held-out runs; None if there are none."""
        if not self.held_out.traces:
            return None
        fixed = {name: value for name, value in values.items() if name not in objective.space.names}
        unseen = self._make_objective(self.held_out, objective.space, objective.loss, fixed)
        return unseen.at({name: values[name] for name in objective.space.names})

    def _describe_runs(self, cases: list[Case]) -> Iterator[dict[str, Any]]:
        for case in cases:
            for trace in case.traces:
                yield {
                    "name": self.training.name_of(trace),
                    "manifest_sha256": hash_manifest(trace.manifest),
                    "used": "training",
                    "mode": case.mode,
                    "tasks": len(case.compiled.arrays),
                    "injected": list(case.compiled.injected),
                }
        for name, trace in self.held_out:
            yield {
                "name": name,
                "manifest_sha256": hash_manifest(trace.manifest),
                "used": "validation",
                "tasks": trace.tasks.height,
            }


def collect_facts(cases: Sequence[Case], traces: Sequence[Trace]) -> dict[str, bool]:
    """Collect facts about runs that explain why a parameter has no effect."""
    return {
        "shared_cores": any(map(defaults.is_oversubscribed, traces)),
        "queued": any(
            bool(np.nanmax(run.wait, initial=0.0) > _QUEUED_FRACTION * run.makespan)
            for case in cases
            for run in case.reals
        ),
        "measured_power": any(trace.power.height for trace in traces),
    }


def hash_manifest(manifest: Manifest) -> str:
    """Hash a manifest with SHA-256, as JSON with sorted keys; it identifies a run."""
    text = json.dumps(manifest.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _get_defaults(case: Case, space: Space) -> dict[str, Any]:
    """Get the values in the scenario before the fit."""
    values = dict(zip(case.compiled.value_names, case.compiled.values().tolist(), strict=True))
    return {
        name: values[name] if name in values else get_value(case.scenario, name)
        for name in space.names
    }


def _count_observations(objective: TwinObjective) -> int:
    """Count independent observations: one per completed task, since its times are correlated."""
    if "power" in objective.loss.needs:
        return sum(len(run.power) for case in objective.cases for run in case.reals)
    return sum(int(np.isfinite(run.end).sum()) for case in objective.cases for run in case.reals)


def _join_draws(tables: list[pl.DataFrame | None]) -> pl.DataFrame | None:
    known = [each for each in tables if each is not None]
    min_height = min((each.height for each in known), default=0)
    return pl.concat([each.head(min_height) for each in known], how="horizontal") if known else None


def _average_noise_floor(objective: TwinObjective) -> float | None:
    """Average the noise floor over the scenarios that were repeated; None if there are none."""
    floors = [
        estimate_noise_floor(objective.loss, case.reals)
        for case in objective.cases
        if len(case.reals) > 1
    ]
    known = [each for each in floors if each is not None]
    return float(np.mean(known)) if known else None


def refuse_incomparable(objective: TwinObjective) -> None:
    """Raise an error if the loss cannot compare the real runs, before any search."""
    for case in objective.cases:
        evaluate(objective.loss, case.reals, RunBatch.of_runs(case.reals[:1]))


def refuse_duplicate_runs(runs: Sequence[tuple[str, Trace]]) -> None:
    """Raise an error if a run is given twice, or both for the fit and for validation."""
    seen: dict[str, str] = {}
    for name, trace in runs:
        first = seen.setdefault(digest_trace(trace), name)
        if first != name:
            raise InputError(
                f"{name} is the same run as {first}",
                kind="repeated-run",
                remedy="give the run once",
            )


def _combine_identifiability(found: list[Identifiability | None]) -> Identifiability | None:
    known = [each for each in found if each is not None]
    return Identifiability.combine(known) if known else None


def _compares_power(objective: TwinObjective) -> bool:
    return bool(objective.loss.needs & {"power", "energy"})


def _list_warnings(fit: Fit, stages: list[StageResult], objective: TwinObjective) -> Iterator[str]:
    yield from check_improvement(fit.loss_before, fit.loss)
    if fit.validation_loss is not None and (
        warning := check_overfitting(fit.loss, fit.validation_loss, _average_noise_floor(objective))
    ):
        yield warning
    for stage in stages:
        yield from stage.warnings()
    posterior = stages[0].posterior
    repeats = sum(len(case.reals) for case in objective.cases) > len(objective.cases)
    timed = not _compares_power(objective)
    if posterior is not None and repeats and timed and not posterior.run_effect:
        yield (
            f"the loss '{objective.loss.name}' has no residuals by run, so the variance between "
            "runs (random effect) is not estimated: prediction intervals are too narrow if all "
            "tasks of a run are slow together (use the loss 'matched')"
        )
    if fit.draws is not None and not all(each.get("known", 1.0) for each in fit.noise.values()):
        yield (
            "the scatter between real runs of one scenario cannot be estimated from one run per "
            "scenario: prediction intervals contain the uncertainty of the values alone and are "
            "too narrow (repeat a run)"
        )
    if any(run.get("mode") == "replay" for run in fit.runs):
        yield (
            "measured figures of a run went into its twin (replay): a good match validates only "
            "queueing and sharing"
        )
