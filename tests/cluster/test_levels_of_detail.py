"""Levels of detail: parts of the network, files through stores of hosts, whole buffers, copies."""

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
from twinloop.scenario.detail import find_inactive_parameters

MB = 1e6
#: The steps of the chain below: (kind, task, file, start, end), by hand. The submit node reads at
#: 50 MB/s, writes at 25 and sends at 80; a host sends at 100, and its store reads at 200 and writes
#: at 100.
BY_HAND: dict[str, tuple[dict[str, str], list[tuple[str, str, str, float, float]]]] = {
    "submit": (
        {"storage": "submit"},
        [
            ("read", "a", "in", 0, 2),
            ("write", "a", "mid", 12, 14),
            ("read", "b", "mid", 14, 15),
            ("read", "b", "in", 15, 17),
            ("write", "b", "out", 27, 29),
        ],
    ),
    "all": (
        {"storage": "all"},
        [
            ("stage-in", "a", "in", 0, 2),
            ("read", "a", "in", 2, 2.5),
            ("write", "a", "mid", 12.5, 13),
            ("stage-out", "a", "mid", 13, 15),
            # Both files are copied before the first one is read.
            ("stage-in", "b", "mid", 15, 16),
            ("stage-in", "b", "in", 16, 18),
            ("read", "b", "mid", 18, 18.25),
            ("read", "b", "in", 18.25, 18.75),
            ("write", "b", "out", 28.75, 29.25),
            ("stage-out", "b", "out", 29.25, 31.25),
        ],
    ),
    "copies": (
        {"storage": "all", "cache": "host"},
        [
            ("stage-in", "a", "in", 0, 2),
            ("read", "a", "in", 2, 2.5),
            ("write", "a", "mid", 12.5, 13),
            ("stage-out", "a", "mid", 13, 15),
            ("read", "b", "mid", 15, 15.25),
            ("read", "b", "in", 15.25, 15.75),
            ("write", "b", "out", 25.75, 26.25),
            ("stage-out", "b", "out", 26.25, 28.25),
        ],
    ),
    "whole": (
        {"storage": "submit", "buffers": "whole"},
        [
            ("read", "a", "in", 0, 2 + 1.25),  # from the disk, then over the port
            ("write", "a", "mid", 13.25, 13.25 + 0.625 + 2),
            ("read", "b", "mid", 15.875, 15.875 + 1 + 0.625),
            ("read", "b", "in", 17.5, 20.75),
            ("write", "b", "out", 30.75, 33.375),
        ],
    ),
    "whole, all": (
        {"storage": "all", "buffers": "whole"},
        [
            ("stage-in", "a", "in", 0, 2 + 1.25 + 1),
            ("read", "a", "in", 4.25, 4.75),
            ("write", "a", "mid", 14.75, 15.25),
            ("stage-out", "a", "mid", 15.25, 15.25 + 0.25 + 0.625 + 2),
            ("stage-in", "b", "mid", 18.125, 18.125 + 1 + 0.625 + 0.5),
            ("stage-in", "b", "in", 20.25, 24.5),
            ("read", "b", "mid", 24.5, 24.75),
            ("read", "b", "in", 24.75, 25.25),
            ("write", "b", "out", 35.25, 35.75),
            ("stage-out", "b", "out", 35.75, 38.625),
        ],
    ),
}


def make_chain(detail: dict[str, str], **local: Any) -> Scenario:
    """Two tasks on two hosts: the first one makes a file that the second one reads."""
    store = {"read": "200 MB/s", "write": "100 MB/s", **local}
    host = {"names": ["h1", "h2"], "count": 2, "cores": 4, "ports": "100 MB/s", "store": store}
    return Scenario(
        platform={
            "clusters": [{"name": "w", "hosts": [host]}],
            "stores": [{"name": "s", "read": "50 MB/s", "write": "25 MB/s", "ports": "80 MB/s"}],
        },
        workload={
            "files": [
                {"name": "in", "size": "100 MB"},
                {"name": "mid", "size": "50 MB"},
                {"name": "out", "size": "50 MB"},
            ],
            "tasks": [
                {"id": "a", "run_time": 10, "reads": ["in"], "writes": ["mid"]},
                {"id": "b", "run_time": 10, "reads": ["mid", "in"], "writes": ["out"],
                 "parents": ["a"]},
            ],
        },
        policy="fcfs",
        model={"detail": detail},
    )  # fmt: skip


