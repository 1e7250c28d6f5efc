"""Objectives of a study: a KPI and the direction of improvement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from twinloop._core import KPI_NAMES
from twinloop.description.address import suggest_name
from twinloop.description.errors import InputError
from twinloop.metrics import FIGURES
from twinloop.scenario import Scenario
from twinloop.scenario.carbon import has_carbon, has_carbon_series

#: KPIs of a run of a study: those of the core, carbon emissions and cost.
KPIS: Final = (*(name for name in KPI_NAMES if name != "events"), "carbon_g", "cost")
#: KPIs to maximise; all others are minimised.
MORE_IS_BETTER: Final = frozenset({"completed", "throughput_per_s", "utilisation"})
#: KPIs that need hosts with a power model.
_NEEDS_POWER: Final = frozenset({"energy_j", "energy_per_task_j", "carbon_g"})


@dataclass(frozen=True, slots=True)
class Objective:
    """A KPI and whether a lower value is better.

    >>> Objective.of("makespan_s"), Objective.of("utilisation").lower
    (Objective(kpi='makespan_s', lower=True), False)
    >>> Objective.of("max:energy_j").lower
    False
    >>> Objective.of("makespam_s")
    Traceback (most recent call last):
    twinloop.InputError: objective: 'makespam_s' is not a KPI (did you mean 'makespan_s'?) [TL0209]
    """

    kpi: str
    lower: bool = True

    @classmethod
    def of(cls, given: str | Objective) -> Objective:
        """Read a KPI such as `makespan_s`; `min:` or `max:` before it overrides the direction."""
        if isinstance(given, Objective):
            return given
        direction, _, kpi = given.rpartition(":")
        if kpi in KPIS and direction not in ("", "min", "max"):
            raise InputError(
                f"{given!r} has the direction {direction!r}, which is not min or max",
                kind="unknown-name",
                field="objective",
                remedy=f"name min:{kpi}, max:{kpi} or {kpi}",
            )
        if kpi not in KPIS:
            raise InputError(
                f"{given!r} is not a KPI",
                kind="unknown-name",
                field="objective",
                remedy=suggest_name(kpi, KPIS, listed=len(KPIS)),
            )
        return cls(kpi, direction == "min" if direction else kpi not in MORE_IS_BETTER)

    @property
    def unit(self) -> str:
        """The unit of the KPI."""
        return FIGURES[self.kpi].unit

    @property
    def meaning(self) -> str:
        """The description of the KPI."""
        return FIGURES[self.kpi].meaning

    def __str__(self) -> str:
        return self.kpi if self.lower != (self.kpi in MORE_IS_BETTER) else _format_direction(self)


def explain_missing_kpi(scenario: Scenario, kpi: str) -> str | None:
    """Return why a KPI cannot be computed for a scenario; None if it can.

    >>> plain = Scenario(platform="1x1", policy="easy", workload="log.swf")
    >>> explain_missing_kpi(plain, "energy_j")
    'no host has a power model'
    >>> explain_missing_kpi(plain, "makespan_s") is None
    True
    """
    if kpi == "cost" and scenario.prices is None:
        return "the scenario has no prices (prices: {core_hour: 0.02, kwh: 0.25})"
    if kpi == "carbon_g" and not has_carbon(scenario):
        return "no cluster of the platform has a carbon intensity (carbon: 300 g/kWh)"
    if kpi in _NEEDS_POWER:
        hosts = scenario.effective_platform().hosts()
        if all(host.power is None for _, host in hosts):
            return "no host has a power model"
    has_no_date = scenario.start is None and (
        scenario.workload.is_generated or scenario.workload.tasks
    )
    if kpi == "carbon_g" and has_no_date and has_carbon_series(scenario):
        return (
            "the carbon intensity of a cluster changes over time, but the workload has no start "
            "date (start: 2024-07-01 in the scenario, or a constant such as carbon: 300 g/kWh)"
        )
    return None


def _format_direction(objective: Objective) -> str:
    return f"{'min' if objective.lower else 'max'}:{objective.kpi}"
