"""Lateness: equations 3, 4 and 6 of Madon, Da Costa and Pierson (2024), written out."""

import pytest
from hypothesis import given

from tests.metrics.traces import hand_made, runs
from twinloop.metrics import figures, per_user
from twinloop.trace import Trace


def equations(jobs: list[tuple[float, float]]) -> tuple[float, float | None, float | None]:
    """Of (submission in the replay, in the record) of each job: the three measures."""
    n = len(jobs)
    mean = 1 / n * sum(replayed - recorded for replayed, recorded in jobs)
    recorded = sorted(recorded for _, recorded in jobs)
    length = recorded[n - 1] - recorded[0]
    relative = 1 + mean / length if length else None
    additional = 2 / (n * (n - 1)) * sum(r - a for r, a in jobs) if n > 1 else None
    return mean, relative, additional


@given(runs())
def test_lateness_is_that_of_the_equations(trace: Trace) -> None:
    ran = trace.tasks.filter(trace.tasks["status"].ne_missing("rejected"))
    jobs = ran.select("submit", "submit_recorded").rows()
    found = figures(trace).lateness
    if not jobs:
        assert found is None
    else:
        assert found is not None
        assert found.tasks == len(jobs)
        assert (found.mean, found.relative, found.additional) == pytest.approx(equations(jobs))


@given(runs())
def test_lateness_per_user_counts_the_jobs_of_that_user(trace: Trace) -> None:
    ran = trace.tasks.filter(trace.tasks["status"].ne_missing("rejected"))
    users = per_user(trace)
    assert users["jobs"].sum() == ran.height
    assert users["tasks"].sum() == trace.tasks.height
    assert users["user"].n_unique() == users.height
    for row in users.iter_rows(named=True):
        jobs = ran.filter(ran["user"].eq_missing(row["user"]))
        measures = [row[f"lateness_{name}"] for name in ("mean", "relative", "additional")]
        if jobs.height:
            expected = equations(jobs.select("submit", "submit_recorded").rows())
            assert measures == pytest.approx(list(expected))
        else:
            assert measures == [None, None, None]


def test_users_worked_out_by_hand() -> None:
    users = per_user(hand_made())
    assert users.select("user", "tasks", "jobs", "wait_mean", "wait_max").rows() == [
        ("u", 2, 2, 4.0, 8.0),
        ("v", 2, 1, 8.0, 8.0),
    ]
    lateness = users.select("lateness_mean", "lateness_relative", "lateness_additional").rows()
    assert lateness == [(3.0, 1.3, 6.0), (0.0, None, None)]


def test_a_log_without_recorded_submissions_has_no_lateness() -> None:
    trace = hand_made()
    log = trace.replace(tasks=trace.tasks.drop("submit_recorded"))
    assert figures(log).lateness is None
    assert per_user(log)["lateness_mean"].null_count() == 2
