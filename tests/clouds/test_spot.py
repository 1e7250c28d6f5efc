"""Spot instances: units across changes of the price, interruptions, and what is lost by them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.bill_twin import compute_bill, compute_price
from tests.clouds.bill_twin import list_rentals as list_whole_rentals
from tests.clouds.cases import (
    IDLE,
    MAX,
    POWER,
    finish,
    list_rentals,
    list_times,
    make_host,
    make_scenario,
    make_task,
    start,
)
from tests.clouds.test_bills import choose, find_bill
from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.engine import Simulation
from twinloop.policy import Policy, Rent
from twinloop.policy.decisions import Decision, Place, Release
from twinloop.policy.interface import View

UNIT = {"unit": "10s", "price": 1}
#: 0.3 until 25 s, 0.5 until 40 s, 0.9 until 60 s, then 0.2.
PRICES = [[0, 0.3], [25, 0.5], [40, 0.9], [60, 0.2]]
CLIENTS = ["one-per-task", "one-instance", "asap", "afap", "list", "deadline"]


def spot(prices: Any = PRICES, **others: Any) -> dict[str, Any]:
    """The fields of a cloud with these spot prices."""
    return {"billing": UNIT, "spot": {"prices": prices, **others}}


# --- prices of units ------------------------------------------------------------------------------


def test_each_unit_has_the_price_of_its_begin() -> None:
    # Begins at 0, 10, 20 (0.3), 30 (0.5), 40, 50 (0.9), 60 (0.2), and ends at 65.
    sim = finish(
        [make_host()],
        [make_task(0, run_time=65)],
        policy=choose("one-per-task", bid=1),
        **spot(),
    )
    assert list_rentals(sim, "price", "tariff", "bid") == [(3.4, "spot", 1.0)]
    assert find_bill(sim) == 3.4


def test_a_unit_that_begins_with_a_change_has_the_new_price() -> None:
    sim = finish(
        [make_host()],
        [make_task(0, run_time=20)],
        policy=choose("one-per-task", bid=1),
        **spot([[10, 0.5], [20, 0.7]]),
    )
    # Before the first time, its price holds; no unit begins at 20 s.
    assert find_bill(sim) == 1.0


def test_the_units_are_counted_from_the_event_of_the_billing() -> None:
    # Requested at 0 s (0.3), on its host at 30 s (0.5): the decision takes 30 s.
    bills = {}
    for begin in ("request", "start"):
        sim = finish(
            [make_host()],
            [make_task(0, run_time=10)],
            policy=choose("one-per-task", bid=1),
            decision_delay="30s",
            billing=UNIT | {"from": begin},
            spot={"prices": PRICES},
        )
        bills[begin] = find_bill(sim)
    assert bills == {"request": 1.4, "start": 0.5}


def test_instances_without_a_bid_are_on_demand() -> None:
    sim = finish([make_host()], [make_task(0, run_time=50)], **spot())
    assert list_rentals(sim, "price", "tariff", "reason") == [(5.0, "on-demand", "released")]


def test_a_bid_takes_no_reservation() -> None:
    sim = finish(
        [make_host()],
        [make_task(0, run_time=20)],
        policy=choose("one-per-task", bid=1),
        billing=UNIT | {"reserved": {"instances": 1, "price": 0}},
        spot={"prices": PRICES},
    )
    assert list_rentals(sim, "price", "tariff") == [(0.6, "spot")]


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize(("unit", "price"), [("free", 0.6), ("billed", 0.9)])
@pytest.mark.parametrize("name", CLIENTS)
def test_an_interrupted_task_begins_again_when_the_price_has_fallen(
    name: str, unit: str, price: float
) -> None:
    # From 0 s, interrupted at 25 s in its third unit; again from 60 s, in five units of 0.2.
    options = {} if name.startswith("one") else {"margin": 0}
    types = [{"name": "small", "cores": 1}]
    sim = finish(
        [make_host()],
        [make_task(0, run_time=50)],
        policy=choose(name, bid=0.4, **options),
        types=types,
        **spot(interrupted_unit=unit),
    )
    assert list_rentals(sim, "requested", "end", "reason", "price") == [
        (0.0, 25.0, "interrupted", price),
        (60.0, 110.0, "released", 1.0),
    ]
    assert sim.trace().placements.select("start", "end", "reason").rows() == [
        (0.0, 25.0, "failed"),
        (60.0, 110.0, "completed"),
    ]
    assert find_bill(sim) == price + 1.0
    assert sim.kpis()["instances_interrupted"] == 1


def test_an_interruption_at_the_end_of_a_unit_begins_no_other_one() -> None:
    for unit in ("free", "billed"):
        sim = finish(
            [make_host()],
            [make_task(0, run_time=50)],
            policy=choose("one-per-task", bid=0.4),
            **spot([[0, 0.3], [20, 0.5]], interrupted_unit=unit),
        )
        assert find_bill(sim) == 0.6


def test_a_task_that_ends_with_the_change_is_completed() -> None:
    sim = finish(
        [make_host()],
        [make_task(0, run_time=25)],
        policy=choose("one-per-task", bid=0.4),
        **spot(),
    )
    assert list_times(sim) == [(0.0, 25.0)]
    assert sim.tasks["status"].to_list() == ["completed"]


@pytest.mark.parametrize("name", CLIENTS)
def test_clients_wait_for_a_price_that_is_not_above_the_bid(name: str) -> None:
    # The bid equals the price from 60 s on.
    sim = finish(
        [make_host()],
        [make_task(0)],
        policy=choose(name, bid=0.2),
        types=[{"name": "small", "cores": 1}],
        **spot(),
    )
    assert list_times(sim) == [(60.0, 70.0)]
    assert len(list_rentals(sim, "requested")) == 1


def test_a_broker_that_scans_at_intervals_waits_for_the_next_scan() -> None:
    sim = finish(
        [make_host()],
        [make_task(0)],
        policy=choose("asap", bid=0.2, interval=7),
        **spot(),
    )
    assert list_times(sim) == [(63.0, 73.0)]


@pytest.mark.parametrize("name", [*CLIENTS, "budget"])
def test_tasks_fail_if_the_price_stays_above_the_bid(name: str) -> None:
    options = {"budget": 10} if name == "budget" else {}
    sim = finish(
        [make_host()],
        [make_task(0)],
        policy=choose(name, bid=0.1, **options),
        types=[{"name": "small", "cores": 1}],
        **spot(),
    )
    assert list_rentals(sim, "requested") == []
    assert sim.tasks["status"].to_list() != ["completed"]
    assert find_bill(sim) == 0.0


def test_a_boot_that_is_interrupted_is_no_failed_attempt() -> None:
    # The price is low for 5 s in every 20 s, and the boot takes 6 s, until it stays low at 100 s.
    prices = [pair for k in range(5) for pair in ([20.0 * k, 0.1], [20.0 * k + 5, 0.9])]
    sim = finish(
        [make_host()],
        [make_task(0, run_time=10)],
        image={"name": "base", "boot": {"delay": 6}},
        policy=choose("asap", bid=0.4, attempts=2, margin=0, retry=3),
        **spot([*prices, [100, 0.1]]),
    )
    rentals = list_rentals(sim, "reason", "price")
    assert rentals[:5] == [("interrupted", 0.0)] * 5
    assert rentals[5:] == [("released", 0.2)]
    assert sim.tasks["status"].to_list() == ["completed"]


def test_an_instance_that_waits_for_a_host_is_refused() -> None:
    # The host is used until 30 s; the price rises at 25 s while the second one waits for it.
    sim = finish(
        [make_host("a", cores=1)],
        [make_task(0, run_time=20), make_task(1, submit=1, run_time=20)],
        policy=choose("one-per-task", bid=0.4),
        **spot([[0, 0.3], [15, 0.5], [30, 0.3]]),
    )
    assert list_rentals(sim, "host", "requested", "end", "reason", "price") == [
        ("a", 0.0, 15.0, "interrupted", 0.3),
        (None, 1.0, 15.0, "refused", 0.0),
        ("a", 30.0, 50.0, "released", 0.6),
        ("a", 30.0, 70.0, "released", 1.2),
    ]
    assert sim.kpis()["instances_refused"] == 1


def test_a_request_that_arrives_at_a_higher_price_is_refused() -> None:
    # A request of 100 MB at 100 MB/s is sent at 0.5 s and arrives after the price has risen.
    sim = finish(
        [make_host("a b")],
        [make_task(0, submit=0.5, run_time=5)],
        policy=choose("one-per-task", bid=0.4),
        latency=0.0,
        image={"name": "base", "size": "1 MB", "store": "images"},
        messages={"client": "a", "controller": "images", "size": "100 MB"},
        **spot([[0, 0.3], [1, 0.5], [30, 0.3]]),
    )
    rentals = list_rentals(sim, "requested", "reason", "price")
    assert rentals == [(0.5, "refused", 0.0), (30.0, "released", 0.3)]
    assert sim.tasks["status"].to_list() == ["completed"]


@pytest.mark.parametrize("name", CLIENTS)
def test_prices_change_nothing_for_instances_without_bids(name: str) -> None:
    tasks = [make_task(i, submit=3 * i, run_time=20) for i in range(5)]
    types = [{"name": "small", "cores": 1}]
    plain = finish([make_host()], tasks, policy=name, types=types, billing=UNIT)
    priced = finish([make_host()], tasks, policy=name, types=types, **spot())
    assert priced.trace().instances.equals(plain.trace().instances)
    assert priced.kpis() == pytest.approx(plain.kpis(), nan_ok=True)


def test_a_run_that_waits_in_vain_does_not_wait_for_prices_without_bids() -> None:
    # No instance is requested for the task.
    sim = start([make_host()], [make_task(0)], policy="manual", **spot())
    sim.run()
    assert sim.now == 0.0


def test_a_copy_continues_in_the_same_way() -> None:
    sim = start(
        [make_host()],
        [make_task(i, submit=5 * i, run_time=30) for i in range(4)],
        policy=choose("asap", bid=0.4, margin=0),
        **spot(),
    )
    sim.run_until(20.0)
    other = sim.copy()
    sim.run()
    other.run()
    assert list_times(sim) == list_times(other)
    assert sim.kpis()["bill"] == other.kpis()["bill"]


# --- the file of the prices -----------------------------------------------------------------------


def test_prices_can_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("t,price\n" + "".join(f"{t},{price}\n" for t, price in PRICES))
    sim = finish(
        [make_host()],
        [make_task(0, run_time=65)],
        policy=choose("one-per-task", bid=1),
        **spot(str(path)),
    )
    assert find_bill(sim) == 3.4
    # In milliseconds since 1970, t = 0 is the start of the scenario.
    path.write_text(
        "unix_ms,price\n" + "".join(f"{1e12 + 1000 * t:.0f},{price}\n" for t, price in PRICES)
    )
    scenario = make_scenario(
        [make_host()],
        [make_task(0, run_time=65)],
        policy=choose("one-per-task", bid=1),
        **spot(str(path)),
    )
    with pytest.raises(InputError, match="unix_ms, but the trace has no date of t = 0"):
        Simulation(scenario)
    dated = Simulation(scenario.replace(start="2001-09-09T01:46:40Z"))
    dated.run()
    assert find_bill(dated) == 3.4


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_files_of_spreadsheets_are_read(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "prices.csv"
    rows = "".join(f"{time} {separator} {price}\r\n\r\n" for time, price in PRICES)
    path.write_bytes(b"\xef\xbb\xbf" + f'\r\n"t" {separator} price\r\n{rows}'.encode())
    options = {"policy": choose("one-per-task", bid=1), **spot(str(path))}
    assert find_bill(finish([make_host()], [make_task(0, run_time=65)], **options)) == 3.4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,cost\n0,1\n", "lacks a column: it has t, cost"),
        ("t,price\n0,-1\n", r"price is below 0: '-1'"),
        ("t,price\n5,1\n5,2\n", "the times must increase"),
        ("t,price\n", "has no rows"),
        ("", "csv:1: lacks a column: it has none"),
        ("\nt,price\n0,1\n\n5\n", "csv:5: has 1 value for 2 columns"),
        ("t,price\n0,1,2\n", "csv:2: has 3 values for 2 columns"),
        ("t,price\n\n0,x\n", "csv:3: price is not a number: 'x'"),
        ("t,t,price\n0,0,1\n", "csv:1: has more than one column t"),
        ("t,price\n0,1e16\n", r"csv:2: price is above 1e\+15: '1e16'"),
    ],
)
def test_mistakes_in_the_file_name_it(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        start([make_host()], [make_task(0)], **spot(str(path)))
    assert "prices.csv" in str(error.value)


def test_a_bid_needs_spot_prices() -> None:
    with pytest.raises(InputError, match="cloud 'cloud' has no spot prices"):
        start([make_host()], [make_task(0)], policy=choose("asap", bid=0.4), billing=UNIT)


# --- a client in Python ---------------------------------------------------------------------------


class Bidder(Policy):
    """Rents at its bid for tasks that wait; once also at a price above it."""

    events: list[str]
    seen: list[float | None]

    def __init__(self, bid: float = 0.4) -> None:
        self.bid = bid
        self.instances: list[int] = []
        self.has_tried = False
        type(self).events, type(self).seen = [], []

    def instance_changed(self, instance: int, event: str) -> None:
        self.events.append(event)
        if event == "ready":
            self.instances.append(instance)
        elif instance in self.instances:
            self.instances.remove(instance)

    def decide(self, view: View) -> list[Decision]:
        self.seen += view.spot_prices
        waiting = list(view.waiting)
        if self.instances:
            (instance,) = self.instances
            if waiting:
                return [Place(waiting[0], instance)]
            return [] if view.running else [Release(instance)]
        (price,) = view.spot_prices
        assert price is not None
        if waiting and not view.rented and (price <= self.bid or not self.has_tried):
            self.has_tried = self.has_tried or price > self.bid
            return [Rent(cores=1, bid=self.bid)]
        return []


def test_a_client_in_python_bids_and_is_told_of_the_end() -> None:
    scenario = make_scenario(
        [make_host()],
        [make_task(0, run_time=30)],
        policy={"name": f"{__name__}:Bidder"},
        **spot(),
    )
    sim = Simulation(scenario, allow_code=True)
    sim.run()
    assert Bidder.events == [
        "requested", "ready", "interrupted", "requested", "outbid", "requested", "ready",
    ]  # fmt: skip
    assert {0.3, 0.5, 0.2} <= set(Bidder.seen)
    assert list_times(sim) == [(0.0, 90.0)]
    assert list_rentals(sim, "end", "reason", "price") == [
        (25.0, "interrupted", 0.6),
        (25.0, "refused", 0.0),
        # It is not given back, and billed until the end of the run.
        (None, None, 0.6),
    ]


# --- laws -----------------------------------------------------------------------------------------

SERIES = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 120).map(float), st.floats(0.5, 120)),
        st.sampled_from([0.1, 0.2, 0.3, 0.45, 0.6]),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda pair: pair[0],
).map(sorted)
TASKS = st.lists(
    st.tuples(st.integers(0, 40), st.one_of(st.integers(1, 40), st.floats(0.5, 40))),
    min_size=1,
    max_size=6,
)


def make_random(
    series: list[tuple[float, float]],
    tasks: list[tuple[int, float]],
    policy: Any,
    *,
    unit: float,
    begin: str,
    interrupted: str,
    boot: float = 0.0,
) -> Simulation:
    """Run tasks of one core at spot prices, which are low at last."""
    prices = [(0.0, 0.3), *series, (150.0, 0.1)]
    image = {"name": "base", "boot": {"delay": boot}} if boot else None
    sim = Simulation(
        make_scenario(
            [make_host("a b", cores=2, power=POWER)],
            [make_task(i, at, length) for i, (at, length) in enumerate(tasks)],
            image=image,
            policy=policy,
            types=[{"name": "small", "cores": 1}],
            billing={"unit": unit, "price": 1, "from": begin},
            spot={"prices": prices, "interrupted_unit": interrupted},
        )
    )
    sim.run()
    return sim


CLIENT = st.sampled_from(
    [
        "one-per-task",
        "one-instance",
        choose("asap", margin=1),
        choose("afap", margin=0),
        choose("list", margin=2, interval=3),
        choose("deadline", deadline=100),
    ]
)


def bid_of(policy: Any, bid: float) -> dict[str, Any]:
    given = policy if isinstance(policy, dict) else choose(policy)
    return {"name": given["name"], "options": {**given["options"], "bid": bid}}


@given(
    series=SERIES,
    tasks=TASKS,
    policy=CLIENT,
    bid=st.sampled_from([0.1, 0.25, 0.3, 0.5, 1.0]),
    unit=st.sampled_from([1.0, 2.5, 10.0, 60.0]),
    begin=st.sampled_from(["request", "start"]),
    interrupted=st.sampled_from(["free", "billed"]),
    boot=st.sampled_from([0.0, 3.0]),
)
@examples(40)
def test_the_bill_is_that_of_the_slow_twin(
    series: list[tuple[float, float]],
    tasks: list[tuple[int, float]],
    policy: Any,
    bid: float,
    unit: float,
    begin: str,
    interrupted: str,
    boot: float,
) -> None:
    sim = make_random(
        series,
        tasks,
        bid_of(policy, bid),
        unit=unit,
        begin=begin,
        interrupted=interrupted,
        boot=boot,
    )
    trace = sim.trace()
    cloud = sim._compiled.machines.platform.clouds[0]
    rentals = list_whole_rentals(trace)
    for rental in rentals:
        assert rental.price == float(compute_price(cloud, rental, sim.now))
        assert rental.tariff == "spot"
    assert find_bill(sim) == float(compute_bill(cloud, trace, sim.now, set()))
    # The tasks complete at the low price of the end.
    assert set(sim.tasks["status"]) == {"completed"}
    # No instance exists at a price above its bid, and it ends with the change to one.
    prices = [(0.0, 0.3), *series, (150.0, 0.1)]
    for (time, price), (_, before) in zip(prices[1:], prices[:-1], strict=True):
        for rental in rentals:
            assert rental.end is not None
            if price > bid:
                assert not rental.requested < time < rental.end
            if rental.reason == "interrupted" and rental.end == time:
                assert before <= bid < price
    changes = {time for time, _ in prices}
    assert all(each.end in changes for each in rentals if each.reason == "interrupted")


@given(
    series=SERIES,
    tasks=TASKS,
    policy=CLIENT,
    bid=st.sampled_from([0.1, 0.25, 0.3, 0.5]),
)
@examples(25)
def test_what_an_interruption_loses_is_the_time_since_the_start_of_the_task(
    series: list[tuple[float, float]], tasks: list[tuple[int, float]], policy: Any, bid: float
) -> None:
    sim = make_random(
        series, tasks, bid_of(policy, bid), unit=10.0, begin="request", interrupted="free"
    )
    trace = sim.trace()
    ends = dict(trace.instances.filter(reason="interrupted").select("instance", "end").rows())
    useful = lost = 0.0
    for task, machine, begin, end, reason in trace.placements.select(
        "task", "machine", "start", "end", "reason"
    ).rows():
        if reason == "completed":
            assert end - begin == pytest.approx(tasks[int(task[1:])][1])
            useful += end - begin
        else:
            assert end == ends[machine]
            lost += end - begin
    assert useful == pytest.approx(sum(length for _, length in tasks))
    # The energy above that of idle hosts is that of the core-seconds of the tasks.
    joules = sim.kpis()["energy_j"]
    begins = min(at for at, _ in tasks)
    idle = 2 * IDLE * (sim.now - begins)
    assert joules - idle == pytest.approx((useful + lost) * (MAX - IDLE) / 2, abs=1e-5)


@given(
    series=SERIES,
    tasks=TASKS,
    bid=st.sampled_from([0.1, 0.25, 0.3, 0.5]),
    budget=st.sampled_from([0.0, 0.5, 1.0, 2.7, 5.0]),
    unit=st.sampled_from([2.5, 10.0, 60.0]),
    begin=st.sampled_from(["request", "start"]),
    interrupted=st.sampled_from(["free", "billed"]),
    boot=st.sampled_from([0.0, 3.0]),
)
@examples(40)
def test_the_bill_at_spot_prices_never_exceeds_the_budget(
    series: list[tuple[float, float]],
    tasks: list[tuple[int, float]],
    bid: float,
    budget: float,
    unit: float,
    begin: str,
    interrupted: str,
    boot: float,
) -> None:
    policy = choose("budget", budget=budget, bid=bid, margin=0, boot={"base": boot})
    sim = make_random(
        series, tasks, policy, unit=unit, begin=begin, interrupted=interrupted, boot=boot
    )
    assert find_bill(sim) <= budget * (1 + 1e-9)
    assert not math.isnan(sim.now)
