"""Migration of instances by the formula of pre-copy (Clark et al., "Live Migration of Virtual
Machines", NSDI 2005): a round sends what the round before it has left dirty."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import (
    GB,
    MB,
    POWER,
    STATES,
    finish,
    is_clear,
    list_rentals,
    make_host,
    make_scenario,
    make_task,
    start,
)
from tests.examples import examples
from twinloop import metrics
from twinloop.engine import CompiledScenario, Simulation

RATE = 100 * MB
#: One host has two cores in use, the other one: the second instance moves to the first at 60 s.
TASKS = [
    make_task(0, run_time=500, cores=2, memory="1 GB"),
    make_task(1, run_time=300, cores=1, memory="1 GB"),
]
SPREAD = {
    "placement": "worst-fit",
    "consolidation": {"name": "consolidate", "options": {"interval": 60}},
}


def make_hosts(**others: Any) -> list[dict[str, Any]]:
    return [make_host("a b", memory="8 GB", **others)]


def list_rounds(size: float, dirty: float, threshold: float, rounds: int) -> list[float]:
    """List the bytes of each round; the instance is stopped in the last one."""
    sent = [size]
    while True:
        left = min(size, dirty * sent[-1] / RATE)
        sent.append(left)
        if left <= threshold or len(sent) > rounds:
            return sent


def move(**migration: Any) -> Simulation:
    return finish(make_hosts(), TASKS, controllers=SPREAD, migration=migration)


@examples(10)
@given(
    dirty=st.integers(0, 150),
    threshold=st.integers(0, 300),
    rounds=st.integers(1, 8),
)
def test_live_migration_follows_the_formula_of_pre_copy(
    dirty: int, threshold: int, rounds: int
) -> None:
    sim = move(dirty_rate=f"{dirty} MB/s", threshold=f"{threshold} MB", rounds=rounds)
    sent = list_rounds(GB, dirty * MB, threshold * MB, rounds)
    trace = sim.trace()
    (moved,) = trace.transfers.filter(kind="migration").rows(named=True)
    assert (moved["from"], moved["to"], moved["start"]) == ("b", "a", 60.0)
    assert moved["bytes"] == pytest.approx(sum(sent))
    assert moved["end"] == pytest.approx(60.0 + sum(sent) / RATE)
    rentals = metrics.figures(trace).rentals
    assert rentals is not None
    assert rentals.migrations == 1
    assert rentals.downtime == pytest.approx(sent[-1] / RATE, abs=1e-9)
    assert sim.tasks["end"].to_list() == pytest.approx([500.0, 300.0 + sent[-1] / RATE])
    assert sim.kpis()["downtime_s"] == pytest.approx(rentals.downtime, abs=1e-12)
    assert is_clear(sim)


def test_a_cold_migration_stops_the_instance_for_the_whole_copy() -> None:
    sim = move(mode="cold")
    assert sim.tasks["end"].to_list() == [500.0, 310.0]
    assert sim.kpis()["downtime_s"] == 10.0


def test_a_limit_of_the_bandwidth_makes_the_copy_longer() -> None:
    assert move(mode="cold", bandwidth="20 MB/s").kpis()["downtime_s"] == 50.0


def test_the_rows_of_an_instance_are_split_at_its_migration() -> None:
    rows = move(mode="cold").trace().instances.filter(instance="instance-2")
    assert rows.select("host", "start", "end", "reason").rows() == [
        ("b", 0.0, 70.0, "moved"),
        ("a", 70.0, 310.0, "released"),
    ]
    assert rows["requested"].to_list() == [0.0, None]


# The instance stops and moves while two tasks share the hosts, which are metered: the core-seconds
# of the work do not change, so the energy follows from the times at which hosts are in use.
def test_both_ends_of_a_migration_use_power() -> None:
    sim = finish(make_hosts(power=POWER), TASKS, controllers=SPREAD, migration={"mode": "cold"})
    work = 2 * 500 + 1 * 300
    idle, top = POWER["idle"], POWER["max"]
    assert sim.kpis()["energy_j"] == pytest.approx(2 * idle * 500 + (top - idle) / 4 * work)


def test_a_drained_host_is_switched_off() -> None:
    sim = finish(
        make_hosts(power=POWER, states=STATES),
        TASKS,
        controllers={**SPREAD, "machines": {"name": "power-saving", "options": {"idle_time": 0}}},
        migration={"mode": "cold"},
    )
    states = sim.trace().node_states.filter(node="b").select("state", "start", "end").rows()
    assert states[0] == ("switching-off", 70.0, 82.0)


@pytest.mark.parametrize("mode", ["live", "cold"])
def test_an_instance_continues_where_it_was_if_its_target_fails(mode: str) -> None:
    sim = start(make_hosts(), TASKS, controllers=SPREAD, migration={"mode": mode})
    sim.run_until(64.0)
    sim.fail("a")
    sim.run_until(65.0)
    stopped = 4.0 if mode == "cold" else 0.0
    assert sim.kpis()["migrations"] == 0
    assert sim.kpis()["downtime_s"] == stopped
    sim.restore("a")
    sim.run()
    # It moves later, after the task of the host that failed has begun again.
    assert sim.tasks["status"].to_list() == ["completed"] * 2
    assert is_clear(sim)


def test_an_instance_is_lost_with_its_source() -> None:
    sim = start(make_hosts(), TASKS, controllers=SPREAD)
    sim.run_until(64.0)
    sim.fail("b")
    sim.run()
    rows = sim.trace().instances.select("instance", "host", "end", "reason").rows()
    assert ("instance-2", "b", 64.0, "lost") in rows
    # Its task begins again on a new instance, beside the other one.
    assert sim.tasks["end"].to_list() == [500.0, 364.0]
    assert is_clear(sim)


def test_a_migration_ends_with_the_task() -> None:
    tasks = [TASKS[0], make_task(1, run_time=64, cores=1, memory="1 GB")]
    sim = finish(make_hosts(), tasks, controllers=SPREAD, migration={"dirty_rate": "50 MB/s"})
    (moved,) = sim.trace().transfers.filter(kind="migration").rows(named=True)
    assert (moved["end"], moved["bytes"], moved["reason"] == "completed") == (64.0, 4 * RATE, False)
    assert sim.kpis()["migrations"] == 0
    assert is_clear(sim)
    assert (
        sim.machines["free_cores"].to_list()
        == start(make_hosts(), TASKS).machines["free_cores"].to_list()
    )


@pytest.mark.parametrize(
    ("method", "hosts"),
    [
        # `b` has 3 of 4 cores allocated, above the threshold.
        ("draining", {"instance-1": ["a"], "instance-2": ["b"], "instance-3": ["b"]}),
        # The instance of 2 cores does not fit beside the one of 3 cores.
        ("first-fit", {"instance-1": ["a"], "instance-2": ["b"], "instance-3": ["b", "a"]}),
    ],
)
def test_first_fit_moves_single_instances_to_the_first_hosts(
    method: str, hosts: dict[str, list[str]]
) -> None:
    options = {"method": method, "interval": 60}
    controllers = {
        "placement": "worst-fit",
        "consolidation": {"name": "consolidate", "options": options},
    }
    tasks = [
        make_task(i, run_time=200, cores=cores, memory="1 GB") for i, cores in enumerate((3, 2, 1))
    ]
    sim = finish(make_hosts(), tasks, controllers=controllers)
    found: dict[str, list[str]] = {}
    for instance, host in list_rentals(sim, "instance", "host"):
        found.setdefault(instance, []).append(host)
    assert found == hosts


def test_a_host_is_not_drained_if_others_have_no_room() -> None:
    tasks = [make_task(i, run_time=300, cores=3, memory="1 GB") for i in range(2)]
    sim = finish(
        make_hosts(),
        tasks,
        controllers={
            "placement": "worst-fit",
            "consolidation": {"name": "consolidate", "options": {"interval": 60, "threshold": 1.0}},
        },
    )
    assert sim.kpis()["migrations"] == 0


# The daily cycle of U. Lublin and D. Feitelson, "The workload on parallel supercomputers", 2003.
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_weighing_the_cost_needs_no_more_energy_and_downtime_than_draining(seed: int) -> None:
    ports = {"in": "1 Gb/s", "out": "1 Gb/s"}
    host = make_host("", cores=64, power=POWER, states=STATES) | {
        "ports": ports,
        "memory": "256 GB",
    }
    host["names"] = [f"pm{i}" for i in range(20)]
    load = {"tasks": 1500, "machine": 64, "memory_per_core": 1e9}
    figures = {}
    for method in ("draining", "cost"):
        scenario = make_scenario(
            [host],
            TASKS,
            controllers={
                "machines": "on-demand",
                "consolidation": {"name": "consolidate", "options": {"method": method}},
            },
            migration={"dirty_rate": "25 MB/s", "threshold": "50 MB"},
        ).replace(workload={"generate": {"name": "lublin", "parameters": load}}, seed=seed)
        figures[method] = CompiledScenario(scenario).run()
    draining, cost = figures["draining"], figures["cost"]
    assert draining["migrations"] > 0
    assert cost["energy_j"] <= draining["energy_j"]
    assert cost["downtime_s"] <= draining["downtime_s"]
