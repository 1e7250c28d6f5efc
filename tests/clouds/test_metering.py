"""Energy and use of a cloud in the middle of a run: by hand, and as the simulation meters them."""

from __future__ import annotations

import math

import pytest

import twinloop as tl
from tests.clouds.cases import POWER, make_host, make_scenario, make_task
from twinloop import metrics
from twinloop.engine import CompiledScenario, Simulation
from twinloop.scenario import Scenario

#: The first example of docs/clouds.md: both images arrive at 9 s; the boots use a core from 11 s to
#: 17 s. The third instance gets the first host at 67 s, and boots from 74 s on.
EXAMPLE = Scenario.from_text("""
platform:
  clusters:
    - name: rack
      hosts:
        - {name: pm, count: 2, cores: 4, memory: 8 GB, ports: 100 MB/s, store: {capacity: 1 TB},
           power: {model: linear, idle: 100 W, max: 200 W}}
  stores: [{name: images, ports: 100 MB/s}]
  network: {latency: 1s}
  clouds:
    - name: east
      images: [{name: base, size: 400 MB, store: images, boot: {delay: 2s, work: 6, limit: 1}}]
workload:
  tasks:
    - {id: a, cores: 2, run_time: 50}
    - {id: b, cores: 4, run_time: 60}
    - {id: c, cores: 4, run_time: 20}
policy: one-per-task
""")
#: By time: the used core-seconds of each instance, and the energy of each host.
BY_HAND = {
    13.0: ([2, 2, 0], [1300 + 25 * 2, 1300 + 25 * 2]),
    20.0: ([6 + 2 * 3, 6 + 4 * 3, 0], [2000 + 25 * 12, 2000 + 25 * 18]),
    67.0: ([106, 6 + 4 * 50, 0], [6700 + 25 * 106, 6700 + 25 * 206]),
    70.0: ([106, 6 + 4 * 53, 0], [7000 + 25 * 106, 7000 + 25 * 218]),
    78.0: ([106, 246, 4], [7800 + 25 * 110, 7800 + 25 * 246]),
}


@pytest.fixture(scope="module")
def started() -> Simulation:
    return Simulation(EXAMPLE)


@pytest.mark.parametrize("time", BY_HAND)
def test_tasks_that_run_count_up_to_the_present_time(started: Simulation, time: float) -> None:
    sim = started.copy()
    sim.run_until(time)
    trace = sim.trace()
    used, joules = BY_HAND[time]
    use = metrics.use_of_instances(trace)["used_core_s"].to_list()
    assert use == pytest.approx(used[: len(use)])
    by_host = metrics.energy_of_instances(trace, by="host")
    total = by_host["energy_j"] + by_host["unattributed_j"]
    assert total.to_list() == pytest.approx(joules)
    assert sim.machines.head(2)["energy"].to_list() == pytest.approx(joules)
    assert metrics.energy_by_meter(trace)["energy_j"].to_list() == pytest.approx([sum(joules)])
    # Two instances of 2 and 4 cores until 67 s, then that of 4 cores and one of 4 cores.
    leased = 6 * min(time, 67) + 8 * max(0, min(time, 77) - 67) + 4 * max(0, time - 77)
    assert metrics.figures(trace).rentals.core_seconds == pytest.approx(leased)
    assert sim.kpis()["instance_core_s"] == pytest.approx(leased)


def test_instances_have_no_energy_of_their_own_among_the_machines(started: Simulation) -> None:
    sim = started.copy()
    sim.run_until(20)
    machines = sim.machines
    assert machines["energy"].to_list() == [2300.0, 2450.0, None, None, None]
    assert machines["energy"].sum() == 4750.0


def test_use_in_the_middle_of_a_run_needs_no_power_models() -> None:
    sim = Simulation(make_scenario([make_host("a")], [make_task(0, run_time=50, cores=2)]))
    sim.run_until(20)
    (row,) = metrics.use_of_instances(sim.trace()).rows(named=True)
    assert (row["leased_core_s"], row["used_core_s"]) == (40.0, 40.0)


def test_tasks_that_run_on_an_overcommitted_host_count_with_what_they_got() -> None:
    """Of four cores, six are wanted; at 42 s the tasks have 2/3 of their cores for 42 s."""
    packed = {"placement": {"name": "pack-ic", "options": {"overcommit": 2.0}}}
    tasks = [make_task(0, run_time=50, cores=2), make_task(1, run_time=60, cores=4)]
    host = make_host("a", power=POWER)
    sim = Simulation(make_scenario([host], tasks, controllers=packed))
    sim.run_until(42)
    found = metrics.use_of_instances(sim.trace())
    assert found["used_core_s"].to_list() == pytest.approx([56, 112])
    assert found["shortfall_core_s"].to_list() == pytest.approx([84 - 56, 168 - 112])
    by_host = metrics.energy_of_instances(sim.trace(), by="host")
    assert by_host["energy_j"].sum() == pytest.approx(POWER["max"] * 42)


def test_a_trace_of_a_run_so_far_has_the_executions_that_go_on(started: Simulation) -> None:
    sim = started.copy()
    sim.run_until(70)
    trace = sim.trace()
    rows = trace.placements.select("task", "machine", "cores", "start", "end", "reason").rows()
    assert rows == [
        ("a", "instance-1", 2.0, 17.0, 67.0, "completed"),
        ("b", "instance-2", 4.0, 17.0, None, None),
    ]
    assert trace.tasks["cpu_time"].to_list() == pytest.approx([100.0, 4 * 53.0, None])
    assert "times-known" not in [finding.rule for finding in tl.check(trace).warnings]
    # A task counts in the figures from its end on, as in the KPIs. Its own wait is known before.
    assert metrics.figures(trace).ran == 1
    assert metrics.per_task(trace)["wait"].to_list() == [17.0, 17.0, None]


def test_the_wait_of_a_task_that_runs_is_known_to_service_levels() -> None:
    """At 20 s, two tasks have waited for 17 s; the third one still waits."""
    rules = [{"metric": "wait", "limit": "18s"}, {"metric": "wait", "limit": "16s"}]
    sim = Simulation(EXAMPLE.replace(**{"platform.clouds[0].sla": rules}))
    sim.run_until(20)
    found = metrics.service_levels(sim.trace())
    assert found.select("count", "exceeded").rows() == [(3, 1), (3, 3)]


@pytest.mark.parametrize(("billed", "bill"), [("east", 0.01), ("west", 0.0), (None, None)])
@pytest.mark.parametrize("is_used", [True, False])
def test_a_cloud_that_bills_and_has_no_instance_has_a_bill_of_zero(
    billed: str | None, bill: float | None, is_used: bool
) -> None:
    """Without instances, such as for a task that fits on no host, nothing is billed."""
    billing = {"billing": {"unit": 60, "price": 0.01}}
    clouds = [
        {"name": name, "clusters": [name], **(billing if name == billed else {})}
        for name in ("east", "west")
    ]
    clusters = [{"name": name, "hosts": [{"cores": 4}]} for name in ("east", "west")]
    tasks = [make_task(0, cores=1 if is_used else 9)]
    platform = {"clusters": clusters, "clouds": clouds}
    scenario = Scenario(platform=platform, workload={"tasks": tasks}, policy="one-per-task")
    found = metrics.figures(tl.simulate(scenario)).to_dict()
    native = CompiledScenario(scenario).run()
    expected = bill if is_used or bill is None else 0.0
    assert found["bill"] == expected
    assert native["bill"] == (pytest.approx(math.nan, nan_ok=True) if bill is None else expected)
    assert found["instances"] == native["instances"] == int(is_used)
