"""Figures of the instances that were rented from clouds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from twinloop.metrics.instance_use import find_run_end
from twinloop.metrics.measurement_window import to_float
from twinloop.platform.billing import BYTES_PER_GB, Billing
from twinloop.trace.tables import TASK_READS, TASK_WRITES

if TYPE_CHECKING:
    from twinloop.metrics.measurement_window import MeasurementWindow
    from twinloop.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Rentals:
    """The instances that were rented from clouds; times in s, None if unknown.

    >>> Rentals(2, 1, 0, 0, 31.5, 120.0, None, None, 0, 0.0).refused
    1
    """

    instances: int
    refused: int
    lost: int
    #: Instances that the provider took back at a higher spot price.
    interrupted: int
    #: Mean time from the request of an instance to the end of its boot.
    wait: float | None
    #: Core-seconds of instances on hosts.
    core_seconds: float
    #: Price of all instances, their reservations and transfers; None if no cloud bills.
    bill: float | None
    #: Price of the transfers of their tasks; None if no cloud bills transfers.
    transfer_price: float | None
    #: Completed migrations to another host, and the time that instances were stopped by them.
    migrations: int
    downtime: float


def list_clouds(trace: Trace) -> list[Mapping[str, Any]]:
    """Return the descriptions of the clouds in the scenario of a run; without one, none."""
    platform = (trace.manifest.scenario or {}).get("platform")
    clouds = platform.get("clouds") if isinstance(platform, Mapping) else None
    return [cloud for cloud in clouds or () if isinstance(cloud, Mapping)]


def sum_prices(prices: Iterable[float]) -> float:
    """Sum prices exactly, and round to 15 significant digits: decimals then have no noise.

    >>> sum([0.1] * 3), sum_prices([0.1] * 3)
    (0.30000000000000004, 0.3)
    """
    return float(f"{math.fsum(prices):.15g}")


def _compute_transfer_price(
    trace: Trace, window: MeasurementWindow, billings: Sequence[tuple[str | None, Billing]]
) -> float | None:
    """Compute the price of the files of tasks between instances and shared stores."""
    prices = {name: billing.transfer for name, billing in billings if billing.transfer}
    if not prices:
        return None
    is_read = pl.col("kind").is_in(TASK_READS)
    moved = trace.transfers.filter(is_read | pl.col("kind").is_in(TASK_WRITES)).select(
        pl.when(is_read).then("to").otherwise("from").alias("instance"),
        pl.when(is_read).then("from").otherwise("to").alias("store"),
        is_read.alias("is_read"),
        "bytes",
        "start",
        "end",
    )
    if not window.is_unbounded:
        moved = moved.filter(pl.col("end").is_between(window.begin, window.end, "left"))
    # An instance can leave a cloud for another one.
    periods = trace.instances.select("instance", "cloud", pl.col("start").alias("since"))
    billed = (
        moved.join(trace.nodes, left_on="store", right_on="node", how="anti")
        .sort("start")
        .join_asof(
            periods.drop_nulls().sort("since"),
            left_on="start",
            right_on="since",
            by="instance",
            # Both are sorted above; polars cannot check it in groups, and warns.
            check_sortedness=False,
        )
        .filter(pl.col("cloud").is_in(list(prices)))
    )
    return sum_prices(
        (prices[cloud].out if is_read else prices[cloud].incoming) * volume / BYTES_PER_GB
        for cloud, is_read, volume in billed.select("cloud", "is_read", "bytes").iter_rows()
    )


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
    prices = rented["price"].drop_nulls().to_list()
    # A cloud that bills may have had no instance.
    billings = [
        (cloud.get("name"), Billing.from_dict(cloud["billing"]))
        for cloud in clouds
        if cloud.get("billing") is not None
    ]
    transfer_price = _compute_transfer_price(trace, window, billings)
    # Reservations are paid at the start.
    if window.begin <= 0:
        prices += [
            billing.reserved.instances * billing.reserved.upfront
            for _, billing in billings
            if billing.reserved
        ]
    stops = trace.instance_states.filter(
        (pl.col("state") == "stopped") & pl.col("instance").is_in(rented["instance"].implode())
    )
    return Rentals(
        instances=rented["requested"].count(),
        refused=int((rented["reason"] == "refused").sum()),
        lost=int((rented["reason"] == "lost").sum()),
        interrupted=int((rented["reason"] == "interrupted").sum()),
        wait=to_float((rented["ready"] - rented["requested"]).mean()),
        core_seconds=float(rented.select((length * pl.col("cores")).sum()).item()),
        bill=sum_prices([*prices, transfer_price or 0.0]) if prices or billings else None,
        transfer_price=transfer_price,
        migrations=int((rented["reason"] == "moved").sum()),
        downtime=float((stops["end"].fill_null(stops["start"]) - stops["start"]).sum()),
    )
