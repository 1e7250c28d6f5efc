"""The figures of a trace, in one value."""

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
from twinloop.metrics.run_cost import Cost, compute_cost
from twinloop.metrics.series import count_ends_between
from twinloop.metrics.tasks import SLOWDOWN_BOUND, per_task
from twinloop.metrics.weighted_intervals import find_core_intervals, find_machine_intervals
from twinloop.scenario import Prices
from twinloop.trace.summary import compute_capacity
from twinloop.trace.tables import STATUSES
from twinloop.trace.trace import Trace, format_count, require_trace

#: What has to be said where the utilisation is above 1.
OVERCOMMITTED: Final = (
    "utilisation is above 1: cores are overcommitted, tasks held more of them than there are"
)
#: So many tasks are named in a note.
_NAMED: Final = 3
#: A utilisation that is above 1 by no more than this is 1.
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True, repr=False)
class Figures:
    """The figures of a trace; None where the trace does not say. `FIGURES` explains each.

    Times in s, energy in J, carbon in g. `window` is the span of time that utilisation, throughput
    and the busy cores and nodes are of, in s since t = 0. `notes` say what could not be counted.

    >>> figures(Trace(tasks=pl.DataFrame({"id": ["a"], "submit": [0.0]})))
    tasks                              1
    unknown                            1
    """

    tasks: int
    #: How many tasks ended in which way, `unknown` included.
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
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, float | int | None]:
        """All figures by the names of `FIGURES`, which end with their units."""
        late, price = self.lateness, self.cost
        found: dict[str, float | int | None] = {
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
        if price:
            found |= {"cost": price.total, "cost_cores": price.cores, "cost_energy": price.energy}
        if late:
            found["lateness_mean_s"] = late.mean
            found["lateness_relative"] = late.relative
            found["lateness_additional_s"] = late.additional
        for quantity, (unit, _) in DISTRIBUTIONS.items():
            if (spread := getattr(self, quantity)) is not None:
                for measure in MEASURES:
                    found[add_unit(f"{quantity}_{measure}", unit)] = getattr(spread, measure)
        return found

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
    """The figures of any trace, of a real run or a simulated one.

    Figures of tasks are over the tasks submitted from `warm_up` on and before `until`; figures of
    time (utilisation, throughput, busy cores and nodes, energy, carbon, cost) are over that window
    itself, whichever tasks ran in it. Rejected tasks are counted and are in no mean.

    Args:
        trace: The trace.
        warm_up: Where counting begins, in s after the first submission.
        until: Where counting ends, in s after the first submission; None: with the last task.
        bound: The threshold of the bounded slowdown in s.
        cores: Cores of the platform, where the trace does not say, or to count others.
        intensity: Carbon intensity, as `carbon` takes it. Without it, that of the platform in the
            scenario which the manifest keeps; where that cannot be had any more, and without a
            window, the carbon is what a simulated run says of itself.
        prices: What cores and energy cost.

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
    every = per_task(trace, bound=bound)
    window = MeasurementWindow.from_tasks(every, warm_up, until)
    tasks = window.filter_tasks(every)
    ran = tasks.filter("ran")
    first, last = to_float(ran["submit"].min()), to_float(ran["end"].max())
    capacity = _capacity(trace) if cores is None else cores
    if capacity is not None and not (math.isfinite(capacity) and capacity > 0):
        raise InputError(f"{capacity} is no number of cores", field="cores")

    span = window.span(every)
    length = span[1] - span[0] if span else 0.0
    held, sizeless = find_core_intervals(trace)
    core_seconds = held.area(*span) if held and span else None
    busy = core_seconds / length if core_seconds is not None and length > 0 else None
    machines = find_machine_intervals(trace) if length > 0 else None
    paid = held.area(window.begin, window.end) if held else None

    share = busy / capacity if busy is not None and capacity else None
    power, powerless = find_power_intervals(trace)
    used = None if power is None else integrate_power(power, window.begin, window.end)
    completed = every.filter(pl.col("status") == "completed")["end"]
    finished = count_ends_between(completed, window.begin, window.end)
    emission = _emission(trace, intensity, window)

    due = tasks.drop_nulls("deadline")
    late = (pl.col("end") > pl.col("deadline")).fill_null(False)
    unfinished = (pl.col("status") != "completed").fill_null(False)
    doubts = {
        "task of unknown submission: no wait, and out of any window": every["submit"].null_count(),
        **_doubts(ran),
        "execution of unknown size: not in the core-seconds": sizeless,
        "window of unknown power: not in the energy": powerless,
    }
    return Figures(
        tasks=tasks.height,
        statuses=_statuses(tasks),
        ran=ran.height,
        left_out=every.height - tasks.height,
        makespan=None if first is None or last is None else last - first,
        wait=Distribution.of(ran["wait"]),
        turnaround=Distribution.of(ran["turnaround"]),
        slowdown=Distribution.of(ran["slowdown"]),
        bounded_slowdown=Distribution.of(ran["bounded_slowdown"]),
        window=span,
        core_seconds=core_seconds,
        cores=capacity,
        utilisation=share,
        throughput=count_ends_between(every["end"], window.begin, window.end) / length
        if length > 0
        else None,
        busy_cores=busy,
        busy_nodes=machines.area(*span) / length if machines and span else None,
        energy=used,
        energy_per_task=used / finished if used is not None and finished else None,
        carbon=emission.grams,
        cost=None if prices is None else compute_cost(prices, paid, used),
        deadlines=due.height,
        deadline_misses=due.filter(late | unfinished).height,
        lateness=Lateness.of(ran),
        notes=(*_said_of(doubts), *_starved(tasks), *_crowded(share), *emission.notes),
    )


def _emission(
    trace: Trace, intensity: float | pl.DataFrame | None, window: MeasurementWindow
) -> Emission:
    if intensity is not None:
        grams = carbon(trace, intensity, window.begin, window.end)
        return Emission(grams, note_extrapolated_intensity(trace, intensity, window.end))
    found = compute_emission(trace, window.begin, window.end)
    said = _said(trace, "carbon_g") if window.is_unbounded and not found.is_known else None
    return found if said is None else Emission(said, ())


def _statuses(tasks: pl.DataFrame) -> dict[str, int]:
    found = dict(tasks["status"].value_counts().rows())
    known = {status: int(found.get(status, 0)) for status in STATUSES}
    return known | {"unknown": tasks.height - sum(known.values())}


def _capacity(trace: Trace) -> float | None:
    return compute_capacity(trace) or _said(trace, "cores") or None


def _said(trace: Trace, name: str) -> float | None:
    """What a simulated run says of itself."""
    run = trace.manifest.facts.get("run")
    return to_float(run.get(name)) if isinstance(run, Mapping) else None


def _doubts(ran: pl.DataFrame) -> dict[str, int]:
    unready = pl.col("has_parents") & pl.col("ready").is_null()
    due = pl.col("deadline").is_not_null() & pl.col("end").is_null()
    return {
        "task that started before its submission: a negative wait": int((ran["wait"] < 0).sum()),
        "task with parents and no ready time: waits from its submission": ran.filter(
            unready
        ).height,
        "task that ran and has no known end: no turnaround": ran["end"].null_count(),
        "task with a deadline and no known end: not a miss": ran.filter(due).height,
    }


def _starved(tasks: pl.DataFrame) -> Iterator[str]:
    """A note that names the tasks which were ready to run, and were never given a machine."""
    never = ~pl.col("ran") & pl.col("ready").is_not_null() & (pl.col("status") == "failed")
    left = tasks.filter(never.fill_null(False))["id"]
    if left.len():
        names = ", ".join(map(str, left[:_NAMED]))
        more = f" and {left.len() - _NAMED:,} more" if left.len() > _NAMED else ""
        what = format_count(left.len(), "task")
        yield f"{what} failed without being started: the policy never placed {names}{more}"


def _crowded(utilisation: float | None) -> Iterator[str]:
    """A note where tasks held more cores than there are."""
    if utilisation is not None and utilisation > 1.0 + _ROUNDING:
        yield OVERCOMMITTED


def _said_of(doubts: Mapping[str, int]) -> Iterator[str]:
    for what, times in doubts.items():
        if times:
            thing, rest = what.split(" ", 1)
            yield f"{format_count(times, thing)} {rest}"
