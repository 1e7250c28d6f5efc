"""Replay with feedback: against a literal transcription of the published algorithm.

Algorithm 1 of Madon, Da Costa and Pierson, "Replay with feedback: how does the performance of HPC
system impact user submission behavior?", Future Generation Computer Systems 155 (2024).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.logs import jobs, outcome, policy, seconds, simulated, totals, trace
from tests.cluster.reference import SCHEDULERS, Feedback, Job, replay
from twinloop.workload import SessionGraphs

# A job, and how long it waited in the record.
records = st.lists(st.tuples(jobs, seconds), min_size=1, max_size=12)
thresholds = st.integers(0, 4).map(float)
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)


def sessions(threshold):
    return {"sessions": {"by": "arrival", "threshold": threshold}}


def algorithm_1(rows, threshold, total):
    """The users of the transcription, over the graphs of all jobs that fit."""
    fitting = [i for i, (job, _) in enumerate(rows) if job.cores <= total]
    kept = [rows[i] for i in fitting]
    graphs = SessionGraphs.of(as_trace(kept), by="arrival", threshold=threshold)
    job_lists, edges = [], []
    for graph in graphs:
        first = len(job_lists)
        for names, submits in graph.sessions.select("jobs", "submits").iter_rows():
            job_lists.append([(at, fitting[int(n)]) for at, n in zip(submits, names, strict=True)])
        for before, after, think in graph.edges.iter_rows():
            edges.append((None if before is None else first + before, first + after, think))
    return Feedback(job_lists, edges)


def as_trace(rows):
    return trace([job for job, _ in rows], [wait for _, wait in rows])


def expected(rows, threshold, total, name):
    told = [job for job, _ in rows]
    source = algorithm_1(rows, threshold, total)
    found = replay(told, total, SCHEDULERS[name](), source)
    rejected = {i: job.submit for i, job in enumerate(told) if job.cores > total}
    return found._replace(submit=found.submit | rejected)


@every_scheduler
@settings(max_examples=300)
@given(rows=records, threshold=thresholds, total=totals)
def test_submissions_and_starts_are_those_of_algorithm_1(name, rows, threshold, total):
    found = simulated(as_trace(rows), total, name, source=sessions(threshold))
    assert found == expected(rows, threshold, total, name)


# Ann comes back 5 s after the end of her job. Bob's job is in nobody's way on two cores:
#
#     recorded    AAA.....AA        one core    AAABBBB.AA
#                 ..BBBB
#
# and not in hers on one core. On one core of half the speed it is:
#
#     AAAAAABBBBBBBBAAAA            ann submits again at 6 + 5 = 11, and waits until 14
def test_a_user_thinks_as_long_as_before():
    rows = [
        (Job(0.0, 1, 3.0, 9.0, "ann"), 0.0),
        (Job(8.0, 1, 2.0, 9.0, "ann"), 0.0),
        (Job(2.0, 1, 4.0, 9.0, "bob"), 0.0),
    ]
    same = simulated(as_trace(rows), 1, "fcfs", source=sessions(0.0))
    assert (same.submit, same.start) == ({0: 0.0, 1: 8.0, 2: 2.0}, {0: 0.0, 1: 8.0, 2: 3.0})
    slow = simulated(as_trace(rows), 1, "fcfs", source=sessions(0.0), model={"speed_factor": 0.5})
    assert (slow.submit, slow.start) == ({0: 0.0, 1: 11.0, 2: 2.0}, {0: 0.0, 1: 14.0, 2: 6.0})


def test_a_session_keeps_its_distances_and_waits_for_the_last_of_its_predecessors():
    # Gaps under 4 s are one session: {0, 1}, then {2, 3}, 3 s after the end of job 1 at 7.
    rows = [
        (Job(0.0, 1, 1.0, 1.0, "ann"), 0.0),
        (Job(2.0, 1, 5.0, 5.0, "ann"), 0.0),
        (Job(10.0, 1, 1.0, 1.0, "ann"), 0.0),
        (Job(13.0, 1, 1.0, 1.0, "ann"), 0.0),
    ]
    run = simulated(as_trace(rows), 4, "fcfs", source=sessions(4.0), model={"speed_factor": 0.5})
    # Job 1 takes 10 s and ends at 12.
    assert run.submit == {0: 0.0, 1: 2.0, 2: 15.0, 3: 18.0}


@every_scheduler
@given(rows=records, threshold=thresholds)
def test_where_nothing_waited_and_nothing_waits_the_record_comes_back(name, rows, threshold):
    rows = [(job, 0.0) for job, _ in rows]
    wide = sum(job.cores for job, _ in rows)
    run = simulated(as_trace(rows), wide, name, source=sessions(threshold))
    recorded = {i: job.submit for i, (job, _) in enumerate(rows)}
    assert (run.submit, run.start) == (recorded, recorded)


@every_scheduler
@given(rows=records, threshold=thresholds, total=totals)
def test_a_run_replayed_with_feedback_on_the_machine_it_ran_on_is_the_same_run(
    name, rows, threshold, total
):
    # Jobs without length would be submitted in another round of the same instant.
    rows = [(job._replace(run=job.run + 1), wait) for job, wait in rows]
    scenario = tl.Scenario(
        platform=f"{total}x1", workload=as_trace(rows), policy=policy(name), source="rigid"
    )
    rigid = tl.simulate(scenario)
    again = tl.simulate(scenario.replace(workload=rigid, source=sessions(threshold)))
    assert outcome(again) == outcome(rigid)


@given(rows=records, threshold=thresholds, total=totals)
def test_jobs_that_never_fit_are_as_if_they_were_not_in_the_log(rows, threshold, total):
    fitting = [i for i, (job, _) in enumerate(rows) if job.cores <= total]
    whole = simulated(as_trace(rows), total, "easy", source=sessions(threshold))
    if fitting:
        part = simulated(
            as_trace([rows[i] for i in fitting]), total, "easy", source=sessions(threshold)
        )
        assert {fitting[i]: at for i, at in part.start.items()} == whole.start
    for i, (job, _) in enumerate(rows):
        if job.cores > total:
            assert whole.submit[i] == job.submit
            assert i not in whole.start
