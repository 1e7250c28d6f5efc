"""Leased, used and missing cores of instances and hosts, by hand and by their laws."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twinloop as tl
from tests.clouds.cases import GB, make_host, make_scenario, make_task
from tests.examples import examples
from twinloop import metrics

PACKED = {"placement": {"name": "pack-ic", "options": {"overcommit": 2.0}}}
SUMS = ("leased_core_s", "used_core_s", "shortfall_core_s")
#: A boot of 2 s, then 6 core-seconds on one core.
BOOT = {"name": "base", "boot": {"delay": 2, "work": 6, "limit": 1}}


def test_instances_of_an_overcommitted_host_miss_what_they_could_use() -> None:
    # Of four cores, six are wanted from 8 s on. The first task has 2/3 of its cores until 83 s;
    # the second one by then 200 of its 240 core-seconds, and all four cores for 10 s.
    tasks = [
        make_task(0, run_time=50, cores=2, user="ann"),
        make_task(1, run_time=60, cores=4, user="bob"),
    ]
    hosts = [make_host()]
    run = tl.simulate(make_scenario(hosts, tasks, image=BOOT, controllers=PACKED))
    assert run.instances["end"].to_list() == pytest.approx([83, 93])
    found = metrics.use_of_instances(run)
    assert found.select("instance", "cloud", "user").rows() == [
        ("instance-1", "cloud", "ann"),
        ("instance-2", "cloud", "bob"),
    ]
    assert found["leased_core_s"].to_list() == pytest.approx([2 * 83, 4 * 93])
    assert found["used_core_s"].to_list() == pytest.approx([100 + 6, 240 + 6])
    assert found["shortfall_core_s"].to_list() == pytest.approx([2 * 75 - 100, 4 * 85 - 240])
    assert found["utilisation"].to_list() == pytest.approx([106 / 166, 246 / 372])
    by_host = metrics.use_of_instances(run, by="host")
    assert by_host.select("host", "cores").rows() == [("a", 4.0), ("b", 4.0)]
    assert by_host["capacity_core_s"].to_list() == pytest.approx([4 * 93] * 2)
    assert by_host["leased"].to_list() == pytest.approx([538 / 372, 0])
    assert by_host["utilisation"].to_list() == pytest.approx([352 / 372, 0])
    assert by_host["shortfall_core_s"].to_list() == pytest.approx([150, 0])


def test_the_work_of_a_boot_can_miss_cores() -> None:
    # Three boots want two cores each, of four: 12 core-seconds take 9 s, and 2/3 of a core is used.
    image = {"name": "base", "boot": {"work": 12, "limit": 2}}
    tasks = [make_task(i, run_time=0, cores=2) for i in range(3)]
    run = tl.simulate(make_scenario([make_host("a")], tasks, image=image, controllers=PACKED))
    assert run.instances["ready"].to_list() == pytest.approx([9.0] * 3)
    found = metrics.use_of_instances(run)
    assert found["used_core_s"].to_list() == pytest.approx([12.0] * 3)
    assert found["shortfall_core_s"].to_list() == pytest.approx([2 * 9 - 12.0] * 3)


def test_a_demand_below_the_cores_of_a_task_is_no_shortfall() -> None:
    # Half of the cores are used for 10 s, all of them for 10 s.
    workload = tl.Workload(
        tasks=pl.DataFrame({"id": ["a"], "submit": [0.0], "cores": [4.0]}),
        fragments=pl.DataFrame({"task": ["a"] * 2, "duration": [10.0] * 2, "rate": [2.0, 4.0]}),
    )
    scenario = make_scenario([make_host("a")], [make_task(0)]).replace(workload=workload)
    row = metrics.use_of_instances(tl.simulate(scenario)).row(0, named=True)
    assert [row[name] for name in SUMS] == pytest.approx([80, 60, 0])


def test_a_moved_instance_has_a_part_of_each_host() -> None:
    consolidation = {"name": "consolidate", "options": {"interval": 100}}
    tasks = [
        make_task(0, run_time=500, cores=2, memory=GB),
        make_task(1, run_time=300, cores=1, memory=GB),
    ]
    run = tl.simulate(
        make_scenario(
            [make_host(memory="8 GB")],
            tasks,
            controllers={"placement": "worst-fit", "consolidation": consolidation},
            migration={"mode": "cold"},
        )
    )
    # It is stopped from 100 s to 110 s, then on the other host for 200 s.
    assert run.instances.filter(instance="instance-2")["end"].to_list() == pytest.approx([110, 310])
    found = metrics.use_of_instances(run, by="host")
    assert found["leased_core_s"].to_list() == pytest.approx([2 * 500 + 200, 110])
    assert found["used_core_s"].to_list() == pytest.approx([2 * 500 + 200, 100])
    assert found["shortfall_core_s"].to_list() == [0.0, 0.0]


def test_wrong_subjects_are_named() -> None:
    run = tl.simulate(make_scenario([make_host("a")], [make_task(0)]))
    with pytest.raises(tl.InputError, match="by: must be one of instance, user, cloud, host"):
        metrics.use_of_instances(run, by="rack")  # type: ignore[arg-type]


TASKS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 30), st.integers(1, 4), st.sampled_from("uv")),
    min_size=1,
    max_size=8,
)


@examples(20)
@given(TASKS, st.sampled_from([1.0, 1.5, 3.0]))
def test_all_subjects_have_the_same_sums(
    rows: list[tuple[int, int, int, str]], overcommit: float
) -> None:
    controllers: dict[str, Any] = {
        "placement": {"name": "pack-ic", "options": {"overcommit": overcommit}}
    }
    tasks = [
        make_task(i, submit=submit, run_time=length, cores=cores, user=user)
        for i, (submit, length, cores, user) in enumerate(rows)
    ]
    run = tl.simulate(make_scenario([make_host()], tasks, image=BOOT, controllers=controllers))
    tables = [
        metrics.use_of_instances(run, by=by).select(pl.col(SUMS).sum()).row(0)
        for by in ("instance", "user", "cloud", "host")
    ]
    assert all(each == pytest.approx(tables[0], abs=1e-6) for each in tables)
    leased, used, shortfall = tables[0]
    assert leased == pytest.approx(metrics.figures(run).to_dict()["instance_core_s"])
    work = sum(length * cores for _, length, cores, _ in rows)
    assert used == pytest.approx(work + 6 * len(rows))
    # A task could use all its cores from its start to its end.
    wanted = sum(
        cores * (end - start)
        for cores, start, end in run.placements.select("cores", "start", "end").rows()
    )
    boots = run.instance_states.filter(state="startup")
    wanted += sum(end - start - 2 for start, end in boots.select("start", "end").rows())
    assert shortfall == pytest.approx(wanted - used, abs=1e-6)
    if overcommit == 1:
        assert shortfall == 0
