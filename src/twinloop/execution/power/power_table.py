"""Reconstruction of the power table from readings.

The readings of a counter that is updated every few seconds and read every second seem to show no
power, and then a peak. They determine only the mean power between two *updates* of the counter,
which is used for all the time between them. Each window of the table is a second of the run
(shorter at the ends of known intervals) with the mean power in it, so that the energy of the table
is that of the counters. The power of a node is the sum over its counters, and the total is the sum
over the nodes.
Source of the method: Xie, "From Reality to Simulation: A Trace-Driven Closed-Loop Evaluation
Methodology for Cloud Datacenters" (master thesis, UvA and VU Amsterdam), section 4.4.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.execution.power.energy_series import EnergySeries, sum_known_time
from twinloop.execution.power.readings import Readings
from twinloop.trace.formats.cleaning_counts import Tally
from twinloop.trace.tables import TABLES


def reconstruct(readings: Readings) -> pl.DataFrame:
    """Reconstruct the power table of readings: per node, and in total (a null node).

    The total is that of meters of the whole machine if there are any, else the sum over the nodes
    for the time in which all of them are known. Times with an unknown summand are left out.

    >>> joules = [0.0, 0.0, 0.0, 30.0, 30.0, 30.0, 90.0]
    >>> passes = [(float(t), [["n1", "package-0", e, None]]) for t, e in enumerate(joules)]
    >>> table = reconstruct(Readings.from_passes(passes))
    >>> table.filter(pl.col("node") == "n1").select("t", "dt", "watts").rows()
    [(4.0, 1.0, 20.0), (5.0, 1.0, 20.0), (6.0, 1.0, 20.0)]
    """
    return reconstruct_with_notes(readings)[0]


def reconstruct_with_notes(
    readings: Readings, start: float = -math.inf, end: float = math.inf
) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    """Reconstruct the power table between two times; returns it with notes on gaps.

    >>> reconstruct_with_notes(Readings.from_passes([(0.0, [[None, "package-0", 1.0, None]])]))[1]
    (Cleaning(kind='noticed', what='sources of power with fewer than two different readings',
    count=1, examples=('package-0',)),)
    """
    tally = Tally()
    nodes: dict[str | None, list[EnergySeries]] = {}
    for (node, source), series in readings.table.group_by("node", "source", maintain_order=True):
        energy = _compute_energy(series)
        if not energy.intervals:
            name = " ".join(str(part) for part in (node, source) if part is not None)
            what = "sources of power with fewer than two different readings"
            tally.note("noticed", what, examples=[name])
        nodes.setdefault(_get_node_name(node), []).append(energy.clip(start, end))
    sums = {}
    for node, parts in nodes.items():
        owner = "the machine" if node is None else f"node '{node}'"
        what = f"seconds in which a source of the power of {owner} is not known: left out"
        sums[node] = _sum_known(parts, what, tally)
    if sums and None not in sums:
        what = "seconds in which the power of some node is not known: they have no total"
        sums[None] = _sum_known(list(sums.values()), what, tally)
    frames = [_build_windows(node, energy) for node, energy in sums.items()]
    schema = {name: column.dtype for name, column in TABLES["power"].items()}
    table = pl.concat(frames) if frames else pl.DataFrame(schema=schema)
    if math.isfinite(end - start) and sums:
        missing = round(end - start - sums[None].length)
        tally.note("noticed", "seconds of the run whose power is not known", count=missing)
    return table, tally.cleanings()


def _compute_energy(series: pl.DataFrame) -> EnergySeries:
    series = series.sort("t", maintain_order=True)
    t, joules, watts = (
        series[name].fill_null(np.nan).to_numpy().astype(np.float64)
        for name in ("t", "joules", "watts")
    )
    return (
        EnergySeries.from_sensor(t, watts)
        if np.isnan(joules).all()
        else EnergySeries.from_counter(t, joules)
    )


def _sum_known(parts: Sequence[EnergySeries], what: str, tally: Tally) -> EnergySeries:
    """Sum series where all are known; note the number of seconds in which only some are known."""
    total = EnergySeries.sum_of(parts)
    missing = math.ceil(sum_known_time(parts) - total.length - 1e-6)
    tally.note("noticed", what, count=missing)
    return total


def _build_windows(node: str | None, energy: EnergySeries) -> pl.DataFrame:
    parts = [interval.windows() for interval in energy.intervals]
    t, dt, watts = (
        np.concatenate([part[index] for part in parts]) if parts else np.empty(0)
        for index in range(3)
    )
    names = pl.Series("node", [node], dtype=pl.String).new_from_index(0, t.size)
    return pl.DataFrame([names, pl.Series("t", t), pl.Series("dt", dt), pl.Series("watts", watts)])


def _get_node_name(node: object) -> str | None:
    return None if node is None else str(node)
