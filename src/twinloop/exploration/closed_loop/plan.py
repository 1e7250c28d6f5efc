"""The plan of a closed loop: scenario, probes, what-if changes, factors and confirmation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from twinloop.description.description import Description, TextAlternative, get_read_folder
from twinloop.description.errors import InputError
from twinloop.description.file_names import check_entry_name
from twinloop.description.problems import ProblemCollector
from twinloop.exploration.confirmation.plan import MAX_REPETITIONS
from twinloop.exploration.factors.design import MAX_RUNS, Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.factors.level_files import resolve_all_files
from twinloop.exploration.ranking.objectives import Objective
from twinloop.scenario import Scenario


def _load_scenario(value: Any, info: ValidationInfo) -> Any:
    """Load the scenario if its path is given."""
    if not isinstance(value, str):
        return value
    folder = get_read_folder(info)
    return Scenario.load(folder / value)


class LoopPlan(Description):
    """The plan of a closed loop.

    In a file, paths in probes, `what_if` and levels are relative to that file.

    >>> plan = LoopPlan.from_text('''
    ... scenario:
    ...   platform: 2x1
    ...   workload: {generate: {name: burn, parameters: {bursts: 2}}}
    ...   policy: fifo
    ... probes:
    ...   two per core: {policy: {name: spread-ic, options: {overcommit: 2}}}
    ... what_if: {seed: 7}
    ... factors: {policy: [fifo, sjf]}
    ... by: turnaround_mean_s
    ... ''')
    >>> plan.probe_scenarios["two per core"].policy.name, plan.study_scenario.seed
    ('spread-ic', 7)
    """

    name: str = Field("", description="name of the loop")
    scenario: Annotated[
        Scenario, BeforeValidator(_load_scenario), TextAlternative("path of a scenario")
    ] = Field(description="the scenario of the first real run and of its twin")
    probes: dict[str, dict[str, Any]] = Field(
        {}, description="short additional runs, by name: the changes of the scenario"
    )
    what_if: dict[str, Any] = Field(
        {}, description="changes of the scenario for the study, for example another workload"
    )
    factors: Design = Field(description="the design of the study")
    by: str = Field("makespan_s", description="the KPI to optimise")
    top: int = Field(3, ge=1, le=MAX_RUNS, description="number of candidates to confirm")
    repetitions: int = Field(
        2, ge=1, le=MAX_REPETITIONS, description="number of repetitions of the confirmation"
    )
    budget: int = Field(2000, ge=10, le=10**9, description="evaluations of the calibration")
    analysis: int | None = Field(
        None, ge=0, le=10**9, description="evaluations of the analysis of identifiability"
    )
    period: float = Field(1.0, gt=0, description="time between two samples of a run (s)")
    seed: int = Field(
        0, ge=0, le=2**63 - 1, description="random seed of the search and of the order of runs"
    )

    @model_validator(mode="after")
    def _check_fields(self, info: ValidationInfo) -> LoopPlan:
        folder = get_read_folder(info)
        plan = self if folder == Path() else self._resolve_paths(folder)
        findings = ProblemCollector()
        try:
            Objective.of(self.by)
        except InputError as error:
            findings.add_error(("by",), error)
        for name, changes in plan.probes.items():
            try:
                check_entry_name(name)  # it is the name of the folder of the run
            except InputError as error:
                findings.add_error(("probes", name), error)
            _check_changes(findings, ("probes", name), self.scenario, changes)
        _check_changes(findings, ("what_if",), self.scenario, plan.what_if)
        findings.check()
        return plan

    def _resolve_paths(self, folder: Path) -> LoopPlan:
        """Return the plan with absolute paths of all files in its changes."""
        probes = {name: resolve_all_files(changes, folder) for name, changes in self.probes.items()}
        what_if = resolve_all_files(self.what_if, folder)
        return self.model_copy(update={"probes": probes, "what_if": what_if})

    @property
    def probe_scenarios(self) -> dict[str, Scenario]:
        """The scenario of each probe."""
        return {
            name: apply_changes(self.scenario, {"name": name, **changes})
            for name, changes in self.probes.items()
        }

    @property
    def study_scenario(self) -> Scenario:
        """The base scenario of the study: the scenario with the changes of `what_if`."""
        return apply_changes(self.scenario, self.what_if)


def _check_changes(
    findings: ProblemCollector, where: tuple[str, ...], scenario: Scenario, changes: dict[str, Any]
) -> None:
    try:
        apply_changes(scenario, changes)
    except InputError as error:
        findings.add(where, str(error).replace("\n", "; "), kind=error.kind)
