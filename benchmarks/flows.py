"""Transfers between random pairs of hosts on stars; each end starts the next transfer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from measure import BenchmarkResult, Goal, ResultTable, compile_cpp, take_turn

from twinloop.engine import Environment

HOSTS = 100
CONCURRENT = 1_000  # per star
BANDWIDTH = 125e6  # bytes per second, each way
STARS = (1, 10, 100)
PER_SECOND = 45_000  # flows on one star
GROWTH = 1.3  # of the cost per flow from the fewest to the most stars
KINDS = 10  # of equal transfers
EQUAL = (1, 10, 100)  # concurrent transfers of each kind
EQUAL_GROWTH = 2.0  # of the cost per transfer, and per change, from the fewest to the most
AGREE = 1e-6  # SimGrid rounds rates
Transfer = tuple[int, int, int]  # source, destination, bytes


def transfers(count: int, seed: int) -> list[Transfer]:
    rng = np.random.default_rng(seed)
    source = rng.integers(0, HOSTS, count)
    target = (source + rng.integers(1, HOSTS, count)) % HOSTS  # never the source itself
    size = rng.lognormal(np.log(1e8), 1.0, count).astype(np.int64) + 1
    return list(zip(source.tolist(), target.tolist(), size.tolist(), strict=True))


def on_stars(stars: list[list[Transfer]], warm: int, timed: int) -> tuple[float, float, float]:
    """Return the CPU seconds of the warm-up and of `timed` ends after it, and simulated time.

    Each star draws from its own list. The clock runs from the end number `warm` on (over all
    stars), after the first starts.
    """
    take_turn()
    begin = process_time()
    env = Environment()
    marks = {warm: env.event(), warm + timed: env.event()}
    ended = 0

    def star(pending: list[Transfer]) -> None:
        up = [env.resource(BANDWIDTH) for _ in range(HOSTS)]
        down = [env.resource(BANDWIDTH) for _ in range(HOSTS)]
        following = iter(pending).__next__
        start = env.start

        def begin_one() -> None:
            source, target, size = following()
            start(size, [up[source], down[target]]).add_callback(end_one)

        def end_one(_event: Any) -> None:
            nonlocal ended
            ended += 1
            if ended in marks:
                marks[ended].succeed()
            begin_one()

        for _ in range(CONCURRENT):
            begin_one()

    for pending in stars:
        star(pending)
    env.run(until=marks[warm])
    middle = process_time()
    env.run(until=marks[warm + timed])
    return middle - begin, process_time() - middle, float(env.now)


def simgrid_program() -> Path | str:
    """Compile the same program for SimGrid (C++); return it, or the reason of a failure."""
    try:
        return compile_cpp("flows_simgrid.cpp", "-lsimgrid")
    except OSError as error:
        return str(error)
    except subprocess.CalledProcessError as error:
        missing = "simgrid/s4u.hpp" in error.stderr or "-lsimgrid" in error.stderr
        return "not installed (libsimgrid-dev)" if missing else error.stderr.splitlines()[0]


def on_simgrid(
    program: Path, pending: list[Transfer], warm: int, timed: int
) -> tuple[float, float]:
    """CPU seconds for `timed` ends after the first `warm`, and simulated time, by SimGrid."""
    head = f"{HOSTS} {BANDWIDTH} {CONCURRENT} {warm} {timed}\n"
    lines = "\n".join(f"{source} {target} {size}" for source, target, size in pending)
    answer = subprocess.run(
        [str(program)], input=head + lines, check=True, capture_output=True, text=True
    )
    seconds, now = map(float, answer.stdout.split())
    return seconds, now


def one_star(result: BenchmarkResult, quick: bool) -> None:
    warm, timed = 1_000, 5_000 if quick else 20_000
    pending = transfers(CONCURRENT + warm + timed + 10, seed=4)
    program = simgrid_program()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(3):
        _, seconds, now = on_stars([pending], warm, timed)
        ours.append(timed / seconds)
        if isinstance(program, Path):
            seconds, their_now = on_simgrid(program, pending, warm, timed)
            theirs.append(timed / seconds)
    table = ResultTable(
        f"{CONCURRENT:,} concurrent transfers, {HOSTS} hosts on a star (flows per second)",
        {"simulator": "s", "flows": ",d", "flows/s": ",.0f", "ratio": ".1f", "simulated s": ".3f"},
        rates=["flows/s"],
    )
    best = max(ours)
    table.rows.append(["twinloop, from Python", timed, best, 1.0, now])
    if isinstance(program, str):
        table.note = f"SimGrid: {program}, no comparison."
    else:
        table.rows.append(["SimGrid, from C++", timed, max(theirs), best / max(theirs), their_now])
        table.note = "SimGrid: CM02, no TCP corrections, one actor per transfer."
        off = abs(now - their_now) / now
        if off > AGREE:
            result.failures.append(f"flows: simulated time differs from SimGrid's by {off:.1e}")
    result.tables.append(table)
    result.goals.append(
        Goal(
            "flows on a star",
            f"at least {PER_SECOND:,} flows/s",
            f"{best:,.0f} flows/s",
            best >= PER_SECOND,
        )
    )


def many_stars(result: BenchmarkResult, quick: bool) -> None:
    """Cost per flow on more and more independent stars: the same turnover on every star.

    Fewer stars are run more often: one run on one star is too short to time.
    """
    warm, timed = (200, 300) if quick else (500, 1_000)
    most = STARS[-1]
    lists = [transfers(CONCURRENT + 2 * (warm + timed) + 500, seed) for seed in range(most)]
    cost: dict[int, list[float]] = {count: [] for count in STARS}
    setup: dict[int, list[float]] = {count: [] for count in STARS}
    for _ in range(2 if quick else 3):
        for count in STARS:
            runs = max(1, min(10, 20 // count))
            spent = ready = 0.0
            for one in range(runs):
                own = lists[one * count : (one + 1) * count]
                before, during, _ = on_stars(own, warm * count, timed * count)
                ready += before
                spent += during
            cost[count].append(spent / (timed * count * runs))
            setup[count].append(ready / (count * runs))
    table = ResultTable(
        f"The same on independent stars, {CONCURRENT:,} transfers on each",
        {
            "stars": ",d",
            "live": ",d",
            "flows/s": ",.0f",
            "cost vs 1 star": ".2f",
            "set-up ms/star": ".1f",
        },
        note="Set-up: resources, first transfers and the warm-up, not in flows/s.",
        rates=["flows/s"],
        costs=["set-up ms/star"],
    )
    best = {count: min(values) for count, values in cost.items()}
    for count in STARS:
        growth = best[count] / best[1]
        ready = min(setup[count]) * 1e3
        table.rows.append([count, count * CONCURRENT, 1 / best[count], growth, ready])
    result.tables.append(table)
    growth = best[most] / best[1]
    result.goals.append(
        Goal(
            f"cost per flow, {most} stars to 1",
            f"at most {GROWTH}",
            f"{growth:.2f}",
            growth <= GROWTH,
        )
    )


def equal_transfers(each: int, timed: int) -> float:
    """CPU seconds for `timed` ends with `each` concurrent transfers of every kind."""
    take_turn()
    env = Environment()
    up = [env.resource(BANDWIDTH) for _ in range(3)]
    down = [env.resource(BANDWIDTH) for _ in range(7)]
    sizes = np.random.default_rng(7).lognormal(np.log(1e8), 1.0, timed + KINDS * each).tolist()
    following = iter(sizes).__next__
    start = env.start
    done = env.event()
    ended = 0

    def begin_one(route: list[Any]) -> None:
        start(following(), route).add_callback(lambda _event: end_one(route))

    def end_one(route: list[Any]) -> None:
        nonlocal ended
        ended += 1
        if ended == timed:
            done.succeed()
        elif ended < timed:
            begin_one(route)

    for kind in range(KINDS):
        for _ in range(each):
            begin_one([up[kind % 3], down[kind % 7]])
    before = process_time()
    env.run(until=done)
    return process_time() - before


def many_equal(result: BenchmarkResult, quick: bool) -> None:
    """Cost per transfer with more and more equal transfers: they are solved as one flow."""
    timed = 5_000 if quick else 20_000
    cost: dict[int, list[float]] = {each: [] for each in EQUAL}
    for _ in range(3):
        for each in EQUAL:
            cost[each].append(equal_transfers(each, timed))
    table = ResultTable(
        f"Equal transfers of {KINDS} kinds, each end starts the next",
        {
            "transfers at once": ",d",
            "transfers/s": ",.0f",
            "cost vs one of each kind": ".2f",
            "total ms": ".1f",
        },
        note=f"Total: {timed:,} ends. A kind: the same links, weight and limit; sizes differ.",
        rates=["transfers/s"],
        costs=["total ms"],
    )
    best = {each: min(values) for each, values in cost.items()}
    for each in EQUAL:
        growth = best[each] / best[EQUAL[0]]
        table.rows.append([each * KINDS, timed / best[each], growth, best[each] * 1e3])
    result.tables.append(table)
    growth = best[EQUAL[-1]] / best[EQUAL[0]]
    result.goals.append(
        Goal(
            f"cost per transfer, {EQUAL[-1] * KINDS:,} of {KINDS} kinds to {KINDS}",
            f"at most {EQUAL_GROWTH}",
            f"{growth:.2f}",
            growth <= EQUAL_GROWTH,
        )
    )


def change_bandwidth(each: int, changes: int) -> float:
    """CPU seconds for changes of a bandwidth with `each` transfers of every kind in progress."""
    take_turn()
    env = Environment()
    times = np.arange(1, changes + 1) / 1e3
    levels = np.where(np.arange(changes) % 2, BANDWIDTH, BANDWIDTH / 2)
    up = [env.resource(BANDWIDTH) for _ in range(3)]
    down = [env.resource(BANDWIDTH) for _ in range(7)]
    up[0].set_profile(times, levels)
    for kind in range(KINDS):
        for _ in range(each):
            env.start(1e15, [up[kind % 3], down[kind % 7]])
    env.run(until=0.0005)
    before = process_time()
    env.run(until=changes / 1e3 + 0.0005)
    return process_time() - before


def many_live(result: BenchmarkResult, quick: bool) -> None:
    """Cost of a change of the rates with more and more equal transfers in progress."""
    changes = 5_000 if quick else 20_000
    cost: dict[int, list[float]] = {each: [] for each in EQUAL}
    for _ in range(5):
        for each in EQUAL:
            cost[each].append(change_bandwidth(each, changes))
    table = ResultTable(
        f"Changes of a bandwidth while equal transfers of {KINDS} kinds are in progress",
        {
            "transfers at once": ",d",
            "us per change": ".2f",
            "cost vs one of each kind": ".2f",
            "total ms": ".1f",
        },
        note=f"Total: {changes:,} changes, each a solution of the rates of all transfers.",
        costs=["us per change", "total ms"],
    )
    best = {each: min(values) for each, values in cost.items()}
    for each in EQUAL:
        growth = best[each] / best[EQUAL[0]]
        table.rows.append([each * KINDS, best[each] / changes * 1e6, growth, best[each] * 1e3])
    result.tables.append(table)
    growth = best[EQUAL[-1]] / best[EQUAL[0]]
    result.goals.append(
        Goal(
            f"cost of a change, {EQUAL[-1] * KINDS:,} of {KINDS} kinds in progress to {KINDS}",
            f"at most {EQUAL_GROWTH}",
            f"{growth:.2f}",
            growth <= EQUAL_GROWTH,
        )
    )


# One function per table, in the order in which they are printed.
PARTS: tuple[Callable[[BenchmarkResult, bool], None], ...] = (
    one_star,
    many_stars,
    many_equal,
    many_live,
)


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for part in PARTS:
        part(result, quick)
    return result
