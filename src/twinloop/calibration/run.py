"""Fit one Model to many real runs."""

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
from twinloop.calibration.losses.noise_floor import estimate_noise_floor as noise_floor
from twinloop.calibration.parameters import defaults
from twinloop.calibration.parameters.applicability import refuse_inapplicable
from twinloop.calibration.parameters.file_format import journal_text
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.parameters.values import get_value
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
from twinloop.scenario.identity import Identities
from twinloop.trace import Manifest, Trace
from twinloop.trace.trace import require_trace

#: The loss for the values of a power model.
POWER_LOSS: Final = "power"
#: What a function is given of a run, as a loss.
_ANYTHING: Final = frozenset(
    {"makespan", "start", "end", "run_time", "wait", "cpu_time", "machine"}
)
#: A wait of more than this part of the makespan was one for others.
_QUEUED: Final = 0.01
#: Seconds that an analysis may take, about, and the most and fewest evaluations of it.
_ANALYSED, _MOST, _FEWEST = 1.0, 10_000, 1_300


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
    """Fit one Model to many real runs: find the values with which the twin is most like them.

    Each run carries in its manifest the scenario that it was made from: that is simulated, with
    the work that was declared, not with what was measured.

    Args:
        real: The runs to fit to; runs of one scenario are repetitions of each other.
        parameters: The values to move and their ranges, or a file that says them; without, those
            that these runs can tell something about.
        scenario: What was run, if the manifests do not say.
        validation: Runs that are held out, to see how good the fit is on runs it has not seen.
        loss: What is made small: the name of a loss, or one of your own.
        aggregate: How the losses of several scenarios become one: `avg` or `max`; by default as the
            loss says, else `avg`.
        optimiser: The name of an optimiser.
        budget: A number of evaluations, or a time such as `60s`.
        seed: Where the randomness of the search starts.
        names: What to call the runs, those held out last.
        folder: Where to keep it; an interrupted calibration goes on from there.
        criteria: The thresholds of the verdicts.
        analysis: Evaluations that may be spent on what the data can tell; 0: leave it out.
        threads: How many to simulate on; the result does not depend on it.
        on: Where to simulate: without, on threads of this process; else `processes`, `dask`, or
            `tls://host:port`, the address of a Dask scheduler. It pays where a run takes long.
        workers: How many there, at the same time.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        progress: Told what is being done and how far it is.
        report: Given the fit before it counts as kept, to write what is to lie beside it.

    >>> scenario = Scenario(platform="2x2", policy="fcfs", workload={"generate": {
    ...     "name": "poisson", "parameters": {"tasks": 30}}})
    >>> truth = simulate(scenario.replace(**{"model.speed_factor": 1.07}))
    >>> fit = calibrate(truth, scenario=scenario, parameters={"speed_factor": {"linear": [0.5, 2]}},
    ...                 budget=300, analysis=0)
    >>> round(fit.values["speed_factor"], 3)
    1.07
    """
    runs = [real] if isinstance(real, Trace) else list(real)
    if not runs:
        raise InputError("there is no run to fit to", field="real")
    for trace in (*runs, *validation):
        require_trace(trace)
    kept = None if folder is None else Path(folder)
    refuse_existing(kept)
    if scenario is not None and not isinstance(scenario, Scenario):
        scenario = Scenario.load(scenario)
    if isinstance(criteria, str | Path):
        criteria = Criteria.load(criteria)
    called = list(names) if names else [f"run {i + 1}" for i in range(len(runs) + len(validation))]
    refuse_duplicate_runs(list(zip(called, [*runs, *validation], strict=True)))
    if workers is not None and on is None:
        raise InputError("nobody said on what", field="workers", remedy="on='processes'")
    if threads is not None and on is not None:
        raise InputError("are for runs in this process", field="threads", remedy="give workers")
    made = _Calibration(
        NamedRuns(runs, called[: len(runs)]),
        NamedRuns(list(validation), called[len(runs) :]),
        scenario,
        aggregate,
        SearchSettings(
            optimiser, SearchBudget.of(budget), seed, -1 if analysis is None else analysis, progress
        ),
        kept,
        threads,
        allow_code,
    )
    space = None if parameters is None else defaults.make_space(parameters)
    if space is not None:
        refuse_inapplicable(space, made._cases(made.training, {}), parameters)
    measure = resolve_loss(loss, allow_code=allow_code)
    with nullcontext() if on is None else coordinator(on, workers=workers) as elsewhere:
        fit = replace(made, elsewhere=elsewhere).run(space, measure, criteria)
    if report is not None:
        report(fit)
    if kept is not None:
        fit.save(kept)
    return fit


