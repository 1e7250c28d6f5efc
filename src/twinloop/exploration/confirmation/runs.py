"""Execution of the runs of a confirmation on this machine."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from twinloop.description.errors import InputError, TwinloopError, UnwritableError
from twinloop.description.locks import hold_lock
from twinloop.description.safe_text import escape_name
from twinloop.execution.announcement import summarise_programs, survey_scenario, write_commands
from twinloop.execution.run import execute
from twinloop.execution.run_progress import RunProgress
from twinloop.execution.task_commands import CommandSurvey
from twinloop.exploration.confirmation.plan import (
    RUNS,
    ConfirmationPlan,
    PlannedRun,
    explain_mismatch,
)
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.metrics import figures
from twinloop.trace import Trace
from twinloop.trace.folder import MANIFEST
from twinloop.trace.trace import format_count

#: Statuses of tasks that make a run fail.
_INCOMPLETE: Final = ("failed", "lost", "cancelled")
#: Statuses that make a run fail if they are more frequent than predicted.
_PREDICTABLE: Final = ("rejected", "killed")


class ConfirmationProgress(NamedTuple):
    """The progress of a confirmation.

    >>> ConfirmationProgress(
    ...     done=3, planned=8, name="easy", repetition=1, seconds=6.0, left=10.0
    ... ).left
    10.0
    """

    #: The number of runs that have ended, and of planned runs.
    done: int
    planned: int
    #: The present configuration and repetition.
    name: str
    repetition: int
    #: The time since the start of the first run, and the estimated remaining time (s).
    seconds: float
    left: float | None
    #: The progress of the present run.
    moment: RunProgress | None = None


ConfirmationCallback = Callable[[ConfirmationProgress], None]


@dataclass(frozen=True)
class ExecutedRun:
    """A run that was executed, successfully or not."""

    run: PlannedRun
    #: The path of its trace, relative to the folder; None: it is not stored.
    path: str | None
    trace: Trace | None
    #: Its duration (s).
    seconds: float | None
    #: Its metrics; empty for a failed run.
    figures: Mapping[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class ExecutedRuns:
    """All executed runs, with notes on them."""

    runs: tuple[ExecutedRun, ...]
    notes: tuple[str, ...] = ()
    #: The random seed of their order.
    seed: int = 0


@dataclass(frozen=True)
class TimeBudget:
    """The time limit of all runs (s); None: no limit.

    >>> TimeBudget(100.0).fits(spent=60.0, blocks=2, planned=5), TimeBudget(100.0).fits(70.0, 2, 5)
    (True, False)
    >>> TimeBudget(1.0).fits(spent=60.0, blocks=1, planned=5)
    True
    """

    seconds: float | None = None

    @classmethod
    def of(cls, seconds: float | None) -> TimeBudget:
        """Make a budget from a number of seconds, which must be positive."""
        if seconds is not None and not 0 < seconds < math.inf:
            raise InputError(
                f"must be a positive time, not {seconds}", kind="out-of-range", field="budget"
            )
        return cls(seconds)

    def fits(self, spent: float, blocks: int, planned: int) -> bool:
        """Whether another block fits, if it takes the mean time of the earlier ones.

        The first two blocks always fit, because one has no confidence interval.

        Args:
            spent: The duration of all runs so far (s).
            blocks: The number of blocks so far.
            planned: The number of planned blocks.
        """
        if self.seconds is None or blocks < min(2, planned):
            return True
        return spent + spent / blocks <= self.seconds


def execute_plan(
    plan: ConfirmationPlan,
    folder: Path | None,
    *,
    budget: TimeBudget,
    isolation: str,
    allow_code: bool,
    say: Callable[[str], None],
    progress: ConfirmationCallback | None,
) -> ExecutedRuns:
    """Execute the missing runs of a plan in its order."""
    surveys = survey_plan(plan, allow_code)
    with ExitStack() as stack:
        runs_parent = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                problem = f"cannot be created: {error.strerror or error}"
                raise InputError(problem, kind="cannot-write", file=folder) from None
            # Two confirmations in one folder would overwrite each other's runs.
            stack.enter_context(hold_lock(folder))
            plan.save(folder)
        _announce_plan(plan, budget, say, surveys)
        say(f"every command: {escape_name(str(write_commands(runs_parent, surveys)))}")
        local_runs = _LocalRuns(
            plan, runs_parent, folder is not None, isolation, allow_code, _say_once(say), progress
        )
        notes = []
        for number, block in enumerate(plan.blocks()):
            if not budget.fits(local_runs.spent, number, plan.repetitions):
                notes.append(
                    f"{number} of {plan.repetitions} repetitions were executed: another one would "
                    f"exceed the budget of {budget.seconds:g} s"
                )
                break
            for run in block:
                local_runs.execute(run)
    failed = [each for each in local_runs.executed if each.error is not None]
    notes += [f"{each.run.name} failed: {each.error}" for each in failed]
    if len(failed) == len(local_runs.executed):
        raise InputError(
            f"all runs failed: {failed[0].error}", kind="evaluations-failed", field="scenario"
        )
    return ExecutedRuns(tuple(local_runs.executed), tuple(notes), plan.seed)


class _LocalRuns:
    """The runs of a plan on this machine, executed one after the other."""

    def __init__(
        self,
        plan: ConfirmationPlan,
        folder: Path,
        is_stored: bool,
        isolation: str,
        allow_code: bool,
        say: Callable[[str], None],
        progress: ConfirmationCallback | None,
    ) -> None:
        self.plan, self.folder, self.is_stored = plan, folder, is_stored
        self.isolation, self.allow_code = isolation, allow_code
        self.say, self.progress = say, progress
        self.executed: list[ExecutedRun] = []
        self.started = time.monotonic()

    @property
    def spent(self) -> float:
        """The total duration of all runs so far (s), including stored ones."""
        return sum(each.seconds or 0.0 for each in self.executed)

    def execute(self, run: PlannedRun) -> None:
        """Execute a run, unless it is stored already."""
        candidate = self.plan.configurations[run.configuration]
        path = self.folder / RUNS / run.name
        self._report_progress(candidate, run, None)
        begin = time.monotonic()
        try:
            trace = load_complete_run(path, candidate) or execute(
                candidate.scenario,
                path,
                isolation=self.isolation,
                overwrite=True,
                allow_code=self.allow_code,
                announced=True,
                announce=self.say,
                on_progress=lambda moment: self._report_progress(candidate, run, moment),
            )
            self.executed.append(measure_run(run, trace, candidate, self._get_path(run)))
        except UnwritableError:
            raise  # no other run could be stored either; the confirmation can be resumed
        except TwinloopError as error:
            seconds = time.monotonic() - begin
            self.executed.append(ExecutedRun(run, None, None, seconds, {}, str(error)))
        self._report_progress(candidate, run, None)

    def _get_path(self, run: PlannedRun) -> str | None:
        return f"{RUNS}/{run.name}" if self.is_stored else None

    def _report_progress(
        self, candidate: Candidate, run: PlannedRun, moment: RunProgress | None
    ) -> None:
        if self.progress is None:
            return
        done, planned = len(self.executed), len(self.plan.configurations) * self.plan.repetitions
        left = self.spent / done * (planned - done) if done else None
        seconds = time.monotonic() - self.started
        self.progress(
            ConfirmationProgress(
                done, planned, candidate.name, run.repetition, seconds, left, moment
            )
        )


def load_complete_run(path: Path, candidate: Candidate) -> Trace | None:
    """Read the run in a folder; None if there is none or it was interrupted.

    A run of another scenario is an error.
    """
    if not (path / MANIFEST).is_file():
        return None
    trace = Trace.load(path)
    if (why := explain_mismatch(trace, candidate.scenario)) is not None:
        raise InputError(why, kind="different-inputs", file=path, remedy="name another folder")
    facts = trace.manifest.facts.get("run")
    interrupted = isinstance(facts, Mapping) and facts.get("interrupted")
    return None if interrupted else trace


def measure_run(
    run: PlannedRun, trace: Trace, candidate: Candidate, path: str | None
) -> ExecutedRun:
    """Compute the metrics of a run; a run with incomplete tasks counts as failed.

    With failures of machines in the scenario, incomplete tasks are expected.
    """
    facts = trace.manifest.facts.get("run")
    duration = facts.get("wall_s") if isinstance(facts, Mapping) else None
    error = (
        None if candidate.scenario.failures is not None else _describe_incomplete(trace, candidate)
    )
    metrics = {} if error else figures(trace, prices=candidate.scenario.prices).to_dict()
    return ExecutedRun(run, path, trace, duration, metrics, error)


def _describe_incomplete(trace: Trace, candidate: Candidate) -> str | None:
    """Describe tasks that should have completed but did not; None if there are none."""
    statuses = trace.tasks["status"]
    incomplete, expected = trace.tasks.filter(statuses.is_in(_INCOMPLETE)), ""
    for status in _PREDICTABLE:
        tasks, predicted = trace.tasks.filter(statuses == status), _get_expected(candidate, status)
        if tasks.height > predicted:
            incomplete = pl.concat([incomplete, tasks])
            expected += f"; {predicted:.0f} {status} were predicted" if predicted else ""
    if incomplete.is_empty():
        return None
    count = f"{incomplete.height} of {format_count(trace.tasks.height, 'task')}"
    example = f"{incomplete['id'][0]} ({incomplete['status'][0]})"
    return f"{count} did not complete, such as {example}{expected}"


def _get_expected(candidate: Candidate, status: str) -> float:
    """Return how many tasks may have this status: the predicted number, if it is known.

    If it is not, any number may be killed if tasks are killed at their requested time, else none.
    """
    predicted = candidate.predicted.get(status, math.nan)
    if math.isfinite(predicted):
        return predicted
    limited = status == "killed" and candidate.scenario.model.kill_at_requested_time
    return math.inf if limited else 0.0


def _announce_plan(
    plan: ConfirmationPlan,
    budget: TimeBudget,
    say: Callable[[str], None],
    surveys: Mapping[str, CommandSurvey],
) -> None:
    """Announce the runs and their programs."""
    times = [each.predicted.get("makespan_s", math.nan) for each in plan.configurations]
    count = len(plan.configurations)
    runs = format_count(count * plan.repetitions, "run")
    text = f"will execute {runs}: {count} configurations, {plan.repetitions} times each"
    if math.isfinite(sum(times)):
        text += f", about {_format_duration(sum(times) * plan.repetitions)}"
    if budget.seconds is not None:
        text += f"; as many repetitions as fit into {_format_duration(budget.seconds)}"
    say(text)
    for each in plan.configurations:
        base = " (the baseline)" if each is plan.baseline else ""
        say(f"  {escape_name(each.name)}{base}: {summarise_programs(surveys[each.name])}")


def survey_plan(plan: ConfirmationPlan, allow_code: bool) -> dict[str, CommandSurvey]:
    """List the commands of each configuration by name; an error if a task has no command."""
    return {each.name: _survey_candidate(each, allow_code) for each in plan.configurations}


def _survey_candidate(candidate: Candidate, allow_code: bool) -> CommandSurvey:
    try:
        return survey_scenario(candidate.scenario, allow_code=allow_code)
    except InputError as error:
        if error.field != "workload.command":
            raise
        raise InputError(
            f"{candidate.name}: {error.problem}",
            kind=error.kind,
            field=error.field,
            remedy=f"{error.remedy}; to run it elsewhere: twinloop confirm --bundle, or "
            "twinloop.exploration.bundle",
        ) from None


def _say_once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes each text on once, because runs repeat many messages."""
    seen: set[str] = set()

    def say_new(text: str) -> None:
        if text not in seen:
            seen.add(text)
            say(text)

    return say_new


def _format_duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