@pytest.mark.parametrize("case", BY_HAND)
def test_the_transfers_of_a_chain_are_those_worked_out_by_hand(case):
    detail, expected = BY_HAND[case]
    run = simulate(make_chain(detail))
    rows = run.transfers.select("kind", "subject", "file", "start", "end").rows()
    assert rows == [pytest.approx(row) for row in expected]
    ends = {"read": ("s", "h1"), "write": ("h1", "s")}
    if detail["storage"] == "all":
        staged = {"stage-in": ("s", "h1"), "stage-out": ("h1", "s")}
        ends = {**staged, "read": ("h1", "h1"), "write": ("h1", "h1")}
    for row in run.transfers.iter_rows(named=True):
        assert (row["from"], row["to"]) == ends[row["kind"]]
    assert run.tasks["status"].to_list() == ["completed"] * 2


def test_storage_submit_ignores_the_stores_of_files():
    files = [
        {"name": "in", "size": "100 MB", "store": "h1"},
        {"name": "mid", "size": "50 MB", "store": "local"},
        {"name": "out", "size": "50 MB"},
    ]
    submit = make_chain({"storage": "submit"})
    moved = simulate(submit.replace(**{"workload.files": files})).transfers
    assert moved.equals(simulate(submit).transfers)


@given(
    st.fixed_dictionaries(
        {
            "storage": st.sampled_from(["submit", "all"]),
            "buffers": st.sampled_from(["streamed", "whole"]),
        }
    ),
    st.lists(
        st.tuples(
            st.integers(1, 20),  # run time
            st.lists(st.integers(1, 300), max_size=3),  # sizes of inputs (MB)
            st.lists(st.integers(1, 300), max_size=3),
        ),
        min_size=1,
        max_size=4,
    ),
    st.tuples(*[st.sampled_from([10, 25, 40, 100])] * 6),
    st.sampled_from([0, 0.5]),
)
@examples(60)
def test_a_chain_on_one_core_takes_the_sum_of_its_steps(detail, tasks, bandwidths, latency):
    """Nothing is shared, so that the steps of all tasks add up; the slow and obvious way."""
    read, write, port, shared, local_read, local_write = bandwidths
    network = min(port, shared)

    def move(size: float, stages: list[tuple[float, bool]]) -> float:
        """The seconds of a movement over parts with a bandwidth, some of them of the network."""
        delay = latency if any(remote for _, remote in stages) else 0.0
        if detail["buffers"] == "whole":
            return delay + sum(size / bandwidth for bandwidth, _ in stages)
        return delay + size / min(bandwidth for bandwidth, _ in stages)

    expected = 0.0
    for run_time, inputs, outputs in tasks:
        expected += run_time
        for sizes, disk, local_in, local_out in (
            (inputs, read, local_write, local_read),
            (outputs, write, local_read, local_write),
        ):
            for size in sizes:
                if detail["storage"] == "submit":
                    expected += move(size, [(disk, False), (network, True)])
                else:
                    expected += move(size, [(disk, False), (network, True), (local_in, False)])
                    expected += size / local_out
    files, described = [], []
    for number, (run_time, inputs, outputs) in enumerate(tasks):
        names: dict[str, list[str]] = {}
        for access, sizes in (("reads", inputs), ("writes", outputs)):
            names[access] = [f"{access}-{number}-{i}" for i in range(len(sizes))]
            files += [
                {"name": name, "size": f"{size} MB"}
                for name, size in zip(names[access], sizes, strict=True)
            ]
        described.append({"id": f"t{number}", "run_time": run_time, **names})
    store = {"read": f"{local_read} MB/s", "write": f"{local_write} MB/s"}
    scenario = Scenario(
        platform={
            "clusters": [{"hosts": [{"cores": 1, "ports": f"{port} MB/s", "store": store}]}],
            "stores": [
                {"name": "s", "read": f"{read} MB/s", "write": f"{write} MB/s",
                 "ports": f"{shared} MB/s"}
            ],
            "network": {"latency": latency},
        },
        workload={"files": files, "tasks": described},
        policy="fcfs",
        model={"detail": detail},
    )  # fmt: skip
    assert CompiledScenario(scenario).run()["makespan_s"] == pytest.approx(expected)


