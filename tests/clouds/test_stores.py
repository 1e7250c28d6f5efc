"""Stores of a running simulation: files, space and transfers on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.clouds.cases import IMAGE, make_host, make_task, start
from twinloop.description.errors import InputError
from twinloop.engine import Simulation, StoreTransfer
from twinloop.scenario import Scenario

MB = 1e6
#: A task that takes no time: a workload has at least one.
NOTHING = {"id": "nothing", "run_time": 0}
LOCAL = {"capacity": "100 MB", "read": "50 MB/s", "write": "20 MB/s"}
SHARED = [
    {"name": "disk", "capacity": "200 MB", "read": "5 MB/s", "ports": "20 MB/s"},
    {"name": "tape", "streams": 1, "write": "2 MB/s", "ports": "20 MB/s"},
]


def begin(
    tasks: list[dict[str, Any]] | None = None,
    files: list[dict[str, Any]] | None = None,
    **platform: Any,
) -> Simulation:
    """Start hosts `a` and `b` with a store and `c` without one, ports of 10 MB/s, latency 1 s."""
    ports = {"cores": 1, "ports": "10 MB/s"}
    hosts = [{**ports, "names": ["a", "b"], "count": 2, "store": LOCAL}, {**ports, "names": ["c"]}]
    return Simulation(
        Scenario(
            platform={
                "clusters": [{"hosts": hosts}],
                "stores": SHARED,
                "network": {"latency": "1s"},
                **platform,
            },
            workload={
                "tasks": [{"run_time": 10, **task} for task in tasks or [NOTHING]],
                "files": files or [],
            },
            policy="fcfs",
        )
    )


def rows(sim: Simulation) -> list[tuple[Any, ...]]:
    return sim.transfers.select("kind", "file", "from", "to", "bytes", "start", "end").rows()


def space(sim: Simulation, name: str) -> tuple[float, float]:
    return sim.store(name).used, sim.store(name).promised


# --- times --------------------------------------------------------------------------------------


def test_transfers_take_the_latency_and_the_least_bandwidth_on_their_way():
    sim = begin()
    disk = sim.store("disk")
    put = disk.put("x", 40 * MB, source="c")
    assert (put.state, put.end, put.start) == ("latency", None, 0.0)
    sim.run()
    assert sim.now == put.end == 1 + 40 / 10
    copy = disk.duplicate("x", to="tape")
    sim.run()
    assert copy.end == 5 + 1 + 40 / 2
    get = disk.get("x", target="c")
    sim.run()
    assert get.end == 26 + 1 + 40 / 5
    assert rows(sim) == [
        ("put", "x", "c", "disk", 40 * MB, 0.0, 5.0),
        ("duplicate", "x", "disk", "tape", 40 * MB, 5.0, 26.0),
        ("get", "x", "disk", "c", 40 * MB, 26.0, 35.0),
    ]
    assert sim.transfers["subject"].null_count() == 3
    assert sim.trace().transfers.equals(sim.transfers)


def test_a_kept_file_is_in_the_store_of_the_host_and_others_are_not():
    sim = begin()
    sim.store("disk").register("x", 40 * MB)
    sim.store("disk").get("x", target="a", keep=True)
    sim.store("disk").get("x", target="b")
    # Both leave the disk at 2.5 MB/s.
    sim.run()
    assert sim.now == 1 + 40 / 2.5
    assert sim.find_file("x") == ["disk", "a"]
    local = sim.store("a").get("x", target="a")
    sim.run()
    assert local.end == 17 + 40 / 50


def test_a_move_ends_in_one_store():
    sim = begin()
    sim.store("disk").register("x", 30 * MB)
    move = sim.store("disk").move("x", to="a")
    sim.run_until(6.9)
    assert (move.state, move.moved) == ("active", pytest.approx(29.5 * MB))
    assert sim.find_file("x") == ["disk"]
    assert (space(sim, "disk"), space(sim, "a")) == ((30 * MB, 0), (0, 30 * MB))
    sim.run()
    assert move.end == 1 + 30 / 5
    assert sim.find_file("x") == ["a"]
    assert (space(sim, "disk"), space(sim, "a")) == ((0, 0), (30 * MB, 0))


def test_registration_takes_no_time_and_no_transfer():
    sim = begin()
    disk = sim.store("disk")
    disk.register("x", 150 * MB)
    assert (disk.capacity, disk.used, disk.free) == (200 * MB, 150 * MB, 50 * MB)
    assert disk.files.rows() == [("x", 150 * MB)]
    disk.deregister("x")
    assert (disk.used, disk.files.height) == (0, 0)
    sim.run()
    assert (sim.now, sim.transfers.height) == (0.0, 0)


def test_the_run_ends_with_the_last_of_tasks_and_transfers():
    sim = begin([{"id": "t"}])
    sim.run_until(8.0)
    put = sim.store("disk").put("x", 50 * MB, source="a")
    assert sim.run()["end"].to_list() == [10.0]
    assert put.end == sim.now == 8 + 1 + 5
    again = sim.store("disk").get("x", target="b")
    sim.run()
    assert again.end == 14 + 1 + 10


# --- sharing with tasks and instances -----------------------------------------------------------


def test_requests_share_the_store_with_reads_of_tasks():
    sim = begin([{"id": "t", "reads": ["f"]}], [{"name": "f", "size": "40 MB"}])
    assert sim.store("disk").files.rows() == [("f", 40 * MB)]
    get = sim.store("disk").get("f", target="c")
    sim.run()
    # Each at 2.5 MB/s, half of the disk.
    assert get.end == 1 + 40 / 2.5
    assert sim.tasks["end"].to_list() == [1 + 40 / 2.5 + 10]


def test_requests_share_the_ports_with_images():
    # The port of the store has 100 MB/s; the image has 100 MB, then the boot takes 1 + 4 / 1 s.
    sim = start([make_host("a b", store={})], [make_task(1)], image=IMAGE, latency=1.0)
    sim.run_until(0.0)
    get = sim.store("images").get("base", target="b")
    sim.run()
    assert get.end == 1 + 2
    assert sim.instances["ready"].to_list() == [1 + 2 + 5]


def test_a_copy_of_an_image_in_the_store_of_a_host_is_used():
    image = {**IMAGE, "caching": "first-use"}
    tasks = [make_task(1, cores=4, run_time=50), make_task(2, submit=20.0, cores=4)]
    sim = start([make_host("a b", store={})], tasks, image=image)
    copy = sim.store("images").duplicate("base", to="b")
    sim.run()
    # The copy and the image of the first instance leave the store at 50 MB/s each; the second
    # instance needs the boot alone, 1 + 4 / 2 s.
    assert copy.end == 2.0
    assert sim.instances.select("host", "ready").rows() == [("a", 2 + 3), ("b", 20 + 3)]


def test_a_deleted_image_starts_no_instance():
    sim = start([make_host("a")], [make_task(1)], image=IMAGE)
    sim.store("images").delete("base")
    sim.run()
    assert sim.tasks["status"].to_list() == ["killed"]
    assert sim.instances["reason"].to_list() == ["refused"]


def test_one_stream_serves_requests_in_their_order():
    sim = begin()
    for name in "xy":
        sim.store("disk").register(name, 10 * MB)
    first, second = (sim.store("disk").duplicate(name, to="tape") for name in "xy")
    tape = sim.store("tape")
    assert (first.state, second.state) == ("latency", "waiting")
    assert (tape.streams, tape.streams_in_use, tape.waiting) == (1, 1, 1)
    sim.run_until(1.0)
    assert (first.state, second.state, tape.write_rate) == ("active", "waiting", 2 * MB)
    sim.run()
    assert (first.end, second.end) == (1 + 5, 6 + 1 + 5)


# --- space --------------------------------------------------------------------------------------


def test_promises_and_files_never_exceed_the_capacity():
    sim = begin()
    disk = sim.store("disk")
    disk.register("old", 100 * MB)
    first = disk.put("x", 60 * MB, source="a")
    second = disk.put("y", 40 * MB, source="b")
    assert (disk.used, disk.promised, disk.free) == (100 * MB, 100 * MB, 0.0)
    with pytest.raises(InputError, match=r"cannot put 'z': the store has 0 bytes left, and 1 are"):
        disk.put("z", 1, source="c")
    with pytest.raises(InputError, match="cannot register 'z': the store has 0 bytes left"):
        disk.register("z", 1)
    sim.run_until(5.0)
    assert (second.state, disk.used, disk.promised) == ("done", 140 * MB, 60 * MB)
    first.cancel()
    assert (first.state, disk.used, disk.promised) == ("cancelled", 140 * MB, 0.0)
    # 4 s at 10 MB/s.
    assert rows(sim)[-1] == ("put", "x", "a", "disk", 40 * MB, 0.0, 5.0)
    assert sim.stores.filter(store="disk").drop("streams_in_use", "waiting").rows() == [
        ("disk", 200 * MB, 140 * MB, 0.0, 60 * MB, 2)
    ]


@pytest.mark.parametrize(("time", "state"), [(0.0, "waiting"), (6.5, "latency"), (8.0, "active")])
def test_a_cancellation_gives_back_promise_stream_and_bandwidth(time: float, state: str):
    sim = begin(stores=[{**SHARED[0]}, {**SHARED[1], "capacity": "20 MB"}])
    tape = sim.store("tape")
    for name in "xyz":
        sim.store("disk").register(name, 10 * MB)
    sim.store("disk").duplicate("x", to="tape")
    cancelled = sim.store("disk").duplicate("y", to="tape")
    sim.run_until(time)
    assert (cancelled.state, tape.used + tape.promised) == (state, 20 * MB)
    with pytest.raises(InputError, match="bytes left"):
        sim.store("disk").duplicate("z", to="tape")
    cancelled.cancel()
    cancelled.cancel()
    third = sim.store("disk").duplicate("z", to="tape")
    sim.run()
    assert (cancelled.state, cancelled.end) == ("cancelled", time)
    # The stream of the first one is free at 6 s.
    assert third.end == max(time, 6) + 1 + 5
    assert space(sim, "tape") == (20 * MB, 0.0)
    assert (tape.streams_in_use, tape.waiting) == (0, 0)


def test_a_file_that_is_there_takes_no_time_and_no_space():
    sim = begin()
    for name in ("disk", "a"):
        sim.store(name).register("x", 90 * MB)
    copy = sim.store("disk").duplicate("x", to="a")
    assert (copy.state, copy.end, space(sim, "a")) == ("done", 0.0, (90 * MB, 0.0))
    put = sim.store("a").put("x", 90 * MB, source="c")
    kept = sim.store("disk").get("x", target="a", keep=True)
    itself = sim.store("a").move("x", to="a")
    assert [each.state for each in (put, kept, itself)] == ["done"] * 3
    move = sim.store("disk").move("x", to="a")
    assert (move.state, sim.find_file("x")) == ("done", ["a"])
    sim.run()
    assert (sim.now, sim.transfers["bytes"].sum()) == (0.0, 0.0)


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sim: sim.store("disc"), "there is no data store 'disc'.*known: disk, tape"),
        (lambda sim: sim.store("c"), "there is no data store 'c'"),
        (lambda sim: sim.store("disk").get("x", target="a"), "store 'disk': there is no file 'x'"),
        (lambda sim: sim.store("disk").delete("x"), "there is no file 'x'"),
        (lambda sim: sim.store("disk").put("x", 1, source="z"), "there is no machine 'z'"),
        (lambda sim: sim.store("disk").put("x", -1, source="a"), "size: must be finite"),
        (lambda sim: sim.store("disk").register("f", 3), "is 3 bytes, and the file has 40000000"),
        (lambda sim: sim.store("a").duplicate("g", to="x"), "there is no data store 'x'"),
        (lambda sim: sim.store("a").get("g", target="c", keep=True), "no data store 'c'"),
        (lambda sim: sim.register_store("disk"), "store 'disk': is registered already"),
        (lambda sim: sim.register_store("c"), "store 'c': is already the name of a machine"),
        (lambda sim: sim.register_store("n", like="disk", ports=1), "leave out `ports` or `like`"),
        (lambda sim: sim.register_store("n", capacity="7 miles"), "capacity"),
    ],
)
def test_errors_name_the_reason(call: Callable[[Simulation], object], message: str):
    sim = begin([{"id": "t", "reads": ["f"]}], [{"name": "f", "size": "40 MB"}])
    sim.store("a").register("g", 1)
    with pytest.raises(InputError, match=message):
        call(sim)


def test_a_platform_without_stores_has_none():
    sim = Simulation(Scenario(platform="2x4", policy="fcfs", workload={"tasks": [NOTHING]}))
    with pytest.raises(InputError, match=r"the platform has no data stores \(describe `stores`"):
        sim.store("disk")
    assert (sim.stores.height, sim.network_nodes["sent"].sum()) == (0, 0.0)
    sim.register_store("disk", ports="1 MB/s")
    put = sim.store("disk").put("x", 3 * MB, source="C01-H01-001")
    sim.run()
    assert put.end == 3.0


def test_without_a_route_there_is_no_transfer():
    links = [{"between": [each, "disk"], "bandwidth": "4 MB/s"} for each in ("a", "b", "c", "tape")]
    sim = begin(network={"links": links})
    sim.add_machine("far", cores=1)
    with pytest.raises(InputError, match="cannot put 'x': there is no route"):
        sim.store("tape").put("x", MB, source="far")
    assert space(sim, "tape") == (0.0, 0.0)
    with pytest.raises(InputError, match=r"no link would lead to it .*`like`"):
        sim.register_store("new")
    # Links as those of the disk, also one to `a` of 4 MB/s.
    sim.register_store("new", like="disk")
    put = sim.store("new").put("x", 8 * MB, source="a")
    sim.run()
    assert put.end == 2.0


# --- registration and deregistration of stores --------------------------------------------------


def test_a_registered_store_has_bandwidths_of_its_own():
    sim = begin()
    sim.register_store("new", like="disk", capacity="50 MB")
    sim.register_store("slow", write="1 MB/s", streams=1, ports={"in": "2 MB/s", "out": "3 MB/s"})
    new, slow = sim.store("new"), sim.store("slow")
    assert (new.capacity, new.read_bandwidth, new.streams) == (50 * MB, 5 * MB, None)
    assert (slow.capacity, slow.write_bandwidth, slow.streams) == (None, MB, 1)
    for name in ("new", "disk"):
        sim.store(name).register("x", 20 * MB)
    gets = [sim.store(name).get("x", target=host) for name, host in (("new", "a"), ("disk", "b"))]
    put = slow.put("y", 7 * MB, source="c")
    sim.run()
    assert [each.end for each in (*gets, put)] == [1 + 20 / 5, 1 + 20 / 5, 1 + 7]
    with pytest.raises(InputError, match="is already the name of a data store"):
        sim.add_machine("slow", cores=1)
    assert sim.stores["store"].to_list() == ["disk", "tape", "a", "b", "new", "slow"]


def test_a_store_in_use_is_deregistered_only_with_violence():
    sim = begin([{"id": "t", "submit": 9.0, "reads": ["f"]}], [{"name": "f", "size": 1}])
    with pytest.raises(InputError, match="files of tasks that have not ended"):
        sim.deregister_store("disk")
    put = sim.store("tape").put("x", 20 * MB, source="a")
    with pytest.raises(InputError, match=r"store 'tape': cannot be deregistered: there are trans"):
        sim.deregister_store("tape")
    sim.run()
    assert (put.state, sim.tasks["status"].to_list()) == ("done", ["completed"])
    sim.deregister_store("tape")
    with pytest.raises(InputError, match="store 'tape': was deregistered"):
        sim.store("tape")
    assert sim.find_file("x") == []
    assert "tape" not in sim.stores["store"]


@pytest.mark.parametrize("time", [0.0, 0.5, 3.0])
def test_a_violent_deregistration_cancels_reads_of_tasks_and_requests(time: float):
    tasks = [
        {"id": "r", "reads": ["f"]},
        {"id": "w", "writes": ["g"], "run_time": 20},
        {"id": "n"},
    ]
    files = [{"name": "f", "size": "40 MB"}, {"name": "g", "size": "1 MB"}]
    sim = begin(tasks, files)
    sim.run_until(time)
    disk = sim.store("disk")
    requests = [disk.duplicate("f", to="tape"), disk.put("x", MB, source="c")]
    sim.deregister_store("disk", violent=True)
    assert [each.state for each in requests] == ["cancelled"] * 2
    assert (space(sim, "tape"), sim.store("tape").streams_in_use) == ((0, 0), 0)
    with pytest.raises(InputError, match="was deregistered"):
        disk.get("f", target="a")
    result = sim.run()
    assert result["status"].to_list() == ["failed", "failed", "completed"]
    ends = sim.trace().placements.sort("task")["end"].to_list()
    assert ends == [10.0, time, 20.0]
    assert sim.network_nodes["transfers"].sum() == 0


def test_a_store_that_is_registered_again_serves_the_tasks_that_name_it():
    sim = begin([{"id": "w", "writes": ["g"]}], [{"name": "g", "size": "20 MB"}])
    sim.run_until(5.0)
    sim.deregister_store("disk", violent=True)
    sim.register_store("disk", write="4 MB/s")
    result = sim.run()
    assert result.select("status", "end").rows() == [("completed", 10 + 1 + 5)]
    assert sim.find_file("g") == ["disk"]


def test_a_violent_deregistration_refuses_instances():
    sim = start([make_host("a b")], [make_task(1), make_task(2, submit=9.0)], image=IMAGE)
    sim.run_until(0.5)
    with pytest.raises(InputError, match="there are transfers"):
        sim.deregister_store("images")
    sim.deregister_store("images", violent=True)
    sim.run()
    assert sim.instances.select("reason", "end").rows() == [("refused", 0.5), ("refused", 9.0)]
    assert sim.transfers.select("kind", "bytes", "reason").rows() == [
        ("image", 50 * MB, "cancelled")
    ]
    assert sim.network_nodes.select("sent", "transfers").sum().rows() == [(50 * MB, 0)]


def test_images_keep_their_store_registered():
    sim = start([make_host("a")], [make_task(1)], image=IMAGE)
    sim.run()
    with pytest.raises(InputError, match="it has images of a cloud"):
        sim.deregister_store("images")


# --- figures, copies and states -----------------------------------------------------------------


def test_nodes_count_the_bytes_of_all_transfers_so_far():
    sim = begin(
        [{"id": "t", "reads": ["f"], "writes": ["g"]}],
        [{"name": "f", "size": "40 MB"}, {"name": "g", "size": "10 MB", "store": "local"}],
    )
    sim.run_until(5.0)
    nodes = {name: each for name, *each in sim.network_nodes.rows()}
    assert nodes["disk"] == [20 * MB, 0.0, 5 * MB, 0.0, 1]
    assert nodes["a"] == [0.0, 20 * MB, 0.0, 5 * MB, 1]
    sim.store("tape").put("x", 6 * MB, source="a")
    sim.run()
    nodes = {name: each for name, *each in sim.network_nodes.rows()}
    # The local write passes no port.
    assert nodes["a"] == [6 * MB, 40 * MB, 0.0, 0.0, 0]
    assert nodes["tape"] == [0.0, 6 * MB, 0.0, 0.0, 0]
    assert nodes["b"] == [0.0] * 4 + [0]
    assert list(nodes) == ["a", "b", "c", "disk", "tape"]


@pytest.mark.parametrize("time", [0.0, 0.5, 2.0])
def test_a_copy_continues_in_the_same_way_and_independently(time: float):
    sim = begin([{"id": "t"}])
    sim.store("disk").register("x", 40 * MB)
    original = sim.store("disk").duplicate("x", to="tape")
    sim.store("disk").duplicate("x", to="tape")
    sim.run_until(time)
    twin = sim.copy()
    mine = twin.store("disk").transfers
    assert [each.name for each in mine] == ["transfer-1", "transfer-2"]
    twin.store("tape").register("y", MB)
    assert (twin.find_file("y"), sim.find_file("y")) == (["tape"], [])
    # The same number for another name.
    sim.store("disk").register("z", 2 * MB)
    twin.run()
    sim.run()
    assert twin.transfers.equals(sim.transfers)
    mine[0].cancel()
    assert original.end == mine[0].end == 1 + 20
    assert (sim.find_file("z"), twin.find_file("z")) == (["disk"], [])
    assert sim.copy(history=False).transfers.is_empty()


def test_a_changed_store_cannot_be_saved_and_an_inspected_one_can():
    files = [{"name": "f", "size": "40 MB"}]
    sim = begin([{"id": "t", "reads": ["f"]}], files)
    sim.run_until(3.0)
    assert sim.stores["store"].to_list() == ["disk", "tape", "a", "b"]
    resumed = Simulation(sim._compiled, state=sim.state)
    assert resumed.run()["end"].to_list() == [1 + 8 + 10]
    assert begin([{"id": "t"}]).state.stores == {}
    sim.store("tape").register("x", 1)
    with pytest.raises(InputError, match=r"changed from outside cannot be saved: use copy\(\)"):
        _ = sim.state


def test_machines_that_are_added_have_nodes_and_stores():
    for opens_first in (True, False):
        sim = begin([{"id": "t"}])
        if opens_first:
            sim.store("disk")
        sim.add_machine("new", like="a")
        sim.add_instance("vm", host="new", cores=1)
        put = sim.store("new").put("x", 40 * MB, source="vm")
        far = sim.store("new").put("y", 40 * MB, source="b")
        sim.run()
        # From the instance at the write bandwidth that the other leaves: 20 - 10 MB/s after 1 s.
        assert (put.end, far.end) == (pytest.approx(3.0), 5.0)
        assert sim.find_file("x") == ["new"]


def test_a_handle_shows_its_transfer():
    sim = begin()
    put = sim.store("disk").put("x", 1.0, source="a")
    assert isinstance(put, StoreTransfer)
    assert repr(put) == "<StoreTransfer transfer-1: put 'x', latency>"
    assert repr(sim.store("disk")) == "<StoreService disk: 0 bytes used>"
