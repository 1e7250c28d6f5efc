"""How sure a mean is: over seeds, or over the batches of one long run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from twinloop.description.errors import InputError
from twinloop.metrics.measurement_window import MeasurementWindow
from twinloop.metrics.tasks import per_task
from twinloop.metrics.weighted_intervals import Floats
from twinloop.trace.trace import Trace

Quantity = Literal["wait", "turnaround", "slowdown", "bounded_slowdown"]
_QUANTITIES = ("wait", "turnaround", "slowdown", "bounded_slowdown")


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A mean of `count` values, and the interval that holds the true one at a `level`.

    >>> print(ConfidenceInterval(mean=4.0, half_width=0.5, level=0.95, count=10))
    4 ± 0.5 (95 %, 10 values)
    """

    mean: float
    half_width: float
    level: float
    count: int

    @property
    def low(self) -> float:
        """The lower end."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper end."""
        return self.mean + self.half_width

    def __str__(self) -> str:
        share = f"{self.level * 100:g} %"
        return f"{self.mean:g} ± {self.half_width:g} ({share}, {self.count:,} values)"


@dataclass(frozen=True, slots=True)
class BatchMeans(ConfidenceInterval):
    """The interval of a mean from the batches of one long run; `count` is the batches.

    `size`: values per batch; `left_out`: values at the begin that fill no batch;
    `autocorrelation`: of each batch mean with the next (lag 1), None where all are equal. Above
    about 2 / sqrt(batches) the batches are too short to be taken as independent, and the interval
    is too narrow.

    >>> found = BatchMeans(mean=4.0, half_width=0.5, level=0.95, count=25, size=40, left_out=3,
    ...     autocorrelation=0.6)
    >>> found.is_independent
    False
    """

    size: int
    left_out: int
    autocorrelation: float | None

    @property
    def is_independent(self) -> bool:
        """Do the batch means look independent?"""
        return self.autocorrelation is None or self.autocorrelation < 2 / math.sqrt(self.count)


def confidence_interval(
    values: Sequence[float] | npt.NDArray[np.float64], level: float = 0.95
) -> ConfidenceInterval:
    """The confidence interval of the mean of independent values, such as one figure over seeds.

    Student's t: mean ± t s / sqrt(n), with the sample's standard deviation s and the quantile t
    of n - 1 degrees of freedom. Exact for normally distributed values, and near it for the means
    that the figures of long runs are.

    >>> found = confidence_interval([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half_width, 3)
    (2.0, 2.484)
    """
    mean, half = _student(_known(values), level)
    return ConfidenceInterval(mean, half, level, len(values))


def batch_means(
    values: Trace | Sequence[float] | npt.NDArray[np.float64],
    *,
    batches: int = 20,
    level: float = 0.95,
    of: Quantity = "wait",
    warm_up: float = 0.0,
) -> BatchMeans:
    """The confidence interval of a mean over one long run, by the method of batch means.

    The values, in the order of submission, are window into batches of equal size, and the means of
    the batches are taken as independent and normally distributed. That holds if the run is in a
    steady state (window off its warm-up) and the batches are much longer than the memory of the
    queue; 20 to 30 batches are usual. Where the count is no multiple, the first values are left
    out, and counted. Source: Law, "Simulation Modeling and Analysis" (in earlier editions Law and
    Kelton), on the analysis of steady-state output.

    Args:
        values: A trace, or values in their order.
        batches: How many batches.
        level: How sure the interval is to be.
        of: The figure of the tasks of a trace.
        warm_up: Seconds after the first submission of a trace, whose tasks are not counted.

    >>> batch_means([1.0, 3.0, 2.0, 4.0, 1.0, 3.0, 2.0, 4.0, 9.0, 0.0], batches=5).mean
    2.9
    """
    if isinstance(values, Trace):
        known = _of_tasks(values, of, warm_up)
    else:
        if warm_up:
            raise InputError("is for a trace", field="warm_up", remedy="window the values yourself")
        known = _known(values)
    if batches < 2:
        raise InputError(f"{batches} is too few", field="batches", remedy="20 to 30 are usual")
    size = known.size // batches
    if size < 1:
        raise InputError(f"{known.size:,} values are too few for {batches} batches", field="values")
    left_out = known.size - size * batches
    means = known[left_out:].reshape(batches, size).mean(axis=1)
    mean, half = _student(means, level)
    return BatchMeans(mean, half, level, batches, size, left_out, _autocorrelation(means))


def moments(values: Floats) -> tuple[float, float]:
    """The mean and the sample's standard deviation of two or more values.

    Values that are all equal are their own mean and have no deviation; the usual sums would leave
    a last digit of rounding.

    >>> moments(np.array([0.1, 0.1, 0.1]))
    (0.1, 0.0)
    >>> moments(np.array([1.0, 3.0]))[0]
    2.0
    """
    if (values == values[0]).all():
        return float(values[0]), 0.0
    return float(values.mean()), float(values.std(ddof=1))


def _of_tasks(trace: Trace, of: Quantity, warm_up: float) -> Floats:
    if of not in _QUANTITIES:
        raise InputError(f"'{of}' is no figure", field="of", remedy=", ".join(_QUANTITIES))
    every = per_task(trace)
    tasks = (
        MeasurementWindow.from_tasks(every, warm_up)
        .filter_tasks(every)
        .drop_nulls(["submit", of])
        .sort("submit", "id")
    )
    found: Floats = tasks[of].to_numpy()
    return found


def _known(values: Sequence[float] | npt.NDArray[np.float64]) -> Floats:
    try:
        known = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        known = np.array([np.nan])
    if known.ndim != 1 or not np.isfinite(known).all():
        raise InputError("are no row of numbers", field="values")
    return known


def _student(values: Floats, level: float) -> tuple[float, float]:
    """The mean, and half the width of its interval."""
    # SciPy takes a moment to load, and nothing else here needs it.
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise InputError(f"{level} is no level", field="level", remedy="between 0 and 1: 0.95")
    if values.size < 2:
        raise InputError(f"{values.size} is too few to say how sure", field="values", remedy="2")
    t = float(stdtrit(values.size - 1, (1 + level) / 2))
    mean, deviation = moments(values)
    return mean, t * deviation / math.sqrt(values.size)


def _autocorrelation(means: Floats) -> float | None:
    away = means - means.mean()
    spread = float(np.dot(away, away))
    return float(np.dot(away[:-1], away[1:])) / spread if spread > 0 else None
