"""Copies of a running simulation: the cost of a copy, and of running it to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Scenario, Workload
from twinloop.engine import Simulation

LIVE = 1_000
FINISHED = (1_000, 100_000, 1_000_000)
MORE = 100_000  # of users with sessions, or added in the run
COPIES = 5  # in one measurement
COPY_US, FORK_MS = 100.0, 2.0
NODES = 128
USERS = 1_000  # so that each session has one task


def started(finished: int, kind: str = "recorded") -> Simulation:
    """Return a simulation in which so many tasks have finished and LIVE tasks wait or run.

    The finished tasks are of the workload, without files, with one file each in a store, or with
    files in the stores of all nodes; of users with sessions; or were added in the run.
    """
    numbers = np.arange(finished + LIVE)
    random = np.random.default_rng(finished)
    is_live = numbers >= finished
    cores = np.where(is_live, random.integers(1, 65, len(numbers)), 1).astype(float)
    length = np.where(is_live, random.integers(60, 36_000, len(numbers)), 30).astype(float)
    tasks = pl.DataFrame(
        {
            "id": pl.Series(numbers).cast(pl.String),
            "submit": np.minimum(numbers, finished + 60).astype(float),
            "cores": cores,
            "work": cores * length,
            "limit": cores,
            "requested_time": length * 1.5,
            "user": pl.Series(numbers % USERS).cast(pl.String),
        }
    )
    # The run starts at the first submission of the workload.
    added = tasks[1:finished] if kind == "added" else tasks[:0]
    listed = tasks.join(added, on="id", how="anti", maintain_order="left")
    platform: dict[str, Any] = {"clusters": [{"hosts": [{"count": NODES, "cores": 1}]}]}
    files: dict[str, pl.DataFrame] = {}
    if kind == "with files":
        platform["stores"] = [{"name": "disk", "write": "100 GB/s"}]
        files = {
            "files": tasks.select(file="id", size=pl.lit(1e6)),
            "task_files": tasks.select(task="id", file="id", access=pl.lit("write")),
        }
    elif kind == "with paths":
        names = [f"C01-H01-{node:03}" for node in range(1, NODES + 1)]
        platform["clusters"][0]["hosts"][0] |= {"store": {"read": "100 GB/s"}}
        files = {
            "files": pl.DataFrame({"file": names, "store": names}).with_columns(size=pl.lit(1e6)),
            "task_files": tasks.select(
                task="id",
                file=pl.Series(np.array(names)[random.integers(0, NODES, len(numbers))]),
                access=pl.lit("read"),
            ),
        }
    scenario = Scenario(
        platform=platform,
        policy="easy",
        workload=Workload(tasks=listed, **files),
        source="sessions:10" if kind == "sessions" else "rigid",
    )
    simulation = Simulation(scenario)
    for task in added.iter_rows(named=True):
        simulation.submit(
            task["id"], cores=1, run_time=30.0, at=task["submit"], requested_time=45.0
        )
    simulation.run_until(finished + 60.0)
    return simulation


def measure_copies(
    result: BenchmarkResult, title: str, cases: Sequence[tuple[str, int]], quick: bool
) -> list[tuple[str, int, float, float]]:
    """Add a table of copies; return its rows: kind, finished tasks, us per copy, ms per fork."""
    table = ResultTable(
        f"{title}: EASY on {NODES} nodes (CPU time)",
        {
            "tasks": "s",
            "finished": ",d",
            "a copy, us": ",.1f",
            "copied and run to the end, ms": ",.2f",
        },
        costs=["a copy, us", "copied and run to the end, ms"],
    )
    for kind, finished in cases:
        original = started(finished, kind)
        if original.kpis()["completed"] != finished:
            result.failures.append(f"forks: {finished:,} {kind} tasks: not all have finished")

        def copy(original: Simulation = original) -> None:
            for _ in range(COPIES):
                original.copy()

        def fork(original: Simulation = original) -> Simulation:
            other = original.copy()
            while other.step():
                pass
            return other

        seconds, answers = side_by_side({"copy": copy, "fork": fork}, 5 if quick else 15)
        table.rows.append([kind, finished, seconds["copy"] / COPIES * 1e6, seconds["fork"] * 1e3])
        if answers["fork"].kpis()["completed"] != finished + LIVE:
            result.failures.append(f"forks: {finished:,} {kind} tasks: a copy did not end")
    result.tables.append(table)
    return [(kind, finished, micro, milli) for kind, finished, micro, milli in table.rows]


def add_copy_goal(result: BenchmarkResult, kind: str, finished: int, micro: float) -> None:
    result.goals.append(
        Goal(
            f"copy of {LIVE:,} live among {finished:,} finished tasks, {kind}",
            f"at most {COPY_US:.0f} us",
            f"{micro:.1f} us",
            micro <= COPY_US,
        )
    )


def by_kind(result: BenchmarkResult, quick: bool) -> None:
    cases = [("recorded", finished) for finished in FINISHED[: 2 if quick else None]]
    title = f"Copies of a simulation with {LIVE:,} live tasks"
    rows = measure_copies(result, title, [*cases, ("sessions", MORE), ("added", MORE)], quick)
    for kind, finished, micro, _ in rows[len(cases) - 1 :]:
        add_copy_goal(result, kind, finished, micro)
    milli = rows[len(cases) - 1][-1]
    result.goals.append(
        Goal(
            f"copy that runs {LIVE:,} jobs to the end, EASY",
            f"under {FORK_MS:.0f} ms",
            f"{milli:.2f} ms",
            milli < FORK_MS,
        )
    )


def with_files(result: BenchmarkResult, quick: bool) -> None:
    cases = [("with files", finished) for finished in FINISHED[:2]]
    title = f"Copies of a simulation with {LIVE:,} live tasks, each of which writes a file"
    *_, (kind, finished, micro, _) = measure_copies(result, title, cases, quick)
    add_copy_goal(result, kind, finished, micro)


def with_paths(result: BenchmarkResult, quick: bool) -> None:
    cases = [("with paths", finished) for finished in FINISHED[:2]]
    title = f"Copies of a simulation with {LIVE:,} live tasks; the others have read from all nodes"
    *_, (kind, finished, micro, _) = measure_copies(result, title, cases, quick)
    add_copy_goal(result, kind, finished, micro)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (by_kind, with_files, with_paths)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
