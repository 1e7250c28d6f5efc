"""Confidence intervals of a mean: over seeds, or over the batches of one long run."""

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
    """A mean of `count` values and its confidence interval at a `level`.

    >>> print(ConfidenceInterval(mean=4.0, half_width=0.5, level=0.95, count=10))
    4 ± 0.5 (95 %, 10 values)
    """

    mean: float
    half_width: float
    level: float
    count: int

    @property
    def low(self) -> float:
        """The lower bound."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper bound."""
        return self.mean + self.half_width

    def __str__(self) -> str:
        level = f"{self.level * 100:g} %"
        return f"{self.mean:g} ± {self.half_width:g} ({level}, {self.count:,} values)"


@dataclass(frozen=True, slots=True)
class BatchMeans(ConfidenceInterval):
    """A confidence interval by batch means; `count` is the number of batches.

    `size`: values per batch; `left_out`: values at the beginning that fill no batch;
    `autocorrelation`: lag-1 autocorrelation of the batch means, None if all are equal. Above about
    2 / sqrt(batches) the batches are too short to be independent, and the interval is too narrow.

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
        """Whether the autocorrelation is compatible with independent batch means."""
        return self.autocorrelation is None or self.autocorrelation < 2 / math.sqrt(self.count)


def confidence_interval(
    values: Sequence[float] | npt.NDArray[np.float64], level: float = 0.95
) -> ConfidenceInterval:
    """Compute the confidence interval of the mean of independent values, such as runs by seed.

    Student's t: mean ± t s / sqrt(n), with the sample standard deviation s and the quantile t of
    n - 1 degrees of freedom. Exact for normally distributed values; approximate for figures of
    long runs, which are means themselves.

    >>> found = confidence_interval([1.0, 2.0, 3.0])
    >>> found.mean, round(found.half_width, 3)
    (2.0, 2.484)
    """
    mean, half = _compute_student_interval(_to_floats(values), level)
    return ConfidenceInterval(mean, half, level, len(values))


def batch_means(
    values: Trace | Sequence[float] | npt.NDArray[np.float64],
    *,
    batches: int = 20,
    level: float = 0.95,
    quantity: Quantity = "wait",
    warm_up: float = 0.0,
) -> BatchMeans:
    """Compute the confidence interval of a mean over one long run by the method of batch means.

    The values, in the order of submission, are divided into batches of equal size, whose means are
    assumed to be independent and normally distributed. This holds in a steady state (without the
    warm-up) if the batches are much longer than the autocorrelation of the queue; 20 to 30 batches
    are usual. If the count is not a multiple of the batches, the first values are left out.
    Source: Law, "Simulation Modeling and Analysis" (in earlier editions Law and Kelton), on the
    analysis of steady-state output.

    Args:
        values: A trace, or values in order.
        batches: Number of batches.
        level: Confidence level.
        quantity: Quantity of the tasks of a trace.
        warm_up: Seconds after the first submission of a trace whose tasks are excluded.

    >>> batch_means([1.0, 3.0, 2.0, 4.0, 1.0, 3.0, 2.0, 4.0, 9.0, 0.0], batches=5).mean
    2.9
    """
    if isinstance(values, Trace):
        samples = _list_task_values(values, quantity, warm_up)
    else:
        if warm_up:
            raise InputError(
                "applies only to a trace",
                kind="wrong-argument",
                field="warm_up",
                remedy="remove the first values",
            )
        samples = _to_floats(values)
    if batches < 2:
        raise InputError(
            f"must be at least 2, not {batches}",
            kind="out-of-range",
            field="batches",
            remedy="20 to 30 are usual",
        )
    size = samples.size // batches
    if size < 1:
        raise InputError(
            f"{samples.size:,} values are too few for {batches} batches",
            kind="too-few-values",
            field="values",
        )
    left_out = samples.size - size * batches
    means = samples[left_out:].reshape(batches, size).mean(axis=1)
    mean, half = _compute_student_interval(means, level)
    return BatchMeans(mean, half, level, batches, size, left_out, _compute_autocorrelation(means))


def moments(values: Floats) -> tuple[float, float]:
    """Compute the mean and the sample standard deviation of two or more values.

    Equal values are a special case, in which sums would leave a rounding error.

    >>> moments(np.array([0.1, 0.1, 0.1]))
    (0.1, 0.0)
    >>> moments(np.array([1.0, 3.0]))[0]
    2.0
    """
    if (values == values[0]).all():
        return float(values[0]), 0.0
    return float(values.mean()), float(values.std(ddof=1))


def _list_task_values(trace: Trace, quantity: Quantity, warm_up: float) -> Floats:
    if quantity not in _QUANTITIES:
        raise InputError(
            f"'{quantity}' is not a quantity of tasks",
            kind="not-a-choice",
            field="quantity",
            remedy=f"one of: {', '.join(_QUANTITIES)}",
        )
    all_tasks = per_task(trace)
    tasks = (
        MeasurementWindow.from_tasks(all_tasks, warm_up)
        .filter_tasks(all_tasks)
        .drop_nulls(["submit", quantity])
        .sort("submit", "id")
    )
    column: Floats = tasks[quantity].to_numpy()
    return column


def _to_floats(values: Sequence[float] | npt.NDArray[np.float64]) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(
            "must be a sequence of finite numbers", kind="wrong-argument", field="values"
        )
    return array


def _compute_student_interval(values: Floats, level: float) -> tuple[float, float]:
    """Return the mean and the half width of its interval."""
    # Imported here because SciPy is slow to import.
    from scipy.special import stdtrit

    if not 0 < level < 1:
        raise InputError(
            f"must be between 0 and 1, not {level}",
            kind="out-of-range",
            field="level",
            remedy="such as 0.95",
        )
    if values.size < 2:
        raise InputError(
            f"at least 2 values are needed, not {values.size}",
            kind="too-few-values",
            field="values",
        )
    t = float(stdtrit(values.size - 1, (1 + level) / 2))
    mean, deviation = moments(values)
    return mean, t * deviation / math.sqrt(values.size)


def _compute_autocorrelation(means: Floats) -> float | None:
    deviations = means - means.mean()
    total = float(np.dot(deviations, deviations))
    return float(np.dot(deviations[:-1], deviations[1:])) / total if total > 0 else None
