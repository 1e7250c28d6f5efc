"""Session graphs of a whole log: a direct reading of the definition against `SessionGraphs`."""

from __future__ import annotations

import numpy as np
import polars as pl
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.trace.trace import Trace
from twinloop.workload import SessionGraphs, Workload

# As large as the KTH-SP2 log: 214 users, 28,475 jobs, 11 months.
USERS, JOBS, SECONDS = 214, 28_475, 28_768_000
GOAL = 1.0


def log(jobs: int, users: int) -> Workload:
    """Make a log of users who submit a few jobs of any length every few hours."""
    rng = np.random.default_rng(1)
    user = np.minimum(rng.zipf(1.3, jobs) - 1, users - 1)
    visit = rng.uniform(0, SECONDS, jobs // 5 + 1)[rng.integers(0, jobs // 5 + 1, jobs)]
    submit = np.sort(np.round(visit + rng.exponential(900, jobs)))
    wait = np.round(rng.exponential(3000, jobs))
    run = np.round(rng.lognormal(6, 2.5, jobs))
    ids = pl.Series(np.arange(jobs)).cast(pl.String)
    end = submit + wait + run
    tasks = {"id": ids, "user": user.astype(str), "submit": submit, "run_time": run}
    placed = {"task": ids, "start": submit + wait, "end": end}
    return Workload.from_trace(
        Trace(
            tasks=pl.DataFrame(tasks).with_columns(requested_cores=pl.lit(1.0)),
            placements=pl.DataFrame(placed),
        )
    )


def direct_edges(workload: Workload, threshold: float) -> int:
    """Count the edges of the transitive reduction, by one pass over all pairs of a user."""
    count = 0
    tasks = workload.tasks.select("user", "submit", "end_recorded")
    for (_,), mine in tasks.group_by(["user"]):
        ordered = mine.sort("submit", maintain_order=True)
        submit, end = ordered["submit"].to_list(), ordered["end_recorded"].to_list()
        start: list[float] = []
        finish: list[float] = []
        for i, (at, until) in enumerate(zip(submit, end, strict=True)):
            if i and at - submit[i - 1] < threshold:
                finish[-1] = max(finish[-1], until)
            else:
                start.append(at)
                finish.append(until)
        for j, at in enumerate(start):
            before = [i for i in range(j) if finish[i] <= at]
            if before:
                last = before[-1]
                count += sum(i == last or finish[i] > start[last] for i in before)
    return count


def run(quick: bool) -> BenchmarkResult:
    scale = 10 if quick else 1
    workload = log(JOBS // scale, USERS)
    table = ResultTable(
        "Session graphs of a log as large as KTH-SP2",
        {
            "sessions by": "s",
            "sessions": ",d",
            "edges": ",d",
            "direct [s]": ".3f",
            "SessionGraphs [s]": ".3f",
            "ratio": ".0f",
        },
        note="direct: every pair of sessions of a user, in Python",
    )
    result = BenchmarkResult(tables=[table])
    for name, threshold in (("a0", 0.0), ("a60", 3600.0)):
        slow, answer = side_by_side({"direct": lambda t=threshold: direct_edges(workload, t)}, 1)
        fast, graphs = side_by_side(
            {"graphs": lambda t=threshold: SessionGraphs.from_log(workload, threshold=t)}, 5
        )
        built = graphs["graphs"]
        edges = len(built.predecessors)
        if edges != answer["direct"]:
            result.failures.append(
                f"sessions: {name} has {edges} edges, {answer['direct']} by the definition"
            )
        seconds = fast["graphs"]
        table.rows.append(
            [name, len(built.partition), edges, slow["direct"], seconds, slow["direct"] / seconds]
        )
        result.goals.append(
            Goal(
                f"session graphs {name}",
                f"< {GOAL:.0f} s",
                f"{seconds:.3f} s",
                None if quick else seconds < GOAL,
            )
        )
    return result
