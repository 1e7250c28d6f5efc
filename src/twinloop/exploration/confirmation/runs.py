"""The runs of a confirmation, made on this machine."""

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

#: A run in which a task ends in one of these ways did less than the others.
_UNDONE: Final = ("failed", "lost", "cancelled")
#: So it did in these, beyond what was predicted: a limit of time kills in every run.
_PREDICTED: Final = ("rejected", "killed")


class ConfirmationProgress(NamedTuple):
    """How far a confirmation is.

    >>> ConfirmationProgress(
    ...     done=3, planned=8, name="easy", repetition=1, seconds=6.0, left=10.0
    ... ).left
    10.0
    """

    #: Runs that are over, and all that are planned.
    done: int
    planned: int
    #: What runs now, and in which repetition.
    name: str
    repetition: int
    #: Since the first run began, and until the last is over, about (s).
    seconds: float
    left: float | None
    #: What the run looks like.
    moment: RunProgress | None = None


Told = Callable[[ConfirmationProgress], None]


@dataclass(frozen=True)
class ExecutedRun:
    """A run that was made, or failed."""

    run: PlannedRun
    #: Where its trace is, relative to the folder; None: nowhere.
    path: str | None
    trace: Trace | None
    #: How long it took (s).
    seconds: float | None
    #: Its metrics; none if it failed.
    figures: Mapping[str, Any]
    error: str | None = None


@dataclass(frozen=True)
class ExecutedRuns:
    """All runs that were made, and what is to be said of them."""

    runs: tuple[ExecutedRun, ...]
    notes: tuple[str, ...] = ()
    #: Of their order.
    seed: int = 0


@dataclass(frozen=True)
class TimeBudget:
    """The time that all runs may take (s); None: as long as they do.

    >>> TimeBudget(100.0).fits(spent=60.0, blocks=2, asked=5), TimeBudget(100.0).fits(70.0, 2, 5)
    (True, False)
    >>> TimeBudget(1.0).fits(spent=60.0, blocks=1, asked=5)
    True
    """

    seconds: float | None = None

    @classmethod
    def of(cls, seconds: float | None) -> TimeBudget:
        """From what a user gives."""
        if seconds is not None and not 0 < seconds < math.inf:
            raise InputError(f"must be a time, not {seconds}", field="budget")
        return cls(seconds)

    def fits(self, spent: float, blocks: int, asked: int) -> bool:
        """Whether one more block is made: as long as those before, or the second of all."""
        if self.seconds is None or blocks < min(2, asked):
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
    progress: Told | None,
) -> ExecutedRuns:
    """Make all runs of a plan that are not there yet, in its order."""
    surveys = survey_plan(plan, allow_code)
    with ExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                problem = f"cannot be made: {error.strerror or error}"
                raise InputError(problem, file=folder) from None
            # Two in one folder would overwrite each other's runs.
            stack.enter_context(hold_lock(folder))
            plan.save(folder)
        _announce(plan, budget, say, surveys)
        say(f"every command: {escape_name(str(write_commands(where, surveys)))}")
        here = _Here(plan, where, folder is not None, isolation, allow_code, _once(say), progress)
        notes = []
        for number, block in enumerate(plan.blocks()):
            if not budget.fits(here.spent, number, plan.repetitions):
                notes.append(
                    f"{number} of {plan.repetitions} repetitions: one more would have taken "
                    f"longer than the {budget.seconds:g} s that were given"
                )
                break
            for run in block:
                here.make(run)
    failed = [each for each in here.made if each.error is not None]
    notes += [f"{each.run.name} failed: {each.error}" for each in failed]
    if len(failed) == len(here.made):
        raise InputError(f"every run failed: {failed[0].error}", field="scenario")
    return ExecutedRuns(tuple(here.made), tuple(notes), plan.seed)


class _Here:
    """Runs on this machine, one after the other."""

    def __init__(
        self,
        plan: ConfirmationPlan,
        folder: Path,
        kept: bool,
        isolation: str,
        allow_code: bool,
        say: Callable[[str], None],
        progress: Told | None,
    ) -> None:
        self.plan, self.folder, self.kept = plan, folder, kept
        self.isolation, self.allow_code = isolation, allow_code
        self.say, self.progress = say, progress
        self.made: list[ExecutedRun] = []
        self.began = time.monotonic()

    @property
    def spent(self) -> float:
        """What the runs took so far (s), also those that are kept from before."""
        return sum(each.seconds or 0.0 for each in self.made)

    def make(self, run: PlannedRun) -> None:
        """Make a run, unless it is there."""
        one = self.plan.all[run.configuration]
        path = self.folder / RUNS / run.name
        self._tell(one, run, None)
        begin = time.monotonic()
        try:
            trace = load_complete_run(path, one) or execute(
                one.scenario,
                path,
                isolation=self.isolation,
                overwrite=True,
                allow_code=self.allow_code,
                announced=True,
                announce=self.say,
                on_progress=lambda moment: self._tell(one, run, moment),
            )
            self.made.append(measure_run(run, trace, one, self._named(run)))
        except UnwritableError:
            raise  # no other run could be kept either, and what there is can be resumed from
        except TwinloopError as error:
            seconds = time.monotonic() - begin
            self.made.append(ExecutedRun(run, None, None, seconds, {}, str(error)))
        self._tell(one, run, None)

    def _named(self, run: PlannedRun) -> str | None:
        return f"{RUNS}/{run.name}" if self.kept else None

    def _tell(self, one: Candidate, run: PlannedRun, moment: RunProgress | None) -> None:
        if self.progress is None:
            return
        done, planned = len(self.made), len(self.plan.all) * self.plan.repetitions
        left = self.spent / done * (planned - done) if done else None
        seconds = time.monotonic() - self.began
        self.progress(
            ConfirmationProgress(done, planned, one.name, run.repetition, seconds, left, moment)
        )


