"""Runs small enough to be worked out on paper."""

import numpy as np
import pytest

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from twinloop.engine import CompiledScenario

ONE_CORE = ({"cores": 1.0},)
TWICE = {"name": "pack-ic", "options": {"overcommit": 2.0}}
LINEAR = {"model": "linear", "idle": 100.0, "max": 200.0}


def outcomes(case: Case) -> dict:
    run = CompiledScenario(case.scenario).start()
    while run.run_slice():
        pass
    return run.outcomes()


def ends(case: Case) -> list[float]:
    return outcomes(case)["end"].tolist()


# --- sharing --------------------------------------------------------------------------------------


def test_two_tasks_on_one_core_take_twice_as_long():
    case = Case(ONE_CORE, (Task(0.0, run_time=4.0),) * 2, TWICE)
    assert ends(case) == [8.0, 8.0]


def test_the_second_task_is_alone_when_the_first_has_ended():
    # Half a core each until 4, when the short one has done its 2 s; the other has 2 s left.
    case = Case(ONE_CORE, (Task(0.0, run_time=2.0), Task(0.0, run_time=4.0)), TWICE)
    assert ends(case) == [4.0, 6.0]


def test_without_delay_tasks_end_on_time():
    case = Case(ONE_CORE, (Task(0.0, run_time=4.0),) * 2, TWICE, {"sharing": "no-delay"})
    assert ends(case) == [4.0, 4.0]


def test_without_delay_tasks_get_equal_shares():
    # Each asks for both cores, of twice the speed, for 2 s, and gets half: 2 core-seconds, which
    # are 4 of the reference.
    case = Case(
        ({"cores": 2.0, "speed": 2.0},),
        (Task(0.0, cores=2.0, run_time=4.0),) * 2,
        TWICE,
        {"sharing": "no-delay"},
    )
    found = outcomes(case)
    assert found["end"].tolist() == [2.0, 2.0]
    assert found["done"].tolist() == [4.0, 4.0]
    assert found["used"].tolist() == [2.0, 2.0]


def test_linear_contention():
    # Two tasks on one core are a load of 2, so work grows by half: each does a third of a second
    # in a second, until the short one ends at 6; the other has 2 s left.
    model = {"contention": {"linear": {"slope": 0.5}}}
    case = Case(ONE_CORE, (Task(0.0, run_time=2.0), Task(0.0, run_time=4.0)), TWICE, model)
    found = outcomes(case)
    assert found["end"].tolist() == pytest.approx([6.0, 8.0], rel=1e-12)
    assert found["done"].tolist() == pytest.approx([2.0, 4.0], rel=1e-12)


def test_contention_by_kind():
    # Each has a core. The shy one suffers half from the loud one: in 4 s it does 8/3 s of its 6.
    kinds = {"loud": {"pressure": 0.5}, "shy": {"sensitivity": 1.0}}
    case = Case(
        ({"cores": 2.0},),
        (Task(0.0, run_time=4.0, kind="loud"), Task(0.0, run_time=6.0, kind="shy")),
        {"name": "first-fit"},
        {"contention": {"kinds": kinds}},
    )
    assert ends(case) == pytest.approx([4.0, 4.0 + 10.0 / 3.0], rel=1e-12)


def test_contention_within_a_core():
    # Three loud ones and a shy one on two cores: each has half a core, and on average one other
    # beside it, of pressure 0.6. So the shy one does 0.5 / 1.6 in a second, 3.125 in the 10 s that
    # the others take, and what is left of its 5 by itself.
    kinds = {"loud": {"pressure": 0.6}, "shy": {"sensitivity": 1.0}}
    loud, shy = Task(0.0, run_time=5.0, kind="loud"), Task(0.0, run_time=5.0, kind="shy")
    model = {"contention": {"kinds": kinds, "within": "core"}}
    case = Case(({"cores": 2.0},), (loud, loud, loud, shy), TWICE, model)
    assert ends(case) == pytest.approx([10.0] * 3 + [11.875], rel=1e-12)
    # Where each has a core, nobody meets anybody.
    assert ends(case.but(tasks=(loud, shy))) == [5.0, 5.0]
    # Within the host, all three press on the shy one: 0.5 / 2.8 in a second.
    host = case.but(model={"contention": {"kinds": kinds}})
    assert ends(host) == pytest.approx([10.0] * 3 + [10.0 + 5.0 - 5.0 / 2.8], rel=1e-12)


