"""Law: copies that take turns by chunks share bandwidths as the flows of the simulator do."""

import heapq

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.engine import Environment, Network
from twinloop.execution.staging.bandwidths import CHUNK, CopyRoutes
from twinloop.platform import Platform

MB = 1e6


def make_platform(read: float, ports: list[float | None]) -> Platform:
    hosts = [
        {"name": f"h{n}", "names": [f"n{n}"], "cores": 1, **({"ports": p} if p else {})}
        for n, p in enumerate(ports)
    ]
    store = {"name": "disk", "read": read}
    return Platform.from_dict({"clusters": [{"name": "c", "hosts": hosts}], "stores": [store]})


def play(platform: Platform, copies: list[tuple[float, int, float]]) -> list[float]:
    """The ends of copies (start, host, bytes) whose threads are never late."""
    routes = CopyRoutes(platform)
    ends = [0.0] * len(copies)
    queue = [(start, number, size) for number, (start, _, size) in enumerate(copies)]
    heapq.heapify(queue)
    while queue:
        ready, number, left = heapq.heappop(queue)
        route = routes.find("disk", f"n{copies[number][1]}", reads=True)
        chunk = min(left, CHUNK)
        due = max(each.reserve(ready, chunk) for each in route.bandwidths)
        if left > chunk:
            heapq.heappush(queue, (due, number, left - chunk))
        else:
            ends[number] = due
    return ends


def simulate(read: float, ports: list[float | None], copies: list[tuple[float, int, float]]):
    """The ends of the same copies as max-min fair flows."""
    env = Environment()
    network = Network(env)
    for number, bandwidth in enumerate(ports):
        network.node(f"n{number}", **({"receive": bandwidth} if bandwidth else {}))
    store = network.store("disk", read=read)
    ends = [0.0] * len(copies)

    def copy(number: int, start: float, host: int, size: float):
        yield env.timeout(start)
        store.put(str(number), size)
        yield network.transfer(store, f"n{host}", file=str(number))
        ends[number] = env.now

    for number, (start, host, size) in enumerate(copies):
        env.process(copy(number, start, host, size))
    env.run()
    return ends


@examples(40)
@given(
    st.floats(20 * MB, 100 * MB),
    st.lists(st.none() | st.floats(5 * MB, 50 * MB), min_size=1, max_size=4),
    st.data(),
)
def test_chunks_share_bandwidths_as_flows_do(read, ports, data):
    one = st.tuples(
        st.sampled_from([0.0, 0.1]), st.integers(0, len(ports) - 1), st.floats(2 * MB, 20 * MB)
    )
    copies = data.draw(st.lists(one, min_size=1, max_size=5))
    ends = play(make_platform(read, ports), copies)
    expected = simulate(read, ports, copies)
    # Turns are by whole chunks: a copy may be late by one of each other copy and its own.
    slowest = min([read, *(port for port in ports if port)])
    turns = (len(copies) + 1) * CHUNK / slowest
    assert ends == pytest.approx(expected, rel=0.02, abs=turns)
    # The bandwidth is an upper bound.
    total = sum(size for _, _, size in copies)
    assert total <= read * (max(ends) - min(start for start, _, _ in copies)) * (1 + 1e-9)
