"""Catalogue of figures: names, units and meanings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple


class Figure(NamedTuple):
    """A figure of the catalogue: its unit and its meaning.

    >>> FIGURES["makespan_s"].unit
    's'
    """

    unit: str
    meaning: str


#: Quantities with a distribution over tasks: unit and label.
DISTRIBUTIONS: Final = {
    "wait": ("s", "wait"),
    "turnaround": ("s", "turnaround"),
    "slowdown": ("", "slowdown"),
    "bounded_slowdown": ("", "bounded slowdown"),
}
#: Statistics of each distribution.
MEASURES: Final = {
    "mean": "mean",
    "p50": "median",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "max": "largest",
}


def add_unit(name: str, unit: str) -> str:
    """Append the unit to the name of a figure.

    >>> add_unit("wait_mean", "s"), add_unit("slowdown_mean", "")
    ('wait_mean_s', 'slowdown_mean')
    """
    return f"{name}_{unit}" if unit else name


def _list_distributions() -> Iterator[tuple[str, Figure]]:
    for quantity, (unit, label) in DISTRIBUTIONS.items():
        for measure, statistic in MEASURES.items():
            yield add_unit(f"{quantity}_{measure}", unit), Figure(unit, f"{statistic} {label}")


FIGURES: Final[dict[str, Figure]] = {
    "tasks": Figure("", "tasks counted"),
    "completed": Figure("", "tasks that completed"),
    "rejected": Figure("", "tasks that could never run"),
    "killed": Figure("", "tasks killed at a limit"),
    "failed": Figure("", "tasks that failed, including lost ones"),
    "lost": Figure("", "tasks lost with their machine"),
    "cancelled": Figure("", "tasks cancelled by their user"),
    "unknown": Figure("", "tasks of unknown status"),
    "ran": Figure("", "tasks that were started"),
    "left_out": Figure("", "tasks submitted in warm-up or from `until` on, not counted"),
    "makespan_s": Figure("s", "first submission to last end of the tasks that ran"),
    **dict(_list_distributions()),
    "core_s": Figure("core s", "allocated core-seconds in the window"),
    "cores": Figure("cores", "cores of the platform"),
    "utilisation": Figure("", "core_s over the capacity of the cores in the window"),
    "throughput_per_s": Figure("1/s", "tasks that ended per second of the window"),
    "busy_cores_mean": Figure("cores", "mean number of allocated cores in the window"),
    "busy_nodes_mean": Figure("nodes", "mean number of nodes with a task in the window"),
    "energy_j": Figure("J", "energy of all nodes"),
    "energy_per_task_j": Figure("J", "energy per task completed in the window"),
    "carbon_g": Figure("g", "CO2 equivalent of the energy"),
    "cost": Figure("", "price of cores and energy, in the currency of the prices"),
    "cost_cores": Figure("", "price of the allocated cores"),
    "cost_energy": Figure("", "price of the energy"),
    "deadlines": Figure("", "tasks with a deadline"),
    "deadline_misses": Figure("", "tasks that did not complete by their deadline"),
    "lateness_mean_s": Figure("s", "mean lateness of submission"),
    "lateness_relative": Figure("", "relative lateness"),
    "lateness_additional_s": Figure("s", "additional lateness"),
    "instances": Figure("", "instances rented from clouds"),
    "instances_refused": Figure("", "instances that were refused"),
    "instances_lost": Figure("", "instances lost with their host"),
    "instances_interrupted": Figure("", "instances that ended at a higher spot price"),
    "instance_wait_mean_s": Figure("s", "mean time from the request of an instance to its use"),
    "instance_core_s": Figure("core s", "core-seconds of instances on hosts"),
    "bill": Figure("", "price of instances, reservations and transfers from clouds"),
    "transfer_price": Figure("", "price of the transfers of tasks on instances"),
    "migrations": Figure("", "completed migrations of instances to another host"),
    "downtime_s": Figure("s", "time that instances were stopped by migrations"),
}
