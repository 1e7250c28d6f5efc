"""What users of other cloud simulators report as wrong or missing, each by hand or by a law."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.clouds.cases import (
    GB,
    IDLE,
    IMAGE,
    MAX,
    ON,
    POWER,
    SECONDS_ON,
    STATES,
    finish,
    make_host,
    make_scenario,
    make_task,
)
from tests.examples import examples
from twinloop import metrics
from twinloop.engine import CompiledScenario


@examples(8)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 60)), min_size=1, max_size=10))
def test_finish_times_follow_from_the_run_times(rows: list[tuple[int, int]]) -> None:
    # Enough room for all: image and boot of each take their time, then each task its run time.
    tasks = [make_task(i, submit=100 * i + s, run_time=r) for i, (s, r) in enumerate(rows)]
    run = tl.simulate(make_scenario([make_host("a", cores=16)], tasks, image=IMAGE))
    # 1 s of copy, 1 s of delay, 4 core-seconds on one core.
    expected = [100 * i + s + 6 + r for i, (s, r) in enumerate(rows)]
    ends = dict(run.placements.select("task", "end").rows())
    assert [ends[f"t{i}"] for i in range(len(rows))] == pytest.approx(expected)


def test_migrations_that_are_ordered_happen() -> None:
    sim = finish(
        [make_host("a b c", memory="8 GB")],
        [make_task(i, run_time=500, memory=GB) for i in range(3)],
        controllers={
            "placement": "worst-fit",
            "consolidation": {"name": "consolidate", "options": {"interval": 60}},
        },
    )
    # One instance on each host: two of them move to the third one, within the first decisions.
    assert sim.kpis()["migrations"] == 2
    moved = sim.trace().instances.filter(reason="released")
    assert moved["host"].n_unique() == 1
    assert set(sim.tasks["status"]) == {"completed"}


def test_switching_a_host_on_takes_time_and_energy() -> None:
    run = tl.simulate(
        make_scenario(
            [make_host("a", power=POWER, states=STATES)],
            [make_task(0, run_time=100, cores=4)],
            controllers={"machines": "on-demand"},
        )
    )
    assert run.placements["start"].to_list() == [SECONDS_ON]
    assert metrics.figures(run).energy == pytest.approx(SECONDS_ON * ON + 100 * MAX)


@pytest.mark.parametrize(
    ("hosts", "tasks", "cloud", "statuses"),
    [
        # Larger than every host, larger than the limits, and with a small one behind it.
        ([make_host()], [make_task(0, cores=5), make_task(1)], {}, ["rejected", "completed"]),
        ([make_host()], [make_task(0)], {"limits": {"cores": 0.5}}, ["rejected"]),
        (
            [make_host(memory="1 GB")],
            [make_task(0, memory=2 * GB), make_task(1)],
            {},
            ["rejected", "completed"],
        ),
        # No host may run while none is needed: it is switched on for the task.
        (
            [make_host(power=POWER, states=STATES)],
            [make_task(0)],
            {"controllers": {"machines": "on-demand"}},
            ["completed"],
        ),
        # Controllers with a period do not keep the run alive.
        (
            [make_host(memory="8 GB")],
            [make_task(0)],
            {"controllers": {"consolidation": {"name": "consolidate", "options": {"interval": 1}}}},
            ["completed"],
        ),
    ],
    ids=["host", "limits", "memory", "off", "interval"],
)
def test_runs_end_also_with_requests_that_cannot_be_served(
    hosts: list[Any], tasks: list[Any], cloud: dict[str, Any], statuses: list[str]
) -> None:
    sim = finish(hosts, tasks, **cloud)
    assert sim.tasks["status"].to_list() == statuses
    assert sim.now <= SECONDS_ON + 10


def test_transfers_and_power_are_in_one_run() -> None:
    # Two images share the port of the store: 200 MB in 2 s, in which the hosts are idle.
    tasks = [make_task(i, run_time=50, cores=4) for i in range(2)]
    image = IMAGE | {"boot": {"work": 0}}
    run = tl.simulate(make_scenario([make_host(power=POWER)], tasks, image=image, latency=0.5))
    assert run.placements["start"].to_list() == pytest.approx([2.5, 2.5])
    assert metrics.figures(run).energy == pytest.approx(2 * (2.5 * IDLE + 50 * MAX))


def test_an_instance_is_created_in_the_time_of_its_image_and_boot_or_as_a_container_at_once() -> (
    None
):
    for image, ready in ((IMAGE, 1 + 1 + 2), ({"name": "container"}, 0)):
        run = tl.simulate(make_scenario([make_host()], [make_task(0, cores=2)], image=image))
        assert run.instances["ready"].to_list() == pytest.approx([ready])


def test_twenty_thousand_instances_at_once_are_exact() -> None:
    # All at once on 500 hosts of 40 cores, with image, boot and power.
    count = 20_000
    tasks = pl.DataFrame(
        {
            "id": [str(i) for i in range(count)],
            "submit": np.zeros(count),
            "cores": np.ones(count),
            "work": np.full(count, 100.0),
            "limit": np.ones(count),
        }
    )
    hosts = make_host("", cores=40, power=POWER) | {"names": [f"h{i}" for i in range(500)]}
    scenario = make_scenario([hosts], [make_task(0)], image=IMAGE)
    compiled = CompiledScenario(scenario.replace(workload=tl.Workload(tasks=tasks)))
    figures = compiled.run()
    # The port of the store, 100 MB/s, carries all images of 100 MB; then 1 s, 4 s and the task.
    assert figures["makespan_s"] == pytest.approx(count + 1 + 4 + 100)
    assert figures["instances"] == count
    work = count * (100 + 4) / 40
    energy = 500 * IDLE * figures["makespan_s"] + (MAX - IDLE) * work
    assert figures["energy_j"] == pytest.approx(energy)
