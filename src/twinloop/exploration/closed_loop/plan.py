"""What a whole loop does, in one file: what is run, probed, changed, and confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from twinloop.description.description import Description, TextAlternative, get_read_folder
from twinloop.description.errors import InputError
from twinloop.description.file_names import check_entry_name
from twinloop.description.problems import ProblemCollector
from twinloop.exploration.confirmation.plan import MOST_REPETITIONS
from twinloop.exploration.factors.design import MOST, Design
from twinloop.exploration.factors.factors import apply_changes
from twinloop.exploration.factors.level_files import resolve_all_files
from twinloop.exploration.ranking.objectives import Objective
from twinloop.scenario import Scenario


def _read(value: Any, info: ValidationInfo) -> Any:
    """A text is the path of a scenario."""
    if not isinstance(value, str):
        return value
    folder = get_read_folder(info)
    return Scenario.load(folder / value)


class LoopPlan(Description):
    """A scenario, the probes beside it, what is asked, and how it is confirmed.

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
    >>> plan.probe_scenarios["two per core"].policy.name, plan.asked.seed
    ('spread-ic', 7)
    """

    name: str = Field("", description="name of the loop, for the reader")
    scenario: Annotated[Scenario, BeforeValidator(_read), TextAlternative("path of a scenario")] = (
        Field(description="what is run for real first, and what the twin is held against")
    )
    probes: dict[str, dict[str, Any]] = Field(
        {}, description="short runs beside it, by name: what each changes in the scenario"
    )
    what_if: dict[str, Any] = Field(
        {}, description="changes that make the scenario that is explored: another load, say"
    )
    factors: Design = Field(description="what is explored")
    by: str = Field("makespan_s", description="the KPI that is to be good")
    top: int = Field(3, ge=1, le=MOST, description="how many candidates are confirmed")
    repetitions: int = Field(
        2, ge=1, le=MOST_REPETITIONS, description="how often each of them is run"
    )
    budget: int = Field(2000, ge=10, le=10**9, description="evaluations of the calibration")
    analysis: int | None = Field(
        None, ge=0, le=10**9, description="evaluations for what the data can tell"
    )
    period: float = Field(1.0, gt=0, description="time between two samples of a run (s)")
    seed: int = Field(
        0, ge=0, le=2**63 - 1, description="where the randomness of search and order starts"
    )

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo) -> LoopPlan:
        folder = get_read_folder(info)
        plan = self if folder == Path() else self._located(folder)
        findings = ProblemCollector()
        try:
            Objective.of(self.by)
        except InputError as error:
            findings.add(("by",), error.problem, error.remedy)
        for name, changes in plan.probes.items():
            try:
                check_entry_name(name)  # the folder of its run is called so
            except InputError as error:
                findings.add(("probes", name), error.problem, error.remedy)
            _try(findings, ("probes", name), self.scenario, changes)
        _try(findings, ("what_if",), self.scenario, plan.what_if)
        findings.check()
        return plan

    def _located(self, folder: Path) -> LoopPlan:
        """The plan with all files in its changes named by absolute paths."""
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
    def asked(self) -> Scenario:
        """The scenario that is explored."""
        return apply_changes(self.scenario, self.what_if)


def _try(
    findings: ProblemCollector, where: tuple[str, ...], scenario: Scenario, changes: dict[str, Any]
) -> None:
    try:
        apply_changes(scenario, changes)
    except InputError as error:
        findings.add(where, str(error).replace("\n", "; "), None)
