"""The whole loop: run, simulate, judge, fit, explore, run the winners again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from twinloop import __version__
from twinloop.calibration import calibrate
from twinloop.calibration.fit import MANIFEST as FIT_MANIFEST
from twinloop.calibration.fit import Fit, make_folder
from twinloop.description.errors import InputError
from twinloop.description.file_names import join_below
from twinloop.description.files import write_atomically
from twinloop.description.locks import LOCK_FILE, hold_lock
from twinloop.description.replacement import check_replaceable, set_aside
from twinloop.description.safe_text import escape_name
from twinloop.engine import CompiledScenario, simulate
from twinloop.execution import burn_program, execute
from twinloop.execution.announcement import (
    COMMANDS,
    merge_surveys,
    summarise_programs,
    survey_scenario,
    write_commands,
)
from twinloop.execution.task_commands import CommandSurvey, TaskCommands
from twinloop.exploration.closed_loop.plan import LoopPlan
from twinloop.exploration.closed_loop.result import (
    CONFIRMATION,
    FIT,
    MANIFEST,
    PROBES,
    RATES,
    REAL,
    STUDY,
    TWIN,
    Loop,
    assemble_loop,
    assess_before_calibration,
    count_passed_criteria,
    read_loop_manifest,
)
from twinloop.exploration.confirmation.result import Confirmation
from twinloop.exploration.confirmation.run import confirm
from twinloop.exploration.confirmation.runs import load_complete_run
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.owned_files import list_loop_files
from twinloop.exploration.ranking.candidate import Candidate
from twinloop.exploration.ranking.objectives import Objective
from twinloop.exploration.ranking.ranking import Ranking
from twinloop.exploration.study.run import explore
from twinloop.exploration.study.study import Study
from twinloop.fidelity import Verdict
from twinloop.metrics import figures
from twinloop.recordings import open_runs
from twinloop.scenario import Scenario
from twinloop.trace import Trace, check
from twinloop.trace.folder import MANIFEST as TRACE_MANIFEST
from twinloop.trace.trace import format_count
from twinloop.workload.generators.burn import PROGRAM

#: Fields of a scenario that its commands depend on.
_COMMANDING: Final = ("workload", "seed")

Step = Literal["run", "probe", "check", "simulate", "assess", "calibrate", "explore", "confirm"]
#: Told which step begins or has something to say, and what.
Say = Callable[[Step, str], None]


def loop(
    plan: LoopPlan | str | Path,
    folder: str | Path,
    *,
    traces: str | Path | None = None,
    isolation: str = "auto",
    overwrite: bool = False,
    say: Say | None = None,
) -> Loop:
    """Go round the whole loop once, and keep everything in a folder.

    Runs the scenario and the probes for real, checks what was recorded, simulates the scenario and
    assesses the twin, calibrates it on all runs, explores what is asked, and runs the best
    candidates and the baseline for real again. A loop that was interrupted goes on from where it
    was; a step that is done is not done again.

    Args:
        plan: What to do, or the YAML file that says it.
        folder: Where to keep it.
        traces: Run nothing, and take the runs that an earlier loop recorded: its folder, or an
            archive of it (see `twinloop.recordings`).
        isolation: What keeps tasks to their nodes; see `twinloop.execute`.
        overwrite: Whether a loop that is in the folder is replaced by a new one. It is, when plan
            and inputs have been read and checked, unless it holds files of another origin, is an
            input, or a process works in it.
        say: Called with what is being done, and what came out.
    """
    asked = LoopPlan.load(plan) if isinstance(plan, str | Path) else plan
    with nullcontext() if traces is None else open_runs(traces) as recorded:
        going = _LoopRun(
            asked, Path(folder), traces, recorded, isolation, say or (lambda step, text: None)
        )
        if overwrite:
            going.replace([] if plan is asked else [Path(str(plan))])
        return going.on()


def preview_commands(plan: LoopPlan | str | Path) -> dict[str, CommandSurvey]:
    """Every command that a loop may run for real, by what runs it; nothing is run.

    Which what-ifs are confirmed is known when they have been simulated: these are the commands of
    all of them.

    Args:
        plan: What to do, or the YAML file that says it.
    """
    asked = LoopPlan.load(plan) if isinstance(plan, str | Path) else plan
    found = {REAL: survey_scenario(asked.scenario)}
    for name, scenario in asked.probe_scenarios.items():
        found[f"{PROBES}/{name}"] = survey_scenario(scenario)
    # What a factor changes elsewhere changes no command.
    changes = [
        {path: value for path, value in each.changes.items() if path.startswith(_COMMANDING)}
        for each in asked.factors.configurations()
    ]
    distinct = {json.dumps(each, sort_keys=True, default=str): each for each in ({}, *changes)}
    found[CONFIRMATION] = merge_surveys(
        survey_scenario(apply_changes(asked.asked, each)) for each in distinct.values()
    )
    return found


class _LoopRun:
    """One way round."""

    def __init__(
        self,
        plan: LoopPlan,
        folder: Path,
        source: str | Path | None,
        traces: Path | None,
        isolation: str,
        say: Say,
    ) -> None:
        self.plan, self.folder, self.isolation, self.say = plan, folder, isolation, say
        #: The recorded runs as the user names them, maybe an archive, and the folder to read.
        self.source = None if source is None else Path(source)
        self.traces = traces

    def replace(self, inputs: Sequence[Path]) -> None:
        """Put the beginning of this loop in the place of the loop that is in the folder."""
        self._check_recorded()
        check_replaceable(self.folder, list_loop_files, inputs=inputs)
        given = [*inputs, *self._check_inputs()]
        if not self.folder.exists():
            return
        with hold_lock(self.folder):
            check_replaceable(self.folder, list_loop_files, inputs=given, ours=(LOCK_FILE,))
            try:
                with set_aside(self.folder):
                    self._begin()
            except OSError as error:
                problem = f"cannot be written: {error.strerror or error}"
                raise InputError(problem, file=self.folder) from None

    def on(self) -> Loop:
        plan, say = self.plan, self.say
        self._check_recorded()
        self._check_folder()
        make_folder(self.folder)
        with hold_lock(self.folder), self._announced_runs(), self._rated():
            real = self._run(plan.scenario, REAL, "run")
            probes = {
                name: self._run(scenario, f"{PROBES}/{name}", "probe")
                for name, scenario in plan.probe_scenarios.items()
            }
            self._checked({REAL: real, **probes})
            before = self._judged(real)
            fit = self._fit(real, probes)
            study = self._explored(fit)
            confirmation = self._confirmed(study, fit, [real, *probes.values()])
        say("assess", "comparing what was predicted with what came out")
        offline = self.traces is not None
        made = assemble_loop(
            self.folder, plan, real, before, probes, fit, study, confirmation, offline
        )
        if not (self.folder / TWIN).exists():
            made.twin.save(self.folder / TWIN)
        return made

    def _check_recorded(self) -> None:
        """Runs that are to be taken must all be there, before anything is done."""
        for place in self._places():
            if self.traces is None:
                continue
            if not (_part(self.traces, place) / TRACE_MANIFEST).is_file():
                raise InputError(
                    f"has no recorded run '{place}'",
                    file=self.source,
                    remedy="name the folder or the archive of an earlier loop of this plan: it has "
                    f"{REAL}/, {PROBES}/ and {CONFIRMATION}/",
                )

    def _check_inputs(self) -> list[Path]:
        """Read all that the loop will read, so that nothing is replaced in vain; the files."""
        plan = self.plan
        found: list[Path] = [] if self.source is None else [self.source]
        for scenario in (plan.scenario, plan.asked, *plan.probe_scenarios.values()):
            compiled = CompiledScenario(scenario)
            if self.traces is None:
                TaskCommands(compiled, Path(), run="").survey()
            found += scenario._files()
        if self.traces is not None:
            for place in self._places():
                Trace.load(_part(self.traces, place))
        return found

    def _places(self) -> list[str]:
        """Where the runs are that are not those of the confirmation."""
        return [REAL, *(f"{PROBES}/{name}" for name in self.plan.probes)]

    def _check_folder(self) -> None:
        """A folder of something else, or of another loop, is not touched."""
        kept = read_loop_manifest(self.folder)
        own = (LOCK_FILE, RATES, COMMANDS)
        if kept is None and self.folder.exists():
            if not self.folder.is_dir() or any(e.name not in own for e in self.folder.iterdir()):
                raise InputError(
                    "is there already, and is no loop",
                    file=self.folder,
                    remedy="name a folder that is not there yet",
                )
        elif kept is not None and any(kept.get(key) != v for key, v in self._told().items()):
            raise InputError(
                "holds another loop",
                file=self.folder,
                remedy="name another folder, or replace it with --overwrite",
            )

    @contextmanager
    def _announced_runs(self) -> Iterator[None]:
        """Say what will be run for real, before anything is."""
        self._begin()
        if self.traces is None:
            surveys = preview_commands(self.plan)
            for name, survey in surveys.items():
                self.say("run", f"{escape_name(name)}: {summarise_programs(survey)}")
            file = write_commands(self.folder, surveys)
            self.say("run", f"every command: {escape_name(str(file))}")
        yield

    def _begin(self) -> None:
        """Say in the folder what it is of."""
        with write_atomically(self.folder / MANIFEST) as stream:
            told = {"twinloop": __version__, **self._told()}
            stream.write(json.dumps(told, indent=1).encode())

    def _told(self) -> dict[str, Any]:
        plan = json.loads(json.dumps(self.plan.to_dict(), default=str))
        return {"plan": plan, "offline": self.traces is not None}

    @contextmanager
    def _rated(self) -> Iterator[None]:
        """One rate of work for all runs: what a second of work is must not change between them."""
        path = self.folder / RATES
        before = os.environ.get(burn_program.RATES_VARIABLE)
        if self.traces is None and before is None:
            if not path.exists():
                found = burn_program.measure_rates(
                    self._kinds(), lambda text: self.say("run", text)
                )
                with write_atomically(path) as stream:
                    stream.write(json.dumps(found).encode())
            rates = json.loads(path.read_bytes())
            os.environ[burn_program.RATES_VARIABLE] = ",".join(
                f"{kind}={rate!r}" for kind, rate in rates.items()
            )
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(burn_program.RATES_VARIABLE, None)

    def _kinds(self) -> list[str]:
        """The kinds of work in any of the runs."""
        scenarios = (self.plan.scenario, self.plan.asked, *self.plan.probe_scenarios.values())
        found: set[str] = set()
        for scenario in scenarios:
            given = scenario.workload.resolve(scenario.seed)
            commands = given.tasks["command"].drop_nulls() if isinstance(given, Trace) else ()
            found |= {
                str(words[1])
                for words in commands
                if len(words) > 1 and Path(str(words[0])).name == PROGRAM
            }
        return sorted(found)

    def _run(self, scenario: Scenario, place: str, step: Step) -> Trace:
        """A run for real; one that is there is not made again."""
        path = _part(self.folder, place)
        kept = load_complete_run(path, Candidate(place, scenario, {}))
        if kept is not None:
            return kept
        if self.traces is not None:
            self.say(step, f"taking the recorded run {self.source}/{place}")
            trace = Trace.load(_part(self.traces, place))
            trace.save(path)
            return trace
        foretold = figures(simulate(scenario))
        about = "" if foretold.makespan is None else f", about {foretold.makespan:.0f} s"
        self.say(step, f"{scenario.name or place}: {format_count(foretold.tasks, 'task')}{about}")
        return execute(
            scenario,
            path,
            period=self.plan.period,
            isolation=self.isolation,
            overwrite=True,
            announced=True,
            announce=lambda text: self.say(step, f"  {text}"),
        )

    def _checked(self, runs: Mapping[str, Trace]) -> None:
        for name, trace in runs.items():
            audit = check(trace)
            if audit.errors:
                raise InputError(
                    f"the recorded run '{name}' does not pass the quality gate: {audit.errors[0]}",
                    file=self.folder,
                    remedy=f"`twinloop check {self.folder}/...` says more",
                )
        self.say("check", f"{format_count(len(runs), 'run')} recorded, all pass the quality gate")

    def _judged(self, real: Trace) -> tuple[Trace, Verdict]:
        """The twin as it is, before anything is fitted."""
        self.say("simulate", "the same scenario in the simulator, from the work that was declared")
        twin, verdict = assess_before_calibration(self.plan, real)
        self.say("assess", f"{verdict.mode}: {count_passed_criteria(verdict)}")
        return twin, verdict

    def _fit(self, real: Trace, probes: Mapping[str, Trace]) -> Fit:
        place = self.folder / FIT
        if (place / FIT_MANIFEST).exists():
            return Fit.load(place)
        self.say("calibrate", f"fitting the model to {format_count(1 + len(probes), 'run')}")
        fit = calibrate(
            [real, *probes.values()],
            names=[REAL, *probes],
            budget=self.plan.budget,
            analysis=self.plan.analysis,
            seed=self.plan.seed,
            folder=place,
        )
        for name, value in fit.values.items():
            self.say("calibrate", f"{name}: {fit.defaults[name]:.3g} -> {value:.3g}")
        for said in fit.identifiability.sentences if fit.identifiability else ():
            self.say("calibrate", said)
        return fit

    def _explored(self, fit: Fit) -> Study:
        study = explore(
            self.plan.asked, self.plan.factors, fit, by=self.plan.by, folder=self.folder / STUDY
        )
        best = study.top(1, self.plan.by)[0]
        count = format_count(len(study.planned_configurations), "what-if")
        self.say("explore", f"{count} simulated; best by {self.plan.by}: {best.name}")
        return study

    def _confirmed(self, study: Study, fit: Fit, fitted_to: list[Trace]) -> Confirmation | None:
        place = self.folder / CONFIRMATION
        ranking = self._worth_running(study)
        recorded = None if self.traces is None else self.traces / CONFIRMATION
        if recorded is not None:
            if not recorded.is_dir():
                self.say("confirm", f"no confirmation was recorded in {self.source}")
                return None
            self.say("confirm", f"taking the recorded runs in {self.source}/{CONFIRMATION}")
            if not (place / "runs").exists():
                # Whole or not at all: one that was cut short would be taken for all there is.
                shutil.rmtree(place / ".runs", ignore_errors=True)
                shutil.copytree(recorded / "runs", place / ".runs").rename(place / "runs")
        return confirm(
            ranking,
            repetitions=self.plan.repetitions,
            folder=place,
            seed=self.plan.seed,
            traces=None if recorded is None else place,
            isolation=self.isolation,
            announce=lambda text: self.say("confirm", f"  {text}"),
            fitted_to=fitted_to,
        )

    def _worth_running(self, study: Study) -> Ranking:
        """The best that are not predicted to be the same as the baseline: nothing could come of it.

        Those that are worse than it show whether the twin is right on that side too.
        """
        every, kpi = study.rank(), Objective.of(self.plan.by).kpi
        usual = study.baseline.predicted.get(kpi)
        places = [each for each in every.places if each.candidate.predicted[kpi] != usual]
        return replace(every, places=tuple(places[: self.plan.top]))


def _part(folder: Path, place: str) -> Path:
    """The folder of the first run, or of a probe, which a plan names."""
    above, _, probe = place.partition("/")
    return join_below(folder / PROBES, probe, field="probes") if above == PROBES else folder / place
