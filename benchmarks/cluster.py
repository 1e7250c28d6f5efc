"""Batch systems: FCFS, EASY and conservative backfilling on whole logs, rigid and with feedback."""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import numpy as np
import plain
import polars as pl
import simpy
from logs import KTH_NODES, Jobs, compiled, finished, holding, kth, lublin, same, starts
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import Trace, simulate

FCFS_FASTER, EASY_FASTER = 10.0, 10.0
SECONDS = 1.0
FEEDBACK = 2.0
CORES = 128  # of the generated logs
QUEUES = (100, 1_000, 10_000)
DEPTH = 100
CONSERVATIVE = {1_000: 30_000}  # jobs per second by the length of the queue
CLUSTERS = (100, 400, 1_600)  # nodes
NODE_CORES = 16
HOUR = {"sessions": {"by": "arrival", "threshold": 3600.0}}


def with_simpy(jobs: Jobs, total: int) -> list[float]:
    """FCFS in SimPy: a process per job, a container of nodes."""
    env = simpy.Environment()
    nodes = simpy.Container(env, capacity=total, init=total)
    started = [0.0] * len(jobs)

    def job(number: int) -> Generator[Any, Any, None]:
        yield nodes.get(jobs.nodes[number])
        started[number] = env.now
        yield env.timeout(jobs.run[number])
        yield nodes.put(jobs.nodes[number])

    def arrivals() -> Generator[Any, Any, None]:
        for number, at in enumerate(jobs.submit):
            if at > env.now:
                yield env.timeout(at - env.now)
            env.process(job(number))

    env.process(arrivals())
    env.run()
    return started


def replay(result: BenchmarkResult, quick: bool) -> None:
    log = kth()
    platform = f"{KTH_NODES}x1"
    fcfs, easy = (compiled(log.trace, platform, policy) for policy in ("fcfs", "easy"))
    pool = compiled(log.trace, f"1x{KTH_NODES}", "fcfs")
    jobs = Jobs.of(fcfs)
    columns = (jobs.submit, jobs.nodes, jobs.run)
    contestants: dict[str, Callable[[], Any]] = {
        "fcfs": lambda: starts(fcfs),
        "fcfs, one machine": lambda: starts(pool),
        "fcfs, heap loop": lambda: plain.fcfs(*columns, KTH_NODES),
        "fcfs, short cut": lambda: plain.fcfs_in_one_pass(*columns, KTH_NODES),
        "fcfs, SimPy": lambda: with_simpy(jobs, KTH_NODES),
        "easy": lambda: starts(easy),
        "easy, plain": lambda: plain.easy(*columns, jobs.requested, KTH_NODES),
        "fcfs, Trace": lambda: simulate(fcfs),
        "easy, Trace": lambda: simulate(easy),
    }
    seconds, answers = side_by_side(contestants, 5 if quick else 15)
    table = ResultTable(
        f"{log.name}, {len(jobs):,} jobs on {KTH_NODES} nodes (thousand jobs per CPU second)",
        {
            "policy": "s",
            "compared with": "s",
            "theirs": ",.0f",
            "twinloop": ",.0f",
            "ratio": ".1f",
            "to a Trace": ",.0f",
        },
        note="twinloop: from the compiled scenario to the start of every job, on nodes that have "
        "names, or with one machine, which only counts as the plain loops do; to a Trace: with all "
        "tables.",
        rates=["twinloop", "to a Trace"],
    )
    for policy, peer, title, goal in (
        ("fcfs", "heap loop", "plain Python, heap of events", FCFS_FASTER),
        ("fcfs", "short cut", "plain Python, ends only, records nothing", None),
        ("fcfs", "SimPy", "SimPy, a process per job", None),
        ("easy", "plain", "plain Python", EASY_FASTER),
    ):
        theirs, ours = seconds[f"{policy}, {peer}"], seconds[policy]
        if not same(jobs, answers[f"{policy}, {peer}"], answers[policy]):
            result.failures.append(f"cluster: {policy}: {title} starts jobs at other times")
        rates = [len(jobs) / s / 1e3 for s in (theirs, ours, seconds[f"{policy}, Trace"])]
        table.rows.append([policy, title, *rates[:2], theirs / ours, rates[2]])
        if goal is not None:
            result.goals.append(
                Goal(
                    f"{policy} on {log.name} against {title}",
                    f"at least {goal:.0f}x",
                    f"{theirs / ours:.1f}x",
                    theirs / ours >= goal,
                )
            )
    if answers["fcfs, one machine"].tobytes() != answers["fcfs"].tobytes():
        result.failures.append("cluster: fcfs starts jobs at other times on one machine")
    theirs, ours = seconds["fcfs, heap loop"], seconds["fcfs, one machine"]
    rates = [len(jobs) / s / 1e3 for s in (theirs, ours)]
    table.rows.append(
        ["fcfs, one machine", "plain Python, heap of events", *rates, theirs / ours, None]
    )
    result.tables.append(table)


