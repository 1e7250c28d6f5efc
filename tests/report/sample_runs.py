"""Runs for figures: first come, first served on a few nodes, placed by a simple loop."""

from typing import Any

import numpy as np
import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from twinloop.trace import Trace


def run_fcfs(
    tasks: list[tuple[float, float, int]], nodes: int = 2, cores: int = 4, **more: Any
) -> Trace:
    """Run tasks (gap to the one before, run time, cores) in their order, each on one node."""
    free_at = [[0.0] * cores for _ in range(nodes)]
    submit = now = 0.0
    rows, placed = [], []
    for number, (gap, run_time, size) in enumerate(tasks):
        submit += gap
        node = min(range(nodes), key=lambda n: sorted(free_at[n])[size - 1])
        there = sorted(free_at[node])
        now = max(now, submit, there[size - 1])
        free_at[node] = [now + run_time] * size + there[size:]
        name = f"task {number}"
        rows.append((name, f"user {number % 3}", submit, float(size), run_time, "completed"))
        placed.append((name, 0, f"n{node}", float(size), now, now + run_time, "completed"))
    asked = ["id", "user", "submit", "requested_cores", "run_time", "status"]
    given = ["task", "attempt", "machine", "cores", "start", "end", "reason"]
    return Trace(
        tasks=pl.DataFrame(rows, schema=asked, orient="row"),
        placements=pl.DataFrame(placed, schema=given, orient="row"),
        nodes=pl.DataFrame({"node": [f"n{n}" for n in range(nodes)], "cores": float(cores)}),
        **more,
    )


def draw_tasks(count: int, seed: int = 1) -> list[tuple[float, float, int]]:
    """Draw a number of random tasks with times in whole seconds."""
    rng = np.random.default_rng(seed)
    gaps, lengths = rng.integers(0, 60, count), rng.integers(1, 300, count)
    return list(zip(gaps * 1.0, lengths * 1.0, rng.integers(1, 5, count).tolist(), strict=True))


def remove_machines(trace: Trace) -> Trace:
    unknown = pl.lit(None, dtype=pl.String)
    return trace.replace(placements=trace.placements.with_columns(machine=unknown))


def sum_seconds(figure: Any) -> float:
    """The length of one unit of the time axis of a figure."""
    unit = figure.layout.xaxis.title.text.split()[0]
    return {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0, "date": 0.001}[unit]


def sum_core_seconds(trace: Trace) -> float:
    return sum(
        cores * (end - start)
        for cores, start, end in trace.placements.select("cores", "start", "end").iter_rows()
    )


#: Fewer examples, because a Plotly figure takes long to make.
FEWER = settings(max_examples=max(1, settings().max_examples // 4))

tasks_to_run = st.lists(
    st.tuples(
        st.integers(0, 30).map(float), st.integers(0, 50).map(float), st.integers(1, 4)
    ),
    min_size=1,
    max_size=40,
)  # fmt: skip
