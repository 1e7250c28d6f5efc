"""Losses that are means of absolute differences, and so have residuals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from twinloop.calibration.losses.loss import BuiltInLoss, check_comparable
from twinloop.calibration.run_columns import TASK_COLUMNS, Floats, RunBatch, RunColumns
from twinloop.description.errors import InputError


class LossTerm(NamedTuple):
    """Differences of one kind, a row per run of the twin: their mean size is part of a loss.

    >>> sizes = np.array([[1.0, -3.0]])
    >>> sum_terms([LossTerm(sizes), LossTerm(sizes, worst=True)])
    array([5.])
    """

    values: Floats
    weight: float = 1.0
    #: Whether the largest counts, not the mean.
    worst: bool = False


#: How many numbers are compared at once: as many as stay in a cache and on the heap.
_NUMBERS: Final = 1 << 15

Compare: TypeAlias = Callable[[RunColumns, RunBatch], Sequence[LossTerm]]


def split_rows(rows: int, width: int, numbers: int = _NUMBERS) -> Iterator[slice]:
    """Rows of so many numbers each, in blocks of no more numbers than are worked on at once.

    >>> list(split_rows(5, 4, numbers=8))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    step = max(1, numbers // max(width, 1))
    return (slice(first, first + step) for first in range(0, rows, step))


def sum_terms(parts: Sequence[LossTerm]) -> Floats:
    """The sum of the mean (or largest) sizes of the parts, row by row."""
    total: Floats = np.zeros(len(parts[0].values))
    for values, weight, worst in parts:
        sizes = np.abs(values)
        # Sums along rows that lie in one piece are the same however many rows there are.
        size = sizes.max(axis=1) if worst else np.ascontiguousarray(sizes).mean(axis=1)
        total += weight * size
    return total


def concatenate_residuals(parts: Sequence[LossTerm]) -> Floats:
    """All differences, a row per run; those of means divided so that their sizes add up.

    >>> concatenate_residuals([LossTerm(np.array([[1.0, -3.0]]))])
    array([[ 0.5, -1.5]])
    """
    return np.concatenate(
        [
            values * (weight if worst else weight / values.shape[1])
            for values, weight, worst in parts
        ],
        axis=1,
    )


@dataclass(frozen=True)
class AbsoluteDifferenceLoss(BuiltInLoss):
    """A loss made of differences, the mean over the real runs."""

    compare: Compare = field(kw_only=True)

    def score(self, reals: Sequence[RunColumns], twin: RunBatch, reasons: dict[int, str]) -> Floats:
        """The mean size of the differences."""
        total = np.zeros(len(twin))
        wide = self.needs & set(TASK_COLUMNS)
        for rows in split_rows(len(twin), len(twin.tasks) if wide else 1):
            some = twin.part(rows)
            for real in reals:
                total[rows] += sum_terms(self.compare(real, some))
        return total / len(reals)

    def residuals(self, reals: Sequence[RunColumns], twin: RunBatch) -> Floats | None:
        """The differences; where no largest one is taken, their sizes add up to the loss."""
        check_comparable(self.name, self.needs, reals, twin)
        parts = [concatenate_residuals(self.compare(real, twin)) for real in reals]
        return np.concatenate(parts, axis=1) / len(reals)


def select_known(real: RunColumns, twin: RunBatch, column: str) -> tuple[Floats, Floats]:
    """A column on both sides, of the tasks of which the real run knows it.

    >>> twin = RunBatch.of({"task_end": [[1.0, 2.0]]}, tasks=["a", "b"], machines=[])
    >>> select_known(twin[0], twin, "end")
    (array([1., 2.]), array([[1., 2.]]))
    """
    here, there = getattr(real, column), getattr(twin, column)
    known = ~np.isnan(here)
    return (here, there) if known.all() else (here[known], there[:, known])


def require_positive(value: float, what: str, real: RunColumns) -> float:
    """The value, if one can divide by it."""
    if not value > 0:
        raise InputError(
            f"{what} of {real.called} is {value:g}, so nothing is relative to it",
            remedy="an absolute loss, such as sorted",
        )
    return value


def compute_relative_errors(twin: Floats, real: Floats, what: str, of: RunColumns) -> Floats:
    """The differences, each over its real value.

    >>> run = RunBatch.of({"makespan_s": [1.0]}, tasks=[], machines=[])[0]
    >>> compute_relative_errors(np.array([[3.0]]), np.array([2.0]), "run time", run)
    array([[0.5]])
    """
    if real.size and not real.min() > 0:
        raise InputError(
            f"a {what} of {of.called} is {real.min():g}, so nothing is relative to it",
            remedy="a loss over a mean, such as matched, or an absolute one",
        )
    found: Floats = (twin - real) / real
    return found