def whole_runs(result: BenchmarkResult, quick: bool) -> None:
    log = kth()
    count = 100_000 if quick else 1_000_000
    large = lublin(count, CORES, load=0.6)
    kept = {"name": "conservative", "options": {"compress": False}}
    scenarios = {
        f"{count:,} jobs of Lublin's model, fcfs": compiled(large, f"{CORES}x1", "fcfs"),
        f"the same, one machine of {CORES} cores": compiled(large, f"1x{CORES}", "fcfs"),
        f"{log.name}, conservative": compiled(log.trace, f"{KTH_NODES}x1", "conservative"),
        f"{log.name}, conservative, starts never move": compiled(log.trace, f"{KTH_NODES}x1", kept),
    }
    contestants = {name: partial(finished, each) for name, each in scenarios.items()}
    seconds, _ = side_by_side(contestants, 3 if quick else 7)
    table = ResultTable(
        "Whole runs (CPU seconds)",
        {"run": "s", "seconds": ".3f", "thousand jobs/s": ",.0f"},
        rates=["thousand jobs/s"],
    )
    for name, each in scenarios.items():
        table.rows.append([name, seconds[name], len(each.arrays) / seconds[name] / 1e3])
        decided = not (quick and each.trace is large)
        result.goals.append(
            Goal(
                name,
                f"under {SECONDS:.0f} s",
                f"{seconds[name]:.3f} s",
                seconds[name] < SECONDS if decided else None,
            )
        )
    result.tables.append(table)


def long_queues(result: BenchmarkResult, quick: bool) -> None:
    table = ResultTable(
        f"Backfilling behind a long queue, on {CORES} nodes (thousand jobs per CPU second)",
        {
            "queue": ",d",
            "mean": ",.0f",
            "jobs": ",d",
            "easy, plain Python": ",.1f",
            "easy": ",.1f",
            "ratio": ".1f",
            "conservative": ",.1f",
            f"of the first {DEPTH}": ",.1f",
        },
        note="mean: jobs that wait, averaged over the run of EASY; of the first: only these are "
        "planned (`depth`). What takes minutes is left out.",
        rates=["easy", "conservative", f"of the first {DEPTH}"],
    )
    cost = []
    for queue in QUEUES:
        log = holding(queue, 5 * max(queue, 800 if quick else 4_000), CORES)
        few = {"name": "conservative", "options": {"depth": DEPTH}}
        easy, every, first = (
            compiled(log, f"{CORES}x1", name) for name in ("easy", "conservative", few)
        )
        jobs = Jobs.of(easy)
        columns = (jobs.submit, jobs.nodes, jobs.run, jobs.requested)
        contestants: dict[str, Callable[[], Any]] = {
            "easy": partial(starts, easy),
            "first": partial(starts, first),
        }
        if queue < QUEUES[-1]:
            contestants["plain"] = partial(plain.easy, *columns, CORES)
        seconds, answers = side_by_side(contestants, 3 if quick else 5)
        if queue < QUEUES[-1]:
            seconds |= side_by_side({"every": partial(starts, every)}, 1)[0]
            if not same(jobs, answers["plain"], answers["easy"]):
                result.failures.append(f"cluster: queue of {queue}: plain EASY starts otherwise")
        waits = answers["easy"] - easy.arrays.submit
        mean = waits.sum() / finished(easy).kpis()["makespan_s"]
        rates = {name: len(jobs) / s / 1e3 for name, s in seconds.items()}
        ratio = rates["easy"] / rates["plain"] if "plain" in rates else None
        table.rows.append(
            [
                queue,
                mean,
                len(jobs),
                rates.get("plain"),
                rates["easy"],
                ratio,
                rates.get("every"),
                rates["first"],
            ]
        )
        cost.append(seconds["easy"] / len(jobs))
        if queue in CONSERVATIVE:
            rate = rates["every"] * 1e3
            result.goals.append(
                Goal(
                    f"conservative backfilling, {queue:,} waiting",
                    f"at least {CONSERVATIVE[queue]:,} jobs/s",
                    f"{rate:,.0f} jobs/s",
                    rate >= CONSERVATIVE[queue],
                )
            )
    result.tables.append(table)
    growth = np.polyfit(np.log(QUEUES), np.log(cost), 1)[0]
    result.goals.append(
        Goal(
            "EASY: cost per job by the length of the queue",
            "exponent under 1",
            f"{growth:.2f} ({cost[-1] / cost[0]:.1f}x from {QUEUES[0]} to {QUEUES[-1]:,})",
            bool(growth < 1),
        )
    )


