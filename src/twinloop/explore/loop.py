"""The whole loop: run, simulate, judge, fit, explore, run the winners again."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from twinloop import __version__
from twinloop.calibrate import calibrate
from twinloop.calibrate.fit import MANIFEST as FIT_MANIFEST
from twinloop.calibrate.fit import Fit
from twinloop.campaign import Journal
from twinloop.engine import simulate
from twinloop.execute import burn, execute
from twinloop.explore.candidate import Candidate
from twinloop.explore.confirm import confirm
from twinloop.explore.confirm_runs import complete_run
from twinloop.explore.confirmation import MANIFEST as CONFIRMED
from twinloop.explore.confirmation import Confirmation
from twinloop.explore.loop_plan import LoopPlan
from twinloop.explore.objectives import Objective
from twinloop.explore.ranking import Ranking
from twinloop.explore.run import explore
from twinloop.explore.study import MANIFEST as STUDY_MANIFEST
from twinloop.explore.study import Study
from twinloop.fidelity import Verdict, assess
from twinloop.metrics import figures
from twinloop.scenario import Scenario
from twinloop.trace import Trace, check
from twinloop.trace.errors import InputError
from twinloop.trace.files import writing
from twinloop.trace.folder import MANIFEST as TRACE_MANIFEST
from twinloop.trace.trace import counted
from twinloop.workload.generate.burn import PROGRAM

#: The file that says what a folder of a loop is of, and its parts.
MANIFEST: Final = "loop.json"
REAL: Final = "real"
PROBES: Final = "probes"
TWIN: Final = "twin"
FIT: Final = "fit"
STUDY: Final = "study"
CONFIRMATION: Final = "confirmation"
#: What a loop must have to be shown, and by which file that is known.
_PARTS: Final = {REAL: TRACE_MANIFEST, FIT: FIT_MANIFEST, STUDY: STUDY_MANIFEST}
#: Rates of work that all runs of a loop have in common.
RATES: Final = "rates.json"

Step = Literal["run", "probe", "check", "simulate", "assess", "calibrate", "explore", "confirm"]
#: Told which step begins or has something to say, and what.
Say = Callable[[Step, str], None]


@dataclass(frozen=True, repr=False)
class Loop:
    """All that a loop measured, simulated, fitted, explored and confirmed.

    `real` is the run that the twin was held against, `probes` the short ones beside it; `twin` is
    what was predicted before anything was fitted, and `before` the verdict on that. `after` is the
    verdict on the fitted twin for the run that it was fitted to, and `unseen` on the baseline of
    the confirmation, a run that the fit has never seen.
    """

    folder: Path
    plan: LoopPlan
    real: Trace
    probe_names: tuple[str, ...]
    probes: tuple[Trace, ...]
    twin: Trace
    before: Verdict
    fit: Fit
    fitted_twin: Trace
    after: Verdict
    study: Study
    confirmation: Confirmation | None = None
    #: Whether runs recorded earlier were taken in place of new ones.
    offline: bool = False

    @property
    def scenario(self) -> Scenario:
        """What was run for real first."""
        return self.plan.scenario

    @cached_property
    def unseen(self) -> Verdict | None:
        """The verdict on a run of the baseline that the fit has not seen; None: there is none."""
        made = self.confirmation
        if made is None or made.folder is None:
            return None
        rows = made.runs.filter(made.runs["baseline"] & made.runs["trace"].is_not_null())
        if rows.is_empty():
            return None
        real = Trace.load(made.folder / rows["trace"][0])
        twin = simulate(made.baseline.scenario, usage_step=self.plan.period)
        return assess(real, twin)

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """What was found, in five lines."""
        from twinloop.explore.loop_words import lines

        return lines(self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was not measured, and what else should be known."""
        from twinloop.explore.loop_words import notes

        return notes(self)

    @property
    def plot(self) -> Any:
        """Its page: `loop.plot.page(path)`; see `LoopPlots`."""
        return importlib.import_module("twinloop.report").LoopPlots(self)

    @classmethod
    def load(cls, folder: str | Path) -> Loop:
        """Read a loop back; its twins are simulated again, which takes no time."""
        folder = Path(folder)
        kept = _kept(folder)
        if kept is None:
            raise InputError(
                "no loop is kept there", file=folder, remedy=f"it would have {MANIFEST}"
            )
        try:
            plan, offline = LoopPlan.from_dict(kept["plan"]), bool(kept["offline"])
        except KeyError as error:
            raise InputError(
                f"says nothing of {error}: it is no loop, or a damaged one", file=folder / MANIFEST
            ) from None
        for part, file in _PARTS.items():
            if not (folder / part / file).is_file():
                raise InputError(
                    f"this loop is not over: '{part}' is still to come",
                    file=folder,
                    remedy="give the same `twinloop loop` again: it goes on",
                )
        made = folder / CONFIRMATION
        return _closed(
            folder,
            plan,
            Trace.load(folder / REAL),
            {name: Trace.load(folder / PROBES / name) for name in plan.probes},
            Fit.load(folder / FIT),
            Study.load(folder / STUDY),
            Confirmation.load(made) if (made / CONFIRMED).is_file() else None,
            offline=offline,
        )

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Loop in {self.folder}: {self.lines[-1]}>"


