"""Small logs for the schedulers: as lists, as Traces, and run in the simulator."""

from __future__ import annotations

import polars as pl
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.reference import Job, Outcome

# Small whole numbers, so that jobs meet in one instant; some take no time, some longer than asked.
seconds = st.integers(0, 8).map(float)
users = st.sampled_from(["ann", "bob", "cleo"])
priorities = st.integers(0, 3).map(float)
jobs = st.builds(Job, seconds, st.integers(1, 8), seconds, seconds, users, priorities)
logs = st.lists(jobs, min_size=1, max_size=12)
totals = st.integers(1, 8)


def trace(rows: list[Job], waits: list[float] | None = None) -> tl.Trace:
    """The rows as a log; with waits as one that says when they ran."""
    ids = [str(i) for i in range(len(rows))]
    tasks = pl.DataFrame(
        {
            "id": ids,
            "user": [job.user for job in rows],
            "queue": [queue(job) for job in rows],
            "submit": [job.submit for job in rows],
            "requested_cores": [float(job.cores) for job in rows],
            "requested_time": [job.requested for job in rows],
            "run_time": [job.run for job in rows],
        },
    )
    if waits is None:
        return tl.Trace(tasks=tasks)
    start = [job.submit + wait for job, wait in zip(rows, waits, strict=True)]
    end = [at + job.run for at, job in zip(start, rows, strict=True)]
    return tl.Trace(tasks=tasks, placements=pl.DataFrame({"task": ids, "start": start, "end": end}))


def queue(job: Job) -> str:
    return f"q{job.priority:.0f}"


def with_queues(total: int) -> dict:
    """A machine with a queue for each priority."""
    queues = [{"name": f"q{priority}", "priority": priority} for priority in range(4)]
    return {"clusters": [{"hosts": [{"count": total, "cores": 1}]}], "queues": queues}


def policy(name: str) -> dict:
    """The policy of a scenario that the reference's scheduler of this name stands for."""
    name, _, compressed = name.partition(", ")
    options = {"compress": bool(compressed)} if name == "conservative" else {}
    return {"name": name, "options": options}


def simulated(log: tl.Trace, total: int, name: str | dict, **parts) -> Outcome:
    """Submissions and starts in the simulator, by the row of the log."""
    parts = {"platform": f"{total}x1"} | parts
    told = policy(name) if isinstance(name, str) else name
    return outcome(tl.simulate(tl.Scenario(workload=log, policy=told, **parts)))


def outcome(run: tl.Trace) -> Outcome:
    first = run.placements.group_by("task").agg(pl.col("start").min())
    return Outcome(
        {int(i): at for i, at in run.tasks.select("id", "submit").iter_rows()},
        {int(i): at for i, at in first.iter_rows()},
    )
