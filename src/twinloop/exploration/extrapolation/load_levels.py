"""Load levels of simulated runs: simultaneous tasks per core and per host, and host speeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from twinloop.engine import CompiledScenario, simulate

_SCHEMA: Final = {"kind": pl.String(), "load": pl.Float64(), "tasks": pl.Int64()}


@dataclass(frozen=True)
class LoadLevels:
    """Maximum loads in simulated runs by kind of task, and the hosts in use.

    >>> from twinloop.scenario import Scenario
    >>> tasks = [{"id": f"t{i}", "run_time": 5, "kind": "cache" if i else "cpu"} for i in range(4)]
    >>> scenario = Scenario(platform="1x2", policy="fcfs", workload={"tasks": tasks})
    >>> seen = LoadLevels.of([CompiledScenario(scenario)])
    >>> seen.load, seen.tasks
    ({'cpu': 1.0, 'cache': 1.0}, {'cpu': 2, 'cache': 2})
    """

    #: Maximum ratio of requested cores to the cores of a host, while a task of the kind runs there.
    load: Mapping[str, float]
    #: Maximum number of simultaneous tasks on a host, while a task of the kind runs there.
    tasks: Mapping[str, int]
    #: The clock rate (MHz; 0: not known) and the speed of each host in use.
    hosts: frozenset[tuple[float, float]]

    @classmethod
    def of(cls, runs: Iterable[CompiledScenario]) -> LoadLevels:
        """Simulate scenarios and compute their load levels."""
        load: dict[str, float] = {}
        tasks: dict[str, int] = {}
        hosts: set[tuple[float, float]] = set()
        for compiled in runs:
            trace = simulate(compiled, usage_step=math.inf)
            placed = trace.placements.join(
                trace.tasks.select(task="id", kind=pl.col("kind").fill_null("")), on="task"
            )
            for kind, max_load, max_tasks in _compute_maxima(placed, trace.nodes).iter_rows():
                load[kind] = max(load.get(kind, 0.0), max_load)
                tasks[kind] = max(tasks.get(kind, 0), max_tasks)
            used_hosts = set(placed["machine"])
            nodes = compiled.machines.nodes.with_columns(speed=pl.Series(compiled.machines.speed))
            clocks = nodes.filter(pl.col("node").is_in(used_hosts)).select("mhz", "speed").unique()
            hosts |= {(mhz or 0.0, speed) for mhz, speed in clocks.iter_rows()}
        return cls(load, tasks, frozenset(hosts))


def _compute_maxima(placed: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Compute by kind the maximum load and number of tasks of a host while such a task runs."""
    placed = placed.select("machine", "kind", "cores", "start", "end").drop_nulls()
    placed = placed.join(nodes.select(machine="node", host_cores="cores"), on="machine")
    load = pl.col("cores") / pl.col("host_cores")
    starts = placed.select("machine", "kind", t="start", load=load, change=pl.lit(1))
    ends = placed.select("machine", "kind", t="end", load=-load, change=pl.lit(-1))
    # At equal times, ends come before starts.
    steps = (
        pl.concat([ends, starts])
        .sort("machine", "t", "change")
        .with_columns(pl.col("load").cum_sum().over("machine").round(9))
        .with_columns(tasks=pl.col("change").cum_sum().over("machine"))
    )
    parts = [pl.DataFrame(schema=_SCHEMA)]
    for kind in steps["kind"].unique(maintain_order=True):
        # The rows of a host while at least one task of this kind runs there.
        own = pl.when(pl.col("kind") == kind).then("change").otherwise(0)
        present = steps.filter(own.cum_sum().over("machine") > 0)
        maxima = present.select(kind=pl.lit(kind), load=pl.max("load"), tasks=pl.max("tasks"))
        parts.append(maxima.cast(_SCHEMA))  # type: ignore[arg-type]
    return pl.concat(parts).drop_nulls()
