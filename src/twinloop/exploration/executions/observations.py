"""What is observed in every simulation of an execution, and in the execution itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from twinloop.description.errors import InputError
from twinloop.exploration.study.intervals import compute_prediction_interval
from twinloop.metrics import ClientMetrics, client_metrics, scheduling_error
from twinloop.trace import Trace

#: The columns of what was simulated; those of what was measured have the same names after a prefix.
SIMULATED: Final = (
    *("instances", "units", "bill"),
    *("uptime_s", "runtime_s", "usage", "makespan_s"),
)
MEASURED_PREFIX: Final = "measured_"
MEASURED: Final = tuple(f"{MEASURED_PREFIX}{name}" for name in SIMULATED)
#: The ends of the interval that contains a value in 90 % of the cases: columns with these endings.
INTERVAL: Final = ("_low", "_high")
INTERVALS: Final = tuple(f"{name}{end}" for name in SIMULATED for end in INTERVAL)
#: The metrics with a simulated and a measured value, and their columns.
COMPARED: Final = {"uptime": "uptime_s", "makespan": "makespan_s", "usage": "usage"}
#: The share of the tasks on another instance than in the execution.
SCHEDERROR: Final = "schederror"
#: All metrics with an error, in the order of the tables.
METRICS: Final[tuple[str, ...]] = (*COMPARED, SCHEDERROR)
#: Further columns: the number of tasks, recorded boots, and instances rented beyond them.
COUNTS: Final = ("tasks", "boots", "beyond_boots")

Observations = dict[str, float | None]


def observe(
    simulated: Trace, real: Trace, measured: Mapping[str, float | None], keys: Collection[str]
) -> Observations:
    """Observe a simulation of an execution.

    Args:
        simulated: The simulation.
        real: The execution.
        measured: What was measured in the execution; see `observe_execution`.
        keys: The injected keys.
    """
    _check_complete(simulated, real)
    values = _list_metrics(client_metrics(simulated))
    boots, instances = real.boots.height, values["instances"] or 0.0
    is_booted = "boot_times" in keys and boots > 0
    return {
        **values,
        **measured,
        SCHEDERROR: scheduling_error(simulated, real) if _has_placements(real) else None,
        "tasks": float(real.tasks.height),
        "boots": float(boots),
        "beyond_boots": max(0.0, instances - boots) if is_booted else None,
    }


def summarise(observations: Sequence[Observations]) -> Observations:
    """Summarise simulations of one execution with other random numbers.

    A value is their median; those that can be measured also have the interval that contains a
    further result in 90 % of the cases, null with too few simulations for it.

    >>> found = summarise([{"makespan_s": float(value)} for value in range(100, 119)])
    >>> found["makespan_s"], found["makespan_s_low"], found["makespan_s_high"]
    (109.0, 100.0, 118.0)
    """
    summary: Observations = {}
    for name in observations[0]:
        values = [value for each in observations if (value := each[name]) is not None]
        is_known = len(values) == len(observations)
        summary[name] = float(np.median(values)) if is_known else None
        if is_known and name in SIMULATED:
            interval = compute_prediction_interval(values) or (None, None)
            summary |= dict(zip((f"{name}{end}" for end in INTERVAL), interval, strict=True))
    return summary


def observe_execution(real: Trace) -> Observations:
    """Observe an execution that recorded where its tasks ran; empty if it did not.

    >>> observe_execution(Trace())
    {}
    """
    if not _has_placements(real):
        return {}
    metrics = _list_metrics(client_metrics(real))
    return {f"{MEASURED_PREFIX}{name}": value for name, value in metrics.items()}


def _check_complete(simulated: Trace, real: Trace) -> None:
    """Raise an error if a task of the execution did not run in the simulation."""
    ran = real.placements["task"] if _has_placements(real) else real.tasks["id"]
    missing = ran.filter(~ran.is_in(simulated.placements["task"].implode())).unique()
    if missing.len():
        raise InputError(
            f"{missing.len():,} of {ran.n_unique():,} tasks did not run in the simulation, such as "
            f"'{missing.sort()[0]}'",
            kind="not-runnable",
            remedy="twinloop check EXECUTION lists what is wrong with its tasks",
        )


def _has_placements(real: Trace) -> bool:
    return real.instances.height > 0 and real.placements["machine"].count() > 0


def _list_metrics(metrics: ClientMetrics) -> Observations:
    values = (
        *(metrics.instances, metrics.units, metrics.bill),
        *(metrics.uptime, metrics.runtime, metrics.usage, metrics.makespan),
    )
    return {
        name: None if value is None else float(value)
        for name, value in zip(SIMULATED, values, strict=True)
    }
