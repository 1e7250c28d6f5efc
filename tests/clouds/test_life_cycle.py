"""The life of an instance from its request to its end: times computed by hand, in every state."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.clouds.cases import (
    GB,
    IMAGE,
    MB,
    finish,
    is_clear,
    list_rentals,
    list_times,
    make_host,
    make_task,
    start,
)
from twinloop import metrics
from twinloop.engine import Simulation

#: Contention without effect makes the machines shared resources.
MODES: dict[str, dict[str, Any]] = {
    "timers": {},
    "shared machines": {"contention": {"linear": {"slope": 0.0}}},
}
both_modes = pytest.mark.parametrize("mode", MODES)


def check_tables(sim: Simulation) -> None:
    """Check that states of an instance follow each other, and that transfers are one of them."""
    trace = sim.trace()
    assert trace.instances is not None
    states = trace.instance_states
    for row in trace.instances.iter_rows(named=True):
        name = row["instance"]
        own = [] if states is None else states.filter(instance=name).sort("start").rows(named=True)
        times = [row["requested"], *(each["end"] for each in own)]
        assert [each["start"] for each in own] == times[:-1]
        assert times[-1] == row["end"]
        periods = {each["state"]: (each["start"], each["end"]) for each in own}
        assert len(periods) == len(own)
        moved = trace.transfers.filter(subject=name).select("start", "end").rows()
        expected = periods.get("initial-transfer")
        assert moved == ([] if expected is None else [expected])
        if row["ready"] is not None and row["end"] > row["ready"]:
            assert periods["running"] == (row["ready"], row["end"])


# --- delays ---------------------------------------------------------------------------------------


def test_a_container_runs_its_task_at_once() -> None:
    sim = finish([make_host()], [make_task(0, submit=3)])
    assert list_times(sim) == [(3.0, 13.0)]
    assert list_rentals(sim, "requested", "start", "ready", "end", "reason") == [
        (3.0, 3.0, 3.0, 13.0, "released")
    ]


def test_the_decision_delay_is_before_the_queue() -> None:
    # The second instance waits until the first one is released.
    tasks = [make_task(0, cores=4), make_task(1, cores=4)]
    sim = finish([make_host("a")], tasks, decision_delay="3s")
    assert list_rentals(sim, "requested", "start") == [(0.0, 3.0), (0.0, 13.0)]
    assert sim.trace().instance_states.filter(instance="instance-2")["state"].to_list() == [
        "requested",
        "queued",
        "running",
    ]
    check_tables(sim)


def test_starts_are_apart_by_the_inter_boot_delay() -> None:
    tasks = [make_task(i) for i in range(3)] + [make_task(3, submit=30)]
    sim = finish([make_host()], tasks, inter_boot_delay="6s")
    assert [at for at, _ in list_times(sim)] == [0.0, 6.0, 12.0, 30.0]
    assert list_rentals(sim, "start") == [(0.0,), (0.0,), (0.0,), (30.0,)]
    check_tables(sim)


# --- images ---------------------------------------------------------------------------------------


@both_modes
def test_an_instance_waits_for_its_image_and_its_boot(mode: str) -> None:
    # 0.5 s latency, 1 s transfer, 1 s delay, 4 core-seconds on 2 cores.
    sim = finish(
        [make_host()], [make_task(0, cores=4)], image=IMAGE, latency=0.5, model=MODES[mode]
    )
    assert list_times(sim) == [(pytest.approx(4.5), pytest.approx(14.5))]
    states = sim.trace().instance_states
    assert states["state"].to_list() == ["initial-transfer", "startup", "running"]
    assert states["end"].to_list() == pytest.approx([1.5, 4.5, 14.5])
    check_tables(sim)


@both_modes
def test_two_images_at_once_share_the_port_of_the_store(mode: str) -> None:
    tasks = [make_task(0, cores=4), make_task(1, cores=4)]
    sim = finish([make_host()], tasks, image=IMAGE, model=MODES[mode])
    assert sim.transfers["end"].to_list() == pytest.approx([2.0, 2.0])
    assert [at for at, _ in list_times(sim)] == pytest.approx([5.0, 5.0])


def test_a_transfer_is_slower_while_another_one_shares_the_port() -> None:
    # The first has 50 MB left at 0.5 s, and moves them at half the bandwidth.
    tasks = [make_task(0, cores=4), make_task(1, submit=0.5, cores=4)]
    sim = finish([make_host()], tasks, image=IMAGE)
    assert sim.transfers.sort("start")["end"].to_list() == pytest.approx([1.5, 2.0])


def test_a_transfer_holds_no_bandwidth_during_its_latency() -> None:
    # The first moves from 0.25 s to 1.25 s, the second is registered at 1 s.
    tasks = [make_task(0, cores=4), make_task(1, submit=1, cores=4)]
    sim = finish([make_host()], tasks, image=IMAGE, latency=0.25)
    assert sim.transfers.sort("start")["end"].to_list() == pytest.approx([1.25, 2.25])


@pytest.mark.parametrize(
    ("caching", "starts", "transfers"),
    [("none", [4.0, 24.0], 2), ("first-use", [4.0, 23.0], 1), ("pre-staged", [3.0, 23.0], 0)],
)
def test_an_image_in_the_store_of_the_host_is_not_transferred(
    caching: str, starts: list[float], transfers: int
) -> None:
    host = make_host("a", store={"capacity": "1 GB"})
    tasks = [make_task(0, cores=4), make_task(1, submit=20, cores=4)]
    sim = finish([host], tasks, image={**IMAGE, "caching": caching})
    assert [at for at, _ in list_times(sim)] == pytest.approx(starts)
    assert sim.transfers.height == transfers


def test_an_image_without_space_in_the_store_of_the_host_is_copied_and_not_kept() -> None:
    # The store has space for one copy. The second instance starts while the first copy is made:
    # both have 50 MB/s from 0.5 s to 1.5 s. The boot takes 1 + 4 s on one core.
    host = make_host("a", store={"capacity": "150 MB"})
    tasks = [make_task(0), make_task(1, submit=0.5), make_task(2, submit=20)]
    sim = finish([host], tasks, image={**IMAGE, "caching": "first-use"})
    assert [at for at, _ in list_times(sim)] == pytest.approx([6.5, 7.0, 25.0])
    assert sim.transfers["end"].to_list() == pytest.approx([1.5, 2.0])
    assert is_clear(sim)


def test_the_first_use_of_an_image_is_one_of_each_host() -> None:
    host = make_host("a b", store={"capacity": "1 GB"})
    tasks = [make_task(i, submit=20 * (i // 2), cores=4) for i in range(4)]
    sim = finish([host], tasks, image={**IMAGE, "caching": "first-use"})
    hosts = dict(list_rentals(sim, "instance", "host"))
    assert sorted(hosts[name] for name in sim.transfers["subject"]) == ["a", "b"]
    assert [at for at, _ in list_times(sim)] == pytest.approx([5.0, 5.0, 23.0, 23.0])


@both_modes
@pytest.mark.parametrize(
    ("cores", "limit", "speed", "seconds"),
    [
        (4, 2, 1.0, 2.0),  # 4 core-seconds on 2 cores
        (1, 2, 1.0, 4.0),  # the instance has only one
        (4, 8, 1.0, 1.0),
        (4, 0.5, 1.0, 8.0),
        (4, 2, 2.0, 1.0),  # cores of twice the speed
        (1, 2, 0.5, 8.0),
    ],
)
def test_the_work_of_a_boot_is_limited_by_its_limit_and_the_cores_of_the_instance(
    mode: str, cores: float, limit: float, speed: float, seconds: float
) -> None:
    image = {"name": "base", "boot": {"delay": 1, "work": 4, "limit": limit}}
    hosts = [make_host("a", speed=speed)]
    sim = finish(hosts, [make_task(0, cores=cores)], image=image, model=MODES[mode])
    assert list_times(sim) == [
        (pytest.approx(1 + seconds), pytest.approx(1 + seconds + 10 / speed))
    ]


# --- clients --------------------------------------------------------------------------------------


def test_one_instance_runs_all_tasks_in_the_order_of_their_submission() -> None:
    tasks = [
        make_task(0),
        make_task(1, run_time=5),
        make_task(2, run_time=5, cores=2),  # blocks the next one
        make_task(3, run_time=5),
        make_task(4, submit=100),
    ]
    types = [{"name": "small", "cores": 2}]
    image = {"name": "base", "boot": {"delay": 3}}
    sim = finish([make_host("a")], tasks, policy="one-instance", types=types, image=image)
    assert list_times(sim) == [(3.0, 13.0), (3.0, 8.0), (13.0, 18.0), (18.0, 23.0), (103.0, 113.0)]
    assert list_rentals(sim, "cores", "requested", "end", "reason") == [
        (2.0, 0.0, 23.0, "released"),
        (2.0, 100.0, 113.0, "released"),
    ]


@pytest.mark.parametrize("limits", [{"instances": 2}, {"cores": 2}, {"memory": "2 GB"}])
def test_tasks_beyond_the_limits_of_the_cloud_wait_for_the_end_of_others(
    limits: dict[str, Any],
) -> None:
    tasks = [make_task(i, run_time=10 + i, memory=GB) for i in range(4)]
    sim = finish([make_host(memory="8 GB")], tasks, limits=limits)
    assert list_times(sim) == [(0.0, 10.0), (0.0, 11.0), (10.0, 22.0), (11.0, 24.0)]
    assert [at for (at,) in list_rentals(sim, "requested")] == [0.0, 0.0, 10.0, 11.0]


@pytest.mark.parametrize("wanted", [{"cores": 5}, {"memory": 9 * GB}])
def test_a_task_that_fits_on_no_host_is_rejected_and_rents_nothing(wanted: dict[str, Any]) -> None:
    sim = finish([make_host(memory="8 GB")], [make_task(0, **wanted), make_task(1)])
    assert sim.tasks["status"].to_list() == ["rejected", "completed"]
    assert len(list_rentals(sim, "instance")) == 1


@pytest.mark.parametrize("limits", [{"cores": 1}, {"memory": "1 GB"}])
def test_tasks_whose_instance_is_beyond_the_limits_of_the_cloud_are_rejected(
    limits: dict[str, Any],
) -> None:
    tasks = [make_task(0, cores=2, memory=2 * GB), make_task(1, memory=GB)]
    sim = finish([make_host(memory="8 GB")], tasks, limits=limits)
    assert sim.tasks["status"].to_list() == ["rejected", "completed"]


@pytest.mark.parametrize(
    ("types", "why"),
    [
        (
            [{"name": "small", "cores": 1}],
            "they do not fit on an instance of type 'small' of cloud 'cloud'",
        ),
        (
            [{"name": "own", "fits": "task"}],
            "an instance of type 'own' for them is larger than the hosts or the limits of cloud "
            "'cloud' allow",
        ),
    ],
)
def test_rejected_tasks_are_noted_with_the_type_and_the_cloud(
    types: list[dict[str, Any]], why: str
) -> None:
    tasks = [make_task(i, cores=5) for i in range(4)]
    sim = finish([make_host()], [*tasks, make_task(4)], types=types)
    first = ", ".join(sim.tasks["id"][:3])
    assert [str(each) for each in sim.trace().manifest.cleaned] == [
        f"noticed 4: tasks rejected: {why} ({first}, ...)"
    ]


def test_a_task_that_is_killed_after_its_instance_was_lost_ended_with_its_last_execution() -> None:
    refusing = {"placement": {"name": "first-fit", "options": {"queue": "refuse"}}}
    sim = start([make_host("a")], [make_task(0, run_time=50)], decision_delay=10,
                controllers=refusing)  # fmt: skip
    sim.run_until(30)
    sim.fail("a")
    sim.run()
    # It ran from 10 s to 30 s; at 40 s, its second instance is refused.
    assert sim.tasks["end"].to_list() == [40.0]
    expected = {"makespan_s": 30.0, "turnaround_mean_s": 30.0, "slowdown_mean": 1.5}
    trace = sim.trace()
    assert trace.tasks["run_time"].to_list() == [20.0]
    for figures in (sim.kpis(), metrics.figures(trace).to_dict()):
        assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_a_task_whose_instance_is_refused_is_killed() -> None:
    tasks = [make_task(0, cores=3), make_task(1, cores=2), make_task(2, cores=1)]
    placement = {"name": "first-fit", "options": {"queue": "refuse"}}
    sim = finish([make_host("a")], tasks, controllers={"placement": placement})
    assert sim.tasks["status"].to_list() == ["completed", "killed", "completed"]
    assert list_rentals(sim, "reason", "start", "end") == [
        ("released", 0.0, 10.0),
        ("refused", None, 0.0),
        ("released", 0.0, 10.0),
    ]
    check_tables(sim)


# --- failures -------------------------------------------------------------------------------------

#: A time in each state of the second instance, and whether a failure of its host ends it then. It
#: is placed at 1 s and starts 2 s after the first one; see `start_two`.
STATES = {
    "requested": (0.5, False),
    "allocated": (2.0, True),
    "latency": (3.2, True),
    "initial-transfer": (4.0, True),
    "delay of the boot": (5.0, True),
    "work of the boot": (6.5, True),
    "running": (10.0, True),
}
#: Latency 0.5 s, transfer 1 s, boot 1 s + 2 s.
START_UP = 4.5


def start_two(mode: str) -> Simulation:
    """Two tasks of the size of a host, and later two others."""
    tasks = [make_task(i, cores=4, memory=8 * GB) for i in range(2)]
    later = [make_task(i, submit=100, cores=4, memory=8 * GB) for i in range(2, 4)]
    return start(
        [make_host("a b", memory="8 GB", store={"capacity": "1 GB"})],
        tasks + later,
        image=IMAGE,
        latency=0.5,
        model=MODES[mode],
        decision_delay="1s",
        inter_boot_delay="2s",
    )


@both_modes
@pytest.mark.parametrize("state", STATES)
def test_after_a_failure_of_its_host_a_task_runs_on_a_new_instance(state: str, mode: str) -> None:
    time, is_lost = STATES[state]
    sim = start_two(mode)
    sim.run_until(time)
    twin = sim.copy()
    sim.fail("b")
    sim.run_until(time + 0.25)
    sim.restore("b")
    sim.run()
    # Its first instance is placed at 1 s and starts at 3 s. The second one is placed 1 s after the
    # failure, and starts 2 s after the first one or later.
    begin = max(time + 1, 5.0) if is_lost else 3.0
    first = 1 + START_UP
    expected = [first + 10, begin + START_UP + 10, 101 + START_UP + 10, 103 + START_UP + 10]
    assert sim.tasks["end"].to_list() == pytest.approx(expected)
    assert sim.tasks["status"].unique().to_list() == ["completed"]
    reasons = [reason for (reason,) in list_rentals(sim, "reason")]
    assert reasons.count("lost") == is_lost
    assert reasons.count("released") == 4
    assert is_clear(sim)
    check_tables(sim)
    cancelled = sim.transfers.filter(pl.col("reason") == "cancelled")
    moved = {"latency": [0.0], "initial-transfer": [50 * MB]}.get(state, [])
    assert cancelled["bytes"].to_list() == pytest.approx(moved)
    # The copy had no failure.
    twin.run()
    assert twin.tasks["end"].to_list() == pytest.approx([first + 10, 17.5, *expected[2:]])
    assert is_clear(twin)
    check_tables(twin)


@both_modes
def test_a_queued_instance_waits_for_the_repair_of_the_host(mode: str) -> None:
    sim = start([make_host("a")], [make_task(0, cores=4), make_task(1, cores=4)], model=MODES[mode])
    sim.run_until(4.0)
    sim.fail("a")
    sim.run_until(20.0)
    sim.restore("a")
    sim.run()
    # The instance of the second task is in the queue since 0 s, the new one of the first since 4 s.
    assert sim.tasks["end"].to_list() == pytest.approx([40.0, 30.0])
    assert list_rentals(sim, "requested", "start", "reason") == [
        (0.0, 0.0, "lost"),
        (0.0, 20.0, "released"),
        (4.0, 30.0, "released"),
    ]
    check_tables(sim)


@both_modes
def test_all_tasks_of_one_instance_run_again(mode: str) -> None:
    sim = start(
        [make_host("a b")],
        [make_task(i) for i in range(3)],
        policy="one-instance",
        types=[{"name": "large", "cores": 4}],
        model=MODES[mode],
    )
    sim.run_until(4.0)
    sim.fail("a")
    sim.run()
    assert sim.tasks["end"].to_list() == pytest.approx([14.0] * 3)
    assert list_rentals(sim, "host", "end", "reason") == [
        ("a", 4.0, "lost"),
        ("b", 14.0, "released"),
    ]


def test_a_failure_during_the_first_use_of_an_image_leaves_nothing_in_the_store() -> None:
    host = make_host("a", store={"capacity": "1 GB"})
    sim = start([host], [make_task(0, cores=4)], image={**IMAGE, "caching": "first-use"})
    sim.run_until(0.5)
    assert sim._run.store_use()["promised"].max() == 100 * MB
    sim.fail("a")
    assert is_clear(sim)
    sim.restore("a")
    sim.run()
    # The image is transferred again: 0.5 + 1 + 3.
    assert list_times(sim) == [(pytest.approx(4.5), pytest.approx(14.5))]
    assert is_clear(sim)
    check_tables(sim)
