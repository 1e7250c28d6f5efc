"""The laws of fluid sharing, on random programs: against the reference, and on the kernel alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from math import inf, isinf
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from twinloop.engine import Activity, Environment, Resource, StalledError

from .programs import COSTS, EFFICIENCIES, KINDS, Operation, Program, Session, programs
from .reference import Stalled, World
from .rounding import hangs_on_rounding

TOLERANCE = 1e-9
# Closer than this to its end, an activity may have ended in one simulation and not in the other.
AT_ITS_END = 10 * TOLERANCE


def on_kernel(program: Program) -> Session:
    return Session(Environment(sharing=program.sharing), program, StalledError)


def on_reference(program: Program) -> Session:
    return Session(World(sharing=program.sharing), program, Stalled)


def lockstep(program: Program, played: list[Operation]) -> Iterator[tuple[Session, Session]]:
    """Play a program on both, write it down, and stop after every operation to be looked at."""
    yield from play_in_turns(on_kernel(program), on_reference(program), program, played)


def play_in_turns(sim: Any, ref: Any, program: Any, played: list[Operation]) -> Iterator[Any]:
    """Play a program in two sessions, and stop after every operation."""
    for operation in [*program.operations, ("finish",)]:
        resolved = ref.resolve(operation, safe=lambda a: not at_its_end(ref.env, a))
        if resolved is None:
            continue
        played.append(resolved)
        assert sim.apply(resolved) == ref.apply(resolved), "one stalled, the other did not"
        yield sim, ref
        if resolved[0] == "finish":
            beyond = float(ref.env.now)
            sim.align(beyond)
            ref.align(beyond)
            yield sim, ref


def at_its_end(world: World, activity: Any) -> bool:
    end = world.ends().get(activity, activity.finished)
    return end is not None and abs(end - world.now) <= AT_ITS_END * max(1, world.now)


def close(x: float, exact: Fraction, *scale: Fraction) -> bool:
    return abs(x - float(exact)) <= TOLERANCE * float(max(1, exact, *scale))


def play(session: Session, operations: list[Operation], look: bool = False) -> Session:
    for operation in operations:
        resolved = session.resolve(operation)
        if resolved is not None:
            session.apply(resolved)
        if look:
            figures(session)
    return session


def figures(session: Session) -> tuple[Any, ...]:
    """All there is to see in a simulation."""
    return (
        session.env.now,
        [(a.state, a.started, a.finished) for a in session.activities],
        [(a.remaining, a.done, a.consumed, a.cost, a.rate) for a in session.activities],
        [(r.capacity, r.rate, r.level, r.consumed, r.done, r.cost) for r in session.resources],
    )


def drawing(session: Session) -> list[Activity]:
    return [a for a in session.activities if a.state == "running" and a.limit != 0]


def users(session: Session, resource: Resource) -> list[Activity]:
    return [a for a in drawing(session) if resource in a.resources]


def at_limit(activity: Activity) -> bool:
    return activity.limit is not None and activity.rate >= activity.limit * (1 - TOLERANCE)


def saturated(session: Session, resource: Resource) -> bool:
    return sum(a.rate for a in users(session, resource)) >= resource.capacity * (1 - TOLERANCE)


# Against the reference


@given(programs())
def test_times_work_and_rates_equal_the_reference(program: Program) -> None:
    played: list[Operation] = []
    try:
        for sim, ref in lockstep(program, played):
            assert_alike(sim, ref)
    except Exception:
        assume(not hangs_on_rounding(program, played))
        raise


def assert_alike(sim: Session, ref: Session) -> None:
    now = ref.env.now
    assert close(sim.env.now, now)
    ending = [at_its_end(ref.env, a) for a in ref.activities]
    rates = ref.env.rates()
    for a, exact, ends in zip(sim.activities, ref.activities, ending, strict=True):
        scale = (now, exact.done + exact.remaining)
        assert close(a.remaining, exact.remaining, *scale)
        assert close(a.done, exact.done, *scale)
        assert close(a.consumed, exact.consumed, *scale)
        assert close(a.cost, exact.cost, *scale)
        if not ends:
            assert a.state == exact.state
            assert (a.finished is None) == (exact.finished is None)
            assert (a.started is None) == (exact.started is None)
        if a.finished is not None:
            assert close(a.finished, now if exact.finished is None else exact.finished, *scale)
        if a.started is not None and exact.started is not None:
            assert close(a.started, exact.started)
        if not any(ending):
            assert close(a.rate, rates.get(exact, Fraction(0)))
    for r, exact in zip(sim.resources, ref.resources, strict=True):
        assert r.capacity == exact.capacity
        assert close(r.consumed, exact.consumed, now)
        assert close(r.done, exact.done, now)
        assert close(r.cost, exact.cost, now)


@pytest.mark.parametrize("seed", range(4))
def test_many_sharers_with_many_limits_end_as_in_the_reference(seed: int) -> None:
    runs = []
    for env in (Environment(), World()):
        rng = random.Random(seed)
        hosts = [env.resource(c, efficiency=EFFICIENCIES[seed]) for c in (8.0, 3.0)]
        activities = [
            env.start(
                rng.randint(1, 200) / 4,
                hosts if i % 10 == 0 else [hosts[i % 2]],
                limit=rng.randint(1, 64) / 64,
                weight=rng.choice([1.0, 1.0, 2.0]),
                kind=rng.randrange(KINDS),
                at=rng.randint(0, 64) / 8,
            )
            for i in range(80)
        ]
        env.run()
        runs.append((activities, hosts))
    (activities, hosts), (exact_activities, exact_hosts) = runs
    for a, exact in zip(activities, exact_activities, strict=True):
        assert close(a.finished, exact.finished)
        assert close(a.consumed, exact.consumed)
    for host, exact in zip(hosts, exact_hosts, strict=True):
        assert close(host.consumed, exact.consumed)
        assert close(host.done, exact.done)


# On the kernel alone


@given(programs())
def test_no_capacity_and_no_limit_is_exceeded(program: Program) -> None:
    session = on_kernel(program)
    for operation in program.operations:
        play(session, [operation])
        for r in session.resources:
            drawn = sum(a.rate for a in users(session, r))
            assert drawn <= r.capacity * (1 + TOLERANCE)
            assert r.rate == pytest.approx(drawn, rel=TOLERANCE, abs=TOLERANCE)
        for a in session.activities:
            assert 0 <= a.rate <= (inf if a.limit is None else a.limit * (1 + TOLERANCE))
            assert a.rate == 0 or a in drawing(session)


@given(programs(sharing=("max-min",)))
def test_each_is_at_its_limit_or_has_a_full_resource_where_none_has_more(program: Program) -> None:
    session = on_kernel(program)
    for operation in program.operations:
        play(session, [operation])
        for a in drawing(session):
            assert at_limit(a) or any(
                saturated(session, r) and has_the_most(a, users(session, r)) for r in a.resources
            )


def has_the_most(activity: Activity, rivals: list[Activity]) -> bool:
    most = max(rival.rate / rival.weight for rival in rivals)
    return activity.rate / activity.weight >= most * (1 - TOLERANCE)


@given(programs(sharing=("max-min",)))
def test_a_rate_is_the_limit_or_the_weight_times_the_lowest_level(program: Program) -> None:
    session = on_kernel(program)
    for operation in program.operations:
        play(session, [operation])
        for a in drawing(session):
            level = min(r.level for r in a.resources)
            held = min(inf if a.limit is None else a.limit, a.weight * level)
            assert a.rate == pytest.approx(held, rel=TOLERANCE, abs=TOLERANCE)
        for r in session.resources:
            assert isinf(r.level) or saturated(session, r)


@given(programs(sharing=("strict-priority",)))
def test_a_lower_class_gets_only_what_the_higher_ones_cannot_take(program: Program) -> None:
    session = on_kernel(program)
    for operation in program.operations:
        play(session, [operation])
        priorities = [start[3]["priority"] for start in session.starts]
        rank = dict(zip(session.activities, priorities, strict=True))
        for a in drawing(session):
            assert at_limit(a) or any(
                saturated(session, r)
                and has_the_most(a, [b for b in users(session, r) if rank[b] == rank[a]])
                and not any(
                    b.rate > TOLERANCE * r.capacity for b in users(session, r) if rank[b] < rank[a]
                )
                for r in a.resources
            )


@given(programs())
def test_work_is_conserved(program: Program) -> None:
    session = on_kernel(program)
    owed: dict[Activity, float] = {}
    for operation in [*program.operations, ("finish",)]:
        resolved = session.resolve(operation)
        if resolved is None:
            continue
        if resolved[0] == "set_remaining":
            activity = session.activities[resolved[1]]
            owed[activity] = activity.done + resolved[2]
        session.apply(resolved)
        if resolved[0] == "start":
            owed[session.activities[-1]] = resolved[1]
        for a, work in owed.items():
            assert a.remaining >= 0
            assert a.done + a.remaining == pytest.approx(work, rel=TOLERANCE, abs=TOLERANCE)
            if a.state == "finished":
                assert a.remaining == 0


@given(programs())
def test_what_a_resource_gave_is_what_its_activities_took(program: Program) -> None:
    # Without moves: the counters of an activity do not say where it took what.
    session = on_kernel(program)
    play(session, [op for op in program.operations if op[0] != "move"])
    for r in session.resources:
        here = [a for a in session.activities if r in a.resources]
        scale = TOLERANCE * max(1, session.env.now)
        assert r.consumed == pytest.approx(sum(a.consumed for a in here), rel=TOLERANCE, abs=scale)
        assert r.done == pytest.approx(sum(a.done for a in here), rel=TOLERANCE, abs=scale)


@given(programs(), st.lists(st.sampled_from(COSTS[1:]), min_size=4, max_size=4))
def test_the_cost_of_resources_is_charged_but_for_the_time_they_are_idle(
    program: Program, costs: list[tuple[float, float]]
) -> None:
    session = on_kernel(program)
    for r, cost in zip(session.resources, costs, strict=False):
        r.set_cost(*cost)
    recording = session.env.record()
    play(session, [op for op in program.operations if op[0] != "set_cost"])
    columns = recording.rates()
    total = idle = 0.0
    for i, (r, cost) in enumerate(zip(session.resources, costs, strict=False)):
        mine = columns["resource"] == i
        times = np.concatenate([[0.0], columns["t"][mine], [session.env.now]])
        unused = np.concatenate([[0.0], columns["rate"][mine]]) == 0
        idle += cost[0] * float(np.sum(np.diff(times)[unused]))
        total += r.cost
    charged = sum(a.cost for a in session.activities)
    scale = TOLERANCE * max(1, session.env.now)
    assert charged + idle == pytest.approx(total, rel=TOLERANCE, abs=scale)


@given(programs())
def test_time_and_counters_never_go_back(program: Program) -> None:
    session = on_kernel(program)
    clock, events, counters = session.env.now, session.env.events, list[float]()
    for operation in program.operations:
        play(session, [operation])
        assert session.env.now >= clock
        assert session.env.events >= events
        clock, events = session.env.now, session.env.events
        assert session.env.peek() >= clock
        subjects = [*session.resources, *session.activities]
        after = [x for s in subjects for x in (s.consumed, s.done, s.cost)]
        rounding = TOLERANCE * max(1, clock)
        assert all(y >= x - rounding for x, y in zip(counters, after, strict=False))
        counters = after


@given(programs(), st.data())
def test_a_copy_and_its_original_go_on_alike(program: Program, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(program.operations)), label="copied after")
    rest = [*program.operations[cut:], ("finish",)]
    alone = play(on_kernel(program), [*program.operations, ("finish",)])
    original = play(on_kernel(program), program.operations[:cut])
    twin = copy(original)
    for operation in rest:
        play(twin, [operation])
        play(original, [operation])
        assert figures(twin) == figures(original)
    assert figures(twin) == figures(original) == figures(alone)
    assert twin.env.events == original.env.events == alone.env.events


@given(programs())
def test_a_copy_left_alone_does_not_move(program: Program) -> None:
    cut = len(program.operations) // 2
    original = play(on_kernel(program), program.operations[:cut])
    twin = copy(original)
    before = figures(twin)
    play(original, program.operations[cut:])
    assert figures(twin) == before


def copy(session: Session) -> Session:
    twin = object.__new__(Session)
    twin.env = session.env.copy()
    twin.resources = [twin.env.counterpart(r) for r in session.resources]
    # Those that have ended are not in the copy: their figures stand for ever.
    twin.activities = [
        a if a.state in ("finished", "cancelled") else twin.env.counterpart(a)
        for a in session.activities
    ]
    twin.periodic, twin.stalled = session.periodic, session.stalled
    twin.starts = list(session.starts)
    return twin


@given(programs())
def test_the_same_program_twice_gives_the_same_bits(program: Program) -> None:
    once = play(on_kernel(program), program.operations)
    again = play(on_kernel(program), program.operations)
    assert figures(once) == figures(again)
    assert once.env.events == again.env.events


@given(programs())
def test_two_threads_at_once_give_the_same_bits(program: Program) -> None:
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(lambda: play(on_kernel(program), program.operations)) for _ in "ab"]
    first, second = (run.result() for run in runs)
    assert figures(first) == figures(second)
    assert first.env.events == second.env.events


PLAIN = {"limit": None, "weight": 1.0, "kind": 0, "priority": 0, "latency": 0.0}
A_FLOW_LEAVES = Program(
    "max-min",
    [(1.0, None), (10.0, None), (2.0, None)],
    [
        ("start", 10.0, [0], PLAIN | {"limit": 0.1}, False),
        ("start", 100.0, [0, 1], PLAIN, False),
        ("start", 0.0, [2, 0], PLAIN, False),
        ("advance", 1.0),
        ("set_weight", 1, 1.0),
        ("set_remaining", 1, 0.0),
        ("advance", 0.375),
    ],
)
# The second kind leaves as soon as it was looked at, and comes back later.
A_KIND_COMES_BACK = Program(
    "max-min",
    [
        (0.0, {0: [1.0, 1.0, 0.75], 1: [0.9, 0.8, 0.7, 0.25], 2: [1.25]}),
        (10.0, {0: [1.0, 1.0, 0.0], 1: [0.5, 1.0]}),
        (2.0, {0: [1.0, 0.5]}),
    ],
    [
        ("set_profile", 0, [(1.625, 0.5), (2.25, 0.0)], True),
        ("start", 10.0, [3], PLAIN | {"weight": 3.0, "kind": 1}, False),
        ("start", 100.0, [0], PLAIN | {"limit": 0.1, "weight": 0.01, "kind": 2}, False),
        ("move", 14, [0, 1]),
        ("start", 10.0, [0, 1, 2], PLAIN | {"weight": 100.0, "latency": 2.625}, False),
        ("cancel", 6),
        ("advance", 0.125),
        ("cancel", 12),
        ("start", 1.0, [2, 2], PLAIN | {"kind": 2, "latency": 3.25}, True),
        ("start", 0.25, [3, 3], PLAIN | {"limit": 0.1, "kind": 1, "latency": 3.25}, False),
        ("cancel", 15),
        ("advance", 9.125),
    ],
)


@given(programs())
@example(A_FLOW_LEAVES)
@example(A_KIND_COMES_BACK)
def test_reading_properties_does_not_change_results(program: Program) -> None:
    blind = play(on_kernel(program), program.operations)
    watched = play(on_kernel(program), program.operations, look=True)
    assert figures(watched) == figures(blind)
    assert watched.env.events == blind.env.events


@pytest.mark.parametrize("look", [False, True])
def test_a_flow_that_is_due_ends_though_its_capacity_is_gone(look: bool) -> None:
    env = Environment()
    links = [env.resource(49.0), env.resource(100.0)]
    flow = env.start(1.0, links)
    env.run(until=env.peek())
    assert 0 < flow.remaining < 1e-15  # 49 x (1 / 49) is a hair less than 1
    links[0].set_capacity(0.0)
    if look:
        assert flow.rate == links[0].rate == 0
    env.run()
    assert flow.state == "finished"


@given(programs())
def test_an_influence_group_is_what_running_activities_connect(program: Program) -> None:
    session = on_kernel(program)
    for operation in program.operations:
        play(session, [operation])
        live = [a for a in session.activities if a.state not in ("finished", "cancelled")]
        for r in session.resources:
            group = set(session.env.influence_group(r))
            assert connected(r, drawing(session)) <= group <= connected(r, live)


def connected(resource: Resource, activities: list[Activity]) -> set[Resource]:
    group = {resource}
    while more := {
        r for a in activities if group & set(a.resources) for r in a.resources if r not in group
    }:
        group |= more
    return group


@given(programs())
def test_recorded_rates_add_up_to_consumption_and_recording_does_not_change_results(
    program: Program,
) -> None:
    session = on_kernel(program)
    recording = session.env.record()
    play(session, program.operations)
    unrecorded = play(on_kernel(program), program.operations)
    assert figures(session) == figures(unrecorded)
    columns = recording.rates()
    for i, r in enumerate(session.resources):
        mine = columns["resource"] == i
        times = np.append(columns["t"][mine], session.env.now)
        consumed = float(np.sum(columns["rate"][mine] * np.diff(times)))
        scale = TOLERANCE * max(1, session.env.now)
        assert r.consumed == pytest.approx(consumed, rel=TOLERANCE, abs=scale)
