"""One run of a study: the KPIs of a scenario, with a fit also for draws of its parameters."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from twinloop.calibration.cases import make_value_columns
from twinloop.calibration.parameters.values import declare_values, may_vary
from twinloop.description.class_registry import construct
from twinloop.description.cleaning import CHANGED, count_rows
from twinloop.engine import CompiledScenario
from twinloop.engine.run_trace import cost_trace_from_run
from twinloop.engine.workload_cache import LoadedWorkload
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.ranking.objectives import KPIS
from twinloop.metrics import cost
from twinloop.metrics.electricity import compute_emission
from twinloop.policy.registry import construct_policy
from twinloop.scenario import Scenario
from twinloop.scenario.carbon import has_carbon

if TYPE_CHECKING:
    from twinloop.calibration.fit import Fit

#: Default number of draws of parameter values with which each run of a study is simulated.
DEFAULT_DRAWS: Final = 64
#: The KPIs whose uncertainty is computed from draws.
DRAWN_KPIS: Final = (
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
    """A callable that simulates the base scenario with changes; sent to each worker once.

    >>> base = Scenario(platform="2x4", policy="easy", workload={"tasks": [{"id": "a",
    ...     "run_time": 5}]})
    >>> Runner(base)({"seed": 3})["kpis"]["makespan_s"]
    5.0
    """

    scenario: Scenario
    allow_code: bool = False
    #: Draws of the values of the model, a column per value name.
    draws: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    #: The classes of policies and sources named as `module:Class`; workers may not have the module.
    code: Mapping[str, type] = field(default_factory=dict)
    #: Identifies the study, because a worker may serve several studies and files may change between
    #: them.
    study_id: str = field(default_factory=lambda: uuid4().hex)

    def __call__(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Simulate one run; return its KPIs and their values for each draw."""
        scenario = use_sent_code(apply_changes(self.scenario, changes), self.code)
        # A level of the study takes precedence over a fitted value.
        levels = {name.removeprefix("model.") for name in changes}
        varied = {name: column for name, column in self.draws.items() if name not in levels}
        compiled = CompiledScenario(
            declare_values(scenario, list(varied)),
            allow_code=self.allow_code,
            workload=_load_workload(self.study_id, scenario),
        )
        priced = scenario.prices is not None or has_carbon(scenario)
        row: dict[str, Any] = _run_with_costs(compiled) if priced else {"kpis": compiled.run()}
        row["kpis"] = {name: row["kpis"][name] for name in KPIS if name in row["kpis"]}
        changed = (note for note in compiled.loaded.cleaned if note.kind in CHANGED and note.count)
        if cleaned := count_rows(changed):
            row["cleaned"] = cleaned
        if varied and compiled.is_native:
            row["draws"] = _run_draws(compiled, varied)
        return row


def use_sent_code(scenario: Scenario, code: Mapping[str, type]) -> Scenario:
    """Replace policy and source named as code by objects of the classes sent with the runs."""
    policy, source = scenario.policy, scenario.source
    if policy.object is None and policy.name in code:
        created = construct_policy(policy.name, code[policy.name], policy.options)
        scenario = scenario.replace(policy=created)
    if source.object is None and source.name is not None and source.name in code:
        made = construct(source.name, code[source.name], source.options)
        scenario = scenario.replace(source=made)
    return scenario


def _run_with_costs(compiled: CompiledScenario) -> dict[str, Any]:
    """Simulate a run once; return its KPIs with cost and carbon, and reasons for missing ones."""
    run = compiled.run_to_end()
    scenario = compiled.scenario
    kpis: dict[str, float | None] = dict(run.kpis())
    intensities = {each.carbon for each in scenario.effective_platform().clusters}
    trace = cost_trace_from_run(compiled, run, per_node=len(intensities) > 1)
    emission = compute_emission(trace)
    kpis["carbon_g"] = emission.grams
    if scenario.prices is not None:
        kpis["cost"] = cost(trace, scenario.prices).total
    row: dict[str, Any] = {"kpis": {k: v for k, v in kpis.items() if v is not None}}
    notes = [" ".join(note.split()) for note in emission.notes]
    if not emission.is_known and notes:
        row["unknown"] = {"carbon_g": notes[0]}
    elif notes:
        row["notes"] = notes
    return row


def _run_draws(
    compiled: CompiledScenario, varied: Mapping[str, NDArray[np.float64]]
) -> dict[str, list[float]]:
    """Simulate a run with each draw; return the values of the KPIs that are finite for all."""
    declared = {name: column for name, column in varied.items() if compiled.is_value(name)}
    rows = make_value_columns(compiled, len(next(iter(varied.values()))), declared)
    # On one thread, because the runs of a study are already parallel.
    kpis = compiled.run_many(rows, outputs=DRAWN_KPIS, threads=1)
    return {name: kpis[name].tolist() for name in DRAWN_KPIS if np.isfinite(kpis[name]).all()}


def select_draws(fit: Fit | None, max_draws: int) -> dict[str, NDArray[np.float64]]:
    """Return the draws of a fit, evenly thinned to at most `max_draws`; empty without draws."""
    if fit is None or fit.draws is None or not max_draws or not fit.draws.height:
        return {}
    chosen = np.unique(np.linspace(0, fit.draws.height - 1, max_draws).round().astype(int))
    return {
        name: fit.draws[name].to_numpy()[chosen]
        for name in fit.draws.columns
        if may_vary(name) and fit.draws[name].dtype.is_numeric()
    }


#: The last loaded workloads with the identifier of their study; there is rarely more than one per
#: seed.
_LOADED: deque[tuple[str, LoadedWorkload]] = deque(maxlen=8)


def _load_workload(study_id: str, scenario: Scenario) -> LoadedWorkload:
    """Load the workload of a scenario, once for all runs of a study that share it."""
    present = [each for loaded_id, each in tuple(_LOADED) if loaded_id == study_id]
    for each in present:
        if each.is_valid_for(scenario):
            return each
    earlier = next((each for each in present if each.has_origin_of(scenario)), None)
    loaded = LoadedWorkload(scenario, earlier=earlier)
    _LOADED.append((study_id, loaded))
    return loaded
