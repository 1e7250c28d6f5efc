"""Transfers over networks with stores: hand-computed cases, and laws against the slow reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import Environment, Network, StalledError

from .stores_reference import SlowNetwork, SlowStore, SlowTransfer, finish_time

HOSTS = ("a", "b", "c", "d")


def star(latency: float = 0.0, send: float = 10.0, receive: float = 10.0) -> Any:
    env = Environment()
    network = Network(env, latency=latency)
    for host in HOSTS:
        network.node(host, send=send, receive=receive)
    return env, network


# By hand


def test_fig_9_through_the_network():
    # Four transfers of 768 MB between four nodes end after 15, 60, 60 and 30 s.
    env = Environment()
    network = Network(env)
    send, receive = [51.2, 128.0, 25.6, 128.0], [128.0, 128.0, 128.0, 38.4]
    for number in range(4):
        network.node(f"n{number}", send=send[number], receive=receive[number])
    pairs = [(0, 1), (2, 0), (2, 3), (1, 3)]
    transfers = [network.transfer(f"n{i}", f"n{j}", 768.0) for i, j in pairs]
    env.run()
    assert [t.finished for t in transfers] == pytest.approx([15, 60, 60, 30], rel=1e-9)


def test_latency_comes_first_and_holds_no_bandwidth():
    env, network = star(latency=2.0)
    early = network.transfer("a", "b", 100.0)
    env.run(until=3.0)
    late = network.transfer("a", "b", 10.0)
    assert (early.rate, late.rate, late.state) == (10.0, 0.0, "waiting")
    env.run(until=4.5)
    assert early.rate == 10.0  # the latency of the other one is not over
    env.run()
    assert (late.finished, early.finished) == (7.0, 13.0)


def test_latency_is_read_at_the_registration():
    env = Environment()
    network = Network(env)
    for host in ("a", "b"):
        network.node(host)
    network.link("a", "b", 10.0, latency=1.0)
    network.link("b", "a", 10.0, latency=5.0, name="slow")
    first = network.transfer("a", "b", 10.0)
    network.route("a", "b", ["slow"])
    second = network.transfer("a", "b", 10.0)
    env.run()
    assert (first.finished, second.finished) == (2.0, 6.0)


def test_the_path_of_the_least_latency_then_of_the_fewest_links():
    env = Environment()
    network = Network(env)
    for node in ("a", "b", "s", "t"):
        network.node(node)
    network.link("a", "s", 4.0, latency=1.0)
    network.link("s", "b", 2.0, latency=1.0)
    network.link("a", "t", 8.0, latency=0.5)
    network.link("t", "b", 8.0, latency=1.5)
    network.link("a", "b", 16.0, latency=2.0)
    direct = network.transfer("a", "b", 16.0)
    env.run()
    assert direct.finished == 3.0
    network.link("t", "s", 1.0, latency=0.0)
    assert [r.name for r in network.transfer("a", "b", 1.0).resources] == ["a-t", "t-s", "s-b"]


def test_ports_and_duplex_links_carry_both_directions_at_full_bandwidth():
    env = Environment()
    network = Network(env)
    for host in ("a", "b", "c"):
        network.node(host, send=10.0, receive=10.0)
    network.link("a", "b", 5.0)
    network.link("b", "c", 5.0, duplex=False)
    there, back = network.transfer("a", "b", 50.0), network.transfer("b", "a", 50.0)
    env.run()
    assert (there.finished, back.finished) == (10.0, 10.0)
    there, back = network.transfer("b", "c", 50.0), network.transfer("c", "b", 50.0)
    env.run()
    assert (there.finished, back.finished) == (30.0, 30.0)


def test_streams_are_served_first_come_first_served():
    env, network = star()
    disk = network.store("disk", read=10.0, streams=2)
    reads = [network.transfer(disk, host, 20.0, name=host) for host in HOSTS]
    assert [r.state for r in reads] == ["running", "running", "waiting", "waiting"]
    assert (disk.streams, disk.waiting) == (2, 2)
    env.run(until=1.0)
    reads[2].cancel()
    env.run()
    assert [r.finished for r in reads] == [4.0, 4.0, 1.0, 6.0]
    assert (disk.streams, disk.waiting, network.transfers) == (0, 0, 0)


def test_a_transfer_without_latency_begins_when_its_stream_becomes_free():
    env, network = star(latency=0.5)
    disk = network.store("disk", node="a", streams=1)
    first, second = network.transfer("b", disk, 0.0), network.transfer("a", disk, 0.0)
    env.run(until=0.25)
    first.cancel()
    assert second.state == "running"
    env.run()
    assert second.finished == 0.25


def test_a_write_promises_its_capacity_at_once_and_is_refused_without_space():
    env, network = star()
    disk = network.store("disk", node="a", capacity=100.0)
    write = network.transfer("b", disk, 60.0, file="x")
    with pytest.raises(ValueError, match=r"from 'c' to 'a': the store has 40 bytes left, and 50"):
        network.transfer("c", disk, 50.0, file="y")
    env.run(until=2.0)
    write.cancel()
    assert (disk.promised, disk.free, disk.files) == (0.0, 100.0, {})
    network.transfer("c", disk, 50.0, file="y")
    env.run()
    assert (disk.files, disk.used, disk.free) == ({"y": 50.0}, 50.0, 50.0)
    disk.delete("y")
    assert (disk.files, disk.free) == ({}, 100.0)


def test_a_file_is_read_with_its_size_and_may_be_copied_to_a_store():
    env, network = star()
    source = network.store("source", node="a", read=4.0)
    target = network.store("target", node="b", write=2.0)
    source.put("data", 20.0)
    copy = network.transfer(source, target, file="data")
    env.run()
    assert (copy.finished, target.files) == (10.0, {"data": 20.0})


def test_nothing_bounds_a_transfer_within_a_node():
    env, network = star(latency=1.0)
    inside = network.transfer("a", "a", 1e12)
    env.run()
    assert inside.finished == pytest.approx(0.0, abs=1e-30)


def test_a_copy_of_the_environment_has_a_network_of_its_own():
    env, network = star(latency=1.0)
    disk = network.store("disk", node="a", capacity=50.0, streams=1)
    one, two = (network.transfer(host, disk, 20.0, file=host) for host in ("b", "c"))
    env.run(until=1.5)
    twin = env.copy()
    other = twin.network.stores["disk"]
    twin.counterpart(one).cancel()
    twin.run()
    env.run()
    assert (disk.files, one.finished, two.finished) == ({"b": 20.0, "c": 20.0}, 3.0, 6.0)
    assert (other.files, twin.now) == ({"c": 20.0}, 4.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda n: n.node("a"), "there is a node 'a' already"),
        (lambda n: n.link("a", "x"), "there is no node 'x' in the network"),
        (lambda n: n.link("a", "a"), "two different ends"),
        (lambda n: n.link("a", "b", -1.0), "bandwidth must be finite and positive"),
        (lambda n: n.link("a", "b", latency=-1.0), "latency must be finite and not negative"),
        (lambda n: n.route("a", "b", ["x"]), "there is no link 'x'"),
        (lambda n: n.store("s", streams=0), "streams must be between 1"),
        (lambda n: n.transfer("a", "b"), "needs its size"),
        (lambda n: n.transfer("a", "b", -1.0), "size must be finite and not negative"),
        (lambda n: n.transfer("a", n.store("s"), file="f"), "needs its size"),
        (lambda n: n.transfer(n.store("s"), "a", file="f"), "store 's' has no file 'f'"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    _, network = star()
    with pytest.raises(ValueError, match=message):
        change(network)


def test_an_environment_has_one_network():
    env, _ = star()
    with pytest.raises(ValueError, match="has a network already"):
        Network(env)


def test_links_that_do_not_reach_a_node_are_no_route():
    env = Environment()
    network = Network(env)
    for node in ("a", "b", "c"):
        network.node(node)
    network.link("a", "b")
    with pytest.raises(ValueError, match="from 'a' to 'c': there is no route"):
        network.transfer("a", "c", 1.0)
    network.link("b", "c", name="last")
    with pytest.raises(ValueError, match="must follow each other"):
        network.route("a", "c", ["last"])
    assert network.transfer("a", "c", 1.0)


def test_a_node_without_links_that_is_added_after_a_search_is_not_reached():
    env = Environment()
    network = Network(env)
    for node in ("a", "b"):
        network.node(node)
    network.link("a", "b")
    assert network.transfer("a", "b", 1.0)
    for i in range(100):
        network.node(f"late {i}")
        with pytest.raises(ValueError, match="there is no route"):
            network.transfer("a", f"late {i}", 1.0)


def test_transfers_that_cannot_end_are_named_with_their_reason():
    env, network = star()
    disk = network.store("disk", streams=1)
    stuck = network.transfer(disk, "a", 5.0, limit=0.0, name="stuck")
    network.transfer(disk, "b", 5.0, name="behind")
    with pytest.raises(StalledError, match="behind: it waits for a stream of its store"):
        env.run()
    stuck.cancel()
    env.run()


# Laws


@dataclass(frozen=True)
class Load:
    """A random network with two stores, and transfers over it with their cancellations."""

    ports: list[float]
    latency: float
    streams: list[int | None]
    capacities: list[float]
    rates: list[float | None]
    registrations: list[tuple[float, str, str, float, float | None]]


times = st.integers(0, 24).map(lambda n: n / 4)
ends = st.sampled_from([*HOSTS[:3], "s0", "s1"])
loads = st.builds(
    Load,
    st.lists(st.sampled_from([1.0, 2.0, 5.0]), min_size=6, max_size=6),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.lists(st.sampled_from([None, 1, 2]), min_size=2, max_size=2),
    st.lists(st.sampled_from([20.0, 60.0, 1e6]), min_size=2, max_size=2),
    st.lists(st.sampled_from([None, 1.0, 3.0]), min_size=4, max_size=4),
    st.lists(
        st.tuples(
            times,
            ends,
            ends,
            st.sampled_from([0.0, 3.0, 3.0, 10.0, 17.5]),
            st.one_of(st.none(), st.none(), times),
        ),
        min_size=1,
        max_size=14,
    ),
)


class BothSides:
    """The same network in the kernel and in the reference."""

    def __init__(self, load: Load) -> None:
        self.env = Environment()
        self.network = Network(self.env, latency=load.latency)
        self.slow = SlowNetwork()
        world = self.slow.world
        self.load = load
        self.ports = {}
        for number, host in enumerate(HOSTS[:3]):
            out, into = load.ports[2 * number], load.ports[2 * number + 1]
            self.network.node(host, send=out, receive=into)
            self.ports[host] = (world.resource(out), world.resource(into))
        self.stores, self.slow_stores = {}, {}
        for number, name in enumerate(("s0", "s1")):
            read, write = load.rates[2 * number : 2 * number + 2]
            node = HOSTS[0] if number == 0 else None
            streams = load.streams[number]
            self.stores[name] = self.network.store(
                name,
                node=node,
                capacity=load.capacities[number],
                read=read,
                write=write,
                streams=streams,
            )
            self.slow_stores[name] = SlowStore(
                node or name,
                load.capacities[number],
                None if read is None else world.resource(read),
                None if write is None else world.resource(write),
                float("inf") if streams is None else streams,
            )
        self.unlimited = world.resource(1e50)
        self.pairs: list[tuple[Any, SlowTransfer]] = []

    def register(self, source: str, target: str, size: float) -> None:
        stores = self.slow_stores
        nodes = [stores[e].node if e in stores else e for e in (source, target)]
        read, write = stores.get(source), stores.get(target)
        route = [read.read] if read and read.read else []
        if nodes[0] != nodes[1]:
            route += [self.ports[nodes[0]][0]] if nodes[0] in self.ports else []
            route += [self.ports[nodes[1]][1]] if nodes[1] in self.ports else []
        route += [write.write] if write and write.write else []
        latency = self.load.latency if nodes[0] != nodes[1] else 0.0
        file = f"f{len(self.pairs)}"
        given = [self.stores.get(end, end) for end in (source, target)]
        if write is not None and not self.slow.fits(write, size):
            with pytest.raises(ValueError, match="bytes left"):
                self.network.transfer(*given, size)
            return
        both = [s for s in (read, write) if s is not None]
        used = both[:1] if read is write else both
        slow = SlowTransfer(size, route or [self.unlimited], latency, used, write, file)
        self.slow.transfers.append(slow)
        self.slow.admit()
        name = file if write is not None else None
        if read is not None and name is not None:
            self.stores[source].put(name, 0.0)  # a file without a size of its own
        activity = self.network.transfer(*given, size, file=name)
        if read is not None and name is not None:
            self.stores[source].delete(name)
        self.pairs.append((activity, slow))

    def compare(self) -> None:
        for name, store in self.stores.items():
            slow = self.slow_stores[name]
            assert store.streams == self.slow.served(slow) <= slow.streams
            assert store.promised == pytest.approx(self.slow.promised(slow), abs=1e-9)
            assert store.files == slow.files
            assert store.used + store.promised <= store.capacity * (1 + 1e-9)
        for activity, slow in self.pairs:
            assert activity.state == slow.state
            if slow.activity is not None and activity.state == "running":
                assert activity.remaining == pytest.approx(
                    float(slow.activity.remaining), rel=1e-9, abs=1e-9
                )
        assert self.network.transfers == sum(slow.live for _, slow in self.pairs)


@given(loads)
def test_transfers_end_as_in_the_reference_and_nothing_is_leaked(load: Load) -> None:
    both = BothSides(load)
    registrations = sorted(load.registrations, key=lambda each: each[0])
    instants = sorted({t for each in registrations for t in (each[0], each[4]) if t is not None})
    cancels: dict[float, list[int]] = {}
    for number in instants:
        # Between the events, so that rounding does not decide which comes first.
        time = number + 1 / 512
        both.env.run(until=time)
        both.slow.advance(time)
        both.compare()
        for activity, slow in [
            both.pairs[i] for i in cancels.get(number, []) if i < len(both.pairs)
        ]:
            if slow.live:
                activity.cancel()
                slow.cancel()
                both.slow.admit()
        for start, source, target, size, cancel in registrations:
            if start == number:
                before = len(both.pairs)
                both.register(source, target, size)
                if cancel is not None and len(both.pairs) > before:
                    cancels.setdefault(cancel, []).append(before)
        both.compare()
    both.env.run()
    both.slow.advance(None)
    both.compare()
    for activity, slow in both.pairs:
        if not slow.cancelled:
            assert activity.finished == pytest.approx(float(finish_time(slow)), rel=1e-9)
            assert activity.done == slow.size
    assert both.network.transfers == 0
    for name, store in both.stores.items():
        assert (store.streams, store.waiting, store.promised) == (0, 0, 0.0), name


@given(st.integers(1, 40), st.sampled_from([None, 1, 3, 7]))
def test_equal_reads_of_a_store_get_equal_shares(count: int, streams: int | None) -> None:
    env, network = star(send=1e9, receive=1e9)
    disk = network.store("disk", read=12.0, streams=streams)
    reads = [network.transfer(disk, "a", 24.0) for _ in range(count)]
    env.run()
    # Groups of `streams` reads after each other, each as long as its bytes over the bandwidth.
    size = streams or count
    for number, read in enumerate(reads):
        before = number // size * size
        alike = min(size, count - before)
        assert read.finished == pytest.approx((before + alike) * 24.0 / 12.0, rel=1e-12)