def loop(
    plan: LoopPlan | str | Path,
    folder: str | Path,
    *,
    traces: str | Path | None = None,
    isolation: str = "auto",
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
        traces: Run nothing, and take what an earlier loop recorded in this folder.
        isolation: What keeps tasks to their nodes; see `twinloop.execute`.
        say: Told what is being done, and what came out.
    """
    asked = LoopPlan.load(plan) if isinstance(plan, str | Path) else plan
    return _Going(asked, Path(folder), traces, isolation, say or (lambda step, text: None)).on()


class _Going:
    """One way round."""

    def __init__(
        self, plan: LoopPlan, folder: Path, traces: str | Path | None, isolation: str, say: Say
    ) -> None:
        self.plan, self.folder, self.isolation, self.say = plan, folder, isolation, say
        self.traces = None if traces is None else Path(traces)

    def on(self) -> Loop:
        plan, say = self.plan, self.say
        self._check_recorded()
        self._check_folder()
        self.folder.mkdir(parents=True, exist_ok=True)
        with Journal.open(self.folder / ".lock", {"loop": 1}), self._rated():
            self._begin()
            real = self._run(plan.scenario, REAL, "run")
            probes = {
                name: self._run(scenario, f"{PROBES}/{name}", "probe")
                for name, scenario in plan.probe_scenarios.items()
            }
            self._checked({REAL: real, **probes})
            self._judged(real)
            fit = self._fit(real, probes)
            study = self._explored(fit)
            confirmation = self._confirmed(study, fit, [real, *probes.values()])
        say("assess", "comparing what was predicted with what came out")
        made = _closed(
            self.folder, plan, real, probes, fit, study, confirmation, self.traces is not None
        )
        if not (self.folder / TWIN).exists():
            made.twin.save(self.folder / TWIN)
        return made

    def _check_recorded(self) -> None:
        """Runs that are to be taken must all be there, before anything is done."""
        for place in (REAL, *(f"{PROBES}/{name}" for name in self.plan.probes)):
            if self.traces is not None and not (self.traces / place / TRACE_MANIFEST).is_file():
                raise InputError(
                    f"has no recorded run '{place}'",
                    file=self.traces,
                    remedy="name the folder of an earlier loop of this plan: it has "
                    f"{REAL}/, {PROBES}/ and {CONFIRMATION}/",
                )

    def _check_folder(self) -> None:
        """A folder of something else, or of another loop, is not touched."""
        kept = _kept(self.folder)
        own = (".lock", RATES)
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

    def _begin(self) -> None:
        """Say in the folder what it is of."""
        with writing(self.folder / MANIFEST) as stream:
            told = {"twinloop": __version__, **self._told()}
            stream.write(json.dumps(told, indent=1).encode())

    def _told(self) -> dict[str, Any]:
        plan = json.loads(json.dumps(self.plan.to_dict(), default=str))
        return {"plan": plan, "offline": self.traces is not None}

    @contextmanager
    def _rated(self) -> Iterator[None]:
        """One rate of work for all runs: what a second of work is must not change between them."""
        path = self.folder / RATES
        before = os.environ.get(burn.RATES)
        if self.traces is None and before is None:
            if not path.exists():
                found = burn.rates(self._kinds(), lambda text: self.say("run", text))
                with writing(path) as stream:
                    stream.write(json.dumps(found).encode())
            rates = json.loads(path.read_bytes())
            os.environ[burn.RATES] = ",".join(f"{kind}={rate!r}" for kind, rate in rates.items())
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(burn.RATES, None)

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
        path = self.folder / place
        kept = complete_run(path, Candidate(place, scenario, {}))
        if kept is not None:
            return kept
        if self.traces is not None:
            self.say(step, f"taking the recorded run {self.traces / place}")
            trace = Trace.load(self.traces / place)
            trace.save(path)
            return trace
        foretold = figures(simulate(scenario))
        about = "" if foretold.makespan is None else f", about {foretold.makespan:.0f} s"
        self.say(step, f"{scenario.name or place}: {counted(foretold.tasks, 'task')}{about}")
        return execute(
            scenario,
            path,
            period=self.plan.period,
            isolation=self.isolation,
            overwrite=True,
            announce=self._announced(step),
        )

    def _announced(self, step: Step) -> Callable[[str], None]:
        """Says what a run will do; of the probes, which run the same programs, only what is new."""

        def say(text: str) -> None:
            if step == "run" or not text.startswith(("will run ", "and ")):
                self.say(step, f"  {text}")

        return say

    def _checked(self, runs: Mapping[str, Trace]) -> None:
        for name, trace in runs.items():
            audit = check(trace)
            if audit.errors:
                raise InputError(
                    f"the recorded run '{name}' does not pass the quality gate: {audit.errors[0]}",
                    file=self.folder,
                    remedy=f"`twinloop check {self.folder}/...` says more",
                )
        self.say("check", f"{counted(len(runs), 'run')} recorded, all pass the quality gate")

    def _judged(self, real: Trace) -> None:
        """The twin as it is, before anything is fitted."""
        self.say("simulate", "the same scenario in the simulator, from the work that was declared")
        verdict = assess(real, _predicted(self.plan.scenario, self.plan.period))
        self.say("assess", f"{verdict.mode}: {tally(verdict)}")

    def _fit(self, real: Trace, probes: Mapping[str, Trace]) -> Fit:
        place = self.folder / FIT
        if (place / FIT_MANIFEST).exists():
            return Fit.load(place)
        self.say("calibrate", f"fitting the model to {counted(1 + len(probes), 'run')}")
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
        count = counted(len(study.planned_configurations), "what-if")
        self.say("explore", f"{count} simulated; best by {self.plan.by}: {best.name}")
        return study

    def _confirmed(self, study: Study, fit: Fit, fitted_to: list[Trace]) -> Confirmation | None:
        place = self.folder / CONFIRMATION
        ranking = self._worth_running(study)
        recorded = None if self.traces is None else self.traces / CONFIRMATION
        if recorded is not None:
            if not recorded.is_dir():
                self.say("confirm", f"no confirmation was recorded in {self.traces}")
                return None
            self.say("confirm", f"taking the recorded runs in {recorded}")
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
            announce=self._announced("confirm"),
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


def _closed(
    folder: Path,
    plan: LoopPlan,
    real: Trace,
    probes: Mapping[str, Trace],
    fit: Fit,
    study: Study,
    confirmation: Confirmation | None,
    offline: bool,
) -> Loop:
    """The loop from its parts: the twins and the verdicts follow from them."""
    twin = _predicted(plan.scenario, plan.period)
    fitted = _predicted(fit.apply(plan.scenario), plan.period)
    before, after = assess(real, twin), assess(real, fitted)
    names, runs = tuple(probes), tuple(probes.values())
    return Loop(
        folder,
        plan,
        real,
        names,
        runs,
        twin,
        before,
        fit,
        fitted,
        after,
        study,
        confirmation,
        offline,
    )


def _predicted(scenario: Scenario, period: float) -> Trace:
    return simulate(scenario, usage_step=period)


def tally(verdict: Verdict) -> str:
    """How many criteria of those that can be assessed pass.

    >>> from twinloop.fidelity import assess
    >>> tally(assess(Trace(), Trace()))
    'too little to assess'
    """
    found = [finding.status for finding in verdict.findings]
    passed, judged = found.count("PASS"), found.count("PASS") + found.count("FAIL")
    return f"{passed} of {judged} criteria pass" if judged else "too little to assess"


def _kept(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise InputError(f"cannot be read: {error}", file=path) from None
    if not isinstance(found, dict):
        raise InputError("holds no mapping: it is no loop, or a damaged one", file=path)
    return found
