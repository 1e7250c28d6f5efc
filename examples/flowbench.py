"""Repetitions of real workflows: their noise, their replay, and simple predictions of makespans.

The runs are public (FlowBench), but not part of this repository. Each class of runs is a workflow
with the same cores or disk bandwidth withheld from some containers. All schedules here are made by
the function `schedule`, in plain Python, and not by the simulator: a baseline and an oracle for it.

python examples/flowbench.py RUNS WORKFLOW=DAG [WORKFLOW=DAG...]
"""

import argparse
import heapq
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import twinloop as tl
from twinloop.fidelity import estimate_ideal_errors, group_repetitions

#: The site of jobs that run on the submit host and take no core of a container.
SUBMIT_HOST = "local"
CORES_PER_CONTAINER = 4
#: A job that starts up to this long (s) after its submission waited for a negotiation, not a core.
NEGOTIATION = 30.0
#: Delays (s) of jobs in the absence of recorded ones: from ready to submission, from a free core
#: to the start, from the end until the children are ready, from submission on the submit host.
BEFORE, START, AFTER, LOCAL_START = 5.3, 3.0, 5.0, 0.5
#: Delay (s) from a free core to the start of a job that waited for it.
REUSE = 1.0
#: The manager sees the end of a job up to 5 s after its core is free, by 2.5 s on average.
SEEN_LATE = 2.5


class Job(NamedTuple):
    """A job of a run: its length, its delays, whether it takes a core, and its parents (rows)."""

    length: float
    before: float
    start: float
    after: float
    takes_core: bool
    parents: tuple[int, ...]


def list_jobs(run: tl.Trace) -> dict[str, Job]:
    """List the jobs of a run in the order of its dependencies, with their recorded delays."""
    rows = {name: row for row, name in enumerate(run.tasks["id"])}
    joined = run.tasks.join(run.placements, left_on="id", right_on="task").join(
        run.task_times, left_on="id", right_on="task"
    )
    jobs = {}
    for each in joined.iter_rows(named=True):
        takes_core = each["partition"] != SUBMIT_HOST
        waited = each["start"] - each["ready"] - each["before"]
        jobs[each["id"]] = Job(
            length=each["end"] - each["start"],
            before=each["before"],
            start=REUSE if takes_core and waited > NEGOTIATION else waited,
            after=each["after"],
            takes_core=takes_core,
            parents=tuple(rows[name] for name in each["parents"]),
        )
    return {name: jobs[name] for name in rows}


def schedule(
    jobs: Sequence[Job], cores: int, *, first: Sequence[int] | None = None, late: float = 0.0
) -> float:
    """Schedule jobs on equal cores as soon as possible, and return the makespan.

    A job that gets a core holds it for its delay and its length, except for the last `late`
    seconds. Waiting jobs are taken by the time of their submission, then by row; with `first`,
    the one with the lowest value.

    >>> two = [Job(10, 5, 1, 5, True, ()), Job(20, 5, 1, 5, True, ())]
    >>> schedule(two, cores=2), schedule(two, cores=1), schedule(two, cores=1, late=2)
    (31.0, 42.0, 40.0)
    >>> schedule([*two, Job(3, 1, 0, 0, False, (0, 1))], cores=2)
    35.0
    """
    children: list[list[int]] = [[] for _ in jobs]
    missing = [len(job.parents) for job in jobs]
    for row, job in enumerate(jobs):
        for parent in job.parents:
            children[parent].append(row)
    events = [(job.before, row, "submit") for row, job in enumerate(jobs) if not job.parents]
    heapq.heapify(events)
    waiting: list[tuple[float, int]] = []
    makespan, free = 0.0, cores
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, row, event = heapq.heappop(events)
            job = jobs[row]
            if event == "submit" and job.takes_core:
                heapq.heappush(waiting, (now if first is None else first[row], row))
            elif event == "submit":
                heapq.heappush(events, (now + job.start + job.length + job.after, row, "done"))
            elif event == "release":
                free += 1
            else:
                makespan = max(makespan, now)
                for child in children[row]:
                    missing[child] -= 1
                    if not missing[child]:
                        heapq.heappush(events, (now + jobs[child].before, child, "submit"))
        while waiting and free:
            row = heapq.heappop(waiting)[1]
            job, free = jobs[row], free - 1
            end = now + job.start + job.length
            heapq.heappush(events, (max(now, end - late), row, "release"))
            heapq.heappush(events, (end + job.after, row, "done"))
    return float(makespan)


