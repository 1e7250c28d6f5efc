"""Generator processes and callbacks: the same programs on SimPy and on twinloop."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import simpy
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.engine import Environment

PROCESSES = 100
Delays = list[list[float]]


def sleeper(env: Any, delays: list[float]) -> Generator[Any, Any, None]:
    for delay in delays:
        yield env.timeout(delay)


def child(env: Any, delay: float) -> Generator[Any, Any, float]:
    yield env.timeout(delay)
    return delay


def signaller(env: Any, event: Any, delay: float) -> Generator[Any, Any, None]:
    yield env.timeout(delay)
    event.succeed(delay)


def worker(env: Any, delays: list[float]) -> Generator[Any, Any, None]:
    """Waits in turn for a timeout, for another process, and for an event that a third one fires."""
    for delay in delays:
        yield env.timeout(delay)
        yield env.process(child(env, delay))
        event = env.event()
        env.process(signaller(env, event, delay))
        yield event


WAITS_PER_ROUND = 5  # three of the worker, one each of the child and the signaller


def generators(make: Callable[[], Any], program: Callable[..., Any], delays: Delays) -> float:
    env = make()
    for own in delays:
        env.process(program(env, own))
    env.run()
    return float(env.now)


def twinloop_callbacks(delays: Delays) -> float:
    env = Environment()

    def chain(pending: list[float]) -> None:
        following = iter(pending).__next__
        call_later = env.call_later

        def tick() -> None:
            try:
                delay = following()
            except StopIteration:
                return
            call_later(delay, tick)

        tick()

    for own in delays:
        chain(own)
    env.run()
    return float(env.now)


def simpy_callbacks(delays: Delays) -> float:
    env = simpy.Environment()

    def chain(pending: list[float]) -> None:
        following = iter(pending).__next__
        timeout = env.timeout

        def tick(_event: Any) -> None:
            try:
                delay = following()
            except StopIteration:
                return
            timeout(delay).callbacks.append(tick)

        tick(None)

    for own in delays:
        chain(own)
    env.run()
    return float(env.now)


def run(quick: bool) -> BenchmarkResult:
    rng = np.random.default_rng(3)
    rounds = 500 if quick else 2_000
    delays: Delays = rng.uniform(0.1, 10.0, (PROCESSES, rounds)).tolist()
    mixed: Delays = [own[: rounds // 4] for own in delays]
    contestants: dict[str, Callable[[], float]] = {
        "simpy timeouts": lambda: generators(simpy.Environment, sleeper, delays),
        "twinloop timeouts": lambda: generators(Environment, sleeper, delays),
        "simpy mixed": lambda: generators(simpy.Environment, worker, mixed),
        "twinloop mixed": lambda: generators(Environment, worker, mixed),
        "simpy callbacks": lambda: simpy_callbacks(delays),
        "twinloop callbacks": lambda: twinloop_callbacks(delays),
    }
    seconds, ends = side_by_side(contestants, 3 if quick else 7)
    result = BenchmarkResult()
    for kind in ("timeouts", "mixed", "callbacks"):
        if ends[f"simpy {kind}"] != ends[f"twinloop {kind}"]:
            result.failures.append(
                f"processes: {kind}: simpy ends at {ends[f'simpy {kind}']!r}, "
                f"twinloop at {ends[f'twinloop {kind}']!r}"
            )
    table = ResultTable(
        f"{PROCESSES} concurrent chains of events (thousand events per second)",
        {"program": "s", "events": ",d", "SimPy": ",.0f", "twinloop": ",.0f", "ratio": ".2f"},
        note="An event is a wait that ends (or a callback): the same count on both sides.",
    )
    timeouts = PROCESSES * rounds
    waits = PROCESSES * (rounds // 4) * WAITS_PER_ROUND
    for name, events, theirs, ours, goal in (
        ("generators: timeouts", timeouts, "simpy timeouts", "twinloop timeouts", 4),
        ("generators: timeouts, events, processes", waits, "simpy mixed", "twinloop mixed", 4),
        ("callbacks", timeouts, "simpy callbacks", "twinloop callbacks", 6),
        ("callbacks, SimPy with generators", timeouts, "simpy timeouts", "twinloop callbacks", 6),
    ):
        ratio = seconds[theirs] / seconds[ours]
        table.rows.append(
            [name, events, events / seconds[theirs] / 1e3, events / seconds[ours] / 1e3, ratio]
        )
        result.goals.append(
            Goal(f"{name}, against SimPy", f"at least {goal}x", f"{ratio:.2f}x", ratio >= goal)
        )
    result.tables.append(table)
    return result
