"""Small logs for the schedulers: as lists, as Traces, and run in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.reference import Job, Outcome

# Small whole numbers, so that jobs meet in one instant; some take no time, some longer than asked.
USERS = ["ann", "bob", "cleo"]
LONGEST, WIDEST, MOST = 8, 8, 12

seconds = st.integers(0, LONGEST).map(float)
users = st.sampled_from(USERS)
priorities = st.integers(0, 3).map(float)
jobs = st.builds(Job, seconds, st.integers(1, WIDEST), seconds, seconds, users, priorities, seconds)
logs = st.lists(jobs, min_size=1, max_size=MOST)
totals = st.integers(1, WIDEST)

#: Hypothesis finds small examples, hundreds of logs at once find rare ones.
few = settings(max_examples=max(1, settings.default.max_examples // 5))


def many(seed: str, count: int) -> list[list[Job]]:
    """As many random logs, of the same kind as `logs`."""
    rng = Random(seed)

    def second() -> float:
        return float(rng.randint(0, LONGEST))

    def job() -> Job:
        cores, user, priority = rng.randint(1, WIDEST), rng.choice(USERS), float(rng.randint(0, 3))
        return Job(second(), cores, second(), second(), user, priority, second())

    return [[job() for _ in range(rng.randint(1, MOST))] for _ in range(count)]


def trace(rows: Sequence[Job]) -> tl.Trace:
    """The rows as a log that says when they ran."""
    ids = [str(i) for i in range(len(rows))]
    start = [job.submit + job.wait for job in rows]
    return tl.Trace(
        tasks=pl.DataFrame(
            {
                "id": ids,
                "user": [job.user for job in rows],
                "queue": [f"q{job.priority:.0f}" for job in rows],
                "submit": [job.submit for job in rows],
                "requested_cores": [float(job.cores) for job in rows],
                "requested_time": [job.requested for job in rows],
                "run_time": [job.run for job in rows],
            }
        ),
        placements=pl.DataFrame(
            {
                "task": ids,
                "start": start,
                "end": [at + job.run for at, job in zip(start, rows, strict=True)],
            }
        ),
    )


def with_queues(total: int) -> dict:
    """A machine with a queue for each priority."""
    queues = [{"name": f"q{priority}", "priority": priority} for priority in range(4)]
    return {"clusters": [{"hosts": [{"count": total, "cores": 1}]}], "queues": queues}


def policy(name: str) -> dict:
    """The policy of a scenario that the reference's scheduler of this name stands for."""
    name, _, compressed = name.partition(", ")
    options = {"compress": bool(compressed)} if name == "conservative" else {}
    return {"name": name, "options": options}


def simulated(log: Sequence[Job], total: int, name: str | dict, **parts) -> Outcome:
    """Submissions and starts in the simulator, by the row of the log."""
    parts = {"platform": f"{total}x1"} | parts
    told = policy(name) if isinstance(name, str) else name
    return outcome(tl.simulate(tl.Scenario(workload=trace(log), policy=told, **parts)))


def outcome(run: tl.Trace) -> Outcome:
    first = run.placements.group_by("task").agg(pl.col("start").min())
    return Outcome(
        {int(i): at for i, at in run.tasks.select("id", "submit").iter_rows()},
        {int(i): at for i, at in first.iter_rows()},
    )


#: Nothing of one log is left when the next one begins.
APART = 10_000.0


def in_turn(several: list[list[Job]]) -> list[Job]:
    """All logs in one, one after the other, each with users of its own."""
    return [
        job._replace(submit=job.submit + APART * k, user=f"{job.user} {k}")
        for k, log in enumerate(several)
        for job in log
    ]


def taken_apart(whole: Outcome, several: list[list[Job]]) -> list[Outcome]:
    parts, first = [], 0
    for k, log in enumerate(several):
        rows = range(len(log))
        submit = {i: whole.submit[first + i] - APART * k for i in rows}
        start = {i: whole.start[first + i] - APART * k for i in rows if first + i in whole.start}
        assert max([*submit.values(), *start.values()]) < APART / 2
        parts.append(Outcome(submit, start))
        first += len(log)
    return parts


def compare(
    several: list[list[Job]],
    total: int,
    name: str | dict,
    reference: Callable[[list[Job]], Outcome | None],
    **parts,
) -> None:
    """One simulation of all logs in turn against the reference of each; None: it does not say."""
    whole = simulated(in_turn(several), total, name, **parts)
    check(several, [reference(log) for log in several], taken_apart(whole, several))


def compare_in_turn(
    several: list[list[Job]],
    total: int,
    name: str,
    reference: Callable[[list[Job]], Outcome],
    **parts,
) -> None:
    """The same, where the reference too runs all logs in turn."""
    whole = in_turn(several)
    expected = taken_apart(reference(whole), several)
    check(several, expected, taken_apart(simulated(whole, total, name, **parts), several))


def check(
    several: list[list[Job]], expected: Sequence[Outcome | None], found: list[Outcome]
) -> None:
    """Every outcome is as expected, or the shortest log of which it is not is shown."""
    cases = zip(several, expected, found, strict=True)
    wrong = [case for case in cases if case[1] is not None and case[1] != case[2]]
    if wrong:
        log, told, ours = min(wrong, key=lambda case: len(case[0]))
        rows = "\n".join(map(str, log))
        raise AssertionError(
            f"{len(wrong)} of {len(several)} logs; the shortest:\n{rows}\n"
            f"expected {told}\nfound    {ours}"
        )
