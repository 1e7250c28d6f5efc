"""The closed loop: execute, simulate, assess, calibrate, explore and confirm."""

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
    describe_passed_criteria,
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

#: Fields of a scenario on which its commands depend.
_COMMAND_FIELDS: Final = ("workload", "seed")

LoopStep = Literal["run", "probe", "check", "simulate", "assess", "calibrate", "explore", "confirm"]
#: A function that is called with the present step and a message.
LoopCallback = Callable[[LoopStep, str], None]


def loop(
    plan: LoopPlan | str | Path,
    folder: str | Path,
    *,
    traces: str | Path | None = None,
    isolation: str = "auto",
    overwrite: bool = False,
    say: LoopCallback | None = None,
) -> Loop:
    """Execute a closed loop once, and store all its parts in a folder.

    It executes the scenario and the probes, checks the recorded runs, simulates the scenario and
    assesses the twin, calibrates it to all runs, explores the what-if study, and executes the best
    candidates and the baseline. An interrupted loop resumes; finished steps are not repeated.

    Args:
        plan: The plan, or its YAML file.
        folder: The folder to store the loop in.
        traces: The folder or an archive (see `twinloop.recordings`) of an earlier loop, whose real
            runs are used instead of new ones.
        isolation: The isolation of tasks from other nodes; see `twinloop.execute`.
        overwrite: Whether an existing loop in the folder is replaced, after plan and inputs have
            been checked. It is not replaced if it contains foreign files, is an input, or is in
            use by a process.
        say: Called with each step and its messages.
    """
    loaded_plan = LoopPlan.load(plan) if isinstance(plan, str | Path) else plan
    with nullcontext() if traces is None else open_runs(traces) as recorded:
        run = _LoopRun(
            loaded_plan, Path(folder), traces, recorded, isolation, say or (lambda step, text: None)
        )
        if overwrite:
            run.replace([] if plan is loaded_plan else [Path(str(plan))])
        return run.execute()


def preview_commands(plan: LoopPlan | str | Path) -> dict[str, CommandSurvey]:
    """List the commands that a loop may run, by part, without running any.

    The candidates of the confirmation are known only after the study, so the commands of all
    configurations are listed.

    Args:
        plan: The plan, or its YAML file.
    """
    loaded_plan = LoopPlan.load(plan) if isinstance(plan, str | Path) else plan
    surveys = {REAL: survey_scenario(loaded_plan.scenario)}
    for name, scenario in loaded_plan.probe_scenarios.items():
        surveys[f"{PROBES}/{name}"] = survey_scenario(scenario)
    # Changes of other fields do not change commands.
    changes = [
        {path: value for path, value in each.changes.items() if path.startswith(_COMMAND_FIELDS)}
        for each in loaded_plan.factors.configurations()
    ]
    distinct = {json.dumps(each, sort_keys=True, default=str): each for each in ({}, *changes)}
    surveys[CONFIRMATION] = merge_surveys(
        survey_scenario(apply_changes(loaded_plan.study_scenario, each))
        for each in distinct.values()
    )
    return surveys


