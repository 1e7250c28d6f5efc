"""The 18 simulations of the KTH log in "Replay with feedback", with the published figures.

Madon, Da Costa and Pierson, "Replay with feedback: how does the performance of HPC system impact
user submission behavior?", Future Generation Computer Systems 155 (2024). The figures of a run are
computed here from its tables by the paper's Definitions 11 to 13 and equations 3, 4 and 6, without
`twinloop.metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

import twinloop as tl

LOG = "swf/KTH-SP2-1996-2.1-cln.swf.gz"
DAY = 86_400.0


class ReplayExperiment(NamedTuple):
    nodes: int
    policy: str
    speed: float


EXPERIMENTS = {
    "EASY": ReplayExperiment(100, "easy", 1.0),
    "FCFS": ReplayExperiment(100, "fcfs", 1.0),
    "perf*2": ReplayExperiment(100, "easy", 2.0),
    "perf/2": ReplayExperiment(100, "easy", 0.5),
    "infra*2": ReplayExperiment(200, "easy", 1.0),
    "infra/2": ReplayExperiment(50, "easy", 1.0),
}

#: How jobs are submitted: as recorded, or by sessions with this threshold in seconds.
REPLAYS = {"rigid": None, "a0": 0.0, "a60": 3600.0}


class Row(NamedTuple):
    """A row of Tables 1 and 2: all in days, but the additional lateness in seconds."""

    makespan: float
    wait_mean: float
    wait_max: float
    lateness: float | None = None
    relative: float | None = None
    additional: float | None = None


RECORDED = Row(332.93, 0.18, 11.34)

PUBLISHED = {
    ("EASY", "rigid"): Row(332.91, 0.07, 4.07),
    ("EASY", "a0"): Row(366.14, 0.06, 5.06, -3.36, 0.99, -20.39),
    ("EASY", "a60"): Row(366.67, 0.07, 6.11, -4.47, 0.99, -27.12),
    ("FCFS", "rigid"): Row(333.10, 4.51, 11.79),
    ("FCFS", "a0"): Row(457.89, 0.29, 4.95, 32.66, 1.10, 198.18),
    ("FCFS", "a60"): Row(454.41, 0.47, 4.47, 26.31, 1.08, 159.64),
    ("perf*2", "rigid"): Row(332.91, 0.01, 1.34),
    ("perf*2", "a0"): Row(332.57, 0.01, 1.82, -12.40, 0.96, -75.27),
    ("perf*2", "a60"): Row(332.61, 0.01, 1.44, -13.31, 0.96, -80.79),
    ("perf/2", "rigid"): Row(471.85, 31.84, 141.34),
    ("perf/2", "a0"): Row(635.97, 0.46, 10.70, 46.10, 1.14, 279.75),
    ("perf/2", "a60"): Row(630.28, 0.62, 10.26, 43.54, 1.13, 264.24),
    ("infra*2", "rigid"): Row(332.91, 0.00, 0.54),
    ("infra*2", "a0"): Row(332.63, 0.00, 0.81, -8.65, 0.97, -52.48),
    ("infra*2", "a60"): Row(332.65, 0.00, 0.56, -9.32, 0.97, -56.57),
    ("infra/2", "rigid"): Row(386.70, 4.15, 58.87),
    ("infra/2", "a0"): Row(472.93, 0.27, 7.43, 16.48, 1.05, 99.99),
    ("infra/2", "a60"): Row(472.45, 0.35, 7.31, 14.91, 1.04, 90.48),
}

#: Fig. 5(c): 10th, 50th and 90th percentile over users of the additional lateness (s), a60.
PUBLISHED_PERCENTILES = {
    "FCFS": (-5, 8775, 44525),
    "EASY": (-17980, -699, 918),
    "perf*2": (-26247, -2186, -49),
    "infra*2": (-25321, -1553, -18),
    "perf/2": (0, 10485, 47168),
    "infra/2": (-8695, 2586, 19434),
}

#: Section 7.1, from the earliest to the latest submissions.
PUBLISHED_ORDER = ("perf*2", "infra*2", "EASY", "infra/2", "FCFS", "perf/2")


@dataclass(frozen=True)
class ReplayRun:
    """The jobs that ran in one simulation, in the order of the log."""

    nodes: int
    jobs: pl.DataFrame
    rejected: int

    @classmethod
    def of(cls, trace: tl.Trace, nodes: int) -> ReplayRun:
        ran = trace.placements.group_by("task").agg(
            pl.col("start").min(), pl.col("end").max(), pl.col("cores").sum()
        )
        jobs = trace.tasks.select(
            "id", "user", "submit", recorded=pl.coalesce("submit_recorded", "submit")
        ).join(ran, left_on="id", right_on="task", maintain_order="left")
        return cls(nodes, jobs, int((trace.tasks["status"] == "rejected").sum()))

    @cached_property
    def row(self) -> Row:
        jobs = self.jobs
        waits = jobs["start"] - jobs["submit"]
        lateness = float((jobs["submit"] - jobs["recorded"]).mean())
        length = jobs["recorded"].max() - jobs["recorded"].min()
        return Row(
            makespan=(jobs["end"].max() - jobs["submit"].min()) / DAY,
            wait_mean=waits.mean() / DAY,
            wait_max=waits.max() / DAY,
            lateness=lateness / DAY,
            relative=1 + lateness / length,
            additional=2 * lateness / (jobs.height - 1),
        )

    @cached_property
    def users(self) -> pl.DataFrame:
        """Jobs, mean lateness (d) and additional lateness (s) of each user; null for one job."""
        late = pl.col("submit") - pl.col("recorded")
        return (
            self.jobs.group_by("user", maintain_order=True)
            .agg(pl.len().alias("jobs"), late.mean().alias("lateness"))
            .with_columns(
                additional=pl.when(pl.col("jobs") > 1).then(
                    2 * pl.col("lateness") / (pl.col("jobs").cast(pl.Float64) - 1)
                ),
                lateness=pl.col("lateness") / DAY,
            )
        )

    def window(self, months: int) -> tuple[float, float]:
        """Fig. 9: jobs ended per day, and the mean of busy nodes, from two weeks on."""
        begin = self.jobs["submit"].min() + 14 * DAY
        end = begin + months * 30 * DAY
        start, stop = self.jobs["start"].to_numpy(), self.jobs["end"].to_numpy()
        ended = np.count_nonzero((begin <= stop) & (stop < end))
        inside = np.clip(np.minimum(stop, end) - np.maximum(start, begin), 0.0, None)
        busy = float(inside @ self.jobs["cores"].to_numpy())
        return ended / (months * 30), busy / (end - begin)


def run(log: tl.Trace, name: str, replay: str, policy: str | None = None) -> ReplayRun:
    """Run one simulation, optionally with another policy."""
    nodes, usual, speed = EXPERIMENTS[name]
    threshold = REPLAYS[replay]
    users = {"sessions": {"by": "arrival", "threshold": threshold}}
    scenario = tl.Scenario(
        name=f"{name} {replay}",
        platform=f"{nodes}x1",
        workload=log,
        policy=policy or usual,
        source="rigid" if threshold is None else users,
        model={"speed_factor": speed},
    )
    return ReplayRun.of(tl.simulate(scenario), nodes)


def lengthen_slightly(log: tl.Trace, seed: int) -> tl.Trace:
    """The log with every run time up to one second longer."""
    more = np.random.default_rng(seed).uniform(0.0, 1.0, log.tasks.height)
    tasks = log.tasks.with_columns(run_time=pl.col("run_time") + pl.Series(more))
    return log.replace(tasks=tasks)


def select_first_jobs(log: tl.Trace, count: int) -> tl.Trace:
    """Return the log of the first jobs only, for Fig. 11."""
    tasks = log.tasks.sort("submit", maintain_order=True).head(count)
    placements = log.placements.join(tasks, left_on="task", right_on="id", how="semi")
    return log.replace(tasks=tasks, placements=placements)
