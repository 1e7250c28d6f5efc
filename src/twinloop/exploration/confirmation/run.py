"""Confirm: run the candidates and the baseline for real, and say which recommendation holds."""

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
    ExecutedRun,
    ExecutedRuns,
    TimeBudget,
    Told,
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

#: Metrics that are always looked at, beside what was ranked by.
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
    progress: Told | None = None,
    diagnose: bool = True,
    fit: Fit | None = None,
    fitted_to: Sequence[Trace] = (),
) -> Confirmation:
    """Run candidates and the baseline for real, and hold their order against the predicted one.

    Each repetition runs all of them, in a random order, so that what drifts is shared. A candidate
    is compared with the baseline, repetition by repetition: its recommendation *holds* if the 90 %
    interval of the mean difference excludes zero on the predicted side, is *reversed* if on the
    other, and else a *tie*. Where two configurations that really differ were ranked the wrong way
    round, the diagnosis looks for the option of the model that would have ranked them right.

    It says first what it will run. A run that fails is noted, and the others go on; a run counts as
    failed too in which a task fails, or more tasks are rejected or killed than were predicted. In
    a folder whose confirmation was cut short, runs that are complete are kept.

    Args:
        ranking: What is recommended, best first: `study.top(3)`.
        baseline: What it is compared with; a ranking knows its own.
        repetitions: How often each is run.
        budget: Time for all runs (s): as many repetitions as fit, but at least two.
        metrics: What to compare beside what was ranked by, the first of which decides; by default
            the makespan, the 95th percentile of the waits, and the energy per task.
        folder: Where to keep it, with all runs.
        seed: Where the randomness of the order starts.
        traces: Run nothing, and read what came back from a bundle, which lies there. With a
            folder, its runs are copied into that.
        isolation: What keeps tasks to their nodes; see `twinloop.execute`.
        allow_code: Whether a policy named as `module:Class` may be imported and run.
        announce: Called with each thing that is worth saying; without, it goes to stderr.
        progress: Told how far it is.
        diagnose: Whether to look for the cause of a wrong order.
        fit: The fit that the predictions are made with; a ranking knows its own.
        fitted_to: The runs that it was made on, for the diagnosis.

    >>> from twinloop.scenario import Scenario
    >>> burn = ["twinloop-burn", "cpu", "--seconds", "0.05"]
    >>> tasks = [{"id": f"t{i}", "command": burn, "run_time": 0.05} for i in range(2)]
    >>> fifo = Scenario(platform="1x1", policy="fifo", workload={"tasks": tasks})
    >>> slow = Candidate("one at a time", fifo, {"makespan_s": 0.1})
    >>> fcfs = Candidate("fcfs", fifo.replace(policy="fcfs"), {"makespan_s": 0.09})
    >>> found = confirm([fcfs], baseline=slow, repetitions=1, announce=lambda text: None)
    >>> found.status, found.runs.height
    ('not assessable', 2)
    """
    candidates, base, notes = choose_candidates(ranking, baseline)
    wanted = _objectives(ranking, metrics)
    kept = None if folder is None else Path(folder)
    where = None if traces is None else Path(traces)
    plan = ConfirmationPlan(candidates, base, repetitions, seed)
    if (fewer := describe_fewer_completions(candidates, base)) is not None:
        notes = (*notes, f"{fewer}: they are not compared over the same work")
    say = announce or _to_stderr
    fit = fit if fit is not None else getattr(ranking, "fit", None)
    elsewhere = kept is not None and (where is None or kept.resolve() != where.resolve())
    if where is not None and where.is_dir():
        plan = match_returned_plan(plan, where)
    if kept is not None and elsewhere:
        _refuse_other(plan, kept)
    if where is not None:
        found = load_returned_runs(plan, where, allow_code=allow_code)
        if kept is not None and elsewhere:
            found = _copied(plan, found, kept)
    else:
        found = execute_plan(
            plan,
            kept,
            budget=TimeBudget.of(budget),
            isolation=isolation,
            allow_code=allow_code,
            say=say,
            progress=progress,
        )
    made = Confirmation.of(
        candidates,
        base,
        [_row(plan, each, wanted) for each in found.runs],
        wanted,
        probabilities=_foretold(candidates, base, wanted[0], fit),
        seed=found.seed,
        notes=[*notes, *found.notes, *_disturbed(found), *_unmeasured(wanted, found)],
        folder=kept or where,
        held={each.run.order: each.trace for each in found.runs if each.trace is not None},
    )
    if diagnose and made.reversed:
        say("a ranking is reversed: looking for the option that would have ranked it right")
        made = _diagnosed(made, fit, fitted_to, allow_code)
    if kept is not None:
        made.save(kept)
    return made


def preview_commands(
    ranking: Sequence[Candidate], *, baseline: Candidate | None = None, allow_code: bool = False
) -> dict[str, CommandSurvey]:
    """Every command that `confirm` would run, by the name of the configuration; nothing is run.

    Args:
        ranking: What is recommended, best first.
        baseline: What it is compared with; a ranking knows its own.
        allow_code: Whether a policy named as `module:Class` may be imported.
    """
    candidates, base, _ = choose_candidates(ranking, baseline)
    return survey_plan(ConfirmationPlan(candidates, base, 1, 0), allow_code)