def resolve_loss(given: str | Loss | Callable[..., float], *, allow_code: bool = False) -> Loss:
    """A loss from what a user gives: its name, one of his own, or a function of two runs."""
    if isinstance(given, str):
        return get_loss(given, allow_code=allow_code)
    if hasattr(given, "needs"):
        return given  # type: ignore[return-value]
    if callable(given):
        return loss_from_function(given, needs=_ANYTHING)
    raise InputError(f"is neither a loss nor a function: {given!r}", field="loss")


@dataclass(frozen=True)
class NamedRuns:
    """Runs, and what messages call them."""

    traces: list[Trace]
    names: list[str]

    def __iter__(self) -> Iterator[tuple[str, Trace]]:
        return iter(zip(self.names, self.traces, strict=True))

    def name_of(self, trace: Trace) -> str:
        """What a run is called."""
        return next(name for name, each in self if each is trace)


@dataclass(frozen=True)
class _Calibration:
    training: NamedRuns
    held_out: NamedRuns
    scenario: Scenario | None
    aggregate: str | None
    effort: SearchSettings
    folder: Path | None
    threads: int | None
    allow_code: bool
    #: Who simulates, if not this process.
    elsewhere: Coordinator | None = None

    def run(self, space: Space | None, loss: Loss, criteria: Criteria | str | Path | None) -> Fit:
        stages: list[StageResult] = []
        old: dict[str, Any] = {}
        values: dict[str, Any] = {}
        searched = []
        for part, measure in self._parts(space, loss):
            objective = self._objective(self.training, part, measure, values)
            refuse_incomparable(objective)
            old |= _defaults(objective.cases[0], part)
            searched.append(objective)
            stages.append(self._staged(objective, first=not stages))
            values |= stages[-1].history.best_values
        cases = self._cases(self.training, values)
        before, _ = self._verdicts(self.training, {}, criteria)
        after, pairs = self._verdicts(self.training, values, criteria)
        unseen, _ = self._verdicts(self.held_out, values, criteria)
        first = stages[0]
        fit = Fit(
            values=values,
            defaults=old,
            loss=first.history.best_loss,
            loss_before=first.objective.at({}),
            loss_name=searched[0].loss.name,
            aggregation=searched[0].aggregation,
            optimiser=first.history.optimiser,
            seed=self.effort.seed,
            evaluations=sum(len(stage.history.losses) for stage in stages),
            failed=sum(stage.history.failed for stage in stages),
            seconds=sum(stage.history.seconds for stage in stages),
            history=pl.concat([stage.history.table() for stage in stages], how="diagonal"),
            confidence_region=first.frame,
            draws=_side_by_side([stage.draws for stage in stages]),
            noise=estimate_scatter(pairs, min(len(values), len(cases))),
            identifiability=_joined([stage.identifiability for stage in stages]),
            validation_loss=self._validation(values, searched[0]),
            # Of the same runs as the loss, or it cannot be compared with it.
            floor=_floor(searched[0])
            if all(len(case.reals) > 1 for case in searched[0].cases)
            else None,
            runs=tuple(self._described(cases)),
            before=before,
            after=after,
            unseen=unseen,
            recipe=explain_changes(before, after, old, values),
            asked=self.effort.asked([each.space for each in searched])
            | {"criteria": after[0][1].to_dict()["criteria"]},
            scenarios=tuple(self._fitted(case.scenario) for case in cases),
        )
        busy = [
            said
            for name, trace in self.training
            if (said := defaults.describe_disturbance(trace, name))
        ]
        return replace(fit, warnings=(*busy, *_warnings(fit, stages, searched[0])))

    def _parts(self, space: Space | None, loss: Loss) -> list[tuple[Space, Loss]]:
        """What is searched for together: values that say when, then those that say how much."""
        electric: Space | None = None
        if space is None:
            space = defaults.choose_default_space(self._cases(self.training, {}))
            electric = self._power_space()
        elif not loss.needs & {"power", "energy"}:
            watts = [each for each in space if each.name.startswith("power.")]
            if len(watts) == len(space):
                return [(space, get_loss(POWER_LOSS))]
            if watts:
                space = Space([each for each in space if each not in watts])
                electric = Space(watts)
        parts = [(space, loss)]
        return parts if electric is None else [*parts, (electric, get_loss(POWER_LOSS))]

    def _power_space(self) -> Space | None:
        """The values of the power model, if the runs measured power and the platform has one."""
        if defaults.find_power_step(self.training.traces[0]) is None:
            return None
        case = self._cases(self.training, {}, power=True)[0]
        known = any(name.startswith("power.") for name in case.compiled.value_names)
        return defaults.make_power_space(case) if known else None

    def _cases(
        self,
        runs: NamedRuns,
        values: dict[str, Any],
        *,
        moved: Sequence[str] = (),
        power: bool = False,
    ) -> list[Case]:
        """The cases of these runs, with the values that earlier searches have found."""
        step = defaults.find_power_step(runs.traces[0]) if power else None
        return make_cases(
            runs.traces,
            names=runs.names,
            scenario=self.scenario,
            values=values,
            moved=moved,
            # Never those of runs that are held out.
            latencies=self.training.traces,
            allow_code=self.allow_code,
            power_step=step,
        )

    def _objective(
        self, runs: NamedRuns, space: Space, loss: Loss, values: dict[str, Any]
    ) -> TwinObjective:
        cases = self._cases(runs, values, moved=space.names, power="power" in loss.needs)
        if self.elsewhere is not None:
            return DistributedObjective(
                space, cases, loss, aggregate=self.aggregate, workers=self.elsewhere
            )
        return TwinObjective(space, cases, loss, aggregate=self.aggregate, threads=self.threads)

    def _staged(self, objective: TwinObjective, *, first: bool) -> StageResult:
        journal = None
        if self.folder is not None:
            make_folder(self.folder)
            journal = self.folder / (JOURNAL if first else f"power-{JOURNAL}")
        effort = self.effort
        if effort.analysis < 0:
            affordable = int(_ANALYSED / max(objective.cost, 1e-9))
            effort = replace(effort, analysis=min(_MOST, max(_FEWEST, affordable)))
        header = {
            "parameters": [journal_text(parameter) for parameter in objective.space],
            "loss": objective.loss.name,
            "aggregation": objective.aggregation,
            "evaluations": effort.budget.evaluations,
            "scenarios": [case.scenario.to_manifest() for case in objective.cases],
            "runs": [[digest_trace(trace) for trace in case.traces] for case in objective.cases],
            "twinloop": __version__,
        }
        known = Identities(allow_code=self.allow_code)
        objects = [known.identify(case.scenario) for case in objective.cases]
        if any(objects):  # two workloads in memory may look alike in a manifest
            header["objects"] = objects
        if LOSSES.get(objective.loss.name) is not objective.loss:  # its code may change
            header["loss_code"] = identify_code(objective.loss, journal, "loss")
        return run_stage(
            objective,
            effort,
            journal=journal,
            header=header,
            observations=_observations(objective),
            facts={
                "shared_cores": any(map(defaults.is_oversubscribed, self.training.traces)),
                "queued": any(
                    np.nanmax(run.wait, initial=0.0) > _QUEUED * run.makespan
                    for case in objective.cases
                    for run in case.reals
                ),
                "measured_power": any(trace.power.height for trace in self.training.traces),
            },
        )

    def _fitted(self, scenario: Scenario) -> Scenario:
        """The scenario that says which runs its values were fitted to."""
        known = tuple(digest_trace(trace) for trace in self.training.traces)
        return scenario.replace(**{"model.fitted_on": known})

    def _verdicts(
        self,
        runs: NamedRuns,
        values: dict[str, Any],
        criteria: Criteria | str | Path | None,
    ) -> tuple[tuple[tuple[str, Verdict], ...], list[tuple[Trace, Trace]]]:
        """The verdict on the twin of each run, by its name; and each run with its twin."""
        found, pairs = [], []
        for case in self._cases(runs, values) if runs.traces else ():
            sampled = any(trace.usage.height for trace in case.traces)
            twin = simulate(
                self._fitted(case.scenario) if values else case.scenario,
                allow_code=self.allow_code,
                usage_step=1.0 if sampled else None,
            )
            if case.part is not None:
                twin = select_tasks(twin, case.traces[0].tasks["id"])
            floor = NoiseFloor.from_traces(case.traces, criteria)
            for trace in case.traces:
                verdict = assess(trace, twin, floor=floor)
                found.append((runs.name_of(trace), verdict))
                pairs.append((trace, twin))
        return tuple(found), pairs

    def _validation(self, values: dict[str, Any], fitted: TwinObjective) -> float | None:
        """The loss on the runs that were held out: the one that was made small, put together so."""
        if not self.held_out.traces:
            return None
        known = {name: value for name, value in values.items() if name not in fitted.space.names}
        unseen = self._objective(self.held_out, fitted.space, fitted.loss, known)
        return unseen.at({name: values[name] for name in fitted.space.names})

    def _described(self, cases: list[Case]) -> Iterator[dict[str, Any]]:
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