def feedback(result: BenchmarkResult, quick: bool) -> None:
    log = kth()
    table = ResultTable(
        f"{log.name}, rigid and with users who wait, sessions of 60 min (CPU milliseconds)",
        {
            "policy": "s",
            "rigid": ".1f",
            "feedback": ".1f",
            "ratio": ".2f",
            "rigid, events": ",d",
            "feedback, events": ",d",
            "ratio per event": ".2f",
        },
        note="The same jobs, another schedule: users who wait keep the queue short.",
        costs=["rigid", "feedback"],
    )
    for policy in ("fcfs", "easy"):
        sources = {"rigid": "rigid", "feedback": HOUR}
        ready = {
            name: compiled(log.trace, f"{KTH_NODES}x1", policy, source=source)
            for name, source in sources.items()
        }
        contestants = {name: partial(finished, each) for name, each in ready.items()}
        seconds, runs = side_by_side(contestants, 7 if quick else 25)
        ratio = seconds["feedback"] / seconds["rigid"]
        events = {name: run.events for name, run in runs.items()}
        table.rows.append(
            [
                policy,
                seconds["rigid"] * 1e3,
                seconds["feedback"] * 1e3,
                ratio,
                events["rigid"],
                events["feedback"],
                ratio * events["rigid"] / events["feedback"],
            ]
        )
        result.goals.append(
            Goal(
                f"feedback against rigid replay, {policy}",
                f"at most {FEEDBACK:.0f}x",
                f"{ratio:.2f}x",
                ratio <= FEEDBACK,
            )
        )
    result.tables.append(table)


def asking_for_nodes(jobs: int, nodes: int) -> Trace:
    """Jobs of Lublin's model that request nodes, and 1 to 16 cores on each."""
    tasks = lublin(jobs, nodes, load=0.9).tasks
    each = pl.Series(np.random.default_rng(1).integers(1, NODE_CORES + 1, jobs))
    size = pl.col("requested_cores")
    return Trace(
        tasks=tasks.with_columns(requested_nodes=size.cast(pl.Int64), requested_cores=size * each)
    )


def by_nodes(result: BenchmarkResult, quick: bool) -> None:
    jobs = 1_000 if quick else 5_000
    policies = ("easy", "conservative")
    table = ResultTable(
        f"Jobs that ask for nodes of {NODE_CORES} cores (thousand jobs per CPU second)",
        {"nodes": ",d", "jobs": ",d", **dict.fromkeys(policies, ",.1f")},
        note="Jobs share nodes, so that a policy must find nodes and not only count them.",
        rates=policies,
    )
    for nodes in CLUSTERS:
        log = asking_for_nodes(jobs, nodes)
        ready = {name: compiled(log, f"{nodes}x{NODE_CORES}", name) for name in policies}
        contestants = {name: partial(finished, each) for name, each in ready.items()}
        seconds, runs = side_by_side(contestants, 2 if quick else 3)
        for name, run in runs.items():
            if run.kpis()["completed"] != jobs:
                result.failures.append(f"cluster: {name}, {nodes:,} nodes: not all jobs completed")
        table.rows.append([nodes, jobs, *(jobs / seconds[name] / 1e3 for name in policies)])
    result.tables.append(table)


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (
    replay,
    whole_runs,
    long_queues,
    by_nodes,
    feedback,
)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
