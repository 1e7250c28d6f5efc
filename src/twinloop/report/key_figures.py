"""The figures of a run that stand first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twinloop.metrics.trace_figures import Figures
from twinloop.report import words
from twinloop.report.lateness import LEAST

_STATUSES: Final = ("completed", "failed", "killed", "cancelled", "lost", "rejected", "unknown")


def key_figures(figures: Figures) -> Iterator[tuple[str, str]]:
    """Name and value, as people say them, of the figures that are known.

    >>> import polars as pl
    >>> from twinloop.metrics.trace_figures import figures
    >>> from twinloop.trace import Trace
    >>> trace = Trace(
    ...     tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "status": ["completed"]}),
    ...     placements=pl.DataFrame({"task": ["a"], "cores": [2.0], "start": 60.0, "end": 180.0}),
    ... )
    >>> dict(key_figures(figures(trace, cores=4)))["utilisation"]
    '33.3 %'
    """
    yield "tasks", f"{figures.tasks:,}"
    for status in _STATUSES:
        if count := figures.statuses.get(status):
            yield status if status != "unknown" else "status unknown", f"{count:,}"
    if figures.makespan is not None:
        yield "makespan", words.duration(figures.makespan)
    if figures.utilisation is not None:
        yield "utilisation", f"{100 * figures.utilisation:.3g} %"
    if wait := figures.wait:
        yield "wait, mean", words.duration(wait.mean)
        yield "wait, median", words.duration(wait.p50)
        yield "wait, 95 %", words.duration(wait.p95)
        yield "wait, longest", words.duration(wait.max)
    if figures.turnaround:
        yield "turnaround, mean", words.duration(figures.turnaround.mean)
    if figures.bounded_slowdown:
        yield "bounded slowdown, mean", words.number(figures.bounded_slowdown.mean)
    if figures.energy is not None:
        yield "energy", f"{words.number(figures.energy / 3.6e6)} kWh"
    if figures.carbon is not None:
        yield "carbon", f"{words.number(figures.carbon / 1000)} kg"
    if figures.cost and figures.cost.total is not None:
        yield "cost", f"{words.number(figures.cost.total)} {figures.cost.currency}"
    if figures.lateness and abs(figures.lateness.mean or 0.0) >= LEAST:
        yield "lateness, mean", words.duration(figures.lateness.mean)
    if figures.deadlines:
        yield "deadlines missed", f"{figures.deadline_misses:,} of {figures.deadlines:,}"
