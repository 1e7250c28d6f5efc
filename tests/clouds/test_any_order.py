"""Random orders to the service of a cloud, in every state of instances, hosts and stores.

Whatever is ordered, refused, lost or cancelled: what hosts and stores count as occupied is what the
instances hold, and nothing is held in the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.clouds.cases import GB, POWER, is_clear, make_host, make_task
from tests.examples import examples
from twinloop import metrics
from twinloop.description.errors import InputError
from twinloop.engine import Notice, Simulation
from twinloop.scenario import Scenario
from twinloop.trace.quality import check

IMAGE_BYTES = 100e6
STORE_BYTES = 6 * GB
#: States in which an instance is on no host.
HOMELESS = {"requested", "queued", "suspended", "shutdown"}
#: States in which an instance has one transfer.
COPIED = {"initial-transfer", "suspend-transfer", "resume-transfer", "migrating", "stopped"}
PORTS = {"in": "1 Gb/s", "out": "1 Gb/s"}


def make_clouds(**cloud: Any) -> Scenario:
    """Two clouds and a machine without cloud."""
    names = ("east", "west", "spare")
    hosts = {"east": "e1 e2", "west": "w1", "spare": "s1"}
    image = {"name": "base", "size": IMAGE_BYTES, "store": "images",
             "boot": {"delay": 1, "work": 2}}  # fmt: skip
    clouds = [{"name": each, "clusters": [each], "images": [image], **cloud} for each in names[:2]]
    platform = {
        "clusters": [
            {"name": each, "hosts": [make_host(hosts[each], memory=8 * GB, power=POWER)]}
            for each in names
        ],
        "clouds": clouds,
        "stores": [{"name": "images", "capacity": STORE_BYTES, "ports": PORTS, "streams": 2}],
        "network": {"latency": 0.25},
    }
    # No instance is large enough: the simulation goes on.
    tasks = [make_task(0, cores=100)]
    return Scenario(platform=platform, policy="manual", workload={"tasks": tasks})


class CloudOrders(RuleBasedStateMachine):
    """Orders in any order, with a model of what is held."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: set[str] = set()
        self.refused = 0
        self.tasks = 0

    @initialize(
        cloud=st.fixed_dictionaries(
            {},
            optional={
                "inter_boot_delay": st.just("1500ms"),
                "decision_delay": st.just("1s"),
                "migration": st.sampled_from(
                    [{"mode": "cold"}, {"mode": "live", "dirty_rate": "40 MB/s", "rounds": 3}]
                ),
                "controllers": st.sampled_from(
                    [
                        {"placement": {"name": "worst-fit", "options": {"queue": "refuse"}}},
                        {"placement": {"name": "pack-ic", "options": {"overcommit": 2.0}}},
                    ]
                ),
            },
        )
    )
    def open(self, cloud: dict[str, Any]) -> None:
        self.sim = Simulation(make_clouds(**cloud))
        self.sim.notify(self.note, kinds=["instance"])

    def note(self, notice: Notice) -> None:
        # The memory of an instance is in the store from its suspension to its end or resumption.
        if notice.value == "suspended":
            self.saved.add(notice.subject)
        elif notice.value in ("running", "destroyed"):
            self.saved.discard(notice.subject)

    def order(self, at: str, method: str, *arguments: Any, **options: Any) -> None:
        try:
            getattr(self.sim.cloud(at), method)(*arguments, **options)
        except InputError:
            self.refused += 1

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
        cloud=st.sampled_from(["east", "west"]),
        cores=st.integers(1, 4),
        gigabytes=st.integers(0, 3),
    )
    def request(self, cloud: str, cores: int, gigabytes: int) -> None:
        self.order(cloud, "request", cores=cores, memory=gigabytes * GB)

    @rule(cores=st.integers(1, 3), count=st.integers(1, 3))
    def request_together(self, cores: int, count: int) -> None:
        self.order("east", "request_together", count, cores=cores)

    @rule(cores=st.integers(1, 4), strict=st.booleans())
    def allocate(self, cores: int, strict: bool) -> None:
        self.order("east", "allocate", cores=cores, validity=2.0, strict=strict)

    @rule(
        number=st.integers(0, 20),
        method=st.sampled_from(
            ["suspend", "resume", "suspend", "resume", "reboot", "shut_down", "use_allocation"]
        ),
    )
    def change(self, number: int, method: str) -> None:
        if chosen := self.choose(number):
            self.order(chosen[0], method, chosen[1])

    @rule(number=st.integers(0, 20), violent=st.booleans())
    def terminate(self, number: int, violent: bool) -> None:
        if chosen := self.choose(number):
            self.order(chosen[0], "terminate", chosen[1], violent=violent)

    @rule(number=st.integers(0, 20), host=st.sampled_from(["e1", "e2", "w1", "s1"]))
    def move(self, number: int, host: str) -> None:
        if chosen := self.choose(number):
            self.order(chosen[0], "migrate", chosen[1], host=host)

    @rule(number=st.integers(0, 20))
    def leave(self, number: int) -> None:
        if chosen := self.choose(number):
            other = {"east": "west", "west": "east"}[chosen[0]]
            self.order(chosen[0], "migrate", chosen[1], cloud=other)

    @rule(cloud=st.sampled_from(["east", "west"]), host=st.sampled_from(["e1", "w1", "s1"]))
    def register(self, cloud: str, host: str) -> None:
        self.order(cloud, "register_host", host)

    @rule(
        cloud=st.sampled_from(["east", "west"]),
        host=st.sampled_from(["e1", "w1", "s1"]),
        violent=st.booleans(),
    )
    def deregister(self, cloud: str, host: str, violent: bool) -> None:
        self.order(cloud, "deregister_host", host, violent=violent)

    @rule(host=st.sampled_from(["e1", "e2", "w1", "s1"]))
    def fail_or_restore(self, host: str) -> None:
        is_up = self.sim.machines.filter(machine=host)["up"].item()
        (self.sim.fail if is_up else self.sim.restore)(host)

    @rule(cores=st.integers(1, 2), run_time=st.sampled_from([0.5, 3.0, 20.0]))
    def submit(self, cores: int, run_time: float) -> None:
        self.tasks += 1
        self.sim.submit(f"n{self.tasks}", cores=cores, run_time=run_time)

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 2.0, 10.0]))
    def advance(self, seconds: float) -> None:
        self.sim.run_until(self.sim.now + seconds)

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
        cores: Counter[str] = Counter()
        memory: Counter[str] = Counter()
        for column in ("host", "target"):
            for host, size, held in zip(now[column], now["cores"], now["memory"], strict=True):
                if host >= 0:
                    cores[names[host]] += size
                    memory[names[host]] += held
        for cloud in ("east", "west"):
            for row in self.sim.cloud(cloud).hosts.rows(named=True):
                assert row["cores"] - row["free_cores"] == pytest.approx(cores[row["host"]])
                assert row["memory"] - row["free_memory"] == pytest.approx(
                    memory[row["host"]], abs=1.0
                )

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
        assert self.sim._run.live_transfers == sum(each["state"] in COPIED for each in rows)
        copied = sum(each["state"] == "suspend-transfer" for each in rows)
        assert (self.sim._run.store_use()["promised"][0] > 0) <= (copied > 0)
        assert self.sim._run.stored_bytes()[0] >= 2 * IMAGE_BYTES

    def teardown(self) -> None:
        if hasattr(self, "sim"):
            # The quality gate finds nothing wrong in what a run wrote, in mid-run and in the end.
            check(self.sim.trace()).raise_for_errors()
            end_all(self.sim)
            check(self.sim.trace()).raise_for_errors()


def end_all(sim: Simulation) -> None:
    """End all instances: hosts and stores are as at the start, and the energy is accounted for."""
    for cloud in ("east", "west"):
        service = sim.cloud(cloud)
        for name in service.instances["instance"]:
            if name in service.instances["instance"]:
                service.terminate(name, violent=True)
        assert service.use.instances == service.use.queued == 0
        for row in service.hosts.rows(named=True):
            assert (row["free_cores"], row["free_memory"]) == (row["cores"], row["memory"])
            assert row["instances"] == 0
    assert is_clear(sim)
    assert sim._run.stored_bytes().tolist() == pytest.approx([2 * IMAGE_BYTES])
    trace = sim.trace()
    if trace.instances is None or sim.now == 0:
        return
    # The meters of instances and of the rest add up to the hosts of clouds.
    parts = metrics.energy_of_instances(trace, by="host")
    joules = dict(zip(sim._compiled.names.machines, sim._run.energy().tolist(), strict=False))
    for row in parts.rows(named=True):
        assert row["energy_j"] + row["unattributed_j"] == pytest.approx(joules[row["host"]])


TestCloudOrders = CloudOrders.TestCase
TestCloudOrders.settings = examples(5, stateful_step_count=25)
