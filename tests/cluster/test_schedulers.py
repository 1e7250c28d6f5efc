"""The schedulers: against schedules drawn by hand, and against their definitions on random logs."""

import pytest
from hypothesis import given

import twinloop as tl
from tests.cluster.logs import (
    compare,
    few,
    logs,
    many,
    simulated,
    totals,
    trace,
    with_queues,
)
from tests.cluster.reference import SCHEDULERS, By, Easy, Job, LeastUsed, Strict, replay

# --- by hand --------------------------------------------------------------------------------------
#
# Time to the right, cores upwards; a letter per second and core, a dot is idle.

# D has 8 s and ends when B starts; C comes before it but would end at 11, after B's start.
#
#     4  ..DDDDDDDDBBBBBCCCCCCCCC
#     3  AAAAAAAAAABBBBB
#     2  AAAAAAAAAABBBBB
#     1  AAAAAAAAAABBBBB
#        0         10   15
IN_TIME = [Job(0, 3, 10, 10), Job(1, 4, 5, 5), Job(2, 1, 9, 9), Job(2, 1, 8, 8)]

# B leaves one core over, so C may pass it and run far into it; D finds that core taken.
#
#     5  ..CCCCCCCCCCCCCCCCCCCC
#     4  ..........BBBBBDDDDDDDDDDDDDDDDDDDD
#     3  AAAAAAAAAABBBBB
#     2  AAAAAAAAAABBBBB
#     1  AAAAAAAAAABBBBB
#        0         10   15
#
# By the time condition alone C waits until B has begun:
#
#     5  ..........CCCCCCCCCCCCCCCCCCCC
#     4  ..........BBBBBDDDDDDDDDDDDDDDDDDDD
#     1-3 as above
SPARE = [Job(0, 3, 10, 10), Job(1, 4, 5, 5), Job(2, 1, 20, 20), Job(3, 1, 20, 20)]

# D does not delay B, the first of the queue, but C, the second one: EASY lets it pass,
# conservative does not, because C has a reservation at 20.
#
#     EASY                               conservative
#     4  ...DDDDDDDDDDDDDDDDDDDDCCCCC    ....................CCCCCDDDDDDDDDDDDDDDDDDDD
#     3  ..........BBBBBBBBBB...CCCCC    ..........BBBBBBBBBBCCCCC
#     2  AAAAAAAAAABBBBBBBBBB...CCCCC    AAAAAAAAAABBBBBBBBBBCCCCC
#     1  AAAAAAAAAABBBBBBBBBB...CCCCC    AAAAAAAAAABBBBBBBBBBCCCCC
#        0         10        20          0         10        20   25
SECOND = [Job(0, 2, 10, 10), Job(1, 3, 10, 10), Job(2, 4, 5, 5), Job(3, 1, 20, 20)]

# A asks for 10 s and ends after 4. Without compression B keeps its reservation at 10, and C, which
# comes at 5, fits into the hole before it. With compression B moves to 4, and C comes after it.
#
#     not compressed        compressed
#     1-4  AAAA.CCCCCBBBBB  AAAABBBBBCCCCC
#          0    5    10     0   4    9
EARLY = [Job(0, 4, 4, 10), Job(1, 4, 5, 5), Job(5, 4, 5, 5)]

# When A ends at 4, all are planned anew in order of arrival. D plans 8 s and takes 3: C could not
# start earlier for it.
#
#     not compressed                  compressed
#     2  AAAA......DDD.......CCCCC    AAAADDD.......CCCCC
#     1  AAAA......BBBBBBBBBBCCCCC    AAAABBBBBBBBBBCCCCC
#        0         10        20       0   4         14
ALL_ANEW = [Job(0, 2, 4, 10), Job(1, 1, 10, 10), Job(2, 2, 5, 5), Job(3, 1, 3, 8)]

# A runs longer than it asked for, so 10 s are planned for it and C may pass.
#
#     2  CCCCCCCCCCB        cut at the requested time:  ..BCCCCCCCCCC
#     1  AAAAAAAAAAB                                    AAB
#        0         10                                   0 2
TOO_LONG = [Job(0, 1, 10, 2), Job(0, 2, 1, 1), Job(0, 1, 10, 10)]

# B is shorter than C, cannot start, and nobody passes it.
#
#     shortest first         longest first
#     2  ..........B         .CCCCC....B
#     1  AAAAAAAAAABCCCCC    AAAAAAAAAAB
#        0         10        0         10
HEAD = [Job(0, 1, 10, 10), Job(1, 2, 1, 1), Job(1, 1, 5, 5)]

BY_HAND = [
    ("fcfs", 4, IN_TIME, [0, 10, 15, 15]),
    ("easy", 4, IN_TIME, [0, 10, 15, 2]),
    ("easy-time", 4, IN_TIME, [0, 10, 15, 2]),
    ("conservative", 4, IN_TIME, [0, 10, 15, 2]),
    ("fcfs", 5, SPARE, [0, 10, 10, 15]),
    ("easy", 5, SPARE, [0, 10, 2, 15]),
    ("easy-time", 5, SPARE, [0, 10, 10, 15]),
    ("conservative", 5, SPARE, [0, 10, 2, 15]),
    ("easy", 4, SECOND, [0, 10, 23, 3]),
    ("conservative", 4, SECOND, [0, 10, 20, 25]),
    ("conservative, compressed", 4, SECOND, [0, 10, 20, 25]),
    ("easy", 4, EARLY, [0, 4, 9]),
    ("conservative", 4, EARLY, [0, 10, 5]),
    ("conservative, compressed", 4, EARLY, [0, 4, 9]),
    ("conservative", 2, ALL_ANEW, [0, 10, 20, 10]),
    ("conservative, compressed", 2, ALL_ANEW, [0, 4, 14, 4]),
    ("easy", 2, TOO_LONG, [0, 10, 0]),
    ("sjf", 2, HEAD, [0, 10, 11]),
    ("ljf", 2, HEAD, [0, 10, 1]),
]
by_hand = pytest.mark.parametrize(("name", "total", "log", "starts"), BY_HAND)


