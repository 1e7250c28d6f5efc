"""Several controllers in one run: the order of their calls, their wake times and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import twinloop as tl
from twinloop.engine import CompiledScenario, Simulation
from twinloop.policy import Kill, Place, Policy, Preempt, Reserve, SetState, Wake
from twinloop.scenario import Scenario

LINEAR = {"model": "linear", "idle": 100.0, "max": 200.0}
STATES = {
    "off": {"power": "5 W"},
    "switching-on": {"power": "150 W", "duration": "30s"},
    "switching-off": {"power": "120 W", "duration": "10s"},
}


def scenario(*tasks: dict[str, Any], machines: int = 2, **parts: Any) -> Scenario:
    names = [f"m{i}" for i in range(machines)]
    host = {"names": names, "cores": 4, "power": LINEAR, "states": parts.pop("states", STATES)}
    listed = [{"id": f"t{i}", "run_time": 100.0, **task} for i, task in enumerate(tasks or ({},))]
    return Scenario(
        platform={"clusters": [{"hosts": [host]}]},
        workload={"tasks": listed},
        **{"policy": "fcfs", **parts},
    )


class Listener(Policy):
    """Notes its calls, and gives the orders of a plan: time -> decisions."""

    calls: list[tuple[str, float]]

    def __init__(self, label: str, plan: dict[float, list[Any]] | None = None) -> None:
        self.label, self.plan = label, plan or {}
        self.refused: list[Any] = []

    def start(self, view, rng):
        return self

    def decide(self, view):
        Listener.calls.append((self.label, view.now))
        return self.plan.get(view.now, ())

    def failed(self, decision, reason):
        self.refused.append((decision, reason))


def test_controllers_are_called_in_their_order_and_each_has_its_wake_time():
    Listener.calls = []
    first = Listener("first", {0.0: [Wake(40.0)]})
    second = Listener("second", {0.0: [Wake(30.0), SetState(1, "off")]})
    sim = Simulation(scenario(controllers=[first, second]))
    sim.run()
    assert Listener.calls == [("first", 0.0), ("second", 0.0), ("second", 30.0), ("first", 40.0)]
    decisions = sim.trace().decisions
    assert decisions.select("policy", "kind", "target").rows() == [
        ("fcfs", "place", "m0"),
        (second.name, "set-state off", "m1"),
    ]


def test_each_controller_gets_its_own_refusals_with_the_reason():
    wrong = [
        Place(0, 0),
        Preempt(1),
        Kill(2),
        SetState(0, "off"),
        SetState(1, "on"),
        Reserve(0, 50.0, 0),
        Wake(0.0),
    ]
    tasks = ({}, {"cores": 4}, {"submit": 50.0})
    Listener.calls = []
    silent, speaking = Listener("silent"), Listener("speaking", {0.0: wrong})
    sim = Simulation(scenario(*tasks, {"cores": 4}, controllers=[silent, speaking]))
    sim.run_until(10.0)
    assert silent.refused == []
    assert [reason for _, reason in speaking.refused] == [
        "the task is not waiting",
        "the task is neither waiting nor running",
        "the machine has tasks",
        "the task is not waiting",
        "the time of Wake must be later than now",
    ]
    # The preemption was carried out, and an order of the present state is no change.
    assert [decision for decision, _ in speaking.refused] == [
        each for each in wrong if each not in (Preempt(1), SetState(1, "on"))
    ]


def test_a_refusal_without_a_method_is_an_error_of_this_controller():
    class Wrong(Policy):
        def decide(self, view):
            return [SetState(0, "off")]

    wrong = scenario({}, {"cores": 4}, {"cores": 4}, controllers=[Wrong()])
    with pytest.raises(tl.TwinloopError, match=r"the controller .*:Wrong.*the machine has tasks"):
        tl.simulate(wrong)


def test_a_policy_does_not_pay_for_controllers_that_do_nothing():
    Listener.calls = []
    jobs = [{"submit": 7.0 * i, "cores": 1 + i % 4} for i in range(20)]
    alone = CompiledScenario(scenario(*jobs, policy="easy")).run()
    beside = CompiledScenario(scenario(*jobs, policy="easy", controllers=[Listener("none")])).run()
    np.testing.assert_equal(beside, alone)


# --- power-saving ---------------------------------------------------------------------------------

SAVING = {"name": "power-saving", "options": {"idle_time": "60s"}}


def states_of(trace: tl.Trace) -> list[tuple[Any, ...]]:
    return trace.node_states.select("node", "start", "end", "state").rows()


def test_idle_machines_are_switched_off_and_on_when_tasks_need_them():
    """By hand: m1 is idle from the start, m0 from 100 on; the tasks at 400 need both again."""
    tasks = ({}, {"submit": 400.0, "cores": 4}, {"submit": 400.0, "cores": 2})
    trace = tl.simulate(scenario(*tasks, controllers=[SAVING]))
    assert trace.placements["start"].to_list() == [0.0, 430.0, 430.0]
    # Of the machines, m1 ends its task as m0 does: both stay on until the end of the run.
    assert states_of(trace) == [
        ("m1", 60.0, 70.0, "switching-off"),
        ("m1", 70.0, 400.0, "off"),
        ("m0", 160.0, 170.0, "switching-off"),
        ("m0", 170.0, 400.0, "off"),
        ("m0", 400.0, 430.0, "switching-on"),
        ("m1", 400.0, 430.0, "switching-on"),
    ]


def test_only_as_many_machines_are_switched_on_as_tasks_need():
    tasks = ({}, *({"submit": 400.0, "cores": 2},) * 3)
    trace = tl.simulate(scenario(*tasks, machines=4, controllers=[SAVING]))
    assert trace.node_states.filter(state="switching-on")["node"].to_list() == ["m0", "m1"]
    assert set(trace.placements["start"].to_list()) == {0.0, 430.0}


def test_a_machine_that_switches_off_comes_back_for_a_task():
    trace = tl.simulate(scenario({}, {"submit": 165.0}, machines=1, controllers=[SAVING]))
    # Half of switching off is done: half of switching on brings it back.
    assert trace.placements["start"].to_list() == [0.0, 180.0]


def test_machines_that_are_kept_stay_on():
    options = {"name": "power-saving", "options": {"keep": 3}}
    trace = tl.simulate(scenario({}, {"submit": 400.0}, machines=5, controllers=[options]))
    assert trace.node_states.filter(state="off")["node"].to_list() == ["m1", "m2"]
    assert trace.placements["start"].to_list() == [0.0, 400.0]


def test_machines_without_states_are_switched_at_once():
    tasks = ({}, {"submit": 400.0, "cores": 4, "nodes": 2})
    trace = tl.simulate(scenario(*tasks, states={}, controllers=[SAVING]))
    assert trace.placements["start"].to_list() == [0.0, 400.0, 400.0]
    assert states_of(trace) == [("m1", 60.0, 400.0, "off"), ("m0", 160.0, 400.0, "off")]


def test_machines_are_not_on_for_tasks_that_may_not_use_them():
    window = {"name": "course", "start": 0.0, "end": "1000s", "users": ["teacher"]}
    trace = tl.simulate(
        scenario({}, controllers=[SAVING]).replace(**{"platform.reservations": [window]})
    )
    assert trace.node_states.filter(state="off")["end"].to_list() == [1000.0, None]
    assert trace.placements["start"].to_list() == [1030.0]


def test_copies_and_native_threads_have_the_controllers_too():
    tasks = ({}, {"submit": 400.0})
    compiled = CompiledScenario(scenario(*tasks, controllers=[SAVING]))
    assert compiled.run_many([compiled.values()] * 2)["makespan_s"].tolist() == [530.0] * 2
    sim = Simulation(compiled)
    sim.run_until(165.0)
    twin = sim.copy()
    assert twin.run().equals(sim.run())
    np.testing.assert_equal(twin.kpis(), sim.kpis())


# --- descriptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"policy": "power-saving"}, "policy: .*add it to `controllers`"),
        ({"controllers": ["power-savin"]}, r"controllers\[0\]: no controller is called"),
        (
            {"controllers": [{"name": "power-saving", "options": {"idle_tim": 3}}]},
            r"controllers\[0\].options.idle_tim.*did you mean 'idle_time'",
        ),
        (
            {"controllers": [{"name": "power-saving", "options": {"keep": -1}}]},
            r"controllers\[0\].options.keep",
        ),
    ],
)
def test_problems_of_controllers_have_their_path(parts, problem):
    with pytest.raises(tl.InputError, match=problem):
        scenario(**parts)


def test_controllers_are_written_and_read_again():
    made = scenario(controllers=["power-saving", SAVING])
    assert Scenario.from_text(made.to_yaml()) == made
    with pytest.raises(tl.InputError, match=r"controllers\[0\]: a file cannot contain an object"):
        scenario(controllers=[Listener("object")]).to_yaml()


def test_a_real_execution_refuses_controllers():
    with pytest.raises(tl.InputError, match="controllers: a real execution follows the policy"):
        tl.execute(scenario(controllers=[SAVING]))
