"""Polls and notices of a running simulation, by hand-computed times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clouds.cases import GB, POWER, STATES, list_times, make_host, make_task, start
from twinloop.description.errors import InputError
from twinloop.engine import Notice, Simulation

#: It waits for an instance that is never requested.
LARGE = make_task(0, cores=100)


def open_cloud(*tasks: dict[str, Any], hosts: str = "a b", **others: Any) -> Simulation:
    """A cloud of hosts of 4 cores, whose instances start at once."""
    host = make_host(hosts, memory=8 * GB, power=POWER)
    return start([host], tasks or (LARGE,), **{"policy": "manual", **others})


def watch(sim: Simulation, *kinds: str) -> list[tuple[Any, ...]]:
    """Return the list of the notices, which grows."""
    seen: list[tuple[Any, ...]] = []
    sim.notify(lambda notice: seen.append(tuple(notice)), kinds)
    return seen


# --- polls ---------------------------------------------------------------------------------------


def test_polls_are_called_in_quiet_periods_and_stop_with_the_run() -> None:
    # The tasks run from 0 s to 10 s and from 50 s to 60 s.
    sim = open_cloud(make_task(0), make_task(1, submit=50), policy="one-per-task")
    times: list[float] = []
    sim.poll(12, times.append)
    sim.run()
    assert times == [12.0, 24.0, 36.0, 48.0, 60.0]
    assert sim.now == 60.0
    sim.run()
    assert len(times) == 5


def test_polls_begin_when_they_are_ordered_and_go_up_to_the_given_time() -> None:
    sim = open_cloud()
    sim.run_until(5)
    times: list[tuple[float, float]] = []
    sim.poll(0.1, lambda time: times.append((time, sim.now)))
    sim.run_until(6)
    # Multiples of the interval, also those that are no binary fractions.
    assert times == [(5 + i * 0.1, 5 + i * 0.1) for i in range(1, 11)]
    sim.run_until(6.05)
    assert len(times) == 10


def test_two_polls_of_one_time_are_called_in_their_order() -> None:
    sim = open_cloud()
    seen: list[str] = []
    sim.poll(3, lambda time: seen.append(f"a{time:g}"))
    sim.poll(2, lambda time: seen.append(f"b{time:g}"))
    sim.run_until(6)
    assert seen == ["b2", "a3", "b4", "a6", "b6"]


def test_steps_stop_at_polls() -> None:
    sim = open_cloud(make_task(0), policy="one-per-task")
    seen: list[float] = []
    sim.poll(4, seen.append)
    stops = []
    while sim.step():
        stops.append(sim.now)
    assert seen == [4.0, 8.0]
    assert [stop for stop in stops if stop > 0] == [4.0, 8.0, 10.0]


def test_an_order_of_a_poll_takes_effect_at_its_time() -> None:
    sim = open_cloud(make_task(0, cores=2))
    sim.poll(7, lambda time: sim.cloud("cloud").request(cores=2) if time == 14 else None)
    sim.run_until(30)
    assert list_times(sim) == [(14.0, 24.0)]


@pytest.mark.parametrize("interval", [0, -1, float("nan"), float("inf"), "1s", None])
def test_an_interval_that_is_none_is_refused(interval: Any) -> None:
    with pytest.raises(InputError, match="interval: must be"):
        open_cloud().poll(interval, print)


# --- notices -------------------------------------------------------------------------------------


def test_notices_of_every_kind() -> None:
    """An instance of 3 cores runs from 0 s to 8 s, another one waits for it; the host fails."""
    sim = open_cloud(hosts="a")
    cloud = sim.cloud("cloud")
    seen = watch(sim, "instance", "machine", "queue", "capacity", "host")
    first, second = cloud.request(cores=3), cloud.request(cores=2)
    sim.run_until(5)
    assert seen == [
        ("instance", first, 0.0, "queued"),
        ("instance", second, 0.0, "queued"),
        ("instance", first, 0.0, "allocated"),
        ("instance", first, 0.0, "startup"),
        ("instance", first, 0.0, "running"),
        ("queue", "cloud", 0.0, 1.0),
        ("capacity", "cloud", 0.0, 1.0),
        ("host", "a", 0.0, 1.0),
    ]
    seen.clear()
    sim.run_until(8)
    cloud.terminate(first)
    sim.run_until(9)
    assert seen == [
        ("instance", first, 8.0, "destroyed"),
        ("host", "a", 8.0, 4.0),
        ("instance", second, 8.0, "allocated"),
        ("instance", second, 8.0, "startup"),
        ("instance", second, 8.0, "running"),
        ("queue", "cloud", 8.0, 0.0),
        ("capacity", "cloud", 8.0, 2.0),
        ("host", "a", 8.0, 2.0),
    ]
    seen.clear()
    sim.fail("a")
    sim.run_until(10)
    assert ("machine", "a", 9.0, "down") in seen
    assert ("instance", second, 9.0, "destroyed") in seen
    assert ("capacity", "cloud", 9.0, 0.0) in seen
    assert ("host", "a", 9.0, 0.0) in seen
    assert all(each[2] == 9.0 for each in seen)
    seen.clear()
    sim.restore("a")
    sim.run_until(11)
    assert sorted(seen) == [
        ("capacity", "cloud", 10.0, 4.0),
        ("host", "a", 10.0, 4.0),
        ("machine", "a", 10.0, "running"),
    ]


def test_states_of_machines_are_noticed_with_their_times() -> None:
    # 200 s on, a task of 10 s, 12 s off.
    host = make_host("a", power=POWER, states=STATES)
    sim = start([host], [make_task(0)], controllers={"machines": "on-demand"})
    seen = watch(sim, "machine", "host")
    sim.run_until(300)
    assert seen == [
        ("machine", "a", 0.0, "switching-on"),
        ("machine", "a", 200.0, "running"),
        ("host", "a", 200.0, 3.0),
        ("machine", "a", 210.0, "switching-off"),
        ("host", "a", 210.0, 0.0),
        ("machine", "a", 222.0, "off"),
    ]


def test_only_the_chosen_kinds_are_noticed() -> None:
    sim = open_cloud(make_task(0, cores=2), policy="one-per-task")
    queue, capacity, hosts = watch(sim, "queue"), watch(sim, "capacity"), watch(sim, "host")
    everything: list[Notice] = []
    sim.notify(everything.append)
    sim.run()
    assert queue == []
    assert capacity == [("capacity", "cloud", 0.0, 6.0), ("capacity", "cloud", 10.0, 8.0)]
    assert hosts == [("host", "a", 0.0, 2.0), ("host", "a", 10.0, 4.0)]
    # The kind host only if it is named.
    assert {each.kind for each in everything} == {"instance", "capacity"}
    with pytest.raises(InputError, match="no kind of notice 'hots'"):
        sim.notify(print, kinds=["hots"])


def test_a_new_observer_does_not_take_notices_from_the_others() -> None:
    sim = open_cloud()
    seen = watch(sim, "instance")
    name = sim.cloud("cloud").request(cores=1)
    later = watch(sim, "instance")
    sim.run_until(1)
    states = ("queued", "allocated", "startup", "running")
    assert seen == [("instance", name, 0.0, state) for state in states]
    assert later == seen[1:]


def test_an_order_of_an_observer_takes_effect_at_the_time_of_the_notice() -> None:
    """When the first instance runs, at 5 s, another one is requested, which takes 5 s, too."""
    sim = open_cloud(image={"name": "base", "boot": {"delay": 5}})
    cloud = sim.cloud("cloud")
    seen: list[Notice] = []

    def observe(notice: Notice) -> None:
        seen.append(notice)
        if notice[1:] == ("instance-1", 5.0, "running"):
            cloud.request(cores=1)

    sim.notify(observe, kinds=["instance"])
    cloud.request(cores=1)
    sim.run_until(20)
    assert [each[2:] for each in seen if each.subject == "instance-2"] == [
        (5.0, "queued"), (5.0, "allocated"), (5.0, "startup"), (10.0, "running"),
    ]  # fmt: skip


# --- errors and copies ---------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["run", "run_until", "step"])
def test_an_error_reaches_the_caller_and_the_run_goes_on(way: str) -> None:
    def advance(sim: Simulation) -> None:
        if way == "step":
            while sim.step():
                pass
        elif way == "run":
            sim.run()
        else:
            sim.run_until(20)

    quiet = open_cloud(make_task(0), policy="one-per-task")
    expected = watch(quiet, "instance", "capacity")
    advance(quiet)
    assert len(expected) == 7

    sim = open_cloud(make_task(0), policy="one-per-task")

    def refuse_allocation(notice: Notice) -> None:
        if notice.value == "allocated":
            raise ValueError("not this one")

    def refuse_first_poll(time: float) -> None:
        if time == 4:
            raise ValueError("not at 4 s")

    sim.notify(refuse_allocation)
    seen = watch(sim, "instance", "capacity")
    times: list[float] = []
    sim.poll(4, refuse_first_poll)
    sim.poll(4, times.append)
    with pytest.raises(ValueError, match="not this one"):
        advance(sim)
    assert (sim.now, len(seen)) == (0.0, 1)
    with pytest.raises(ValueError, match="not at 4 s"):
        advance(sim)
    assert (sim.now, times) == (4.0, [])
    advance(sim)
    # No notice and no poll is lost or repeated.
    assert seen == expected
    assert times[:2] == [4.0, 8.0]
    assert list_times(sim) == [(0.0, 10.0)]


def test_copies_have_neither_pollers_nor_observers() -> None:
    sim = open_cloud(make_task(0), make_task(1, submit=50), policy="one-per-task")
    times: list[float] = []
    sim.poll(4, times.append)
    seen = watch(sim, "instance", "host")
    sim.run_until(20)
    before = (list(times), list(seen))
    copy = sim.copy()
    copy.run()
    assert (times, seen) == before
    assert list_times(copy)[1] == (50.0, 60.0)
    # The original goes on with its own, and is what the copy was.
    own: list[float] = []
    copy.poll(1, own.append)
    sim.run()
    assert times == [4.0 * i for i in range(1, 16)]
    assert seen[-1] == ("host", "a", 60.0, 4.0)
    assert own == []
