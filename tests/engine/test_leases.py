"""Laws of two-level sharing: leases against the reference, and on the kernel alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.examples import examples
from twinloop.engine import Environment, StalledError

from .lease_programs import LeaseProgram, LeaseSession, lease_programs
from .lease_reference import LeaseWorld, WatchedLeases
from .programs import Operation
from .reference import Stalled
from .test_laws import assert_alike, close, play_in_turns


def lockstep(program: LeaseProgram, played: list[Operation]) -> Any:
    sim = LeaseSession(Environment(), program, StalledError)
    ref = LeaseSession(LeaseWorld(), program, Stalled)
    yield from play_in_turns(sim, ref, program, played)


def hangs_on_rounding(program: LeaseProgram, played: list[Operation]) -> bool:
    world = WatchedLeases("max-min")
    session = LeaseSession(world, program, Stalled)
    for operation in played:
        session.apply(operation)
    world.judge()
    return world.hung


@examples(15)
@given(lease_programs())
def test_two_levels_equal_the_reference(program: LeaseProgram) -> None:
    played: list[Operation] = []
    try:
        for sim, ref in lockstep(program, played):
            assert_alike(sim, ref)
            for lease, exact in zip(sim.released, ref.released, strict=True):
                assert close(lease.consumed, exact.consumed, ref.env.now)
                assert close(lease.cost, exact.cost, ref.env.now)
    except Exception:
        assume(not hangs_on_rounding(program, played))
        raise


@examples(15)
@given(lease_programs(max_operations=30))
def test_the_host_consumes_and_pays_what_its_leases_and_activities_do(
    program: LeaseProgram,
) -> None:
    session = LeaseSession(Environment(), program, StalledError)
    for operation in program.operations:
        resolved = session.resolve(operation)
        if resolved is None or resolved[0] in ("move", "migrate"):
            continue  # whose counters are those of two hosts
        session.apply(resolved)
        leases = [*session.leases, *session.released]
        alone = sum(
            a.consumed for a in session.activities if any(r in session.hosts for r in a.resources)
        )
        consumed = sum(host.consumed for host in session.hosts)
        assert sum(lease.consumed for lease in leases) + alone == pytest.approx(consumed)
        assert sum(a.consumed for a in session.activities) == pytest.approx(consumed)
        assert sum(a.done for a in session.activities) == pytest.approx(
            sum(host.done for host in session.hosts)
        )
        for host in session.hosts:
            drawn = sum(a.rate for a in session.activities if a.resources == (host,))
            rates = drawn + sum(lease.rate for lease in host.leases)
            assert host.rate == pytest.approx(rates)
            assert host.rate <= host.capacity * (1 + 1e-9)


@examples(15)
@given(lease_programs(max_operations=30), st.integers(0, 30))
def test_a_copy_goes_on_with_the_same_bytes(program: LeaseProgram, cut: int) -> None:
    session = LeaseSession(Environment(), program, StalledError)
    for operation in program.operations[:cut]:
        if (resolved := session.resolve(operation)) is not None:
            session.apply(resolved)
    copy = session.env.copy()
    runs = []
    for env in (session.env, copy):
        env.run(until=env.now + 100)
        runs.append(
            (
                [(a.name, a.state, a.remaining, a.consumed, a.cost) for a in env.activities],
                [(r.name, r.rate, r.consumed, r.done, r.cost) for r in env.resources],
            )
        )
    assert runs[0] == runs[1]


@examples(15)
@given(lease_programs(max_operations=30))
def test_nothing_is_left_after_all_leases_are_released(program: LeaseProgram) -> None:
    session = LeaseSession(Environment(), program, StalledError)
    for operation in program.operations:
        if (resolved := session.resolve(operation)) is not None:
            session.apply(resolved)
    for lease in session.leases:
        lease.release()
    for activity in session.env.activities:
        activity.cancel()
    assert session.env.resources == session.hosts
    assert [(h.running, h.rate, h.leases) for h in session.hosts] == [(0, 0, [])] * len(
        session.hosts
    )
    hosts = [host for host in session.hosts if host.capacity > 0]
    jobs = [host.execute(2 * host.capacity, kind=4) for host in hosts]
    begin = session.env.now
    session.env.run()
    assert [job.finished for job in jobs] == pytest.approx([begin + 2] * len(hosts))


@pytest.mark.parametrize("seed", range(3))
def test_a_lease_of_one_activity_is_that_activity(seed: int) -> None:
    runs = []
    for leased in (False, True):
        rng = random.Random(seed)
        env = Environment()
        host = env.resource(4)
        host.set_cost(idle=10, full=50)
        jobs = []
        for _ in range(40):
            work, limit, size, at = (rng.randint(1, 80) / 8 for _ in range(4))
            if leased:
                jobs.append(host.lease(size, weight=2.5).execute(work, limit=limit, at=at))
            else:
                jobs.append(host.execute(work, limit=min(limit, size), weight=2.5, at=at))
        env.run()
        runs.append([(job.finished, job.consumed, job.cost) for job in jobs])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_lease_of_the_whole_host_is_the_host(seed: int) -> None:
    finished = []
    for leased in (False, True):
        rng = random.Random(seed)
        env = Environment()
        place = env.resource(4, efficiency={1: [1.0, 0.7]})
        if leased:
            place = place.lease(4)
        jobs = [
            place.execute(
                rng.randint(1, 80) / 8,
                limit=rng.choice([None, 0.1, 0.3, 1]),
                weight=rng.choice([1, 2]),
                kind=rng.randrange(2),
                at=rng.randint(0, 64) / 8,
            )
            for _ in range(60)
        ]
        env.run()
        finished.append([job.finished for job in jobs])
    assert finished[0] == pytest.approx(finished[1], rel=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_many_mixed_leases_equal_the_reference(seed: int) -> None:
    finished = []
    for env in (Environment(), LeaseWorld()):
        rng = random.Random(seed)
        host = env.resource(4)
        leases = [host.lease(rng.randint(1, 8) / 8) for _ in range(24)]
        jobs = [
            lease.execute(rng.randint(1, 24) / 8, limit=limit, weight=rng.choice([1, 2]))
            for lease in leases
            for limit in (None, rng.randint(1, 8) / 64, rng.randint(1, 16) / 64)
        ]
        env.run(until=3)
        for lease in leases[::5]:  # the others take their places
            lease.release()
        env.run(until=40)
        finished.append([job.finished for job in jobs if job.state == "finished"])
    assert len(finished[0]) > 30
    assert finished[0] == pytest.approx([float(time) for time in finished[1]], rel=1e-9)


@pytest.mark.parametrize(("work", "limit", "finished"), [(4, None, 5), (6, 0.5, 8)])
def test_an_activity_that_is_cancelled_when_it_is_due_ends_no_other(
    work: float, limit: float | None, finished: float
) -> None:
    env = Environment()
    first = env.resource(1).execute(4)
    lease = env.resource(2).lease(2)
    due, other = lease.execute(work), lease.execute(6 if limit is None else 4, limit=limit)
    first.add_callback(lambda event: due.cancel())
    env.run()
    assert (first.finished, due.state, due.remaining) == (4, "cancelled", 0)
    assert (other.state, other.finished) == ("finished", finished)


def test_two_leases_by_hand() -> None:
    # Level of the host: 3 / (4 + 2) = 0.5, so the leases get 2 and 1. At 20/3 s `wide` ends; then
    # `large` can use 0.5 only, and `small` gets its size.
    env = Environment()
    host = env.resource(3)
    large, small = host.lease(4), host.lease(2)
    narrow, wide = large.execute(10, limit=0.5), large.execute(10)
    other = small.execute(10)
    assert (large.rate, small.rate, narrow.rate, wide.rate) == (2.0, 1.0, 0.5, 1.5)
    assert (host.level, large.level, small.level) == (0.5, 1.5, 1.0)
    env.run()
    assert [a.finished for a in (narrow, wide, other)] == pytest.approx([20, 20 / 3, 25 / 3])
    assert (large.consumed, small.consumed) == pytest.approx((20, 10))


def test_energy_of_a_host_is_charged_through_its_leases() -> None:
    env = Environment()
    host = env.resource(4)
    host.set_cost(idle=100, full=300)
    lease = host.lease(3)
    inside = [lease.execute(30, limit=1), lease.execute(30)]
    alone = host.execute(30, limit=1)
    env.run(until=10)
    assert host.cost == pytest.approx(3000)
    assert [a.cost for a in (*inside, alone)] == pytest.approx([750, 1500, 750])
    assert lease.cost == pytest.approx(2250)


def test_suspend_resize_and_move_keep_the_work() -> None:
    env = Environment()
    first, second = env.resource(1), env.resource(2)
    lease = first.lease(1)
    jobs = [lease.execute(4), lease.execute(8)]
    other = first.execute(10)
    env.run(until=4)  # the lease gets half of the host, each job a quarter
    lease.suspend()
    assert lease.suspended
    assert lease.rate == 0
    assert other.rate == 1
    env.run(until=6)
    assert [job.remaining for job in jobs] == [3, 7]
    lease.move(second)
    lease.resize(2)
    lease.resume()
    assert lease.host is second
    assert [job.rate for job in jobs] == [1, 1]
    env.run()
    assert [job.finished for job in jobs] == [9, 11]
    assert other.finished == 12


def test_observers_see_the_rates_of_leases() -> None:
    env = Environment()
    host = env.resource(2)
    leases = [host.lease(2, name="a"), host.lease(2, name="b")]
    seen: list[tuple[float, str, float]] = []
    env.observe(rate=lambda resource: seen.append((env.now, resource.name, resource.rate)))
    leases[0].execute(3)
    leases[1].execute(1, at=1)
    env.run()
    assert (1.0, "a", 1.0) in seen
    assert (1.0, "b", 1.0) in seen
    assert (2.0, "a", 0.0) in seen


def test_what_leases_refuse() -> None:
    env = Environment()
    host, link = env.resource(2), env.resource(1)
    lease = host.lease(1, name="vm")
    with pytest.raises(ValueError, match="cannot be the host of another lease"):
        lease.lease(1)
    with pytest.raises(ValueError, match="cannot use other resources"):
        env.start(1, [lease, link])
    with pytest.raises(ValueError, match="cannot use one with leases"):
        env.start(1, [host, link])
    with pytest.raises(ValueError, match="is not a lease"):
        host.resize(3)
    with pytest.raises(ValueError, match="set that of its host"):
        lease.set_cost(1, 2)
    with pytest.raises(ValueError, match="max-min"):
        Environment(sharing="strict-priority").resource(1).lease(1)
    flow = env.start(5, [link, env.resource(1)])
    with pytest.raises(ValueError, match="together with others"):
        link.lease(1)
    flow.cancel()
    assert link.lease(1).execute(1).rate == 1
    lease.release()
    with pytest.raises(ValueError, match="lease vm has been released"):
        lease.execute(1)


def test_an_activity_in_a_suspended_lease_stalls_with_a_reason() -> None:
    env = Environment()
    lease = env.resource(1).lease(1, name="vm")
    lease.execute(1)
    lease.suspend()
    with pytest.raises(StalledError, match="its lease vm is suspended"):
        env.run()
