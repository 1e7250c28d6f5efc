"""The reference against times worked out by hand: the kernel is compared with it."""

from fractions import Fraction as F

import pytest

from .reference import Stalled, World


def test_two_share_and_the_longer_one_then_has_all():
    world = World()
    host = world.resource(1.0)
    short, long = host.execute(10), host.execute(20)
    world.run()
    assert (short.finished, long.finished) == (20, 30)
    assert host.consumed == host.done == 30


def test_a_weight_and_a_limit():
    world = World()
    host = world.resource(10.0)
    limited = host.execute(10, limit=1)
    light, heavy = host.execute(30, weight=1), host.execute(30, weight=2)
    assert [a.rate for a in (limited, light, heavy)] == [1, 3, 6]
    world.run()
    assert (heavy.finished, light.finished, limited.finished) == (5, 5 + F(15, 9), 10)


def test_four_transfers_between_four_nodes():
    world = World()
    send = [world.resource(c) for c in (51.2, 128, 25.6, 128)]
    receive = [world.resource(c) for c in (128, 128, 128, 38.4)]
    pairs = [(0, 1), (2, 0), (2, 3), (1, 3)]
    transfers = [world.start(768, [send[i], receive[j]]) for i, j in pairs]
    world.run()
    assert [float(t.finished) for t in transfers] == pytest.approx([15, 60, 60, 30], rel=1e-12)


def test_higher_priority_first():
    world = World(sharing="strict-priority")
    host = world.resource(2.0)
    low, high = host.execute(10, priority=0), host.execute(3, priority=1, limit=1.5)
    assert (low.rate, high.rate) == (F(1, 2), F(3, 2))
    world.run()
    assert (high.finished, low.finished) == (2, 6.5)


def test_efficiency_separates_work_done_from_capacity_consumed():
    world = World()
    host = world.resource(2.0, efficiency={0: [1.0, 0.5]})
    first, second = host.execute(1), host.execute(3)
    world.run()
    assert (first.finished, second.finished) == (2, 3)
    assert (first.consumed, second.consumed, host.consumed, host.done) == (2, 4, 6, 4)


def test_a_flow_has_the_product_of_the_efficiencies():
    world = World()
    ends = [world.resource(1.0, efficiency={1: [0.5]}) for _ in range(2)]
    flow = world.start(1, ends, kind=1)
    world.run()
    assert flow.finished == 4


def test_latency_profile_suspension_and_move():
    world = World()
    first, second = world.resource(1.0), world.resource(4.0)
    activity = first.execute(10, latency=1)
    first.set_profile([2, 3], [0, 2])
    world.run(until=2)
    assert activity.remaining == 9
    world.run(until=4)
    assert activity.remaining == 7
    activity.suspend()
    world.run(until=5)
    assert activity.remaining == 7
    activity.resume()
    activity.move(second)
    world.run()
    assert activity.finished == 5 + F(7, 4)


def test_a_profile_that_repeats():
    world = World()
    host = world.resource(1.0)
    host.set_profile([1, 2], [0, 1], period=2)
    activity = host.execute(3)
    world.run(until=10)
    assert activity.finished == 5


def test_stalled_error_lists_activities_that_cannot_end():
    world = World()
    activity = world.resource(0.0).execute(1)
    with pytest.raises(Stalled) as caught:
        world.run()
    assert caught.value.activities == [activity]


def test_a_run_until_a_time_leaves_the_events_of_that_time():
    world = World()
    activity = world.resource(1.0).execute(5)
    world.run(until=5)
    assert (activity.state, activity.remaining) == ("running", 0)
    world.run()
    assert (activity.state, activity.finished) == ("finished", 5)
