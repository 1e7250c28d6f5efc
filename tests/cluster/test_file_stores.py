"""The store of each file: shared stores by name, stores of nodes, local stores of the writers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation, simulate
from twinloop.scenario import Scenario
from twinloop.workload import Workload

LOCAL = {"read": "50 MB/s", "write": "20 MB/s"}


def scenario(
    tasks: list[dict[str, Any]],
    files: list[dict[str, Any]],
    store: dict[str, Any] | None = LOCAL,
    **platform: Any,
) -> Scenario:
    """Hosts of one core each, `a` and `b` with a store and `c` without one; tasks of 10 s."""
    ports = {"cores": 1, "ports": "10 MB/s"}
    hosts = [{**ports, "names": ["a", "b"], "count": 2, "store": store}, {**ports, "names": ["c"]}]
    return Scenario(
        platform={
            "clusters": [{"hosts": hosts}],
            "stores": [{"name": "disk"}, {"name": "tape", "read": "2 MB/s"}],
            "network": {"latency": "1s"},
            **platform,
        },
        workload={"tasks": [{"run_time": 10, **task} for task in tasks], "files": files},
        policy="fcfs",
    )


def rows(trace: Any) -> list[tuple[Any, ...]]:
    return trace.transfers.select("subject", "file", "from", "to", "start", "end").rows()


def test_a_local_file_passes_no_port_on_its_host_and_the_ports_to_others():
    trace = simulate(
        scenario(
            [
                {"id": "w", "writes": ["x"]},
                {"id": "r", "reads": ["x"], "parents": ["w"]},
                {"id": "s", "reads": ["x"], "parents": ["w"]},
            ],
            [{"name": "x", "size": "40 MB", "store": "local"}],
        )
    )
    assert rows(trace) == [
        # 40 MB at 20 MB/s, without latency.
        ("w", "x", "a", "a", 10.0, 12.0),
        # On the same host at the bandwidth of its store, 50 MB/s: the other one has not begun.
        ("r", "x", "a", "a", 12.0, pytest.approx(12.8)),
        # From host to host: latency, then 10 MB/s.
        ("s", "x", "a", "b", 12.0, 17.0),
    ]
    assert trace.tasks["status"].to_list() == ["completed"] * 3


def test_each_file_has_its_store_and_the_first_one_is_the_default():
    trace = simulate(
        scenario(
            [{"id": "t", "reads": ["i", "j", "k"], "writes": ["o"]}],
            [
                {"name": "i", "size": "10 MB"},
                {"name": "j", "size": "10 MB", "store": "tape"},
                {"name": "k", "size": "10 MB", "store": "b"},
                {"name": "o", "size": "10 MB", "store": "tape"},
            ],
        )
    )
    assert rows(trace) == [
        ("t", "i", "disk", "a", 0.0, 2.0),
        ("t", "j", "tape", "a", 2.0, 8.0),
        ("t", "k", "b", "a", 8.0, 10.0),
        ("t", "o", "a", "tape", 20.0, 22.0),
    ]


def test_a_machine_without_a_store_and_an_unwritten_file_fail_the_task():
    files = [{"name": "x", "size": "1 MB", "store": "local"}]
    # Hosts a and b are occupied, so that the third task runs on c.
    tasks = [{"id": "u"}, {"id": "v"}, {"id": "w", "writes": ["x"]}]
    trace = simulate(scenario(tasks, files))
    assert trace.tasks["status"].to_list() == ["completed", "completed", "failed"]
    assert trace.transfers.is_empty()
    early = [{"id": "r", "reads": ["x"]}, {"id": "w", "writes": ["x"]}]
    trace = simulate(scenario(early, files))
    assert trace.tasks["status"].to_list() == ["failed", "completed"]
    assert trace.placements["end"].to_list() == [0.0, pytest.approx(10.05)]


def test_a_full_local_store_fails_the_task_that_writes_there():
    tasks = [{"id": "v", "writes": ["x"]}, {"id": "w", "writes": ["y"], "parents": ["v"]}]
    files = [{"name": name, "size": "6 MB", "store": "a"} for name in ("x", "y")]
    trace = simulate(scenario(tasks, files, {"capacity": "10 MB"}))
    assert trace.tasks["status"].to_list() == ["completed", "failed"]
    # A new version of a file on another host replaces the old one.
    again = [{"id": "v", "writes": ["x"]}, {"id": "w", "writes": ["x"]}]
    files = [{"name": "x", "size": "6 MB", "store": "local"}]
    sim = Simulation(scenario(again, files, {"capacity": "10 MB"}))
    sim.run()
    assert sim.tasks["status"].to_list() == ["completed", "completed"]
    assert sim._run.stored_bytes().tolist() == [0.0, 0.0, 0.0, 6e6]


def test_an_instance_uses_the_store_of_its_host():
    tasks = [{"id": "w", "writes": ["x"]}, {"id": "r", "reads": ["x"], "parents": ["w"]}]
    sim = Simulation(scenario(tasks, [{"name": "x", "size": "40 MB", "store": "local"}]))
    sim.add_instance("vm", host="b", cores=1)
    for host in ("a", "c"):
        sim.fail(host)
    sim.run()
    assert sim.transfers.select("from", "to", "start", "end").rows() == [
        ("vm", "b", 10.0, 12.0),
        ("b", "vm", 12.0, 12.8),
    ]


def test_a_copy_knows_where_local_files_are():
    tasks = [{"id": "w", "writes": ["x"]}, {"id": "r", "reads": ["x"], "parents": ["w"]}]
    sim = Simulation(scenario(tasks, [{"name": "x", "size": "40 MB", "store": "local"}]))
    sim.run_until(11.0)
    twin = sim.copy()
    assert sim.run().equals(twin.run())
    assert sim.transfers.equals(twin.transfers)
    assert sim.transfers["from"].to_list() == ["a", "a"]


def test_local_stores_suffice_and_files_without_a_store_are_then_ignored():
    tasks = [{"id": "w", "reads": ["i"], "writes": ["x"]}]
    files = [{"name": "i", "size": "1 MB"}, {"name": "x", "size": "20 MB", "store": "local"}]
    given = scenario(tasks, files, stores=[])
    assert rows(simulate(given)) == [("w", "x", "a", "a", 10.0, 11.0)]
    notes = CompiledScenario(given).cleaned
    assert [(each.count, each.what) for each in notes if each.kind == "ignored"] == [
        (1, "files without a store, on a platform with stores of hosts alone")
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda: scenario([{"id": "t"}], [{"name": "x", "size": 1, "store": "dsik"}]),
            r"workload.files\[0\].store: unknown store 'dsik' \(did you mean 'disk'\?\)",
        ),
        (
            lambda: scenario([{"id": "t"}], [{"name": "x", "size": 1, "store": "c"}]),
            r"workload.files\[0\].store: unknown store 'c'",
        ),
        (
            lambda: scenario([{"id": "t"}], [{"name": "x", "size": 1, "store": "local"}], None),
            r"workload.files\[0\].store: no host has a store",
        ),
        (
            lambda: scenario([{"id": "t", "reads": ["y"]}], [{"name": "yy", "size": 1}]),
            r"workload.tasks\[0\].reads\[0\]: unknown file 'y'",
        ),
        (
            lambda: scenario([{"id": "t"}], [{"name": "x", "size": 1}] * 2),
            r"workload.files\[1\].name: another file is called 'x' already",
        ),
        (
            lambda: scenario([{"id": "t"}], [], stores=[{"name": "local"}]),
            r"platform.stores\[0\].name: 'local' stands for the store of the machine",
        ),
        (
            lambda: scenario([{"id": "t"}], [], stores=[{"name": "b"}]),
            r"platform.stores\[0\].name: 'b' stands for a node",
        ),
        (
            lambda: Scenario(
                platform="1x1",
                policy="fcfs",
                workload={"path": "log.swf", "files": [{"name": "x", "size": 1}]},
            ),
            r"workload.files: has no effect without tasks",
        ),
    ],
)
def test_wrong_stores_and_files_are_named_by_path(change, message):
    with pytest.raises(InputError, match=message):
        change()


def test_the_line_of_a_wrong_store_is_named():
    text = """
