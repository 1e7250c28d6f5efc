"""Energy of clouds whose hosts are registered, changed and removed in mid-run; conservation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import make_host, make_task
from tests.examples import examples
from twinloop import metrics
from twinloop.engine import Simulation
from twinloop.scenario import Scenario
from twinloop.trace import Trace

#: 100 W, and 25 W for each of four used cores.
LINEAR = {"model": "linear", "idle": 100, "max": 200}
HOSTS = ("a", "b")


def make_cloud(tasks: list[dict[str, Any]], **image: float) -> Scenario:
    """Hosts `a` and `b` in a cloud, the machine `s` in none; a meter for each host."""
    meters = [{"name": name, "hosts": [name]} for name in HOSTS]
    clusters = [
        {"name": "rack", "hosts": [make_host("a b", memory=1e9, power=LINEAR)]},
        {"name": "spare", "hosts": [make_host("s", memory=1e9, power=LINEAR)]},
    ]
    images = [{"name": "base", "boot": image}]
    cloud = {"name": "east", "clusters": ["rack"], "meters": meters, "images": images}
    platform = {"clusters": clusters, "clouds": [cloud]}
    return Scenario(platform=platform, workload={"tasks": tasks}, policy="one-per-task")


def change_at(time: float, order: Callable[[Simulation], None]) -> Simulation:
    """Two tasks of four cores for 60 s, and a third one that waits for a host."""
    sim = Simulation(make_cloud([make_task(i, run_time=60, cores=4) for i in range(3)]))
    sim.run_until(time)
    order(sim)
    sim.run()
    return sim


def read_clouds(trace: Trace) -> dict[str | None, float]:
    table = metrics.energy_of_instances(trace, by="cloud")
    total = table["energy_j"] + table["unattributed_j"]
    return dict(zip(table["cloud"], total, strict=True))


# --- by hand -------------------------------------------------------------------------------------


def test_a_host_belongs_to_its_cloud_from_its_registration_on() -> None:
    """The third task runs on the registered host from 20 s to 80 s, at 200 W."""
    sim = change_at(20, lambda sim: sim.cloud("east").register_host("s"))
    trace = sim.trace()
    assert trace.node_periods.rows() == [
        ("s", 0.0, 20.0, 4.0, None),
        ("s", 20.0, None, 4.0, "east"),
    ]
    inside = 2 * (60 * 200 + 20 * 100) + 60 * 200
    assert read_clouds(trace) == {"east": inside, None: 20 * 100}
    assert metrics.energy_by_meter(trace).select("meter", "energy_j").rows() == [
        ("it", inside),
        *((name, 60 * 200 + 20 * 100) for name in HOSTS),
    ]
    by_host = metrics.energy_of_instances(trace, by="host")
    assert by_host.select("host", "cloud", "energy_j", "unattributed_j").rows() == [
        ("a", "east", 12_000.0, 2_000.0),
        ("b", "east", 12_000.0, 2_000.0),
        ("s", "east", 12_000.0, 2_000.0),
    ]


def test_a_host_belongs_to_its_cloud_up_to_its_deregistration() -> None:
    """At 20 s, the first task is interrupted. It runs on the other host, after the third one."""
    sim = change_at(20, lambda sim: sim.cloud("east").deregister_host("a", violent=True))
    trace = sim.trace()
    assert trace.node_periods.rows() == [
        ("a", 0.0, 20.0, 4.0, "east"),
        ("a", 20.0, None, 4.0, None),
    ]
    end = sim.now
    assert end == 60 + 60 + 60
    inside = 20 * 200 + end * 200
    assert read_clouds(trace) == {"east": inside, None: (end - 20) * 100 + end * 100}
    found = dict(metrics.energy_by_meter(trace).select("meter", "energy_j").rows())
    assert found == {"it": inside, "a": 20 * 200, "b": end * 200}


def test_a_host_that_is_removed_has_no_power_from_then_on() -> None:
    sim = change_at(20, lambda sim: sim.remove_machine("a"))
    trace = sim.trace()
    assert trace.node_periods.rows() == [("a", 0.0, 20.0, 4.0, "east")]
    by_host = metrics.energy_of_instances(trace, by="host")
    total = by_host["energy_j"] + by_host["unattributed_j"]
    assert total.to_list() == [20 * 200, 180 * 200, 180 * 100] == sim.machines["energy"].to_list()
    assert metrics.energy_by_meter(trace)["energy_j"].to_list() == [40_000, 4_000, 36_000]
    capacity = metrics.use_of_instances(trace, by="host")["capacity_core_s"].to_list()
    assert capacity == [4 * 20, 4 * 180, 4 * 180]


def test_the_power_of_a_host_follows_the_number_of_its_cores() -> None:
    """From 20 s on, `a` has eight cores: four in use are half of them, and the third task fits."""
    sim = change_at(20, lambda sim: sim.set_cores("a", 8))
    trace = sim.trace()
    assert trace.node_periods.select("start", "end", "cores").rows() == [(0, 20, 4), (20, None, 8)]
    joules = [20 * 200 + 40 * 200 + 20 * 150, 60 * 200 + 20 * 100, 80 * 100]
    by_host = metrics.energy_of_instances(trace, by="host")
    assert (by_host["energy_j"] + by_host["unattributed_j"]).to_list() == joules
    assert sim.machines["energy"].to_list() == joules
    capacity = metrics.use_of_instances(trace, by="host")["capacity_core_s"].to_list()
    assert capacity == [4 * 20 + 8 * 60, 4 * 80, 4 * 80]


def test_copies_have_the_changes_of_their_own() -> None:
    sim = Simulation(make_cloud([make_task(0, run_time=60)]))
    sim.run_until(20)
    sim.cloud("east").register_host("s")
    other = sim.copy()
    other.run_until(30)
    other.cloud("east").deregister_host("s")
    assert sim.trace().node_periods["cloud"].to_list() == [None, "east"]
    assert other.trace().node_periods["cloud"].to_list() == [None, "east", None]


# --- laws ----------------------------------------------------------------------------------------

ORDERS: dict[str, Callable[[Simulation], None]] = {
    "nothing": lambda sim: None,
    "register": lambda sim: sim.cloud("east").register_host("s"),
    "deregister": lambda sim: sim.cloud("east").deregister_host("a", violent=True),
    "remove": lambda sim: sim.remove_machine("a"),
    "grow": lambda sim: sim.set_cores("a", 6),
    "fail": lambda sim: sim.fail("a"),
}
TIMES = st.sampled_from([0.5, 3.0, 4.0, 7.25, 12.0, 20.0, 33.0])
TASKS = st.lists(
    st.tuples(st.sampled_from([0, 2, 9]), st.sampled_from([3, 10, 25]), st.integers(1, 4)),
    min_size=1,
    max_size=5,
)


@examples(10, deadline=None)
@given(rows=TASKS, order=st.sampled_from(sorted(ORDERS)), first=TIMES, then=TIMES)
def test_energy_is_conserved_across_hosts_clouds_and_meters(
    rows: list[tuple[float, float, int]], order: str, first: float, then: float
) -> None:
    tasks = [make_task(i, *row) for i, row in enumerate(rows)]
    sim = Simulation(make_cloud(tasks, delay=1, work=4, limit=2))
    sim.run_until(sim.now + first)
    ORDERS[order](sim)
    sim.run_until(sim.now + then)
    check_energy(sim, order)
    sim.run()
    check_energy(sim, order)


def check_energy(sim: Simulation, order: str) -> None:
    trace = sim.trace()
    by_host = metrics.energy_of_instances(trace, by="host")
    whole = by_host["energy_j"] + by_host["unattributed_j"]
    metered = sim.machines.filter(pl.col("energy").is_not_null())["energy"]
    assert whole.to_list() == pytest.approx(metered.to_list(), rel=1e-9, abs=1e-6)
    instances = metrics.energy_of_instances(trace)["energy_j"].sum()
    assert instances == pytest.approx(by_host["energy_j"].sum())
    clouds = read_clouds(trace)
    assert sum(clouds.values()) == pytest.approx(metered.sum())
    meters = dict(metrics.energy_by_meter(trace).select("meter", "energy_j").rows())
    assert meters["it"] == pytest.approx(clouds["east"])
    if order != "register":  # that host has no meter of its own
        assert meters["it"] == pytest.approx(sum(meters[name] for name in HOSTS))
