"""Preemption, kill, failure and suspension in every phase of a transfer: by hand, and at random."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.staging_reference import Node, SlowStaging, SlowTask
from tests.engine.stores_reference import SlowNetwork, SlowStore
from tests.examples import examples
from twinloop.engine import Simulation
from twinloop.policy import Kill, Place, Policy, Preempt, Wake
from twinloop.scenario import Scenario

MB = 1e6
#: Contention without effect makes the machines shared resources.
MODES: dict[str, dict[str, Any]] = {
    "timers": {},
    "shared machines": {"contention": {"linear": {"slope": 0.0}}},
}
SUSPENDED = {"suspended": {"tasks": "kept"}}


class OwnMachines(Policy):
    """Place each task on the machine of its number; give orders at set times."""

    def __init__(self, orders: list[tuple[float, Any]]) -> None:
        self.orders = orders

    def decide(self, view: Any) -> Iterator[Any]:
        for time, order in self.orders:
            # A task that has been placed again in this instant is left alone.
            if time == view.now and order.task in view.running and view.started(order.task) < time:
                yield order
        for task in view.waiting:
            if view.free(task) > 0:
                yield Place(task, task)
        later = [time for time, _ in self.orders if time > view.now]
        if later:
            yield Wake(min(later))


def is_clear(sim: Simulation) -> bool:
    """Whether no transfer holds anything."""
    return sim._run.live_transfers == 0 and not any(
        column.any() for column in sim._run.store_use().values()
    )


# --- by hand --------------------------------------------------------------------------------------

#: The phases of the transfer of the second task, and the time of an interruption in each. The
#: store serves one transfer at once: latency from 3 s to 4 s, 100 MB at 50 MB/s until 6 s.
PHASES = {"waiting for a stream": 2.0, "latency": 3.5, "moving": 5.0}
#: Bytes moved until then.
MOVED = {"waiting for a stream": 0.0, "latency": 0.0, "moving": 50 * MB}
#: End of the transfer of the third task if that of the second one is cancelled then.
THIRD = {"waiting for a stream": 6.0, "latency": 6.5, "moving": 8.0}


def three_tasks(access: str, mode: str, orders: list[tuple[float, Any]] = []) -> Simulation:  # noqa: B006
    """Tasks of 10 s that all read, or all write, 100 MB; the store has space for their files."""
    host = {"names": ["m0", "m1", "m2"], "count": 3, "cores": 1, "states": SUSPENDED}
    store = {"name": "disk", "read": "50 MB/s", "write": "50 MB/s", "streams": 1}
    return Simulation(
        Scenario(
            platform={
                "clusters": [{"hosts": [host]}],
                "stores": [{**store, "capacity": "300 MB"}],
                "network": {"latency": "1s"},
            },
            workload={
                "tasks": [
                    {"id": f"t{i}", "run_time": 10, f"{access}s": [f"f{i}"]} for i in range(3)
                ],
                "files": [{"name": f"f{i}", "size": "100 MB"} for i in range(3)],
            },
            policy=OwnMachines(orders),
            model=MODES[mode],
        )
    )


def ends(sim: Simulation) -> list[float]:
    return sim.trace().placements.filter(pl.col("reason") == "completed")["end"].to_list()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("how", ["preempt", "kill", "fail"])
def test_an_interrupted_transfer_gives_everything_back(how, phase, access, mode):
    # The writes begin after the work, everything is 10 s later.
    shift = 0.0 if access == "read" else 10.0
    time = PHASES[phase] + shift
    orders = {"preempt": [(time, Preempt(1))], "kill": [(time, Kill(1))]}
    sim = three_tasks(access, mode, orders.get(how, []))
    sim.run_until(time)
    if how == "fail":
        sim.fail("m1")
        assert sim._run.store_use()["waiting"].tolist() == [1 if time < 3 + shift else 0]
        sim.restore("m1")
    sim.run()
    cut = sim.transfers.filter(pl.col("reason") == "cancelled")
    assert cut.select("subject", "start", "end").rows() == [("t1", shift, time)]
    assert cut["bytes"].to_list() == pytest.approx([MOVED[phase]])
    third = THIRD[phase]
    if how == "kill":
        assert sim.tasks["status"].to_list() == ["completed", "killed", "completed"]
        assert sim._run.stored_bytes().tolist() == [300 * MB if access == "read" else 200 * MB]
        assert sorted(ends(sim)) == pytest.approx([13.0, third + 10])
    else:
        # The second task begins again, and its transfer is the last one in the queue.
        again = third if access == "read" else max(PHASES[phase] + 10, third)
        assert sorted(ends(sim)) == pytest.approx([13.0, third + 10, again + 3 + 10])
        assert sim._run.stored_bytes().tolist() == [300 * MB]
    assert is_clear(sim)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("access", ["read", "write"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_suspended_transfer_keeps_its_place_its_stream_and_its_bytes(phase, access, mode):
    shift = 0.0 if access == "read" else 10.0
    time = PHASES[phase] + shift
    sim = three_tasks(access, mode)
    sim.run_until(time)
    sim.set_state("m1", "suspended")
    sim.run_until(time + 4)
    # Its turn has come, the latency has passed, and its stream is taken.
    use = sim._run.store_use()
    assert (use["streams"].tolist(), use["waiting"].tolist()) == ([1], [1])
    sim.set_state("m1", "on")
    sim.run()
    left = (100 * MB - MOVED[phase]) / (50 * MB)
    second = PHASES[phase] + 4 + left
    assert sorted(ends(sim)) == pytest.approx([13.0, second + 10, second + 3 + 10])
    assert sim.transfers["bytes"].to_list() == pytest.approx([100 * MB] * 3)
    assert sim.transfers["reason"].to_list() == ["completed"] * 3
    assert is_clear(sim)


# --- against the reference ------------------------------------------------------------------------

TASKS = 3
HOMES = ("disk", "local", "m0")
interruptions = st.tuples(
    st.integers(0, 60),
    st.sampled_from(["fail", "suspend", "preempt", "kill"]),
    st.integers(0, TASKS - 1),
)
steps = st.tuples(
    st.lists(st.integers(0, 4), max_size=2, unique=True),
    st.sampled_from([0.5, 2.0]),
    st.lists(st.integers(0, 4), max_size=2, unique=True),
)


class BothWorlds:
    """The same tasks in a simulation and in the reference."""

    def __init__(
        self,
        programs: list[Any],
        homes: list[str],
        streams: list[int | None],
        capacity: float,
        latency: float,
        mode: str,
        orders: list[tuple[float, Any]],
    ) -> None:
        # Different sizes and lengths, so that rounding does not decide which ends first.
        self.sizes = [[3.0, 9.0, 4.0, 14.0, 6.0][i] + i / 37 for i in range(5)]
        written = {file for _, _, writes in programs for file in writes}
        self.homes = [
            "disk" if home == "local" and i not in written else home for i, home in enumerate(homes)
        ]
        self.programs = [
            [
                *(("read", file) for file in reads),
                ("work", work + number / 13),
                *(("write", file) for file in writes),
            ]
            for number, (reads, work, writes) in enumerate(programs)
        ]
        self.suspended: set[int] = set()
        self.streams, self.capacity, self.latency = streams, capacity, latency
        self.sim = Simulation(self._describe(mode, orders))
        self.slow = self._build_reference()
        for task in self.slow.tasks:
            self.slow.begin(task)

    def _describe(self, mode: str, orders: list[tuple[float, Any]]) -> Scenario:
        shared, local = self.streams
        host = {
            "names": [f"m{i}" for i in range(TASKS)],
            "count": TASKS,
            "cores": 1,
            "states": SUSPENDED,
            "ports": {"in": 4.0, "out": 2.5},
            "store": {"read": 3.0, "write": 5.0, **({"streams": local} if local else {})},
        }
        disk = {"name": "disk", "read": 5.0, "write": 3.5, "capacity": self.capacity}
        return Scenario(
            platform={
                "clusters": [{"hosts": [host]}],
                "stores": [disk | ({"streams": shared} if shared else {})],
                "network": {"latency": self.latency},
            },
            workload={
                "tasks": [
                    {
                        "id": f"t{number}",
                        "run_time": next(what for kind, what in program if kind == "work"),
                        "reads": [f"f{what}" for kind, what in program if kind == "read"],
                        "writes": [f"f{what}" for kind, what in program if kind == "write"],
                    }
                    for number, program in enumerate(self.programs)
                ],
                "files": [
                    {"name": f"f{i}", "size": size, "store": self.homes[i]}
                    for i, size in enumerate(self.sizes)
                ],
            },
            policy=OwnMachines(orders),
            model=MODES[mode],
        )

    def _build_reference(self) -> SlowStaging:
        network = SlowNetwork()
        world = network.world
        shared, own = (float("inf") if each is None else each for each in self.streams)
        disk = SlowStore("disk", self.capacity, world.resource(5.0), world.resource(3.5), shared)
        local = [
            SlowStore(f"m{i}", 1e9, world.resource(3.0), world.resource(5.0), own)
            for i in range(TASKS)
        ]
        by_name = {"disk": disk, "m0": local[0], "local": None}
        slow = SlowStaging(
            network,
            [Node(world.resource(2.5), world.resource(4.0)) for _ in range(TASKS)],
            disk,
            local,
            self.sizes,
            [by_name[home] for home in self.homes],
            self.latency,
            [SlowTask(number, program) for number, program in enumerate(self.programs)],
        )
        # A task that reads a file before it writes it changes a file that exists.
        created = {
            what
            for program in self.programs
            for kind, what in program
            if kind == "write" and ("read", what) not in program
        }
        for file, home in enumerate(slow.homes):
            if file not in created and home is not None:
                home.files[str(file)] = self.sizes[file]
        return slow

    def interrupt(self, time: float, how: str, number: int) -> None:
        """Interrupt a task in both; a suspension ends with the next one of its machine."""
        self.sim.run_until(time)
        self.slow.advance(time)
        task = self.slow.tasks[number]
        if how == "suspend":
            self.suspended ^= {number}
            self.sim.set_state(f"m{number}", "suspended" if number in self.suspended else "on")
            self.slow.suspend(task, suspended=number in self.suspended)
        elif how == "fail":
            self.sim.fail(f"m{number}")
            self.sim.restore(f"m{number}")
        if task.end is None and how != "suspend" and task.doing is not None:
            self.slow.stop(task)
            if how == "kill":
                self.slow.close(task, "killed")
        # A suspended machine takes no task.
        if task.end is None and task.doing is None and number not in self.suspended:
            self.slow.begin(task)
        self.sim.run_until(time)  # the decision

    def compare(self) -> None:
        network, stores = self.slow.network, [self.slow.disk, *self.slow.local]
        use = self.sim._run.store_use()
        stored = self.sim._run.stored_bytes().tolist()
        # Stores of hosts are built if a file is in one.
        for number, store in enumerate(stores[: len(stored)]):
            assert use["promised"][number] == pytest.approx(network.promised(store), abs=1e-9)
            assert use["streams"][number] == network.served(store)
            assert stored[number] == pytest.approx(sum(store.files.values()))
        assert self.sim._run.live_transfers == sum(each.live for each in network.transfers)

    def compare_results(self) -> None:
        names = {"read": 0, "write": 1}
        frame = self.sim.transfers
        found = sorted(
            (int(subject[1:]), start, end, names[kind], int(file[1:]), moved)
            for subject, kind, file, moved, start, end in frame.select(
                "subject", "kind", "file", "bytes", "start", "end"
            ).rows()
        )
        expected = sorted(
            (task, start, end, names[kind], file, done)
            for task, kind, file, done, start, end in self.slow.log
        )
        assert len(found) == len(expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-7)
        assert self.sim.tasks["status"].to_list() == [each.status for each in self.slow.tasks]
        last = self.sim.trace().placements.group_by("task").agg(pl.col("end").max()).sort("task")
        expected = [float(each.end) for each in self.slow.tasks]
        assert last["end"].to_list() == pytest.approx(expected, rel=1e-9)


@given(
    st.lists(steps, min_size=TASKS, max_size=TASKS),
    st.lists(st.sampled_from(HOMES), min_size=5, max_size=5),
    st.lists(st.sampled_from([None, 1, 2]), min_size=2, max_size=2),
    st.sampled_from([40.0, 1e6]),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.sampled_from(list(MODES)),
    st.lists(interruptions, max_size=6, unique_by=lambda each: each[0]),
)
@examples(40)
def test_random_tasks_with_interruptions_are_those_of_the_reference(
    programs, homes, streams, capacity, latency, mode, given_interruptions
):
    # Between the events, each at a distance of its own.
    planned = [
        (time / 4 + 2.0 ** -(9 + place), how, number)
        for place, (time, how, number) in enumerate(sorted(given_interruptions))
    ]
    classes = {"preempt": Preempt, "kill": Kill}
    orders = [(time, classes[how](n)) for time, how, n in planned if how in classes]
    both = BothWorlds(programs, homes, streams, capacity, latency, mode, orders)
    for time, how, number in planned:
        if how == "fail" and number in both.suspended:
            continue
        both.interrupt(time, how, number)
        both.compare()
    for number in sorted(both.suspended):
        both.interrupt(16.0 + (number + 1) / 128, "suspend", number)
    both.sim.run()
    both.slow.advance(None)
    both.compare_results()
    both.compare()
    assert is_clear(both.sim)
