"""Machine changes, orders and simultaneous events, in runs that can be computed by hand."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import Case, Task
from twinloop.engine import CompiledScenario, Simulation
from twinloop.policy import Place, Policy, Reserve, SetState, Wake

TWICE = {"name": "pack-ic", "options": {"overcommit": 2.0}}
LINEAR = {"model": "linear", "idle": 100.0, "max": 200.0}


def workload(*tasks: dict) -> dict:
    return {"tasks": [{"id": f"t{i}", **task} for i, task in enumerate(tasks)]}


# --- failures -------------------------------------------------------------------------------------


def test_a_completed_task_frees_its_children_though_its_machine_fails_before_the_release():
    case = Case(
        ({"cores": 1.0},) * 2,
        (Task(0.0, run_time=10.0), Task(0.0, run_time=1.0, parents=(0,))),
        model={"release_latency": 5.0},
        failures=((0, 12.0, math.inf),),
    )
    found = case.run_to_end().outcomes()
    assert found["status"].tolist() == [1, 1]
    # The scheduler knows of the end at 15.
    assert found["start"].tolist() == [0.0, 15.0]
    assert found["end"].tolist() == [10.0, 16.0]


@pytest.mark.parametrize(("limit", "status", "attempts"), [(None, 1, 4), (4, 1, 4), (3, 4, 3)])
def test_a_task_that_failures_have_ended_too_often_has_failed(limit, status, attempts):
    case = Case(
        ({"cores": 1.0},),
        (Task(0.0, run_time=10.0), Task(0.0, run_time=1.0, parents=(0,))),
        failures=((0, 5.0, 1.0), (0, 7.0, 1.0), (0, 9.0, 1.0)),
        then={"on_failure": "restart", "max_attempts": limit},
    )
    found = case.run_to_end().outcomes()
    assert found["status"].tolist() == [status, status]
    assert found["attempts"].tolist() == [attempts, int(status == 1)]


def test_an_execution_that_had_not_begun_is_no_attempt():
    case = Case(
        ({"cores": 1.0},),
        (Task(0.0, run_time=10.0),),
        model={"dispatch_latency": 2.0},
        failures=((0, 1.0, 1.0),),
        then={"on_failure": "restart", "max_attempts": 1},
    )
    assert case.run_to_end().outcomes()["status"].tolist() == [1]


def test_a_limit_of_attempts_is_refused_where_it_has_no_effect():
    with pytest.raises(tl.InputError, match="max_attempts: has no effect if tasks are lost"):
        tl.Scenario(
            platform="1x1",
            policy="fcfs",
            workload=workload({"run_time": 1}),
            failures={"mtbf": "1h", "mttr": "1h", "on_failure": "lost", "max_attempts": 2},
        )


# --- sharing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("demands", "shares"),
    [
        ((2000, 3000), (2000, 2000)),
        ((1500, 3000), (1500, 2500)),
        ((1000, 1000, 4000), (1000, 1000, 2000)),
        ((1000, 2000), (1000, 2000)),
    ],
)
def test_without_delay_capacity_is_shared_max_min(demands, shares):
    # A core has 1000 MHz: tasks of 1 to 4 cores on a machine of 4.
    tasks = tuple(Task(0.0, cores=demand / 1000, run_time=10.0) for demand in demands)
    policy = {"name": "pack-ic", "options": {"overcommit": 4.0}}
    case = Case(({"cores": 4.0},), tasks, policy, {"sharing": "no-delay"})
    found = case.run_to_end().outcomes()
    assert found["end"].tolist() == [10.0] * len(tasks)
    assert found["used"] == pytest.approx([share / 100 for share in shares], rel=1e-12)
    assert found["done"] == pytest.approx([share / 100 for share in shares], rel=1e-12)


def test_without_delay_pauses_for_checkpoints_lose_their_share_too():
    # Each demands 12 s of the core: 2 s of work and a pause of 10 s; it gets half of both.
    case = Case(
        ({"cores": 1.0},),
        (Task(0.0, run_time=2.0),) * 2,
        TWICE,
        {"sharing": "no-delay"},
        failures=((0, 100.0, 1.0),),
        then={"on_failure": "resume", "checkpoint_interval": 1.0, "checkpoint_cost": 10.0},
    )
    found = case.run_to_end().outcomes()
    assert found["end"].tolist() == [12.0, 12.0]
    assert found["done"].tolist() == pytest.approx([1.0, 1.0], rel=1e-12)
    assert found["used"].tolist() == pytest.approx([6.0, 6.0], rel=1e-12)


def test_machines_are_shared_from_the_first_task_on_that_needs_it():
    case = Case(({"cores": 1.0},), (Task(0.0, run_time=10.0),), {"name": "fifo"})
    sim = Simulation(CompiledScenario(case.scenario))
    sim.run_until(4.0)
    # 20 core-seconds on one core, after the first task.
    sim.submit("late", cores=2.0, run_time=10.0)
    assert sim.run()["end"].to_list() == [10.0, 30.0]


def water_filling(demands: list[Fraction], capacity: Fraction) -> list[Fraction]:
    """The max-min fair shares, from their definition."""
    shares = [Fraction(0)] * len(demands)
    for place, index in enumerate(sorted(range(len(demands)), key=lambda i: demands[i])):
        shares[index] = min(demands[index], capacity / (len(demands) - place))
        capacity -= shares[index]
    return shares


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(1, 12), st.integers(1, 8)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 8),
)
def test_without_delay_shares_are_those_of_water_filling_at_any_time(rows, capacity):
    tasks = tuple(
        Task(float(submit), cores=float(cores), run_time=float(length))
        for submit, length, cores in rows
    )
    policy = {"name": "pack-ic", "options": {"overcommit": 100.0}}
    case = Case(({"cores": float(capacity)},), tasks, policy, {"sharing": "no-delay"})
    found = case.run_to_end().outcomes()
    expected = [Fraction(0)] * len(rows)
    running = [found["status"][i] == 1 for i in range(len(rows))]
    for second in range(24):
        present = [
            i
            for i, (submit, length, _) in enumerate(rows)
            if running[i] and submit <= second < submit + length
        ]
        demands = [Fraction(rows[i][2]) for i in present]
        for i, share in zip(present, water_filling(demands, Fraction(capacity)), strict=True):
            expected[i] += share
    assert found["used"] == pytest.approx([float(each) for each in expected], rel=1e-9)


def test_contention_follows_a_change_of_capacity():
    # At a load of 2 and slope 1 the work doubles: at 4 s, each has done 1 s. With two cores the
    # load is 1, and 3 s are left.
    case = Case(
        ({"cores": 1.0},),
        (Task(0.0, run_time=4.0),) * 2,
        TWICE,
        {"contention": {"linear": {"slope": 1.0}}},
    )
    sim = Simulation(CompiledScenario(case.scenario))
    sim.run_until(4.0)
    sim.set_cores("m0", 2.0)
    assert sim.run()["end"].to_list() == [7.0, 7.0]


def test_the_energy_of_many_tasks_on_one_machine_is_that_of_the_machine():
    machines = ({"cores": 4.0, "power": {"model": "sqrt", "idle": 0.0, "max": 200.0}},)
    tasks = tuple(Task(0.1 * i, run_time=1.0 + i % 7) for i in range(3000))
    policy = {"name": "pack-ic", "options": {"overcommit": 1e4}}
    run = Case(machines, tasks, policy).run_to_end()
    assert run.shared
    assert run.outcomes()["energy"].sum() == pytest.approx(run.energy().sum(), rel=1e-9)


def test_rounding_of_varying_use_does_not_reach_other_tasks():
    # Tasks on all three cores of two machines, in turns; what they use is not exact in binary.
    pieces = ((1.0, 0.1), (1.0, 0.7), (1.0, 0.2))
    tasks = tuple(Task(10.0 * i, cores=3.0, fragments=pieces) for i in range(20))
    run = Case(
        ({"cores": 1.0, "power": LINEAR}, {"cores": 2.0, "power": LINEAR}), tasks
    ).run_to_end()
    # Both machines at 110, 170 and 120 W; they are idle for 7 s after each task.
    assert run.outcomes()["energy"] == pytest.approx([800.0] * 20, rel=1e-12)
    assert run.energy().tolist() == pytest.approx([20 * 400.0 + 19 * 700.0] * 2, rel=1e-12)


@pytest.mark.parametrize("cores", [(0.8, 0.2), (0.9, 0.1), (0.7, 0.3), (0.3, 0.3, 0.3, 0.1)])
def test_fractional_cores_do_not_change_the_energy_of_later_tasks(cores):
    # The last of them gets what is left of the core, which is not exactly what it asks for.
    together = tuple(Task(0.0, cores=each, run_time=5.0) for each in cores)
    case = Case(({"cores": 1.0, "power": LINEAR},), (*together, Task(1000.0, run_time=10.0)))
    energy = case.run_to_end().outcomes()["energy"]
    assert energy[-1] == pytest.approx(2000.0, rel=1e-12)
    assert sum(energy[:-1]) == pytest.approx(1000.0, rel=1e-12)


@given(st.lists(st.sampled_from([0.1, 0.2, 0.3, 0.7, 1.1]), min_size=50, max_size=200))
def test_fractional_cores_leave_no_residue(cores):
    tasks = tuple(Task(float(i // 10), cores=c, run_time=1.0 + c) for i, c in enumerate(cores))
    case = Case(({"cores": 3.0, "power": LINEAR},) * 2, tasks)
    run = case.run_to_end()
    view = run.view()
    assert view.free_cores.tolist() == [3.0, 3.0]
    idle = 2 * 100.0 * (run.now - run.start_time)
    charged = run.outcomes()["energy"].sum()
    dynamic = sum(100.0 / 3.0 * task.work for task in tasks)
    # Idle power is charged to the tasks on a machine while there are any.
    assert dynamic * (1 - 1e-9) <= charged <= (dynamic + idle) * (1 + 1e-9)
    assert run.energy().sum() == pytest.approx(idle + dynamic, rel=1e-9)


# --- machines that are added and removed ----------------------------------------------------------


@pytest.mark.parametrize(
    "policy", ["fcfs", "easy", "conservative", "sjf", "first-fit", "worst-fit"]
)
def test_a_machine_that_is_added_takes_the_next_task(policy):
    tasks = (Task(0.0, run_time=10.0),) * 3
    compiled = CompiledScenario(
        Case(({"cores": 1.0, "power": LINEAR},), tasks, {"name": policy}).scenario
    )
    run = compiled.start(placements=True, use=True)
    run.run_until(4.0)
    assert run.add_machine(1.0, like=0) == 1
    while run.run_slice():
        pass
    assert sorted(run.outcomes()["end"].tolist()) == [10.0, 14.0, 20.0]
    # The second machine: 10 s at 200 W and 6 s idle.
    assert run.energy().tolist() == pytest.approx([20 * 200.0, 10 * 200.0 + 6 * 100.0])
    assert run.power(20.0, True).tolist() == pytest.approx([200.0, 130.0])


@pytest.mark.parametrize(
    "policy", ["fcfs", "easy", "conservative", "sjf", "first-fit", "worst-fit"]
)
@pytest.mark.parametrize("model", [{}, {"contention": {"linear": {"slope": 0.5}}}])
def test_a_machine_that_is_removed_gives_its_tasks_back(policy, model):
    tasks = (Task(0.0, run_time=10.0),) * 2
    compiled = CompiledScenario(
        Case(({"cores": 1.0, "power": LINEAR},) * 2, tasks, {"name": policy}, model).scenario
    )
    run = compiled.start(placements=True)
    run.run_until(4.0)
    run.remove_machine(1)
    while run.run_slice():
        pass
    found = run.outcomes()
    assert sorted(found["end"].tolist()) == [10.0, 20.0]
    assert sorted(found["attempts"].tolist()) == [1, 2]
    assert run.energy().tolist() == pytest.approx([4000.0, 800.0])
    with pytest.raises(ValueError, match="was removed"):
        run.remove_machine(1)


# --- orders of a policy in Python -----------------------------------------------------------------


class Recorder(Policy):
    """First come, first served, with orders at given times."""

    def __init__(self, orders=None):
        self.orders = dict(orders or {})
        self.calls = []
        self.refused = []

    def start(self, view, rng):
        return self

    def failed(self, decision, reason):
        self.refused.append((decision, reason))

    def decide(self, view):
        self.calls.append((view.now, list(view.waiting)))
        free = view.free_cores
        made = []
        for task in view.waiting:
            machine = int(np.argmax(free))
            if free[machine] < 1:
                break
            free[machine] -= 1
            made.append(Place(task, machine))
        return made + [order(view) for order in self.orders.pop(view.now, ())]


class Idle(Recorder):
    decide_when_idle = True


def run_policy(policy, machines=1, **parts):
    case = Case(({"cores": 1.0, "power": LINEAR},) * machines, **parts)
    sim = Simulation(CompiledScenario(case.scenario.replace(policy=policy)))
    sim.run()
    return sim


@pytest.mark.parametrize("state", ["on", "off"])
def test_an_order_to_a_machine_that_is_down_is_refused(state):
    policy = Recorder({5.0: [lambda view: SetState(1, state)]})
    sim = run_policy(
        policy,
        machines=2,
        tasks=(Task(0.0, run_time=4.0), Task(5.0, run_time=4.0)),
        failures=((1, 3.0, 4.0),),
    )
    assert policy.refused == [(SetState(1, state), "the machine is down")]
    states = sim.trace().node_states.sort("start")
    assert states.select("node", "start", "end").rows() == [("m1", 3.0, 7.0)]


def test_a_policy_is_woken_while_no_task_waits():
    policy = Recorder({0.0: [lambda view: Wake(6.0)], 6.0: [lambda view: SetState(1, "off")]})
    sim = run_policy(policy, machines=2, tasks=(Task(0.0, run_time=10.0),))
    assert policy.calls == [(0.0, [0]), (6.0, [])]
    assert sim.machines["energy"].to_list() == pytest.approx([2000.0, 600.0])


def test_a_policy_may_decide_after_changes_while_no_task_waits():
    tasks = (Task(0.0, run_time=2.0), Task(8.0, run_time=2.0))
    off = [lambda view: SetState(0, "off")]
    on = [lambda view: SetState(0, "on"), lambda view: Wake(8.5)]
    policy = Idle({2.0: off, 8.0: on})
    sim = run_policy(policy, tasks=tasks)
    assert [time for time, _ in policy.calls] == [0.0, 2.0, 8.0, 8.5, 10.5]
    assert sim.tasks["end"].to_list() == [2.0, 10.5]
    # Off from 2 to 8.
    assert sim.machines["energy"].to_list() == pytest.approx([2 * 200.0 + 0.5 * 100.0 + 2 * 200.0])
    usual = Recorder()
    run_policy(usual, tasks=tasks)
    assert [time for time, _ in usual.calls] == [0.0, 8.0]


def test_wakes_between_distant_tasks_are_not_in_vain():
    class Periodic(Idle):
        def decide(self, view):
            return [*super().decide(view), Wake(view.now + 1.0)]

    policy = Periodic()
    sim = run_policy(policy, tasks=(Task(0.0, run_time=1.0), Task(12_000.0, run_time=1.0)))
    assert sim.tasks["status"].to_list() == ["completed", "completed"]
    assert len(policy.calls) > 12_000


def test_a_view_is_an_error_after_the_decision():
    class Keeper(Recorder):
        def decide(self, view):
            self.view = view
            return super().decide(view)

    policy = Keeper()
    sim = run_policy(policy, tasks=(Task(0.0, run_time=1.0),))
    with pytest.raises(ValueError, match="valid only until `decide` returns"):
        _ = policy.view.now
    del sim
    with pytest.raises(ValueError, match="valid only until `decide` returns"):
        _ = policy.view.waiting


# --- simultaneous events --------------------------------------------------------------------------


def test_changes_at_one_time_precede_one_decision():
    policy = Recorder()
    run_policy(policy, tasks=(Task(0.0, run_time=2.0), Task(1.0), Task(2.0)))
    assert policy.calls == [(0.0, [0]), (1.0, [1]), (2.0, [1, 2]), (3.0, [2])]


@pytest.mark.parametrize("sharing", [{}, {"contention": {"linear": {"slope": 0.5}}}])
def test_a_decision_after_each_event(sharing):
    policy = Recorder()
    tasks = (Task(0.0, run_time=2.0), Task(0.0, run_time=2.0), *[Task(0.0)] * 2)
    run_policy(policy, machines=2, tasks=tasks, model={"decide": "event", **sharing})
    assert policy.calls[:3] == [(0.0, [0, 1, 2, 3]), (2.0, [2, 3]), (2.0, [3])]
    policy = Recorder()
    run_policy(policy, machines=2, tasks=tasks)
    assert policy.calls[:3] == [(0.0, [0, 1, 2, 3]), (2.0, [2, 3])]


def test_a_decision_after_each_end_on_a_shared_machine():
    # Two of four cores end at once, in one event of the kernel.
    policy = Recorder()
    tasks = (Task(0.0, run_time=2.0),) * 4 + (Task(1.0),) * 4
    case = Case(
        ({"cores": 4.0},),
        tasks,
        model={"decide": "event", "contention": {"linear": {"slope": 1.0}}},
    )
    Simulation(CompiledScenario(case.scenario.replace(policy=policy))).run()
    assert [len(waiting) for time, waiting in policy.calls if time == 2.0] == [4, 3, 2, 1]


@pytest.mark.parametrize(
    ("order", "status"),
    [(("ends", "machines", "submissions"), 1), (("machines", "ends", "submissions"), 5)],
)
def test_a_task_that_ends_when_its_machine_fails(order, status):
    case = Case(
        ({"cores": 1.0},),
        (Task(0.0, run_time=2.0),),
        model={"instant_order": list(order)},
        failures=((0, 2.0, 1.0),),
        then={"on_failure": "lost"},
    )
    assert case.run_to_end().outcomes()["status"].tolist() == [status]


@pytest.mark.parametrize(
    ("order", "seen"),
    [(("ends", "machines", "submissions"), 1), (("submissions", "ends", "machines"), 2)],
)
def test_a_task_that_is_submitted_when_another_ends_with_a_decision_after_each_event(order, seen):
    policy = Recorder()
    model = {"decide": "event", "instant_order": list(order)}
    run_policy(policy, tasks=(Task(0.0, run_time=2.0), Task(1.0), Task(2.0)), model=model)
    assert next(len(waiting) for time, waiting in policy.calls if time == 2.0) == seen


def test_a_copy_between_a_change_of_use_and_its_record_records_it_too():
    # At 0 s, both machines are used, and the task without work ends in the same instant.
    case = Case(
        ({"cores": 1.0, "power": LINEAR},) * 2,
        (Task(0.0, run_time=0.0), Task(0.0, run_time=10.0)),
        model={"contention": {"linear": {"slope": 0.0}}},
    )
    run = CompiledScenario(case.scenario).start(use=True)
    run.step()
    run.next_time()
    twin = run.copy()
    for each in (run, twin):
        while each.run_slice():
            pass
    assert twin.use()["used"].tolist() == run.use()["used"].tolist()
    assert twin.power(1.0, True).tolist() == run.power(1.0, True).tolist()


def test_a_late_run_has_no_empty_window_of_power():
    case = Case(({"cores": 1.0, "power": LINEAR},), (Task(1.5e9, run_time=1000.7),))
    watts = case.run_to_end(use=True).power(0.1, False)
    assert np.isfinite(watts).all()
    assert watts == pytest.approx(200.0)


def test_reservations_now_after_each_event_are_an_endless_loop():
    class Reserving(Recorder):
        def decide(self, view):
            return [Reserve(view.first_waiting, view.now, 0)]

    with pytest.raises(tl.TwinloopError, match="without progress"):
        run_policy(Reserving(), tasks=(Task(0.0),), model={"decide": "event"})


def test_an_order_with_a_group_twice_is_refused():
    with pytest.raises(tl.InputError, match="instant_order: must have each of"):
        tl.Scenario(
            platform="1x1",
            policy="fcfs",
            workload=workload({"run_time": 1}),
            model={"instant_order": ["ends", "ends", "submissions"]},
        )


@pytest.mark.parametrize("random_failures", [{}, {"mtbf": 20.0, "mttr": 5.0}])
def test_a_run_until_infinity_ends_with_the_last_task(random_failures):
    case = Case(
        ({"cores": 1.0},) * 2, (Task(0.0, run_time=10.0),) * 4, random_failures=random_failures
    )
    compiled = CompiledScenario(case.scenario)
    run = compiled.start()
    compiled.advance(run, lambda: run.run_until(math.inf))
    assert run.outcomes()["status"].tolist() == [1] * 4
    assert run.now == run.outcomes()["end"].max()
