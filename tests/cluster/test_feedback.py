"""Replay with feedback: against a literal transcription of the published algorithm.

Algorithm 1 of Madon, Da Costa and Pierson, "Replay with feedback: how does the performance of HPC
system impact user submission behavior?", Future Generation Computer Systems 155 (2024).
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.logs import (
    MOST,
    WIDEST,
    compare,
    compare_in_turn,
    few,
    in_turn,
    logs,
    many,
    outcome,
    policy,
    simulated,
    totals,
    trace,
)
from tests.cluster.reference import SCHEDULERS, Feedback, Job, Outcome, replay
from tests.cluster.scenarios import Case, Task
from twinloop.workload import SessionGraphs

thresholds = st.integers(0, 4).map(float)
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)


def sessions(threshold):
    return {"sessions": {"by": "arrival", "threshold": threshold}}


def algorithm_1(log, threshold, total):
    """The users of the transcription, over the graphs of all jobs that fit."""
    fitting = [i for i, job in enumerate(log) if job.cores <= total]
    graphs = SessionGraphs.from_log(
        trace([log[i] for i in fitting]), by="arrival", threshold=threshold
    )
    found = graphs.partition
    job_lists, edges = [], []
    for s, (first, end) in enumerate(pairwise(found.offsets.tolist())):
        rows = [fitting[row] for row in found.jobs[first:end]]
        start = float(found.start[s])
        job_lists.append([(log[i].submit - start, i) for i in rows])
    for s, (first, end) in enumerate(pairwise(graphs.offsets.tolist())):
        before, think = graphs.predecessors[first:end].tolist(), graphs.think_times[first:end]
        edges += [(b, s, t) for b, t in zip(before, think.tolist(), strict=True)]
        if first == end:
            edges.append((None, s, float(found.start[s])))
    return Feedback(job_lists, edges)


def expected(threshold, total, name):
    def run(log):
        found = replay(log, total, SCHEDULERS[name](), algorithm_1(log, threshold, total))
        rejected = {i: job.submit for i, job in enumerate(log) if job.cores > total}
        return found._replace(submit=found.submit | rejected)

    return run


@every_scheduler
@few
@given(log=logs, threshold=thresholds, total=totals)
def test_submissions_and_starts_equal_algorithm_1(name, log, threshold, total):
    told = expected(threshold, total, name)
    compare([log], total, name, told, source=sessions(threshold))


@every_scheduler
@pytest.mark.parametrize("threshold", [0.0, 3.0])
def test_submissions_and_starts_of_many_logs_equal_algorithm_1(name, threshold):
    several = many(f"{name} {threshold}", 80)
    compare_in_turn(several, 6, name, expected(threshold, 6, name), source=sessions(threshold))


# Ann comes back 5 s after the end of her job. Bob's job is in nobody's way on two cores:
#
#     recorded    AAA.....AA        one core    AAABBBB.AA
#                 ..BBBB
#
# and not in hers on one core. On one core of half the speed it is:
#
#     AAAAAABBBBBBBBAAAA            ann submits again at 6 + 5 = 11, and waits until 14
def test_a_user_thinks_as_long_as_before():
    log = [
        Job(0.0, 1, 3.0, 9.0, "ann"),
        Job(8.0, 1, 2.0, 9.0, "ann"),
        Job(2.0, 1, 4.0, 9.0, "bob"),
    ]
    same = simulated(log, 1, "fcfs", source=sessions(0.0))
    assert (same.submit, same.start) == ({0: 0.0, 1: 8.0, 2: 2.0}, {0: 0.0, 1: 8.0, 2: 3.0})
    slow = simulated(log, 1, "fcfs", source=sessions(0.0), model={"speed_factor": 0.5})
    assert (slow.submit, slow.start) == ({0: 0.0, 1: 11.0, 2: 2.0}, {0: 0.0, 1: 14.0, 2: 6.0})


def test_a_session_keeps_its_distances_and_waits_for_the_last_of_its_predecessors():
    # Gaps under 4 s are one session: {0, 1}, then {2, 3}, 3 s after the end of job 1 at 7.
    log = [
        Job(0.0, 1, 1.0, 1.0, "ann"),
        Job(2.0, 1, 5.0, 5.0, "ann"),
        Job(10.0, 1, 1.0, 1.0, "ann"),
        Job(13.0, 1, 1.0, 1.0, "ann"),
    ]
    run = simulated(log, 4, "fcfs", source=sessions(4.0), model={"speed_factor": 0.5})
    # Job 1 takes 10 s and ends at 12.
    assert run.submit == {0: 0.0, 1: 2.0, 2: 15.0, 3: 18.0}


@every_scheduler
@pytest.mark.parametrize("threshold", [0.0, 3.0])
def test_without_waits_the_replay_equals_the_record(name, threshold):
    def record(log):
        submit = {i: job.submit for i, job in enumerate(log)}
        return Outcome(submit, submit)

    several = [[job._replace(wait=0.0) for job in log] for log in many(name, 100)]
    compare(several, MOST * WIDEST, name, record, source=sessions(threshold))


@every_scheduler
@pytest.mark.parametrize("threshold", [0.0, 3.0])
def test_a_run_replayed_with_feedback_on_the_machine_it_ran_on_is_the_same_run(name, threshold):
    # Jobs without length would be submitted in another round of the same instant.
    several = [[job._replace(run=job.run + 1) for job in log] for log in many(name, 100)]
    scenario = tl.Scenario(platform="6x1", workload=trace(in_turn(several)), policy=policy(name))
    rigid = tl.simulate(scenario)
    again = tl.simulate(scenario.replace(workload=rigid, source=sessions(threshold)))
    # What was rejected has no run time, so it is not in the log that the run is.
    ran = outcome(rigid).start
    recorded = {i: at for i, at in outcome(rigid).submit.items() if i in ran}
    assert outcome(again) == Outcome(recorded, ran)


@few
@given(log=logs, threshold=thresholds, total=totals)
def test_jobs_that_never_fit_are_as_if_they_were_not_in_the_log(log, threshold, total):
    fitting = [i for i, job in enumerate(log) if job.cores <= total]
    whole = simulated(log, total, "easy", source=sessions(threshold))
    if fitting:
        part = simulated([log[i] for i in fitting], total, "easy", source=sessions(threshold))
        assert {fitting[i]: at for i, at in part.start.items()} == whole.start
    for i, job in enumerate(log):
        if job.cores > total:
            assert whole.submit[i] == job.submit
            assert i not in whole.start


def test_a_session_lasts_as_long_as_its_fragments():
    # The work of t0, 6 core-seconds at up to 1 core, takes 11 s: t1 is submitted while it runs and
    # does not wait for it, on a machine of any speed.
    tasks = (
        Task(0.0, fragments=((1.0, 1.0), (10.0, 0.5)), user="ann"),
        Task(8.0, user="ann"),
    )
    case = Case(({"cores": 2.0, "speed": 0.5},), tasks, source="sessions:0")
    assert tl.simulate(case.scenario).tasks["submit"].to_list() == [0.0, 8.0]
