"""Synthetic calibration: known values are hidden, and whoever finds them best is chosen.

After section 4.1.2 of McDonald, "A Systematic and Automated Methodology for Calibrating Simulators
of Parallel and Distributed Computing Systems" (dissertation, University of Hawai'i at Manoa, 2026):
losses cannot be compared with each other, but how near each brings a search to known values can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

import polars as pl

from twinloop.calibration.parameters.kinds import Parameter
from twinloop.calibration.parameters.space import Space
from twinloop.calibration.search.minimisation import minimise
from twinloop.calibration.search.objective import SearchObjective
from twinloop.description.errors import InputError, TwinloopError

#: Digits of the values that are hidden: so nobody has asked for exactly them before.
DIGITS: Final = 2


def measure_distance(found: Mapping[str, Any], truth: Mapping[str, Any], space: Space) -> float:
    """D(C, T): the sum over all values of |found - true| / |true|.

    Where the truth is 0, the range of the parameter takes its place; a value that is no number
    counts 0 if it is the true one and 1 if not.

    >>> from twinloop.calibration.parameters.kinds import CategoricalParameter, LinearParameter
    >>> space = Space([LinearParameter("a", 0, 10), LinearParameter("b", 0, 10),
    ...                CategoricalParameter("c", ["x", "y"])])
    >>> measure_distance({"a": 5.5, "b": 1.0, "c": "x"}, {"a": 5.0, "b": 0.0, "c": "y"}, space)
    1.2
    """
    return math.fsum(_apart(found[name], truth[name], space[name]) for name in space.names)


def round_values(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Values to hide: those of a first calibration, rounded to two digits, within the ranges.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> round_values({"a": 1.2345}, Space([LinearParameter("a", 0, 10)]))
    {'a': 1.2}
    """
    found = {}
    for name in space.names:
        value = values[name]
        if isinstance(value, float) and value:
            value = float(f"{value:.{DIGITS}g}")
        found[name] = space[name].decode(min(max(space[name].encode(value), 0.0), 1.0))
        if isinstance(value, float) and math.isclose(found[name], value, rel_tol=1e-9):
            found[name] = value
    return found


@dataclass(frozen=True, repr=False)
class RecoveryRanking:
    """How near every pair of loss and optimiser came to the hidden values; the best first.

    `table` has `loss`, `optimiser`, `distance` (the median over the seeds; null: it failed),
    `best_loss`, `why` it failed, and the values found, each in a column of its own name.
    """

    truth: dict[str, Any]
    table: pl.DataFrame
    evaluations: int

    @property
    def best(self) -> tuple[str, str]:
        """The loss and the optimiser that came nearest."""
        if not self.table.height or self.table["distance"][0] is None:
            raise InputError("no pair of loss and optimiser found anything", field="losses")
        row = self.table.row(0, named=True)
        return str(row["loss"]), str(row["optimiser"])

    def __str__(self) -> str:
        lines = [
            f"hidden: {', '.join(f'{name} {_said(value)}' for name, value in self.truth.items())}",
            f"{'loss':24} {'optimiser':18} {'D(C,T)':>10}",
        ]
        for row in self.table.iter_rows(named=True):
            far = row["why"] if row["distance"] is None else f"{row['distance']:10.4g}"
            lines.append(f"{row['loss']:24} {row['optimiser']:18} {far}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Ranking of {self.table.height} pairs, best: {' with '.join(self.best)}>"


def rank_by_recovery(
    objective: Callable[[str], SearchObjective],
    truth: Mapping[str, Any],
    *,
    losses: Sequence[str],
    optimisers: Sequence[str],
    budget: int = 500,
    seeds: Sequence[int] = (0,),
    progress: Callable[[str, str], None] | None = None,
) -> RecoveryRanking:
    """Let every pair of loss and optimiser look for values that are known.

    Args:
        objective: The objective with the loss of this name, whose truth was simulated with the
            hidden values.
        truth: The hidden values.
        losses: Names of losses.
        optimisers: Names of optimisers.
        budget: Evaluations of each search.
        seeds: Each pair searches once with each; the median distance counts.
        progress: Told which pair is at work.
    """
    rows = []
    for loss in losses:
        for name in optimisers:
            if progress is not None:
                progress(loss, name)
            rows.append(_row(objective, truth, loss, name, budget, seeds))
    table = pl.DataFrame(rows, infer_schema_length=None).sort(
        "distance", "best_loss", nulls_last=True, maintain_order=True
    )
    return RecoveryRanking(dict(truth), table, budget)


def _row(
    objective: Callable[[str], SearchObjective],
    truth: Mapping[str, Any],
    loss: str,
    optimiser: str,
    budget: int,
    seeds: Sequence[int],
) -> dict[str, Any]:
    row: dict[str, Any] = {"loss": loss, "optimiser": optimiser}
    try:
        made = objective(loss)
        found = [minimise(made, optimiser=optimiser, budget=budget, seed=seed) for seed in seeds]
        tries = sorted(
            ((measure_distance(each.best_values, truth, made.space), each) for each in found),
            key=lambda pair: pair[0],
        )
    except TwinloopError as error:
        nothing = dict.fromkeys(truth)
        return row | {"distance": None, "best_loss": None, "why": str(error)} | nothing
    far, middle = tries[len(tries) // 2]
    return row | {"distance": far, "best_loss": middle.best_loss, "why": ""} | middle.best_values


def _apart(found: Any, true: Any, parameter: Parameter) -> float:
    if not parameter.ordered or not isinstance(true, Real):
        return float(found != true)
    known = float(true)
    scale = abs(known) if known else parameter.decode(1.0) - parameter.decode(0.0)
    return float(abs(float(found) - known) / scale)


def _said(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
