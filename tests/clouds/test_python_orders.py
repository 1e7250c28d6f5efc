"""Orders from Python: clients that rent instances, and controllers of a cloud."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.clouds.cases import (
    GB,
    IMAGE,
    POWER,
    STATES,
    list_rentals,
    list_times,
    make_host,
    make_scenario,
    make_task,
)
from tests.clouds.controllers import Client, Observer, Scripted
from tests.examples import examples
from twinloop.description.class_registry import CodeNotAllowed
from twinloop.engine import CompiledScenario, Simulation

CODE = "tests.clouds.controllers:"
#: A boot of 2 s without work.
SLOW = {"name": "slow", "boot": {"delay": 2}}


@pytest.fixture(autouse=True)
def _empty_notes() -> None:
    for notes in (Scripted.refused, Observer.seen, Client.events, Client.states):
        notes.clear()


def finish(hosts: list[Any], tasks: list[Any], **others: Any) -> Simulation:
    sim = Simulation(make_scenario(hosts, tasks, **others), allow_code=True)
    sim.run()
    return sim


def choose(name: str, **options: Any) -> dict[str, Any]:
    return {"name": CODE + name, "options": options}


def script(*orders: tuple[Any, ...], **options: Any) -> dict[str, Any]:
    return choose("Scripted", orders=[list(each) for each in orders], **options)


def refuse(**others: Any) -> list[tuple[str, str]]:
    """Run two tasks of 2 cores and 100 s on two hosts of 4 cores; return the refused orders."""
    tasks = [make_task(i, cores=2, run_time=100) for i in range(2)]
    finish([make_host(cores=4)], tasks, **others)
    return list(Scripted.refused)


# --- the client -----------------------------------------------------------------------------------


def test_a_client_rents_fills_and_gives_back_an_instance() -> None:
    # It has 2 cores: t0 and t1 run at once from the end of the boot at 2 s, then t2.
    tasks = [make_task(i, cores=1, run_time=10) for i in range(3)]
    sim = finish([make_host()], tasks, image=SLOW, policy=choose("Client"))
    assert list_times(sim) == [(2, 12), (2, 12), (12, 22)]
    assert list_rentals(
        sim, "instance", "host", "cores", "requested", "ready", "end", "reason"
    ) == [("instance-1", "a", 2, 0, 2, 22, "released")]
    assert Client.events == [(0, "instance-1", "requested"), (2, "instance-1", "ready")]
    assert Client.states[:1] == [(2, "running")]


def test_a_client_reads_states_and_gets_events_of_its_instances() -> None:
    # The task at 1 s finds the instance in its boot; it is given back at 12 s, and the next one has
    # the same index and another name.
    tasks = [make_task(0), make_task(1, submit=1), make_task(2, submit=20)]
    finish([make_host()], tasks, image=SLOW, policy=choose("Client"))
    assert Client.states == [(1, "starting"), (2, "running"), (12, "running"), (22, "running"),
                             (32, "running")]  # fmt: skip
    assert Client.events == [
        (0, "instance-1", "requested"),
        (2, "instance-1", "ready"),
        (12, None, "ended"),
        (20, "instance-2", "requested"),
        (22, "instance-2", "ready"),
    ]


def test_names_positions_and_defaults_of_rent() -> None:
    types = [{"name": "small", "cores": 1, "memory": "1 GB"}, {"name": "large", "cores": 3}]
    clouds = {"types": types, "images": [SLOW, {"name": "quick"}]}
    columns = ("type", "image", "cores", "memory", "ready", "user")
    tasks = [make_task(0, user="eve")]

    def rent(**fields: Any) -> Any:
        sim = finish([make_host()], tasks, policy=choose("Client", rent=fields), **clouds)
        return list_rentals(sim, *columns)[0]

    assert rent(cloud=0) == ("small", "slow", 1, GB, 2, None)
    assert rent(cloud="cloud", type="large", image="quick") == ("large", "quick", 3, None, 0, None)
    assert rent(type=1, image=1, user="eve") == ("large", "quick", 3, None, 0, "eve")


def test_refused_and_lost_instances_are_told_to_the_client() -> None:
    # 8 cores fit on no host.
    sim = finish([make_host()], [make_task(0)], policy=choose("Client", rent={"cores": 8}))
    assert [event for *_, event in Client.events] == ["requested", "refused"]
    assert sim.tasks["status"].to_list() == ["killed"]
    # Its host fails at 4 s; the task starts again on an instance on the other host.
    Client.events.clear()
    scenario = make_scenario([make_host()], [make_task(0)], policy=choose("Client"))
    sim = Simulation(scenario, allow_code=True)
    sim.run_until(4)
    sim.fail("a")
    sim.run()
    assert [event for *_, event in Client.events] == [
        "requested", "ready", "lost", "requested", "ready",
    ]  # fmt: skip
    assert list_rentals(sim, "host", "reason") == [("a", "lost"), ("b", "released")]


def test_tasks_wait_for_a_client_that_rents_nothing() -> None:
    sim = finish([make_host()], [make_task(0)], policy=script())
    assert list_times(sim) == [(None, None)]
    assert sim.tasks["status"].to_list() != ["rejected"]


# --- the provider ---------------------------------------------------------------------------------


def test_a_placement_controller_places_and_refuses() -> None:
    # t1 does not fit beside t0 on `b`, and is refused at once.
    tasks = [make_task(0, cores=3), make_task(1, cores=3)]
    orders = script((0, "place", 0, 1), (0, "kill", 1))
    sim = finish([make_host()], tasks, controllers={"placement": orders})
    assert list_rentals(sim, "host", "reason") == [("b", "released"), (None, "refused")]
    assert list_times(sim)[0] == (0, 10)
    assert sim.tasks["status"].to_list() == ["completed", "killed"]


def test_a_machine_controller_switches_hosts() -> None:
    # `a` is off from 5 s on; the second task waits from 6 s until `a` runs again at 20 + 200 s.
    host = make_host("a", states=STATES, power=POWER)
    tasks = [make_task(0, run_time=5), make_task(1, submit=6)]
    switching = script((5, "set-state", 0, "off"), (20, "set-state", 0, "on"))
    sim = finish([host], tasks, controllers={"machines": switching})
    assert list_times(sim) == [(0, 5), (220, 230)]


def test_a_consolidation_controller_migrates() -> None:
    # Instances of 1 GB on `a` and `b`; the second moves to `a` at 50 s, in 10 s at 100 MB/s.
    tasks = [make_task(0, cores=3, memory="1 GB", run_time=100),
             make_task(1, cores=2, memory="1 GB", run_time=100)]  # fmt: skip
    hosts = [make_host(cores=5, memory="8 GB")]
    placing = script((0, "place", 0, 0), (0, "place", 1, 1), (50, "migrate", 1, 0))
    sim = finish(hosts, tasks, controllers={"placement": placing})
    assert list_rentals(sim, "instance", "host", "start", "end", "reason") == [
        ("instance-1", "a", 0, 100, "released"),
        ("instance-2", "b", 0, 60, "moved"),
        ("instance-2", "a", 60, 100, "released"),
    ]


def test_a_controller_sees_names_sizes_and_states() -> None:
    # At 2 s the instance is ready, and at 3 s another one is requested.
    tasks = [make_task(0, cores=2, user="eve"), make_task(1, submit=3, user="ann")]
    finish([make_host("a")], tasks, image=SLOW, controllers={"consolidation": choose("Observer")})
    # Name, user, cores, cores that its task uses, host, whether it starts or moves.
    assert Observer.seen[0] == (0, "instance-1", "eve", 2, 0, "a", True, False)
    assert Observer.seen[1:3] == [
        (3, "instance-1", "eve", 2, 2, "a", False, False),
        (3, "instance-2", "ann", 1, 0, "a", True, False),
    ]


def test_a_moving_instance_is_seen_on_both_hosts() -> None:
    tasks = [make_task(0, memory="1 GB", run_time=100), make_task(1, submit=55, memory="1 GB")]
    controllers = {
        "placement": script((50, "migrate", 0, 1), places=True),
        "consolidation": choose("Observer"),
    }
    finish([make_host(memory="8 GB")], tasks, controllers=controllers)
    moving = [(row[1], row[5], row[7]) for row in Observer.seen if row[0] == 55]
    assert sorted(moving) == [
        ("instance-1", "a", True), ("instance-1", "b", True), ("instance-2", "a", False),
    ]  # fmt: skip
    after = [(row[1], row[5], row[7]) for row in Observer.seen if row[0] == 65]
    assert ("instance-1", "b", False) in after


# --- resizing -------------------------------------------------------------------------------------


def test_a_larger_instance_runs_more_tasks() -> None:
    # One core up to 4 s, then two: t1 starts at 4 s, beside t0.
    tasks = [make_task(0), make_task(1)]
    sim = finish([make_host()], tasks, policy=choose("Client", rent={"cores": 1}),
                 controllers={"consolidation": script((4, "resize", 0, 2))})  # fmt: skip
    assert list_times(sim) == [(0, 10), (4, 14)]
    assert list_rentals(sim, "instance", "cores", "start", "end", "reason", "ready") == [
        ("instance-1", 1, 0, 4, "resized", 0),
        ("instance-1", 2, 4, 14, "released", None),
    ]
    figures = tl.metrics.figures(sim.trace())
    # 1 x 4 + 2 x 10 core-seconds, the same from the run and from its table.
    assert figures.rentals is not None
    assert figures.rentals.core_seconds == sim._run.kpis()["instance_core_s"] == 24
    assert figures.rentals.instances == 1


def test_a_smaller_instance_makes_room_on_its_host() -> None:
    # The instance of 4 cores shrinks at 4 s to one; then another one of 3 cores fits.
    tasks = [make_task(0, cores=1), make_task(1, cores=3)]
    types = [{"name": "large", "cores": 4}, {"name": "any", "fits": "task"}]
    scenario = make_scenario(
        [make_host("a")], tasks, types=types,
        policy=script((0, "rent", 0, 0), (0, "rent", 0, "any", 0, 3), (0.5, "place", 0, 1),
                      (5, "place", 1, 2)),
        controllers={"consolidation": script((4, "resize", 0, 1))},
    )  # fmt: skip
    sim = Simulation(scenario, allow_code=True)
    sim.run()
    assert list_times(sim) == [(0.5, 10.5), (5, 15)]
    assert list_rentals(sim, "cores", "start", "reason") == [
        (4, 0, "resized"), (1, 4, None), (3, 4, None),
    ]  # fmt: skip


def test_a_resized_instance_gets_its_share_of_an_overcommitted_host() -> None:
    hosts = [make_host("a", cores=4)]
    tasks = [make_task(i, cores=2, run_time=20) for i in range(3)]
    placing = {"name": "pack-ic", "options": {"overcommit": 2}}
    one = {"placement": placing}
    alone = finish(hosts, tasks, controllers=one)
    # Six of four cores: each task gets 4/3 cores, and takes 30 s.
    assert [end for _, end in list_times(alone)] == pytest.approx([30, 30, 30])
    resized = finish(
        hosts,
        tasks,
        controllers={**one, "consolidation": script((3, "resize", 0, 4), overcommit=2)},
    )
    # 4 of the 40 core-seconds of each are done at 3 s. Then the first instance has 4 of the 8 cores
    # in use, so 2 of the 4 of the host, and its task is as fast as alone: it ends at 3 + 36 / 2 s.
    # The others have 1 core each until then, and 2 each for their last 18 core-seconds.
    assert [end for _, end in list_times(resized)] == pytest.approx([21, 30, 30])


def test_sizes_and_hosts_are_in_the_table_in_order() -> None:
    # Resized at 10 s, moved from 50 to 60 s, resized again at 70 s.
    tasks = [make_task(0, cores=1, memory="1 GB", run_time=100)]
    orders = script((10, "resize", 0, 3), (50, "migrate", 0, 1), (70, "resize", 1, 2), places=True)
    sim = finish([make_host(memory="8 GB")], tasks, controllers={"placement": orders})
    assert list_rentals(sim, "host", "cores", "start", "end", "reason") == [
        ("a", 1, 0, 10, "resized"),
        ("a", 3, 10, 60, "moved"),
        ("b", 3, 60, 70, "resized"),
        ("b", 2, 70, 100, "released"),
    ]
    # 10 + 3 x 60 + 2 x 30
    assert sim._run.kpis()["instance_core_s"] == 10 + 3 * 60 + 2 * 30


def test_the_limit_of_cores_counts_resized_instances() -> None:
    # 2 + 2 of 5 cores; with 3 + 2, no third instance is allowed until one ends.
    limits = {"limits": {"cores": 5}}
    tasks = [make_task(0, cores=2, run_time=30), make_task(1, cores=2, run_time=20),
             make_task(2, submit=10, cores=1)]  # fmt: skip
    sim = finish([make_host(cores=8)], tasks, controllers={"consolidation": script()}, **limits)
    assert list_times(sim)[2] == (10, 20)
    growing = {"consolidation": script((5, "resize", 0, 3))}
    sim = finish([make_host(cores=8)], tasks, controllers=growing, **limits)
    assert list_times(sim)[2] == (20, 30)


# --- refusals -------------------------------------------------------------------------------------

MOVE = "only the controllers of a cloud move instances"
SIZE = "only the controllers of a cloud resize instances"
HOST = "the machine is a host of a cloud: only the controllers of the cloud change its state"
RENT = "only the policy of the scenario rents instances"
GIVE = "only the policy of the scenario gives instances back"
POSITIVE = "an instance needs a positive number of cores"


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (("migrate", 0, 1), MOVE),
        (("resize", 0, 4), SIZE),
        (("set-state", 0, "off"), HOST),
        (("rent", 1), "there is no such cloud"),
        (("rent", 0, 1), "the cloud does not have this type of instance"),
        (("rent", 0, 0, 1), "the cloud does not have this image"),
        (("rent",), POSITIVE),
        (("rent", 0, 0, 0, -1), POSITIVE),
        (("rent", 0, 0, 0, 1, -1.0), "the memory of the instance is not valid"),
        (("release", 0), "the machine is not a rented instance"),
        (("place", 0, 0), "the machine is down or off"),
    ],
)
def test_orders_of_a_client_that_are_refused(order: tuple[Any, ...], reason: str) -> None:
    assert refuse(policy=script((0, *order), tolerant=True)) == [(order[0], reason)]


def test_sizes_of_types_and_limits_are_refused_to_a_client() -> None:
    policy = script((0, "rent", 0, 0, 0, 1), (0, "rent"), (0, "rent"), tolerant=True)
    types = [{"name": "small", "cores": 2}]
    assert refuse(policy=policy, types=types, limits={"instances": 1}) == [
        ("rent", "instances of this type have another size"),
        ("rent", "the cloud allows no more instances"),
    ]
    for limit, what in (({"cores": 3}, "cores"), ({"memory": "3 GB"}, "memory")):
        Scripted.refused.clear()
        policy = script(*[(0, "rent", 0, 0, 0, 2, 2e9)] * 2, tolerant=True)
        assert refuse(policy=policy, limits=limit) == [("rent", f"the cloud allows no more {what}")]


def test_an_instance_with_tasks_is_not_given_back() -> None:
    policy = script((0, "rent", 0, 0, 0, 2), (1, "place", 0, 2), (2, "release", 2), tolerant=True)
    assert refuse(policy=policy) == [("release", "the instance has tasks")]


@pytest.mark.parametrize(
    ("time", "order", "reason"),
    [
        (1, ("rent", 0, 0, 0, 1), RENT),
        (1, ("release", 0), GIVE),
        (1, ("preempt", 0), "a cloud cannot preempt an instance"),
        (1, ("kill", 0), "a cloud refuses an instance only before it has a host"),
        (1, ("migrate", 0, 1), "the instance has not started yet"),
        (9, ("migrate", 0, 0), "it is on this host"),
        (9, ("migrate", 2, 0), "the instance is on no host"),
        (1, ("resize", 0, 4), "the instance has not started yet"),
        (9, ("resize", 0, 0), POSITIVE),
        (9, ("resize", 0, 1), "its tasks use more cores"),
        (9, ("resize", 0, 4.5), "the host has too few free cores"),
        (9, ("resize", 2, 1), "the instance is on no host"),
        (9, ("set-state", 0, "off"), "the machine has instances"),
    ],
)
def test_orders_of_a_provider_that_are_refused(
    time: float, order: tuple[Any, ...], reason: str
) -> None:
    # Two instances on two hosts of 4 cores run from 2 s on; a third one waits.
    tasks = [make_task(i, cores=c, run_time=50) for i, c in enumerate((3, 3, 2))]
    controllers = {"consolidation": script((time, *order), tolerant=True)}
    host = make_host(cores=4, states=STATES, power=POWER)
    finish([host], tasks, image=SLOW, controllers=controllers)
    assert Scripted.refused == [(order[0], reason)]


def test_orders_about_a_moving_instance_are_refused() -> None:
    # The copy of 1 GB lasts from 10 to 20 s.
    tasks = [make_task(0, memory="1 GB", run_time=50)]
    moves = [(10, "migrate", 0, 1), (12, "migrate", 0, 2), (13, "resize", 0, 2)]
    orders = script(*moves, places=True, tolerant=True)
    finish([make_host("a b c", memory="8 GB")], tasks, controllers={"placement": orders})
    assert Scripted.refused == [
        ("migrate", "the instance is moving already"),
        ("resize", "the instance is moving"),
    ]


def test_a_migration_to_a_full_host_and_a_size_beyond_the_limits_are_refused() -> None:
    tasks = [make_task(i, cores=2, memory="6 GB", run_time=50) for i in range(2)]
    orders = [(5, "migrate", 0, 1), (6, "resize", 0, 3), (7, "resize", 1, 4)]
    controllers = {"consolidation": script(*orders, tolerant=True)}
    finish([make_host(memory="8 GB")], tasks, controllers=controllers, limits={"cores": 5})
    assert Scripted.refused == [
        ("migrate", "the host has too little free memory"),
        ("resize", "the cloud allows no more cores"),
    ]


def test_a_refused_order_is_an_error_that_names_the_controller_and_the_instance() -> None:
    tasks = [make_task(0, cores=3, run_time=50)]
    controllers = {"consolidation": script((9, "resize", 0, 9))}
    with pytest.raises(tl.TwinloopError) as caught:
        finish([make_host()], tasks, controllers=controllers)
    assert str(caught.value).endswith(
        "controllers:Scripted of the cloud cloud, at t = 9 s: the policy decided "
        "Resize(instance=0, cores=9) (instance 'instance-1'), but the host has too few free cores"
    )


def test_unknown_names_in_rent_are_errors() -> None:
    for fields, text in (
        (("west",), "unknown cloud 'west': one of cloud"),
        ((0, "huge"), "unknown type of instances 'huge': one of any"),
        ((0, 0, "dos"), "unknown image 'dos': one of slow"),
        ((0, 0, 0, 1, 0, "bob"), "no task of the workload has the user 'bob'"),
    ):
        with pytest.raises(tl.TwinloopError, match=text):
            finish([make_host()], [make_task(0)], image=SLOW, policy=script((0, "rent", *fields)))


# --- permission, copies, many runs ----------------------------------------------------------------


def test_code_of_controllers_needs_permission(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(f"""
platform:
  clusters: [{{hosts: [{{name: pm, cores: 4}}]}}]
  clouds: [{{name: east, controllers: {{machines: "{CODE}Scripted"}}}}]
