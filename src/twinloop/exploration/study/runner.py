"""A run of a study: a scenario simulated, and its KPIs; with a fit, under every calibration."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.cases import make_value_rows
from twinloop.calibration.parameters.values import declare_values, is_model_value
from twinloop.engine import CompiledScenario
from twinloop.engine.run_trace import cost_trace_from_run
from twinloop.engine.workload_cache import LoadedWorkload
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.ranking.objectives import KPIS
from twinloop.metrics import cost
from twinloop.metrics.electricity import compute_emission
from twinloop.policy import BuiltInPolicy
from twinloop.policy.registry import construct_policy
from twinloop.scenario import Scenario
from twinloop.scenario.carbon import has_carbon

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit

#: How many calibrations of those that the data allows are tried in each run of a study.
DRAWS: Final = 64
#: The KPIs whose doubt is looked at.
DOUBTED: Final = (
    "makespan_s",
    "wait_mean_s",
    "wait_p95_s",
    "turnaround_mean_s",
    "turnaround_p95_s",
    "bounded_slowdown_mean",
    "energy_j",
    "energy_per_task_j",
)


@dataclass(frozen=True)
class Runner:
    """Simulates the base scenario with some fields changed; goes to each worker once.

    >>> base = Scenario(platform="2x4", policy="easy", workload={"tasks": [{"id": "a",
    ...     "run_time": 5}]})
    >>> Runner(base)({"seed": 3})["kpis"]["makespan_s"]
    5.0
    """

    scenario: Scenario
    allow_code: bool = False
    #: Values of the model by name, a column for each, a row for each calibration.
    draws: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    #: The classes of policies that are named as `module:Class`, which a worker may not find.
    code: Mapping[str, type] = field(default_factory=dict)
    #: Tells studies apart on workers that live longer than one: files may change between them.
    mark: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The KPIs of one run, and what they are under each calibration."""
        scenario = self._with_policy(apply_changes(self.scenario, changes))
        # A level of the study has the last word on a value that was fitted as well.
        levels = {name.removeprefix("model.") for name in changes}
        moved = {name: column for name, column in self.draws.items() if name not in levels}
        ready = CompiledScenario(
            declare_values(scenario, list(moved)),
            allow_code=self.allow_code,
            workload=_loaded(self.mark, scenario),
        )
        priced = scenario.prices is not None or has_carbon(scenario)
        told: dict[str, Any] = _priced(ready) if priced else {"kpis": ready.run()}
        told["kpis"] = {name: told["kpis"][name] for name in KPIS if name in told["kpis"]}
        if moved and isinstance(ready.policy, BuiltInPolicy):
            told["draws"] = _doubt(ready, moved)
        return told

    def _with_policy(self, scenario: Scenario) -> Scenario:
        """The scenario with a policy that is named as code made of the class that came along."""
        named = scenario.policy
        found = None if named.object is not None else self.code.get(named.name)
        if found is None:
            return scenario
        return scenario.replace(policy=construct_policy(named.name, found, named.options))


def _priced(ready: CompiledScenario) -> dict[str, Any]:
    """The KPIs of a run with its money and carbon, from one simulation; why one is not known."""
    run = ready.run_to_end()
    scenario = ready.scenario
    kpis: dict[str, float | None] = dict(run.kpis())
    intensities = {each.carbon for each in scenario.effective_platform().clusters}
    trace = cost_trace_from_run(ready, run, per_node=len(intensities) > 1)
    emission = compute_emission(trace)
    kpis["carbon_g"] = emission.grams
    if scenario.prices is not None:
        kpis["cost"] = cost(trace, scenario.prices).total
    told: dict[str, Any] = {"kpis": {k: v for k, v in kpis.items() if v is not None}}
    notes = [" ".join(note.split()) for note in emission.notes]
    if not emission.is_known and notes:
        told["unknown"] = {"carbon_g": notes[0]}
    elif notes:
        told["notes"] = notes
    return told


def _doubt(
    ready: CompiledScenario, moved: Mapping[str, NDArray[np.float64]]
) -> dict[str, list[float]]:
    """The KPIs under each calibration."""
    known = {name: column for name, column in moved.items() if name in ready.value_names}
    rows = make_value_rows(ready, len(next(iter(moved.values()))), known)
    # On one thread: it is the runs of a study that go on at the same time.
    many = ready.run_many(rows, outputs=DOUBTED, threads=1)
    return {name: many[name].tolist() for name in DOUBTED if np.isfinite(many[name]).all()}


def select_draws(fit: Fit | None, most: int) -> dict[str, NDArray[np.float64]]:
    """The calibrations that the data allows, evenly chosen where there are more than `most`."""
    if fit is None or fit.draws is None or not most or not fit.draws.height:
        return {}
    chosen = np.unique(np.linspace(0, fit.draws.height - 1, most).round().astype(int))
    return {
        name: fit.draws[name].to_numpy()[chosen]
        for name in fit.draws.columns
        if is_model_value(name) and fit.draws[name].dtype.is_numeric()
    }


#: What was read last, for the runs of a study that have the same: seldom more than the seeds.
_READ: deque[tuple[str, LoadedWorkload]] = deque(maxlen=8)


def _loaded(mark: str, scenario: Scenario) -> LoadedWorkload:
    """The workload of a scenario, read or made once for all runs of a study that have it."""
    for of, each in tuple(_READ):
        if of == mark and each.is_valid_for(scenario):
            return each
    made = LoadedWorkload(scenario)
    _READ.append((mark, made))
    return made
