"""Session partitions, compared with a direct implementation of the definitions."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.description.errors import InputError
from twinloop.trace.trace import Trace
from twinloop.workload import Workload, find_sessions

# Few distinct times, so that equal ones and jobs without length are common.
seconds = st.integers(0, 12).map(float)
jobs = st.lists(
    st.tuples(st.sampled_from(["ann", "bob", None]), seconds, seconds, seconds), max_size=14
)
ways = st.sampled_from(["arrival", "last", "max"])


def log(rows):
    """A log of (user, submit, wait, run)."""
    tasks = [(str(i), user, submit, 1.0, run) for i, (user, submit, _, run) in enumerate(rows)]
    ends = [(str(i), s + w, s + w + r) for i, (_, s, w, r) in enumerate(rows)]
    columns = {"id": pl.String, "user": pl.String, "submit": pl.Float64}
    return Trace(
        tasks=pl.DataFrame(
            tasks,
            schema=columns | {"requested_cores": pl.Float64, "run_time": pl.Float64},
            orient="row",
        ),
        placements=pl.DataFrame(
            ends,
            schema={"task": pl.String, "start": pl.Float64, "end": pl.Float64},
            orient="row",
        ),
    )


def direct(rows, by, threshold):
    """Sessions as lists of job numbers, user by user, one job after the other."""
    users = {}
    for i, (user, submit, wait, run) in enumerate(rows):
        users.setdefault(("?", i) if user is None else user, []).append(
            (submit, i, submit + wait + run)
        )
    found = []
    for mine in users.values():
        mine.sort()
        sessions = [[mine[0]]]
        for job in mine[1:]:
            now = sessions[-1]
            since = {"arrival": now[-1][0], "last": now[-1][2], "max": max(j[2] for j in now)}
            if job[0] - since[by] >= threshold:
                sessions.append([job])
            else:
                now.append(job)
        found += [[i for _, i, _ in session] for session in sessions]
    return found


def as_lists(found):
    bounds = zip(found.offsets, found.offsets[1:], strict=False)
    return [found.jobs[a:b].tolist() for a, b in bounds]


@given(jobs, ways, st.integers(0, 8))
def test_sessions_are_those_of_the_definition(rows, by, threshold):
    found = find_sessions(log(rows), by=by, threshold=threshold)
    assert as_lists(found) == direct(rows, by, threshold)


@given(jobs, ways, st.integers(0, 8))
def test_sessions_are_a_partition_into_consecutive_jobs(rows, by, threshold):
    found = find_sessions(log(rows), by=by, threshold=threshold)
    assert sorted(found.jobs.tolist()) == list(range(len(rows)))
    for session, members in enumerate(as_lists(found)):
        assert len({rows[i][0] for i in members}) == 1
        submits = [rows[i][1] for i in members]
        assert submits == sorted(submits)
        assert found.start[session] == submits[0]
        assert found.finish[session] == max(sum(rows[i][1:]) for i in members)


@given(jobs)
def test_a_threshold_of_zero_between_arrivals_gives_sessions_of_one_job(rows):
    assert len(find_sessions(log(rows), by="arrival", threshold=0)) == len(rows)


def test_a_gap_equal_to_the_threshold_starts_a_new_session():
    rows = [("ann", 0.0, 0.0, 5.0), ("ann", 10.0, 0.0, 100.0), ("ann", 14.0, 0.0, 1.0)]
    assert as_lists(find_sessions(log(rows), by="arrival", threshold=10)) == [[0], [1, 2]]
    assert as_lists(find_sessions(log(rows), by="last", threshold=5)) == [[0], [1, 2]]
    assert as_lists(find_sessions(log(rows), by="arrival", threshold=10.1)) == [[0, 1, 2]]


def test_a_long_job_counts_for_max_but_not_for_last():
    rows = [("ann", 0.0, 0.0, 50.0), ("ann", 1.0, 0.0, 1.0), ("ann", 12.0, 0.0, 1.0)]
    assert as_lists(find_sessions(log(rows), by="last", threshold=10)) == [[0, 1], [2]]
    assert as_lists(find_sessions(log(rows), by="max", threshold=10)) == [[0, 1, 2]]


def test_a_job_without_a_record_takes_the_time_of_its_work():
    # Work over limit, the length of the fragments (not their work over their highest rate), and
    # the recorded run time where there is one.
    workload = Workload(
        tasks=pl.DataFrame(
            {
                "id": ["1", "2", "3"],
                "user": ["ann"] * 3,
                "submit": [0.0, 100.0, 200.0],
                "cores": [2.0] * 3,
                "work": [60.0, None, 60.0],
                "limit": [2.0, None, 2.0],
                "run_time": [None, None, 45.0],
            }
        ),
        fragments=pl.DataFrame({"task": ["2", "2"], "duration": [10.0, 30.0], "rate": [2.0, 0.5]}),
    )
    found = find_sessions(workload, by="max", threshold=60)
    assert found.end.tolist() == [30.0, 140.0, 245.0]
    assert as_lists(found) == [[0], [1], [2]]
    assert as_lists(find_sessions(workload, by="max", threshold=61)) == [[0], [1, 2]]
    assert [(n.kind, n.count) for n in found.cleaned] == [("assumed", 3)]


def test_missing_records_are_counted():
    tasks = pl.DataFrame(
        {
            "id": ["1", "2", "3"],
            "user": ["ann", None, None],
            "submit": [5.0, 5.0, 5.0],
            "requested_cores": [1.0] * 3,
            "run_time": [7.0] * 3,
        }
    )
    ends = pl.DataFrame({"task": ["2", "3"], "end": [9.0, 4.0]})
    found = find_sessions(Trace(tasks=tasks, placements=ends))
    assert found.finish.tolist() == [12.0, 9.0, 5.0]
    assert [(n.kind, n.count, n.examples) for n in found.cleaned] == [
        ("assumed", 1, ("1",)),
        ("repaired", 1, ("3",)),
        ("assumed", 2, ("2", "3")),
    ]


def test_a_workload_has_the_sessions_of_its_trace():
    trace = log([("ann", 0.0, 1.0, 2.0), ("ann", 9.0, 0.0, 1.0)])
    one, two = (find_sessions(x, threshold=5) for x in (trace, Workload.from_trace(trace)))
    assert as_lists(one) == as_lists(two)
    assert np.array_equal(one.finish, two.finish)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "first"}, "by: unknown delimitation 'first'"),
        ({"threshold": -1.0}, "threshold: -1.0 is not"),
        ({"threshold": float("nan")}, "threshold: nan is not"),
    ],
)
def test_an_invalid_delimitation_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        find_sessions(log([]), **options)


@pytest.mark.parametrize("by", ["arrival", "last", "max"])
def test_a_log_without_jobs_has_no_sessions(by):
    assert len(find_sessions(log([]), by=by)) == 0