workload: {{tasks: [{{id: a, run_time: 10}}]}}
policy: one-per-task
""")
    scenario = tl.load(path)
    with pytest.raises(CodeNotAllowed, match="allow_code=True in Python") as caught:
        tl.simulate(scenario)
    assert caught.value.field == "platform.clouds[0].controllers.machines"
    assert tl.simulate(scenario, allow_code=True).tasks["status"].to_list() == ["completed"]


def test_unknown_options_and_classes_of_controllers_are_errors() -> None:
    for choice, text in (
        (choose("Scripted", order=[]), "is not an option of"),
        (choose("Missing"), "Missing"),
        (choose("note_refusal"), "note_refusal"),
    ):
        scenario = make_scenario([make_host()], [make_task(0)], controllers={"placement": choice})
        with pytest.raises(tl.InputError, match=text):
            Simulation(scenario, allow_code=True)


def test_a_controller_in_python_runs_on_no_native_thread() -> None:
    scenario = make_scenario(
        [make_host()], [make_task(0)], controllers={"placement": choose("FirstFit")}
    )
    compiled = CompiledScenario(scenario, allow_code=True)
    assert not compiled.is_native
    with pytest.raises(TypeError, match="a controller in Python cannot run on native threads"):
        compiled.run_many([compiled.values()])
    assert compiled.run()["completed"] == 1


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(1, 30),
        st.integers(1, 4),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=12,
)


def make_tasks(requests: list[tuple[int, int, int, int]]) -> list[dict[str, Any]]:
    return [
        make_task(i, submit, run_time, cores, memory=memory * GB)
        for i, (submit, run_time, cores, memory) in enumerate(requests)
    ]


@examples(12)
@given(REQUESTS, st.integers(1, 3))
def test_first_fit_in_python_equals_the_native_one(requests: Any, hosts: int) -> None:
    names = " ".join("abc"[:hosts])
    described = [make_host(names, memory="6 GB")]
    tables = []
    for placement in ("first-fit", choose("FirstFit")):
        sim = finish(
            described, make_tasks(requests), image=IMAGE, controllers={"placement": placement}
        )
        tables.append((list_times(sim), sim.trace().instances.rows()))
    assert tables[0] == tables[1]


@examples(8)
@given(REQUESTS, st.floats(0, 60))
def test_a_copy_with_controllers_in_python_continues_equally(requests: Any, time: float) -> None:
    orders = [(5, "resize", 0, 2), (20, "migrate", 0, 1), (30, "migrate", 0, 2)]
    scenario = make_scenario(
        [make_host("a b c", memory="6 GB")],
        make_tasks(requests),
        image=IMAGE,
        controllers={
            "placement": choose("FirstFit"),
            "consolidation": script(*orders, tolerant=True),
        },
    )
    sim = Simulation(scenario, allow_code=True)
    sim.run_until(max(time, sim.now))
    other = sim.copy()
    sim.run()
    other.run()
    assert list_times(sim) == list_times(other)
    assert sim.trace().instances.rows() == other.trace().instances.rows()


def test_a_copy_of_a_client_in_python_continues_equally() -> None:
    tasks = [make_task(i, submit=i) for i in range(4)]
    scenario = make_scenario([make_host()], tasks, image=SLOW, policy=choose("Client"))
    for time in (0, 1, 2, 11, 12):
        sim = Simulation(scenario, allow_code=True)
        sim.run_until(time)
        other = sim.copy()
        sim.run()
        other.run()
        # Two cores: t0, t1 at 2 s, t2, t3 at 12 s.
        assert list_times(sim) == list_times(other) == [(2, 12), (2, 12), (12, 22), (12, 22)]


def test_the_hash_of_a_scenario_contains_the_code_of_its_controllers() -> None:
    from twinloop.scenario.identity import Identities

    scenario = make_scenario(
        [make_host()], [make_task(0)], controllers={"placement": choose("FirstFit")}
    )
    hashes = Identities(allow_code=True).identify(scenario)
    assert list(hashes) == ["platform.clouds[0].controllers.placement"]
    assert Identities(allow_code=True).is_random(scenario)


# --- the example ----------------------------------------------------------------------------------


def test_the_draining_example_is_short_and_saves_energy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(__file__).parents[2] / "examples"
    text = (folder / "draining.py").read_text(encoding="utf-8")
    (controller,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    assert controller.end_lineno is not None
    assert controller.end_lineno - controller.lineno + 1 < 25
    monkeypatch.syspath_prepend(str(folder))
    import_module("draining").main()
    # 25 W for each of 300 + 1000 + 3000 core-seconds; 100 W of both hosts for 1000 s, or of one
    # host up to the end of the copy of 1 GB at 110 s, 150 W for 5 s, and 10 W for 885 s.
    assert 25 * 4300 + 2 * 100 * 1000 == 307_500
    assert 25 * 4300 + 100 * 1000 + 100 * 110 + 150 * 5 + 10 * 885 == 228_100
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["none", "0", "migrations", "307,500", "J"],
        ["draining:Drain", "1", "migrations", "228,100", "J"],
    ]