# --- the network ----------------------------------------------------------------------------------

#: Ends of two concurrent reads of 120 MB: 40 MB/s at the submit node, 30 MB/s at each host.
NETWORKS = {"described": 6.0, "one-link": 6.0, "star": 4.0, "link+star": 6.0}


def make_two_reads(network: str, *, links: bool, host: str = "30 MB/s") -> Scenario:
    ports: dict[str, Any] = {"ports": host} if not links else {}
    described = {
        "switches": ["core"],
        "links": [
            {"between": ["w", "core"], "bandwidth": host, "latency": 1},
            {"between": ["core", "s"], "bandwidth": "40 MB/s", "latency": 2},
        ],
    }
    return Scenario(
        platform={
            "clusters": [{"name": "w", "hosts": [{"cores": 1, "count": 2, **ports}]}],
            "stores": [{"name": "s", **({} if links else {"ports": "40 MB/s"})}],
            **({"network": described} if links else {}),
        },
        workload={
            "files": [{"name": "f", "size": "120 MB"}],
            "tasks": [{"id": i, "run_time": 1, "reads": ["f"]} for i in "ab"],
        },
        policy="fcfs",
        model={"detail": {"network": network}},
    )


@pytest.mark.parametrize("network", NETWORKS)
def test_a_level_of_the_network_leaves_out_ports(network):
    run = simulate(make_two_reads(network, links=False))
    assert run.transfers["end"].to_list() == pytest.approx([NETWORKS[network]] * 2)
    narrow = simulate(make_two_reads(network, links=False, host="10 MB/s"))
    expected = 6.0 if network == "one-link" else 12.0
    assert narrow.transfers["end"].to_list() == pytest.approx([expected] * 2)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_level_of_the_network_leaves_out_links_with_their_latency(network):
    latency = {"one-link": 2.0, "star": 1.0}.get(network, 3.0)
    run = simulate(make_two_reads(network, links=True))
    assert run.transfers["end"].to_list() == pytest.approx([NETWORKS[network] + latency] * 2)


def test_parameters_that_a_level_leaves_out_change_nothing_and_are_named():
    host, disk = "platform.clusters[0].hosts[0]", "platform.stores[0]"
    names = [
        f"{host}.ports.in", f"{disk}.ports.out", f"{host}.store.read", "submission.before",
        "speed_factor", f"{disk}.read", f"{disk}.streams", f"{disk}.page_cache.read",
    ]  # fmt: skip
    scenario = make_chain({"network": "one-link", "storage": "submit", "submission": "direct"})
    found = find_inactive_parameters(scenario, names)
    assert found == {
        names[0]: "detail.network is one-link",
        names[2]: "detail.storage is submit",
        names[3]: "detail.submission is direct",
        names[7]: "the platform does not have it",
    }
    ready = CompiledScenario(scenario)
    own = ready.run()["makespan_s"]
    for name in names[:4]:
        if name != "submission.before":  # such a scenario has no value of this name
            changed = ready.run({name: 1e6})["makespan_s"]
            assert (changed == own) == (name in found), name
    star = make_chain({"network": "star"})
    assert list(find_inactive_parameters(star, names)) == [names[1], names[3], names[7]]


# --- space, copies and interruptions --------------------------------------------------------------


