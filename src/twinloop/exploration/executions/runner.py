"""The simulations of one execution with several sets, and what is observed in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from twinloop.campaign.outcome import evaluate
from twinloop.engine import CompiledScenario
from twinloop.engine.run_trace import trace_from_run
from twinloop.exploration.executions.design import SimulationSet
from twinloop.exploration.executions.execution_scenario import make_execution_scenario
from twinloop.exploration.executions.observations import Observations, observe, observe_execution
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.study.runner import use_sent_code
from twinloop.scenario import Scenario
from twinloop.trace import Trace, read
from twinloop.workload.injection import inject


@dataclass(frozen=True)
class ExecutionJob:
    """The missing runs of one execution: the key and the set of each."""

    path: str
    runs: tuple[tuple[str, SimulationSet], ...]


class _LoadedExecution(NamedTuple):
    """An execution, the scenario that simulates it, and what was measured in it."""

    trace: Trace
    scenario: Scenario
    measured: Observations


@dataclass(frozen=True)
class ExecutionRunner:
    """A callable that simulates one execution with several sets; sent to each worker once.

    The execution is read once for all its sets. A set that fails does not affect the others: its
    row has the error.
    """

    #: The scenario whose workload is replaced by the execution; None: that of the execution.
    base: Scenario | None = None
    allow_code: bool = False
    #: The classes of policies named as `module:Class`; workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)

    def __call__(self, job: ExecutionJob) -> list[dict[str, Any]]:
        """Simulate the runs of an execution; return a row of the journal for each."""
        loading = evaluate(self._load, job.path)
        if not isinstance(loading.value, _LoadedExecution):
            return [_make_row(key, None, loading.seconds, loading.error) for key, _ in job.runs]
        return [self._run(loading.value, key, each) for key, each in job.runs]

    def _run(self, execution: _LoadedExecution, key: str, each: SimulationSet) -> dict[str, Any]:
        """Simulate a set; return its row of the journal."""
        name = Path(execution.scenario.workload.path or "").name
        outcome = evaluate(lambda _: self._simulate(execution, each), name)
        return _make_row(key, outcome.value, outcome.seconds, outcome.error)

    def _load(self, path: str) -> _LoadedExecution:
        trace = read(path)
        scenario = make_execution_scenario(path, trace.manifest.scenario, self.base)
        return _LoadedExecution(trace, scenario, observe_execution(trace))

    def _simulate(self, execution: _LoadedExecution, each: SimulationSet) -> Observations:
        """Simulate an execution with a set, and observe the simulation."""
        scenario = execution.scenario
        if each.changes:
            scenario = use_sent_code(apply_changes(scenario, each.changes), self.code)
        is_predicted = not {"wall_times", "run_times"} & set(each.keys)
        errors = scenario.workload.prediction_errors if is_predicted else None
        workload = inject(execution.trace, each.keys, errors=errors, seed=scenario.seed)
        compiled = CompiledScenario(scenario, allow_code=self.allow_code, workload=workload)
        simulated = trace_from_run(compiled, compiled.run_to_end())
        return observe(simulated, execution.trace, execution.measured, each.keys)


def _make_row(
    key: str, kpis: Observations | None, seconds: float, error: str | None
) -> dict[str, Any]:
    return {"key": key, "kpis": kpis, "seconds": seconds, "error": error}
