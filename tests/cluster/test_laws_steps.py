"""Stepwise simulation: changes by the caller, and rejection of invalid changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.scenarios import Case, Task, cases, few
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation

LINEAR = {"model": "linear", "idle": 100.0, "max": 200.0}
TWO = ({"cores": 2.0, "power": LINEAR},) * 2


def simulation(*tasks: Task, **parts) -> Simulation:
    return Simulation(Case(**{"machines": TWO, "tasks": tasks, **parts}).scenario)


@few
@given(cases(), st.lists(st.sampled_from([0.25, 1.0, 3.5]), max_size=6))
def test_running_in_pieces_is_running_at_once(case, pieces):
    compiled = CompiledScenario(case.scenario)
    whole, sim = Simulation(compiled), Simulation(compiled)
    for piece in pieces:
        sim.run_until(sim.now + piece)
        assert sim.next_time > sim.now
    found, expected = sim.run(), whole.run()
    assert found.drop("energy").equals(expected.drop("energy"))


@pytest.mark.parametrize("lengths", [(9.0, 1.0, 4.0), (1.0, 9.0, 4.0), (4.0, 1.0, 9.0)])
def test_a_run_can_be_looked_at_whichever_task_ends_first(lengths):
    sim = simulation(*(Task(0.0, run_time=length) for length in lengths))
    schema, seen = sim.tasks.schema, []
    while True:
        tasks, trace = sim.tasks, sim.trace()
        assert tasks.schema == schema
        ended = [None if end is None else "completed" for end in tasks["end"]]
        assert tasks["status"].to_list() == trace.tasks["status"].to_list() == ended
        seen.append(ended.count("completed"))
        if not sim.step():
            break
    assert set(seen) == {0, 1, 2, 3}


def test_a_task_may_come_later():
    sim = simulation(Task(0.0, cores=2.0, run_time=4.0))
    sim.run_until(1.0)
    sim.submit("now", cores=3.0, run_time=2.0)
    sim.submit("later", cores=1.0, run_time=1.0, at=9.0)
    sim.submit("never", cores=5.0, run_time=1.0)
    tasks = sim.run()
    assert tasks["id"].to_list() == ["t0", "now", "later", "never"]
    assert tasks["start"].to_list() == [0.0, 4.0, 9.0, None]
    assert tasks["status"].to_list() == ["completed"] * 3 + ["rejected"]


def test_a_machine_fails_and_comes_back():
    sim = simulation(Task(0.0, cores=2.0, run_time=4.0), Task(0.0, cores=2.0, run_time=4.0))
    sim.run_until(1.0)
    sim.fail("m0")
    assert sim.machines["up"].to_list() == [False, True]
    assert sim.running == ["t1"]
    sim.run_until(3.0)
    sim.restore("m0")
    tasks = sim.run()
    assert tasks["end"].to_list() == [7.0, 4.0]
    assert tasks["attempts"].to_list() == [2, 1]
    # m0 is off for 2 s, and both machines are looked at until 7.
    assert sim.machines["energy"].to_list() == [200.0 + 4 * 200.0, 4 * 200.0 + 3 * 100.0]


def test_a_machine_gets_more_cores():
    sim = simulation(Task(0.0, cores=4.0, run_time=4.0), Task(0.0, cores=2.0, run_time=4.0))
    sim.run_until(1.0)
    sim.set_cores("m1", 4.0)
    assert sim.run()["start"].to_list() == [0.0, 1.0]


def test_power_and_energy_agree_after_a_machine_has_changed():
    sim = simulation(Task(0.0, cores=4.0, run_time=4.0))
    sim.run_until(1.0)
    sim.set_cores("m1", 4.0)
    sim.run()
    run = sim._run
    energy = float(run.energy().sum())
    assert energy == 4 * 200.0 + 200.0 + 3 * 150.0
    assert float(run.power(1.0, False).sum()) == pytest.approx(energy, rel=1e-12)


def test_beyond_the_end_only_the_time_advances():
    sim = simulation(Task(0.0, cores=2.0, run_time=4.0))
    sim.run_until(10.0)
    assert sim.now == 10.0
    assert not sim.step()
    assert sim.next_time == float("inf")
    assert sim.machines["energy"].to_list() == [4 * 200.0 + 6 * 100.0, 1000.0]
    assert not sim.step()
    sim.submit("more", cores=1.0, run_time=1.0)
    assert sim.step()
    assert sim.run()["end"].to_list() == [4.0, 11.0]


def test_a_state_while_one_task_has_taken_another_along():
    # t0 is killed at 1 and t1, which waits for it, has failed: both are over, each once.
    tasks = (
        Task(0.0, run_time=4.0, requested=1.0),
        Task(0.0, parents=(0,)),
        Task(0.0, run_time=6.0, requested=6.0),
    )
    case = Case(TWO, tasks, model={"kill_at_requested_time": True})
    sim = Simulation(case.scenario)
    sim.run_until(2.0)
    rest = Simulation(case.scenario, state=sim.state).run()
    assert rest["status"].to_list() == ["killed", "failed", "completed"]
    assert rest["end"].to_list() == [1.0, None, 6.0]


@pytest.mark.parametrize("name", ["dispatch_latency", "startup_overhead", "release_latency"])
def test_a_state_may_be_taken_at_any_time(name):
    case = Case(({"cores": 1.0},), (Task(0.0, run_time=2.0), Task(0.0)), model={name: 1.0})
    sim = Simulation(case.scenario)
    for _ in range(20):
        rest = Simulation(case.scenario, state=sim.state).run()
        assert rest["status"].to_list() == ["completed", "completed"]
        if not sim.step():
            break
        sim.run_until(sim.now + 0.5)


@pytest.mark.parametrize("time", [5.0, 15.0, 45.0, 105.0, 112.0, 200.0])
@pytest.mark.parametrize("lengths", [(100.0, 10.0, 40.0), (10.0, 40.0, 100.0)])
def test_a_user_returns_after_the_last_task_of_a_session_also_from_a_state(lengths, time):
    # Three tasks of one session, in whatever order they end; the fourth comes 10 s after them.
    tasks = [Task(0.0, run_time=length, user="u") for length in lengths]
    tasks.append(Task(110.0, run_time=5.0, user="u"))
    scenario = Case(({"cores": 4.0},), tuple(tasks), source="sessions:60").scenario
    whole, sim = Simulation(scenario).run(), Simulation(scenario)
    assert whole["submit"].to_list() == [0.0, 0.0, 0.0, 110.0]
    sim.run_until(time)
    rest = Simulation(scenario, state=sim.state).run()
    assert rest.drop("energy").equals(whole.drop("energy"))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda sim: sim.run_until(-1.0),
        lambda sim: sim.run_until(float("nan")),
        lambda sim: sim.run_until(float("inf")),
        lambda sim: sim.fail("nowhere"),
        lambda sim: sim.restore("m0"),
        lambda sim: sim.set_cores("m0", -1.0),
        lambda sim: sim.set_cores("m0", float("nan")),
        lambda sim: sim.set_cores("nowhere", 1.0),
        lambda sim: sim.submit("t0", cores=1.0, run_time=1.0),
        lambda sim: sim.submit("x", cores=-1.0, run_time=1.0),
        lambda sim: sim.submit("x", cores=1.0, run_time=float("inf")),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, at=-5.0),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, at=float("nan")),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, at=float("inf")),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, requested_time=-1.0),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, nodes=-1),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, resources={"gpu": 1.0}),
        lambda sim: sim.submit("x", cores=1.0, run_time=1.0, queue="unheard of"),
    ],
)
def test_what_makes_no_sense_is_refused(attempt):
    sim = simulation(Task(0.0, run_time=4.0))
    with pytest.raises(InputError):
        attempt(sim)
    assert sim.run()["end"].to_list() == [4.0]
