"""Confirmation of recommendations by real runs of the candidates and the baseline."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twinloop.calibration.parameters.defaults import describe_disturbance
from twinloop.description.errors import InputError, TwinloopError
from twinloop.description.file_names import join_below
from twinloop.description.files import refuse_file
from twinloop.description.safe_text import escape_controls
from twinloop.execution.announcement import COMMANDS
from twinloop.execution.task_commands import CommandSurvey
from twinloop.exploration.confirmation.bundles import load_returned_runs, match_returned_plan
from twinloop.exploration.confirmation.plan import (
    PLAN,
    RUNS,
    ConfirmationPlan,
    choose_candidates,
    load_plan,
)
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.confirmation.runs import (
    ConfirmationCallback,
    ExecutedRun,
    ExecutedRuns,
    TimeBudget,
    execute_plan,
    survey_plan,
)
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.completion import describe_fewer_completions
from twinloop.exploration.ranking.objectives import KPIS, Objective
from twinloop.exploration.ranking.uncertainty import compute_probability_better
from twinloop.trace import Trace
from twinloop.trace.trace import format_count

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit

#: Metrics that are compared by default, in addition to the objectives of the ranking.
METRICS: Final = ("makespan_s", "wait_p95_s", "energy_per_task_j")


def confirm(
    ranking: Sequence[Candidate],
    *,
    baseline: Candidate | None = None,
    repetitions: int = 5,
    budget: float | None = None,
    metrics: Sequence[str | Objective] | None = None,
    folder: str | Path | None = None,
    seed: int = 0,
    traces: str | Path | None = None,
    isolation: str = "auto",
    allow_code: bool = False,
    announce: Callable[[str], None] | None = None,
    progress: ConfirmationCallback | None = None,
    diagnose: bool = True,
    fit: Fit | None = None,
    fitted_to: Sequence[Trace] = (),
) -> Confirmation:
    """Execute candidates and the baseline, and compare their order with the predicted one.

    The runs follow a randomised block design: each repetition executes all configurations in random
    order, so that drift affects all of them. A candidate is compared with the baseline, repetition
    by repetition: its recommendation *holds* if the 90 % confidence interval of the mean difference
    excludes zero and has the predicted sign, is *reversed* if it has the other sign, and else a
    *tie*. If two significantly different configurations were ranked in the wrong order, the
    diagnosis searches for the option of the model that gives the measured order.

    The commands are announced before the first run. A failed run is noted, and the others continue.
    A run also counts as failed if a task fails, or if more tasks are rejected or killed than
    predicted. An interrupted confirmation resumes in its folder and keeps complete runs.

    Args:
        ranking: The recommended candidates, best first: `study.top(3)`.
        baseline: The baseline; by default that of the ranking.
        repetitions: The number of repetitions.
        budget: The time for all runs (s); limits the repetitions, but not below two.
        metrics: The metrics to compare in addition to those of the ranking; the first of all
            determines the verdict. By default the makespan, the 95th percentile of the waits, and
            the energy per task.
        folder: The folder to store the confirmation and its runs in.
        seed: The random seed of the order of the runs.
        traces: A returned bundle, whose runs are used instead of new ones. They are copied into
            `folder`, if it is given.
        isolation: The isolation of tasks from other nodes; see `twinloop.execute`.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        announce: Called with each message; by default messages go to stderr.
        progress: Called with the progress.
        diagnose: Whether to search for the cause of a wrong order.
        fit: The fit of the predictions; by default that of the ranking.
        fitted_to: The runs of the fit, for the diagnosis.

    >>> from twinloop.scenario import Scenario
    >>> burn = ["twinloop-burn", "cpu", "--seconds", "0.05"]
    >>> tasks = [{"id": f"t{i}", "command": burn, "run_time": 0.05} for i in range(2)]
    >>> fifo = Scenario(platform="1x1", policy="fifo", workload={"tasks": tasks})
    >>> slow = Candidate("one at a time", fifo, {"makespan_s": 0.1})
    >>> fcfs = Candidate("fcfs", fifo.replace(policy="fcfs"), {"makespan_s": 0.09})
    >>> confirmation = confirm([fcfs], baseline=slow, repetitions=1, announce=lambda text: None)
    >>> confirmation.status, confirmation.runs.height
    ('not assessable', 2)
    """
    candidates, base, notes = choose_candidates(ranking, baseline)
    objectives = _list_objectives(ranking, metrics)
    target = None if folder is None else Path(folder)
    bundle = None if traces is None else Path(traces)
    plan = ConfirmationPlan(candidates, base, repetitions, seed)
    if (fewer := describe_fewer_completions(candidates, base)) is not None:
        notes = (*notes, f"{fewer}: the runs do not do the same work")
    say = announce or _print_to_stderr
    fit = fit if fit is not None else getattr(ranking, "fit", None)
    is_separate = target is not None and (bundle is None or target.resolve() != bundle.resolve())
    if bundle is not None and bundle.is_dir():
        plan = match_returned_plan(plan, bundle)
    if target is not None and is_separate:
        _check_folder(plan, target)
    if bundle is not None:
        executed = load_returned_runs(plan, bundle, allow_code=allow_code)
        if target is not None and is_separate:
            executed = _copy_runs(plan, executed, target)
    else:
        executed = execute_plan(
            plan,
            target,
            budget=TimeBudget.of(budget),
            isolation=isolation,
            allow_code=allow_code,
            say=say,
            progress=progress,
        )
    confirmation = Confirmation.of(
        candidates,
        base,
        [_make_row(plan, each, objectives) for each in executed.runs],
        objectives,
        probabilities=_compute_probabilities(candidates, base, objectives[0], fit),
        seed=executed.seed,
        notes=[
            *notes,
            *executed.notes,
            *_describe_disturbances(executed),
            *_explain_missing_energy(objectives, executed),
        ],
        folder=target or bundle,
        held={each.run.order: each.trace for each in executed.runs if each.trace is not None},
    )
    if diagnose and confirmation.reversed:
        say("a ranking is reversed: searching for the option that gives the measured order")
        confirmation = _add_diagnosis(confirmation, fit, fitted_to, allow_code)
    if target is not None:
        confirmation.save(target)
    return confirmation


def preview_commands(
    ranking: Sequence[Candidate], *, baseline: Candidate | None = None, allow_code: bool = False
) -> dict[str, CommandSurvey]:
    """List the commands that `confirm` would run, by configuration, without running any.

    Args:
        ranking: The recommended candidates, best first.
        baseline: The baseline; by default that of the ranking.
        allow_code: Whether a policy named as `module:Class` may be imported.
    """
    candidates, base, _ = choose_candidates(ranking, baseline)
    return survey_plan(ConfirmationPlan(candidates, base, 1, 0), allow_code)


def _list_objectives(
    ranking: Sequence[Candidate], metrics: Sequence[str | Objective] | None
) -> list[Objective]:
    """List the metrics to compare; the first determines the verdict."""
    ranked = [Objective.of(each) for each in getattr(ranking, "objectives", ())]
    more = [Objective.of(each) for each in (METRICS if metrics is None else metrics)]
    by_kpi = {each.kpi: each for each in reversed([*ranked, *more])}
    order = dict.fromkeys(each.kpi for each in [*ranked, *more])
    if not order:
        raise InputError(
            "there is no metric to compare",
            kind="missing-field",
            field="metrics",
            remedy="name one, such as makespan_s",
        )
    return [by_kpi[kpi] for kpi in order]


def _check_folder(plan: ConfirmationPlan, folder: Path) -> None:
    """Raise an error for the folder of another confirmation, or with foreign files."""
    refuse_file(folder)
    own_names = {PLAN, RUNS, "confirmation.json", "runs.parquet", "report.md", "report.html"}
    own_names.add(COMMANDS)
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name not in own_names and not entry.name.startswith((".", "workload-")):
            raise InputError(
                f"exists already and is not a confirmation: it contains {entry.name}",
                kind="not-replaceable",
                file=folder,
                remedy="name a folder that does not exist",
            )
    if (folder / PLAN).exists() and (stored := load_plan(folder)) is not None:
        plan.check_matches(*stored)
    elif folder.is_dir() and (names := [e.name for e in folder.iterdir() if e.name in own_names]):
        # A folder without a plan must contain a finished confirmation.
        if "confirmation.json" not in names:
            raise InputError(
                f"exists already and is not a confirmation: it contains {min(names)}",
                kind="not-replaceable",
                file=folder,
                remedy="name a folder that does not exist",
            )
        Confirmation.load(folder)


def _copy_runs(plan: ConfirmationPlan, executed: ExecutedRuns, folder: Path) -> ExecutedRuns:
    """Copy returned runs as traces into the folder of the confirmation.

    The plan is written first, so that an interrupted copy can be resumed.
    """
    if not (folder / PLAN).exists():
        plan.save(folder)
    runs = []
    for each in executed.runs:
        path = None
        if each.trace is not None:
            target = join_below(folder / RUNS, each.run.name, field="runs")
            if not target.exists():
                each.trace.save(target)
            elif Trace.load(target) != each.trace:
                raise InputError(
                    f"contains another run named {each.run.name}",
                    kind="different-inputs",
                    file=folder,
                    remedy="name a folder that does not exist",
                )
            path = f"{RUNS}/{each.run.name}"
        runs.append(replace(each, path=path))
    return replace(executed, runs=tuple(runs))


def _make_row(
    plan: ConfirmationPlan, each: ExecutedRun, objectives: Sequence[Objective]
) -> dict[str, Any]:
    return {
        "order": each.run.order,
        "candidate": plan.configurations[each.run.configuration].name,
        "repetition": each.run.repetition,
        "trace": each.path,
        "seconds": each.seconds,
        "error": each.error,
        **{objective.kpi: each.figures.get(objective.kpi) for objective in objectives},
    }


def _describe_disturbances(executed: ExecutedRuns) -> list[str]:
    """Note runs that were disturbed by another load on the machine."""
    texts = [
        text
        for each in executed.runs
        if each.trace is not None
        and (text := describe_disturbance(each.trace, each.run.name)) is not None
    ]
    return (
        [f"{len(texts)} of {format_count(len(executed.runs), 'run')} disturbed: {texts[0]}"]
        if texts
        else []
    )


def _explain_missing_energy(objectives: Sequence[Objective], executed: ExecutedRuns) -> list[str]:
    """Note the reasons for missing measurements of energy, if energy is compared."""
    if not any(each.kpi in ("energy_j", "energy_per_task_j", "carbon_g") for each in objectives):
        return []
    reasons: list[str] = []
    for each in executed.runs:
        power = {} if each.trace is None else each.trace.manifest.facts.get("power")
        reasons += power.get("said", ()) if isinstance(power, Mapping) else ()
    return [f"no energy was measured: {reason}" for reason in dict.fromkeys(reasons)]


def _compute_probabilities(
    candidates: Sequence[Candidate], base: Candidate, by: Objective, fit: Fit | None
) -> dict[str, float | None]:
    """Compute the predicted probability that each candidate is better than the baseline."""
    probabilities: dict[str, float | None] = {}
    for each in candidates:
        if by.kpi not in KPIS or by.kpi not in each.predicted or by.kpi not in base.predicted:
            continue
        probability = compute_probability_better(each, base, by, {} if fit is None else fit.noise)
        probabilities[each.name] = None if math.isnan(probability) else probability
    return probabilities


def _add_diagnosis(
    confirmation: Confirmation, fit: Fit | None, fitted_to: Sequence[Trace], allow_code: bool
) -> Confirmation:
    from twinloop.exploration.confirmation.diagnosis import diagnose

    try:
        diagnosis = diagnose(confirmation, fitted_to, fit=fit, allow_code=allow_code)
    except TwinloopError as error:
        return replace(confirmation, notes=(*confirmation.notes, f"no diagnosis: {error}"))
    return replace(confirmation, diagnosis=diagnosis)


def _print_to_stderr(text: str) -> None:
    print(escape_controls(text), file=sys.stderr)
