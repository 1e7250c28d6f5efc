"""Comparison of rankings: ranks, Kendall's tau, and differences of paired runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinloop.metrics.confidence import moments

#: Confidence level of the interval of a difference.
CONFIDENCE_LEVEL: Final = 0.9

#: With fewer pairs, the variance is pooled over all configurations.
MIN_UNPOOLED_PAIRS: Final = 5

DifferenceVerdict = Literal["holds", "reversed", "tie", "not assessable", "not measured"]
#: All verdicts on a recommendation.
VERDICTS: Final[tuple[DifferenceVerdict, ...]] = (
    "holds",
    "reversed",
    "tie",
    "not assessable",
    "not measured",
)


def compute_ranks(values: ArrayLike, *, lower: bool = True) -> NDArray[np.float64]:
    """Compute average ranks: 1 is the best, equal values get the mean of their ranks, NaN none.

    Args:
        values: One value per configuration.
        lower: Whether a lower value is better.

    >>> compute_ranks([30.0, 10.0, 20.0, 20.0]).tolist()
    [4.0, 1.0, 2.5, 2.5]
    >>> compute_ranks([30.0, float("nan"), 20.0], lower=False).tolist()
    [1.0, nan, 2.0]
    """
    # Imported here, because the import of SciPy's statistics takes a second.
    from scipy.stats import rankdata

    numbers = np.asarray(values, dtype=np.float64)
    ranks: NDArray[np.float64] = rankdata(numbers if lower else -numbers, nan_policy="omit")
    return ranks


def compute_tau(one: ArrayLike, other: ArrayLike) -> float | None:
    """Compute Kendall's tau-b of two series of values; None if it is not defined.

    1 is the same order, -1 the reverse order. Configurations without a value (NaN) are left out.
    Tau is not defined for fewer than two configurations, or if all values of a series are equal.

    >>> compute_tau([1, 2, 3], [10, 20, 30]), compute_tau([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    >>> compute_tau([1, 1], [1, 2]) is None
    True
    """
    from scipy.stats import kendalltau

    first, second = (np.asarray(each, dtype=np.float64) for each in (one, other))
    is_known = ~(np.isnan(first) | np.isnan(second))
    if np.count_nonzero(is_known) < 2:  # SciPy would warn
        return None
    tau = float(kendalltau(first[is_known], second[is_known], variant="b").statistic)
    return None if math.isnan(tau) else tau


class PairedDifference(NamedTuple):
    """The mean difference of paired runs, with its confidence interval.

    >>> PairedDifference.of([11.0, 12.0, 13.0], [10.0, 10.0, 10.0]).mean
    2.0
    >>> PairedDifference.of([11.0], [10.0])
    PairedDifference(mean=1.0, low=None, high=None, pairs=1)
    """

    mean: float
    #: Limits of the interval; None for a single pair.
    low: float | None
    high: float | None
    pairs: int

    @classmethod
    def of(
        cls,
        one: Sequence[float],
        other: Sequence[float],
        *,
        all_runs: Iterable[Sequence[float]] = (),
        level: float = CONFIDENCE_LEVEL,
    ) -> PairedDifference | None:
        """Compare repetition r of one configuration with repetition r of the other (same block).

        The interval is that of the paired t-test. With fewer than five pairs their variance is
        poorly known; it is then estimated from all configurations in the same blocks: the residual
        variance of a randomised block design, which is assumed to be equal for all configurations.
        Repetitions that one of the two lacks (NaN) are left out; None if no pair remains.

        Args:
            one: The runs of one configuration, by repetition.
            other: The runs of the other configuration.
            all_runs: The runs of all configurations, including these two, by repetition.
            level: The confidence level of the interval.

        >>> one, other, third, last = [11.0, 12.6], [10.0, 11.0], [13.0, 14.1], [9.0, 10.2]
        >>> alone = PairedDifference.of(one, other)
        >>> pooled = PairedDifference.of(one, other, all_runs=[one, other, third, last])
        >>> alone.sign, pooled.sign
        (0, 1)
        """
        from scipy.special import stdtrit

        differences = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
        differences = differences[np.isfinite(differences)]
        if not len(differences):
            return None
        if len(differences) < 2:
            return cls(float(differences[0]), None, None, len(differences))
        mean, deviation = moments(differences)
        variance, freedom = deviation**2, len(differences) - 1
        if len(differences) < MIN_UNPOOLED_PAIRS:
            variance, freedom = _pool_variance(list(all_runs)) or (variance, freedom)
        half_width = math.sqrt(variance / len(differences)) * float(
            stdtrit(freedom, (1.0 + level) / 2.0)
        )
        return cls(mean, mean - half_width, mean + half_width, len(differences))

    @property
    def sign(self) -> int:
        """1 or -1 if the interval excludes zero, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def _pool_variance(configurations: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """Return the variance of a difference of two runs of a block, and its degrees of freedom.

    Only complete blocks are used; None if they leave no degree of freedom. For two configurations
    it is the variance of their differences.

    >>> _pool_variance([[11.0, 12.0, 13.0], [10.0, 10.0, 10.0]])
    (1.0, 2)
    """
    runs = np.asarray(configurations, dtype=np.float64)
    if runs.ndim != 2:
        return None
    runs = runs[:, np.isfinite(runs).all(axis=0)]
    freedom = (runs.shape[0] - 1) * (runs.shape[1] - 1)
    if freedom < 1:
        return None
    residuals = runs - runs.mean(axis=0) - runs.mean(axis=1, keepdims=True) + runs.mean()
    return 2.0 * float((residuals**2).sum()) / freedom, freedom


def judge_difference(predicted: float | None, real: PairedDifference | None) -> DifferenceVerdict:
    """Compare a predicted difference with the measured one.

    *holds*: the interval excludes zero, with the predicted sign; *reversed*: with the other sign;
    *tie*: the interval contains zero. A single pair of runs, or a prediction of no difference, is
    *not assessable*.

    >>> longer = PairedDifference.of([11.0, 12.0, 13.0], [10.0, 10.0, 10.0])
    >>> judge_difference(1.0, longer), judge_difference(-1.0, longer), judge_difference(0.0, longer)
    ('holds', 'reversed', 'not assessable')
    >>> even = PairedDifference.of([11.0, 9.0], [10.0, 10.0])
    >>> judge_difference(1.0, even), judge_difference(1.0, None)
    ('tie', 'not measured')
    """
    if real is None:
        return "not measured"
    if real.low is None or predicted is None or math.isnan(predicted) or predicted == 0.0:
        return "not assessable"
    if real.sign == 0:
        return "tie"
    return "holds" if (predicted > 0) == (real.sign > 0) else "reversed"
