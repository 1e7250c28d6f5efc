"""Random sharing and flow cases, the same for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from simgrid_oracle import OracleActivity, OracleCase, OracleChange

# Capacities of cores, of megabytes and of bytes per second.
SCALES = (1.0, 1e3, 1e9)


def spread(rng: Random, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def activities(
    rng: Random,
    capacities: tuple[float, ...],
    count: int,
    flow: bool,
    route: Callable[[], tuple[int, ...]],
) -> tuple[OracleActivity, ...]:
    """Work of 0.1 to 10 s alone; some limits and weights; starts staggered or all at once.

    A flow with a weight other than 1 has a latency of 1/weight: SimGrid has no other weights.
    """
    stagger = rng.choice((0.0, 1.0, 10.0))
    limited, weighted = rng.choice((0.0, 0.5, 1.0)), rng.choice((0.0, 0.5, 1.0))
    made = []
    for _ in range(count):
        resources = route()
        capacity = min(capacities[r] for r in resources)
        latency = spread(rng, 0.1, 10.0) if flow and rng.random() < weighted else 0.0
        weight = 1.0
        if latency:
            weight = 1.0 / latency
        elif not flow and rng.random() < weighted:
            weight = spread(rng, 0.1, 10.0)
        made.append(
            OracleActivity(
                start=rng.uniform(0.0, stagger),
                work=capacity * spread(rng, 0.1, 10.0),
                resources=resources,
                limit=capacity * spread(rng, 0.02, 2.0) if rng.random() < limited else None,
                weight=weight,
                latency=latency,
            )
        )
    return tuple(made)


def random_route(rng: Random, links: int, flow: bool) -> Callable[[], tuple[int, ...]]:
    longest = min(links, 4) if flow else 1
    return lambda: tuple(rng.sample(range(links), rng.randint(1, longest)))


def plain(rng: Random, name: str, flow: bool, most: int = 40) -> OracleCase:
    scale = rng.choice(SCALES)
    capacities = tuple(scale * spread(rng, 1.0, 100.0) for _ in range(rng.randint(1, 8)))
    route = random_route(rng, len(capacities), flow)
    return OracleCase(
        name, flow, capacities, activities(rng, capacities, rng.randint(2, most), flow, route)
    )


def changing_capacity(rng: Random, name: str, flow: bool) -> OracleCase:
    """Capacities increase, decrease, and are zero for a time."""
    case = plain(rng, name, flow)
    changes = []
    for resource, capacity in enumerate(case.capacities):
        time = 0.0
        for _ in range(rng.randint(0, 6)):
            time += spread(rng, 0.1, 10.0)
            changes.append(
                OracleChange("capacity", time, resource, capacity * spread(rng, 0.1, 10.0))
            )
            if rng.random() < 0.3:
                down = OracleChange("capacity", time + rng.random(), resource, 0.0)
                time = down.time + spread(rng, 0.1, 10.0)
                changes += [down, OracleChange("capacity", time, resource, capacity)]
    return OracleCase(case.name, flow, case.capacities, case.activities, tuple(changes))


def interrupted(rng: Random, name: str, flow: bool) -> OracleCase:
    """Activities are suspended for a time; on hosts their weights also change.

    At most once per activity, and only flows of weight 1: SimGrid 3.32 ignores a second suspension,
    and resumes every flow with the weight 1.
    """
    case = plain(rng, name, flow)
    changes = []
    for index, activity in enumerate(case.activities):
        time = activity.start + activity.latency + spread(rng, 0.1, 10.0)
        if rng.random() < 0.5 and not activity.latency:
            changes.append(OracleChange("suspend", time, index))
            time += spread(rng, 0.1, 10.0)
            changes.append(OracleChange("resume", time, index))
        for _ in range(0 if flow else rng.randint(0, 3)):
            time += spread(rng, 0.1, 10.0)
            changes.append(OracleChange("weight", time, index, spread(rng, 0.1, 10.0)))
    return OracleCase(case.name, flow, case.capacities, case.activities, tuple(changes))


def ties(rng: Random, name: str, flow: bool) -> OracleCase:
    """Small integers, so that bottlenecks, limits, starts and ends coincide."""
    capacities = tuple(float(rng.choice((2, 4, 6))) for _ in range(rng.randint(1, 8)))
    route = random_route(rng, len(capacities), flow)
    made = []
    for _ in range(rng.randint(2, 40)):
        latency = float(rng.choice((0, 0, 1, 2, 4))) if flow else 0.0
        weight = float(rng.choice((1, 1, 2, 4))) if not flow else 1.0
        made.append(
            OracleActivity(
                start=float(rng.randint(0, 4)),
                work=float(rng.randint(1, 12)),
                resources=route(),
                limit=rng.choice((None, 1.0, 2.0)),
                weight=1.0 / latency if latency else weight,
                latency=latency,
            )
        )
    return OracleCase(name, flow, capacities, tuple(made))


def large(rng: Random, name: str, flow: bool) -> OracleCase:
    """Hundreds of activities: on a few hosts, or between random pairs of a star's hosts."""
    if not flow:
        return plain(rng, name, flow, most=500)
    hosts = rng.randint(5, 40)
    capacities = tuple(1e6 * spread(rng, 1.0, 100.0) for _ in range(2 * hosts))

    def pair() -> tuple[int, ...]:
        sender, receiver = rng.sample(range(hosts), 2)
        return (sender, hosts + receiver)

    made = activities(rng, capacities, rng.randint(100, 300), flow, pair)
    return OracleCase(name, flow, capacities, made)


FAMILIES: dict[str, tuple[Callable[[Random, str, bool], OracleCase], int]] = {
    "plain": (plain, 1500),
    "changing capacity": (changing_capacity, 1500),
    "interrupted": (interrupted, 1500),
    "ties": (ties, 1500),
    "large": (large, 100),
}


def cases(family: str, flow: bool) -> list[OracleCase]:
    """Return the cases of a family; the name of a case is its random seed."""
    make, count = FAMILIES[family]
    names = (f"{'flow' if flow else 'sharing'} / {family} / {index}" for index in range(count))
    return [make(Random(name), name, flow) for name in names]
