"""All figures of a trace."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from twinloop.description.errors import InputError
from twinloop.metrics.catalogue import DISTRIBUTIONS, FIGURES, MEASURES, add_unit
from twinloop.metrics.distribution import Distribution
from twinloop.metrics.electricity import Emission, compute_emission
from twinloop.metrics.energy_and_carbon import (
    carbon,
    find_power_intervals,
    integrate_power,
    note_extrapolated_intensity,
)
from twinloop.metrics.figures_text import figures_to_html, figures_to_text
from twinloop.metrics.lateness import Lateness
from twinloop.metrics.measurement_window import MeasurementWindow, to_float
from twinloop.metrics.rentals import Rentals, compute_rentals
from twinloop.metrics.run_cost import Cost, compute_cost
from twinloop.metrics.series import count_ends_between
from twinloop.metrics.tasks import SLOWDOWN_BOUND, per_task
from twinloop.metrics.weighted_intervals import (
    WeightedIntervals,
    find_core_intervals,
    find_machine_intervals,
)
from twinloop.scenario import Prices
from twinloop.trace.capacity import compute_capacity
from twinloop.trace.tables import STATUSES
from twinloop.trace.trace import Trace, format_count, require_trace

#: Note for a utilisation above 1.
OVERCOMMITTED: Final = (
    "utilisation is above 1: cores are overcommitted, more cores are allocated than there are"
)
#: Maximum number of tasks listed in a note.
_MAX_LISTED: Final = 3
#: Rounding error by which a utilisation may be above 1.
_ROUNDING_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True, repr=False)
class Figures:
    """The figures of a trace, described in `FIGURES`; None if unknown.

    Times in s, energy in J, carbon in g. `window` is the measurement window of utilisation,
    throughput, busy cores and busy nodes, in s since t = 0. `notes` describe incomplete data.

    >>> figures(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})))
    tasks                              1
    unknown                            1
    """

    tasks: int
    #: Number of tasks by status, including `unknown`.
    statuses: Mapping[str, int]
    ran: int
    left_out: int
    makespan: float | None
    wait: Distribution | None
    turnaround: Distribution | None
    slowdown: Distribution | None
    bounded_slowdown: Distribution | None
    window: tuple[float, float] | None
    core_seconds: float | None
    cores: float | None
    utilisation: float | None
    #: Tasks per second.
    throughput: float | None
    busy_cores: float | None
    busy_nodes: float | None
    energy: float | None
    energy_per_task: float | None
    carbon: float | None
    cost: Cost | None
    deadlines: int
    deadline_misses: int
    lateness: Lateness | None
    rentals: Rentals | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, float | int | None]:
        """Return all figures by the names of `FIGURES`."""
        lateness, cost = self.lateness, self.cost
        values: dict[str, float | int | None] = {
            **dict.fromkeys(FIGURES),
            **self.statuses,
            "tasks": self.tasks,
            "failed": self.statuses["failed"] + self.statuses["lost"],
            "ran": self.ran,
            "left_out": self.left_out,
            "makespan_s": self.makespan,
            "core_s": self.core_seconds,
            "cores": self.cores,
            "utilisation": self.utilisation,
            "throughput_per_s": self.throughput,
            "busy_cores_mean": self.busy_cores,
            "busy_nodes_mean": self.busy_nodes,
            "energy_j": self.energy,
            "energy_per_task_j": self.energy_per_task,
            "carbon_g": self.carbon,
            "deadlines": self.deadlines,
            "deadline_misses": self.deadline_misses,
        }
        if cost:
            values |= {"cost": cost.total, "cost_cores": cost.cores, "cost_energy": cost.energy}
        if self.rentals:
            values |= {
                "instances": self.rentals.instances,
                "instances_refused": self.rentals.refused,
                "instances_lost": self.rentals.lost,
                "instances_interrupted": self.rentals.interrupted,
                "instance_wait_mean_s": self.rentals.wait,
                "instance_core_s": self.rentals.core_seconds,
                "bill": self.rentals.bill,
                "transfer_price": self.rentals.transfer_price,
                "migrations": self.rentals.migrations,
                "downtime_s": self.rentals.downtime,
            }
        if lateness:
            values["lateness_mean_s"] = lateness.mean
            values["lateness_relative"] = lateness.relative
            values["lateness_additional_s"] = lateness.additional
        for quantity, (unit, _) in DISTRIBUTIONS.items():
            if (distribution := getattr(self, quantity)) is not None:
                for measure in MEASURES:
                    values[add_unit(f"{quantity}_{measure}", unit)] = getattr(distribution, measure)
        return values

    def __repr__(self) -> str:
        return figures_to_text(self.to_dict(), self.notes)

    def _repr_html_(self) -> str:
        return figures_to_html(self.to_dict(), self.notes)


def figures(
    trace: Trace,
    *,
    warm_up: float = 0.0,
    until: float | None = None,
    bound: float = SLOWDOWN_BOUND,
    cores: float | None = None,
    intensity: float | pl.DataFrame | None = None,
    prices: Prices | None = None,
) -> Figures:
    """Compute the figures of a trace of a real or a simulated run.

    Figures of tasks cover the tasks submitted from `warm_up` on and before `until`; figures of the
    platform (utilisation, throughput, busy cores and nodes, energy, carbon, cost) cover that window
    of time. Rejected tasks are counted and excluded from means.

    Args:
        trace: The trace.
        warm_up: Start of the window, in s after the first submission.
        until: End of the window, in s after the first submission; None for the end of the run.
        bound: Lower bound of the run time in the bounded slowdown (s).
        cores: Cores of the platform; by default from the trace.
        intensity: Carbon intensity, as in `carbon`; by default that of the platform in the scenario
            of the manifest. If that is not readable and the window is not limited, the figure
            stored by the simulation is used.
        prices: Prices of cores and energy.

    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a", "b"], "submit": [0.0, 5.0],
    ...         "status": ["completed", "completed"]}),
    ...     placements=pl.DataFrame({"task": ["a", "b"], "cores": [2.0, 1.0], "start": [0.0, 10.0],
    ...         "end": [10.0, 20.0]}),
    ... )
    >>> found = figures(trace, cores=2)
    >>> found.makespan, found.wait.mean, found.utilisation
    (20.0, 2.5, 0.75)
    >>> figures(trace, warm_up=1).left_out
    1
    """
    trace = require_trace(trace)
    all_tasks = per_task(trace, bound=bound)
    if trace.manifest.kind == "simulated":
        # As in the KPIs of a simulation so far, a task counts from its end on.
        all_tasks = all_tasks.with_columns(ran=pl.col("ran") & pl.col("end").is_not_null())
    window = MeasurementWindow.from_tasks(all_tasks, warm_up, until)
    tasks = window.filter_tasks(all_tasks)
    ran = tasks.filter("ran")
    first, last = to_float(ran["submit"].min()), to_float(ran["end"].max())
    capacity = _find_capacity(trace) if cores is None else cores
    if capacity is not None and not (math.isfinite(capacity) and capacity > 0):
        raise InputError(
            f"must be a positive number of cores, not {capacity}",
            kind="out-of-range",
            field="cores",
        )

    span = window.span(all_tasks)
    length = span[1] - span[0] if span else 0.0
    allocated, unknown_sizes = find_core_intervals(trace)
    core_seconds = allocated.area(*span) if allocated and span else None
    mean_busy_cores = core_seconds / length if core_seconds is not None and length > 0 else None
    machines = find_machine_intervals(trace) if length > 0 else None

    utilisation = mean_busy_cores / capacity if mean_busy_cores is not None and capacity else None
    power, unknown_powers = find_power_intervals(trace)
    joules = None if power is None else integrate_power(power, window.begin, window.end)
    completed_ends = all_tasks.filter(pl.col("status") == "completed")["end"]
    completed_count = count_ends_between(completed_ends, window.begin, window.end)
    emission = _select_emission(trace, intensity, window)

    with_deadline = tasks.drop_nulls("deadline")
    is_late = (pl.col("end") > pl.col("deadline")).fill_null(False)
    is_unfinished = (pl.col("status") != "completed").fill_null(False)
    incomplete_counts = {
        "task of unknown submission: no wait, and out of any window": all_tasks[
            "submit"
        ].null_count(),
        **_count_incomplete(ran),
        "execution of unknown size: not in the core-seconds": unknown_sizes,
        "window of unknown power: not in the energy": unknown_powers,
    }
    return Figures(
        tasks=tasks.height,
        statuses=_count_statuses(tasks),
        ran=ran.height,
        left_out=all_tasks.height - tasks.height,
        makespan=None if first is None or last is None else last - first,
        wait=Distribution.of(ran["wait"]),
        turnaround=Distribution.of(ran["turnaround"]),
        slowdown=Distribution.of(ran["slowdown"]),
        bounded_slowdown=Distribution.of(ran["bounded_slowdown"]),
        window=span,
        core_seconds=core_seconds,
        cores=capacity,
        utilisation=utilisation,
        throughput=count_ends_between(all_tasks["end"], window.begin, window.end) / length
        if length > 0
        else None,
        busy_cores=mean_busy_cores,
        busy_nodes=machines.area(*span) / length if machines and span else None,
        energy=joules,
        energy_per_task=joules / completed_count
        if joules is not None and completed_count
        else None,
        carbon=emission.grams,
        cost=None if prices is None else _compute_cost(prices, allocated, joules, window),
        deadlines=with_deadline.height,
        deadline_misses=with_deadline.filter(is_late | is_unfinished).height,
        lateness=Lateness.of(ran),
        rentals=compute_rentals(trace, window),
        notes=(
            *_format_counts(incomplete_counts),
            *_note_starved(tasks),
            *_note_overcommitted(utilisation),
            *emission.notes,
        ),
    )


def _compute_cost(
    prices: Prices,
    allocated: WeightedIntervals | None,
    joules: float | None,
    window: MeasurementWindow,
) -> Cost | None:
    core_seconds = allocated.area(window.begin, window.end) if allocated else None
    return compute_cost(prices, core_seconds, joules)


def _select_emission(
    trace: Trace, intensity: float | pl.DataFrame | None, window: MeasurementWindow
) -> Emission:
    if intensity is not None:
        grams = carbon(trace, intensity, window.begin, window.end)
        return Emission(grams, note_extrapolated_intensity(trace, intensity, window.end))
    emission = compute_emission(trace, window.begin, window.end)
    stored = (
        _read_stored_figure(trace, "carbon_g")
        if window.is_unbounded and not emission.is_known
        else None
    )
    return emission if stored is None else Emission(stored, ())


def _count_statuses(tasks: pl.DataFrame) -> dict[str, int]:
    counts = dict(tasks["status"].value_counts().rows())
    by_status = {status: int(counts.get(status, 0)) for status in STATUSES}
    return by_status | {"unknown": tasks.height - sum(by_status.values())}


def _find_capacity(trace: Trace) -> float | None:
    return compute_capacity(trace) or _read_stored_figure(trace, "cores") or None


def _read_stored_figure(trace: Trace, name: str) -> float | None:
    """Return a figure stored in the manifest of a simulated run."""
    run = trace.manifest.facts.get("run")
    return to_float(run.get(name)) if isinstance(run, Mapping) else None


def _count_incomplete(ran: pl.DataFrame) -> dict[str, int]:
    unready = pl.col("has_parents") & pl.col("ready").is_null()
    may_complete = (pl.col("status") == "completed").fill_null(True)
    open_deadline = pl.col("deadline").is_not_null() & pl.col("end").is_null() & may_complete
    return {
        "task that started before its submission: a negative wait": int((ran["wait"] < 0).sum()),
        "task with parents and no ready time: waits from its submission": ran.filter(
            unready
        ).height,
        "task that ran and has no known end: no turnaround": ran["end"].null_count(),
        "task with a deadline and no known end: not a miss": ran.filter(open_deadline).height,
    }


def _note_starved(tasks: pl.DataFrame) -> Iterator[str]:
    """Return a note on the tasks that were ready and never started."""
    never = ~pl.col("ran") & pl.col("ready").is_not_null() & (pl.col("status") == "failed")
    unplaced = tasks.filter(never.fill_null(False))["id"]
    if unplaced.len():
        names = ", ".join(map(str, unplaced[:_MAX_LISTED]))
        more = f" and {unplaced.len() - _MAX_LISTED:,} more" if unplaced.len() > _MAX_LISTED else ""
        what = format_count(unplaced.len(), "task")
        yield f"{what} failed without being started: the policy never placed {names}{more}"


def _note_overcommitted(utilisation: float | None) -> Iterator[str]:
    """Return a note if the utilisation is above 1."""
    if utilisation is not None and utilisation > 1.0 + _ROUNDING_TOLERANCE:
        yield OVERCOMMITTED


def _format_counts(counts: Mapping[str, int]) -> Iterator[str]:
    for what, count in counts.items():
        if count:
            thing, rest = what.split(" ", 1)
            yield f"{format_count(count, thing)} {rest}"
