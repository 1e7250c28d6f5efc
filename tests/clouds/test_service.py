"""The service of a cloud on a running simulation, by hand-computed times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clouds.cases import (
    GB,
    IMAGE,
    POWER,
    is_clear,
    make_host,
    make_scenario,
    make_task,
    start,
)
from twinloop.description.errors import InputError
from twinloop.engine import CloudService, Simulation
from twinloop.metrics import client_metrics
from twinloop.scenario import Scenario

#: It waits for an instance that is never requested.
LARGE = make_task(0, cores=100)


def open_cloud(
    tasks: tuple[dict[str, Any], ...] = (LARGE,), hosts: str = "a b", **others: Any
) -> tuple[Simulation, CloudService]:
    """A cloud of hosts of 4 cores and 8 GB; without other options, instances start at once."""
    host = make_host(hosts, memory=8 * GB, power=POWER)
    sim = start([host], tasks, **{"policy": "manual", **others})
    return sim, sim.cloud("cloud")


def list_states(sim: Simulation, instance: str) -> list[Any]:
    states = sim.trace().instance_states
    assert states is not None
    return states.filter(instance=instance).select("state", "start", "end").rows()


# --- requests ------------------------------------------------------------------------------------


def test_a_requested_instance_boots_and_runs_the_tasks_that_fit() -> None:
    # 100 MB at 100 MB/s, 1 s of delay, 4 core-seconds on 2 cores.
    sim, cloud = open_cloud((make_task(0, cores=2), make_task(1, cores=1)), image=IMAGE)
    assert cloud.request(cores=2) == "instance-1"
    sim.run()
    assert sim.tasks["start"].to_list() == [4.0, 14.0]
    assert cloud.describe("instance-1")._replace(since=0.0) == (
        "instance-1", "running", 0.0, "a", 2.0, 0.0, "any", "base", None, 0.0, 4.0, 0,
    )  # fmt: skip
    cloud.terminate("instance-1")
    assert cloud.instances.is_empty()
    assert cloud.use.free_cores == 8
    assert is_clear(sim)


def test_the_queries_of_a_cloud_follow_its_instances() -> None:
    sim, cloud = open_cloud()
    assert cloud.use == (2, 2, 0, 0, 8.0, 8.0, 8.0, 0.0)
    for cores in (3, 3, 2):
        cloud.request(cores=cores, memory=GB)
    sim.run_until(0)
    assert cloud.use == (2, 2, 3, 1, 8.0, 8.0, 2.0, 6.0)
    assert cloud.hosts.select("host", "free_cores", "free_memory", "instances").rows() == [
        ("a", 1.0, 7 * GB, 1),
        ("b", 1.0, 7 * GB, 1),
    ]
    assert cloud.instances["state"].to_list() == ["running", "running", "queued"]
    assert cloud.controllers == {
        "placement": "first-fit", "machines": "always-on", "consolidation": None,
    }  # fmt: skip
    sim.fail("b")
    sim.run_until(1)
    assert cloud.use == (2, 1, 2, 1, 8.0, 4.0, 1.0, 3.0)


def test_requests_beyond_the_limits_and_of_unknown_parts_are_refused() -> None:
    _, cloud = open_cloud(limits={"instances": 1})
    cloud.request(cores=1)
    with pytest.raises(InputError, match="cannot rent an instance: the cloud allows no more inst"):
        cloud.request(cores=1)
    with pytest.raises(InputError, match="there is no type 'huge'"):
        cloud.request(cores=1, type="huge")
    with pytest.raises(InputError, match="cores: must be given, because type 'any'"):
        cloud.request()
    with pytest.raises(InputError, match="has no instance 'instance-7' now"):
        cloud.suspend("instance-7")
    with pytest.raises(InputError, match="there is no cloud 'west'"):
        open_cloud()[0].cloud("west")


def test_an_instance_that_no_host_can_have_is_refused() -> None:
    sim, cloud = open_cloud()
    assert cloud.request(cores=5) == "instance-1"
    assert cloud.instances.is_empty()
    assert sim.instances.select("reason", "host").rows() == [("refused", None)]


def test_the_last_instance_of_a_client_is_not_given_back_by_another() -> None:
    scenario = make_scenario([make_host()], [make_task(0)])
    sim = Simulation(scenario)
    sim.cloud("cloud").request(cores=2)
    sim.run()
    assert sim.cloud("cloud").instances["cores"].to_list() == [2.0]


@pytest.mark.parametrize(
    "method",
    ["terminate", "suspend", "resume", "reboot", "shut_down", "describe", "ask", "use_allocation",
     "register_host", "deregister_host"],
)  # fmt: skip
def test_a_name_that_is_no_text_is_refused(method: str) -> None:
    _, cloud = open_cloud()
    cloud.request(cores=1)
    for name in (3, None, 1.5, b"instance-1", ["instance-1"]):
        with pytest.raises(InputError, match=r"(instance|machine): must be a text, not "):
            getattr(cloud, method)(name)
    assert cloud.use.instances == 1


def test_there_is_no_answer_about_an_unknown_instance() -> None:
    _, cloud = open_cloud()
    for _ in range(3):
        cloud.request(cores=1)
    for name in (f"instance-{10**20}", "instance-٣", "instance-0", "instance-01", "i-1", "3"):
        with pytest.raises(InputError, match="there is no instance"):
            cloud.ask(name)
    assert cloud.answers.is_empty()


# --- several instances ---------------------------------------------------------------------------


def test_instances_requested_together_start_together() -> None:
    sim, cloud = open_cloud(image={"name": "base", "boot": IMAGE["boot"]}, hosts="a")
    blocker = cloud.request(cores=3)
    names = cloud.request_together(3, cores=1)
    sim.run_until(20)
    # One core is free, which none of them takes.
    assert cloud.instances["state"].to_list()[1:] == ["queued", "queued", "queued"]
    cloud.terminate(blocker)
    sim.run_until(30)
    for name in names:
        # 1 s of delay and 4 core-seconds on one core.
        assert cloud.describe(name).ready == 25.0


def test_more_instances_than_empty_hosts_can_hold_are_refused_at_once() -> None:
    sim, cloud = open_cloud(hosts="a b", billing={"unit": "1h", "price": 1.0})
    cloud.request_together(3, cores=3)  # two hosts of four cores
    other = cloud.request(cores=1)
    sim.run_until(100)
    assert sim.instances["reason"].to_list() == ["refused", "refused", "refused", None]
    assert sim.instances["price"].to_list() == [0.0, 0.0, 0.0, 1.0]
    assert cloud.describe(other).state == "running"


@pytest.mark.parametrize("queue", ["blocking", "skip", "smallest-first"])
def test_groups_do_not_hold_hosts_that_others_of_them_need(queue: str) -> None:
    placement = {"placement": {"name": "first-fit", "options": {"queue": queue}}}
    sim, cloud = open_cloud(controllers=placement, hosts="a b")
    blockers = [cloud.request(cores=4), cloud.request(cores=1)]
    groups = [cloud.request_together(2, cores=4), cloud.request_together(2, cores=3)]
    sim.run_until(50)
    cloud.terminate(blockers[0])
    sim.run_until(100)
    # One of two empty hosts has room for one member of the first group, and each for one of the
    # second one: only a queue that lets others pass, or sorts by size, starts it.
    states = {name: cloud.describe(name).state for group in groups for name in group}
    passes = queue != "blocking"
    assert [states[name] for name in groups[0]] == ["queued", "queued"]
    assert [states[name] for name in groups[1]] == ["running" if passes else "queued"] * 2
    cloud.terminate(blockers[1])
    for name in groups[1] if passes else ():
        cloud.terminate(name)
    sim.run_until(200)
    assert [cloud.describe(name).state for name in groups[0]] == ["running", "running"]


def test_a_group_without_one_of_its_members_waits_for_the_others_only() -> None:
    sim, cloud = open_cloud(hosts="a")
    cloud.request(cores=1)
    names = cloud.request_together(4, cores=1)
    sim.run_until(50)
    assert {cloud.describe(name).state for name in names} == {"queued"}
    cloud.terminate(names[1])  # three free cores
    sim.run_until(100)
    assert {cloud.describe(names[i]).state for i in (0, 2, 3)} == {"running"}


def test_the_number_of_instances_is_a_whole_one_within_bounds() -> None:
    _, cloud = open_cloud()
    for count, message in (
        (1.5, "count: must be a whole number, not 1.5"),
        ("2", "count: must be a whole number, not '2'"),
        (None, "count: must be a whole number, not None"),
        (True, "count: must be a whole number, not True"),
        (0, "count: must be positive, not 0"),
        (2**40, "must be at most 100000, not 1099511627776"),
    ):
        with pytest.raises(InputError, match=message):
            cloud.request_together(count, cores=3)
    assert cloud.use.instances == 0


@pytest.mark.parametrize("what", ["instances", "cores", "memory"])
def test_a_request_beyond_the_limits_leaves_none_of_its_instances(what: str) -> None:
    _, cloud = open_cloud(limits={what: 3 * GB if what == "memory" else 3})
    cloud.request(cores=1, memory=GB)
    with pytest.raises(InputError, match=f"the cloud allows no more {what}"):
        cloud.request_together(3, cores=1, memory=GB)
    assert cloud.use.instances == 1
    cloud.request_together(2, cores=1, memory=GB)
    assert cloud.use.instances == 3


@pytest.mark.parametrize(
    ("placement", "memory", "most"),
    [
        ("first-fit", 4.0, 4),  # two hosts of 8 GB
        ({"name": "pack-ic", "options": {"overcommit": 2}}, 0.0, 16),
        # A batch policy does not count places itself.
        ("easy", 4.0, 4),
    ],
)
def test_memory_and_overcommitment_bound_what_empty_hosts_can_hold(
    placement: Any, memory: float, most: int
) -> None:
    for count, reasons in ((most + 1, ["refused"] * (most + 1)), (most, [None] * most)):
        sim, cloud = open_cloud(controllers={"placement": placement})
        cloud.request_together(count, cores=1, memory=memory * GB)
        sim.run_until(1)
        assert sim.instances["reason"].to_list() == reasons


def test_instances_requested_together_are_refused_together() -> None:
    refusing = {"placement": {"name": "first-fit", "options": {"queue": "refuse"}}}
    sim, cloud = open_cloud(controllers=refusing)
    cloud.request(cores=3)
    cloud.request_together(2, cores=3)
    sim.run_until(1)
    assert cloud.use.instances == 1
    assert sim.instances["reason"].to_list() == [None, "refused", "refused"]
    assert cloud.use.allocated_cores == 3


# --- allocations ---------------------------------------------------------------------------------


def test_an_allocation_expires_unless_it_is_used() -> None:
    sim, cloud = open_cloud()
    expiring, used = cloud.allocate(cores=2), cloud.allocate(cores=3, validity=5)
    sim.run_until(0.5)
    assert cloud.use.allocated_cores == 5
    cloud.use_allocation(used)
    sim.run_until(10)
    assert cloud.instances.select("instance", "state").rows() == [(used, "running")]
    assert sim.instances.filter(instance=expiring).select("end", "reason").rows() == [
        (1.0, "expired")
    ]
    with pytest.raises(InputError, match="cannot be used: it is not an allocation that expires"):
        cloud.use_allocation(used)


def test_an_allocation_that_is_not_strict_may_be_under_provisioned() -> None:
    sim, cloud = open_cloud(hosts="a")
    cloud.request(cores=3)
    sim.run_until(0)
    short = cloud.allocate(cores=4, strict=False)
    strict = cloud.allocate(cores=4)
    sim.run_until(0)
    assert (cloud.describe(short).cores, cloud.describe(short).state) == (1.0, "allocated")
    assert cloud.describe(strict).state == "queued"
    cloud.terminate(short)
    cloud.terminate(strict)
    assert cloud.use.allocated_cores == 3


# --- suspension ----------------------------------------------------------------------------------

MEMORY = {"image": {**IMAGE, "boot": {}}, "latency": 0.5}


def test_a_suspended_task_goes_on_where_it_was() -> None:
    # Ready at 0.5 + 1 s. 1 GB at 100 MB/s take 10 s each way, with 0.5 s of latency.
    sim, cloud = open_cloud((make_task(0, run_time=20.0),), **MEMORY)
    name = cloud.request(cores=1, memory=GB)
    sim.run_until(6.5)
    cloud.suspend(name)
    sim.run_until(30)
    assert cloud.describe(name)[1:4] == ("suspended", 17.0, None)
    assert cloud.use.allocated_cores == 0
    assert sim._run.stored_bytes().tolist() == [GB + 100e6]
    cloud.resume(name)
    sim.run()
    # 5 s before, 15 s after the 40.5 s.
    assert sim.tasks["end"].to_list() == [55.5]
    assert list_states(sim, name) == [
        ("initial-transfer", 0.0, 1.5), ("running", 1.5, 6.5), ("suspend-transfer", 6.5, 17.0),
        ("suspended", 17.0, 30.0), ("resume-transfer", 30.0, 40.5), ("running", 40.5, None),
    ]  # fmt: skip
    transfers = sim.transfers.select("kind", "from", "to", "bytes", "start", "end").rows()
    assert transfers[1:] == [
        ("suspend", name, "images", GB, 6.5, 17.0),
        ("resume", "images", name, GB, 30.0, 40.5),
    ]
    assert sim.instances.select("host", "start", "end", "reason").rows() == [
        ("a", 0.0, 17.0, "suspended"), ("a", 30.0, None, None),
    ]  # fmt: skip
    assert sim._run.stored_bytes().tolist() == [100e6]
    # Stopped from 6.5 s to 40.5 s.
    assert sim.kpis()["downtime_s"] == 34.0
    # On the host until 17 s, and from 30 s to the end of the task.
    assert sim.kpis()["instance_core_s"] == 17.0 + 25.5


def test_a_suspended_instance_waits_for_a_host_and_may_get_another_one() -> None:
    sim, cloud = open_cloud((make_task(0, run_time=20.0, cores=4),), hosts="a b")
    name = cloud.request(cores=4)
    sim.run_until(5)
    cloud.suspend(name)
    taken = [cloud.request(cores=4), cloud.request(cores=4)]
    cloud.resume(name)
    sim.run_until(10)
    assert cloud.describe(name).state == "queued"
    cloud.terminate(taken[1])
    sim.run()
    assert cloud.describe(name).host == "b"
    assert sim.tasks["end"].to_list() == [25.0]


def test_a_resumption_that_is_refused_leaves_the_instance_suspended() -> None:
    refusing = {"placement": {"name": "first-fit", "options": {"queue": "refuse"}}}
    sim, cloud = open_cloud(hosts="a", controllers=refusing)
    name = cloud.request(cores=4)
    sim.run_until(1)
    cloud.suspend(name)
    other = cloud.request(cores=1)
    sim.run_until(2)
    cloud.resume(name)
    sim.run_until(3)
    assert cloud.describe(name).state == "suspended"
    cloud.terminate(other)
    cloud.resume(name)
    sim.run_until(4)
    assert cloud.describe(name)[1:4] == ("running", 3.0, "a")


@pytest.mark.parametrize("time", [7.0, 12.0, 20.0, 30.2, 35.0])
def test_an_end_during_suspension_and_resumption_gives_everything_back(time: float) -> None:
    sim, cloud = open_cloud((make_task(0, run_time=20.0),), **MEMORY)
    name = cloud.request(cores=1, memory=GB)
    sim.run_until(6.5)
    cloud.suspend(name)
    sim.run_until(min(time, 30.0))
    if time > 30:
        cloud.resume(name)
        sim.run_until(time)
    with pytest.raises(InputError, match="cannot end: the instance has tasks"):
        cloud.terminate(name)
    cloud.terminate(name, violent=True)
    assert cloud.use == (2, 2, 0, 0, 8.0, 8.0, 8.0, 0.0)
    assert cloud.hosts["free_memory"].to_list() == [8 * GB] * 2
    assert is_clear(sim)
    assert sim._run.stored_bytes().tolist() == [100e6]
    # The task is waiting again.
    assert sim.waiting == ["t0"]
    cloud.request(cores=1)
    sim.run()
    assert sim.tasks["status"].to_list() == ["completed"]


def test_a_store_without_space_refuses_the_memory() -> None:
    host = make_host("a", memory=8 * GB)
    scenario = make_scenario([host], [LARGE], image=IMAGE, policy="manual")
    scenario = scenario.replace(**{"platform.stores[0].capacity": "500 MB"})
    sim = Simulation(scenario)
    cloud = sim.cloud("cloud")
    name = cloud.request(cores=1, memory=GB)
    with pytest.raises(InputError, match="cannot be suspended: the instance is not running"):
        cloud.suspend(name)
    sim.run_until(10)
    with pytest.raises(InputError, match="cannot be suspended: the store has no space for its mem"):
        cloud.suspend(name)
    assert cloud.describe(name).state == "running"


def test_memory_in_the_store_of_a_host_is_lost_with_the_host() -> None:
    host = make_host("a b", memory=8 * GB, store={"capacity": "1 TB"})
    scenario = make_scenario([host], [LARGE], image=IMAGE, policy="manual", suspend_to="local")
    sim = Simulation(scenario)
    cloud = sim.cloud("cloud")
    names = [cloud.request(cores=1, memory=GB) for _ in range(2)]
    sim.run_until(20)
    for name in names:
        cloud.suspend(name)
    sim.run_until(40)
    # A copy to the store of the same host needs no network.
    assert cloud.instances["state"].to_list() == ["suspended"] * 2
    sim.fail("b")
    assert cloud.use.instances == 2
    sim.fail("a")
    assert cloud.use.instances == 0


# --- boots ---------------------------------------------------------------------------------------


def test_a_reboot_interrupts_the_tasks_and_boots_again() -> None:
    sim, cloud = open_cloud((make_task(0, run_time=20.0),), image=IMAGE)
    name = cloud.request(cores=2)
    sim.run_until(10)
    cloud.reboot(name)
    sim.run()
    # A boot of 1 s and 4 core-seconds on 2 cores; then the task begins again.
    assert sim.tasks.select("start", "end", "attempts").rows() == [(4.0, 33.0, 2)]
    assert cloud.describe(name).ready == 4.0


def test_an_instance_that_was_shut_down_keeps_its_disk_on_its_host() -> None:
    sim, cloud = open_cloud(image=IMAGE)
    name = cloud.request(cores=4)
    sim.run_until(10)
    cloud.shut_down(name)
    assert cloud.use.allocated_cores == 0
    sim.run_until(20)
    cloud.resume(name)
    sim.run_until(22)
    assert cloud.describe(name).state == "startup"
    sim.run_until(30)
    # 1 s and 4 core-seconds on at most 2 cores: no transfer of the image.
    assert list_states(sim, name)[-2:] == [("startup", 20.0, 23.0), ("running", 23.0, None)]
    assert sim.transfers.height == 1


# --- migration -----------------------------------------------------------------------------------


def test_an_instance_moves_to_a_host_of_its_cloud() -> None:
    sim, cloud = open_cloud((make_task(0, run_time=20.0),), **MEMORY)
    name = cloud.request(cores=1, memory=GB)
    sim.run_until(5)
    cloud.migrate(name, host="b")
    sim.run_until(6)
    assert cloud.hosts["free_cores"].to_list() == [3.0, 3.0]
    with pytest.raises(InputError, match="cannot be suspended: the instance is not running"):
        cloud.suspend(name)
    sim.run()
    # Two copies, of 1 GB and of nothing, each with 0.5 s of latency; stopped for the second one.
    assert sim.tasks["end"].to_list() == [22.0]
    assert cloud.describe(name).host == "b"
    with pytest.raises(InputError, match="cannot move to 'b': it is on this host"):
        cloud.migrate(name, host="b")
    with pytest.raises(InputError, match="give either `host` or `cloud`"):
        cloud.migrate(name)


def two_clouds(*spare: str, **others: Any) -> Simulation:
    """Two clouds with a cluster each, and further clusters that belong to none."""
    clusters = [
        {"name": name, "hosts": [make_host(f"{name}1", memory=8 * GB, power=POWER)]}
        for name in ("east", "west", *spare)
    ]
    clouds = [
        {
            "name": name, "clusters": [name], "billing": {"unit": "10s", "price": price},
            "images": [{"name": "base", "size": "100 MB", "store": "images"}],
        }
        for name, price in (("east", 1.0), ("west", 2.0))
    ]  # fmt: skip
    clouds[1].update(others)
    platform = {
        "clusters": clusters,
        "clouds": clouds,
        "stores": [{"name": "images", "ports": {"in": "100 MB/s", "out": "100 MB/s"}}],
    }
    tasks = [make_task(0, run_time=50.0)]
    return Simulation(Scenario(platform=platform, policy="manual", workload={"tasks": tasks}))


def test_an_instance_moves_to_another_cloud_with_its_disk_and_its_tasks() -> None:
    sim = two_clouds()
    east, west = sim.cloud("east"), sim.cloud("west")
    name = east.request(cores=2, memory=GB)
    sim.run_until(11)
    east.migrate(name, cloud="west")
    sim.run_until(11.5)
    assert east.describe(name).state == "suspend-transfer"
    sim.run()
    # From 1 s to 11 s; 1.1 GB take 11 s to the store and 11 s from it; 40 s are left at 33 s.
    assert sim.tasks["end"].to_list() == [73.0]
    assert east.instances.is_empty()
    assert west.describe(name).host == "west1"
    rows = sim.instances.select("cloud", "host", "start", "end", "reason", "price").rows()
    # 22 s in the first cloud are three units; 51 s in the second one are six.
    assert rows == [
        ("east", "east1", 0.0, 22.0, "left", 3.0), ("west", "west1", 22.0, None, None, 12.0),
    ]  # fmt: skip
    assert sim.kpis()["bill"] == 15.0
    assert sim.kpis()["instances"] == 1
    # It is one instance of the client, with the prices of both clouds.
    west.terminate(name)
    client = client_metrics(sim.trace())
    assert (client.instances, client.units, client.bill) == (1, 3 + 6, 15.0)
    assert east.use.allocated_cores == 0


def test_another_cloud_must_allow_the_instance() -> None:
    sim = two_clouds(limits={"cores": 1})
    east = sim.cloud("east")
    name = east.request(cores=2, memory=GB)
    sim.run_until(5)
    with pytest.raises(
        InputError, match="cannot move to cloud 'west': the cloud allows no more co"
    ):
        east.migrate(name, cloud="west")
    assert east.describe(name).state == "running"
    sim.run()
    assert sim.tasks["end"].to_list() == [51.0]


def test_an_instance_does_not_move_to_the_cloud_where_it_is() -> None:
    sim, cloud = open_cloud(billing={"unit": 10, "price": 1})
    name = cloud.request(cores=1)
    sim.run_until(1)
    with pytest.raises(InputError, match=r"cannot move to cloud 'cloud': it is there \(give the"):
        cloud.migrate(name, cloud="cloud")
    sim.run_until(5)
    cloud.terminate(name)
    assert sim.instances.select("reason", "price").rows() == [("released", 1.0)]


# --- hosts ---------------------------------------------------------------------------------------


def test_hosts_join_and_leave_a_cloud() -> None:
    sim = two_clouds("spare")
    east = sim.cloud("east")
    names = [east.request(cores=4) for _ in range(2)]
    sim.run_until(5)
    assert east.use.queued == 1
    with pytest.raises(InputError, match="cannot be registered: the machine is a host of a cloud"):
        east.register_host("west1")
    # The task runs on an instance, so that the machine without cloud is free.
    assert sim.machines.filter(machine="spare1")["tasks"].to_list() == [1]
    with pytest.raises(InputError, match="cannot be registered: the machine has tasks"):
        east.register_host("spare1")
    sim.run_until(60)
    east.register_host("spare1")
    sim.run_until(70)
    assert east.describe(names[1]).host == "spare1"
    with pytest.raises(InputError, match="cannot be deregistered: the machine has instances"):
        east.deregister_host("spare1")
    east.deregister_host("spare1", violent=True)
    assert east.hosts["host"].to_list() == ["east1"]
    assert sim.instances.filter(instance=names[1])["reason"].to_list() == ["lost"]
    sim.cloud("west").register_host("spare1")
    assert sim.cloud("west").use.hosts == 2
    with pytest.raises(InputError, match="is not a host of cloud 'east'"):
        east.deregister_host("spare1")


def test_a_violent_deregistration_loses_work_that_the_client_repeats() -> None:
    sim = Simulation(make_scenario([make_host("a b")], [make_task(0, run_time=20.0)]))
    sim.run_until(5)
    sim.cloud("cloud").deregister_host("a", violent=True)
    sim.run()
    assert sim.tasks.select("start", "end", "attempts").rows() == [(0.0, 25.0, 2)]
    assert sim.instances["host"].to_list() == ["a", "b"]


# --- copies --------------------------------------------------------------------------------------


def test_a_copy_in_mid_suspension_continues_in_the_same_way() -> None:
    sim, cloud = open_cloud((make_task(0, run_time=20.0),), **MEMORY)
    name = cloud.request(cores=1, memory=GB)
    for time, order in ((6.5, cloud.suspend), (30.0, cloud.resume)):
        sim.run_until(time)
        order(name)
        twin = sim.copy()
        if time == 6.5:
            twin.run_until(30)
            twin.cloud("cloud").resume(name)
        twin.run()
        assert twin.tasks["end"].to_list() == [55.5]
    sim.run()
    assert sim.instances.equals(twin.instances)


# --- messages ------------------------------------------------------------------------------------


def test_requests_of_the_service_travel_as_messages() -> None:
    scenario = make_scenario(
        [make_host("a b", memory=8 * GB)],
        [make_task(0, run_time=20.0)],
        image={**IMAGE, "boot": {}},
        latency=0.5,
        policy="manual",
        messages={"client": "images", "controller": "a", "size": 0, "reply": 0},
    )
    sim = Simulation(scenario)
    cloud = sim.cloud("cloud")
    name = cloud.request(cores=1, memory=GB)
    cloud.ask(name)
    # The request, latency and copy of the image, and the answer.
    sim.run_until(2.4)
    assert (cloud.describe(name).state, sim.running) == ("running", [])
    sim.run_until(2.5)
    assert sim.running == ["t0"]
    cloud.suspend(name)
    sim.run_until(2.9)
    assert cloud.describe(name).state == "running"
    sim.run_until(3.0)
    assert cloud.describe(name).state == "suspend-transfer"
    # Not possible in this state: it has no effect.
    cloud.reboot(name)
    sim.run_until(20)
    assert cloud.describe(name)[1:3] == ("suspended", 13.5)
    cloud.resume(name)
    sim.run()
    # It has run for 0.5 s at 3 s, and goes on at 20 + 0.5 + 10.5 s.
    assert sim.tasks["end"].to_list() == [50.5]
    assert cloud.answers.select("instance", "state", "asked", "answered", "received").rows() == [
        (name, "queued", 0.0, 0.5, 1.0)
    ]
    cloud.terminate(name)
    assert cloud.use.instances == 1
    sim.run_until(51.0)
    assert cloud.use.instances == 0


# --- size ----------------------------------------------------------------------------------------


def test_a_running_instance_gets_another_size() -> None:
    sim, cloud = open_cloud((make_task(0, cores=2), make_task(1, cores=2)))
    name = cloud.request(cores=2)
    sim.run_until(4)
    cloud.resize(name, 4)
    sim.run_until(20)
    assert sim.tasks["start"].to_list() == [0.0, 4.0]
    with pytest.raises(InputError, match="cannot get another size: the host has too few free cor"):
        cloud.resize(name, 5)
    cloud.resize(name, 1)
    assert cloud.use.allocated_cores == 1
    assert sim.instances.select("cores", "start", "end", "reason").rows() == [
        (2.0, 0.0, 4.0, "resized"), (4.0, 4.0, 20.0, "resized"), (1.0, 20.0, None, None),
    ]  # fmt: skip


# --- the store of the memory ---------------------------------------------------------------------


def test_memory_in_a_store_is_lost_with_the_store() -> None:
    sim, cloud = open_cloud(**MEMORY)
    names = [cloud.request(cores=1, memory=GB) for _ in range(2)]
    sim.run_until(10)
    cloud.suspend(names[0])
    sim.run_until(30)
    cloud.suspend(names[1])
    sim.run_until(31)
    with pytest.raises(InputError):
        sim.deregister_store("images")
    sim.deregister_store("images", violent=True)
    # The first one is lost; the second one goes on where it was.
    assert cloud.instances.select("instance", "state").rows() == [(names[1], "running")]
    assert cloud.use.allocated_cores == 1
    with pytest.raises(InputError, match="cannot be suspended"):
        cloud.suspend(names[1])
