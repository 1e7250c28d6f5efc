"""Random programs of orders and changes: the simulator against a slow, obvious world."""

from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.world.programs import (
    ORDERS,
    Program,
    make_scenario,
    programs,
    run_in_simulator,
    run_slowly,
)
from tests.world.slow_world import SlowWorld
from twinloop.engine import Simulation, SimulationState

#: The simulator adds up floats, the slow world fractions.
ROUNDING = 1e-9


def check_equal(sim: Simulation, world: SlowWorld) -> None:
    rows = {row["id"]: row for row in sim.tasks.iter_rows(named=True)}
    for name, task in world.tasks.items():
        row = rows[name]
        ended = task.phase in ("completed", "killed")
        assert row["status"] == (task.phase if ended else None), name
        assert row["attempts"] == task.attempts, name
        for column, value in (("start", task.start), ("end", task.end)):
            assert row[column] == approx(value), (name, column)
        assert row["energy"] == approx(task.energy), name
    machines = {row["machine"]: row for row in sim.machines.iter_rows(named=True)}
    for name, machine in world.machines.items():
        assert machines[name]["energy"] == approx(machine.energy), name
        taken = sum(task.cores for task in world.on(machine))
        assert machines[name]["tasks"] == len(world.on(machine)), name
        if machine.is_open:
            free = machine.cores - taken - sum(each.cores for each in world.instances(machine))
            assert machines[name]["free_cores"] == pytest.approx(float(free), abs=1e-9), name
    decisions = sim.trace().decisions
    carried_out = list(zip(decisions["t"].to_list(), decisions["kind"].to_list(), strict=True))
    expected = [(float(time), kind) for time, kind in world.carried_out]
    assert carried_out == [(pytest.approx(time), kind) for time, kind in expected]


def approx(value: Fraction | None) -> object:
    return None if value is None else pytest.approx(float(value), rel=ROUNDING, abs=ROUNDING)


def approx_all(values: pl.Series) -> object:
    return pytest.approx(values.to_list(), rel=ROUNDING, abs=ROUNDING)


def check(program: Program) -> None:
    (sim,) = run_in_simulator(program)
    check_equal(sim, run_slowly(program))


@given(programs(ORDERS))
@examples(25)
def test_orders_are_carried_out_or_refused(program: Program) -> None:
    check(program)


@given(programs((*ORDERS, "fail", "restore")))
@examples(25)
def test_tasks_of_failed_machines_start_again(program: Program) -> None:
    check(program)


@given(programs((*ORDERS, "fail", "restore", "add", "remove")))
@examples(25)
def test_machines_come_and_go(program: Program) -> None:
    check(program)


@given(programs((*ORDERS, "set_state", "set_state"), has_states=True))
@examples(25)
def test_transitions_take_time_and_can_be_reversed(program: Program) -> None:
    check(program)


@given(programs((*ORDERS, "set_state", "fail", "restore", "add", "remove"), has_states=True))
@examples(25)
def test_machines_with_states_fail_come_and_go(program: Program) -> None:
    check(program)


INSTANCES = ("add_instance", "add_instance", "move", "resize")


@given(programs((*ORDERS, "place", "place", *INSTANCES)))
@examples(25)
def test_instances_share_their_hosts_on_two_levels(program: Program) -> None:
    check(program)


@given(
    programs((*ORDERS, "place", *INSTANCES, "fail", "restore", "add", "remove"), has_states=True)
)
@examples(25)
def test_instances_fail_and_go_with_their_hosts(program: Program) -> None:
    check(program)


@given(programs((*ORDERS, "place", "place"), has_files=True))
@examples(25)
def test_tasks_read_and_write_their_files(program: Program) -> None:
    check(program)


@given(
    programs((*ORDERS, "place", "place", *INSTANCES, "fail", "restore", "remove"), has_files=True)
)
@examples(25)
def test_the_tasks_of_instances_use_the_ports_of_their_hosts(program: Program) -> None:
    check(program)


@given(
    programs(
        (*ORDERS, "place", *INSTANCES, "set_state", "fail", "restore", "add", "remove"),
        has_states=True,
        has_files=True,
    ),
    st.integers(0, 400).map(lambda n: Fraction(n, 2) + Fraction(1, 7919)),
)
@examples(20)
def test_a_saved_state_goes_on_as_its_origin(
    tmp_path_factory: pytest.TempPathFactory, program: Program, time: Fraction
) -> None:
    file = tmp_path_factory.mktemp("state") / "state.json"

    def save_and_load(sim: Simulation) -> Simulation:
        sim.state.save(file)
        return Simulation(make_scenario(program), state=SimulationState.load(file))

    origin, other = run_in_simulator(program, copy_at=time, copy=save_and_load)
    exact = ("id", "status", "attempts")
    assert other.tasks.select(exact).equals(origin.tasks.select(exact))
    for column in ("start", "end", "energy"):
        for here, there in zip(origin.tasks[column], other.tasks[column], strict=True):
            assert there == (None if here is None else approx(Fraction(here))), column
    exact = ("machine", "tasks", "up", "state", "host")
    assert other.machines.select(exact).equals(origin.machines.select(exact))
    for column in ("cores", "free_cores", "energy"):
        assert other.machines[column].to_list() == approx_all(origin.machines[column])
    orders = origin.trace().decisions.filter(pl.col("t") > float(time))
    assert other.trace().decisions.drop("t").equals(orders.drop("t"))
    assert other.events == origin.events


@given(
    programs(
        (*ORDERS, "place", *INSTANCES, "set_state", "fail", "restore", "add", "remove"),
        has_states=True,
        has_files=True,
    ),
    st.integers(0, 400).map(lambda n: Fraction(n, 2) + Fraction(1, 7919)),
)
@examples(25)
def test_a_copy_in_mid_run_goes_on_as_its_origin(program: Program, time: Fraction) -> None:
    origin, *copies = run_in_simulator(program, copy_at=time)
    check_equal(origin, run_slowly(program))
    for other in copies:
        assert other.tasks.equals(origin.tasks)
        assert other.machines.equals(origin.machines)
        assert other.transfers.equals(origin.transfers)
        assert other.instances.equals(origin.instances)
        assert other.trace().node_states.equals(origin.trace().node_states)
        assert other.trace().placements.equals(origin.trace().placements)