class _LoopRun:
    """One execution of a closed loop."""

    def __init__(
        self,
        plan: LoopPlan,
        folder: Path,
        source: str | Path | None,
        traces: Path | None,
        isolation: str,
        say: LoopCallback,
    ) -> None:
        self.plan, self.folder, self.isolation, self.say = plan, folder, isolation, say
        #: The recorded runs as given, possibly an archive, and the folder to read them from;
        #: None: the runs are executed.
        self.source = None if source is None else Path(source)
        self.traces = traces

    def replace(self, inputs: Sequence[Path]) -> None:
        """Replace an existing loop in the folder by the manifest of this one.

        Nothing is replaced before all inputs have been read without an error.
        """
        self._check_recorded()
        check_replaceable(self.folder, list_loop_files, inputs=inputs)
        given = [*inputs, *self._check_inputs()]
        if not self.folder.exists():
            return
        with hold_lock(self.folder):
            check_replaceable(self.folder, list_loop_files, inputs=given, ours=(LOCK_FILE,))
            try:
                with set_aside(self.folder):
                    self._write_manifest()
            except OSError as error:
                problem = f"cannot be written: {error.strerror or error}"
                raise InputError(problem, kind="cannot-write", file=self.folder) from None

    def execute(self) -> Loop:
        """Execute the missing steps and return the loop."""
        plan, say = self.plan, self.say
        self._check_recorded()
        self._check_folder()
        make_folder(self.folder)
        with hold_lock(self.folder), self._announce_runs(), self._use_common_rates():
            real = self._run(plan.scenario, REAL, "run")
            probes = {
                name: self._run(scenario, f"{PROBES}/{name}", "probe")
                for name, scenario in plan.probe_scenarios.items()
            }
            self._check_quality(
                {REAL: real, **{f"{PROBES}/{name}": trace for name, trace in probes.items()}}
            )
            before = self._assess_twin(real)
            fit = self._fit(real, probes)
            study = self._explore(fit)
            confirmation = self._confirm(study, fit, [real, *probes.values()])
        say("assess", "comparing predictions with measurements")
        offline = self.traces is not None
        finished = assemble_loop(
            self.folder, plan, real, before, probes, fit, study, confirmation, offline
        )
        if not (self.folder / TWIN).exists():
            finished.twin.save(self.folder / TWIN)
        return finished

    def _check_recorded(self) -> None:
        """Raise an error if a recorded run is missing."""
        for subfolder in self._list_subfolders():
            if self.traces is None:
                continue
            if not (_get_run_folder(self.traces, subfolder) / TRACE_MANIFEST).is_file():
                raise InputError(
                    f"has no recorded run '{subfolder}'",
                    kind="unknown-reference",
                    file=self.source,
                    remedy="name the folder or the archive of an earlier loop of this plan: it has "
                    f"{REAL}/, {PROBES}/ and {CONFIRMATION}/",
                )

    def _check_inputs(self) -> list[Path]:
        """Read all inputs of the loop before anything is replaced; return their paths."""
        plan = self.plan
        paths: list[Path] = [] if self.source is None else [self.source]
        for scenario in (plan.scenario, plan.study_scenario, *plan.probe_scenarios.values()):
            compiled = CompiledScenario(scenario)
            if self.traces is None:
                TaskCommands(compiled, Path(), run="").survey()
            paths += scenario._files()
        if self.traces is not None:
            for subfolder in self._list_subfolders():
                Trace.load(_get_run_folder(self.traces, subfolder))
        return paths

    def _list_subfolders(self) -> list[str]:
        """List the folders of the first run and of the probes, relative to that of a loop."""
        return [REAL, *(f"{PROBES}/{name}" for name in self.plan.probes)]

    def _check_folder(self) -> None:
        """Raise an error for the folder of another loop, or with foreign files."""
        manifest = read_loop_manifest(self.folder)
        own = (LOCK_FILE, RATES, COMMANDS)
        if manifest is None and self.folder.exists():
            if not self.folder.is_dir() or any(e.name not in own for e in self.folder.iterdir()):
                raise InputError(
                    "exists already and is not a loop",
                    kind="not-replaceable",
                    file=self.folder,
                    remedy="name a folder that does not exist",
                )
        elif manifest is not None and any(
            manifest.get(key) != v for key, v in self._make_manifest().items()
        ):
            raise InputError(
                "contains another loop",
                kind="different-inputs",
                file=self.folder,
                remedy="name another folder, or replace it with --overwrite",
            )

    @contextmanager
    def _announce_runs(self) -> Iterator[None]:
        """Write the manifest, and announce the commands of all runs unless they are recorded.

        It is a context manager so that it runs after the lock of the folder has been taken.
        """
        self._write_manifest()
        if self.traces is None:
            surveys = preview_commands(self.plan)
            for name, survey in surveys.items():
                self.say("run", f"{escape_name(name)}: {summarise_programs(survey)}")
            file = write_commands(self.folder, surveys)
            self.say("run", f"every command: {escape_name(str(file))}")
        yield

    def _write_manifest(self) -> None:
        """Write the manifest of the loop."""
        with write_atomically(self.folder / MANIFEST) as stream:
            manifest = {"twinloop": __version__, **self._make_manifest()}
            stream.write(json.dumps(manifest, indent=1).encode())

    def _make_manifest(self) -> dict[str, Any]:
        plan = json.loads(json.dumps(self.plan.to_dict(), default=str))
        return {"plan": plan, "offline": self.traces is not None}

    @contextmanager
    def _use_common_rates(self) -> Iterator[None]:
        """Use the same work rates in all runs, so that a second of work means the same in each.

        Recorded runs need no rates, and rates in the environment take precedence.
        """
        path = self.folder / RATES
        given_rates = os.environ.get(burn_program.RATES_VARIABLE)
        if self.traces is None and given_rates is None:
            if not path.exists():
                measured = burn_program.measure_rates(
                    self._list_burn_kinds(), lambda text: self.say("run", text)
                )
                with write_atomically(path) as stream:
                    stream.write(json.dumps(measured).encode())
            rates = json.loads(path.read_bytes())
            os.environ[burn_program.RATES_VARIABLE] = ",".join(
                f"{kind}={rate!r}" for kind, rate in rates.items()
            )
        try:
            yield
        finally:
            if given_rates is None:
                os.environ.pop(burn_program.RATES_VARIABLE, None)

    def _list_burn_kinds(self) -> list[str]:
        """List the kinds of work of all tasks that run `twinloop-burn`."""
        scenarios = (
            self.plan.scenario,
            self.plan.study_scenario,
            *self.plan.probe_scenarios.values(),
        )
        kinds: set[str] = set()
        for scenario in scenarios:
            resolved = scenario.workload.resolve(scenario.seed)
            commands = resolved.tasks["command"].drop_nulls() if isinstance(resolved, Trace) else ()
            kinds |= {
                str(words[1])
                for words in commands
                if len(words) > 1 and Path(str(words[0])).name == PROGRAM
            }
        return sorted(kinds)

    def _run(self, scenario: Scenario, subfolder: str, step: LoopStep) -> Trace:
        """Execute a scenario, or return its stored or recorded run."""
        path = _get_run_folder(self.folder, subfolder)
        stored = load_complete_run(path, Candidate(subfolder, scenario, {}))
        if stored is not None:
            return stored
        if self.traces is not None:
            self.say(step, f"using the recorded run {self.source}/{subfolder}")
            trace = Trace.load(_get_run_folder(self.traces, subfolder))
            trace.save(path)
            return trace
        predicted = figures(simulate(scenario))
        duration = "" if predicted.makespan is None else f", about {predicted.makespan:.0f} s"
        self.say(
            step, f"{scenario.name or subfolder}: {format_count(predicted.tasks, 'task')}{duration}"
        )
        return execute(
            scenario,
            path,
            period=self.plan.period,
            isolation=self.isolation,
            overwrite=True,
            announced=True,
            announce=lambda text: self.say(step, f"  {text}"),
        )

    def _check_quality(self, runs: Mapping[str, Trace]) -> None:
        """Raise an error if a run, given by its relative folder, fails the quality gate."""
        for name, trace in runs.items():
            audit = check(trace)
            if audit.errors:
                path = _get_run_folder(self.folder, name)
                first = audit.errors[0]
                example = f"; {first.examples[0]}" if first.examples else ""
                raise InputError(
                    f"the recorded run '{name}' does not pass the quality gate: it breaks "
                    f"{first.rule} ({first.broken:,}){example}",
                    kind="quality-gate",
                    file=self.folder,
                    remedy=f"`twinloop check {path}` lists all findings",
                )
        self.say("check", f"{format_count(len(runs), 'run')} recorded, all pass the quality gate")

    def _assess_twin(self, real: Trace) -> tuple[Trace, Verdict]:
        """Simulate and assess the twin before calibration."""
        self.say("simulate", "simulating the same scenario with its declared work")
        twin, verdict = assess_before_calibration(self.plan, real)
        self.say("assess", f"{verdict.mode}: {describe_passed_criteria(verdict)}")
        return twin, verdict

    def _fit(self, real: Trace, probes: Mapping[str, Trace]) -> Fit:
        fit_folder = self.folder / FIT
        if (fit_folder / FIT_MANIFEST).exists():
            return Fit.load(fit_folder)
        self.say("calibrate", f"fitting the model to {format_count(1 + len(probes), 'run')}")
        fit = calibrate(
            [real, *probes.values()],
            names=[REAL, *probes],
            budget=self.plan.budget,
            analysis=self.plan.analysis,
            seed=self.plan.seed,
            folder=fit_folder,
        )
        for name, value in fit.values.items():
            self.say("calibrate", f"{name}: {fit.defaults[name]:.3g} -> {value:.3g}")
        for sentence in fit.identifiability.sentences if fit.identifiability else ():
            self.say("calibrate", sentence)
        return fit

    def _explore(self, fit: Fit) -> Study:
        study = explore(
            self.plan.study_scenario,
            self.plan.factors,
            fit,
            by=self.plan.by,
            folder=self.folder / STUDY,
        )
        best = study.top(1, self.plan.by)[0]
        count = format_count(len(study.planned_configurations), "configuration")
        self.say("explore", f"{count} simulated; best by {self.plan.by}: {best.name}")
        return study

    def _confirm(self, study: Study, fit: Fit, fitted_to: list[Trace]) -> Confirmation | None:
        folder = self.folder / CONFIRMATION
        ranking = self._select_candidates(study)
        recorded = None if self.traces is None else self.traces / CONFIRMATION
        if recorded is not None:
            if not recorded.is_dir():
                self.say("confirm", f"no confirmation was recorded in {self.source}")
                return None
            self.say("confirm", f"using the recorded runs in {self.source}/{CONFIRMATION}")
            if not (folder / "runs").exists():
                # The copy is renamed when it is complete, because an interrupted one lacks runs.
                shutil.rmtree(folder / ".runs", ignore_errors=True)
                shutil.copytree(recorded / "runs", folder / ".runs").rename(folder / "runs")
        return confirm(
            ranking,
            repetitions=self.plan.repetitions,
            folder=folder,
            seed=self.plan.seed,
            traces=None if recorded is None else folder,
            isolation=self.isolation,
            announce=lambda text: self.say("confirm", f"  {text}"),
            fitted_to=fitted_to,
        )

    def _select_candidates(self, study: Study) -> Ranking:
        """Select the best candidates whose predictions differ from that of the baseline.

        Candidates that are worse than the baseline are included: they test predictions, too.
        """
        ranking, kpi = study.rank(), Objective.of(self.plan.by).kpi
        baseline_value = study.baseline.predicted.get(kpi)
        differing = [
            each for each in ranking.places if each.candidate.predicted[kpi] != baseline_value
        ]
        return replace(ranking, places=tuple(differing[: self.plan.top]))


def _get_run_folder(folder: Path, subfolder: str) -> Path:
    """Return the folder of the first run, or of a probe."""
    parent, _, probe = subfolder.partition("/")
    return (
        join_below(folder / PROBES, probe, field="probes")
        if parent == PROBES
        else folder / subfolder
    )
