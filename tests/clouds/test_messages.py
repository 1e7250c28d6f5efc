"""Requests and answers as messages over the network: times computed by hand, and laws."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import (
    GB,
    IDLE,
    IMAGE,
    MAX,
    MB,
    PORTS,
    POWER,
    is_clear,
    list_rentals,
    list_times,
    make_host,
    make_scenario,
    make_task,
)
from tests.clouds.test_laws import CLOUDS, CORES, RandomCloud
from tests.clouds.test_life_cycle import MODES, both_modes
from tests.clouds.test_migration import SPREAD, TASKS, make_hosts
from tests.examples import examples
from twinloop.description import InputError
from twinloop.engine import CompiledScenario, Simulation
from twinloop.engine.rental_tables import STATES as INSTANCE_STATES
from twinloop.scenario import Scenario

#: The controller is at the node of the images: its answers share the port with them.
MESSAGES = {"client": "office", "controller": "images"}


def describe(
    *args: Any, latency: float = 0.0, size: float = 0.0, reply: float | None = 0.0, **others: Any
) -> Scenario:
    """Describe a cloud whose messages have these sizes (bytes), between an office and a store."""
    return make_scenario(*args, **others).replace(
        **{
            "platform.stores": [{"name": "images", "capacity": "1 TB", "ports": PORTS}],
            "platform.network": {"latency": latency, "switches": ["office"]},
            "platform.clouds[0].messages": {**MESSAGES, "size": size, "reply": reply},
        }
    )


def start(*args: Any, **others: Any) -> Simulation:
    return Simulation(describe(*args, **others))


def finish(*args: Any, **others: Any) -> Simulation:
    sim = start(*args, **others)
    sim.run()
    assert is_clear(sim)
    return sim


def list_messages(sim: Simulation, *columns: str) -> list[Any]:
    return sim.transfers.filter(kind="message").select(*columns).rows()


# --- times ----------------------------------------------------------------------------------------


@both_modes
def test_a_request_and_an_answer_take_the_latency_and_the_time_of_their_bytes(mode: str) -> None:
    # Request 0.5 + 0.1 s, image 0.5 + 1 s, boot 1 + 2 s, answer 0.5 + 0.2 s, end 0.5 + 0.1 s.
    sim = finish(
        [make_host()],
        [make_task(0, cores=4)],
        image=IMAGE,
        latency=0.5,
        size=10 * MB,
        reply=20 * MB,
        model=MODES[mode],
    )
    assert list_times(sim) == [(pytest.approx(5.8), pytest.approx(15.8))]
    (rental,) = list_rentals(sim, "requested", "start", "ready", "end")
    assert rental == pytest.approx((0.0, 0.6, 5.1, 16.4))
    states = sim.trace().instance_states
    assert states["state"].to_list() == ["requested", "initial-transfer", "startup", "running"]
    assert states["end"].to_list() == pytest.approx([0.6, 2.1, 5.1, 16.4])
    rows = list_messages(sim, "subject", "from", "to", "bytes", "reason")
    there = ("instance-1", "office", "images", 10 * MB, "completed")
    assert rows == [there, ("instance-1", "images", "office", 20 * MB, "completed"), there]
    times = [time for row in list_messages(sim, "start", "end") for time in row]
    assert times == pytest.approx([0.0, 0.6, 5.1, 5.8, 15.8, 16.4])
    assert sim.now == pytest.approx(16.4)


def test_the_decision_delay_begins_when_the_request_has_arrived() -> None:
    sim = finish([make_host()], [make_task(0)], latency=1.0, decision_delay="3s")
    assert list_rentals(sim, "start", "ready") == [(4.0, 4.0)]
    assert list_times(sim) == [(5.0, 15.0)]


def test_an_answer_shares_the_port_with_an_image() -> None:
    # The first instance is ready at 4 s. At that time the second has 50 MB of its image left; image
    # and answer have 50 MB/s each until 5 s, then the answer has 50 MB left.
    tasks = [make_task(0, cores=4), make_task(1, submit=3.5, cores=4)]
    sim = finish([make_host()], tasks, image=IMAGE, reply=100 * MB)
    images = sim.transfers.filter(kind="image")["end"].to_list()
    assert images == pytest.approx([1.0, 5.0])
    answers = sim.transfers.filter(pl.col("from") == "images", kind="message")["end"]
    assert answers.to_list() == pytest.approx([5.5, 9.0])
    assert [at for at, _ in list_times(sim)] == pytest.approx([5.5, 9.0])


def test_an_instance_has_its_host_until_the_request_for_its_end_arrives() -> None:
    tasks = [make_task(0, cores=4), make_task(1, cores=4)]
    for begin, prices in (("request", [13.0, 25.0]), ("start", [12.0, 12.0])):
        sim = finish(
            [make_host("a", power=POWER)],
            tasks,
            latency=1.0,
            billing={"unit": "1s", "price": 1.0, "from": begin},
        )
        assert list_rentals(sim, "requested", "start", "ready", "end") == [
            (0.0, 1.0, 1.0, 13.0),
            (0.0, 13.0, 13.0, 25.0),
        ]
        assert list_times(sim) == [(2.0, 12.0), (14.0, 24.0)]
        assert [price for (price,) in list_rentals(sim, "price")] == pytest.approx(prices)
        assert sim.kpis()["bill"] == pytest.approx(sum(prices))
        # The run ends with the last message.
        assert sim.now == 25.0
        energy = sim.machines["energy"].sum()
        assert energy == pytest.approx(IDLE * 25 + (MAX - IDLE) * 20)


def test_answers_without_messages_take_no_time() -> None:
    sim = finish([make_host()], [make_task(0)], latency=1.0, reply=None)
    assert list_times(sim) == [(1.0, 11.0)]
    assert list_rentals(sim, "ready", "end") == [(1.0, 12.0)]
    assert list_messages(sim, "start", "end") == [(0.0, 1.0), (11.0, 12.0)]


@pytest.mark.parametrize("size", [0.0, 200 * MB])
def test_sizes_are_values_of_a_run(size: float) -> None:
    compiled = CompiledScenario(describe([make_host()], [make_task(0)], size=100 * MB))
    figures = compiled.run({"platform.clouds[0].messages.size": size})
    assert figures["wait_mean_s"] == pytest.approx(size / (100 * MB))


def test_limits_count_an_instance_until_its_end() -> None:
    tasks = [make_task(0), make_task(1)]
    sim = finish([make_host()], tasks, latency=1.0, limits={"instances": 1})
    assert list_rentals(sim, "requested", "end") == [(0.0, 13.0), (13.0, 26.0)]


def test_one_instance_takes_no_task_after_it_was_given_back() -> None:
    # It is given back at 12 s and ends at 13 s; the second task needs another one.
    sim = finish(
        [make_host("a")],
        [make_task(0), make_task(1, submit=12.5)],
        latency=1.0,
        policy="one-instance",
        types=[{"name": "large", "cores": 4}],
    )
    assert list_times(sim) == [(2.0, 12.0), (15.0, 25.0)]
    assert list_rentals(sim, "requested", "end") == [(0.0, 13.0), (13.0, 26.0)]


def test_a_refusal_is_known_when_the_answer_arrives() -> None:
    tasks = [make_task(0, cores=4), make_task(1, cores=4)]
    placement = {"name": "first-fit", "options": {"queue": "refuse"}}
    sim = finish([make_host("a")], tasks, latency=1.0, controllers={"placement": placement})
    assert sim.tasks["status"].to_list() == ["completed", "killed"]
    assert sim.tasks["end"].to_list() == [12.0, 2.0]
    assert list_rentals(sim, "end", "reason") == [(13.0, "released"), (1.0, "refused")]
    # Request and answer of the refused one.
    assert len(list_messages(sim, "start")) == 3 + 2


def test_an_answer_during_the_stop_of_a_migration_opens_the_instance_after_it() -> None:
    # Two answers of 3.25 GB arrive at 65 s; the second instance is stopped from 60 to 70 s.
    sim = finish(
        make_hosts(), TASKS, reply=3.25 * GB, controllers=SPREAD, migration={"mode": "cold"}
    )
    assert [at for at, _ in list_times(sim)] == pytest.approx([65.0, 70.0])
    (moved,) = sim.transfers.filter(kind="migration").select("start", "end").rows()
    assert moved == pytest.approx((60.0, 70.0))


def test_files_without_a_store_are_not_transferred() -> None:
    scenario = make_scenario([make_host()], [make_task(0)]).replace(
        **{
            "workload": {
                "tasks": [make_task(0, reads=["data"])],
                "files": [{"name": "data", "size": "1 GB"}],
            },
            "platform.clouds[0].messages": {"client": "a", "controller": "b", "size": "100 MB"},
        }
    )
    sim = Simulation(scenario)
    sim.run()
    # 100 MB of request at 100 MB/s, and 1 kB of answer.
    assert list_times(sim) == [(pytest.approx(1.00001), pytest.approx(11.00001))]


# --- ends in every state --------------------------------------------------------------------------

#: Request 0.5 s, decision 1 s, latency 0.5 s and image 1 s, boot 3 s: ready at 6 s, answer 0.5 s.
STATES = {
    "request": 0.25,
    "decision": 1.0,
    "latency": 1.75,
    "image": 2.5,
    "delay of the boot": 3.5,
    "work of the boot": 5.0,
    "answer": 6.25,
    "running": 8.0,
    "end": 16.75,
}
READY, START = 6.0, 6.5


def start_one(mode: str) -> Simulation:
    """A task of the size of the host, and later another one."""
    tasks = [make_task(0, cores=4), make_task(1, submit=100, cores=4)]
    return start(
        [make_host("a", memory="8 GB", store={"capacity": "1 GB"})],
        tasks,
        image=IMAGE,
        latency=0.5,
        decision_delay="1s",
        model=MODES[mode],
    )


@both_modes
@pytest.mark.parametrize("state", STATES)
def test_an_instance_that_is_given_back_in_any_state_leaves_nothing(state: str, mode: str) -> None:
    time = STATES[state]
    sim = start_one(mode)
    sim.run_until(time)
    # A new client gives back the instance, and requests another one for a task that waits.
    other = sim.copy(policy="one-per-task")
    other.run()
    ends = other.tasks["end"].to_list()
    first = other.trace().instances.rows(named=True)[0]
    if time < START:
        assert first["end"] == time + 0.5
        assert ends == pytest.approx([time + START + 10, 100 + START + 10])
    else:
        # The task runs on it, or has ended on it.
        assert first["end"] == 17.0
        assert ends == pytest.approx([START + 10, 100 + START + 10])
    assert is_clear(other)
    assert other.trace().instances["reason"].unique().to_list() == ["released"]
    # The original has not changed.
    sim.run()
    assert list_rentals(sim, "ready", "end") == [(READY, 17.0), (100 + READY, 117.0)]
    assert is_clear(sim)


@both_modes
@pytest.mark.parametrize("state", STATES)
def test_a_loss_in_any_state_leaves_nothing(state: str, mode: str) -> None:
    time = STATES[state]
    sim = start_one(mode)
    sim.run_until(time)
    sim.fail("a")
    sim.run_until(time + 0.1)
    sim.restore("a")
    sim.run()
    is_lost = time > 1.5
    (first, *_) = sim.trace().instances.rows(named=True)
    assert first["reason"] == ("lost" if is_lost else "released")
    if is_lost:
        assert first["end"] == time
    # A task that ran waits from the loss on; another one gets a new instance after the answer.
    begin = 0.0 if not is_lost else time if time >= START else time + 0.5
    end = begin + START + 10 if time < 16.5 else 16.5
    assert sim.tasks["end"].to_list() == pytest.approx([end, 100 + START + 10])
    assert is_clear(sim)


# --- orders of the service ------------------------------------------------------------------------


def test_a_reboot_takes_effect_when_its_message_arrives() -> None:
    # The request arrives at 0.5 s; image 0.5 + 1 s, boot 1 + 2 s, answer 0.5 s.
    sim = start(
        [make_host("a")], [make_task(0, run_time=20, cores=2)], image=IMAGE, latency=0.5,
        policy="manual",
    )  # fmt: skip
    cloud = sim.cloud("cloud")
    name = cloud.request(cores=2)
    sim.run_until(7.5)
    assert sim.tasks["start"].to_list() == [5.5]
    cloud.reboot(name)
    cloud.ask(name)
    sim.run_until(7.75)
    assert (cloud.describe(name).state, sim.running) == ("running", ["t0"])
    # It arrives at 8 s; the boot from the disk of the host takes 3 s, the answer 0.5 s.
    sim.run_until(8.0)
    assert (cloud.describe(name).state, sim.running) == ("startup", [])
    sim.run()
    trace = sim.trace()
    assert trace.placements.select("start", "end").rows() == [(5.5, 8.0), (11.5, 31.5)]
    states = trace.instance_states.select("state", "start", "end").rows()
    assert states[2:] == [
        ("startup", 2.0, 5.0), ("running", 5.0, 8.0), ("startup", 8.0, 11.0),
        ("running", 11.0, None),
    ]  # fmt: skip
    assert sim.transfers.filter(kind="image").height == 1
    assert cloud.answers.rows() == [(name, "startup", 7.5, 8.0, 8.5)]
    assert is_clear(sim)


# --- descriptions ---------------------------------------------------------------------------------


def list_descriptions(sim: Simulation) -> list[tuple[Any, ...]]:
    columns = sim._run.descriptions()
    return list(
        zip(*(columns[name].tolist() for name in ("rental", "state", "received")), strict=True)
    )


def test_a_description_is_the_state_when_the_question_reaches_the_controller() -> None:
    requested, startup, running, destroyed = map(
        INSTANCE_STATES.index, ("requested", "startup", "running", "destroyed")
    )
    sim = start_one("timers")
    for time in (0.25, 3.0, 5.75, 16.75, 30.0):
        sim.run_until(time)
        sim._run.describe_instance(0, 0)
    sim.run()
    assert list_descriptions(sim) == [
        (0, requested, 1.25),
        (0, startup, 4.0),
        (0, running, 6.75),
        (0, destroyed, 17.75),
        (0, destroyed, 31.0),
    ]
    assert is_clear(sim)


def test_a_description_is_immediate_without_messages() -> None:
    sim = Simulation(make_scenario([make_host()], [make_task(0)]))
    sim.run_until(4.0)
    sim._run.describe_instance(0, 0)
    assert list_descriptions(sim) == [(0, 5, 4.0)]
    with pytest.raises(IndexError, match="no such instance"):
        sim._run.describe_instance(0, 1)
    with pytest.raises(IndexError, match="no such cloud"):
        sim._run.describe_instance(1, 0)


# --- laws -----------------------------------------------------------------------------------------

TIMES = st.integers(0, 40).map(lambda quarters: quarters / 4)


@examples(8)
@given(
    tasks=st.lists(st.tuples(TIMES, TIMES.map(lambda t: t + 0.25)), min_size=1, max_size=6),
    latency=st.sampled_from([0.0, 0.25, 1.0, 7.5]),
    size=st.sampled_from([0, 300]),
    cloud=st.fixed_dictionaries(
        {}, optional={"decision_delay": st.just("1s"), "inter_boot_delay": st.just("2s")}
    ),
    model=st.sampled_from([{}, {"decide": "event"}, MODES["shared machines"]]),
)
def test_latency_alone_shifts_instances_by_one_and_tasks_by_two_of_it(
    tasks: list[tuple[float, float]],
    latency: float,
    size: int,
    cloud: dict[str, Any],
    model: dict[str, Any],
) -> None:
    image = {**IMAGE, "size": f"{size} MB"} if size else {**IMAGE, "size": 0, "store": None}
    hosts = [make_host(" ".join(f"h{i}" for i in range(len(tasks))))]
    rows = [make_task(i, submit, run_time, 4) for i, (submit, run_time) in enumerate(tasks)]
    scenario = describe(hosts, rows, image=image, latency=latency, model=model, **cloud)
    found, plain = (
        Simulation(each)
        for each in (scenario, scenario.replace(**{"platform.clouds[0].messages": None}))
    )
    found.run()
    plain.run()

    def add(times: pl.Series, shift: float) -> Any:
        return pytest.approx((times + shift).to_list())

    ours, others = found.trace().instances, plain.trace().instances
    assert ours["requested"].to_list() == others["requested"].to_list()
    assert ours["ready"].to_list() == add(others["ready"], latency)
    assert found.tasks["start"].to_list() == add(plain.tasks["start"], 2 * latency)
    assert ours["end"].to_list() == add(others["end"], 3 * latency)
    assert is_clear(found)


@examples(8)
@given(cloud=CLOUDS, sizes=st.tuples(*[st.sampled_from([0, 1, 100 * MB])] * 2))
def test_no_host_is_exceeded_and_every_message_arrives(
    cloud: RandomCloud, sizes: tuple[float, float]
) -> None:
    ends = {"client": "h0", "controller": f"h{len(cloud.speeds) - 1}"}
    sim = cloud.run(messages={**ends, "size": sizes[0], "reply": sizes[1]})
    assert is_clear(sim)
    assert sim.tasks["status"].is_in(["completed", "killed", "rejected"]).all()
    trace = sim.trace()
    if trace.instances is None:
        return
    messages = trace.transfers.filter(kind="message")
    for row in trace.instances.iter_rows(named=True):
        own = messages.filter(subject=row["instance"])
        # run and its answer, and for an instance that was used its end
        assert own.height == {"refused": 2, "released": 3}[row["reason"]]
        if row["reason"] == "released":
            (begin,) = trace.placements.filter(machine=row["instance"])["start"]
            assert begin >= row["ready"]
    for at, host in trace.instances.select("start", "host").drop_nulls().rows():
        there = pl.col("host") == host, pl.col("start") <= at, pl.col("end") > at
        assert trace.instances.filter(*there)["cores"].sum() <= CORES


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("messages", "network", "message"),
    [
        ({"client": "ofice", "controller": "images"}, {}, "unknown node 'ofice'"),
        ({"client": "office", "controller": "rack"}, {}, "unknown node 'rack'"),
        (
            {"client": "office", "controller": "images"},
            {"links": [{"between": ["rack", "images"]}]},
            "no links lead from 'office' to 'images'",
        ),
        ({"client": "office", "controller": "images", "size": -1}, {}, "size"),
    ],
)
def test_nodes_of_messages_exist_and_are_connected(
    messages: dict[str, Any], network: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        make_scenario([make_host()], [make_task(0)]).replace(
            **{
                "platform.stores": [{"name": "images"}],
                "platform.network": {"switches": ["office"], **network},
                "platform.clouds[0].messages": messages,
            }
        )
    assert "clouds[0].messages" in str(error.value)
