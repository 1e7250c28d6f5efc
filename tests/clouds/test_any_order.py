"""Random orders to the service of a cloud, in every state of instances, hosts and stores.

Whatever is ordered, refused, lost or cancelled: what hosts and stores count as occupied is what the
instances hold, and nothing is held in the end.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.clouds.bill_twin import compute_price, list_rentals
from tests.clouds.cases import GB, POWER, is_clear, make_host, make_task
from tests.examples import examples
from twinloop import metrics
from twinloop.description.errors import InputError
from twinloop.engine import Notice, Simulation, StoreService, StoreTransfer
from twinloop.scenario import Scenario
from twinloop.trace import Trace
from twinloop.trace.quality import check

IMAGE_BYTES = 100e6
STORE_BYTES = 6 * GB
#: States in which an instance is on no host.
HOMELESS = {"requested", "queued", "suspended", "shutdown"}
#: States in which an instance has one transfer.
COPIED = {"initial-transfer", "suspend-transfer", "resume-transfer", "migrating", "stopped"}
PORTS = {"in": "1 Gb/s", "out": "1 Gb/s"}
STATES = {
    "off": {"power": 20},
    "switching-on": {"duration": 1.5, "power": 150},
    "switching-off": {"duration": 0.5, "power": 100},
}
MACHINES = ("e1", "e2", "w1", "s1")
CLOUD_NAMES = st.sampled_from(["east", "east", "west"])


def make_clouds(*, states: bool = False, caching: str = "none", **cloud: Any) -> Scenario:
    """Two clouds and a machine without cloud; its hosts have stores of 5 GB."""
    names = ("east", "west", "spare")
    hosts = {"east": "e1 e2", "west": "w1", "spare": "s1"}
    image = {"name": "base", "size": IMAGE_BYTES, "store": "images", "caching": caching,
             "boot": {"delay": 1, "work": 2}}  # fmt: skip
    others = {"states": STATES} if states else {}
    clouds = [{"name": each, "clusters": [each], "images": [image], **cloud} for each in names[:2]]
    platform = {
        "clusters": [
            {
                "name": each,
                "hosts": [
                    make_host(
                        hosts[each],
                        memory=8 * GB,
                        power=POWER,
                        store={"capacity": "5 GB"},
                        **others,
                    )
                ],
            }
            for each in names
        ],
        "clouds": clouds,
        "stores": [{"name": "images", "capacity": STORE_BYTES, "ports": PORTS, "streams": 2}],
        "network": {"latency": 0.25, "switches": ["office"]},
    }
    # No instance is large enough: the simulation goes on.
    tasks = [make_task(0, cores=100)]
    return Scenario(platform=platform, policy="manual", workload={"tasks": tasks})


class CloudOrders(RuleBasedStateMachine):
    """Orders in any order, with a model of what is held."""

    def __init__(self) -> None:
        super().__init__()
        #: The state of each instance that was noticed last, and those whose memory is in a store.
        self.states: dict[str, str] = {}
        self.saved: set[str] = set()
        #: Instances on the way to another cloud, with their disks.
        self.leaving: set[str] = set()
        self.moved = False
        #: Instances that were requested together, and all that have had a host.
        self.groups: list[list[str]] = []
        self.placed: set[str] = set()
        #: The energy of the hosts of each cloud while they belonged to it.
        self.energy: Counter[str] = Counter()
        self.refused = self.tasks = self.files = 0

    @initialize(
        begin=st.lists(
            st.tuples(CLOUD_NAMES, st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=4
        ),
        states=st.booleans(),
        caching=st.sampled_from(["none", "first-use", "pre-staged"]),
        placement=st.sampled_from(
            [
                "first-fit",
                {"name": "worst-fit", "options": {"queue": "refuse"}},
                {"name": "pack-ic", "options": {"overcommit": 2.0}},
            ]
        ),
        machines=st.sampled_from(
            [
                "always-on",
                "on-demand",
                {"name": "on-demand", "options": {"starts": "needed"}},
                {"name": "power-saving", "options": {"idle_time": 1, "keep": 1}},
            ]
        ),
        consolidation=st.sampled_from(
            [None, {"name": "consolidate", "options": {"interval": 3, "method": "draining"}}]
        ),
        cloud=st.fixed_dictionaries(
            {},
            optional={
                "inter_boot_delay": st.just("1500ms"),
                "decision_delay": st.just("1s"),
                "suspend_to": st.just("local"),
                "limits": st.just({"instances": 5, "cores": 8, "memory": 8 * GB}),
                "billing": st.sampled_from(
                    [
                        {"unit": 7, "price": 3},
                        {"unit": 2, "price": 0.5, "from": "start"},
                        {"unit": 2, "price": 3, "reserved": {"instances": 2, "price": 1}},
                    ]
                ),
                "messages": st.sampled_from(
                    [
                        {"client": "office", "controller": "images", "size": size, "reply": reply}
                        for size, reply in ((0, 0), (1e6, 5e6), (1e6, None))
                    ]
                ),
                "migration": st.sampled_from(
                    [{"mode": "cold"}, {"mode": "live", "dirty_rate": "40 MB/s", "rounds": 3}]
                ),
            },
        ),
        spot=st.none()
        | st.fixed_dictionaries(
            {"prices": st.just([[4 * i, 1 + i * i % 7] for i in range(60)])},
            optional={"interrupted_unit": st.just("billed")},
        ),
    )
    def open(
        self,
        begin: list[tuple[str, int, int]],
        states: bool,
        caching: str,
        placement: Any,
        machines: Any,
        consolidation: Any,
        cloud: dict[str, Any],
        spot: Any,
    ) -> None:
        self.bids = spot is not None and "billing" in cloud
        if self.bids:
            cloud = {**cloud, "spot": spot}
        controllers = {"placement": placement, "machines": machines}
        if consolidation:
            controllers["consolidation"] = consolidation
        self.cloud, self.caching = cloud, caching
        self.sim = Simulation(
            make_clouds(states=states, caching=caching, controllers=controllers, **cloud)
        )
        self.sim.notify(self.note, kinds=["instance"])
        #: The cloud of each host, and its energy when it joined it.
        self.joined = {host: (cloud, 0.0) for cloud, host in
                       (("east", "e1"), ("east", "e2"), ("west", "w1"))}  # fmt: skip
        # An order that is only possible for a running instance finds some.
        for name, cores, gigabytes in begin:
            bid = {"bid": 4.0} if self.bids and cores > 1 else {}
            self.order(name, "request", cores=cores, memory=gigabytes * GB, **bid)
        self.advance(20.0)

    def note(self, notice: Notice) -> None:
        # The memory of an instance is in the store from its suspension to its end or resumption.
        before, now = self.states.get(notice.subject), str(notice.value)
        self.states[notice.subject] = now
        if now not in ("requested", "queued"):
            self.placed.add(notice.subject)
        if now in ("running", "destroyed"):
            self.saved.discard(notice.subject)
            self.leaving.discard(notice.subject)
        elif before == "suspend-transfer":
            self.saved.add(notice.subject)

    def order(self, at: str, method: str, *arguments: Any, **options: Any) -> bool:
        try:
            getattr(self.sim.cloud(at), method)(*arguments, **options)
        except InputError:
            self.refused += 1
            return False
        return True

    def choose(self, number: int) -> tuple[str, str] | None:
        """Return the cloud and the name of an instance."""
        found = [
            (cloud, name)
            for cloud in ("east", "west")
            for name in self.sim.cloud(cloud).instances["instance"]
        ]
        return found[number % len(found)] if found else None

    # --- orders ----------------------------------------------------------------------------------

    @rule(
        cloud=CLOUD_NAMES,
        cores=st.integers(1, 4),
        gigabytes=st.integers(0, 3),
        way=st.sampled_from(
            ["request", "request", "together", "allocate", "allocate what is free"]
        ),
        bid=st.sampled_from([None, 2.0, 5.0]),
    )
    def request(self, cloud: str, cores: int, gigabytes: int, way: str, bid: float | None) -> None:
        size: dict[str, Any] = {"cores": cores, "memory": gigabytes * GB}
        if self.bids and not way.startswith("allocate"):
            size["bid"] = bid
        if way == "request":
            self.order(cloud, "request", **size)
        elif way == "together":
            with suppress(InputError):
                self.groups.append(self.sim.cloud(cloud).request_together(2, **size))
        else:
            self.order(cloud, "allocate", **size, validity=2.0, strict=way == "allocate")

    @rule(
        number=st.integers(0, 20),
        method=st.sampled_from(
            ["suspend", "resume", "suspend", "resume", "reboot", "shut_down", "use_allocation",
             "ask"]
        ),
    )  # fmt: skip
    def change(self, number: int, method: str) -> None:
        if chosen := self.choose(number):
            self.order(chosen[0], method, chosen[1])

    @rule(number=st.integers(0, 20), cores=st.integers(1, 4))
    def resize(self, number: int, cores: int) -> None:
        if chosen := self.choose(number):
            self.order(chosen[0], "resize", chosen[1], cores)

    @rule(number=st.integers(0, 20), violent=st.booleans())
    def terminate(self, number: int, violent: bool) -> None:
        if chosen := self.choose(number):
            self.order(chosen[0], "terminate", chosen[1], violent=violent)

    @rule(number=st.integers(0, 20), place=st.sampled_from(["cloud", *MACHINES]))
    def move(self, number: int, place: str) -> None:
        if chosen := self.choose(number):
            if place != "cloud":
                self.order(chosen[0], "migrate", chosen[1], host=place)
                return
            other = {"east": "west", "west": "east"}[chosen[0]]
            if self.order(chosen[0], "migrate", chosen[1], cloud=other):
                self.leaving.add(chosen[1])
                self.moved = True

    @rule(
        cloud=CLOUD_NAMES,
        host=st.sampled_from(MACHINES),
        what=st.sampled_from(["register", "deregister", "deregister violently", "fail"]),
    )
    def change_host(self, cloud: str, host: str, what: str) -> None:
        if what == "fail":
            is_up = self.sim.machines.filter(machine=host)["up"].item()
            (self.sim.fail if is_up else self.sim.restore)(host)
        elif what == "register":
            if self.order(cloud, "register_host", host):
                self.joined[host] = (cloud, read_energy(self.sim)[host])
        elif self.order(cloud, "deregister_host", host, violent=what.endswith("violently")):
            self.leave(host)

    def leave(self, host: str) -> None:
        """Count the energy of a host since it has joined its cloud."""
        cloud, before = self.joined.pop(host)
        self.energy[cloud] += read_energy(self.sim)[host] - before

    @rule(
        store=st.sampled_from(["images", *MACHINES]),
        host=st.sampled_from(MACHINES),
        number=st.integers(0, 3),
        what=st.sampled_from(
            ["put", "put", "get", "get and keep", "delete", "deregister", "cancel", "store"]
        ),
    )
    def change_store(self, store: str, host: str, number: int, what: str) -> None:
        requests = list_requests(self.sim)
        try:
            if what == "cancel":
                if requests:
                    requests[number % len(requests)].cancel()
            elif what != "store":
                self.change_files(store, host, number, what)
            elif "images" in self.sim.stores["store"].to_list():
                self.sim.deregister_store("images", violent=number > 0)
            else:
                self.sim.register_store("images", capacity=STORE_BYTES, ports=PORTS, streams=2)
                self.sim.store("images").register("base", IMAGE_BYTES)
        except InputError:
            self.refused += 1

    def change_files(self, store: str, host: str, number: int, what: str) -> None:
        service = self.sim.store(store)
        if what == "put":
            self.files += 1
            service.put(f"file-{self.files}", 700e6, source=host)
        elif what.startswith("get"):
            service.get("base", target=host, keep=what.endswith("keep"))
        elif names := service.files["file"].to_list():
            getattr(service, what)(names[number % len(names)])

    @rule(cores=st.integers(1, 2), run_time=st.sampled_from([0.5, 3.0, 20.0]))
    def submit(self, cores: int, run_time: float) -> None:
        self.tasks += 1
        self.sim.submit(f"n{self.tasks}", cores=cores, run_time=run_time)

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 2.0, 10.0]))
    def advance(self, seconds: float) -> None:
        self.sim.run_until(self.sim.now + seconds)

    @rule(seconds=st.sampled_from([0.7, 4.0, 15.0]))
    def advance_further(self, seconds: float) -> None:
        self.advance(seconds)

    @rule()
    def copy(self) -> None:
        """A copy that ends everything does not change the original."""
        before = self.sim.cloud("east").instances
        end_all(self.sim.copy())
        assert self.sim.cloud("east").instances.equals(before)

    # --- laws ------------------------------------------------------------------------------------

    @invariant()
    def hosts_count_what_instances_hold(self) -> None:
        if not hasattr(self, "sim"):
            return
        run, names = self.sim._run, self.sim._compiled.names.machines
        now = run.present_instances()
        held: dict[str, Counter[str]] = {"cores": Counter(), "memory": Counter()}
        for what, sums in held.items():
            for column in ("host", "target"):
                for host, size in zip(now[column], now[what], strict=True):
                    if host >= 0:
                        sums[names[host]] += size
        for cloud in ("east", "west"):
            for row in self.sim.cloud(cloud).hosts.rows(named=True):
                for what, sums in held.items():
                    occupied = row[what] - row[f"free_{what}"]
                    assert occupied == pytest.approx(sums[row["host"]], abs=1e-6)

    @invariant()
    def instances_that_start_together_have_hosts_together(self) -> None:
        if not hasattr(self, "sim"):
            return
        for group in self.groups:
            present = {
                name
                for cloud in ("east", "west")
                for name in self.sim.cloud(cloud).instances["instance"]
            }
            assert len({name in self.placed for name in group if name in present}) < 2

    @invariant()
    def stores_count_what_instances_hold(self) -> None:
        if not hasattr(self, "sim"):
            return
        rows = [
            each
            for cloud in ("east", "west")
            for each in self.sim.cloud(cloud).instances.rows(named=True)
        ]
        for each in rows:
            assert (each["host"] is None) == (each["state"] in HOMELESS)
        copies = [each for each in rows if each["state"] in COPIED]
        # Instances that start on one host share the copy of an image that stays there.
        shared = Counter(
            each["host"] for each in copies
            if self.caching == "first-use" and each["state"] == "initial-transfer"
        )  # fmt: skip
        requests = list_requests(self.sim)
        live = self.sim._run.live_transfers - len(requests)
        if "messages" not in self.cloud:
            assert live <= len(copies)
        assert live >= len(copies) - sum(shared.values()) + len(shared)
        saved = sum(
            each["memory"] + IMAGE_BYTES * (each["instance"] in self.leaving)
            for each in rows
            if each["instance"] in self.saved
        )
        kept = 0.0
        for name in self.sim.stores["store"]:
            store = self.sim.store(name)
            kept += store.used - count_bytes(store)
            assert store.used + store.promised <= (store.capacity or math.inf) + 1
            if not copies and not requests:
                assert store.promised == store.streams_in_use == store.waiting == 0
        assert kept == pytest.approx(saved, abs=1.0)

    @invariant()
    def limits_hold_for_instances_that_did_not_come_from_elsewhere(self) -> None:
        if not hasattr(self, "sim") or "limits" not in self.cloud or self.moved:
            return
        for cloud in ("east", "west"):
            rows = self.sim.cloud(cloud).instances
            assert rows.height <= 5
            assert rows["cores"].sum() <= 8
            assert rows["memory"].sum() <= 8 * GB

    def teardown(self) -> None:
        if hasattr(self, "sim"):
            # The quality gate finds nothing wrong in what a run wrote, in mid-run and in the end.
            check(self.sim.trace()).raise_for_errors()
            end_all(self.sim)
            trace = self.sim.trace()
            check(trace).raise_for_errors()
            for host in list(self.joined):
                self.leave(host)
            check_accounts(self.sim, trace, self.energy)


def list_requests(sim: Simulation) -> list[StoreTransfer]:
    """List the requests to stores that are in progress."""
    found = {each.name: each for name in sim.stores["store"] for each in sim.store(name).transfers}
    return list(found.values())


def count_bytes(store: StoreService) -> float:
    """Count the bytes of the files of a store."""
    sizes = store._directory.run.store_files(store._find())[1]
    return float(sizes.sum())


def end_all(sim: Simulation) -> None:
    """End all instances: nothing is held of hosts, stores and the network."""
    for each in list_requests(sim):
        each.cancel()
    for cloud in ("east", "west"):
        service = sim.cloud(cloud)
        for name in service.instances["instance"]:
            if name in service.instances["instance"]:
                # With messages, the request for its end may be under way.
                with suppress(InputError):
                    service.terminate(name, violent=True)
    messages = sim._compiled.machines.platform.clouds[0].messages
    if messages:
        sim.run_until(sim.now + 100)
    for cloud in ("east", "west"):
        service = sim.cloud(cloud)
        assert service.use.instances == service.use.queued == 0
        for row in service.hosts.rows(named=True):
            assert (row["free_cores"], row["free_memory"]) == (row["cores"], row["memory"])
            assert row["instances"] == 0
    assert is_clear(sim)
    for name in sim.stores["store"]:
        store = sim.store(name)
        assert store.used == pytest.approx(count_bytes(store))


def read_energy(sim: Simulation) -> dict[str, float]:
    """Read the energy of each machine so far."""
    return dict(zip(sim._compiled.names.machines, sim._run.energy().tolist(), strict=False))


def check_accounts(sim: Simulation, trace: Trace, energy: dict[str, float]) -> None:
    """The energy of meters and instances is that of the hosts, and the bill that of the times."""
    if trace.instances.is_empty() or sim.now == 0:
        return
    # The meters of instances and of the rest add up to the hosts of clouds.
    parts = metrics.energy_of_instances(trace, by="host")
    joules = read_energy(sim)
    for row in parts.rows(named=True):
        assert row["energy_j"] + row["unattributed_j"] == pytest.approx(joules[row["host"]])
    meters = metrics.energy_by_meter(trace).filter(meter="it")
    by_cloud = dict(meters.select("cloud", "energy_j").rows())
    assert by_cloud == pytest.approx({cloud: energy[cloud] for cloud in by_cloud})
    clouds = {each.name: each for each in sim._compiled.machines.platform.clouds}
    if clouds["east"].billing is not None:
        rentals = list_rentals(trace)
        prices = [compute_price(clouds[each.row["cloud"]], each, sim.now) for each in rentals]
        bill = metrics.figures(trace).rentals.bill
        assert bill == pytest.approx(float(sum(prices)))
        assert sim.kpis()["bill"] == pytest.approx(bill)
        # Reservations and transfers have no price here: the bill is that of the instances.
        assert (metrics.client_metrics(trace).bill or 0.0) == bill


TestCloudOrders = CloudOrders.TestCase
TestCloudOrders.settings = examples(5, stateful_step_count=25)
