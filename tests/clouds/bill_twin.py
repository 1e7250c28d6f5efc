"""A slow twin of the bill: the rules of the documentation, one unit of time after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from twinloop.platform.clouds import Cloud
from twinloop.trace import Trace

#: Reasons for which an instance changes its host or its size, and goes on.
CHANGES = ("moved", "resized", "suspended", "shut-down")


@dataclass
class Rental:
    """A rental of an instance in one cloud: its times, and the columns of its prices."""

    row: dict[str, Any]
    requested: float
    placed: float | None = None
    ready: float | None = None
    end: float | None = None
    reason: str | None = None
    price: float | None = None
    tariff: str | None = None


def list_rentals(trace: Trace) -> list[Rental]:
    """List the rentals in the order of their requests."""
    rentals: list[Rental] = []
    begin: float | None = None
    for row in trace.instances.rows(named=True):
        if row["requested"] is not None:
            begin = row["requested"]
        if begin is not None:
            # One that was used in another cloud has been ready there.
            same = rentals and rentals[-1].row["instance"] == row["instance"]
            ready = rentals[-1].ready if same else row["ready"]
            rentals.append(Rental(row, begin, ready=ready, tariff=row["tariff"]))
            begin = None
        rental = rentals[-1]
        rental.placed = row["start"] if rental.placed is None else rental.placed
        if row["reason"] not in CHANGES:
            rental.end, rental.reason, rental.price = row["end"], row["reason"], row["price"]
            # The next row is the rental of the same instance in another cloud.
            begin = row["end"] if row["reason"] == "left" else None
    return rentals


def find_spot_price(series: Any, time: float) -> Fraction:
    """Find the price at a time by going through the whole series."""
    found = series[0][1]
    for start, price in series:
        if start <= time:
            found = price
    return Fraction(str(found))


def list_unit_prices(cloud: Cloud, rental: Rental, end: float) -> Iterator[Fraction]:
    """Yield the price of each unit of time that is billed."""
    billing = cloud.billing
    assert billing is not None
    if rental.placed is None or (rental.reason == "refused" and rental.ready is None):
        return
    begin = rental.requested if billing.counted_from == "request" else rental.placed
    length = (end - begin) / billing.unit
    units = max(1, math.ceil(length - 1e-9))
    if (
        rental.reason == "interrupted"
        and cloud.spot is not None
        and cloud.spot.interrupted_unit == "free"
    ):
        units = math.floor(length + 1e-9)
    (kind,) = (each for each in cloud.types if each.name == rental.row["type"])
    for unit in range(units):
        if rental.row["bid"] is not None:
            assert cloud.spot is not None
            price = find_spot_price(cloud.spot.prices, begin + unit * billing.unit)
            yield min(price, Fraction(str(rental.row["bid"])))
        elif rental.tariff == "reserved":
            assert billing.reserved is not None
            yield Fraction(str(billing.reserved.price))
        else:
            yield Fraction(str(billing.price if kind.price is None else kind.price))


def compute_price(cloud: Cloud, rental: Rental, now: float) -> Fraction:
    """Compute the exact price of a rental in decimals; one without an end is billed until now."""
    end = now if rental.end is None else rental.end
    return sum(list_unit_prices(cloud, rental, end), Fraction(0))


def compute_transfers(cloud: Cloud, trace: Trace, stores: set[str]) -> Fraction:
    """Compute the exact price of the files that tasks on instances read and write."""
    transfer = cloud.billing.transfer if cloud.billing else None
    total = Fraction(0)
    if transfer is None:
        return total
    for row in trace.transfers.rows(named=True):
        if row["kind"] == "read" and row["from"] in stores and "instance-" in row["to"]:
            total += Fraction(str(transfer.out)) * Fraction(row["bytes"]) / 10**9
        if row["kind"] == "write" and row["to"] in stores and "instance-" in row["from"]:
            total += Fraction(str(transfer.incoming)) * Fraction(row["bytes"]) / 10**9
    return total


def compute_bill(cloud: Cloud, trace: Trace, now: float, stores: set[str]) -> Fraction:
    """Compute the bill of a run with one cloud up to that time."""
    total = compute_transfers(cloud, trace, stores)
    if cloud.billing is not None and cloud.billing.reserved is not None:
        reserved = cloud.billing.reserved
        total += reserved.instances * Fraction(str(reserved.upfront))
    for rental in list_rentals(trace):
        total += compute_price(cloud, rental, now)
    return total


def find_reserved(rentals: list[Rental], instances: int) -> list[bool]:
    """Find which rentals are reserved: the first ones that are requested, while slots are free.

    The slot of an instance is free for requests after its end; at its end, both is possible.
    """
    reserved: list[Rental] = []
    found = []
    for rental in rentals:
        held = [
            each
            for each in reserved
            if rental.row["bid"] is None and (each.end is None or each.end > rental.requested)
        ]
        has_slot = rental.row["bid"] is None and len(held) < instances
        found.append(has_slot)
        if has_slot:
            reserved.append(rental)
    return found
