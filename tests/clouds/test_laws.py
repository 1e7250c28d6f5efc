"""Laws of all clouds, on random clouds and workloads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.clouds.cases import GB, IDLE, MAX, POWER, is_clear, make_host, make_scenario, make_task
from tests.examples import examples
from twinloop.engine import Simulation
from twinloop.scenario import Scenario

CORES, MEMORY = 4, 8


@dataclass(frozen=True)
class RandomCloud:
    """Equal hosts, one image, and tasks as (submission, run time, cores, memory in GB)."""

    speeds: tuple[float, ...]
    tasks: tuple[tuple[float, float, int, int], ...]
    size: int
    boot: dict[str, float]
    caching: str
    latency: float
    cloud: dict[str, Any]
    model: dict[str, Any]

    def make_scenario(self, **others: Any) -> Scenario:
        hosts = [
            make_host(
                f"h{i}",
                CORES,
                memory=MEMORY * GB,
                speed=speed,
                power=POWER,
                store={"capacity": "1 GB"},
            )
            for i, speed in enumerate(self.speeds)
        ]
        tasks = [
            make_task(i, submit, run_time, cores, memory=memory * GB)
            for i, (submit, run_time, cores, memory) in enumerate(self.tasks)
        ]
        image: dict[str, Any] = {"name": "base", "boot": self.boot}
        if self.size:
            image |= {"size": f"{self.size} MB", "store": "images", "caching": self.caching}
        cloud = {"model": self.model, **self.cloud, **others}
        return make_scenario(hosts, tasks, image=image, latency=self.latency, **cloud)

    def run(self, **others: Any) -> Simulation:
        sim = Simulation(self.make_scenario(**others))
        sim.run()
        return sim


TIMES = st.integers(0, 40).map(lambda tenths: tenths / 4)
CLOUDS = st.builds(
    RandomCloud,
    speeds=st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=1, max_size=3).map(tuple),
    tasks=st.lists(
        st.tuples(TIMES, TIMES.map(lambda t: t + 0.25), st.integers(1, CORES), st.integers(1, 8)),
        min_size=1,
        max_size=10,
    ).map(tuple),
    size=st.sampled_from([0, 100, 300]),
    boot=st.fixed_dictionaries(
        {
            "delay": st.sampled_from([0.0, 0.5]),
            "work": st.sampled_from([0.0, 3.0]),
            "limit": st.sampled_from([0.5, 1.0, 8.0]),
        }
    ),
    caching=st.sampled_from(["none", "first-use", "pre-staged"]),
    latency=st.sampled_from([0.0, 0.25]),
    cloud=st.fixed_dictionaries(
        {},
        optional={
            "decision_delay": st.just("1s"),
            "inter_boot_delay": st.just("1500ms"),
            "limits": st.sampled_from([{"instances": 2}, {"cores": 5}, {"memory": 10 * GB}]),
            "controllers": st.sampled_from(
                [
                    {"placement": {"name": name, "options": {"queue": queue}}}
                    for name in ("first-fit", "worst-fit", "round-robin", "random")
                    for queue in ("blocking", "skip", "refuse", "smallest-first")
                ]
            ),
        },
    ),
    model=st.sampled_from([{}, {"decide": "event"}, {"contention": {"linear": {"slope": 0.0}}}]),
)


def list_instances(sim: Simulation) -> list[dict[str, Any]]:
    table = sim.trace().instances
    return [] if table is None else table.rows(named=True)


@examples(8)
@given(CLOUDS)
def test_each_completed_task_has_one_instance_that_contains_its_placement(
    case: RandomCloud,
) -> None:
    sim = case.run()
    assert set(sim.tasks["status"]) <= {"completed", "killed"}
    instances = {each["instance"]: each for each in list_instances(sim)}
    placements = sim.trace().placements.rows(named=True)
    completed = sim.tasks.filter(pl.col("status") == "completed")["id"].to_list()
    assert sorted(row["task"] for row in placements) == sorted(completed)
    assert len({row["machine"] for row in placements}) == len(placements)
    for row in placements:
        rented = instances[row["machine"]]
        assert rented["reason"] == "released"
        assert rented["requested"] <= rented["start"] <= rented["ready"] <= row["start"]
        assert row["end"] <= rented["end"]
        assert rented["cores"] == row["cores"]
    reasons = Counter(each["reason"] for each in instances.values())
    killed = sim.tasks.height - len(completed)
    assert reasons == +Counter({"released": len(completed), "refused": killed})
    assert is_clear(sim)


@examples(8)
@given(CLOUDS)
def test_no_host_has_more_cores_or_memory_allocated_than_it_has(case: RandomCloud) -> None:
    rows = [each for each in list_instances(case.run()) if each["start"] is not None]
    for each in rows:
        beside = [
            other
            for other in rows
            if other["host"] == each["host"] and other["start"] <= each["start"] < other["end"]
        ]
        assert sum(other["cores"] for other in beside) <= CORES
        assert sum(other["memory"] for other in beside) <= MEMORY * GB


@examples(8)
@given(CLOUDS)
def test_the_energy_is_the_idle_power_and_a_share_of_the_work(case: RandomCloud) -> None:
    sim = case.run()
    seconds = sim.now - min(task[0] for task in case.tasks)
    speeds = {f"h{i}": speed for i, speed in enumerate(case.speeds)}
    host = {each["instance"]: each["host"] for each in list_instances(sim)}
    work = {f"t{i}": run_time * cores for i, (_, run_time, cores, _) in enumerate(case.tasks)}
    joules = seconds * IDLE * len(speeds)
    for task, machine in sim.trace().placements.select("task", "machine").rows():
        done = work[task] + case.boot["work"]
        joules += (MAX - IDLE) * done / (CORES * speeds[host[machine]])
    assert sum(sim._run.energy().tolist()[: len(speeds)]) == pytest.approx(joules)
    assert sim.kpis()["energy_j"] == pytest.approx(joules)


@examples(7)
@given(CLOUDS, st.integers(0, 30))
def test_a_copy_in_the_middle_ends_like_the_original(case: RandomCloud, steps: int) -> None:
    sim = Simulation(case.make_scenario())
    for _ in range(steps):
        sim.step()
    twin = sim.copy()
    sim.run()
    assert twin.run().equals(sim.tasks)
    for name in ("instances", "instance_states", "transfers", "placements"):
        first, second = getattr(sim.trace(), name), getattr(twin.trace(), name)
        assert first is second is None or first.equals(second)
    assert twin._run.energy().tolist() == sim._run.energy().tolist()


@examples(7)
@given(CLOUDS, st.lists(st.tuples(TIMES, st.integers(0, 2)), max_size=4))
def test_after_failures_all_tasks_complete_and_nothing_is_held(
    case: RandomCloud, failures: list[tuple[float, int]]
) -> None:
    others: dict[str, Any] = {"controllers": {"placement": "first-fit"}}
    last = 1e4
    full = (last, 1.0, CORES, MEMORY)
    unlimited = {key: value for key, value in case.cloud.items() if key != "limits"}
    tasks = (*case.tasks, *[full] * len(case.speeds))
    sim = Simulation(replace(case, tasks=tasks, cloud=unlimited).make_scenario(**others))
    for time, number in sorted(failures):
        host = f"h{number % len(case.speeds)}"
        sim.run_until(max(time, sim.now))
        sim.fail(host)
        sim.run_until(sim.now + 0.5)
        sim.restore(host)
    sim.run()
    assert set(sim.tasks["status"]) == {"completed"}
    assert is_clear(sim)
    # The last tasks have one host each, all at once.
    delay = 1.0 if "decision_delay" in case.cloud else 0.0
    placed = [row for row in list_instances(sim) if row["requested"] == last]
    assert [row["start"] for row in placed] == [last + delay] * len(case.speeds)
    assert len({row["host"] for row in placed}) == len(case.speeds)


@examples(7)
@given(CLOUDS)
def test_overcommitted_hosts_complete_all_work(case: RandomCloud) -> None:
    placement = {"name": "pack-ic", "options": {"overcommit": 2.0}}
    sim = case.run(controllers={"placement": placement}, model={})
    assert set(sim.tasks["status"]) == {"completed"}
    work = [run_time * cores for _, run_time, cores, _ in case.tasks]
    trace = sim.trace()
    rented = {row["instance"]: row for row in list_instances(sim)}
    own = {task: rented[name] for task, name in trace.placements.select("task", "machine").rows()}
    speeds = [case.speeds[int(own[f"t{i}"]["host"][1:])] for i in range(len(work))]
    # The CPU time of a task is in seconds of a core of its host.
    times = [amount / speed for amount, speed in zip(work, speeds, strict=True)]
    assert trace.tasks["cpu_time"].to_list() == pytest.approx(times)
    joules = (sim.now - min(task[0] for task in case.tasks)) * IDLE * len(case.speeds)
    for seconds, speed in zip(times, speeds, strict=True):
        joules += (MAX - IDLE) / CORES * (seconds + case.boot["work"] / speed)
    assert sim.kpis()["energy_j"] == pytest.approx(joules)
    # No task is faster than alone on its host.
    for i, speed in enumerate(speeds):
        row = own[f"t{i}"]
        assert row["end"] - row["ready"] >= case.tasks[i][1] / speed - 1e-9


@examples(7)
@given(CLOUDS)
def test_decisions_after_each_event_and_after_each_instant_complete_the_same_tasks(
    case: RandomCloud,
) -> None:
    placement = {"placement": {"name": "first-fit"}}
    for decide in ("event", "instant"):
        sim = case.run(model={"decide": decide}, controllers=placement)
        assert set(sim.tasks["status"]) == {"completed"}
