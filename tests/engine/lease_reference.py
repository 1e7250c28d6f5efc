"""Leases in the slow, obvious simulator: both levels are filled from scratch at every event."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from .reference import Activity, Efficiency, Load, Resource, World, fill
from .rounding import Watched


@dataclass(eq=False)
class Host(Resource):
    leases: list[Lease] = field(default_factory=list)

    def lease(self, size: float, weight: float | None = None) -> Lease:
        given = None if weight is None else Fraction(weight)
        lease = Lease(self.world, Fraction(size), host=self, given_weight=given)
        self.leases.append(lease)
        self.world.resources.append(lease)
        return lease


@dataclass(eq=False)
class Lease(Resource):
    host: Host = None  # type: ignore[assignment]
    given_weight: Fraction | None = None
    suspended: bool = False

    @property
    def weight(self) -> Fraction:
        return self.capacity if self.given_weight is None else self.given_weight

    def resize(self, size: float) -> None:
        self.capacity = Fraction(size)

    def set_weight(self, weight: float) -> None:
        self.given_weight = Fraction(weight)

    def suspend(self) -> None:
        self.suspended = True

    def resume(self) -> None:
        self.suspended = False

    def move(self, host: Host) -> None:
        self.host.leases.remove(self)
        self.host = host
        host.leases.append(self)

    def release(self) -> None:
        for activity in self.world.activities:
            if activity.live and self in activity.resources:
                activity.cancel()
        self.host.leases.remove(self)
        self.world.resources.remove(self)


@dataclass(eq=False)
class Share:
    """A lease as one consumer of its host."""

    resources: list[Resource]
    limit: Fraction
    weight: Fraction


def users(resource: Resource) -> list[Activity]:
    return [a for a in resource.world.drawing() if a.resources == [resource]]


class LeaseWorld(World):
    def resource(self, capacity: float, efficiency: Efficiency = None) -> Host:
        host = Host(self, Fraction(capacity), efficiency)
        self.resources.append(host)
        return host

    def drawing(self) -> list[Activity]:
        return [a for a in super().drawing() if not stopped(a.resources[0])]

    def rates(self) -> Load:
        rates: Load = {}
        for host in self.resources:
            if isinstance(host, Host):
                rates |= two_levels(host)
        return rates

    def speeds(self, rates: Load) -> Load:
        factors = {r: self.factors(r) for r in self.resources if isinstance(r, Host)}
        return {a: rate * factors[host_of(a)][a.kind] for a, rate in rates.items()}

    def factors(self, host: Host) -> dict[int, Fraction]:
        """The efficiency of each kind, by all activities on the host and in its leases."""
        inside = [a for lease in host.leases for a in users(lease)]
        moved = [(a, a.resources) for a in inside]
        for a in inside:
            a.resources = [host]
        factors = host.factors()
        for a, resources in moved:
            a.resources = resources
        return factors

    def _advance(self, time: Fraction) -> None:
        rates = self.rates()
        speeds = self.speeds(rates)
        span = time - self.now
        for host in self.resources:
            if not isinstance(host, Host):
                continue
            here = {a: rate for a, rate in rates.items() if host_of(a) is host}
            used = sum(here.values(), Fraction(0))
            cost = host.cost_rate(used) * span
            host.cost += cost
            for a, rate in here.items():
                charge = cost * rate / used if used else Fraction(0)
                a.cost += charge
                if isinstance(a.resources[0], Lease):
                    a.resources[0].cost += charge
        for a, rate in rates.items():
            a.remaining -= speeds[a] * span
            for counters in (a, *{a.resources[0], host_of(a)}):
                counters.consumed += rate * span
                counters.done += speeds[a] * span
        self.now = time


class WatchedLeases(Watched, LeaseWorld):
    """Notices an activity that is left behind by a rounding error."""


def stopped(resource: Resource) -> bool:
    return isinstance(resource, Lease) and (resource.suspended or resource.capacity == 0)


def host_of(activity: Activity) -> Any:
    resource = activity.resources[0]
    return resource.host if isinstance(resource, Lease) else resource


def two_levels(host: Host) -> Load:
    inside = {lease: users(lease) for lease in host.leases}
    shares = {
        lease: Share([host], usable(lease, tasks), lease.weight)
        for lease, tasks in inside.items()
        if tasks
    }
    level = fill([*users(host), *shares.values()], {host: host.capacity})  # type: ignore[list-item]
    rates: Load = {a: level[a] for a in users(host)}
    for lease, share in shares.items():
        rates |= fill(inside[lease], {lease: level[share]})  # type: ignore[index]
    return rates


def usable(lease: Lease, tasks: list[Activity]) -> Fraction:
    limits = [a.limit for a in tasks]
    if None in limits:
        return lease.capacity
    return min(lease.capacity, sum(limits, Fraction(0)))  # type: ignore[arg-type]
