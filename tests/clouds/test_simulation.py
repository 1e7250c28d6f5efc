"""A stepwise simulation of a cloud: what can be read and changed while instances are rented."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import twinloop as tl
from tests.clouds.cases import (
    PORTS,
    finish,
    list_rentals,
    list_times,
    make_host,
    make_scenario,
    make_task,
    start,
)
from twinloop import metrics
from twinloop.engine import CompiledScenario
from twinloop.scenario import Scenario


def test_the_machines_can_be_read_while_instances_are_rented() -> None:
    sim = start([make_host("a b")], [make_task(0, cores=4)])
    sim.run_until(3.0)
    host = sim.machines.filter(machine="a")
    assert host.select("machine", "cores", "up", "state").rows() == [("a", 4.0, True, "running")]


def test_rented_instances_are_rows_of_the_table_of_machines() -> None:
    sim = start([make_host("a b")], [make_task(0, cores=3)])
    sim.run_until(3.0)
    assert sim.machines.select("machine", "cores", "free_cores", "state", "host").rows() == [
        ("a", 4.0, 0.0, "running", None),
        ("b", 4.0, 0.0, "running", None),
        ("instance-1", 3.0, 0.0, "rented", "a"),
    ]


def test_what_clouds_do_not_support_is_refused() -> None:
    sim = start([make_host("a b")], [make_task(0, cores=4)])
    with pytest.raises(tl.TwinloopError, match=r"the state of a scenario with clouds.*copy\(\)"):
        _ = sim.state
    with pytest.raises(tl.TwinloopError, match=r"add_machine: .*describe them in its platform"):
        sim.add_machine("c", like="a")
    with pytest.raises(tl.TwinloopError, match=r"add_instance: .*describe them in its platform"):
        sim.add_instance("c", host="a", cores=1)


def test_the_instances_of_a_host_that_is_removed_are_lost() -> None:
    sim = start([make_host("a b")], [make_task(0, cores=4), make_task(1, submit=1, cores=4)])
    sim.run_until(3.0)
    sim.remove_machine("a")
    sim.run()
    # The first task runs again on the other host, when that is free.
    assert list_rentals(sim, "host", "start", "end", "reason") == [
        ("a", 0.0, 3.0, "lost"),
        ("b", 1.0, 11.0, "released"),
        ("b", 11.0, 21.0, "released"),
    ]


def test_cores_that_a_host_gets_are_used_by_instances() -> None:
    sim = start([make_host("a")], [make_task(0, cores=2), make_task(1, submit=1, cores=3)])
    sim.run_until(3.0)
    sim.set_cores("a", 6)
    sim.run()
    assert list_times(sim) == [(0.0, 10.0), (3.0, 13.0)]


# A separate process, which the test survives: a new client does not know the instances.
PROGRAM = """
from tests.clouds.cases import *
sim = start([make_host("a")], [make_task(0, cores=4), *{more}])
sim.run_until(3.0)
other = sim.copy("one-per-task")
other.run()
print(other.tasks["end"].to_list(), [reason for (reason,) in list_rentals(other, "reason")])
"""


@pytest.mark.parametrize(
    ("more", "ends"),
    [("[]", [10.0]), ("[make_task(1, cores=4)]", [10.0, 20.0])],
    ids=["running task", "queued instance"],
)
def test_another_client_gives_back_the_instances_of_the_former_one(
    more: str, ends: list[float]
) -> None:
    program = PROGRAM.format(more=more)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(ends))
    assert "None" not in done.stdout  # an instance that never ended


def test_a_copy_without_history_has_the_same_end() -> None:
    sim = start([make_host("a b")], [make_task(i, cores=4) for i in range(5)])
    sim.run_until(13.0)
    other = sim.copy(history=False)
    expected = dict(sim.run().select("id", "end").rows())
    left = dict(other.run().select("id", "end").rows())
    assert left == {name: expected[name] for name in ("t2", "t3", "t4")}


def test_a_run_is_the_same_in_steps() -> None:
    tasks = [make_task(i, submit=i, cores=1 + i % 4) for i in range(12)]
    whole = finish([make_host("a b")], tasks)
    steps = start([make_host("a b")], tasks)
    while steps.step():
        pass
    assert steps.tasks.equals(whole.tasks)


def test_the_transfers_of_tasks_are_those_of_their_instances() -> None:
    # Both instances read 100 MB at 50 MB/s each from 0 s to 2 s; the first one runs for 3 s and
    # writes at 100 MB/s from 5 s to 6 s, the second one for 8 s, and writes from 10 s to 11 s.
    scenario = Scenario(
        platform={
            "clusters": [{"name": "rack", "hosts": [make_host()]}],
            "stores": [{"name": "data", "ports": PORTS}],
            "clouds": [{"name": "cloud"}],
        },
        workload={
            "files": [{"name": name, "size": "100 MB"} for name in ("mesh", "r0", "r1")],
            "tasks": [
                make_task(i, run_time=run_time, cores=4, reads=["mesh"], writes=[f"r{i}"])
                for i, run_time in enumerate((3.0, 8.0))
            ],
        },
        policy="one-per-task",
    )
    transfers = tl.simulate(scenario).transfers.select("kind", "from", "to", "start", "end")
    assert transfers.rows() == [
        ("read", "data", "instance-1", 0.0, 2.0),
        ("read", "data", "instance-2", 0.0, 2.0),
        ("write", "instance-1", "data", 5.0, 6.0),
        ("write", "instance-2", "data", 10.0, 11.0),
    ]


def test_a_price_of_zero_is_a_bill_of_zero() -> None:
    scenario = make_scenario([make_host()], [make_task(0)], billing={"unit": "1h", "price": 0})
    assert CompiledScenario(scenario).run()["bill"] == 0.0
    assert metrics.figures(tl.simulate(scenario)).to_dict()["bill"] == 0.0