def load_complete_run(path: Path, one: Candidate) -> Trace | None:
    """The run that is in a folder, if it was made to its end; None: it has to be made."""
    if not (path / MANIFEST).is_file():
        return None
    trace = Trace.load(path)
    if (why := explain_mismatch(trace, one.scenario)) is not None:
        raise InputError(why, file=path, remedy="name another folder")
    told = trace.manifest.facts.get("run")
    cut = isinstance(told, Mapping) and told.get("interrupted")
    return None if cut else trace


def measure_run(run: PlannedRun, trace: Trace, one: Candidate, path: str | None) -> ExecutedRun:
    """A run with its metrics; one that did less than it should counts as failed."""
    told = trace.manifest.facts.get("run")
    wall = told.get("wall_s") if isinstance(told, Mapping) else None
    error = None if one.scenario.failures is not None else _undone(trace, one)
    found = {} if error else figures(trace, prices=one.scenario.prices).to_dict()
    return ExecutedRun(run, path, trace, wall, found, error)


def _undone(trace: Trace, one: Candidate) -> str | None:
    """What was not done of the tasks that should complete; None: all was done."""
    status = trace.tasks["status"]
    undone, expected = trace.tasks.filter(status.is_in(_UNDONE)), ""
    for ending in _PREDICTED:
        found, predicted = trace.tasks.filter(status == ending), _expected(one, ending)
        if found.height > predicted:
            undone = pl.concat([undone, found])
            expected += f"; {predicted:.0f} {ending} were predicted" if predicted else ""
    if undone.is_empty():
        return None
    many = f"{undone.height} of {format_count(trace.tasks.height, 'task')}"
    return f"{many} did not complete, such as {undone['id'][0]} ({undone['status'][0]}){expected}"


def _expected(one: Candidate, ending: str) -> float:
    """How many tasks end in this way by the twin; without a prediction, by the scenario."""
    predicted = one.predicted.get(ending, math.nan)
    if math.isfinite(predicted):
        return predicted
    limited = ending == "killed" and one.scenario.model.kill_at_requested_time
    return math.inf if limited else 0.0


def _announce(
    plan: ConfirmationPlan,
    budget: TimeBudget,
    say: Callable[[str], None],
    surveys: Mapping[str, CommandSurvey],
) -> None:
    """Say what will be run, before anything is."""
    times = [each.predicted.get("makespan_s", math.nan) for each in plan.all]
    runs = format_count(len(plan.all) * plan.repetitions, "run")
    said = f"will make {runs}: {len(plan.all)} configurations, {plan.repetitions} times each"
    if math.isfinite(sum(times)):
        said += f", about {_long(sum(times) * plan.repetitions)}"
    if budget.seconds is not None:
        said += f"; as many repetitions as fit into {_long(budget.seconds)}"
    say(said)
    for each in plan.all:
        base = " (the baseline)" if each is plan.baseline else ""
        say(f"  {escape_name(each.name)}{base}: {summarise_programs(surveys[each.name])}")


def survey_plan(plan: ConfirmationPlan, allow_code: bool) -> dict[str, CommandSurvey]:
    """Every command of each configuration, by name; an error if a task has no command."""
    return {each.name: _survey(each, allow_code) for each in plan.all}


def _survey(one: Candidate, allow_code: bool) -> CommandSurvey:
    try:
        return survey_scenario(one.scenario, allow_code=allow_code)
    except InputError as error:
        if error.field != "workload.command":
            raise
        raise InputError(
            f"{one.name}: {error.problem}",
            field=error.field,
            remedy=f"{error.remedy}; to run it elsewhere: twinloop confirm --bundle, or "
            "twinloop.exploration.confirmation.bundles",
        ) from None


def _once(say: Callable[[str], None]) -> Callable[[str], None]:
    """Says each thing once: all runs have much the same to say."""
    known: set[str] = set()

    def said(text: str) -> None:
        if text not in known:
            known.add(text)
            say(text)

    return said


def _long(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
