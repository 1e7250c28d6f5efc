"""Figures of the instances that were rented from clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from twinloop.metrics.instance_use import find_run_end
from twinloop.metrics.measurement_window import to_float

if TYPE_CHECKING:
    from twinloop.metrics.measurement_window import MeasurementWindow
    from twinloop.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Rentals:
    """The instances that were rented from clouds; times in s, None if unknown.

    >>> Rentals(2, 1, 0, 31.5, 120.0, None, 0, 0.0).refused
    1
    """

    instances: int
    refused: int
    lost: int
    #: Mean time from the request of an instance to the end of its boot.
    wait: float | None
    #: Core-seconds of instances on hosts.
    core_seconds: float
    #: Price of all instances; None if no cloud bills them.
    bill: float | None
    #: Completed migrations to another host, and the time that instances were stopped by them.
    migrations: int
    downtime: float


def list_clouds(trace: Trace) -> list[Mapping[str, Any]]:
    """Return the descriptions of the clouds in the scenario of a run; without one, none."""
    platform = (trace.manifest.scenario or {}).get("platform")
    clouds = platform.get("clouds") if isinstance(platform, Mapping) else None
    return [cloud for cloud in clouds or () if isinstance(cloud, Mapping)]


def compute_rentals(trace: Trace, window: MeasurementWindow) -> Rentals | None:
    """Compute the figures of the instances requested in the window; None without clouds."""
    rented = trace.instances.drop_nulls("cloud")
    clouds = list_clouds(trace)
    if rented.is_empty() and not clouds:
        return None
    if not window.is_unbounded:
        asked = rented.filter(pl.col("requested").is_between(window.begin, window.end, "left"))
        rented = rented.filter(pl.col("instance").is_in(asked["instance"].implode()))
    length = (pl.col("end").fill_null(find_run_end(trace)) - pl.col("start")).fill_null(0.0)
    prices = rented["price"].drop_nulls()
    # A cloud that bills may have had no instance.
    is_billed = any(cloud.get("billing") is not None for cloud in clouds)
    stops = trace.instance_states.filter(
        (pl.col("state") == "stopped") & pl.col("instance").is_in(rented["instance"].implode())
    )
    return Rentals(
        instances=rented["requested"].count(),
        refused=int((rented["reason"] == "refused").sum()),
        lost=int((rented["reason"] == "lost").sum()),
        wait=to_float((rented["ready"] - rented["requested"]).mean()),
        core_seconds=float(rented.select((length * pl.col("cores")).sum()).item()),
        bill=float(prices.sum()) if prices.len() or is_billed else None,
        migrations=int((rented["reason"] == "moved").sum()),
        downtime=float((stops["end"].fill_null(stops["start"]) - stops["start"]).sum()),
    )