def count_cores(run: tl.Trace) -> int:
    """Count the cores of the containers that a run used."""
    placed = run.placements.join(run.tasks, left_on="task", right_on="id")
    on_containers = placed.filter(pl.col("partition") != SUBMIT_HOST)
    return CORES_PER_CONTAINER * on_containers["machine"].n_unique()


def replay(jobs: Mapping[str, Job], cores: int) -> float:
    """Return the makespan with all lengths and delays of the run itself."""
    return schedule(list(jobs.values()), cores, late=SEEN_LATE)


def replay_by_other_rules(run: tl.Trace, cores: int) -> dict[str, float]:
    """Return the makespans of replays in which one rule is different."""
    jobs = list_jobs(run)
    by_id, by_line = (list_jobs(run.replace(tasks=run.tasks.sort(key))) for key in ("id", "line"))
    queued = {
        name: job._replace(before=job.before + job.start, start=0.0) for name, job in jobs.items()
    }
    local = {name: job._replace(takes_core=True) for name, job in jobs.items()}
    return {
        "ties by id": replay(by_id, cores),
        "ties by line": replay(by_line, cores),
        "delay before queue": replay(queued, cores),
        "local jobs on cores": replay(local, cores),
        "a core less": replay(jobs, cores - 1),
        "end as seen": schedule(list(jobs.values()), cores),
        "usual delays": simulate_usual_delays(jobs, cores),
    }


def simulate_usual_delays(jobs: Mapping[str, Job], cores: int) -> float:
    """Return the makespan with the lengths of a run and the same delays for all jobs."""
    usual = [
        job._replace(before=BEFORE, start=START if job.takes_core else LOCAL_START, after=AFTER)
        for job in jobs.values()
    ]
    return schedule(usual, cores, late=SEEN_LATE)


def schedule_mean_lengths(
    jobs: Mapping[str, Job], others: Sequence[Mapping[str, Job]], cores: int
) -> float:
    """Return the makespan of list scheduling with mean lengths, by id, without any delay.

    All jobs take a core. It is the crude baseline that any simulator has to beat.
    """
    order = {name: place for place, name in enumerate(sorted(jobs))}
    crude = [
        Job(float(np.mean([other[name].length for other in others])), 0, 0, 0, True, job.parents)
        for name, job in jobs.items()
    ]
    return schedule(crude, cores, first=[order[name] for name in jobs])


def compare(runs: Sequence[tl.Trace]) -> dict[str, float]:
    """Compare makespans of repetitions with schedules: errors as shares, and the coverage.

    - `replay`: all lengths and delays of the run itself.
    - `crude`: list scheduling with the mean lengths of the other runs.
    - `others`: the mean of the makespans with all lengths of one of the other runs, and the usual
      delays. `covered`: runs between the 5 % and the 95 % quantile of these makespans.
    """
    jobs = [list_jobs(run) for run in runs]
    real = np.array([run.manifest.facts["makespan"] for run in runs])
    cores = max(map(count_cores, runs))
    alone = np.array([simulate_usual_delays(each, cores) for each in jobs])
    replayed, crude, mean, covered = [], [], [], 0
    for row, each in enumerate(jobs):
        others = np.delete(alone, row)
        replayed.append(replay(each, cores))
        crude.append(schedule_mean_lengths(each, jobs[:row] + jobs[row + 1 :], cores))
        mean.append(others.mean())
        low, high = np.quantile(others, [0.05, 0.95])
        covered += bool(low <= real[row] <= high)
    errors = {
        name: float(np.mean(np.abs(np.array(simulated) - real) / real))
        for name, simulated in (("replay", replayed), ("crude", crude), ("others", mean))
    }
    return {**errors, "covered": covered}


