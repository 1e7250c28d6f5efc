"""Resources with queues: the same generator programs on SimPy and on twinloop."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

import numpy as np
import simpy
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop import engine
from twinloop.engine import queueing

PROCESSES = 100
GOAL = 4
Delays = list[list[float]]
Body = Generator[Any, Any, None]


def hold_slots(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    """Processes that wait for one of ten slots, most of the time in a long queue."""
    env = kernel.Environment()
    slots = lib.Resource(env, capacity=10)

    def user(own: list[float]) -> Body:
        for delay in own:
            with slots.request() as turn:
                yield turn
                yield env.timeout(delay)

    return run_all(env, user, delays)


def hold_slots_by_priority(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    env = kernel.Environment()
    slots = lib.PriorityResource(env, capacity=10)

    def user(own: list[float]) -> Body:
        for delay in own:
            with slots.request(priority=int(delay * 100) % 5) as turn:
                yield turn
                yield env.timeout(delay)

    return run_all(env, user, delays)


def preempt_slots(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    """Processes that pause, and whose requests take the slots of less urgent ones."""
    env = kernel.Environment()
    slots = lib.PreemptiveResource(env, capacity=10)
    interrupt = kernel.Interrupt

    def user(own: list[float]) -> Body:
        for delay in own:
            yield env.timeout(3 * delay)
            with slots.request(priority=int(delay * 100) % 5) as turn:
                try:
                    yield turn
                    yield env.timeout(delay)
                except interrupt:
                    pass

    return run_all(env, user, delays)


def pass_items(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    """As many consumers as producers, which share a store with 20 places."""
    env = kernel.Environment()
    store = lib.Store(env, capacity=20)

    def produce(own: list[float]) -> Body:
        for delay in own:
            yield env.timeout(delay)
            yield store.put(delay)

    def consume(own: list[float]) -> Body:
        for _ in own:
            delay = yield store.get()
            yield env.timeout(delay)

    for own in delays:
        env.process(produce(own))
    return run_all(env, consume, delays)


def pass_items_by_priority(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    env = kernel.Environment()
    store = lib.PriorityStore(env, capacity=200)
    wrap = lib.PriorityItem

    def produce(own: list[float]) -> Body:
        for delay in own:
            yield env.timeout(delay)
            yield store.put(wrap(delay, None))

    def consume(own: list[float]) -> Body:
        for _ in own:
            item = yield store.get()
            yield env.timeout(item.priority)

    for own in delays:
        env.process(produce(own))
    return run_all(env, consume, delays)


def pass_items_by_filter(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    """Each pair has a kind of items of its own; twenty pairs share one store."""
    env = kernel.Environment()
    stores = [lib.FilterStore(env) for _ in range(PROCESSES // 20)]

    def produce(kind: int, own: list[float]) -> Body:
        for delay in own:
            yield env.timeout(delay)
            yield stores[kind // 20].put((kind, delay))

    def consume(kind: int, own: list[float]) -> Body:
        for _ in own:
            _, delay = yield stores[kind // 20].get(lambda item: item[0] == kind)
            yield env.timeout(delay)

    for kind, own in enumerate(delays):
        env.process(produce(kind, own))
        env.process(consume(kind, own))
    env.run()
    return float(env.now)


def pass_amounts(kernel: Any, lib: ModuleType, delays: Delays) -> float:
    env = kernel.Environment()
    tank = lib.Container(env, capacity=200.0, init=100.0)

    def fill(own: list[float]) -> Body:
        for delay in own:
            yield env.timeout(delay)
            yield tank.put(delay)

    def drain(own: list[float]) -> Body:
        for delay in own:
            yield tank.get(delay)
            yield env.timeout(delay)

    for own in delays:
        env.process(fill(own))
    return run_all(env, drain, delays)


def run_all(env: Any, body: Callable[[list[float]], Body], delays: Delays) -> float:
    for own in delays:
        env.process(body(own))
    env.run()
    return float(env.now)


# The programs, with their operations per round: the same number on both sides.
PROGRAMS: dict[str, tuple[Callable[[Any, ModuleType, Delays], float], int]] = {
    "Resource": (hold_slots, 1),
    "PriorityResource": (hold_slots_by_priority, 1),
    "PreemptiveResource": (preempt_slots, 1),
    "Store": (pass_items, 2),
    "Container": (pass_amounts, 2),
    "PriorityStore": (pass_items_by_priority, 2),
    "FilterStore": (pass_items_by_filter, 2),
}


def run(quick: bool) -> BenchmarkResult:
    rng = np.random.default_rng(5)
    rounds = 100 if quick else 500
    delays: Delays = rng.uniform(0.1, 10.0, (PROCESSES, rounds)).tolist()
    contestants: dict[str, Callable[[], float]] = {}
    for name, (program, _) in PROGRAMS.items():
        contestants[f"simpy {name}"] = lambda p=program: p(simpy, simpy, delays)
        contestants[f"twinloop {name}"] = lambda p=program: p(engine, queueing, delays)
    seconds, ends = side_by_side(contestants, 3 if quick else 7)
    result = BenchmarkResult()
    table = ResultTable(
        "Processes and resources with queues (thousand operations per second)",
        {"resource": "s", "operations": ",d", "SimPy": ",.0f", "twinloop": ",.0f", "ratio": ".2f"},
        note="An operation is a request with its release, a put or a get; waits for time included.",
    )
    for name, (_, per_round) in PROGRAMS.items():
        theirs, ours = seconds[f"simpy {name}"], seconds[f"twinloop {name}"]
        if ends[f"simpy {name}"] != ends[f"twinloop {name}"]:
            result.failures.append(
                f"queueing: {name}: simpy ends at {ends[f'simpy {name}']!r}, "
                f"twinloop at {ends[f'twinloop {name}']!r}"
            )
        count = PROCESSES * rounds * per_round
        ratio = theirs / ours
        table.rows.append([name, count, count / theirs / 1e3, count / ours / 1e3, ratio])
        result.goals.append(
            Goal(f"{name}, against SimPy", f"at least {GOAL}x", f"{ratio:.2f}x", ratio >= GOAL)
        )
    result.tables.append(table)
    return result
