"""Parameter recovery: fits to synthetic runs whose parameter values are known.

After section 4.1.2 of McDonald, "A Systematic and Automated Methodology for Calibrating Simulators
of Parallel and Distributed Computing Systems" (dissertation, University of Hawai'i at Manoa, 2026):
values of different losses are not comparable, but the distance of each fit to the true parameters
is.
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

#: Significant digits of the true values; rounding makes an exact hit of a search unlikely.
DIGITS: Final = 2


def measure_distance(found: Mapping[str, Any], truth: Mapping[str, Any], space: Space) -> float:
    """Measure the distance D(C, T) of a fit: the sum over all values of |found - true| / |true|.

    If the true value is 0, the denominator is the range of the parameter; a value that is not a
    number counts 0 if it is equal and 1 if not.

    >>> from twinloop.calibration.parameters.kinds import CategoricalParameter, LinearParameter
    >>> space = Space([LinearParameter("a", 0, 10), LinearParameter("b", 0, 10),
    ...                CategoricalParameter("c", ["x", "y"])])
    >>> measure_distance({"a": 5.5, "b": 1.0, "c": "x"}, {"a": 5.0, "b": 0.0, "c": "y"}, space)
    1.2
    """
    return math.fsum(_relative_error(found[name], truth[name], space[name]) for name in space.names)


def round_values(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Round the values of a first calibration to two digits, within the ranges.

    >>> from twinloop.calibration.parameters.kinds import LinearParameter
    >>> round_values({"a": 1.2345}, Space([LinearParameter("a", 0, 10)]))
    {'a': 1.2}
    """
    rounded = {}
    for name in space.names:
        value = values[name]
        if isinstance(value, float) and value:
            value = float(f"{value:.{DIGITS}g}")
        rounded[name] = space[name].decode(min(max(space[name].encode(value), 0.0), 1.0))
        if isinstance(value, float) and math.isclose(rounded[name], value, rel_tol=1e-9):
            rounded[name] = value
    return rounded


@dataclass(frozen=True, repr=False)
class RecoveryRanking:
    """The distance of the fit of every pair of loss and optimiser to the true values, best first.

    `table` has `loss`, `optimiser`, `distance` (the median over the seeds; null: it failed),
    `best_loss`, `why` it failed, and the values found, each in a column of its own name.
    """

    truth: dict[str, Any]
    table: pl.DataFrame
    evaluations: int

    @property
    def best(self) -> tuple[str, str]:
        """The loss and the optimiser with the smallest distance."""
        if not self.table.height or self.table["distance"][0] is None:
            raise InputError(
                "every pair of loss and optimiser failed", kind="evaluations-failed", field="losses"
            )
        row = self.table.row(0, named=True)
        return str(row["loss"]), str(row["optimiser"])

    def __str__(self) -> str:
        lines = [
            f"true values: {', '.join(f'{n} {_format(v)}' for n, v in self.truth.items())}",
            f"{'loss':24} {'optimiser':18} {'D(C,T)':>10}",
        ]
        for row in self.table.iter_rows(named=True):
            distance_text = row["why"] if row["distance"] is None else f"{row['distance']:10.4g}"
            lines.append(f"{row['loss']:24} {row['optimiser']:18} {distance_text}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<RecoveryRanking of {self.table.height} pairs, best: {' with '.join(self.best)}>"


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
    """Rank every pair of loss and optimiser by its distance to the true values.

    Args:
        objective: Returns the objective for the name of a loss; its runs were simulated with the
            true values.
        truth: The true values.
        losses: Names of losses.
        optimisers: Names of optimisers.
        budget: The number of evaluations of each search.
        seeds: Random seeds; each pair searches once per seed, and the median distance counts.
        progress: Called with the loss and the optimiser before each search.
    """
    rows = []
    for loss in losses:
        for name in optimisers:
            if progress is not None:
                progress(loss, name)
            rows.append(_search_pair(objective, truth, loss, name, budget, seeds))
    table = pl.DataFrame(rows, infer_schema_length=None).sort(
        "distance", "best_loss", nulls_last=True, maintain_order=True
    )
    return RecoveryRanking(dict(truth), table, budget)


def _search_pair(
    objective: Callable[[str], SearchObjective],
    truth: Mapping[str, Any],
    loss: str,
    optimiser: str,
    budget: int,
    seeds: Sequence[int],
) -> dict[str, Any]:
    row: dict[str, Any] = {"loss": loss, "optimiser": optimiser}
    try:
        pair_objective = objective(loss)
        histories = [
            minimise(pair_objective, optimiser=optimiser, budget=budget, seed=seed)
            for seed in seeds
        ]
        results = sorted(
            (
                (measure_distance(each.best_values, truth, pair_objective.space), each)
                for each in histories
            ),
            key=lambda pair: pair[0],
        )
    except TwinloopError as error:
        no_values = dict.fromkeys(truth)
        return row | {"distance": None, "best_loss": None, "why": str(error)} | no_values
    distance, middle = results[len(results) // 2]
    return (
        row | {"distance": distance, "best_loss": middle.best_loss, "why": ""} | middle.best_values
    )


def _relative_error(found: Any, true: Any, parameter: Parameter) -> float:
    if not parameter.ordered or not isinstance(true, Real):
        return float(found != true)
    true_value = float(true)
    scale = abs(true_value) if true_value else parameter.decode(1.0) - parameter.decode(0.0)
    return float(abs(float(found) - true_value) / scale)


def _format(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)
