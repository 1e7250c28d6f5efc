"""Instances in a simulation: two levels of sharing, their life, energy and records, by hand.

Random programs of instances against a slow world are in `tests/world`.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import twinloop as tl
from tests.cluster.scenarios import BATCH, FITTING, Case, Task, cases, few
from tests.cluster.test_twins import ALONE, NEAR, in_order
from twinloop.engine import CompiledScenario, Simulation
from twinloop.metrics import figures
from twinloop.policy import Place, Policy

POWER = {"model": "linear", "idle": 100.0, "max": 300.0}


class ByName(Policy):
    """Places each task on the machine that its user is called after."""

    overcommit = 100.0

    def decide(self, view):
        names = {view.machine_name(machine): machine for machine in range(view.machines)}
        for task in view.waiting:
            machine = names.get(view.user(task))
            if machine is not None and view.state(machine) == "running":
                yield Place(task, machine)


def start(*tasks: Task, machines=({"cores": 4.0, "power": POWER},), **options) -> Simulation:
    """Start a simulation in which the user of a task is the name of its machine."""
    return Simulation(Case(machines, tasks, ByName(), **options).scenario)


def ends(sim: Simulation) -> list[float | None]:
    return sim.tasks["end"].to_list()


# --- two levels -----------------------------------------------------------------------------------


def test_an_instance_gets_its_size_and_leaves_the_rest_to_others():
    sim = start(
        Task(1.0, cores=4.0, run_time=6.0, user="vm"),  # 24 core-seconds
        Task(1.0, cores=2.0, run_time=6.0, user="m0"),  # 12
    )
    sim.add_instance("vm", host="m0", cores=3.0, overcommit=True)
    # Claims 3 and 2 of 4 cores: 2.4 and 1.6. The second ends at 1 + 7.5; then the instance has 3:
    # 24 - 18 are left.
    sim.run_until(100.0)
    assert ends(sim) == pytest.approx([8.5 + 2.0, 8.5])


def test_what_the_tasks_of_an_instance_cannot_use_goes_to_the_others():
    sim = start(
        Task(1.0, cores=1.0, run_time=10.0, user="narrow"),
        Task(1.0, cores=4.0, run_time=3.0, user="wide"),
    )
    for name in ("narrow", "wide"):
        sim.add_instance(name, host="m0", cores=4.0, overcommit=True)
    sim.run_until(100.0)
    assert ends(sim) == pytest.approx([11.0, 1.0 + 12.0 / 3.0])


def test_the_energy_of_an_instance_is_that_of_its_tasks_and_part_of_the_host():
    sim = start(
        Task(0.0, cores=1.0, run_time=10.0, user="vm"),
        Task(0.0, cores=2.0, run_time=10.0, user="m0"),
    )
    sim.add_instance("vm", host="m0", cores=1.0)
    sim.run_until(20.0)
    host, vm = sim.machines["energy"].to_list()
    assert host == pytest.approx(250.0 * 10 + 100.0 * 10)
    assert vm == pytest.approx(2500.0 / 3.0) == sim.tasks["energy"][0]
    assert sim.kpis()["energy_j"] == pytest.approx(host)
    trace = sim.trace()
    assert trace.manifest.facts["run"]["energy_j"] == pytest.approx(host)
    assert figures(trace).energy == pytest.approx(host)
    sim.remove_machine("vm")
    sim.run_until(30.0)
    assert sim.machines["energy"].to_list() == pytest.approx([host + 1000.0, vm])


# --- life -----------------------------------------------------------------------------------------


def test_instances_fail_and_come_back_with_their_host():
    sim = start(Task(0.0, run_time=10.0, user="vm"))
    sim.add_instance("vm", host="m0", cores=2.0)
    sim.run_until(4.0)
    sim.fail("m0")
    assert sim.machines["state"].to_list() == ["down", "down"]
    with pytest.raises(tl.InputError, match="its host is down"):
        sim.restore("vm")
    sim.run_until(6.0)
    sim.restore("m0")
    sim.run_until(100.0)
    assert ends(sim) == [16.0]
    states = sim.trace().instance_states
    assert states.rows() == [("vm", 4.0, 6.0, "down")]
    assert sim.trace().node_states.rows() == [("m0", 4.0, 6.0, "down")]


def test_an_instance_that_failed_alone_stays_down_with_its_host_restored():
    sim = start(Task(0.0, run_time=10.0, user="vm"))
    sim.add_instance("vm", host="m0", cores=2.0)
    sim.fail("vm")
    sim.fail("m0")
    sim.restore("m0")
    assert sim.machines["up"].to_list() == [True, False]
    sim.restore("vm")
    sim.run_until(100.0)
    assert ends(sim) == [10.0]


def test_a_suspended_instance_keeps_its_tasks_and_uses_nothing():
    sim = start(Task(0.0, run_time=10.0, user="vm"))
    sim.add_instance("vm", host="m0", cores=2.0)
    sim.run_until(4.0)
    sim.set_state("vm", "suspended")
    sim.run_until(9.0)
    assert sim.machines["energy"][0] == pytest.approx(150.0 * 4 + 100.0 * 5)
    with pytest.raises(tl.InputError, match="the machine has instances"):
        sim.set_state("m0", "off")
    sim.set_state("vm", "on")
    sim.run_until(100.0)
    assert ends(sim) == [15.0]


def test_the_tasks_of_instances_wait_while_their_host_is_suspended():
    states = {"suspended": {"power": 20.0, "tasks": "kept"}}
    sim = start(
        Task(0.0, run_time=10.0, user="vm"),
        Task(0.0, run_time=10.0, user="m0"),
        machines=({"cores": 4.0, "power": POWER, "states": states},),
    )
    sim.add_instance("vm", host="m0", cores=2.0)
    sim.run_until(3.0)
    sim.set_state("vm", "suspended")
    sim.run_until(4.0)
    sim.set_state("m0", "suspended")
    sim.run_until(6.0)
    sim.set_state("vm", "on")
    sim.run_until(7.0)
    sim.set_state("m0", "on")
    sim.run_until(100.0)
    # The first waits from 3 to 7, the second from 4 to 7.
    assert ends(sim) == [14.0, 13.0]


def test_removing_a_host_removes_its_instances():
    hosts = ({"cores": 4.0}, {"cores": 4.0})
    sim = start(Task(0.0, run_time=10.0, user="vm"), machines=hosts)
    sim.add_instance("vm", host="m1", cores=2.0)
    sim.run_until(4.0)
    sim.remove_machine("m1")
    assert sim.machines["state"].to_list() == ["running", "removed", "removed"]
    assert sim.waiting == ["t0"]
    assert sim.machines["host"].to_list() == [None, None, None]


# --- size and place -------------------------------------------------------------------------------


def test_a_resized_instance_shares_its_new_size():
    sim = start(Task(0.0, cores=4.0, run_time=3.0, user="vm"))
    sim.add_instance("vm", host="m0", cores=2.0)
    sim.run_until(2.0)  # 4 of 12 core-seconds
    with pytest.raises(tl.InputError, match="too few free cores"):
        sim.set_cores("vm", 5.0)
    sim.set_cores("vm", 4.0)
    sim.run_until(100.0)
    assert ends(sim) == [4.0]
    assert sim.machines["free_cores"].to_list() == [0.0, 4.0]


def test_tasks_continue_on_the_host_that_their_instance_moves_to():
    hosts = ({"cores": 2.0}, {"cores": 2.0, "speed": 2.0})
    sim = start(
        Task(0.0, cores=2.0, run_time=10.0, user="vm"),
        Task(0.0, cores=2.0, run_time=10.0, user="m0"),
        machines=hosts,
    )
    sim.add_instance("vm", host="m0", cores=2.0, overcommit=True)
    sim.run_until(4.0)  # each has done 2 of 10 s
    sim.move_instance("vm", "m1")
    sim.run_until(100.0)
    # 8 s of work at twice the speed, and alone; 8 s alone.
    assert ends(sim) == [8.0, 12.0]
    assert sim.tasks["attempts"].to_list()[:2] == [1, 1]
    # 4 core-seconds on the slow host, and half of the rest on the fast one.
    assert sim.trace().tasks["cpu_time"][0] == pytest.approx(4.0 + 8.0)


def test_a_suspended_instance_can_move():
    hosts = ({"cores": 2.0}, {"cores": 2.0, "speed": 2.0})
    sim = start(Task(0.0, run_time=10.0, user="vm"), machines=hosts)
    sim.add_instance("vm", host="m0", cores=1.0)
    sim.run_until(4.0)
    sim.set_state("vm", "suspended")
    sim.run_until(5.0)
    sim.move_instance("vm", "m1")
    sim.run_until(6.0)
    sim.set_state("vm", "on")
    sim.run_until(100.0)
    assert ends(sim) == [9.0]


def test_the_table_of_instances_has_a_row_for_each_host_and_size():
    sim = start(Task(0.0, user="m0"), machines=({"cores": 4.0},) * 2)
    sim.add_instance("vm", host="m0", cores=2.0, memory=8.0)
    sim.run_until(1.0)
    sim.move_instance("vm", "m1")
    sim.run_until(2.0)
    sim.set_cores("vm", 3.0)
    sim.run_until(3.0)
    sim.remove_machine("vm")
    sim.add_instance("other", host="m0", cores=1.0)
    trace = sim.trace()
    assert trace.instances[:, :7].rows() == [
        ("vm", "m0", 2.0, 8.0, 0.0, 1.0, "moved"),
        ("vm", "m1", 2.0, 8.0, 1.0, 2.0, "resized"),
        ("vm", "m1", 3.0, 8.0, 2.0, 3.0, "removed"),
        ("other", "m0", 1.0, None, 3.0, None, None),
    ]
    assert trace.nodes["node"].to_list() == ["m0", "m1"]
    assert sim.copy(history=False).instances["instance"].to_list() == ["other"]


def test_a_trace_with_instances_passes_the_quality_gate_and_can_be_stored(tmp_path):
    sim = start(Task(0.0, run_time=10.0, user="vm"))
    sim.add_instance("vm", host="m0", cores=2.0)
    sim.run_until(20.0)
    trace = sim.trace()
    assert not tl.check(trace).errors
    trace.save(tmp_path / "run")
    again = tl.Trace.load(tmp_path / "run")
    assert again.instances.equals(trace.instances)
    assert again.placements["machine"].to_list() == ["vm"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda sim: sim.add_instance("b", host="m0", cores=3.0), "too few free cores"),
        (lambda sim: sim.add_instance("b", host="a", cores=1.0), "an instance cannot be a host"),
        (lambda sim: sim.add_instance("a", host="m0", cores=1.0), "already the name"),
        (lambda sim: sim.add_instance("b", host="m9", cores=1.0), "no machine 'm9'"),
        (lambda sim: sim.add_instance("b", host="m0", cores=0.0), "must be positive"),
        (lambda sim: sim.add_instance("b", host="m1", cores=1.0), "give that of the instance"),
        (
            lambda sim: sim.add_instance("b", host="m1", cores=1.0, memory=9.0),
            "too little free memory",
        ),
        (lambda sim: sim.move_instance("a", "m0"), "is on this host"),
        (lambda sim: sim.move_instance("m0", "m1"), "not an instance"),
        (lambda sim: sim.move_instance("a", "m1"), "give that of the instance"),
        (lambda sim: sim.set_cores("m0", 1.0), "tasks and instances use 2 cores"),
    ],
)
def test_what_is_not_possible_is_refused_and_changes_nothing(change, message):
    sim = start(machines=({"cores": 4.0}, {"cores": 4.0, "memory": 8.0}))
    sim.add_instance("a", host="m0", cores=2.0)
    before = sim.machines
    with pytest.raises(tl.InputError, match=message):
        change(sim)
    assert sim.machines.equals(before)


def test_built_in_policies_place_tasks_on_instances():
    tasks = tuple(Task(0.0, cores=2.0, run_time=10.0) for _ in range(3))
    sim = Simulation(Case(({"cores": 4.0},), tasks, {"name": "first-fit"}).scenario)
    sim.add_instance("vm", host="m0", cores=2.0)
    # The instance takes two cores of the host: one task at a time on each.
    assert sim.run()["end"].to_list() == [10.0, 10.0, 20.0]
    assert sim.trace().placements["machine"].to_list() == ["m0", "vm", "m0"]


def test_a_state_holds_instances_and_refuses_an_unknown_host():
    sim = start(Task(0.0, run_time=10.0, user="vm"), machines=({"cores": 4.0},) * 2)
    sim.add_instance("vm", host="m0", cores=2.0, memory=8.0)
    sim.run_until(2.0)
    sim.add_instance("gone", host="m1", cores=1.0)
    sim.remove_machine("gone")
    sim.move_instance("vm", "m1")
    compiled = start(Task(0.0, run_time=10.0, user="vm"), machines=({"cores": 4.0},) * 2)._compiled
    again = Simulation(compiled, state=sim.state)
    assert again.machines.equals(sim.machines)
    again.run_until(20.0)
    assert ends(again) == [10.0]
    rows = [dict(row) for row in sim.state.machines]
    rows[2]["added"] = {"host": "m9"}
    with pytest.raises(tl.InputError, match="'m9'") as refused:
        Simulation(compiled, state=replace(sim.state, machines=tuple(rows)))
    assert refused.value.field == "state.machines: 'vm': added"


# --- sharing that begins in mid-run ---------------------------------------------------------------


@few
@given(
    cases(policies=BATCH + FITTING, model=ALONE, contention=False),
    st.sampled_from([0.5, 3.0]),
    st.integers(0, 12),
)
def test_tasks_that_do_not_share_end_as_before_if_sharing_begins_in_mid_run(case, step, steps):
    logs = {"placements": True, "usage_step": step}
    timers = case.run_to_end(**logs)
    assume(not timers.shared)
    compiled = CompiledScenario(case.scenario)
    changed = compiled.start(**logs)
    for _ in range(steps):
        compiled.advance(changed, changed.step)
    changed.share_machines()
    while compiled.advance(changed, changed.run_slice):
        pass
    assert changed.shared
    for table, keys in (("outcomes", ()), ("placements", ("end",)), ("usage", ("t",))):
        found, expected = (in_order(getattr(run, table)(), keys) for run in (changed, timers))
        for name, column in expected.items():
            np.testing.assert_allclose(found[name], column, rtol=NEAR, atol=NEAR, err_msg=name)
    np.testing.assert_allclose(changed.energy(), timers.energy(), rtol=NEAR, atol=NEAR)


def test_tasks_that_wait_for_a_suspended_machine_go_on_if_sharing_begins():
    states = {"suspended": {"power": 20.0, "tasks": "kept"}}
    sim = start(
        Task(0.0, run_time=10.0, user="m0"),
        machines=({"cores": 4.0, "power": POWER, "states": states}, {"cores": 4.0}),
        model={"kill_at_requested_time": True},
    )
    sim.run_until(3.0)
    sim.set_state("m0", "suspended")
    sim.run_until(5.0)
    sim.add_instance("vm", host="m1", cores=1.0)
    sim.run_until(6.0)
    assert sim.machines["energy"][0] == pytest.approx(150.0 * 3 + 20.0 * 3)
    sim.set_state("m0", "on")
    sim.run_until(100.0)
    assert ends(sim) == [13.0]
