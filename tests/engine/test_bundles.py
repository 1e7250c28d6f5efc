"""Equal flows are solved as one: they must not differ from flows that are solved one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinloop.engine import Environment
from twinloop.engine import Resource as EngineResource

ROUTES = ((0, 3), (0, 4), (1, 3), (2,), (1, 4, 2))
CAPACITIES = (10.0, 4.0, 2.0, 5.0, 8.0)
TOLERANCE = 1e-9

transfers = st.lists(
    st.tuples(
        st.integers(0, len(ROUTES) - 1),
        st.sampled_from([0.0, 1.0, 2.0, 2.0, 5.5, 30.0]),  # work
        st.sampled_from([0.0, 0.0, 0.0, 0.5, 1.0, 3.25]),  # start
        st.sampled_from([None, None, 0.5]),  # limit
        # Time of its cancellation, never that of an end: there rounding would decide which comes
        # first, and it differs between the sums of bundles and of single flows.
        st.sampled_from([None, None, None, 0.75 + 1 / 9973, 2.0 + 1 / 9967, 6.0 + 1 / 9949]),
    ),
    min_size=2,
    max_size=40,
)


def run(flows: list[tuple[Any, ...]], bundled: bool, sharing: str) -> tuple[Any, ...]:
    """Play the flows; a kind of its own, without effect here, keeps a flow out of every bundle."""
    env = Environment(sharing=sharing)
    links = [env.resource(capacity) for capacity in CAPACITIES]
    links[0].set_cost(1.0, 3.0)
    started = []
    order: list[int] = []
    for number, (route, work, start, limit, _) in enumerate(flows):
        path: list[EngineResource] = [links[i] for i in ROUTES[route]]
        kind = 0 if bundled else number
        activity = env.start(work, path, at=start, limit=limit, kind=kind, priority=route % 2)
        activity.add_callback(lambda _event, number=number: order.append(number))
        started.append(activity)
    for time in sorted({flow[4] for flow in flows if flow[4] is not None}):
        env.run(until=time)
        for activity, flow in zip(started, flows, strict=True):
            if flow[4] == time and activity.state in ("waiting", "running"):
                activity.cancel()
    env.run()
    figures = [(a.finished, a.done, a.consumed, a.cost) for a in started]
    return figures, [(r.consumed, r.done, r.cost) for r in links], [a.state for a in started], order


@given(transfers, st.sampled_from(["max-min", "strict-priority"]))
def test_bundles_give_the_figures_of_single_flows(flows: list[Any], sharing: str) -> None:
    together, links, states, _ = run(flows, True, sharing)
    alone, links_alone, states_alone, _ = run(flows, False, sharing)
    assert states == states_alone
    for one, other in zip([*together, *links], [*alone, *links_alone], strict=True):
        assert one == pytest.approx(other, rel=TOLERANCE, abs=TOLERANCE)


@given(st.integers(2, 60), st.integers(1, 5))
def test_equal_transfers_end_together_in_the_order_of_their_start(count: int, hops: int) -> None:
    env = Environment()
    links = [env.resource(3.0 + hop) for hop in range(hops + 1)]
    order: list[int] = []
    flows = [env.start(6.0, links) for _ in range(count)]
    for number, flow in enumerate(flows):
        flow.add_callback(lambda _event, number=number: order.append(number))
    assert [flow.rate for flow in flows] == [3.0 / count] * count
    env.run()
    assert {flow.finished for flow in flows} == {flows[0].finished}
    assert flows[0].finished == pytest.approx(6.0 * count / 3.0, rel=1e-15)
    assert order == list(range(count))


def test_a_member_that_joins_later_gets_the_rate_of_the_others_from_then_on():
    env = Environment()
    links = [env.resource(12.0), env.resource(100.0)]
    first, second = env.start(60.0, links), env.start(24.0, links)
    env.run(until=2.0)  # 12 each
    third = env.start(8.0, links)
    assert [flow.remaining for flow in (first, second, third)] == [48.0, 12.0, 8.0]
    assert [flow.rate for flow in (first, second, third)] == [4.0, 4.0, 4.0]
    env.run()
    # Three until 4 s, two until 4 + 4/6 s, then one.
    assert third.finished == 4.0
    assert second.finished == pytest.approx(4.0 + 4.0 / 6.0)
    assert first.finished == pytest.approx((60.0 + 24.0 + 8.0) / 12.0)


def test_a_suspended_member_leaves_its_share_to_the_others_and_comes_back():
    env = Environment()
    links = [env.resource(2.0), env.resource(2.0)]
    flows = [env.start(4.0, links) for _ in range(4)]
    env.run(until=1.0)
    flows[0].suspend()
    assert [flow.rate for flow in flows] == pytest.approx([0.0] + [2 / 3] * 3)
    env.run(until=2.5)
    assert [flow.remaining for flow in flows] == pytest.approx([3.5, 2.5, 2.5, 2.5])
    flows[0].resume()
    env.run()
    assert flows[0].finished == pytest.approx(8.0)


def test_bundles_survive_the_merge_and_the_split_of_their_groups():
    env = Environment()
    left, right = [env.resource(2.0) for _ in range(2)], [env.resource(4.0) for _ in range(2)]
    flows = [env.start(10.0, left) for _ in range(3)] + [env.start(10.0, right) for _ in range(5)]
    env.run(until=1.5)
    bridge = env.start(1.0, [left[1], right[0]], limit=0.5)  # one group until 3.5 s
    env.run()
    assert bridge.finished == 3.5
    # On each side 30 or 50 of work, less what the bridge took.
    assert [flow.finished for flow in flows[:3]] == pytest.approx([31.0 / 2.0] * 3)
    assert [flow.finished for flow in flows[3:]] == pytest.approx([51.0 / 4.0] * 5)