def hash_manifest(manifest: Manifest) -> str:
    """The SHA-256 of a manifest as JSON with its keys in order: by it a run is known again."""
    told = json.dumps(manifest.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _defaults(case: Case, space: Space) -> dict[str, Any]:
    """The values as the scenario has them."""
    known = dict(zip(case.compiled.value_names, case.compiled.values().tolist(), strict=True))
    return {
        name: known[name] if name in known else get_value(case.scenario, name)
        for name in space.names
    }


def _observations(objective: TwinObjective) -> int:
    """Figures that are independent of each other: one for each task that ran, not all its times."""
    if "power" in objective.loss.needs:
        return sum(len(run.power) for case in objective.cases for run in case.reals)
    return sum(int(np.isfinite(run.end).sum()) for case in objective.cases for run in case.reals)


def _side_by_side(found: list[pl.DataFrame | None]) -> pl.DataFrame | None:
    known = [each for each in found if each is not None]
    least = min((each.height for each in known), default=0)
    return pl.concat([each.head(least) for each in known], how="horizontal") if known else None


def _floor(objective: TwinObjective) -> float | None:
    """The loss between repetitions, over the scenarios that were repeated."""
    found = [
        noise_floor(objective.loss, case.reals) for case in objective.cases if len(case.reals) > 1
    ]
    known = [each for each in found if each is not None]
    return float(np.mean(known)) if known else None


def refuse_incomparable(objective: TwinObjective) -> None:
    """Real runs that the loss cannot compare with anything are an error, before any search."""
    for case in objective.cases:
        evaluate(objective.loss, case.reals, RunBatch.of_runs(case.reals[:1]))


def refuse_duplicate_runs(runs: Sequence[tuple[str, Trace]]) -> None:
    """A run that is given twice, or both to fit to and to validate on, would count as two."""
    seen: dict[str, str] = {}
    for name, trace in runs:
        same = seen.setdefault(digest_trace(trace), name)
        if same != name:
            raise InputError(f"{name} is the same run as {same}", remedy="give it once")


def _joined(found: list[Identifiability | None]) -> Identifiability | None:
    known = [each for each in found if each is not None]
    return Identifiability.joined(known) if known else None


def _electric(objective: TwinObjective) -> bool:
    return bool(objective.loss.needs & {"power", "energy"})


def _warnings(fit: Fit, stages: list[StageResult], objective: TwinObjective) -> Iterator[str]:
    yield from check_improvement(fit.loss_before, fit.loss)
    if fit.validation_loss is not None and (
        said := check_overfitting(fit.loss, fit.validation_loss, _floor(objective))
    ):
        yield said
    for stage in stages:
        yield from stage.warnings()
    timed = stages[0].acceptable
    repeats = sum(len(case.reals) for case in objective.cases) > len(objective.cases)
    if timed is not None and repeats and not timed.run_effect and not _electric(objective):
        yield (
            f"the loss '{objective.loss.name}' does not show how far each run differs as a whole: "
            "the tasks of a run are taken to be independent, so the limits of predictions are too "
            "narrow if all of them are slow together (the loss 'matched' shows it)"
        )
    if fit.draws is not None and not all(each.get("known", 1.0) for each in fit.noise.values()):
        yield (
            "how much real runs of one scenario differ is not known from as many runs as there are "
            "scenarios: the limits of predictions hold the uncertainty of the values alone, and "
            "are too narrow (repeat a run)"
        )
    if any(run.get("mode") == "replay" for run in fit.runs):
        yield (
            "what was measured in a run went into its twin (replay): a good match says that "
            "queueing and sharing are right, no more"
        )