# --- overheads ------------------------------------------------------------------------------------


def test_latencies_and_the_decision_interval():
    # Decided at 0, started at 0.25, working from 0.75 to 3.75, seen as free at 4.75, so the next
    # decision is at 6.
    model = {
        "startup_overhead": 0.5,
        "dispatch_latency": 0.25,
        "release_latency": 1.0,
        "decision_interval": 2.0,
    }
    found = outcomes(
        Case(ONE_CORE, (Task(0.0, run_time=3.0), Task(1.0, run_time=3.0)), model=model)
    )
    assert found["start"].tolist() == [0.25, 6.25]
    assert found["end"].tolist() == [3.75, 9.75]


def test_a_task_is_lost_with_its_machine_between_dispatch_and_start():
    case = Case(
        ONE_CORE,
        (Task(0.0, run_time=2.0), Task(0.0, run_time=2.0)),
        model={"dispatch_latency": 0.25},
        failures=((0, 2.375, 1.0),),  # the second is dispatched at 2.25 and would start at 2.5
        then={"on_failure": "lost"},
    )
    found = outcomes(case)
    assert found["start"].tolist() == pytest.approx([0.25, np.nan], nan_ok=True)
    assert found["end"].tolist() == [2.25, 2.375]
    assert found["attempts"].tolist() == [1, 0]
    # With a restart it is dispatched again when the machine is back.
    found = outcomes(case.but(then={"on_failure": "restart"}))
    assert found["start"].tolist() == [0.25, 3.625]
    assert found["attempts"].tolist() == [1, 1]


def test_a_child_is_ready_when_the_scheduler_sees_the_end_of_its_parent():
    # The parent ends at 3. Its child is placed when that is seen, at 4, and its node is free then
    # too, so the child gets it; a task that came meanwhile has had the other one since 3.5.
    tasks = (
        Task(0.0, run_time=3.0),
        Task(0.0, run_time=2.0, parents=(0,)),
        Task(3.5, run_time=1.0),
    )
    nodes = ({"name": "a", "cores": 1.0}, {"name": "b", "cores": 1.0})
    found = tl.simulate(Case(nodes, tasks, model={"release_latency": 1.0}).scenario)
    rows = found.placements.sort("task").select("machine", "start", "end").rows()
    assert [row[1:] for row in rows] == [(0.0, 3.0), (4.0, 6.0), (3.5, 4.5)]
    assert rows[0][0] == rows[1][0] != rows[2][0]


def test_a_window_that_ends_between_two_decisions():
    # Closed from 2 to 3; asked at multiples of 2 only.
    case = Case(
        ONE_CORE,
        (Task(2.0, run_time=1.0),),
        model={"decision_interval": 2.0},
        reservations=({"name": "own", "start": 2.0, "end": 3.0, "users": ["ann"]},),
    )
    assert outcomes(case)["start"].tolist() == [4.0]


def test_killed_at_the_requested_time():
    tasks = (Task(0.0, run_time=5.0, requested=2.0), Task(0.0, run_time=5.0, requested=5.0))
    trace = tl.simulate(Case(ONE_CORE, tasks, model={"kill_at_requested_time": True}).scenario)
    assert trace.tasks["status"].to_list() == ["killed", "completed"]
    assert trace.placements["end"].to_list() == [2.0, 7.0]


def test_tasks_without_requested_time_are_not_killed_at_a_limit():
    slow = {"kill_at_requested_time": True, "speed_factor": 0.5}
    case = Case(
        ONE_CORE,
        (Task(0.0, run_time=4.0), Task(0.0, run_time=4.0, requested=5.0)),
        {
            "name": "fcfs",
            "options": {},
        },
        slow,
    )
    assert ends(case) == [8.0, 13.0]


