"""Transfers through routes with latency: `twinloop.engine.Network` against SimGrid.

A random tree: hosts with full-duplex ports below racks, racks below a core, each link with a
latency. The case for SimGrid lists the resources of every transfer by construction; Twinloop finds
the routes itself. The weight of a flow is 1/latency, as in SimGrid. There are few hosts and many
transfers, so that many of them are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from simgrid_cases import spread
from simgrid_oracle import OracleActivity, OracleCase, SimGrid, SimGridMissing
from test_simgrid import TOLERANCE, difference

from twinloop.engine import Environment, Network

CASES = 200


@dataclass(frozen=True)
class RoutedCase:
    case: OracleCase
    racks: tuple[int, ...]  # of each host
    latencies: tuple[float, ...]  # of the links: of each host, then of each rack
    pairs: tuple[tuple[int, int], ...]


def routed(rng: Random, name: str) -> RoutedCase:
    hosts, racks = rng.randint(3, 8), rng.randint(2, 3)
    rack_of = tuple(rng.randrange(racks) for _ in range(hosts))
    links = hosts + racks
    # Of each link: its bandwidth from below and its bandwidth from above.
    capacities = tuple(1e6 * spread(rng, 1.0, 100.0) for _ in range(links)) * 2
    latencies = tuple(spread(rng, 0.01, 1.0) for _ in range(links))
    pairs, made = [], []
    for _ in range(rng.randint(5, 60)):
        source, target = rng.sample(range(hosts), 2)
        a, b = hosts + rack_of[source], hosts + rack_of[target]
        up, down = ([source, a], [b, target]) if a != b else ([source], [target])
        latency = sum(latencies[link] for link in (*up, *down))
        route = (*up, *(links + link for link in down))
        made.append(
            OracleActivity(
                start=float(rng.randint(0, 3)),
                work=min(capacities[r] for r in route) * rng.choice((0.5, 1.0, 4.0)),
                resources=route,
                weight=1.0 / latency,
                latency=latency,
            )
        )
        pairs.append((source, target))
    case = OracleCase(name, True, capacities, tuple(made))
    return RoutedCase(case, rack_of, latencies, tuple(pairs))


def run_network(routed_case: RoutedCase) -> list[float | None]:
    case, racks = routed_case.case, routed_case.racks
    env = Environment()
    network = Network(env)
    network.node("core")
    links = len(case.capacities) // 2
    tops = [f"r{i}" for i in range(links - len(racks))]
    below = [*(f"h{i}" for i in range(len(racks))), *tops]
    for name in below:
        network.node(name)
    parents = [*(f"r{rack}" for rack in racks), *("core" for _ in tops)]
    for number, (name, parent) in enumerate(zip(below, parents, strict=True)):
        # Both directions of a duplex link have one bandwidth; these differ, so there are two links.
        up, down = case.capacities[number], case.capacities[links + number]
        latency = routed_case.latencies[number]
        network.node(f"{name} up")
        network.node(f"{name} down")
        network.link(name, f"{name} up", up, latency=latency / 2)
        network.link(f"{name} up", parent, latency=latency / 2)
        network.link(parent, f"{name} down", down, latency=latency / 2)
        network.link(f"{name} down", name, latency=latency / 2)
    started: dict[int, object] = {}

    def start(index: int) -> None:
        source, target = routed_case.pairs[index]
        activity = case.activities[index]
        started[index] = network.transfer(
            f"h{source}", f"h{target}", activity.work, weight=activity.weight
        )

    for source, target in set(routed_case.pairs):
        declare(network, racks, source, target)
    for index, activity in enumerate(case.activities):
        env.call_at(activity.start, start, index)
    env.run()
    return [started[index].finished for index in range(len(case.activities))]  # type: ignore[attr-defined]


def declare(network: Network, racks: tuple[int, ...], source: int, target: int) -> None:
    """The route upwards over the `up` nodes, downwards over the `down` nodes."""

    def climb(name: str, parent: str) -> list[str]:
        return [f"{name}-{name} up", f"{name} up-{parent}"]

    def descend(name: str, parent: str) -> list[str]:
        return [f"{parent}-{name} down", f"{name} down-{name}"]

    a, b = f"r{racks[source]}", f"r{racks[target]}"
    middle = [*climb(a, "core"), *descend(b, "core")] if a != b else []
    links = [*climb(f"h{source}", a), *middle, *descend(f"h{target}", b)]
    network.route(f"h{source}", f"h{target}", links)


def test_transfers_through_routes_end_as_in_simgrid() -> None:
    try:
        simgrid = SimGrid()
    except SimGridMissing as missing:
        pytest.skip(f"SimGrid is not installed here: {missing}")
    rng = Random(20260117)
    made = [routed(rng, f"routed {number}") for number in range(CASES)]
    worst = 0.0
    finished = simgrid.play([each.case for each in made])
    for each, theirs in zip(made, finished, strict=True):
        worst = max(worst, difference(each.case, run_network(each), theirs))
    print(f"\nSimGrid, routes: {CASES} cases, worst relative difference {worst:.1e}")
    assert worst <= TOLERANCE