def unpack(source: Path, folder: Path) -> Path:
    """Return the folder of the runs; an archive is unpacked into `folder`."""
    if source.is_dir():
        return source
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_runs(folder: Path, dags: Mapping[str, str]) -> list[tl.Trace]:
    """Read all runs in a folder, each with the dependencies of its workflow."""
    runs = []
    for file in sorted(folder.rglob("*.csv*")):
        dag = next((dags[name] for name in dags if file.name.startswith(f"{name}-run")), None)
        if dag is None:
            raise SystemExit(f"{file.name}: no dependencies are given for its workflow")
        runs.append(tl.read(file, dag=dag))
    return runs


def format_range(values: Sequence[float], digits: int = 0) -> str:
    """Format the least and the greatest of some values, or the only one.

    >>> format_range([5, 10, 5]), format_range([2.0, 2.0])
    ('5-10', '2')
    """
    ends = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return ends[0] if ends[0] == ends[1] else "-".join(ends)


def describe(runs: Sequence[tl.Trace]) -> str:
    """Describe each class of runs in a row: errors in %."""
    names = (
        *("class", "runs", "jobs", "slow", "clock s", "makespan s", "ideal", "per job"),
        *("replay", "crude", "others", "covered"),
    )
    rows = [names]
    for labels, group in group_repetitions(runs).items():
        makespans = [run.manifest.facts["makespan"] for run in group]
        offsets = [max(run.manifest.facts.get("clock_offsets", {"": 0}).values()) for run in group]
        slow = [len(run.manifest.facts.get("anomalies", ())) for run in group]
        ideal, errors = estimate_ideal_errors(group), compare(group)
        shares = (ideal.makespan, ideal.average_tasks("compute") or 0.0)
        rows.append(
            (
                " ".join(dict(labels)[name] for name in ("workflow", "anomaly")),
                str(len(group)),
                format_range([run.tasks.height for run in group]),
                format_range(slow),
                f"{min(offsets):.0f}..{max(offsets):.0f}",
                f"{min(makespans):.0f}-{np.mean(makespans):.0f}-{max(makespans):.0f}",
                *(f"{100 * each:.2f}" for each in shares),
                *(f"{100 * errors[name]:.2f}" for name in ("replay", "crude", "others")),
                f"{errors['covered']:.0f}",
            )
        )
    return format_table(rows)


def describe_rules(runs: Sequence[tl.Trace]) -> str:
    """Describe what each rule of the replay is worth: errors in % with another in its place."""
    rows: list[tuple[str, ...]] = []
    for labels, group in group_repetitions(runs).items():
        cores = max(map(count_cores, group))
        real = np.array([run.manifest.facts["makespan"] for run in group])
        others = [replay_by_other_rules(run, cores) for run in group]
        names = list(others[0])
        shares = [np.array([each[name] for each in others]) / real - 1 for name in names]
        rows = rows or [("class", *names)]
        title = " ".join(dict(labels)[name] for name in ("workflow", "anomaly"))
        rows.append((title, *(f"{100 * np.abs(each).mean():.2f}" for each in shares)))
    return format_table(rows)


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows, the first column to the left and the others to the right.

    >>> print(format_table([("class", "runs"), ("normal", "40")]))
    class   runs
    normal    40
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=Path, help="folder with the runs, or their archive")
    parser.add_argument("dags", nargs="+", metavar="WORKFLOW=DAG", help="dependencies by workflow")
    args = parser.parse_args()
    dags = dict(each.split("=", 1) for each in args.dags)
    with tempfile.TemporaryDirectory() as folder:
        runs = read_runs(unpack(args.runs, Path(folder)), dags)
    print(describe(runs))
    print("\nReplay with another rule:\n")
    print(describe_rules(runs))


if __name__ == "__main__":
    main()
