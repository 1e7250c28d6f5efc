"""Machine states: published figures, cases that can be computed by hand, and laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.states_reference import ReferenceMachine, integrate_power
from tests.examples import examples
from twinloop.engine import Simulation
from twinloop.policy import Place, Policy, SetState, Wake
from twinloop.scenario import Scenario

IDLE, MAX, OFF, ON_POWER, OFF_POWER = 368.8, 722.7, 36.4, 483.1, 409.2
ON_TIME, OFF_TIME = 200.0, 12.0
LINEAR = {"model": "linear", "idle": IDLE, "max": MAX}
#: Table 1 of G. Kecskemeti, "DISSECT-CF: a simulator to foster energy-aware scheduling in
#: infrastructure clouds" (2015).
TABLE_1 = {
    "off": {"power": "36.4 W"},
    "switching-on": {"power": "483.1 W", "duration": "200s"},
    "switching-off": {"power": "409.2 W", "duration": "12s"},
}
#: Table 2 and Equations 12 to 14 there.
TABLE_2 = {
    "off": {"power": "36.4 W"},
    "switching-off": {
        "tasks": [
            {"work": 0.275, "limit": 0.11},
            {"after": "2.5s", "work": 0.855, "limit": 0.19},
            {"after": "1s", "work": 0.228, "limit": 0.15},
        ]
    },
}
SUSPENDED = {
    "suspended": {
        "power": "60 W",
        "tasks": "kept",
        "enter": {"name": "suspending", "power": "400 W", "duration": "8s"},
        "leave": {"name": "resuming", "duration": "4s"},
    }
}
#: Model parameters with which machines are exclusive, shared, or shared without delay.
MODES = {
    "exclusive": {},
    "shared": {"contention": {"linear": {"slope": 0.0}}},
    "no-delay": {"contention": {"linear": {"slope": 0.0}}, "sharing": "no-delay"},
}


def scenario(states: dict[str, Any], *tasks: dict[str, Any], machines: int = 1, **parts: Any):
    host = {"names": [f"m{i}" for i in range(machines)], "cores": 4, "power": LINEAR}
    listed = [{"id": f"t{i}", "run_time": 10.0, **task} for i, task in enumerate(tasks or ({},))]
    return Scenario(
        platform={"clusters": [{"hosts": [{**host, "states": states}]}]},
        workload={"tasks": listed},
        **{"policy": "fcfs", **parts},
    )


def states_of(sim: Simulation) -> list[tuple[Any, ...]]:
    return sim.trace().node_states.select("node", "start", "end", "state").rows()


# --- published tables -----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_switching_off_by_hidden_tasks_takes_12_02_s_and_4913_6_j(mode):
    sim = Simulation(scenario(TABLE_2, model=MODES[mode]))
    sim.run()
    before = sim.machines["energy"][0]
    sim.set_state("m0", "off")
    sim.run_until(1000.0)
    assert states_of(sim)[0] == ("m0", 10.0, pytest.approx(22.02), "switching-off")
    joules = sim.machines["energy"][0] - before - (1000.0 - 22.02) * OFF
    assert round(joules, 1) == 4913.6
    assert round(joules / 12.02, 1) == 408.8


def test_states_of_table_1():
    sim = Simulation(scenario(TABLE_1))
    sim.run()
    sim.set_state("m0", "off")
    sim.run_until(22.0)
    sim.set_state("m0", "on")
    sim.run_until(222.0)
    assert states_of(sim) == [
        ("m0", 10.0, 22.0, "switching-off"),
        ("m0", 22.0, 22.0, "off"),
        ("m0", 22.0, 222.0, "switching-on"),
    ]
    ran = 10.0 * (IDLE + (MAX - IDLE) / 4)
    joules = ran + OFF_TIME * OFF_POWER + ON_TIME * ON_POWER
    assert sim.machines["energy"].to_list() == pytest.approx([joules])


BREAK_EVEN = (OFF_TIME * OFF_POWER + ON_TIME * ON_POWER - (OFF_TIME + ON_TIME) * OFF) / (IDLE - OFF)


def energy_of_gap(gap: float, *, off: bool) -> float:
    """The energy of a machine of Table 1 that has nothing to do for so many seconds."""
    sim = Simulation(scenario(TABLE_1))
    sim.run()
    before = sim.machines["energy"][0]
    if off:
        sim.set_state("m0", "off")
        sim.run_until(10.0 + gap - ON_TIME)
        sim.set_state("m0", "on")
    sim.run_until(10.0 + gap)
    assert sim.machines["state"].to_list() == ["running"]
    return float(sim.machines["energy"][0] - before)


def test_switching_off_pays_for_gaps_longer_than_282_2_s():
    assert round(BREAK_EVEN, 1) == 282.2
    at = [energy_of_gap(BREAK_EVEN, off=off) for off in (True, False)]
    assert at[0] == pytest.approx(at[1], rel=1e-12)
    assert energy_of_gap(282.1, off=True) > energy_of_gap(282.1, off=False)
    assert energy_of_gap(282.3, off=True) < energy_of_gap(282.3, off=False)


# --- reversal -------------------------------------------------------------------------------------


def test_a_reversed_transition_is_shortened_to_the_share_that_was_done():
    sim = Simulation(scenario(TABLE_1))
    sim.run()
    sim.set_state("m0", "off")
    sim.run_until(13.0)
    # A quarter of switching off has passed: a quarter of switching on brings the machine back.
    sim.set_state("m0", "on")
    assert sim.view.transition_end(0) == 63.0
    sim.run_until(53.0)
    # 4/5 of this way back are done, which began at 3/4 of switching on: 19/20 of it.
    sim.set_state("m0", "off")
    assert sim.view.transition_end(0) == pytest.approx(53.0 + 0.95 * 12.0)
    sim.run_until(100.0)
    assert sim.machines["state"].to_list() == ["off"]


def test_a_transition_that_is_reversed_at_once_has_not_happened():
    sim = Simulation(scenario(TABLE_1))
    sim.run()
    sim.set_state("m0", "off")
    sim.set_state("m0", "on")
    assert sim.machines["state"].to_list() == ["running"]


def test_hidden_work_is_shortened_from_its_start():
    states = {
        "off": {"power": 0},
        "switching-off": {"duration": 10},
        "switching-on": {"tasks": [{"work": 1, "limit": 0.5}, {"after": 6, "work": 2, "limit": 1}]},
    }
    sim = Simulation(scenario(states))
    sim.run()
    sim.set_state("m0", "off")
    sim.run_until(17.0)
    before = sim.machines["energy"][0]
    # Of 2 s at 0.5, 6 s at 0 and 2 s at 1, the last 7 s are left.
    sim.set_state("m0", "on")
    sim.run_until(24.0)
    assert sim.machines["state"].to_list() == ["running"]
    assert sim.machines["energy"][0] - before == pytest.approx(5.0 * IDLE + 2.0 * MAX)


# --- kept tasks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("at", [1.0, 5.0])
def test_a_kept_task_continues_where_it_was(mode, at):
    """At 1 s the task is in its startup; at 5 s it computes. Its fragments keep their lengths."""
    parts = {"model": {**MODES[mode], "startup_overhead": 3.0}}
    sim = Simulation(scenario(SUSPENDED, {"cores": 2, "nodes": 2}, machines=2, **parts))
    sim.run_until(at)
    sim.set_state("m1", "suspended")
    sim.run_until(at + 20.0)
    done = sim._run.progress(0)
    sim.run_until(at + 25.0)
    assert sim._run.progress(0) == done == pytest.approx(max(0.0, (at - 3.0) / 10.0))
    sim.set_state("m1", "on")
    tasks = sim.run()
    assert tasks["end"].to_list() == pytest.approx([13.0 + 29.0])
    assert tasks["attempts"].to_list() == [1]
    # Each machine is used for 10 s at a quarter; m0 waits with its own power, idle.
    ran = 10.0 * (IDLE + (MAX - IDLE) / 4)
    kept = 8.0 * 400.0 + 17.0 * 60.0 + 4.0 * IDLE
    energy = [ran + 32.0 * IDLE, ran + 3.0 * IDLE + kept]
    assert sim.machines["energy"].to_list() == pytest.approx(energy)
    series = sim.trace().power
    assert series["watts"].dot(series["dt"]) == pytest.approx(sum(energy))
    assert states_of(sim) == [
        ("m1", at, at + 8.0, "suspending"),
        ("m1", at + 8.0, at + 25.0, "suspended"),
        ("m1", at + 25.0, at + 29.0, "resuming"),
    ]


def test_the_requested_time_does_not_pass_while_a_task_is_kept():
    parts = {"model": {"kill_at_requested_time": True}}
    sim = Simulation(scenario(SUSPENDED, {"requested_time": 6.0}, **parts))
    sim.run_until(5.0)
    sim.set_state("m0", "suspended")
    sim.run_until(30.0)
    sim.set_state("m0", "on")
    assert sim.run().select("status", "end").rows() == [("killed", 35.0)]


def test_a_task_that_is_kept_forever_fails_when_nothing_else_can_happen():
    sim = Simulation(scenario(SUSPENDED))
    sim.run_until(5.0)
    sim.set_state("m0", "suspended")
    assert sim.run()["status"].to_list() == ["failed"]


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orders", "after"),
    [
        ([("off", 1.0)], "off"),
        ([("off", 50.0)], "off"),
        ([("off", 50.0), ("on", 10.0)], "running"),
        ([("suspended", 2.0)], "off"),
        ([("suspended", 20.0)], "off"),
        ([("suspended", 20.0), ("on", 1.0)], "running"),
    ],
)
def test_a_machine_that_recovers_is_running_or_off(orders, after):
    sim = Simulation(scenario({**TABLE_1, **SUSPENDED}))
    sim.run()
    for state, wait in orders:
        sim.set_state("m0", state)
        sim.run_until(sim.now + wait)
    sim.fail("m0")
    before = sim.machines["energy"][0]
    sim.run_until(sim.now + 7.0)
    assert sim.machines.select("state", "energy").rows() == [("down", before)]
    with pytest.raises(tl.InputError, match="the machine is down"):
        sim.set_state("m0", "on")
    sim.restore("m0")
    assert sim.machines["state"].to_list() == [after]


# --- orders ---------------------------------------------------------------------------------------


def test_orders_that_a_machine_cannot_follow():
    sim = Simulation(scenario({**TABLE_1, **SUSPENDED}))
    sim.run_until(1.0)
    for state, why in [
        ("off", "the machine has tasks"),
        ("asleep", "no state 'asleep'.*'on', 'off', 'suspended'"),
        ("switching-off", "no state 'switching-off'"),
    ]:
        with pytest.raises(tl.InputError, match=why):
            sim.set_state("m0", state)
    sim.run()
    sim.set_state("m0", "off")
    with pytest.raises(tl.InputError, match="in a transition between two other states"):
        sim.set_state("m0", "suspended")
    sim.run_until(100.0)
    with pytest.raises(tl.InputError, match="has to run before"):
        sim.set_state("m0", "suspended")


class SwitchOnWhenNeeded(Policy):
    """Switch the only machine off when it is idle, and on for a task; wait until it runs."""

    decide_when_idle = True

    def decide(self, view):
        state = view.state(0)
        if state == "running" and not view.waiting and not view.running:
            yield SetState(0, "off")
        if state in ("off", "switching-off") and view.waiting:
            yield SetState(0, "on")
        if state == "switching-on":
            yield Wake(view.transition_end(0) + 1.0)
        for task in view.waiting if state == "running" else ():
            yield Place(task, 0)


def test_a_policy_orders_states_also_without_tasks():
    tasks = ({}, {"submit": 100.0}, {"submit": 313.0})
    sim = Simulation(scenario(TABLE_1, *tasks, policy=SwitchOnWhenNeeded()))
    # The last task comes 3 s after the machine began to switch off: a quarter of 200 s.
    assert sim.run()["start"].to_list() == [0.0, 300.0, 363.0]
    assert [row[1:] for row in states_of(sim)] == [
        (10.0, 22.0, "switching-off"),
        (22.0, 100.0, "off"),
        (100.0, 300.0, "switching-on"),
        (310.0, 313.0, "switching-off"),
        (313.0, 363.0, "switching-on"),
        (373.0, None, "switching-off"),
    ]
    kinds = sim.trace().decisions["kind"].to_list()
    assert kinds == ["place", *["set-state off", "set-state on", "place"] * 2, "set-state off"]


def test_machines_are_added_and_removed_with_their_names_and_states():
    tasks = [{"run_time": 30.0, "cores": 4}] * 2
    sim = Simulation(scenario(TABLE_1, *tasks))
    sim.run_until(5.0)
    sim.add_machine("new", like="m0")
    sim.run_until(12.0)
    assert sim.view.machine_name(1) == "new"
    sim.remove_machine("m0")
    assert sim.machines.select("machine", "state", "tasks").rows() == [
        ("m0", "removed", 0),
        ("new", "running", 1),
    ]
    sim.run()
    sim.set_state("new", "off")
    sim.run_until(200.0)
    trace = sim.trace()
    assert trace.nodes["node"].to_list() == ["m0", "new"]
    assert trace.placements.sort("start")["machine"].to_list() == ["m0", "new", "new"]
    # Each ran a task at full load; t0 was interrupted on m0 at 12 and ran again after t1.
    assert sim.tasks["end"].to_list() == [65.0, 35.0]
    used = [12.0 * MAX, 60.0 * MAX + 12.0 * OFF_POWER + (200.0 - 77.0) * OFF]
    assert sim.machines["energy"].to_list() == pytest.approx(used)
    series = trace.power
    assert series["watts"].dot(series["dt"]) == pytest.approx(sum(used))


# --- laws -----------------------------------------------------------------------------------------

ORDERS = st.lists(
    st.tuples(
        st.integers(0, 240).map(lambda eighths: eighths / 8),
        st.integers(0, 1),
        st.sampled_from(["on", "on", "off", "suspended", "suspended", "fail", "restore"]),
    ),
    max_size=12,
)
TASKS = st.lists(
    st.fixed_dictionaries(
        {
            "submit": st.integers(0, 480).map(lambda eighths: eighths / 8),
            "run_time": st.floats(1.0, 40.0),
            "cores": st.sampled_from([1, 2, 4]),
            "nodes": st.sampled_from([1, 2]),
        }
    ),
    min_size=1,
    max_size=5,
)
LAW_STATES = {
    **TABLE_2,
    "switching-on": {"power": "483.1 W", "duration": "20s"},
    **SUSPENDED,
}


@pytest.mark.parametrize("mode", MODES)
@given(orders=ORDERS, tasks=TASKS)
@examples(12)
def test_random_orders_failures_and_tasks(mode, orders, tasks):
    """States follow the orders, energy is the integral of power, work is kept, nothing leaks."""
    model = {**MODES[mode], "startup_overhead": 0.5}
    sim = Simulation(scenario(LAW_STATES, *tasks, machines=2, model=model))
    machines = [ReferenceMachine(sim.now) for _ in range(2)]
    final = [(40.0, m, order) for order in ("restore", "on", "on") for m in (0, 1)]
    for wait, m, order in (*orders, *final):
        sim.run_until(sim.now + wait)
        for each in machines:
            each.advance(sim.now)
        obey(sim, machines[m], m, order)
    sim.run()
    end = sim.now
    trace, kpis = sim.trace(), sim.kpis()
    assert kpis["completed"] == len(tasks)
    assert sim.machines["state"].to_list() == ["running"] * 2
    assert sim.machines["free_cores"].to_list() == [4.0] * 2
    for m, each in enumerate(machines):
        each.advance(end)
        rows = trace.node_states.filter(node=f"m{m}").sort("start", "state")
        assert rows["state"].to_list() == [state for _, _, state in each.rows()]
        assert rows["start"].to_list() == pytest.approx([start for start, _, _ in each.rows()])
    joules = integrate_power(trace.placements, machines, LINEAR, end, overhead=0.5)
    assert sim.machines["energy"].to_list() == pytest.approx(joules.energy, rel=1e-9)
    series = trace.power
    assert series["watts"].dot(series["dt"]) == pytest.approx(sum(joules.energy), rel=1e-9)
    # A completed execution has computed for its run time while all of its machines were running.
    for task, seconds in joules.computed.items():
        assert seconds == pytest.approx(tasks[int(task[1:])]["run_time"], rel=1e-9, abs=1e-7)
    assert set(joules.computed) == {f"t{i}" for i in range(len(tasks))}


def obey(sim: Simulation, machine: ReferenceMachine, index: int, order: str) -> None:
    """Give an order to the simulation and to the reference, which refuse the same ones."""
    name, occupied = f"m{index}", sim.machines["tasks"][index] > 0
    if order in ("fail", "restore"):
        if (order == "fail") != machine.down:
            getattr(sim, order)(name)
            getattr(machine, order)()
        return
    allowed = machine.order(order, occupied=occupied)
    try:
        sim.set_state(name, order)
    except tl.InputError:
        assert not allowed
    else:
        assert allowed
    assert sim.machines["state"][index] == ("down" if machine.down else machine.name)


def test_periods_of_a_machine_that_is_down_do_not_overlap_those_of_its_states():
    sim = Simulation(scenario(LAW_STATES, {"id": "t0", "run_time": 1}, machines=1))
    for time, call in (
        (20.0, lambda: sim.set_state("m0", "off")),  # 12.02 s
        (25.0, lambda: sim.fail("m0")),
        (40.0, lambda: sim.restore("m0")),
        (50.0, lambda: sim.fail("m0")),
        (60.0, lambda: sim.restore("m0")),
        (70.0, lambda: sim.set_state("m0", "on")),  # 20 s
        (90.0, lambda: None),
    ):
        sim.run_until(time)
        call()
    assert sim.trace().node_states.select("start", "end", "state").rows() == [
        (20.0, 25.0, "switching-off"),
        (25.0, 40.0, "down"),
        (40.0, 50.0, "off"),
        (50.0, 60.0, "down"),
        (60.0, 70.0, "off"),
        (70.0, 90.0, "switching-on"),
    ]
