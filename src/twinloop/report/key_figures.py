"""Key figures of a run, formatted for pages and the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twinloop.metrics.trace_figures import Figures
from twinloop.report.figures.lateness import MIN_SHOWN_LATENESS
from twinloop.report.quantity_text import format_duration, format_number, format_price

_STATUSES: Final = ("completed", "failed", "killed", "cancelled", "lost", "rejected", "unknown")


def list_key_figures(figures: Figures) -> Iterator[tuple[str, str]]:
    """List the name and the formatted value of each key figure that is known.

    Counts of zero and a lateness that users do not notice are left out.

    >>> import polars as pl
    >>> from twinloop.metrics.trace_figures import figures
    >>> from twinloop.trace import Trace
    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
    ...     placements=pl.DataFrame({"task": ["a"], "cores": [2.0], "start": 60.0, "end": 180.0}),
    ... )
    >>> dict(list_key_figures(figures(trace, cores=4)))["utilisation"]
    '33.3 %'
    """
    yield "tasks", f"{figures.tasks:,}"
    for status in _STATUSES:
        if count := figures.statuses.get(status):
            yield status if status != "unknown" else "status unknown", f"{count:,}"
    if figures.makespan is not None:
        yield "makespan", format_duration(figures.makespan)
    if figures.utilisation is not None:
        yield "utilisation", f"{100 * figures.utilisation:.3g} %"
    if wait := figures.wait:
        yield "wait, mean", format_duration(wait.mean)
        yield "wait, median", format_duration(wait.p50)
        yield "wait, 95th percentile", format_duration(wait.p95)
        yield "wait, longest", format_duration(wait.max)
    if figures.turnaround:
        yield "turnaround, mean", format_duration(figures.turnaround.mean)
    if figures.bounded_slowdown:
        yield "bounded slowdown, mean", format_number(figures.bounded_slowdown.mean)
    if figures.energy is not None:
        yield "energy", f"{format_number(figures.energy / 3.6e6)} kWh"
    if figures.carbon is not None:
        yield "carbon", f"{format_number(figures.carbon / 1000)} kg"
    if figures.cost and figures.cost.total is not None:
        yield "cost", f"{format_price(figures.cost.total)} {figures.cost.currency}"
    if figures.lateness and abs(figures.lateness.mean or 0.0) >= MIN_SHOWN_LATENESS:
        yield "lateness, mean", format_duration(figures.lateness.mean)
    if rentals := figures.rentals:
        yield "instances", f"{rentals.instances:,}"
        if rentals.refused:
            yield "instances refused", f"{rentals.refused:,}"
        if rentals.lost:
            yield "instances lost", f"{rentals.lost:,}"
        if rentals.interrupted:
            yield "instances interrupted", f"{rentals.interrupted:,}"
        if rentals.wait is not None:
            yield "instance wait, mean", format_duration(rentals.wait)
        yield "rented core-hours", format_number(rentals.core_seconds / 3600)
        if rentals.migrations:
            yield "migrations", f"{rentals.migrations:,}"
            yield "downtime by migrations", format_duration(rentals.downtime)
        if rentals.bill is not None:
            yield "bill", format_price(rentals.bill)
        if rentals.transfer_price:
            yield "of the bill, transfers", format_price(rentals.transfer_price)
    if figures.deadlines:
        yield "deadlines missed", f"{figures.deadline_misses:,} of {figures.deadlines:,}"
