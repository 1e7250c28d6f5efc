"""User sessions: periods of continuous work, detected by the gaps between jobs.

The three methods are those of Zakay and Feitelson, "On identifying user session boundaries in
parallel workload logs" (JSSPP 2012). A job starts a new session if the time before its submission
is at least the threshold, measured

- `arrival`: from the submission of the job before it;
- `last`: from the end of the job before it;
- `max`: from the latest end of all jobs of the session so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import polars as pl

from twinloop.description.cleaning import Cleaning
from twinloop.description.errors import InputError
from twinloop.trace.trace import Trace
from twinloop.workload.cleaning_notes import note
from twinloop.workload.delimitation import Delimitation
from twinloop.workload.fragments import Floats, Rows
from twinloop.workload.workload import Workload


@dataclass(frozen=True, slots=True)
class SessionPartition:
    """The partition of the jobs of a log into sessions.

    Jobs are ordered by user, then by submission, then as in the log. Session s consists of the
    jobs from `offsets[s]` up to `offsets[s + 1]`. It starts with its first submission and finishes
    with its last end.

    >>> log = Trace(tasks=pl.DataFrame({
    ...     "id": ["1", "2", "3"], "user": ["ann"] * 3, "submit": [0.0, 60.0, 3660.0],
    ...     "requested_cores": [1.0] * 3, "run_time": [30.0] * 3}))
    >>> partition = find_sessions(log, by="arrival", threshold=3600)
    >>> partition.offsets.tolist(), partition.start.tolist(), partition.finish.tolist()
    ([0, 2, 3], [0.0, 3660.0], [90.0, 3690.0])
    """

    #: Row of each job in the workload.
    jobs: Rows
    ids: pl.Series
    submit: Floats
    end: Floats
    offsets: Rows
    start: Floats
    finish: Floats
    #: Names of the users; user u has the sessions from `user_offsets[u]` on.
    users: tuple[str, ...]
    user_offsets: Rows
    cleaned: tuple[Cleaning, ...]

    def __len__(self) -> int:
        return len(self.start)


def find_sessions(
    log: Trace | Workload, *, by: Delimitation = "arrival", threshold: float = 3600.0
) -> SessionPartition:
    """Partition the jobs of every user into sessions.

    Args:
        log: A trace, whose runnable jobs are used, or a workload.
        by: The start of the gap before a job.
        threshold: Minimum gap between two sessions (s).
    """
    if by not in get_args(Delimitation):
        choices = ", ".join(get_args(Delimitation))
        raise InputError(
            f"unknown delimitation {by!r}",
            kind="not-a-choice",
            field="by",
            remedy=f"one of: {choices}",
        )
    if not 0 <= threshold < float("inf"):
        raise InputError(
            f"{threshold} is not a finite, non-negative number of seconds",
            kind="out-of-range",
            field="threshold",
        )
    workload = log if isinstance(log, Workload) else Workload.from_trace(log)
    jobs, cleaned = _list_jobs(workload)
    users = jobs["first_row"].to_numpy()
    new_user = np.diff(users, prepend=-1) != 0
    starts_session = new_user | (_compute_gaps(jobs, by) >= threshold)
    begins = np.flatnonzero(starts_session)
    offsets = np.concatenate([begins, [jobs.height]]).astype(np.int64)
    end = jobs["end"].to_numpy()
    first_jobs = np.flatnonzero(new_user)
    return SessionPartition(
        jobs=jobs["row"].to_numpy(),
        ids=jobs["id"],
        submit=jobs["submit"].to_numpy(),
        end=end,
        offsets=offsets,
        start=jobs["submit"].to_numpy()[begins],
        finish=np.maximum.reduceat(end, begins) if len(begins) else np.zeros(0),
        users=tuple(jobs["user"].gather(first_jobs)),
        user_offsets=np.searchsorted(begins, [*first_jobs, jobs.height]).astype(np.int64),
        cleaned=cleaned,
    )


def _list_jobs(workload: Workload) -> tuple[pl.DataFrame, tuple[Cleaning, ...]]:
    """List row, id, user, submit and end of every job, in the order of `SessionPartition`."""
    tasks = workload.tasks
    recorded_end = tasks["end_recorded"]
    without_user = tasks["user"].is_null()
    ends_early = recorded_end < tasks["submit"]
    durations = pl.Series(workload.durations()).fill_nan(None)
    estimated_end = pl.col("submit") + pl.coalesce("run_time", durations, 0.0)
    jobs = tasks.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
        "id",
        pl.coalesce("user", pl.format("unknown ({})", "id")).alias("user"),
        pl.when(pl.col("user").is_null()).then("id").alias("anonymous"),
        "submit",
        pl.max_horizontal(pl.coalesce("end_recorded", estimated_end), "submit").alias("end"),
    )
    # Users are ordered by their first job in the log.
    jobs = jobs.with_columns(pl.col("row").first().over("user", "anonymous").alias("first_row"))
    jobs = jobs.sort("first_row", "submit", "row")
    return jobs, tuple(
        cleaning
        for cleaning in (
            note(
                "assumed",
                "jobs without a recorded end: it is set to submission plus run time",
                tasks["id"].filter(recorded_end.is_null()),
            ),
            note(
                "repaired",
                "jobs that ended before their submission: the end is set to the submission",
                tasks["id"].filter(ends_early),
            ),
            note(
                "assumed",
                "jobs of an unknown user: each gets a user of its own",
                tasks["id"].filter(without_user),
            ),
        )
        if cleaning.count
    )


def _compute_gaps(jobs: pl.DataFrame, by: Delimitation) -> Floats:
    """Compute the gap before each job (s); it is meaningless for the first job of a user."""
    submit = jobs["submit"].to_numpy()
    if by == "arrival":
        before = submit
    elif by == "last":
        before = jobs["end"].to_numpy()
    else:
        # All jobs of earlier sessions ended before this session: the latest end of the session is
        # the latest end of the user.
        before = jobs.select(pl.col("end").cum_max().over("first_row"))["end"].to_numpy()
    return np.concatenate([[0.0], submit[1:] - before[:-1]])[: len(submit)]
