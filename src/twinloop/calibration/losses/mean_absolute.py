"""Losses that are means of absolute differences, which have residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from twinloop.calibration.losses.loss import BuiltInLoss, check_comparable
from twinloop.calibration.run_columns import TASK_COLUMNS, Floats, RunBatch, RunColumns
from twinloop.description.errors import InputError


class LossTerm(NamedTuple):
    """Differences of one kind, a row per run of the twin; their mean absolute value is a term.

    >>> sizes = np.array([[1.0, -3.0]])
    >>> sum_terms([LossTerm(sizes), LossTerm(sizes, worst=True)])
    array([5.])
    """

    values: Floats
    weight: float = 1.0
    #: Whether the largest difference counts instead of the mean.
    worst: bool = False


#: The maximum number of floats in a block of rows (256 KiB): a block fits in a CPU cache.
_BLOCK_SIZE: Final = 1 << 15

Compare: TypeAlias = Callable[[RunColumns, RunBatch], Sequence[LossTerm]]


def split_rows(rows: int, width: int, numbers: int = _BLOCK_SIZE) -> Iterator[slice]:
    """Split rows of `width` numbers each into blocks of at most `numbers` numbers.

    >>> list(split_rows(5, 4, numbers=8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, numbers // max(width, 1))
    return (slice(first, first + step) for first in range(0, rows, step))


def sum_terms(terms: Sequence[LossTerm]) -> Floats:
    """Sum the mean (or largest) absolute values of the terms, row by row."""
    total: Floats = np.zeros(len(terms[0].values))
    for values, weight, worst in terms:
        sizes = np.abs(values)
        # Contiguous, so that the sum of a row does not depend on the number of rows.
        size = sizes.max(axis=1) if worst else np.ascontiguousarray(sizes).mean(axis=1)
        total += weight * size
    return total


def concatenate_residuals(terms: Sequence[LossTerm]) -> Floats:
    """Concatenate the differences of all terms, scaled: their absolute values sum to the loss.

    >>> concatenate_residuals([LossTerm(np.array([[1.0, -3.0]]))])
    array([[ 0.5, -1.5]])
    """
    return np.concatenate(
        [
            values * (weight if worst else weight / values.shape[1])
            for values, weight, worst in terms
        ],
        axis=1,
    )


@dataclass(frozen=True)
class AbsoluteDifferenceLoss(BuiltInLoss):
    """A loss of absolute differences, averaged over the real runs."""

    compare: Compare = field(kw_only=True)

    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """Compute the mean of the absolute differences."""
        total = np.zeros(len(twin))
        wide = self.needs & set(TASK_COLUMNS)
        for rows in split_rows(len(twin), len(twin.tasks) if wide else 1):
            block = twin.select_rows(rows)
            for real in reals:
                total[rows] += sum_terms(self.compare(real, block))
        return total / len(reals)

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """Compute the differences; unless a term is a maximum, their sizes sum to the loss."""
        check_comparable(self.name, self.needs, reals, twin)
        parts = [concatenate_residuals(self.compare(real, twin)) for real in reals]
        return np.concatenate(parts, axis=1) / len(reals)


def select_known(real: RunColumns, twin: RunBatch, column: str) -> tuple[Floats, Floats]:
    """Select a column of the real run and of the twin, for tasks with a known real value.

    >>> twin = RunBatch.of({"task_end": [[1.0, 2.0]]}, tasks=["a", "b"], machines=[])
    >>> select_known(twin[0], twin, "end")
    (array([1., 2.]), array([[1., 2.]]))
    """
    real_values, twin_values = getattr(real, column), getattr(twin, column)
    known = ~np.isnan(real_values)
    return (
        (real_values, twin_values) if known.all() else (real_values[known], twin_values[:, known])
    )


def require_positive(value: float, what: str, real: RunColumns) -> float:
    """Return the value; raise an error if it is not positive, and so no denominator."""
    if not value > 0:
        raise InputError(
            f"{what} of {real.label} is {value:g}: a relative error is undefined",
            kind="undefined-error",
            remedy="use an absolute loss, such as 'sorted'",
        )
    return value


def compute_relative_errors(twin: Floats, real: Floats, what: str, run: RunColumns) -> Floats:
    """Compute the differences relative to the real values.

    >>> run = RunBatch.of({"makespan_s": [1.0]}, tasks=[], machines=[])[0]
    >>> compute_relative_errors(np.array([[3.0]]), np.array([2.0]), "run time", run)
    array([[0.5]])
    """
    if real.size and not real.min() > 0:
        raise InputError(
            f"a {what} of {run.label} is {real.min():g}: a relative error is undefined",
            kind="undefined-error",
            remedy="use a loss relative to a mean, such as 'matched', or an absolute one",
        )
    errors: Floats = (twin - real) / real
    return errors
