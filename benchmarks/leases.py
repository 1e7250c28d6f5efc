"""Two-level sharing: the cost of a task in a lease, against the same task directly on the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from load import LONGEST, SPREAD, Load, disagreement, grouped
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.engine import run_columns

TASKS, QUICK_TASKS = 200_000, 40_000
PER_HOST = (1, 100, 10_000)
PER_LEASE = (1, 10, 100)
GOAL = 2.0  # cost of a task on two levels, against one
SIZES = 0.2, 1.0  # of a lease, as a share of the host
LIMITS = 0.2, 3.0  # of a task, in fair shares of the host


def apart(tasks: int, per_host: int) -> Load:
    """Groups of tasks, the next one when the one before is over, also with sizes and limits."""
    load = grouped(tasks, per_host)
    first = load.start[::per_host]
    group = np.arange(len(load)) // per_host
    length = SPREAD + LONGEST * per_host / min(*SIZES, *LIMITS)
    return Load(load.start - first[group] + length * group, load.work)


def in_leases(load: Load, per_host: int, per_lease: int) -> dict[str, Any]:
    """Assign the tasks of each group to leases of one host, in turn."""
    count = max(1, per_host // per_lease)
    sizes = np.random.default_rng(2).uniform(*SIZES, count)
    return {
        "leases": [(0, float(size)) for size in sizes],
        "resource": 1 + np.arange(len(load)) % count,
    }


def run_empty(leases: Sequence[tuple[int, float]] = ()) -> None:
    """Create a host and its leases, and run no task on them."""
    run_columns(np.empty(0), np.empty(0), leases=list(leases))


def check_one_lease(result: BenchmarkResult, load: Load) -> None:
    """All tasks in one lease of the size of the host end as without it."""
    inside = np.ones(len(load), dtype=np.int64)
    runs = [
        run_columns(load.start, load.work).finish,
        run_columns(load.start, load.work, leases=[(0, 1.0)], resource=inside).finish,
    ]
    if disagreement(*runs) > 1e-9:
        result.failures.append("leases: one lease of the whole host differs from the host")


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    tasks = QUICK_TASKS if quick else TASKS
    table = ResultTable(
        f"{tasks:,} tasks that share a host, directly and in leases (us per task, CPU)",
        {
            "per host": ",d",
            "per lease": ",d",
            "limits": "s",
            "one level": ".3f",
            "two levels": ".3f",
            "ratio": ".2f",
            "us per new lease": ".2f",
            "ratio with creation": ".2f",
        },
        note=f"Sizes of {SIZES[0]:g} to {SIZES[1]:g} of the host; with limits, of {LIMITS[0]:g} to "
        f"{LIMITS[1]:g} fair shares of the host. The cost of a task does not include the creation "
        "of the leases, which is measured by a run without tasks.",
        costs=["one level", "two levels"],
    )
    worst: dict[int, float] = {}
    check_one_lease(result, grouped(1_000, 100))
    for per_host in PER_HOST:
        load = apart(tasks, per_host)
        limits = np.random.default_rng(3).uniform(*LIMITS, len(load)) / per_host
        for per_lease in (size for size in PER_LEASE if size <= per_host):
            leases = in_leases(load, per_host, per_lease)
            for name, options in (("none", {}), ("mixed", {"limit": limits})):
                one = partial(run_columns, load.start, load.work, **options)
                contestants = {
                    "one": one,
                    "two": partial(one, **leases),
                    "create": partial(run_empty, leases["leases"]),
                    "empty": run_empty,
                }
                seconds, runs = side_by_side(contestants, 5 if quick else 7)
                if not np.isfinite(runs["two"].finish).all():
                    result.failures.append(f"leases: {per_host}, {per_lease}: not all tasks ended")
                cost = {key: spent / len(load) * 1e6 for key, spent in seconds.items()}
                created = max(0.0, cost["create"] - cost["empty"])
                used = cost["two"] - created
                ratio = used / cost["one"]
                worst[per_host] = max(worst.get(per_host, 0.0), ratio)
                per_new_lease = created * len(load) / len(leases["leases"])
                table.rows.append(
                    [per_host, per_lease, name, cost["one"], used, ratio]
                    + [per_new_lease, cost["two"] / cost["one"]]
                )
    result.tables.append(table)
    for per_host, ratio in worst.items():
        result.goals.append(
            Goal(
                f"two levels against one, {per_host:,} tasks per host",
                f"<= {GOAL:g} times",
                f"{ratio:.2f} times",
                ratio <= GOAL,
            )
        )
    return result
