"""Arguments of calls in a run: a wrong one is an error with its name, and nothing has changed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from twinloop.description.errors import InputError, TwinloopError
from twinloop.engine import Environment, Network, Simulation
from twinloop.policy import Place, Policy, Reserve, SetState, Wake
from twinloop.scenario import Scenario

HOST = "C01-H01-001"


def start(policy: Any = "fcfs", **workload: Any) -> Simulation:
    workload = workload or {"tasks": [{"id": "a", "cores": 2, "run_time": 60}]}
    return Simulation(Scenario(platform="1x4", policy=policy, workload=workload))


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        ("add_machine", {"name": 5, "cores": 1}, "name: must be a text, not 5"),
        ("add_machine", {"name": "", "cores": 1}, "name: must not be empty"),
        ("add_machine", {"name": "m", "cores": math.inf}, "'m': cores: must be positive and fin"),
        ("add_machine", {"name": "m", "cores": 1, "speed": math.nan}, "'m': speed: must be posit"),
        ("add_machine", {"name": "m", "cores": 1, "memory": "4 GB"}, "'m': memory: must be a num"),
        ("add_instance", {"name": 5, "host": HOST, "cores": 1}, "name: must be a text"),
        (
            "add_instance",
            {"name": "m", "host": HOST, "cores": math.inf, "overcommit": True},
            "'m': cores: must be positive and finite, not inf",
        ),
        ("add_instance", {"name": "m", "host": HOST, "cores": 1, "memory": 0}, "'m': memory: mus"),
        ("set_cores", {"machine": HOST, "cores": "4"}, "cores: must be a number, not '4'"),
        ("set_cores", {"machine": HOST, "cores": math.nan}, "cores: must be finite"),
        ("set_state", {"machine": HOST, "state": 3}, "state: must be a text, not 3"),
        ("run_until", {"time": "5"}, "time: must be a number, not '5'"),
        ("submit", {"id": "", "cores": 1, "run_time": 1}, "id: must not be empty"),
        ("submit", {"id": "b", "cores": 1, "run_time": "1h"}, "run_time: must be a number"),
        ("submit", {"id": "b", "cores": 1, "run_time": 1, "at": "1h"}, "at: must be a number"),
        ("submit", {"id": "b", "cores": 1, "run_time": 1, "at": math.nan}, "at: must be finite"),
    ],
)
def test_a_wrong_argument_is_named_and_changes_nothing(call, arguments, message):
    sim = start()
    sim.run_until(10.0)
    before = sim.machines.rows()
    with pytest.raises(InputError, match=message):
        getattr(sim, call)(**arguments)
    assert sim.machines.rows() == before
    assert sim.run()["end"].to_list() == [60.0]
    assert sim.trace().nodes.height == 1


@pytest.mark.parametrize("cores", [math.inf, math.nan, -1.0])
def test_the_native_run_refuses_sizes_that_are_not_positive(cores):
    run = start()._run
    for add in (lambda: run.add_machine(cores), lambda: run.add_instance(0, cores)):
        with pytest.raises(ValueError, match="cores must be finite and positive"):
            add()
    assert run.machine_states() == ["running"]


def test_a_removed_machine_refuses_all_that_a_machine_can_do():
    sim = start()
    sim.add_machine("m", cores=2)
    sim.remove_machine("m")
    for call in (
        lambda: sim.remove_machine("m"),
        lambda: sim.fail("m"),
        lambda: sim.restore("m"),
        lambda: sim.set_cores("m", 1),
        lambda: sim.set_state("m", "off"),
        lambda: sim.add_instance("v", host="m", cores=1),
        lambda: sim.move_instance("m", HOST),
    ):
        with pytest.raises(InputError, match="machine 'm': was removed"):
            call()
    assert sim.machines.select("machine", "up", "state").rows()[1] == ("m", False, "removed")


class Orders(Policy):
    """Gives these orders at the first call, and then places the first task."""

    def __init__(self, *orders: Any) -> None:
        self.orders = list(orders)

    def decide(self, view: Any) -> Any:
        orders, self.orders = self.orders, []
        return orders or [Place(task, 0) for task in view.waiting]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (Wake("5"), r"the time must be a number: Wake\(time='5'\)"),
        (Reserve(0, None, 0), r"the time must be a number: Reserve\("),
        (Reserve(0, math.nan, 0), r"\(task 'a'\), but the time of Reserve must not be before now"),
        (Reserve(0, -1.0, 0), r"\(task 'a'\), but the time of Reserve must not be before now"),
        (SetState(0, 3), r"the state must be a text: SetState\(machine=0, state=3\)"),
        (SetState(0, "on"), None),
        (Place(0, 0, cores=3.0), r"cores=3.0\) \(task 'a'\), but the cores do not add up"),
    ],
)
def test_an_order_with_a_wrong_value_is_shown_with_its_task(order, message):
    sim = start(Orders(order))
    if message is None:
        sim.run()
        return
    with pytest.raises(TwinloopError, match=message):
        sim.run()


def test_a_refused_state_is_shown_with_its_machine():
    sim = start(Orders(Place(0, 0), SetState(0, "off")))
    with pytest.raises(TwinloopError, match=rf"\(machine '{HOST}'\), but the machine has tasks"):
        sim.run()


class Impatient(Policy):
    """Asks for its next call after the shortest time that there is."""

    def decide(self, view: Any) -> Any:
        return [Wake(math.nextafter(view.now, math.inf))]


def test_a_policy_that_stops_time_is_an_error_also_if_tasks_are_still_to_come():
    tasks = [{"id": "a", "run_time": 1}, {"id": "b", "run_time": 1, "submit": 3600}]
    with pytest.raises(TwinloopError, match="keeps requesting wake-ups"):
        start(Impatient(), tasks=tasks).run()


def test_a_refused_part_of_a_network_leaves_nothing_behind():
    env = Environment()
    network = Network(env)
    network.node("a")
    for wrong in (
        lambda: network.node("b", send=1.0, receive=math.nan),
        lambda: network.node("b", send="1 Gb/s"),
        lambda: network.store("b", read=-1.0),
        lambda: network.store("b", streams=1.5),
        lambda: network.store("b", node="nowhere"),
        lambda: network.link("a", "a", 1.0),
    ):
        with pytest.raises((ValueError, TypeError)):
            wrong()
    with pytest.raises(ValueError, match="there is a node 'a' already"):
        network.store("a")
    network.node("b", send=1.0)
    store = network.store("s", node="a", read=2.0)
    with pytest.raises((ValueError, TypeError), match="bandwidth"):
        network.link("a", "b", math.inf)
    network.link("a", "b", 4.0)
    store.put("x", 8.0)
    copy = network.transfer(store, "b", file="x")
    env.run()
    assert copy.finished == 4.0
