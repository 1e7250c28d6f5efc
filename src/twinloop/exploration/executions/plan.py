"""The plan of a study over real executions: a run per execution and set of simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from twinloop.description.class_registry import CodeNotAllowed
from twinloop.description.errors import InputError, TwinloopError
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
from twinloop.trace import read


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


@dataclass(frozen=True)
class ExecutionPlan:
    """The executions, the sets of simulations, and a run for each pair of them."""

    executions: tuple[RecordedExecution, ...]
    sets: tuple[SimulationSet, ...]
    runs: tuple[ExecutionRun, ...]
    #: The scenario whose workload is replaced by the execution; None: that of the execution.
    base: Scenario | None = None
    #: The classes of policies named as `module:Class`; workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)
    #: The hashes of all files that the runs read.
    inputs: Hashes = field(default_factory=dict)


def plan_execution_runs(design: ExecutionDesign, *, allow_code: bool = False) -> ExecutionPlan:
    """Find the executions of a design and plan their runs: all sets of one, then of the next."""
    files, sets = find_executions(design.patterns), design.sets()
    if len(files) * len(sets) > MAX_RUNS:
        raise InputError(
            f"the design has {len(files) * len(sets):,} runs, more than {MAX_RUNS:,}",
            kind="too-many",
            field="factors",
        )
    base = None if design.scenario is None else Scenario.load(design.scenario)
    planner = _Planner(base, sets, Identities(allow_code=allow_code))
    planned = [planner.plan(number, file) for number, file in enumerate(files)]
    runs = tuple(run for _, own in planned for run in own)
    if all(run.refused for run in runs):
        raise InputError(
            f"no run can be simulated: {runs[0].refused}", kind="no-usable-runs", field="factors"
        )
    executions = tuple(execution for execution, _ in planned)
    return ExecutionPlan(executions, sets, runs, base, planner.identities.code, planner.inputs)


@dataclass
class _Planner:
    base: Scenario | None
    sets: Sequence[SimulationSet]
    identities: Identities
    inputs: dict[str, str | None] = field(default_factory=dict)

    def plan(
        self, number: int, file: ExecutionFile
    ) -> tuple[RecordedExecution, list[ExecutionRun]]:
        """Return an execution with its labels, and its runs."""
        labels: Mapping[str, str] = {}
        scenario, refused = None, None
        try:
            manifest = read(file.path).manifest if Path(file.path).is_dir() else None
            labels = list_labels(Path(file.path), manifest)
            recorded = None if manifest is None else manifest.scenario
            scenario = make_execution_scenario(file.path, recorded, self.base)
        except TwinloopError as error:
            refused = _join_lines(error)
        runs = [
            ExecutionRun(number, index, *self._identify(file, scenario, each, refused))
            for index, each in enumerate(self.sets)
        ]
        return RecordedExecution(file.name, file.path, labels), runs

    def _identify(
        self,
        file: ExecutionFile,
        scenario: Scenario | None,
        each: SimulationSet,
        refused: str | None,
    ) -> tuple[str, str | None]:
        """Return the key of a run, and the error if it cannot be simulated."""
        if scenario is not None:
            try:
                changed = apply_changes(scenario, each.changes) if each.changes else scenario
                hashes = {path.as_posix(): hash_input(path) for path in changed._files()}
                self.inputs |= hashes
                extra = {"inject": each.keys}
                identity = collect_identity(changed, extra, self.identities, list(hashes.values()))
                return hash_identity(identity), None
            except CodeNotAllowed:
                raise
            except InputError as error:
                refused = _join_lines(error)
        return hash_identity({"refused": refused, "run": file.path, "set": each.name}), refused


def _join_lines(error: TwinloopError) -> str:
    return " ".join(str(error).split())
