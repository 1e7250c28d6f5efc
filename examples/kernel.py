"""A small cluster, simulated event by event: data over shared links, work on shared cores.

Forty jobs come from one file server to three hosts. Each fetches its input, over the server's
up-link and its host's down-link at once, and then computes, competing with its neighbours for cores
and memory. One host is down for maintenance in the middle.
"""

import argparse
import random
import time
from collections.abc import Generator
from pathlib import Path

import numpy as np
from picture import draw_svg, sparkline

from twinloop.engine import Environment, Event, Resource, run_columns

HOSTS = 3
CORES = 4
JOBS = 40
SEED = 11

# Efficiency of a core by the number of jobs on its host, because neighbours share the memory.
NEIGHBOURS = {0: [1.0, 0.97, 0.93, 0.88, 0.82]}


class Cluster:
    """The resources, and the results of the jobs."""

    def __init__(self) -> None:
        self.env = Environment()
        self.uplink = self.env.resource(125, "server up-link")  # MB/s
        self.downlinks = [self.env.resource(60, f"link of host {i}") for i in range(HOSTS)]
        self.hosts = [
            self.env.resource(CORES, f"host {i}", efficiency=NEIGHBOURS) for i in range(HOSTS)
        ]
        self.hosts[1].set_profile([90, 130], [0, CORES])
        self.assigned = [0] * HOSTS
        self.jobs: list[tuple[int, float, float, float]] = []
        self.work_done = 0.0

    def job(self, arrival: float, megabytes: float, work: float) -> Generator[Event, None, None]:
        yield self.env.timeout(arrival)
        target = min(range(HOSTS), key=lambda i: (self.assigned[i], i))
        self.assigned[target] += 1
        yield self.env.start(megabytes, [self.uplink, self.downlinks[target]])
        began = self.env.now
        computing = self.hosts[target].execute(work, limit=2)
        yield computing
        self.assigned[target] -= 1
        self.jobs.append((target, arrival, began, self.env.now))
        self.work_done += computing.done


def load(resource: Resource, rates: dict[str, np.ndarray], grid: np.ndarray) -> np.ndarray:
    """The use of a resource on a time grid, as a share of its first capacity."""
    mine = rates["resource"] == resource.index
    last = np.searchsorted(rates["t"][mine], grid, side="right") - 1
    return np.where(last >= 0, rates["rate"][mine][np.maximum(last, 0)], 0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--svg", type=Path, help="also write the picture to this file")
    args = parser.parse_args()

    rng = random.Random(SEED)
    cluster = Cluster()
    env = cluster.env
    recording = env.record()
    demands = [
        (rng.uniform(0, 160), rng.uniform(100, 900), rng.uniform(10, 60)) for _ in range(JOBS)
    ]
    for demand in demands:
        env.process(cluster.job(*demand))
    env.run()

    rates = recording.rates()
    grid = np.linspace(0.0, env.now, 64)
    print(f"{JOBS} jobs on {HOSTS} hosts of {CORES} cores, all done at {env.now:.1f} s\n")
    for host in cluster.hosts:
        share = load(host, rates, grid) / CORES
        print(f"  {host.name:14} {sparkline(share)} {host.consumed / CORES / env.now:4.0%} busy")
    share = load(cluster.uplink, rates, grid) / cluster.uplink.capacity
    busy = cluster.uplink.consumed / cluster.uplink.capacity / env.now
    print(f"  {cluster.uplink.name:14} {sparkline(share)} {busy:4.0%} busy\n")

    asked = sum(work for _, _, work in demands)
    drawn = sum(host.consumed for host in cluster.hosts)
    print(f"work asked for  {asked:9.1f} core seconds")
    print(f"work done       {cluster.work_done:9.1f} core seconds")
    print(f"capacity drawn  {drawn:9.1f} core seconds (the rest is what neighbours cost)")
    if args.svg:
        draw_svg(args.svg, cluster.jobs, HOSTS, env.now)
        print(f"picture         {args.svg}")

    count, together = 1_000_000, 1_000
    start = np.sort(rng_numbers(count, 0, 10).reshape(-1, together), axis=1)
    start += np.arange(count // together)[:, None] * 100.0 * together
    began = time.perf_counter()
    run = run_columns(start.ravel(), rng_numbers(count, 10, 90), capacity=1.0)
    took = time.perf_counter() - began
    print(f"\n{count:,} tasks sharing one core, {together:,} at a time:")
    print(f"{run.events:,} events in {took:.2f} s, {count / took / 1e6:.1f} million tasks a second")


def rng_numbers(count: int, low: float, high: float) -> np.ndarray:
    return np.random.default_rng(SEED).uniform(low, high, count)


if __name__ == "__main__":
    main()
