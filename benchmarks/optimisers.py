"""Optimisers on two sets of objectives: best loss found, and own cost."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from measure import BenchmarkResult, Goal, ResultTable
from objectives import SETS, BenchmarkObjective, cube, objectives

from twinloop.calibration.optimisers import OPTIMISERS, create_optimiser

#: Repetitions by budget: after few evaluations the median of five has a large variance.
REPETITIONS = {200: 15, 1000: 5}
BUDGETS = tuple(REPETITIONS)
BAYES_REPETITIONS = 3  # and only with the smaller budget, because they are slow
SOLVED = 1e-8  # a loss below this is as good as this
WITHIN = 0.5  # powers of ten
POINTS_PER_SECOND = 10_000
BATCHES = (64, 256)


def best_loss(name: str, objective: BenchmarkObjective, budget: int, seed: int) -> float:
    """Return the true loss of the point with the lowest observed loss, asked one by one."""
    objective.rng = np.random.default_rng(seed)
    optimiser = create_optimiser(name, objective.space, seed=seed, budget=budget)
    lowest, true = np.inf, np.inf
    for _ in range(budget):
        points = optimiser.ask(1)
        losses = objective(points)
        optimiser.tell(points, losses)
        if losses[0] < lowest:
            lowest, true = float(losses[0]), float(objective.loss(points)[0])
    return max(true, SOLVED)


def found(name: str, which: str, budget: int, repetitions: int) -> np.ndarray[Any, Any]:
    """Losses by objective and repetition; every repetition has its own optimum."""
    drawn = [objectives(which, repetition) for repetition in range(repetitions)]
    return np.array(
        [
            [best_loss(name, drawn[seed][place], budget, seed) for seed in range(repetitions)]
            for place in range(len(drawn[0]))
        ]
    )


def repetitions_of(name: str, budget: int, quick: bool) -> int:
    if not name.startswith("bayes"):
        return 5 if quick else REPETITIONS[budget]
    return 0 if quick or budget > BUDGETS[0] else BAYES_REPETITIONS


def quality(result: BenchmarkResult, which: str, quick: bool) -> None:
    names = [objective.name for objective in objectives(which, 0)]
    for budget in BUDGETS:
        losses = {
            name: found(name, which, budget, count)
            for name in OPTIMISERS
            if (count := repetitions_of(name, budget, quick))
        }
        table = ResultTable(
            f"The {which} set, {budget:,} evaluations: median of the best loss",
            {"optimiser": "s", **dict.fromkeys(names, ".2g"), "repetitions": "d"},
            note=f"A loss under {SOLVED:g} counts as {SOLVED:g}.",
        )
        for name, each in losses.items():
            table.rows.append([name, *np.median(each, axis=1).tolist(), each.shape[1]])
        result.tables.append(table)
        compare(result, which, budget, names, losses)


def compare(
    result: BenchmarkResult, which: str, budget: int, names: list[str], losses: dict[str, Any]
) -> None:
    """Compare `auto` with the best single optimiser, over common repetitions."""
    worst, where = -np.inf, ""
    beaten = True
    for place, objective in enumerate(names):
        for name, each in losses.items():
            count = each.shape[1]
            auto = np.log10(np.median(losses["auto"][place, :count]))
            behind = float(auto - np.log10(np.median(each[place])))
            if behind > worst:
                worst, where = behind, f"{objective}, {name}"
            if name == "random" and behind > 0:
                beaten = False
    goal = f"auto, {which} set, {budget:,} evaluations, powers of ten behind the best single one"
    said = f"{worst:.2f} ({where}), {'never' if beaten else 'NOT never'} worse than random"
    result.goals.append(Goal(goal, f"at most {WITHIN}", said, worst <= WITHIN and beaten))


def own_cost(
    ask: Callable[[], Any], tell: Callable[[Any, Any], None], points: int, batch: int
) -> float:
    """Points per second of an optimiser whose objective costs next to nothing."""
    truth = np.full(8, 0.3)
    best = np.inf
    for _ in range(3):
        begin = process_time()
        for _ in range(points // batch):
            asked = ask()
            tell(asked, ((np.asarray(asked) - truth) ** 2).sum(axis=1))
        best = min(best, process_time() - begin)
    return points // batch * batch / best


def throughput(result: BenchmarkResult, quick: bool) -> None:
    space = cube(8)
    points = 4_000 if quick else 16_000
    table = ResultTable(
        "Own cost on the 8-d sphere: thousand points per second of CPU",
        {"optimiser": "s", **{f"batches of {batch}": ",.1f" for batch in BATCHES}},
        note="The sphere itself is included.",
    )
    rates: dict[str, list[float]] = {}
    for name in ("random", "sobol", "cma", "de", "genetic", "cma+powell", "auto"):
        rates[name] = []
        for batch in BATCHES:
            optimiser = create_optimiser(name, space, seed=1, batch=batch)
            ask = lambda optimiser=optimiser, batch=batch: optimiser.ask(batch)  # noqa: E731
            rates[name].append(own_cost(ask, optimiser.tell, points, batch))
        table.rows.append([name, *(rate / 1e3 for rate in rates[name])])
    result.tables.append(table)
    for name in ("random", "cma"):
        slowest = min(rates[name])
        result.goals.append(
            Goal(
                f"own cost of {name}, 8 parameters, batches of {' and '.join(map(str, BATCHES))}",
                f"{POINTS_PER_SECOND:,} points/s",
                f"{slowest:,.0f} points/s",
                slowest >= POINTS_PER_SECOND,
            )
        )


def run(quick: bool) -> BenchmarkResult:
    result = BenchmarkResult()
    for which in SETS:
        quality(result, which, quick)
    throughput(result, quick)
    return result
