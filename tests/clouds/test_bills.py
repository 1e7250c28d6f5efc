"""Bills: units of time, types, reservations and transfers, against hand-computed values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import twinloop as tl
from tests.clouds.bill_twin import compute_bill, compute_price, find_reserved
from tests.clouds.bill_twin import list_rentals as list_whole_rentals
from tests.clouds.cases import PORTS, finish, list_rentals, make_host, make_scenario, make_task
from tests.examples import examples
from twinloop import metrics
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation
from twinloop.scenario import Scenario

TYPES = [
    {"name": "small", "cores": 1, "price": 0.1},
    {"name": "large", "cores": 4, "price": 0.35},
    {"name": "other", "cores": 2},
]


def choose(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "options": options}


def find_bill(sim: Simulation) -> float:
    """Return the bill of a run, which is the same by the trace and by the native figures."""
    rentals = metrics.figures(sim.trace()).rentals
    assert rentals is not None
    assert rentals.bill is not None
    assert rentals.bill == sim.kpis()["bill"]
    return rentals.bill


# --- units of time --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run_time", "price"), [(1, 0.1), (9.99, 0.1), (10, 0.1), (10.01, 0.2), (20, 0.2), (21, 0.3)]
)
def test_every_begun_unit_is_billed(run_time: float, price: float) -> None:
    sim = finish(
        [make_host()],
        [make_task(0, run_time=run_time)],
        billing={"unit": "10s", "price": 0.1},
    )
    assert list_rentals(sim, "price", "tariff", "bid") == [(price, "on-demand", None)]
    assert find_bill(sim) == price


def test_the_time_of_the_boot_is_billed() -> None:
    # A boot of 4 s, then a task of 7 s: two units from the request, one from the end of 4 s on.
    image = {"name": "base", "boot": {"delay": 4}}
    for begin in ("request", "start"):
        sim = finish(
            [make_host()],
            [make_task(0, run_time=7)],
            image=image,
            billing={"unit": "10s", "price": 1, "from": begin},
        )
        assert find_bill(sim) == 2.0
    # A decision of 4 s is billed from the request only.
    bills = []
    for begin in ("request", "start"):
        sim = finish(
            [make_host()],
            [make_task(0, run_time=7)],
            decision_delay=4,
            billing={"unit": "10s", "price": 1, "from": begin},
        )
        bills.append(find_bill(sim))
    assert bills == [2.0, 1.0]


def test_a_broker_pays_for_the_margin_in_which_its_instance_is_idle() -> None:
    # Idle at 12 s in the unit that ends at 20 s: given back 3 s before that, within two units.
    sim = finish(
        [make_host()],
        [make_task(0, run_time=12)],
        policy=choose("asap", margin=3),
        billing={"unit": "10s", "price": 0.25},
    )
    assert list_rentals(sim, "end", "price") == [(17.0, 0.5)]
    assert find_bill(sim) == 0.5


def test_tasks_beyond_the_limit_share_the_bill_of_one_instance() -> None:
    # Three tasks of 4 s on the only instance that the cloud allows: 12 s and the margin.
    tasks = [make_task(i, run_time=4) for i in range(3)]
    sim = finish(
        [make_host()],
        tasks,
        policy=choose("asap", margin=2),
        types=TYPES[:1],
        limits={"instances": 1},
        billing={"unit": "5s", "price": 9},
    )
    assert list_rentals(sim, "end", "price") == [(13.0, 0.3)]
    # Without a limit, each one has its own.
    sim = finish(
        [make_host()],
        tasks,
        policy=choose("asap", margin=2),
        types=TYPES[:1],
        billing={"unit": "5s", "price": 9},
    )
    assert find_bill(sim) == 0.3
    assert [price for (price,) in list_rentals(sim, "price")] == [0.1] * 3


def test_refused_instances_are_free_and_lost_ones_are_billed_until_then() -> None:
    # The host fails in the boot, at 12 s: two units. The other one is full, so that the request of
    # a replacement is refused until 20 s.
    scenario = make_scenario(
        [make_host("a b", cores=2)],
        [make_task(0, run_time=20, cores=2), make_task(1, submit=1, run_time=20, cores=2)],
        image={"name": "base", "boot": {"delay": 15}},
        policy=choose("asap", margin=0, retry=30, boot={"base": 15}),
        controllers={"placement": {"name": "first-fit", "options": {"queue": "refuse"}}},
        billing={"unit": "10s", "price": 0.1},
    )
    sim = Simulation(scenario)
    sim.run_until(12.0)
    sim.fail("a")
    sim.run()
    # The broker replaces it at 12 s (refused), and 30 s later on the free host.
    assert list_rentals(sim, "host", "requested", "end", "reason", "price") == [
        ("a", 0.0, 12.0, "lost", 0.2),
        ("b", 1.0, 41.0, "released", 0.4),
        (None, 12.0, 12.0, "refused", 0.0),
        ("b", 42.0, 82.0, "released", 0.4),
    ]
    assert find_bill(sim) == 1.0


# --- types ----------------------------------------------------------------------------------------


def test_an_instance_has_the_price_of_its_type() -> None:
    billing = {"unit": "10s", "price": 0.2}
    prices = {}
    for each in TYPES:
        policy = choose("one-per-task", type=each["name"])
        sim = finish(
            [make_host()], [make_task(0, run_time=25)], policy=policy, types=TYPES, billing=billing
        )
        prices[each["name"]] = find_bill(sim)
    assert prices == {"small": 0.3, "large": 1.05, "other": 0.6}


@pytest.mark.parametrize(("kind", "completed"), [("small", 3), ("large", 0), ("other", 1)])
def test_a_budget_counts_with_the_price_of_the_type(kind: str, completed: int) -> None:
    # Tasks of one core that fill a unit: 0.3 buys three units of `small` and one of `other`, on
    # which two tasks run at once.
    sim = finish(
        [make_host("a b c d")],
        [make_task(i, run_time=10, cores=1 if kind == "small" else 2) for i in range(4)],
        policy=choose("budget", budget=0.3, margin=0, type=kind),
        types=TYPES,
        billing={"unit": "10s", "price": 0.2},
    )
    assert sim.tasks["status"].to_list().count("completed") == completed
    assert find_bill(sim) <= 0.3


@pytest.mark.parametrize("name", ["list", "deadline", "asap", "afap"])
def test_the_bill_of_a_broker_is_that_of_its_type(name: str) -> None:
    # A task that fills two units of 10 s.
    sim = finish(
        [make_host()],
        [make_task(0, run_time=20)],
        policy=choose(name, margin=0, type="large"),
        types=TYPES,
        billing={"unit": "10s", "price": 0.2},
    )
    assert find_bill(sim) == 0.7


# --- rounding -------------------------------------------------------------------------------------


@given(
    cents=st.integers(1, 10**6),
    decimals=st.integers(0, 6),
    units=st.lists(st.integers(1, 400), min_size=1, max_size=12),
)
@examples(20)
def test_a_bill_in_decimals_has_no_rounding_noise(
    cents: int, decimals: int, units: list[int]
) -> None:
    sim = finish(
        [make_host(" ".join(f"h{i}" for i in range(12)))],
        [make_task(i, run_time=each) for i, each in enumerate(units)],
        billing={"unit": "1s", "price": cents / 10**decimals},
    )
    # Python divides integers exactly, and rounds once.
    assert find_bill(sim) == cents * sum(units) / 10**decimals
    assert [price for (price,) in list_rentals(sim, "price")] == [
        cents * each / 10**decimals for each in units
    ]
    shown = metrics.energy_of_instances(sim.trace(), by="cloud")["bill"].to_list()
    assert shown == [cents * sum(units) / 10**decimals]


# --- reserved instances ---------------------------------------------------------------------------

RESERVED = {"unit": "10s", "price": 1, "reserved": {"instances": 2, "price": 0.4, "upfront": 5}}


def test_the_first_instances_are_reserved_while_slots_are_free() -> None:
    # At 0 s, two of three are reserved; at 5 s no slot is free; the first one ends at 10 s, so that
    # of the two at 20 s one is reserved: the second one lasts until 30 s.
    times = [(0, 10), (0, 30), (0, 30), (5, 10), (20, 5), (20, 5)]
    sim = finish(
        [make_host("a b c d")],
        [make_task(i, submit=at, run_time=length) for i, (at, length) in enumerate(times)],
        billing=RESERVED,
    )
    assert list_rentals(sim, "tariff", "price") == [
        ("reserved", 0.4),
        ("reserved", 1.2),
        ("on-demand", 3.0),
        ("on-demand", 1.0),
        ("reserved", 0.4),
        ("on-demand", 1.0),
    ]
    # 7.0 of the instances, and two reservations.
    assert find_bill(sim) == 17.0


def test_reservations_are_paid_also_if_they_are_not_used() -> None:
    sim = finish([make_host(cores=1)], [make_task(0, cores=2)], billing=RESERVED)
    assert sim.trace().instances.is_empty()
    assert find_bill(sim) == 10.0
    late = metrics.figures(sim.trace(), warm_up=1.0)
    assert late.rentals is not None
    assert late.rentals.bill == 0.0


def test_a_refused_instance_gives_its_slot_back() -> None:
    sim = finish(
        [make_host("a", cores=1)],
        [make_task(0, run_time=10), make_task(1, submit=2, run_time=10), make_task(2, submit=20)],
        controllers={"placement": {"name": "first-fit", "options": {"queue": "refuse"}}},
        billing=RESERVED,
    )
    assert list_rentals(sim, "reason", "tariff", "price") == [
        ("released", "reserved", 0.4),
        ("refused", "reserved", 0.0),
        ("released", "reserved", 0.4),
    ]


def test_a_budget_pays_the_reservations_first() -> None:
    # 12 - 2 x 5 buys two units of 1 for whatever tariff; the third task is killed.
    sim = finish(
        [make_host("a b c d", cores=1)],
        [make_task(i, run_time=10) for i in range(3)],
        policy=choose("budget", budget=12, margin=0),
        billing=RESERVED,
    )
    assert sim.tasks["status"].to_list() == ["completed", "completed", "killed"]
    assert find_bill(sim) == 10.8


# --- transfers ------------------------------------------------------------------------------------


def make_transfers(*, store: str | None = None, **billing: Any) -> Scenario:
    """A task that reads 100 MB and 200 MB and writes 50 MB, at 100 MB/s."""
    sizes = {"mesh": "100 MB", "model": "200 MB", "result": "50 MB"}
    files = [
        {"name": name, "size": size, **({"store": store} if store else {})}
        for name, size in sizes.items()
    ]
    return Scenario(
        platform={
            "clusters": [
                {
                    "name": "rack",
                    "hosts": [
                        make_host("a", cores=2, store={"capacity": "1 TB"}),
                        make_host("b", cores=2, store={"capacity": "1 TB"}),
                    ],
                }
            ],
            "stores": [{"name": "data", "ports": PORTS}],
            "clouds": [
                {
                    "name": "cloud",
                    "clusters": ["rack"],
                    "images": [{"name": "base", "size": "1 GB", "store": "data"}],
                    "billing": {"unit": "1h", "price": 1, **billing},
                }
            ],
        },
        workload={
            "files": files,
            "tasks": [make_task(0, run_time=10, reads=["mesh", "model"], writes=["result"])],
        },
        policy="one-per-task",
    )


def test_transfers_of_tasks_have_a_price(recwarn: pytest.WarningsRecorder) -> None:
    # 0.3 GB leave the store, 0.05 GB enter it; the image of 1 GB does not count.
    run = tl.simulate(make_transfers(transfer={"in": 0.02, "out": 0.09}))
    figures = metrics.figures(run).to_dict()
    assert figures["transfer_price"] == 0.028
    assert figures["bill"] == 1.028
    assert run.instances["price"].to_list() == [1.0]
    assert not recwarn.list  # polars warns with native code, which the filter "error" ignores
    native = CompiledScenario(make_transfers(transfer={"in": 0.02, "out": 0.09})).run()
    assert (native["transfer_price"], native["bill"]) == (0.028, 1.028)


def test_transfers_without_a_price_are_not_in_the_bill() -> None:
    figures = metrics.figures(tl.simulate(make_transfers())).to_dict()
    assert figures["transfer_price"] is None
    assert figures["bill"] == 1.0
    free = metrics.figures(tl.simulate(make_transfers(transfer={}))).to_dict()
    assert (free["transfer_price"], free["bill"]) == (0.0, 1.0)


def test_files_in_the_stores_of_hosts_are_free() -> None:
    figures = metrics.figures(tl.simulate(make_transfers(store="a", transfer={"out": 0.09})))
    assert figures.rentals is not None
    assert figures.rentals.transfer_price == 0.0


def test_what_was_moved_of_a_cancelled_transfer_is_billed() -> None:
    # The image takes 10 s, `mesh` 1 s; the host fails after 1.5 s of `model`: 150 MB more. The task
    # reads both again on the other host.
    sim = Simulation(make_transfers(transfer={"out": 1}))
    sim.run_until(12.5)
    sim.fail("a")
    sim.run()
    assert sim.transfers.filter(kind="read").select("from", "bytes", "reason").rows() == [
        ("data", 100e6, "completed"),
        ("data", pytest.approx(150e6), "cancelled"),
        ("data", 100e6, "completed"),
        ("data", 200e6, "completed"),
    ]
    figures = metrics.figures(sim.trace()).to_dict()
    assert figures["transfer_price"] == pytest.approx(0.55)
    assert sim.kpis()["transfer_price"] == figures["transfer_price"]


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cloud", "message"),
    [
        ({"types": TYPES}, r"billing.*is missing, but types\[0\]\.price needs it.*give `billing`"),
        ({"spot": {"prices": [[0, 1]]}}, r"billing.*is missing, but spot needs it"),
        ({"billing": {"price": 1, "reserved": {"instances": 0, "price": 1}}}, r"instances"),
        ({"billing": {"price": 1, "transfer": {"out": -1}}}, r"out.*must not be negative"),
        ({"billing": {"price": 1, "unit": 1e-308}}, r"unit: must be at least 0\.001"),
        ({"billing": {"price": 1, "unit": 0}}, r"unit: must be at least 0\.001"),
        ({"billing": {"price": 1}, "spot": {"prices": []}}, r"is not a price"),
        ({"billing": {"price": 1}, "spot": {"prices": [[0, -1]]}}, r"a price must be from 0"),
        ({"billing": {"price": 1}, "spot": {"prices": [[0, 1], [0, 2]]}}, r"entry 2 must be after"),
        ({"billing": {"price": 1}, "spot": {"prices": [[0]]}}, r"entry 1 must be a time and a pri"),
    ],
)
def test_mistakes_in_prices_name_the_field(cloud: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_scenario([make_host()], [make_task(0)], **cloud)


def test_the_largest_bill_is_finite() -> None:
    # The shortest unit, the highest prices and the longest time.
    price = {"unit": "1ms", "price": 1e15, "reserved": {"instances": 1, "price": 1e15}}
    billing = price | {"transfer": {"in": 1e15, "out": 1e15}}
    policy = choose("one-per-task")
    scenario = make_scenario([make_host()], [make_task(0, run_time=1e15)], policy=policy)
    run = tl.simulate(scenario.replace(**{"platform.clouds[0].billing": billing}))
    assert metrics.figures(run).to_dict()["bill"] == pytest.approx(1e33)


# --- law ------------------------------------------------------------------------------------------


@given(
    tasks=st.lists(
        st.tuples(st.integers(0, 30), st.floats(0.5, 40), st.sampled_from([1, 2])),
        min_size=1,
        max_size=8,
    ),
    unit=st.sampled_from([1, 7, 10, 3600]),
    begin=st.sampled_from(["request", "start"]),
    reserved=st.none()
    | st.fixed_dictionaries(
        {"instances": st.integers(1, 3), "price": st.sampled_from([0.0, 0.03])},
        optional={"upfront": st.sampled_from([0.5, 2])},
    ),
    queue=st.sampled_from(["skip", "refuse"]),
    policy=st.sampled_from(["one-per-task", "asap", "afap", "list", "deadline"]),
    price=st.sampled_from([None, 0.07, 0.1]),
)
@examples(25)
def test_the_bill_is_that_of_the_slow_twin(
    tasks: list[tuple[int, float, int]],
    unit: float,
    begin: str,
    reserved: dict[str, Any] | None,
    queue: str,
    policy: str,
    price: float | None,
) -> None:
    scenario = make_scenario(
        [make_host("a b", cores=2)],
        [make_task(i, at, length, cores) for i, (at, length, cores) in enumerate(tasks)],
        image={"name": "base", "boot": {"delay": 2}},
        policy=policy,
        types=[{"name": "only", "cores": 2, **({} if price is None else {"price": price})}],
        controllers={"placement": {"name": "first-fit", "options": {"queue": queue}}},
        billing={"unit": unit, "price": 0.11, "from": begin}
        | ({} if reserved is None else {"reserved": reserved}),
    )
    sim = Simulation(scenario)
    sim.run()
    trace = sim.trace()
    cloud = scenario.platform.clouds[0]
    rentals = list_whole_rentals(trace)
    for rental in rentals:
        assert rental.price == float(compute_price(cloud, rental, sim.now))
    assert find_bill(sim) == float(compute_bill(cloud, trace, sim.now, set()))
    free = find_reserved(rentals, reserved["instances"] if reserved else 0)
    for rental, is_reserved in zip(rentals, free, strict=True):
        # At the end of an instance, its slot may be taken before the end.
        ends = {each.end for each in rentals}
        if rental.requested not in ends:
            assert (rental.tariff == "reserved") == is_reserved


@given(
    tasks=st.lists(st.tuples(st.integers(0, 30), st.floats(0.5, 40)), min_size=1, max_size=8),
    budget=st.sampled_from([0.0, 0.2, 0.7, 1.5, 4.0]),
    price=st.sampled_from([0.07, 0.1, 0.5]),
    reserved=st.fixed_dictionaries(
        {"instances": st.integers(1, 2), "price": st.sampled_from([0.0, 0.03, 0.2])},
        optional={"upfront": st.sampled_from([0.1, 0.3])},
    ),
    begin=st.sampled_from(["request", "start"]),
)
@examples(20)
def test_a_budget_is_kept_with_every_tariff(
    tasks: list[tuple[int, float]],
    budget: float,
    price: float,
    reserved: dict[str, Any],
    begin: str,
) -> None:
    upfront = reserved["instances"] * reserved.get("upfront", 0.0)
    assume(upfront <= budget)
    sim = finish(
        [make_host("a b", cores=2)],
        [make_task(i, at, length) for i, (at, length) in enumerate(tasks)],
        policy=choose("budget", budget=budget, margin=0),
        types=[{"name": "small", "cores": 1, "price": price}],
        billing={"unit": "10s", "price": 9, "from": begin, "reserved": reserved},
    )
    assert find_bill(sim) <= budget * (1 + 1e-9)
