"""Machines that are added to a network in a run, and transfers whose instance moves, by hand.

Random programs against a slow world are in `tests/world`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from twinloop.description.errors import InputError
from twinloop.engine import Simulation, SimulationState
from twinloop.policy import Place, Policy, View
from twinloop.scenario import Scenario

#: Every host has a port of 10 MB/s and `slow` one of 5 MB/s; only `a` has a store.
PORTS = {"a": "10 MB/s", "b": "10 MB/s", "slow": "5 MB/s"}
STORE = {"capacity": "90 MB", "read": "50 MB/s", "write": "20 MB/s"}


class ByUser(Policy):
    """Places each task on the machine that its user is called after."""

    def decide(self, view: View) -> Any:
        names = {view.machine_name(machine): machine for machine in range(view.machines)}
        for task in view.waiting:
            if view.user(task) in names:
                yield Place(task, names[view.user(task)])


def scenario(
    tasks: list[dict[str, Any]], files: dict[str, str], network: dict[str, Any] | None = None
) -> Scenario:
    """Tasks of 10 s, each on the machine of its user, with files of 40 MB each."""
    hosts = [
        {"names": [name], "cores": 4, "ports": port, **({"store": STORE} if name == "a" else {})}
        for name, port in PORTS.items()
    ]
    return Scenario(
        platform={
            "clusters": [{"hosts": hosts}],
            "stores": [{"name": "disk", "streams": 1}],
            "network": network or {"latency": "1s"},
        },
        workload={
            "tasks": [{"run_time": 10, **task} for task in tasks],
            "files": [
                {"name": name, "size": "40 MB", "store": store} for name, store in files.items()
            ],
        },
        policy=ByUser(),
    )


def start(*described: Any) -> Simulation:
    return Simulation(scenario(*described))


def save_and_load(sim: Simulation, tmp_path: Path, *described: Any) -> Simulation:
    sim.state.save(tmp_path / "state.json")
    return Simulation(scenario(*described), state=SimulationState.load(tmp_path / "state.json"))


def finish(sim: Simulation) -> list[tuple[Any, ...]]:
    sim.run_until(1000.0)
    return sim.transfers.select("subject", "from", "to", "bytes", "start", "end").rows()


MEGA = 1e6


# --- machines that are added ----------------------------------------------------------------------


@pytest.mark.parametrize("machines", [("new",), ("new", "slow")])
def test_an_added_machine_has_ports_of_its_own_as_wide_as_those_of_its_model(machines):
    sim = start([{"id": name, "user": name, "reads": ["x"]} for name in machines], {"x": "a"})
    sim.add_machine("new", like="slow")
    # Each has 5 MB/s: the port of `a` gives 10.
    assert finish(sim) == [(name, "a", name, 40 * MEGA, 0.0, 9.0) for name in machines]


def test_a_machine_that_is_like_no_other_has_unlimited_ports_and_no_store():
    sim = start(
        [
            {"id": "t", "user": "new", "reads": ["x"]},
            {"id": "u", "user": "new", "writes": ["y"]},
        ],
        {"x": "a", "y": "local"},
    )
    sim.add_machine("new", cores=4)
    assert finish(sim) == [("t", "a", "new", 40 * MEGA, 0.0, 5.0)]
    assert sim.tasks["status"].to_list() == ["completed", "failed"]


def test_an_added_machine_has_a_store_like_that_of_its_model():
    sim = start(
        [
            {"id": "t", "user": "new", "writes": ["x"]},
            {"id": "u", "user": "new", "reads": ["x"], "parents": ["t"]},
            {"id": "v", "user": "b", "reads": ["x"], "parents": ["u"]},
            {"id": "w", "user": "new", "writes": ["y", "z"], "parents": ["v"]},
        ],
        {"x": "local", "y": "local", "z": "local"},
    )
    sim.add_machine("old", like="a")
    sim.add_instance("vm", host="a", cores=1)
    sim.add_machine("new", like="old")
    assert finish(sim) == [
        ("t", "new", "new", 40 * MEGA, 10.0, 12.0),
        ("u", "new", "new", 40 * MEGA, 12.0, pytest.approx(12.8)),
        ("v", "new", "b", 40 * MEGA, pytest.approx(22.8), pytest.approx(27.8)),
        ("w", "new", "new", 40 * MEGA, pytest.approx(47.8), pytest.approx(49.8)),
    ]
    # 120 MB do not fit into 90.
    assert sim.tasks["status"].to_list() == [*["completed"] * 3, "failed"]


LINKS = {
    "switches": ["core"],
    "links": [
        {"between": ["a", "core"], "bandwidth": "4 MB/s", "latency": "1s"},
        {"between": ["b", "core"], "bandwidth": "2 MB/s", "latency": "2s", "duplex": "half"},
        {"between": ["slow", "core"]},
        {"between": ["disk", "core"]},
    ],
}


def test_an_added_machine_has_links_like_those_of_its_model():
    sim = start(
        [
            {"id": "t", "user": "b", "reads": ["x"]},
            {"id": "u", "user": "new", "reads": ["x"]},
            {"id": "v", "user": "new", "writes": ["y"]},
        ],
        {"x": "a", "y": "disk"},
        LINKS,
    )
    sim.add_machine("new", like="b")
    assert finish(sim) == [
        # 3 s of latency, then half of the link of `a`, which is all of the link of `b`...
        ("t", "a", "b", 40 * MEGA, 0.0, 23.0),
        # ... and for 10 s of the new one, which is half-duplex: from 12 s on both directions share
        # it. `u` has 18 MB by then, and 22 MB left at 1 MB/s; `v` has 18 left at 2 MB/s.
        ("u", "a", "new", 40 * MEGA, 0.0, 34.0),
        ("v", "new", "disk", 40 * MEGA, 10.0, 43.0),
    ]


def test_a_machine_cannot_be_like_an_instance():
    sim = start([{"id": "t", "user": "a"}], {})
    sim.add_instance("vm", host="a", cores=1)
    with pytest.raises(InputError, match="'vm' is an instance"):
        sim.add_machine("new", like="vm")


@pytest.mark.parametrize("time", [5.0, 11.0, 12.4, 25.0])
def test_added_nodes_and_stores_are_part_of_a_state(tmp_path, time):
    tasks = [
        {"id": "t", "user": "new", "writes": ["x"]},
        {"id": "u", "user": "new", "reads": ["x"], "parents": ["t"]},
        {"id": "v", "user": "b", "reads": ["x"], "parents": ["u"]},
    ]
    sim = start(tasks, {"x": "local"})
    sim.add_instance("vm", host="a", cores=1)
    sim.add_machine("new", like="a")
    sim.run_until(time)
    other = save_and_load(sim, tmp_path, tasks, {"x": "local"})
    ended = [row for row in finish(sim) if row[-1] > time]
    assert [row[:3] for row in finish(other)] == [row[:3] for row in ended]
    assert other.tasks["end"].to_list() == pytest.approx(sim.tasks["end"].to_list())
    assert set(other.state.stores) == set(sim.state.stores) == {"disk", "a", "new"}
    assert other.state.stores["new"] == ["x"]


# --- instances that move --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "end"),
    [
        (0.5, 9.0),  # in the latency: 1 + 40 / 5
        (3.0, 7.0),  # 20 MB at 10 MB/s, then at 5
    ],
)
@pytest.mark.parametrize("access", ["reads", "writes"])
def test_what_is_left_of_a_transfer_takes_the_ports_of_the_new_host(time, end, access):
    task = {"id": "t", "user": "vm", access: ["x"], "run_time": 0}
    sim = start([task], {"x": "disk"})
    sim.add_instance("vm", host="b", cores=1)
    sim.run_until(time)
    sim.move_instance("vm", "slow")
    ends = ("disk", "vm") if access == "reads" else ("vm", "disk")
    assert finish(sim) == [("t", *ends, 40 * MEGA, 0.0, end)]


def test_a_transfer_from_the_store_of_the_old_host_crosses_the_network_after_the_move():
    sim = start([{"id": "t", "user": "vm", "reads": ["x"]}], {"x": "a"})
    sim.add_instance("vm", host="a", cores=1)
    sim.run_until(0.4)  # 20 MB at 50 MB/s, without latency; then 20 MB at 10 MB/s
    sim.move_instance("vm", "b")
    assert finish(sim) == [("t", "a", "vm", 40 * MEGA, 0.0, pytest.approx(2.4))]


def test_a_transfer_that_waits_for_a_stream_takes_the_new_route():
    tasks = [{"id": name, "user": name, "reads": ["x"]} for name in ("b", "vm")]
    sim = start(tasks, {"x": "disk"})
    sim.add_instance("vm", host="b", cores=1)
    sim.run_until(2.0)
    sim.move_instance("vm", "slow")
    assert finish(sim) == [
        ("b", "disk", "b", 40 * MEGA, 0.0, 5.0),
        ("vm", "disk", "vm", 40 * MEGA, 0.0, 14.0),
    ]


@pytest.mark.parametrize("suspended", [False, True])
def test_without_a_route_to_the_new_host_the_task_fails_and_gives_its_stream_back(suspended):
    tasks = [{"id": "t", "user": "vm", "reads": ["x"]}, {"id": "u", "user": "a", "reads": ["x"]}]
    sim = start(tasks, {"x": "disk"}, LINKS)
    sim.add_instance("vm", host="b", cores=1)
    sim.add_machine("far", cores=4)  # without links
    sim.run_until(4.0)  # 2 s of latency, then 2 MB/s
    if suspended:
        sim.set_state("vm", "suspended")
    sim.move_instance("vm", "far")
    assert sim.transfers.select("subject", "bytes", "end").rows() == [("t", 4 * MEGA, 4.0)]
    sim.run_until(6.0)
    if suspended:
        assert sim.tasks["status"].to_list() == [None, None]
        sim.set_state("vm", "on")
    assert finish(sim)[1:] == [("u", "disk", "a", 40 * MEGA, 0.0, 15.0)]
    assert sim.tasks["status"].to_list() == ["failed", "completed"]
    assert sim.trace().placements.filter(task="t")["end"].to_list() == [6.0 if suspended else 4.0]


@pytest.mark.parametrize("time", [3.0, 6.0])
def test_a_route_that_has_changed_is_part_of_a_copy_and_of_a_state(tmp_path, time):
    tasks = [{"id": name, "user": "vm", "reads": [name]} for name in ("x", "y")]
    sim = start(tasks, {"x": "disk", "y": "a"})
    sim.add_instance("vm", host="b", cores=2)
    sim.run_until(2.0)
    sim.move_instance("vm", "slow")
    sim.run_until(time)
    others = [sim.copy(), save_and_load(sim, tmp_path, tasks, {"x": "disk", "y": "a"})]
    expected = finish(sim)
    # 5 MB each in the second before the move, and then both share 5 MB/s.
    assert [row[-1] for row in expected] == [16.0, 16.0]
    for other in others:
        finish(other)
        assert other.tasks["end"].to_list() == pytest.approx(sim.tasks["end"].to_list())


def test_transfers_whose_latency_ends_at_once_keep_their_order_in_a_state(tmp_path):
    # `t` has been running for longer, and its write comes after the second read of `u`: both
    # begin at 10 s, where the ends of transfers precede those of delays.
    tasks = [
        {"id": "t", "user": "a", "writes": ["y"]},
        {"id": "u", "user": "b", "reads": ["x", "z"], "submit": 5},
    ]
    files = {"x": "a", "y": "disk", "z": "a"}
    sim = start(tasks, files)
    sim.run_until(10.5)
    other = save_and_load(sim, tmp_path, tasks, files)
    expected = finish(sim)
    assert [row[0] for row in expected[1:]] == ["u", "t"]
    assert expected[1][-1] == expected[2][-1] == 19.0
    assert finish(other) == expected[1:]


# --- names, and states that are written by hand ---------------------------------------------------


@pytest.mark.parametrize(("name", "what"), [("a", "machine"), ("disk", "data store"),
                                            ("core", "switch")])  # fmt: skip
def test_a_new_machine_cannot_have_the_name_of_another_part_of_the_network(name, what):
    sim = start([{"id": "t", "user": "a"}], {"x": "disk"}, LINKS)
    for add in (partial(sim.add_machine, like="a"), partial(sim.add_instance, host="a", cores=1)):
        with pytest.raises(InputError, match=f"'{name}': is already the name of a {what}"):
            add(name)
    sim.add_machine("new", like="a")
    machines = ({**row, "machine": row["machine"].replace("new", name)} for row in
                sim.state.machines)  # fmt: skip
    state = replace(sim.state, machines=tuple(machines))
    with pytest.raises(InputError, match=f"'{name}' was added, .* already the name of a {what}"):
        Simulation(scenario([{"id": "t", "user": "a"}], {"x": "disk"}, LINKS), state=state)


#: `y` and `v` are in the store of `a`, which has no space for `w` beside them.
OWNERS = {"x": "disk", "y": "a", "v": "a", "w": "a", "z": "local"}


def resume_with(stores: dict[str, list[str]]) -> Simulation:
    tasks = [{"id": "t", "user": "b", "writes": ["w"], "submit": 5},
             {"id": "u", "user": "a", "writes": ["z"], "submit": 50}]  # fmt: skip
    state = replace(start(tasks, OWNERS).state, stores=stores)
    return Simulation(scenario(tasks, OWNERS), state=state)


@pytest.mark.parametrize(
    ("stores", "status"),
    [
        ({}, "failed"),
        ({"disk": ["x"]}, "failed"),
        ({"disk": [], "a": ["v", "y"]}, "failed"),
        ({"a": ["y"]}, "completed"),
        ({"a": []}, "completed"),
    ],
)
def test_a_store_that_a_state_does_not_list_has_its_files_of_the_start(stores, status):
    sim = resume_with(stores)
    given = {"disk": ["x"], "a": ["y", "v"]} | stores
    assert {name: sorted(files) for name, files in sim.state.stores.items()} == {
        name: sorted(files) for name, files in given.items()
    }
    sim.run_until(40.0)
    assert sim.tasks["status"][0] == status


@pytest.mark.parametrize(
    ("stores", "message"),
    [
        ({"a": ["y", "y"]}, "'a': the file 'y' is listed more than once"),
        ({"disk": ["y"]}, "'disk': the file 'y' cannot be there: its store is 'a'"),
        ({"disk": ["z"]}, "'disk': the file 'z' cannot be there: its store is 'local'"),
        ({"disk": ["other"]}, "'disk': the workload has no file 'other'"),
        ({"b": ["z"]}, "there is no data store 'b'"),
    ],
)
def test_files_are_in_the_stores_that_they_belong_to(stores, message):
    with pytest.raises(InputError, match=message):
        resume_with(stores)
    assert resume_with({"a": ["z"]}).state.stores["a"] == ["z"]
