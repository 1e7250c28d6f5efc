"""Several columnar runs in two threads against the same runs one after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

from load import Load, bare_loop, grouped
from measure import BenchmarkResult, Goal, ResultTable, side_by_side

from twinloop.engine import run_columns

RUNS = 8
THREADS = 2
ENOUGH = 1.5


def run(quick: bool) -> BenchmarkResult:
    loads = [grouped(100_000 if quick else 300_000, 1_000, seed) for seed in range(RUNS)]

    def kernel(load: Load) -> Any:
        return run_columns(load.start, load.work).finish

    def in_turn(one: Callable[[Load], Any]) -> list[Any]:
        return [one(load) for load in loads]

    def in_threads(one: Callable[[Load], Any]) -> list[Any]:
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(one, loads))

    contestants: dict[str, Callable[[], Any]] = {
        "bare in turn": lambda: in_turn(bare_loop),
        "bare in threads": lambda: in_threads(bare_loop),
        "kernel in turn": lambda: in_turn(kernel),
        "kernel in threads": lambda: in_threads(kernel),
    }
    seconds, answers = side_by_side(contestants, 3 if quick else 5, clock=perf_counter)
    result = BenchmarkResult()
    pairs = zip(answers["kernel in turn"], answers["kernel in threads"], strict=True)
    if any(one.tobytes() != other.tobytes() for one, other in pairs):
        result.failures.append("threads: results differ from those of the runs in turn")
    table = ResultTable(
        f"{RUNS} runs in {THREADS} threads (elapsed seconds)",
        {"code": "s", "in turn": ".2f", "in threads": ".2f", "speed-up": ".2f"},
        note="The bare loop shows what the machine has to give at the moment.",
        costs=["in turn", "in threads"],
    )
    speedup = {}
    for code, title in (("bare", "bare loop"), ("kernel", "twinloop")):
        turn, parallel = seconds[f"{code} in turn"], seconds[f"{code} in threads"]
        speedup[code] = turn / parallel
        table.rows.append([title, turn, parallel, speedup[code]])
    result.tables.append(table)
    # If even the bare loop gains nothing, no second core is free.
    decided = speedup["bare"] >= ENOUGH
    result.goals.append(
        Goal(
            f"runs in {THREADS} threads are truly parallel",
            f"at least {ENOUGH}x",
            f"{speedup['kernel']:.2f}x",
            speedup["kernel"] >= ENOUGH if decided else None,
        )
    )
    return result