def _objectives(
    ranking: Sequence[Candidate], metrics: Sequence[str | Objective] | None
) -> list[Objective]:
    """What is compared, the first deciding."""
    ranked = [Objective.of(each) for each in getattr(ranking, "objectives", ())]
    more = [Objective.of(each) for each in (METRICS if metrics is None else metrics)]
    known = {each.kpi: each for each in reversed([*ranked, *more])}
    order = dict.fromkeys(each.kpi for each in [*ranked, *more])
    if not order:
        raise InputError("nobody said what to compare", field="metrics", remedy="makespan_s")
    return [known[kpi] for kpi in order]


def _refuse_other(plan: ConfirmationPlan, folder: Path) -> None:
    """A folder of another confirmation, or of something else, is not touched."""
    if folder.exists() and not folder.is_dir():
        raise InputError("is no folder", file=folder, remedy="name one that is not there yet")
    own = {PLAN, RUNS, "confirmation.json", "runs.parquet", "report.md", "report.html"}
    own.add(COMMANDS)
    for other in folder.iterdir() if folder.is_dir() else ():
        if other.name not in own and not other.name.startswith((".", "workload-")):
            raise InputError(
                f"is there already, and is no confirmation: it holds {other.name}",
                file=folder,
                remedy="name a folder that is not there yet",
            )
    if (folder / PLAN).exists() and (kept := load_plan(folder)) is not None:
        plan.refuse_other(*kept)
    elif folder.is_dir() and (names := [e.name for e in folder.iterdir() if e.name in own]):
        # Without a plan, only a confirmation of runs that came back says that they are ours.
        if "confirmation.json" not in names:
            raise InputError(
                f"is there already, and is no confirmation: it holds {min(names)}",
                file=folder,
                remedy="name a folder that is not there yet",
            )
        Confirmation.load(folder)


def _copied(plan: ConfirmationPlan, found: ExecutedRuns, folder: Path) -> ExecutedRuns:
    """The runs that came back as traces in the folder of the confirmation: it names no others.

    The plan comes first, so that a folder in which copying was interrupted is known again.
    """
    if not (folder / PLAN).exists():
        plan.save(folder)
    runs = []
    for each in found.runs:
        path = None
        if each.trace is not None:
            place = join_below(folder / RUNS, each.run.name, field="runs")
            if not place.exists():
                each.trace.save(place)
            elif Trace.load(place) != each.trace:
                raise InputError(
                    f"holds another run called {each.run.name}",
                    file=folder,
                    remedy="name a folder that is not there yet",
                )
            path = f"{RUNS}/{each.run.name}"
        runs.append(replace(each, path=path))
    return replace(found, runs=tuple(runs))


def _row(plan: ConfirmationPlan, each: ExecutedRun, wanted: Sequence[Objective]) -> dict[str, Any]:
    return {
        "order": each.run.order,
        "candidate": plan.all[each.run.configuration].name,
        "repetition": each.run.repetition,
        "trace": each.path,
        "seconds": each.seconds,
        "error": each.error,
        **{objective.kpi: each.figures.get(objective.kpi) for objective in wanted},
    }


def _disturbed(found: ExecutedRuns) -> list[str]:
    """That something else was running, where tasks did not get the cores that they had."""
    told = [
        said
        for each in found.runs
        if each.trace is not None
        and (said := describe_disturbance(each.trace, each.run.name)) is not None
    ]
    return (
        [f"{len(told)} of {format_count(len(found.runs), 'run')} disturbed: {told[0]}"]
        if told
        else []
    )


def _unmeasured(wanted: Sequence[Objective], found: ExecutedRuns) -> list[str]:
    """Why no energy was measured, where it was asked for."""
    if not any(each.kpi in ("energy_j", "energy_per_task_j", "carbon_g") for each in wanted):
        return []
    said: list[str] = []
    for each in found.runs:
        power = {} if each.trace is None else each.trace.manifest.facts.get("power")
        said += power.get("said", ()) if isinstance(power, Mapping) else ()
    return [f"no energy was measured: {text}" for text in dict.fromkeys(said)]


def _foretold(
    candidates: Sequence[Candidate], base: Candidate, by: Objective, fit: Fit | None
) -> dict[str, float | None]:
    """How likely each candidate was said to be better."""
    found: dict[str, float | None] = {}
    for each in candidates:
        if by.kpi not in KPIS or by.kpi not in each.predicted or by.kpi not in base.predicted:
            continue
        share = compute_probability_better(each, base, by, {} if fit is None else fit.noise)
        found[each.name] = None if math.isnan(share) else share
    return found


def _diagnosed(
    made: Confirmation, fit: Fit | None, fitted_to: Sequence[Trace], allow_code: bool
) -> Confirmation:
    from twinloop.exploration.confirmation.diagnosis import diagnose

    try:
        found = diagnose(made, fitted_to, fit=fit, allow_code=allow_code)
    except TwinloopError as error:
        return replace(made, notes=(*made.notes, f"no diagnosis: {error}"))
    return replace(made, diagnosis=found)


def _to_stderr(text: str) -> None:
    print(escape_controls(text), file=sys.stderr)