@pytest.mark.parametrize("cache", ["none", "host"])
@pytest.mark.parametrize("time", [1.0, 2.2, 7.0, 12.7, 14.0])
def test_a_failure_in_any_step_gives_the_space_of_the_host_back(time, cache):
    sim = Simulation(make_chain({"storage": "all", "cache": cache}))
    sim.run_until(time)
    held = sim.store("h1").promised + sim.store("h1").used
    assert held == (100 * MB if time < 12.5 else 150 * MB)
    sim.fail("h1")
    assert sim.store("h1").promised == 0
    sim.run_until(time)  # the task begins again on the other host
    copy = sim.copy()
    sim.run()
    assert sim.tasks["status"].to_list() == ["completed"] * 2
    for name in ("h1", "h2", "s"):
        assert sim.store(name).promised == 0
    assert sim.store("h2").used == (200 * MB if cache == "host" else 0)
    assert sim.store("s").used == 200 * MB
    copy.run()
    assert copy.transfers.equals(sim.transfers)


def test_copies_make_room_for_others_and_are_dropped_when_their_file_is_written_again():
    detail = {"storage": "all", "cache": "host"}
    scenario = make_chain(detail, capacity="200 MB").replace(
        **{
            "platform.clusters[0].hosts[0].names": ["h1"],
            "platform.clusters[0].hosts[0].count": 1,
            "platform.clusters[0].hosts[0].cores": 1,
        }
    )
    files = [{"name": name, "size": "80 MB"} for name in "xyz"]
    tasks = [
        {"id": "1", "run_time": 1, "reads": ["x"]},
        {"id": "2", "run_time": 1, "reads": ["y"]},
        {"id": "3", "run_time": 1, "reads": ["x"]},  # the copy of y is now the older one
        {"id": "4", "run_time": 1, "reads": ["z"]},  # in place of y
        {"id": "5", "run_time": 1, "reads": ["x"]},
        {"id": "6", "run_time": 1, "reads": ["y"]},  # in place of z
    ]
    run = simulate(scenario.replace(workload={"files": files, "tasks": tasks}))
    staged = run.transfers.filter(kind="stage-in").select("subject", "file").rows()
    assert staged == [("1", "x"), ("2", "y"), ("4", "z"), ("6", "y")]
    # Two hosts: the second one has a copy of x, which the first one then writes again.
    two = make_chain(detail)
    tasks = [
        {"id": "a", "run_time": 1, "cores": 4, "reads": ["x"]},
        {"id": "b", "run_time": 9, "cores": 4, "reads": ["x"]},
        {"id": "c", "run_time": 1, "cores": 4, "reads": ["x"], "writes": ["x"],
         "parents": ["a"]},
        {"id": "d", "run_time": 1, "cores": 4, "reads": ["x"], "parents": ["b", "c"]},
        {"id": "e", "run_time": 1, "cores": 4, "reads": ["x"], "parents": ["b", "c"]},
    ]  # fmt: skip
    run = simulate(two.replace(workload={"files": files, "tasks": tasks}))
    machines = dict(run.placements.select("task", "machine").rows())
    assert [machines[task] for task in "abc"] == ["h1", "h2", "h1"]
    staged = run.transfers.filter(kind="stage-in").select("subject", "to").rows()
    later = {"d", "e"} - {task for task, machine in machines.items() if machine == "h1"}
    assert staged == [("a", "h1"), ("b", "h2"), *((task, "h2") for task in later)]


def test_a_file_that_does_not_fit_into_the_store_of_the_host_fails_the_task():
    run = simulate(make_chain({"storage": "all"}, capacity="120 MB"))
    assert run.tasks["status"].to_list() == ["failed", "failed"]
    assert run.transfers.filter(kind="stage-in", reason="completed").height == 1


def test_a_store_that_is_missing_is_an_error_with_its_place():
    scenario = make_chain({})
    with pytest.raises(InputError, match=r"model.detail.storage: 'all' needs a store at every"):
        scenario.replace(
            **{"platform.clusters[0].hosts[0].store": None, "model.detail.storage": "all"}
        )
    with pytest.raises(InputError, match=r"model.detail.storage: 'submit' needs a data store"):
        scenario.replace(**{"platform.stores": [], "model.detail.storage": "submit"})
    with pytest.raises(InputError, match=r"model.detail.cache: has no effect without copies"):
        scenario.replace(**{"model.detail.cache": "host"})