@pytest.mark.parametrize(
    ("policy", "first"), [("first-fit", "n9"), ("fcfs", "n9"), ("fifo", "n10")]
)
def test_machines_are_taken_in_the_order_of_the_platform_or_of_their_names(policy, first):
    machines = tuple({"cores": 1.0, "names": [name]} for name in ("n9", "n10"))
    case = Case(machines, (Task(0.0, run_time=4.0),), {"name": policy, "options": {}})
    assert tl.simulate(case.scenario).placements["machine"].to_list() == [first]


def test_dependants_of_a_rejected_task_are_rejected():
    # The child could not run either: it is counted once.
    tasks = (Task(0.0, cores=9.0), Task(0.0, cores=9.0, parents=(0,)), Task(0.0, run_time=2.0))
    trace = tl.simulate(Case(ONE_CORE, tasks).scenario)
    assert trace.tasks["status"].to_list() == ["rejected", "rejected", "completed"]


# --- interruptions --------------------------------------------------------------------------------

FAILING = Case(ONE_CORE, (Task(0.0, run_time=5.0),), failures=((0, 3.0, 1.0),))


@pytest.mark.parametrize(
    ("then", "end", "done"),
    [
        ({"on_failure": "restart"}, 9.0, 8.0),
        # A checkpoint was written at 2: one second is lost.
        ({"on_failure": "resume", "checkpoint_interval": 2.0}, 7.0, 6.0),
        # 5 s have two checkpoints, the 3 s that are left one.
        ({"on_failure": "resume", "checkpoint_interval": 2.0, "checkpoint_cost": 0.5}, 7.5, None),
        ({"on_failure": "lost"}, 3.0, 3.0),
    ],
)
def test_failures(then, end, done):
    found = outcomes(FAILING.but(then=then))
    assert found["end"].tolist() == [end]
    if done is not None:
        assert found["done"].tolist() == [done]


def test_after_a_failure_a_task_has_all_of_its_time_again():
    # The first runs from 0 to 50, makes way until 60, fails at 70, and needs 100 s from 75 on.
    case = Case(
        ONE_CORE,
        (
            Task(0.0, run_time=100.0, requested=110.0, queue="low"),
            Task(50.0, run_time=10.0, requested=20.0, queue="high"),
        ),
        {"name": "priority", "options": {"preempt": "resume"}},
        {"kill_at_requested_time": True},
        queues=({"name": "low"}, {"name": "high", "priority": 1.0}),
        failures=((0, 70.0, 5.0),),
    )
    assert ends(case) == [175.0, 60.0]


@pytest.mark.parametrize(
    ("preempt", "end", "done"), [("restart", 15.0, 13.0), ("resume", 12.0, 10.0)]
)
def test_preemption(preempt, end, done):
    case = Case(
        ONE_CORE,
        (Task(0.0, run_time=10.0, queue="low"), Task(3.0, run_time=2.0, queue="high")),
        {"name": "priority", "options": {"preempt": preempt}},
        queues=({"name": "low"}, {"name": "high", "priority": 5.0}),
    )
    found = outcomes(case)
    assert found["end"].tolist() == [end, 5.0]
    assert found["done"].tolist() == [done, 2.0]


# --- speed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("speed", "factor", "end"), [(1.0, 2.0, 2.0), (0.5, 1.0, 8.0), (2, 2, 1.0)]
)
def test_speed_keeps_the_work(speed, factor, end):
    case = Case(
        ({"cores": 1.0, "speed": speed},),
        (Task(0.0, run_time=4.0),),
        model={"speed_factor": factor},
    )
    found = outcomes(case)
    assert found["end"].tolist() == [end]
    assert found["done"].tolist() == [4.0]


@pytest.mark.parametrize(
    ("demand", "length", "watts"), [("elastic", 2.0, 200.0), ("fixed", 4.0, 150.0)]
)
def test_a_fixed_demand_is_not_lifted_by_a_faster_machine(demand, length, watts):
    case = Case(
        ({"cores": 1.0, "speed": 2.0, "power": LINEAR},),
        (Task(0.0, run_time=4.0),),
        model={"demand": demand},
    )
    trace = tl.simulate(case.scenario, power_step=1.0)
    assert trace.placements["end"].to_list() == [length]
    assert set(trace.power["watts"]) == {watts}
