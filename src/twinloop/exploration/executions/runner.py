"""The simulations of one execution with several sets, and what is observed in each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from twinloop.calibration.client_models import apply_parts
from twinloop.campaign.outcome import evaluate
from twinloop.description.cleaning import count_rows
from twinloop.engine import CompiledScenario
from twinloop.engine.run_trace import trace_from_run
from twinloop.exploration.executions.cross_validation import Models
from twinloop.exploration.executions.design import SimulationSet
from twinloop.exploration.executions.execution_scenario import make_execution_scenario
from twinloop.exploration.executions.observations import (
    Observations,
    observe,
    observe_execution,
    summarise,
)
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.study.runner import use_sent_code
from twinloop.scenario import Scenario
from twinloop.trace import Trace, read
from twinloop.workload.injection import inject


@dataclass(frozen=True)
class SetRun:
    """A missing run: its key, its set, and the models that were fitted to other executions."""

    key: str
    set: SimulationSet
    models: Models


@dataclass(frozen=True)
class ExecutionJob:
    """The missing runs of one execution."""

    path: str
    runs: tuple[SetRun, ...]


class _LoadedExecution(NamedTuple):
    """An execution: the name of its file, its scenario, and what was measured in it."""

    name: str
    trace: Trace
    scenario: Scenario
    measured: Observations


#: What was observed, and the counts of the data cleaning of the execution.
_Simulated = tuple[Observations, dict[str, int]]


@dataclass(frozen=True)
class ExecutionRunner:
    """A callable that simulates one execution with several sets; sent to each worker once.

    The execution is read once for all its sets. A set that fails does not affect the others: its
    row has the error.
    """

    #: The scenario whose workload is replaced by the execution; None: that of the execution.
    base: Scenario | None = None
    #: The number of simulations with random boots and run times, for each run with fitted models.
    repetitions: int = 1
    allow_code: bool = False
    #: The classes of policies named as `module:Class`; workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)

    def __call__(self, job: ExecutionJob) -> list[dict[str, Any]]:
        """Simulate the runs of an execution; return a row of the journal for each."""
        loading = evaluate(self._load, job.path)
        if not isinstance(loading.value, _LoadedExecution):
            return [_make_row(each.key, None, loading.seconds, loading.error) for each in job.runs]
        return [self._run(loading.value, each) for each in job.runs]

    def _run(self, execution: _LoadedExecution, run: SetRun) -> dict[str, Any]:
        """Simulate a set; return its row of the journal."""
        outcome = evaluate(lambda _: self._simulate(execution, run), execution.name)
        kpis, cleaned = (None, {}) if outcome.value is None else outcome.value
        return _make_row(run.key, kpis, outcome.seconds, outcome.error, cleaned)

    def _load(self, path: str) -> _LoadedExecution:
        trace = read(path)
        scenario = make_execution_scenario(path, trace.manifest.scenario, self.base)
        return _LoadedExecution(Path(path).name, trace, scenario, observe_execution(trace))

    def _simulate(self, execution: _LoadedExecution, run: SetRun) -> _Simulated:
        """Simulate an execution with a set, and observe the simulation."""
        scenario = execution.scenario
        if run.set.changes:
            scenario = use_sent_code(apply_changes(scenario, run.set.changes), self.code)
        if not run.models:
            return self._observe(execution, scenario, run.set.keys)
        fitted = apply_parts(scenario, run.models)
        scenarios = (
            fitted.replace(seed=draw_seed(fitted.seed, execution.name, number))
            for number in range(self.repetitions)
        )
        runs = [self._observe(execution, each, run.set.keys) for each in scenarios]
        return summarise([observations for observations, _ in runs]), runs[0][1]

    def _observe(
        self, execution: _LoadedExecution, scenario: Scenario, keys: tuple[str, ...]
    ) -> _Simulated:
        """Simulate an execution once, and observe the simulation."""
        is_predicted = not {"wall_times", "run_times"} & set(keys)
        errors = scenario.workload.prediction_errors if is_predicted else None
        workload = inject(
            execution.trace,
            keys,
            errors=errors,
            seed=scenario.seed,
            file=execution.scenario.workload.path,
        )
        compiled = CompiledScenario(scenario, allow_code=self.allow_code, workload=workload)
        simulated = trace_from_run(compiled, compiled.run_to_end())
        observed = observe(simulated, execution.trace, execution.measured, keys)
        return observed, count_rows(workload.cleaned)


def draw_seed(seed: int, execution: str, number: int) -> int:
    """Draw the seed of one of many simulations of an execution with fitted models.

    It is never the recorded seed: an execution that was simulated itself would have its own random
    boots and run times in its prediction. Executions have different ones, so that the luck of one
    is not that of all.

    >>> draw_seed(7, "a.tasks", 0) == draw_seed(7, "a.tasks", 0)
    True
    >>> len({7, *(draw_seed(7, name, n) for name in ("a.tasks", "b.tasks") for n in range(19))})
    39
    """
    words = [seed, number, *execution.encode()]
    return int(np.random.SeedSequence(words).generate_state(1)[0])


def _make_row(
    key: str,
    kpis: Observations | None,
    seconds: float,
    error: str | None,
    cleaned: Mapping[str, int] = MappingProxyType({}),
) -> dict[str, Any]:
    row: dict[str, Any] = {"key": key, "kpis": kpis, "seconds": seconds, "error": error}
    return {**row, "cleaned": dict(cleaned)} if cleaned else row