def test_a_state_with_staged_files_is_refused_and_a_copy_goes_on():
    sim = Simulation(make_chain({"storage": "all"}))
    sim.run_until(13)
    with pytest.raises(InputError, match=r"cannot be saved: use copy\(\)"):
        sim.state()
    copy = sim.copy()
    sim.run()
    assert copy.run()["end"].to_list() == sim.tasks["end"].to_list()


# --- page caches ----------------------------------------------------------------------------------


def make_reads(files: dict[str, str], reads: str, **cache: str) -> pl.DataFrame:
    """The transfers of tasks on one core that read one file each; a capital is written, too."""
    scenario = Scenario(
        platform={
            "clusters": [{"hosts": [{"cores": 1}]}],
            "stores": [{"name": "s", "read": "10 MB/s", "write": "10 MB/s", "page_cache": cache}],
        },
        workload={
            "files": [{"name": name, "size": size} for name, size in files.items()],
            "tasks": [
                {"id": str(i), "run_time": 1, "reads": [f.lower()],
                 "writes": [f.lower()] if f.isupper() else []}
                for i, f in enumerate(reads)
            ],
        },
        policy="fcfs",
    )  # fmt: skip
    return simulate(scenario).transfers


def test_a_page_cache_serves_what_was_read_or_written_last():
    files = {"x": "100 MB", "y": "100 MB", "z": "250 MB"}
    moved = make_reads(files, "xxyYy", read="100 MB/s")
    seconds = (moved["end"] - moved["start"]).to_list()
    # Writing goes to the disk, and leaves the file in memory.
    assert seconds == pytest.approx([10, 1, 10, 1, 10, 1])
    # 200 MB: x and y fit; z never does; x is the older one when w comes.
    moved = make_reads(files | {"w": "100 MB"}, "xyzxywxz", size="200 MB", read="100 MB/s")
    seconds = (moved["end"] - moved["start"]).to_list()
    assert seconds == pytest.approx([10, 10, 25, 1, 1, 10, 10, 25])


def test_staged_files_are_read_from_the_page_cache_of_the_host():
    run = simulate(make_chain({"storage": "all"}, page_cache={"read": "1 GB/s"}))
    reads = run.transfers.filter(kind="read")
    assert (reads["end"] - reads["start"]).to_list() == pytest.approx([0.1, 0.05, 0.1])


# --- stores with the numbers of another one -------------------------------------------------------


def test_a_store_of_hosts_has_the_numbers_of_the_store_that_it_is_like():
    own = {"read": "50 MB/s", "write": "25 MB/s"}
    described = make_chain({"storage": "all"}).replace(
        **{"platform.clusters[0].hosts[0].store": own}
    )
    like = described.replace(**{"platform.clusters[0].hosts[0].store": {"like": "s"}})
    assert simulate(like).transfers.equals(simulate(described).transfers)
    # One parameter sets both: natively, as an override, and as two parameters.
    ready = CompiledScenario(like)
    name = "platform.stores[0].read"
    assert ready.acts_natively(name)
    changed = ready.run({name: 10e6})["makespan_s"]
    assert changed == CompiledScenario(ready.scenario_from_values({name: 10e6})).run()["makespan_s"]
    both = {name: 10e6, "platform.clusters[0].hosts[0].store.read": 10e6}
    assert changed == CompiledScenario(described).run(both)["makespan_s"]
    assert changed != ready.run()["makespan_s"]


def test_a_store_that_is_like_another_one_has_no_numbers_of_its_own():
    with pytest.raises(InputError, match=r"store\.read: cannot be combined with 'like: s'"):
        make_chain({}, like="s")
    place = "platform.clusters[0].hosts[0].store"
    with pytest.raises(InputError, match=r"store\.like: unknown store 'sub' \(known: s\)"):
        make_chain({}).replace(**{place: {"like": "sub"}})
    like = CompiledScenario(make_chain({}).replace(**{place: {"like": "s"}}))
    with pytest.raises(InputError, match="cannot be combined"):
        like.run({f"{place}.read": 1e6})
