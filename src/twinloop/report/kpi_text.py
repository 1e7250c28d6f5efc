"""Names, units and formatted values of KPIs."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from twinloop.metrics.catalogue import FIGURES
from twinloop.report.quantity_text import format_duration, format_number, format_price

#: Short names of the KPIs whose meaning in the catalogue is a long definition.
_NAMES: Final = {
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
    "instances": "instances",
    "instances_refused": "instances refused",
    "instances_lost": "instances lost",
    "bill": "bill",
    "transfer_price": "price of transfers",
}
_SHARES: Final = frozenset({"utilisation"})
#: Amounts of money, which have two decimals.
MONEY: Final = frozenset({"bill", "transfer_price", "cost", "cost_cores", "cost_energy"})
_JOULES_PER_KWH: Final = 3.6e6


def name_kpi(kpi: str) -> str:
    """Return the readable name of a KPI.

    >>> name_kpi("makespan_s"), name_kpi("wait_p95_s"), name_kpi("mine")
    ('makespan', '95th percentile wait', 'mine')
    """
    if kpi in _NAMES:
        return _NAMES[kpi]
    return FIGURES[kpi].meaning if kpi in FIGURES else kpi


def label_kpi(kpi: str) -> str:
    """Return the name of a KPI with its unit.

    >>> label_kpi("makespan_s"), label_kpi("slowdown_mean"), label_kpi("utilisation")
    ('makespan (s)', 'mean slowdown', 'utilisation (%)')
    """
    unit = get_unit(kpi)
    return f"{name_kpi(kpi)} ({unit})" if unit else name_kpi(kpi)


def get_unit(kpi: str) -> str:
    """Return the unit of a KPI in tables and figures; an empty string if it has none.

    >>> get_unit("makespan_s"), get_unit("utilisation"), get_unit("energy_j"), get_unit("mine")
    ('s', '%', 'kWh', '')
    """
    if kpi in _SHARES:
        return "%"
    unit = FIGURES[kpi].unit if kpi in FIGURES else ""
    return "kWh" if unit == "J" else unit


def label_mean(kpi: str) -> str:
    """Return the name of the mean of a KPI over runs, with its unit.

    >>> label_mean("makespan_s"), label_mean("wait_mean_s")
    ('mean makespan (s)', 'mean wait (s)')
    """
    label = label_kpi(kpi)
    return label if label.startswith("mean ") else f"mean {label}"


def scale_value(kpi: str, value: Any) -> Any:
    """Convert a value, or an array of values, to the unit of `label_kpi`; None remains None.

    >>> scale_value("utilisation", 0.25), scale_value("energy_j", 9e6)
    (25.0, 2.5)
    >>> scale_value("utilisation", None) is None
    True
    """
    if value is None:
        return None
    if kpi in _SHARES:
        return value * 100
    return value / _JOULES_PER_KWH if get_unit(kpi) == "kWh" else value


def format_scaled(kpi: str, value: float | None) -> str:
    """Format a value of a KPI without its unit, which the heading of the column has.

    >>> format_scaled("utilisation", 1.032), format_scaled("makespan_s", 12.345)
    ('103', '12.3')
    >>> format_scaled("bill", 26.75), format_scaled("makespan_s", None)
    ('26.75', '-')
    """
    if kpi in MONEY and value is not None:
        return format_price(value)
    return format_number(scale_value(kpi, value))


def format_kpi(kpi: str, value: float | None) -> str:
    """Format a value of a KPI with its unit.

    >>> format_kpi("makespan_s", 5400.0), format_kpi("energy_j", 7.2e6)
    ('1.5 h', '2 kWh')
    >>> format_kpi("utilisation", 0.5)
    '50 %'
    >>> format_kpi("energy_per_task_j", 123.4), format_kpi("makespan_s", None)
    ('123 J', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    unit = FIGURES[kpi].unit if kpi in FIGURES else ""
    if unit == "s":
        return format_duration(value)
    if kpi in MONEY:
        return format_price(value)
    if kpi in _SHARES:
        return f"{100 * value:.3g} %"
    if unit == "J" and abs(value) >= 3.6e6:
        return f"{format_number(value / 3.6e6)} kWh"
    if unit == "J" and abs(value) >= 1e4:
        return f"{format_number(value / 1000)} kJ"
    return f"{format_number(value)} {unit}".rstrip()


def format_change(value: float, reference: float) -> str:
    """Format the difference of a value from a reference in percent; `-` if it is not defined.

    >>> format_change(88.0, 100.0), format_change(103.0, 100.0), format_change(1.0, 0.0)
    ('-12 %', '+3 %', '-')
    """
    if not reference or not math.isfinite(value) or not math.isfinite(reference):
        return "-"
    return f"{100 * (value - reference) / abs(reference):+.3g} %"


def expand_kpi_names(text: str) -> str:
    """Replace the identifiers of KPIs in a sentence by their readable names.

    >>> expand_kpi_names("energy_per_task_j was not measured, by makespan_s")
    'energy per task was not measured, by makespan'
    """
    return _IDENTIFIERS.sub(lambda match: name_kpi(match[0]), text)


#: KPIs whose identifier has an underscore; the others, such as "cost", are English words.
_IDENTIFIERS: Final = re.compile(
    "|".join(rf"\b{name}\b" for name in sorted(FIGURES, key=len, reverse=True) if "_" in name)
)
