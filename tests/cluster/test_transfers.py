"""Tasks with files on a platform with stores: read steps, work, write steps."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation, simulate
from twinloop.scenario import Scenario
from twinloop.workload import Workload

MB = 1e6


def workload(
    tasks: dict[str, float],
    files: dict[str, float | None],
    uses: list[tuple[str, str, str]],
    parents: dict[str, list[str]] | None = None,
    **columns: Any,
) -> Workload:
    """Tasks of one core by their run time, files by their size, and uses (task, file, access)."""
    count = len(tasks)
    frame = pl.DataFrame(
        {
            "id": list(tasks),
            "submit": [0.0] * count,
            "cores": [1.0] * count,
            "work": list(tasks.values()),
            "limit": [1.0] * count,
            "parents": [(parents or {}).get(task, []) for task in tasks],
            **columns,
        },
        schema_overrides={"parents": pl.List(pl.String)},
    )
    return Workload(
        tasks=frame,
        files=pl.DataFrame(
            {"file": list(files), "size": list(files.values())},
            schema={"file": pl.String, "size": pl.Float64},
        ),
        task_files=pl.DataFrame(uses, schema=["task", "file", "access"], orient="row"),
    )


def scenario(load: Workload, hosts: dict[str, Any] | None = None, **more: Any) -> Scenario:
    store = more.pop("store", {"name": "disk", "read": "50 MB/s"})
    network = more.pop("network", {"latency": "1s"})
    host = {"cores": 2, "count": 2, "ports": "100 MB/s", **(hosts or {})}
    return Scenario(
        platform={
            "clusters": [{"hosts": [host]}],
            "stores": [store] if store else [],
            "network": network,
        },
        policy="fcfs",
        workload=load,
        **more,
    )


CHAIN = workload(
    {"a": 10.0, "b": 5.0},
    {"in": 100 * MB, "mid": 50 * MB},
    [("a", "in", "read"), ("a", "mid", "write"), ("b", "mid", "read")],
    {"b": ["a"]},
)
#: Contention without effect makes the machines shared resources.
SHARED = {"model": {"contention": {"linear": {"slope": 0.0}}}}


@pytest.mark.parametrize("mode", [{}, SHARED], ids=["timers", "shared machines"])
def test_read_work_and_write_follow_each_other(mode):
    trace = simulate(scenario(CHAIN, **mode))
    # Latency 1 s; reads at 50 MB/s (the store), writes at 100 MB/s (the port).
    assert trace.transfers.select("kind", "subject", "file", "start", "end").rows() == [
        ("read", "a", "in", 0.0, 3.0),
        ("write", "a", "mid", 13.0, 14.5),
        ("read", "b", "mid", 14.5, 16.5),
    ]
    assert trace.transfers["from"].to_list() == ["disk", "C01-H01-001", "disk"]
    assert trace.placements.select("start", "end").rows() == [(0.0, 14.5), (14.5, 21.5)]
    assert trace.tasks["cpu_time"].to_list() == [10.0, 5.0]


def test_without_stores_files_are_ignored():
    trace = simulate(scenario(CHAIN, store=None))
    assert trace.transfers.is_empty()
    assert trace.placements["end"].to_list() == [10.0, 15.0]


def test_concurrent_reads_share_the_store_and_streams_bound_them():
    tasks = {f"t{i}": 1.0 for i in range(4)}
    load = workload(tasks, {"in": 50 * MB}, [(task, "in", "read") for task in tasks])
    together = simulate(scenario(load, network=None))
    assert together.transfers["end"].to_list() == [4.0] * 4
    store = {"name": "disk", "read": "50 MB/s", "streams": 1}
    after_each_other = simulate(scenario(load, network=None, store=store))
    assert after_each_other.transfers["end"].to_list() == [1.0, 2.0, 3.0, 4.0]
    assert after_each_other.transfers["subject"].to_list() == list(tasks)


def test_the_links_on_the_way_bound_a_transfer():
    network = {
        "switches": ["core"],
        "links": [
            {"between": ["C01", "core"], "bandwidth": "80 Mb/s", "latency": "1s"},
            {"between": ["core", "disk"], "bandwidth": "1 Gb/s", "latency": "2s"},
        ],
    }
    load = workload({"a": 1.0}, {"in": 30 * MB}, [("a", "in", "read")])
    assert simulate(scenario(load, network=network)).transfers["end"].to_list() == [6.0]


@pytest.mark.parametrize("mode", [{}, SHARED], ids=["timers", "shared machines"])
@pytest.mark.parametrize("time", [0.5, 2.0, 7.0, 13.5, 14.0])
def test_a_failure_in_any_step_cancels_the_transfer_and_gives_everything_back(time, mode):
    sim = Simulation(scenario(CHAIN, **mode))
    sim.run_until(time)
    before = sim._run.live_transfers
    assert before == (0 if time == 7.0 else 1)
    sim.fail("C01-H01-001")
    assert sim._run.live_transfers <= 1  # that of the restart on the other machine
    sim.run()
    trace = sim.trace()
    assert trace.tasks["status"].to_list() == ["completed", "completed"]
    cancelled = trace.transfers.filter(pl.col("reason") == "cancelled")
    assert cancelled.height == before
    if before:
        assert cancelled["end"].to_list() == [time]
        assert cancelled["bytes"][0] < 100 * MB
    assert trace.placements["end"].max() == pytest.approx(time + 21.5)
    assert sim._run.live_transfers == 0
    assert sim._run.stored_bytes().tolist() == [150 * MB]


def test_a_task_is_killed_at_its_requested_time_also_during_a_transfer():
    load = workload(
        {"a": 10.0, "b": 10.0},
        {"in": 100 * MB, "out": 900 * MB},
        [("a", "in", "read"), ("b", "out", "write")],
        requested_time=[2.0, 15.0],
    )
    trace = simulate(scenario(load, model={"kill_at_requested_time": True}))
    assert trace.tasks["status"].to_list() == ["killed", "killed"]
    assert trace.placements["end"].to_list() == [2.0, 15.0]
    # 1 s of latency, then 1 s at 50 MB/s; 4 s at 100 MB/s after 10 s of work and the latency.
    assert trace.transfers["bytes"].to_list() == pytest.approx([50 * MB, 400 * MB])
    assert trace.transfers["reason"].to_list() == ["cancelled", "cancelled"]


def test_a_write_without_space_fails_its_task():
    load = workload(
        {"a": 1.0, "b": 1.0}, {"x": 60.0, "y": 60.0}, [("a", "x", "write"), ("b", "y", "write")]
    )
    store = {"name": "disk", "capacity": "100 B"}
    trace = simulate(scenario(load, store=store))
    assert trace.tasks["status"].to_list() == ["completed", "failed"]


def test_files_that_never_fit_are_refused():
    store = {"name": "disk", "capacity": "10 MB"}
    with pytest.raises(InputError, match=r"stores\[0\].capacity: file '\w+' needs"):
        CompiledScenario(scenario(CHAIN, store=store))


def test_a_copy_in_the_middle_of_a_transfer_goes_on_alike():
    sim = Simulation(scenario(CHAIN, **SHARED))
    sim.run_until(2.0)
    twin = sim.copy()
    assert sim.run().equals(twin.run())
    assert sim.transfers.equals(twin.transfers)


sizes = st.sampled_from([0.0, 10 * MB, 75 * MB])
loads = st.lists(st.tuples(sizes, sizes, st.sampled_from([0.0, 1.0, 4.0])), min_size=1, max_size=8)


@given(
    loads,
    st.sampled_from([None, 1, 2]),
    st.sampled_from([{}, SHARED]),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 2)), max_size=4),
)
@examples(15)
def test_bytes_are_conserved_and_nothing_is_leaked(load, streams, mode, failures):
    tasks = {f"t{i}": work for i, (_, _, work) in enumerate(load)}
    files = {f"i{i}": read for i, (read, _, _) in enumerate(load)}
    files |= {f"o{i}": write for i, (_, write, _) in enumerate(load)}
    uses = [(f"t{i}", f"i{i}", "read") for i in range(len(load))]
    uses += [(f"t{i}", f"o{i}", "write") for i in range(len(load))]
    store = {"name": "disk", "read": "50 MB/s", "write": "20 MB/s"}
    if streams:
        store["streams"] = streams
    sim = Simulation(scenario(workload(tasks, files, uses), store=store, **mode))
    for time, host in sorted(failures):
        if time / 2 < sim.now:
            continue
        sim.run_until(time / 2)
        sim.fail(f"C01-H01-00{host}")
        sim.restore(f"C01-H01-00{host}")
    sim.run()
    transfers = sim.transfers
    assert sim.tasks["status"].to_list() == ["completed"] * len(load)
    done = transfers.filter(pl.col("reason") == "completed")
    # Each output is written once, and every read of the last attempt is complete.
    writes = done.filter(pl.col("kind") == "write")
    assert sorted(writes["file"]) == sorted(f"o{i}" for i in range(len(load)))
    expected = [files[name] for name in done["file"]]
    assert done["bytes"].to_list() == pytest.approx(expected)
    assert sim._run.stored_bytes()[0] == pytest.approx(sum(files.values()))
    assert sim._run.live_transfers == 0
    # The store serves no more than its bandwidth, and no more than its streams.
    for kind, rate in (("read", 50 * MB), ("write", 20 * MB)):
        mine = transfers.filter(pl.col("kind") == kind)
        if mine.height:
            span = float(mine["end"].max()) - float(mine["start"].min())
            assert float(mine["bytes"].sum()) <= rate * span * (1 + 1e-9)