platform: 1x1
policy: fcfs
workload:
  tasks: [{id: a, run_time: 1, reads: [x]}]
  files:
    - {name: x, size: 1 MB, store: disk}
"""
    with pytest.raises(InputError, match=r"line 7: workload.files\[0\].store: unknown store"):
        Scenario.from_text(text)


@pytest.mark.parametrize(
    ("stores", "size", "message"),
    [
        (["c", None], 1.0, "workload.files: store 'c': unknown store 'c'"),
        (["local", None], 1.0, "'x' is in the store of the machine that writes it, and no task"),
        ([None, "local"], 11e6, r"clusters\[0\].hosts\[0\].store.capacity: file 'y' needs"),
        (["b", None], 11e6, r"clusters\[0\].hosts\[0\].store.capacity: file 'x' needs"),
    ],
)
def test_tables_of_files_are_checked_when_they_are_compiled(stores, size, message):
    load = Workload(
        tasks=pl.DataFrame(
            {"id": ["t"], "submit": [0.0], "cores": [1.0], "work": [1.0], "limit": [1.0]}
        ),
        files=pl.DataFrame({"file": ["x", "y"], "size": [size] * 2, "store": stores}),
        task_files=pl.DataFrame(
            {"task": ["t", "t"], "file": ["x", "y"], "access": ["read", "write"]}
        ),
    )
    given = scenario([{"id": "t"}], [], {"capacity": "10 MB"}).replace(workload=load)
    with pytest.raises(InputError, match=message):
        CompiledScenario(given)


def test_a_workload_keeps_the_stores_of_its_files():
    given = scenario([{"id": "t", "reads": ["x"]}], [{"name": "x", "size": 1, "store": "tape"}])
    load = given.workload.resolve()
    assert Workload.from_trace(load.to_trace()).files["store"].to_list() == ["tape"]
    assert Scenario.from_dict(given.to_dict()) == given


@pytest.mark.parametrize(("submit", "status"), [(0, "failed"), (11.9, "failed"), (12, "completed")])
def test_a_file_can_be_read_when_it_has_been_written(submit, status):
    sim = Simulation(
        Scenario(
            platform={
                "clusters": [{"hosts": [{"count": 2, "cores": 1}]}],
                "stores": [{"name": "disk", "write": "20 MB/s", "read": "20 MB/s"}],
            },
            workload={
                "files": [{"name": "out", "size": "40 MB"}],
                "tasks": [
                    {"id": "writer", "run_time": 10, "writes": ["out"]},
                    {"id": "reader", "run_time": 1, "reads": ["out"], "submit": submit},
                ],
            },
            policy="fcfs",
        )
    )
    assert sim.run()["status"].to_list() == ["completed", status]


def test_a_task_may_change_a_file_that_exists():
    sim = Simulation(
        Scenario(
            platform={
                "clusters": [{"hosts": [{"cores": 1}]}],
                "stores": [{"name": "disk", "write": "10 MB/s", "read": "20 MB/s"}],
            },
            workload={
                "files": [{"name": "grid", "size": "40 MB"}],
                "tasks": [{"id": "step", "run_time": 10, "reads": ["grid"], "writes": ["grid"]}],
            },
            policy="fcfs",
        )
    )
    assert sim.run().select("status", "end").rows() == [("completed", 16.0)]
