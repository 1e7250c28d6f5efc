"""Files of tasks at each level of the network: simulated scenarios against SimGrid.

Random tasks read or write one file each on hosts with ports, from stores with ports, bandwidths of
reads and writes. The case for SimGrid lists the resources of every transfer that the level of
detail takes into account; a scenario finds them itself, and takes bandwidths that a transfer has
for itself as its limit.
"""

from __future__ import annotations

from random import Random
from typing import Any

import polars as pl
import pytest
from simgrid_cases import spread
from simgrid_oracle import OracleActivity, OracleCase, SimGrid, SimGridMissing
from test_simgrid import TOLERANCE, difference

from twinloop import Workload
from twinloop.engine import simulate
from twinloop.scenario import Scenario

CASES = 200
LEVELS = ("described", "one-link", "star", "link+star")


def make_case(rng: Random, name: str) -> tuple[Scenario, OracleCase]:
    hosts, stores = rng.randint(1, 12), rng.randint(1, 2)
    level = rng.choice(LEVELS)
    capacities: list[float] = []

    def add() -> int:
        capacities.append(1e6 * spread(rng, 1.0, 50.0))
        return len(capacities) - 1

    # Some hosts are equal.
    kinds = [(add(), add()) for _ in range(rng.randint(1, hosts))]
    ports = []
    for host in range(hosts):
        into, out = (capacities[each] for each in kinds[host % len(kinds)])
        capacities += [into, out]
        ports.append((len(capacities) - 2, len(capacities) - 1))
    described = [{name: add() for name in ("read", "write", "in", "out")} for _ in range(stores)]
    tasks: dict[str, list[Any]] = {name: [] for name in ("id", "submit", "run_time")}
    files: dict[str, list[Any]] = {name: [] for name in ("file", "size", "store")}
    uses, activities, queue = [], [], []
    for number in range(rng.randint(2, 60)):
        host, store = rng.randrange(hosts), rng.randrange(stores)
        task, reads = f"t{number}", rng.random() < 0.6
        submit, run_time = float(rng.randint(0, 3)), float(rng.randint(0, 2))
        disk = described[store]
        route = [disk["read" if reads else "write"]]
        if level != "star":
            route.append(disk["out" if reads else "in"])
        if level != "one-link":
            route.append(ports[host][0 if reads else 1])
        size = min(capacities[each] for each in route) * rng.choice((0.5, 1.0, 4.0))
        for column, value in (("id", task), ("submit", submit), ("run_time", run_time)):
            tasks[column].append(value)
        for column, value in (("file", f"f{number}"), ("size", size), ("store", f"s{store}")):
            files[column].append(value)
        uses.append((task, f"f{number}", "read" if reads else "write"))
        queue.append(f"q{host}")
        start = submit if reads else submit + run_time
        activities.append(OracleActivity(start=start, work=size, resources=tuple(route)))
    scenario = Scenario(
        platform={
            "clusters": [
                {
                    "hosts": [
                        {"names": [f"h{host}"], "cores": 100,
                         "ports": {"in": capacities[into], "out": capacities[out]}}
                        for host, (into, out) in enumerate(ports)
                    ]
                }
            ],
            "queues": [{"name": f"q{host}", "hosts": [f"h{host}"]} for host in range(hosts)],
            "stores": [
                {"name": f"s{number}", "read": capacities[each["read"]],
                 "write": capacities[each["write"]],
                 "ports": {"in": capacities[each["in"]], "out": capacities[each["out"]]}}
                for number, each in enumerate(described)
            ],
        },
        workload=Workload(
            tasks=pl.DataFrame(tasks).with_columns(
                cores=1.0, limit=1.0, work="run_time", queue=pl.Series(queue)
            ),
            files=pl.DataFrame(files),
            task_files=pl.DataFrame(uses, schema=["task", "file", "access"], orient="row"),
        ),
        policy="fcfs",
        model={"detail": {"network": level}},
    )  # fmt: skip
    return scenario, OracleCase(name, True, tuple(capacities), tuple(activities))


def find_ends(scenario: Scenario) -> list[float | None]:
    """The ends of the transfers, in the order of the tasks."""
    transfers = simulate(scenario).transfers
    ends = dict(transfers.select("subject", "end").iter_rows())
    return [ends[task] for task in scenario.workload.object.tasks["id"]]


def test_files_of_tasks_arrive_as_in_simgrid() -> None:
    try:
        simgrid = SimGrid()
    except SimGridMissing as missing:
        pytest.skip(f"SimGrid is not installed here: {missing}")
    rng = Random(20261120)
    made = [make_case(rng, f"files {number}") for number in range(CASES)]
    worst = 0.0
    finished = simgrid.play([case for _, case in made])
    for (scenario, case), theirs in zip(made, finished, strict=True):
        worst = max(worst, difference(case, find_ends(scenario), theirs))
    print(f"\nSimGrid, files: {CASES} cases, worst relative difference {worst:.1e}")
    assert worst <= TOLERANCE
