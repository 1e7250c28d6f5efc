"""Random programs of requests to stores against a slow model of their files and promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.examples import examples
from twinloop.description.errors import InputError
from twinloop.engine import CompiledScenario, Simulation, StoreTransfer
from twinloop.scenario import Scenario

SIZES = {"x": 10.0, "y": 20.0, "z": 30.0, "empty": 0.0}
CAPACITIES = {"disk": 70.0, "tape": 50.0, "a": 40.0, "b": 40.0}
STREAMS = {"disk": 2, "tape": 1, "a": None, "b": 1}
#: The file of the tasks, in the disk.
WORK = "work"
WORK_SIZE = 15.0

FILES = st.sampled_from(sorted(SIZES))
STORES = st.sampled_from(sorted(CAPACITIES))
HOSTS = st.sampled_from(["a", "b"])


@cache
def compile_scenario() -> CompiledScenario:
    """Two hosts with stores, two shared stores, and tasks that read a file of the disk."""
    hosts = [
        {"names": [name], "cores": 4, "ports": "10 B/s",
         "store": {"capacity": CAPACITIES[name], "streams": STREAMS[name], "write": "6 B/s"}}
        for name in ("a", "b")
    ]  # fmt: skip
    stores = [
        {"name": name, "capacity": CAPACITIES[name], "streams": STREAMS[name], "ports": "8 B/s"}
        for name in ("disk", "tape")
    ]
    tasks = [
        {"id": f"t{number}", "submit": 2.0 * number, "run_time": 1, "reads": [WORK]}
        for number in range(4)
    ]
    return CompiledScenario(
        Scenario(
            platform={
                "clusters": [{"hosts": hosts}],
                "stores": stores,
                "network": {"latency": "1s"},
            },
            workload={"tasks": tasks, "files": [{"name": WORK, "size": WORK_SIZE}]},
            policy="fcfs",
        )
    )


class StorePrograms(RuleBasedStateMachine):
    """The model has the files of each store; promises are those of the requests in progress."""

    @initialize()
    def begin(self) -> None:
        self.sim = Simulation(compile_scenario())
        self.files: dict[str, dict[str, float]] = {name: {} for name in CAPACITIES}
        self.files["disk"][WORK] = WORK_SIZE
        self.gone: set[str] = set()
        # With the source and the target, which are stores or None.
        self.requests: list[tuple[StoreTransfer, str | None, str | None]] = []
        self.seen: Counter[tuple[object, ...]] = Counter()

    # --- the model ------------------------------------------------------------------------------

    def is_open(self, handle: StoreTransfer) -> bool:
        return handle.state in ("waiting", "latency", "active")

    def promised(self, store: str) -> float:
        return sum(
            SIZES[handle.file]
            for handle, _, target in self.requests
            if target == store and self.is_open(handle)
        )

    def has_room(self, store: str, file: str) -> bool:
        if file in self.files[store]:
            return True
        used = sum(self.files[store].values()) + self.promised(store)
        return used + SIZES[file] <= CAPACITIES[store]

    def learn(self) -> None:
        """Apply the transfers that have ended, in the order of their ends.

        New ones can stand before those with the same end that were applied already.
        """
        ended = Counter(self.sim.transfers.rows())
        new = ended - self.seen
        self.seen = ended
        for row in self.sim.transfers.rows(named=True):
            values = tuple(row.values())
            if not new[values]:
                continue
            new[values] -= 1
            if row["reason"] != "completed" or row["kind"] in ("get", "read"):
                continue
            self.files[row["to"]][row["file"]] = SIZES[row["file"]]
            if row["kind"] == "move" and row["from"] != row["to"]:
                self.files[row["from"]].pop(row["file"], None)

    def request(
        self,
        call: Callable[[], StoreTransfer],
        source: str | None,
        target: str | None,
        possible: bool,
    ) -> None:
        if possible and not {source, target} & self.gone:
            self.requests.append((call(), source, target))
        else:
            with pytest.raises(InputError):
                call()
        self.learn()

    # --- requests -------------------------------------------------------------------------------

    @rule(store=STORES, file=FILES)
    def register(self, store: str, file: str) -> None:
        if store in self.gone or not self.has_room(store, file):
            with pytest.raises(InputError):
                self.sim.store(store).register(file, SIZES[file])
            return
        self.sim.store(store).register(file, SIZES[file])
        self.files[store][file] = SIZES[file]

    @rule(store=STORES, file=FILES)
    def delete(self, store: str, file: str) -> None:
        reads = any(
            handle.file == file and source == store and self.is_open(handle)
            for handle, source, _ in self.requests
        )
        if store in self.gone or reads or file not in self.files[store]:
            with pytest.raises(InputError):
                self.sim.store(store).delete(file)
            return
        self.sim.store(store).delete(file)
        del self.files[store][file]

    @rule(store=STORES, file=FILES)
    def deregister(self, store: str, file: str) -> None:
        if store not in self.gone and file in self.files[store]:
            self.sim.store(store).deregister(file)
            del self.files[store][file]

    @rule(store=STORES, file=FILES, host=HOSTS)
    def put(self, store: str, file: str, host: str) -> None:
        self.request(
            lambda: self.sim.store(store).put(file, SIZES[file], source=host),
            None,
            store,
            self.has_room(store, file),
        )

    @rule(store=STORES, file=FILES, host=HOSTS)
    def get(self, store: str, file: str, host: str) -> None:
        self.request(
            lambda: self.sim.store(store).get(file, target=host),
            store,
            None,
            file in self.files[store],
        )

    @rule(store=STORES, file=FILES, to=STORES, moves=st.booleans())
    def copy(self, store: str, file: str, to: str, moves: bool) -> None:
        def call() -> StoreTransfer:
            service = self.sim.store(store)
            return service.move(file, to=to) if moves else service.duplicate(file, to=to)

        possible = file in self.files[store] and self.has_room(to, file)
        self.request(call, store, to, possible)

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        if self.requests:
            handle, _, _ = data.draw(st.sampled_from(self.requests))
            handle.cancel()
            assert not self.is_open(handle)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0, 10.0]))
    def advance(self, seconds: float) -> None:
        self.sim.run_until(self.sim.now + seconds)
        self.learn()

    # --- stores ---------------------------------------------------------------------------------

    @rule(store=STORES)
    def deregister_store(self, store: str) -> None:
        if store in self.gone:
            return
        # Without violence it is possible only if the store is not in use.
        with suppress(InputError):
            self.sim.deregister_store(store)
            assert not any(
                self.is_open(handle) and store in ends for handle, *ends in self.requests
            )
        with suppress(InputError):
            self.sim.deregister_store(store, violent=True)
        self.learn()
        self.gone.add(store)
        self.files[store] = {}
        for handle, *ends in self.requests:
            assert store not in ends or not self.is_open(handle)

    @rule(store=STORES)
    def register_store(self, store: str) -> None:
        if store not in self.gone:
            return
        self.sim.register_store(store, capacity=CAPACITIES[store], streams=STREAMS[store])
        self.gone.remove(store)

    @rule()
    def fork(self) -> None:
        """A copy ends in the same way, and leaves the original as it is."""
        first, second = self.sim.copy(), self.sim.copy()
        first.run()
        second.run()
        assert first.transfers.equals(second.transfers)
        assert first.stores.equals(second.stores)
        assert first.stores["promised"].sum() == 0.0
        assert first.stores.select("streams_in_use", "waiting").sum().row(0) == (0, 0)

    # --- laws -----------------------------------------------------------------------------------

    @invariant()
    def space_is_exact(self) -> None:
        if not hasattr(self, "sim"):
            return
        for name in CAPACITIES:
            if name in self.gone:
                continue
            store = self.sim.store(name)
            assert dict(store.files.rows()) == self.files[name]
            assert store.used == sum(self.files[name].values())
            assert store.promised == self.promised(name)
            assert store.free is not None
            assert store.free >= 0
            open_here = [
                handle for handle, *ends in self.requests if name in ends and self.is_open(handle)
            ]
            assert [each.name for each in store.transfers] == [each.name for each in open_here]
            tasks = store.streams_in_use + store.waiting - len(open_here)
            assert tasks == 0 or (tasks > 0 and name == "disk")
            assert STREAMS[name] is None or store.streams_in_use <= STREAMS[name]

    @invariant()
    def bytes_that_are_sent_are_received(self) -> None:
        if hasattr(self, "sim"):
            nodes = self.sim.network_nodes
            assert nodes["sent"].sum() == pytest.approx(nodes["received"].sum())

    def teardown(self) -> None:
        if not hasattr(self, "sim"):
            return
        self.sim.run()
        self.learn()
        self.space_is_exact()
        assert all(not self.is_open(handle) for handle, *_ in self.requests)
        assert self.sim.network_nodes["transfers"].sum() == 0


TestStorePrograms = StorePrograms.TestCase
TestStorePrograms.settings = examples(6, stateful_step_count=25)
