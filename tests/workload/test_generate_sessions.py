"""The sessions generator: pauses, absences, days and nights."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twinloop.workload.generators import SessionTasks


def by_user(tasks: pl.DataFrame) -> dict[str, np.ndarray]:
    return {
        user: own["submit"].to_numpy()
        for (user,), own in tasks.group_by("user", maintain_order=True)
    }


@given(
    tasks=st.integers(1, 200),
    users=st.integers(1, 12),
    days=st.floats(0.01, 30),
    size=st.floats(1, 20),
    think_time=st.floats(1, 1e5),
    threshold=st.floats(1, 1e4),
    resolution=st.sampled_from(["s", "ms", "exact"]),
    seed=st.integers(0, 10**6),
)
def test_the_threshold_finds_the_generated_sessions(
    tasks: int,
    users: int,
    days: float,
    size: float,
    think_time: float,
    threshold: float,
    resolution: str,
    seed: int,
) -> None:
    """Without think times, the tasks of a session have the same submission time."""
    description = SessionTasks(
        tasks=tasks,
        users=users,
        days=days,
        session_size=size,
        think_time=think_time,
        threshold=threshold,
        resolution=resolution,  # type: ignore[arg-type]
    )
    made = description.generate(seed).tasks
    assert made.height == tasks
    together = description.model_copy(update={"think_time": 1e-9}).generate(seed).tasks
    begins = by_user(together)
    for user, own in by_user(made).items():
        gaps = np.diff(own)
        assert np.count_nonzero(gaps >= threshold) == np.count_nonzero(np.diff(begins[user]) > 0.5)


def test_session_sizes_are_geometric() -> None:
    """A session of mean 5 ends after each task with a probability of 1/5."""
    made = SessionTasks(tasks=50_000, users=1, days=10_000, session_size=5).generate(1).tasks
    gaps = np.diff(made["submit"].to_numpy())
    ends = (gaps >= 3600).mean()
    assert abs(ends - 0.2) < 5 * math.sqrt(0.2 * 0.8 / gaps.size)


def test_pauses_are_exponential_up_to_the_threshold() -> None:
    made = SessionTasks(
        tasks=50_000, users=1, days=10_000, session_size=50, think_time=1000, resolution="exact"
    )
    gaps = np.diff(made.generate(1).tasks["submit"].to_numpy())
    pauses = gaps[gaps < 3600]
    for x in (100, 500, 1500, 3000):
        p = (1 - math.exp(-x / 1000)) / (1 - math.exp(-3.6))
        assert abs((pauses < x).mean() - p) < 5 * math.sqrt(p * (1 - p) / pauses.size)


@pytest.mark.parametrize("activity", [0.0, 1.0, 1.7])
def test_users_share_the_tasks_by_zipf(activity: float) -> None:
    made = SessionTasks(tasks=10_000, users=30, activity=activity).generate(1).tasks
    counts = dict(made["user"].value_counts().iter_rows())
    whole = sum(rank**-activity for rank in range(1, 31))
    for rank in range(1, 31):
        assert abs(counts[f"user{rank}"] - 10_000 * rank**-activity / whole) < 1


@pytest.mark.parametrize("night", [0.0, 0.1, 1.0])
def test_sessions_begin_by_day(night: float) -> None:
    """One session per user, so no session is delayed: the share by day follows from `night`."""
    made = (
        SessionTasks(tasks=40_000, users=40_000, activity=0, days=50, night=night).generate(1).tasks
    )
    submit = made["submit"].to_numpy()
    by_day = (submit % 86400 >= 8 * 3600) & (submit % 86400 < 18 * 3600)
    p = 10 / (10 + 14 * night)
    assert abs(by_day.mean() - p) <= 5 * math.sqrt(p * (1 - p) / submit.size)
    days = np.bincount((submit // 86400).astype(int))
    assert days.size == 50
    assert np.all(np.abs(days - 800) < 5 * math.sqrt(800))


@given(days=st.floats(0.001, 3), seed=st.integers(0, 1000), night=st.floats(0, 1))
def test_the_first_session_begins_within_the_days(days: float, seed: int, night: float) -> None:
    assume(night > 0 or days * 24 > 8)
    made = SessionTasks(tasks=50, users=50, activity=0, days=days, night=night).generate(seed)
    submit = made.tasks["submit"]
    assert 0 <= submit.min() <= submit.max() <= days * 86400 + 1e-6


def test_each_user_has_cores_and_a_length_of_their_own() -> None:
    made = SessionTasks(tasks=5000, users=10, cv=0).generate(1).tasks
    own = made.group_by("user").agg(
        pl.col("requested_cores").n_unique(), pl.col("run_time").n_unique()
    )
    assert own["requested_cores"].to_list() == [1] * 10
    assert own["run_time"].to_list() == [1] * 10
    assert made["run_time"].n_unique() == 10


def test_the_mean_length_is_that_of_all_users() -> None:
    run = SessionTasks(tasks=50_000, users=50_000, activity=0).generate(1).tasks["run_time"]
    # Two independent lognormal factors, each of relative variance 1.
    assert abs(run.mean() - 600) < 5 * 600 * math.sqrt((2 * 2 - 1) / 50_000)
