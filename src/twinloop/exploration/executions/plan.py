"""The plan of a study over real executions: a run per execution and set of simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from twinloop.calibration import check_client_records
from twinloop.description.address import suggest_name
from twinloop.description.class_registry import CodeNotAllowed
from twinloop.description.errors import InputError, TwinloopError
from twinloop.exploration.executions.cross_validation import (
    CrossFitter,
    CrossValidation,
    Models,
)
from twinloop.exploration.executions.design import ExecutionDesign, SimulationSet
from twinloop.exploration.executions.execution_scenario import make_execution_scenario
from twinloop.exploration.executions.find_executions import ExecutionFile, find_executions
from twinloop.exploration.factors.design import MAX_RUNS
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.study.input_hashes import Hashes, hash_input
from twinloop.exploration.study.plan import collect_identity, hash_identity
from twinloop.scenario import Scenario
from twinloop.scenario.broker_execution import list_labels
from twinloop.scenario.identity import Identities
from twinloop.trace import Trace, read


@dataclass(frozen=True)
class RecordedExecution:
    """An execution of the study: its file, and the labels by which errors are grouped.

    >>> RecordedExecution("a", "/logs/a.tasks", {"platform": "icps"}).labels["platform"]
    'icps'
    """

    name: str
    path: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ExecutionRun:
    """One simulation: an execution and a set, by their numbers, and the hash of all its inputs."""

    execution: int
    set: int
    key: str
    #: The error of an execution that cannot be simulated; None: it can.
    refused: str | None = None
    #: The models that were fitted to other executions; empty: none.
    models: Models = field(default_factory=dict)


@dataclass(frozen=True)
class ExecutionPlan:
    """The executions, the sets of simulations, and a run for each pair of them."""

    executions: tuple[RecordedExecution, ...]
    sets: tuple[SimulationSet, ...]
    runs: tuple[ExecutionRun, ...]
    #: The scenario whose workload is replaced by the execution; None: that of the execution.
    base: Scenario | None = None
    #: The number of simulations with random boots and run times, for each run with fitted models.
    repetitions: int = 1
    #: The classes of policies named as `module:Class`; workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)
    #: The hashes of all files that the runs read.
    inputs: Hashes = field(default_factory=dict)
    #: Notes on executions that no model was fitted to.
    notes: tuple[str, ...] = ()


def plan_execution_runs(design: ExecutionDesign, *, allow_code: bool = False) -> ExecutionPlan:
    """Find the executions of a design and plan their runs: all sets of one, then of the next."""
    try:
        files = find_executions(design.patterns)
    except InputError as missing:
        raise design.locate_missing(missing) from None
    sets = design.sets()
    if len(files) * len(sets) > MAX_RUNS:
        error = InputError(
            f"the design has {len(files) * len(sets):,} runs, more than {MAX_RUNS:,}",
            kind="too-many",
            field="factors",
        )
        raise design.locate(error, "factors")
    base = _load_base(design)
    planner = _Planner(base, sets, design.cross_validation, Identities(allow_code=allow_code))
    found = [planner.find(file) for file in files]
    _check_labels(design, found)
    if any(each.fitted for each in sets):
        planner.read_others(found)
    runs = tuple(run for number in range(len(found)) for run in planner.plan(number, found[number]))
    if all(run.refused for run in runs):
        reason = str(runs[0].refused)
        error = InputError(
            f"no run can be simulated: {reason}", kind="no-usable-runs", field="factors"
        )
        fields = {name: each.field or name for name, each in design.factors.items()}
        wrong = [name for name, field in fields.items() if reason.startswith(field)]
        raise design.locate(error, "factors", *wrong[:1])
    return ExecutionPlan(
        tuple(each.execution for each in found),
        sets,
        runs,
        base,
        design.cross_validation.runs,
        planner.identities.code,
        planner.inputs,
        tuple(f"no model is fitted to {name}: {why}" for name, why in planner.left_out.items()),
    )


def _load_base(design: ExecutionDesign) -> Scenario | None:
    try:
        return None if design.scenario is None else Scenario.load(design.scenario)
    except InputError as error:
        raise design.locate_missing(error) from None


def _check_labels(design: ExecutionDesign, found: Sequence[_FoundExecution]) -> None:
    """Raise an error if no execution has a label that is named and not one of the default ones."""
    known = list(dict.fromkeys(label for each in found for label in each.execution.labels))
    for path, (labels, default) in design.named_labels.items():
        for index, label in enumerate(labels):
            if label not in (*known, *default):
                error = InputError(
                    f"no execution has the label '{label}'",
                    kind="unknown-reference",
                    field=f"{'.'.join(path)}[{index}]",
                    remedy=suggest_name(label, known) or f"known: {', '.join(known) or 'none'}",
                )
                raise design.locate(error, *path, index)


class _FoundExecution(NamedTuple):
    """An execution with its scenario, or the error for which it cannot be simulated."""

    execution: RecordedExecution
    scenario: Scenario | None
    refused: str | None


@dataclass
class _Planner:
    base: Scenario | None
    sets: Sequence[SimulationSet]
    options: CrossValidation
    identities: Identities
    inputs: dict[str, str | None] = field(default_factory=dict)
    fitter: CrossFitter | None = None
    #: The executions that no model is fitted to although they can be read, and why.
    left_out: dict[str, str] = field(default_factory=dict)

    def find(self, file: ExecutionFile) -> _FoundExecution:
        """Find the labels and the scenario of an execution."""
        labels: Mapping[str, str] = {}
        scenario, refused = None, None
        try:
            manifest = read(file.path).manifest if Path(file.path).is_dir() else None
            labels = list_labels(Path(file.path), manifest)
            recorded = None if manifest is None else manifest.scenario
            scenario = make_execution_scenario(file.path, recorded, self.base)
        except TwinloopError as error:
            refused = _join_lines(error)
        return _FoundExecution(RecordedExecution(file.name, file.path, labels), scenario, refused)

    def read_others(self, found: Sequence[_FoundExecution]) -> None:
        """Read all executions, so that models can be fitted to those without wrong records."""
        traces: list[Trace | None] = []
        for each in found:
            traces.append(None)
            try:
                trace = read(each.execution.path)
            except TwinloopError:
                continue  # the runner reports it
            try:
                check_client_records(trace, each.execution.path)
            except InputError as error:
                self.left_out[each.execution.name] = _join_lines(error)
            else:
                traces[-1] = trace
        labels = [each.execution.labels for each in found]
        self.fitter = CrossFitter(labels, traces, self.options)

    def plan(self, number: int, found: _FoundExecution) -> list[ExecutionRun]:
        """Plan the runs of an execution: one with each set."""
        return [self._plan_run(number, index, found, each) for index, each in enumerate(self.sets)]

    def _plan_run(
        self, number: int, index: int, found: _FoundExecution, each: SimulationSet
    ) -> ExecutionRun:
        """Plan a run: its key, its models, and the error if it cannot be simulated."""
        refused, models = found.refused, {}
        if found.scenario is not None:
            try:
                if each.fitted and self.fitter is not None:
                    models = dict(self.fitter.fit(number, each.fitted))
                key = self._identify(found.execution, found.scenario, each, models)
                return ExecutionRun(number, index, key, None, models)
            except CodeNotAllowed:
                raise
            except InputError as error:
                refused = _join_lines(error)
        identity = {"refused": refused, "run": found.execution.path, "set": each.name}
        return ExecutionRun(number, index, hash_identity(identity), refused)

    def _identify(
        self, execution: RecordedExecution, scenario: Scenario, each: SimulationSet, models: Models
    ) -> str:
        """Return the key of a run: a hash of all that determines its result."""
        changed = apply_changes(scenario, each.changes) if each.changes else scenario
        hashes = {path.as_posix(): hash_input(path) for path in changed._files()}
        self.inputs |= hashes
        extra: dict[str, Any] = {"inject": each.keys}
        if each.fitted:
            # The seeds of the simulations depend on the name of the file.
            name = Path(execution.path).name
            extra |= {"models": models, "repetitions": self.options.runs, "execution": name}
        identity = collect_identity(changed, extra, self.identities, list(hashes.values()))
        return hash_identity(identity)


def _join_lines(error: TwinloopError) -> str:
    return " ".join(str(error).split())