@by_hand
def test_the_reference_gives_the_schedule_drawn(name, total, log, starts):
    found = replay(log, total, SCHEDULERS[name]())
    assert [found.start[i] for i in range(len(log))] == starts


@by_hand
def test_the_simulator_gives_the_schedule_drawn(name, total, log, starts):
    found = simulated(log, total, name)
    assert [found.start[i] for i in range(len(log))] == starts


def test_a_job_cut_at_its_requested_time_is_planned_and_ends_there():
    scenario = tl.Scenario(
        platform="2x1",
        workload=trace(TOO_LONG),
        policy="easy",
        model={"kill_at_requested_time": True},
    )
    run = tl.simulate(scenario)
    assert run.tasks["status"].to_list() == ["killed", "completed", "completed"]
    times = run.placements.unique(["task", "start", "end"]).sort("task").select("start", "end")
    assert times.rows() == [(0.0, 2.0), (2.0, 3.0), (3.0, 13.0)]


# --- by definition --------------------------------------------------------------------------------

every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)
every_total = range(1, 9)


def expected(name, total, **model):
    """The reference; of the model it knows only how long jobs then run."""

    def run(log):
        told = [job._replace(run=job.run / model.get("speed_factor", 1.0)) for job in log]
        if model.get("kill_at_requested_time"):
            told = [job._replace(run=min(job.run, job.requested)) for job in told]
        return replay(told, total, SCHEDULERS[name]())

    return run


@every_scheduler
@few
@given(log=logs, total=totals)
def test_starts_equal_the_definition(name, log, total):
    compare([log], total, name, expected(name, total))


@every_scheduler
@pytest.mark.parametrize("total", every_total)
def test_starts_of_many_logs_equal_the_definition(name, total):
    compare(many(f"{name} {total}", 150), total, name, expected(name, total))


@every_scheduler
@pytest.mark.parametrize(
    "model",
    [{"kill_at_requested_time": True}, {"speed_factor": 0.5}, {"speed_factor": 2.0}],
    ids=str,
)
def test_starts_equal_the_definition_if_jobs_run_shorter_or_longer(name, model):
    compare(many(f"{name} {model}", 150), 6, name, expected(name, 6, **model), model=model)


orders = pytest.mark.parametrize("backfill", ["none", "easy", "easy-time"])


def ordered(order, backfill):
    return Strict(order) if backfill == "none" else Easy(order, backfill == "easy")


@orders
@pytest.mark.parametrize("age", [0.0, 0.5])
def test_the_highest_priority_is_first(backfill, age):
    def by_priority(log):
        order = By(lambda job, now: -(job.priority + age * (now - job.submit)))
        return replay(log, 6, ordered(order, backfill))

    told = {"name": "priority", "options": {"backfill": backfill, "age": age}}
    compare(many(f"{told}", 200), 6, told, by_priority, platform=with_queues(6))


@orders
@pytest.mark.parametrize("half_life", [1.0, 10.0])
def test_who_has_used_least_is_first(backfill, half_life):
    def by_usage(log):
        order = LeastUsed(half_life)
        found = replay(log, 6, ordered(order, backfill))
        # Two users who used the same at other times are apart by rounding alone.
        return None if order.close else found

    told = {"name": "fair-share", "options": {"backfill": backfill, "half_life": half_life}}
    compare(many(f"{told}", 200), 6, told, by_usage)


@every_scheduler
def test_one_host_with_all_cores_is_the_same_pool(name):
    compare(many(name, 100), 6, name, expected(name, 6), platform="1x6")


@few
@given(log=logs, total=totals)
def test_jobs_wider_than_the_machine_are_rejected_and_all_others_complete(log, total):
    run = tl.simulate(tl.Scenario(platform=f"{total}x1", workload=trace(log), policy="easy"))
    assert run.tasks["status"].to_list() == [
        "completed" if job.cores <= total else "rejected" for job in log
    ]


# --- that the comparison can fail -----------------------------------------------------------------


def test_the_logs_tell_the_schedulers_apart():
    """Each pair of schedulers differs on at least one of the logs drawn by hand."""
    drawn = [(log, total) for _, total, log, _ in BY_HAND]

    def answers(name):
        return [replay(log, total, SCHEDULERS[name]()).start for log, total in drawn]

    names = list(SCHEDULERS)
    same = [(a, b) for a in names for b in names if a < b and answers(a) == answers(b)]
    assert same == []


@given(log=logs, total=totals)
def test_no_reservation_of_the_conservative_reference_is_broken(log, total):
    """With exact estimates nobody is delayed by those who come later: a log is its own prefix."""
    exact = sorted(
        (job._replace(run=job.planned + 1, requested=0.0) for job in log), key=lambda j: j.submit
    )
    whole = replay(exact, total, SCHEDULERS["conservative"]()).start
    for count in range(len(exact)):
        part = replay(exact[:count], total, SCHEDULERS["conservative"]()).start
        assert part == {i: whole[i] for i in part}
