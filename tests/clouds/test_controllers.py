"""The controllers of a cloud: machines on demand by hand, queues and placements by brute force."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import (
    GB,
    IDLE,
    MAX,
    OFF,
    ON,
    POWER,
    SECONDS_OFF,
    SECONDS_ON,
    STATES,
    STOP,
    finish,
    list_rentals,
    list_times,
    make_host,
    make_task,
    start,
)
from tests.examples import examples

# --- machines on demand ---------------------------------------------------------------------------

HOSTS = [make_host("a b", power=POWER, states=STATES)]
ONE = {"machines": "on-demand"}
NEEDED = {"machines": {"name": "on-demand", "options": {"starts": "needed"}}}
#: Energy of switching a machine on, and of switching it off (J).
STARTS, STOPS = SECONDS_ON * ON, SECONDS_OFF * STOP


def test_one_machine_at_a_time_is_switched_on() -> None:
    tasks = [make_task(i, run_time=300, cores=4) for i in range(2)]
    sim = start(HOSTS, tasks, controllers=ONE)
    sim.run_until(712.0)
    # The second machine is switched on when the first one runs, and the second task waits.
    assert list_times(sim) == [(200.0, 500.0), (400.0, 700.0)]
    energy = sim._run.energy().tolist()[:2]
    assert energy[0] == pytest.approx(STARTS + 300 * MAX + STOPS + 200 * OFF)
    assert energy[1] == pytest.approx(200 * OFF + STARTS + 300 * MAX + STOPS)


def test_a_machine_that_is_not_needed_any_more_is_switched_off_when_it_is_on() -> None:
    # The second task runs on the first machine at 300 s; the second machine is on at 400 s.
    tasks = [make_task(i, run_time=100, cores=4) for i in range(2)]
    sim = start(HOSTS, tasks, controllers=ONE)
    sim.run_until(412.0)
    assert list_times(sim) == [(200.0, 300.0), (300.0, 400.0)]
    energy = sim._run.energy().tolist()[:2]
    assert energy[0] == pytest.approx(STARTS + 200 * MAX + STOPS)
    assert energy[1] == pytest.approx(200 * OFF + STARTS + STOPS)
    assert sim._run.machine_states()[:2] == ["off", "off"]


def test_a_half_used_machine_has_half_of_its_variable_power() -> None:
    sim = start(HOSTS, [make_task(0, run_time=100, cores=2)], controllers=ONE)
    sim.run_until(312.0)
    assert sim._run.energy().tolist()[:2] == pytest.approx(
        [STARTS + 100 * (IDLE + MAX) / 2 + STOPS, 312 * OFF]
    )


def test_all_machines_that_are_needed_are_switched_on_at_once() -> None:
    tasks = [make_task(i, run_time=300, cores=4) for i in range(2)]
    sim = finish(HOSTS, tasks, controllers=NEEDED)
    assert list_times(sim) == [(200.0, 500.0), (200.0, 500.0)]


@pytest.mark.parametrize("controllers", [ONE, NEEDED], ids=["one", "needed"])
@pytest.mark.parametrize(
    ("submit", "seconds"),
    # It is switched off from 210 s to 222 s; on the way, the way back has the same share.
    [(230, SECONDS_ON), (215, SECONDS_ON * 5 / SECONDS_OFF)],
    ids=["off", "on the way"],
)
def test_a_machine_that_is_switched_off_is_switched_on_again_for_a_later_task(
    controllers: dict[str, Any], submit: float, seconds: float
) -> None:
    tasks = [make_task(0, cores=4), make_task(1, submit=submit, cores=4)]
    hosts = [make_host("a", power=POWER, states=STATES)]
    sim = finish(hosts, tasks, controllers=controllers)
    assert sim.tasks["start"].to_list() == pytest.approx([200.0, submit + seconds])


@pytest.mark.parametrize("controllers", [ONE, NEEDED], ids=["one", "needed"])
def test_another_machine_replaces_one_that_fails_while_it_is_switched_on(
    controllers: dict[str, Any],
) -> None:
    sim = start(HOSTS, [make_task(0, cores=4)], controllers=controllers)
    sim.run_until(50.0)
    sim.fail("a")
    sim.run()
    assert list_times(sim) == [(250.0, 260.0)]


def test_another_machine_replaces_one_that_fails_with_an_instance() -> None:
    sim = start(HOSTS, [make_task(0, run_time=100, cores=4)], controllers=ONE)
    sim.run_until(250.0)
    sim.fail("a")
    sim.run()
    assert sim.tasks["end"].to_list() == [550.0]
    assert list_rentals(sim, "host", "reason") == [("a", "lost"), ("b", "released")]


# --- queues and placements ------------------------------------------------------------------------


class Row(NamedTuple):
    """A task of whole seconds."""

    submit: int
    run_time: int
    cores: int
    memory: int


ROWS = st.lists(
    st.builds(Row, st.integers(0, 12), st.integers(1, 8), st.integers(1, 4), st.integers(1, 4)),
    min_size=1,
    max_size=14,
)
SIZES = st.lists(st.tuples(st.integers(4, 6), st.integers(4, 8)), min_size=1, max_size=4)
QUEUES = ("blocking", "skip", "refuse", "smallest-first")
FITS = ("first-fit", "best-fit", "worst-fit")


class SlowCloud:
    """Instances of containers in a queue, second by second."""

    def __init__(self, sizes: list[tuple[int, int]], fit: str, queue: str) -> None:
        self.free = [list(size) for size in sizes]
        self.fit, self.queue = fit, queue

    def choose(self, row: Row) -> int | None:
        fitting = [
            host
            for host, (cores, memory) in enumerate(self.free)
            if row.cores <= cores and row.memory <= memory
        ]
        keys = {"first-fit": 0, "best-fit": 1, "worst-fit": -1}
        # `min` takes the first of several.
        return min(fitting, key=lambda host: keys[self.fit] * self.free[host][0], default=None)

    def change(self, host: int, row: Row, sign: int) -> None:
        self.free[host][0] += sign * row.cores
        self.free[host][1] += sign * row.memory

    def run(self, rows: list[Row]) -> list[tuple[int, int] | None]:
        """Return start and host of each task; None if it was refused."""
        result: list[tuple[int, int] | None] = [None] * len(rows)
        waiting: list[int] = []
        running: dict[int, int] = {}
        left, now = set(range(len(rows))), 0
        while left or waiting or running:
            for task, host in list(running.items()):
                found = result[task]
                assert found is not None
                if found[0] + rows[task].run_time == now:
                    self.change(host, rows[task], 1)
                    del running[task]
            arrived = sorted(task for task in left if rows[task].submit == now)
            left -= set(arrived)
            waiting += arrived
            if self.queue == "smallest-first":
                waiting.sort(key=lambda task: (rows[task].cores, rows[task].memory, task))
            for task in list(waiting):
                chosen = self.choose(rows[task])
                if chosen is None:
                    if self.queue == "refuse":
                        waiting.remove(task)
                    elif self.queue != "skip":
                        break
                    continue
                waiting.remove(task)
                self.change(chosen, rows[task], -1)
                running[task] = chosen
                result[task] = (now, chosen)
            now += 1
        return result


@examples(12)
@given(rows=ROWS, sizes=SIZES, fit=st.sampled_from(FITS), queue=st.sampled_from(QUEUES))
def test_queues_and_placements_equal_those_of_a_slow_cloud(
    rows: list[Row], sizes: list[tuple[int, int]], fit: str, queue: str
) -> None:
    rows = sorted(rows, key=lambda row: row.submit)
    hosts = [
        make_host(f"h{i}", cores, memory=memory * GB) for i, (cores, memory) in enumerate(sizes)
    ]
    tasks = [
        make_task(i, row.submit, row.run_time, row.cores, memory=row.memory * GB)
        for i, row in enumerate(rows)
    ]
    placement = {"name": fit, "options": {"queue": queue}}
    sim = finish(hosts, tasks, controllers={"placement": placement})
    expected = SlowCloud(sizes, fit, queue).run(rows)
    machines = dict(sim.trace().placements.select("task", "machine").rows())
    chosen = dict(list_rentals(sim, "instance", "host"))
    found = [
        (begin, chosen[machines[name]]) if begin is not None else None
        for name, begin in sim.tasks.select("id", "start").rows()
    ]
    assert found == [each and (float(each[0]), f"h{each[1]}") for each in expected]
    assert sim.tasks["status"].to_list() == ["completed" if each else "killed" for each in expected]


def test_equal_tasks_are_served_in_the_order_of_arrival_by_smallest_first() -> None:
    tasks = [make_task(0, cores=4), *(make_task(i, submit=i, cores=3) for i in range(1, 4))]
    placement = {"name": "first-fit", "options": {"queue": "smallest-first"}}
    sim = finish([make_host("a")], tasks, controllers={"placement": placement})
    assert [begin for begin, _ in list_times(sim)] == [0.0, 10.0, 20.0, 30.0]
