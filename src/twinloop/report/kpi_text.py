"""KPIs as people call them, and their values as people say them."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from twinloop.metrics.catalogue import FIGURES
from twinloop.report.quantity_text import format_duration, format_number

#: Shorter than their meaning, where that is a definition.
_CALLED: Final = {
    "tasks": "tasks",
    "completed": "tasks completed",
    "rejected": "tasks rejected",
    "killed": "tasks killed",
    "failed": "tasks failed",
    "lost": "tasks lost",
    "makespan_s": "makespan",
    "utilisation": "utilisation",
    "throughput_per_s": "throughput",
    "energy_j": "energy",
    "energy_per_task_j": "energy per task",
    "carbon_g": "carbon",
    "cost": "cost",
    "deadline_misses": "deadlines missed",
}
_SHARES: Final = frozenset({"utilisation"})


def called(kpi: str) -> str:
    """What a KPI is called.

    >>> called("makespan_s"), called("wait_p95_s"), called("mine")
    ('makespan', '95th percentile wait', 'mine')
    """
    if kpi in _CALLED:
        return _CALLED[kpi]
    return FIGURES[kpi].meaning if kpi in FIGURES else kpi


def labelled(kpi: str) -> str:
    """What a KPI is called, with its unit.

    >>> labelled("makespan_s"), labelled("slowdown_mean"), labelled("utilisation")
    ('makespan (s)', 'mean slowdown', 'utilisation (%)')
    """
    unit = unit_of(kpi)
    return f"{called(kpi)} ({unit})" if unit else called(kpi)


def unit_of(kpi: str) -> str:
    """The unit in which tables and pictures have a KPI; nothing of what has none.

    >>> unit_of("makespan_s"), unit_of("utilisation"), unit_of("mine")
    ('s', '%', '')
    """
    if kpi in _SHARES:
        return "%"
    return FIGURES[kpi].unit if kpi in FIGURES else ""


def averaged(kpi: str) -> str:
    """The mean of a KPI over runs, with its unit.

    >>> averaged("makespan_s"), averaged("wait_mean_s")
    ('mean makespan (s)', 'mean wait (s)')
    """
    said = labelled(kpi)
    return said if said.startswith("mean ") else f"mean {said}"


def scaled(kpi: str, value: Any) -> Any:
    """A value, or an array of them, in the unit of `labelled`; unknown remains unknown.

    >>> scaled("utilisation", 0.25), scaled("makespan_s", 3.0), scaled("utilisation", None)
    (25.0, 3.0, None)
    """
    return value * 100 if kpi in _SHARES and value is not None else value


def tabled(kpi: str, value: float | None) -> str:
    """A value of a KPI below a heading that has its unit, as `labelled` does.

    >>> tabled("utilisation", 1.032), tabled("makespan_s", 12.345), tabled("makespan_s", None)
    ('103', '12.3', '-')
    """
    return format_number(scaled(kpi, value))


def valued(kpi: str, value: float | None) -> str:
    """A value of a KPI with its unit.

    >>> valued("makespan_s", 5400.0), valued("energy_j", 7.2e6), valued("utilisation", 0.5)
    ('1.5 h', '2 kWh', '50 %')
    >>> valued("energy_per_task_j", 123.4), valued("makespan_s", None)
    ('123 J', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    unit = FIGURES[kpi].unit if kpi in FIGURES else ""
    if unit == "s":
        return format_duration(value)
    if kpi in _SHARES:
        return f"{100 * value:.3g} %"
    if unit == "J" and abs(value) >= 3.6e6:
        return f"{format_number(value / 3.6e6)} kWh"
    if unit == "J" and abs(value) >= 1e4:
        return f"{format_number(value / 1000)} kJ"
    return f"{format_number(value)} {unit}".rstrip()


def changed(value: float, of: float) -> str:
    """How far a value lies from another, in percent; nothing can be said of zero.

    >>> changed(88.0, 100.0), changed(103.0, 100.0), changed(1.0, 0.0)
    ('-12 %', '+3 %', '-')
    """
    if not of or not math.isfinite(value) or not math.isfinite(of):
        return "-"
    return f"{100 * (value - of) / abs(of):+.3g} %"


def in_words(said: str) -> str:
    """A sentence in which every KPI is called as people call it.

    >>> in_words("energy_per_task_j was not measured, by makespan_s")
    'energy per task was not measured, by makespan'
    """
    return _NAMED.sub(lambda found: called(found[0]), said)


#: A name without an underscore is a word of its own.
_NAMED: Final = re.compile(
    "|".join(rf"\b{name}\b" for name in sorted(FIGURES, key=len, reverse=True) if "_" in name)
)
