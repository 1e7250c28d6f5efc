"""Rankings held against each other: ranks, Kendall's tau, and differences of paired runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twinloop.metrics.confidence import moments

#: How often the interval of a difference holds it.
LEVEL: Final = 0.9

#: From so many pairs on, these alone say how much their difference scatters.
ALONE: Final = 5

Judged = Literal["holds", "reversed", "tie", "not assessable", "not measured"]
#: All verdicts on a recommendation.
VERDICTS: Final[tuple[Judged, ...]] = (
    "holds",
    "reversed",
    "tie",
    "not assessable",
    "not measured",
)


def compute_ranks(values: ArrayLike, *, lower: bool = True) -> NDArray[np.float64]:
    """Average ranks: 1 is the best, equal values share the mean of their ranks, NaN has none.

    Args:
        values: One figure per configuration.
        lower: Whether a lower figure is better.

    >>> compute_ranks([30.0, 10.0, 20.0, 20.0]).tolist()
    [4.0, 1.0, 2.5, 2.5]
    >>> compute_ranks([30.0, float("nan"), 20.0], lower=False).tolist()
    [1.0, nan, 2.0]
    """
    # SciPy's statistics take a second to import, which only a confirmation needs.
    from scipy.stats import rankdata

    given = np.asarray(values, dtype=np.float64)
    found: NDArray[np.float64] = rankdata(given if lower else -given, nan_policy="omit")
    return found


def compute_tau(one: ArrayLike, other: ArrayLike) -> float | None:
    """Kendall's tau-b of two figures of the same configurations; None: one has no order at all.

    1 is the same order, -1 the opposite one. Configurations that lack a figure (NaN) are left out.

    >>> compute_tau([1, 2, 3], [10, 20, 30]), compute_tau([1, 2, 3], [3, 2, 1])
    (1.0, -1.0)
    >>> compute_tau([1, 1], [1, 2]) is None
    True
    """
    from scipy.stats import kendalltau

    first, second = (np.asarray(each, dtype=np.float64) for each in (one, other))
    known = ~(np.isnan(first) | np.isnan(second))
    if np.count_nonzero(known) < 2:  # of which SciPy warns
        return None
    found = float(kendalltau(first[known], second[known], variant="b").statistic)
    return None if math.isnan(found) else found


class PairedDifference(NamedTuple):
    """The mean difference of runs that were made side by side, and the interval of it.

    >>> PairedDifference.of([11.0, 12.0, 13.0], [10.0, 10.0, 10.0]).mean
    2.0
    >>> PairedDifference.of([11.0], [10.0])
    PairedDifference(mean=1.0, low=None, high=None, pairs=1)
    """

    mean: float
    #: Limits of the interval; None: one pair has none.
    low: float | None
    high: float | None
    pairs: int

    @classmethod
    def of(
        cls,
        one: Sequence[float],
        other: Sequence[float],
        *,
        beside: Iterable[Sequence[float]] = (),
        level: float = LEVEL,
    ) -> PairedDifference | None:
        """Repetition r of one against repetition r of the other, which ran in the same block.

        The interval is that of Student's t. Two or three differences hardly tell how much they
        scatter; so with fewer than five pairs, all configurations that ran in the same blocks do:
        what remains of them after the means of blocks and of configurations is taken to scatter
        alike in all (a randomised block design). Repetitions that one of the two lacks (NaN) are
        left out; None: no pair remains.

        Args:
            one: The runs of one configuration, repetition by repetition.
            other: Those of another.
            beside: Those of all configurations, these two among them.
            level: How often the interval holds the difference.

        >>> one, other, third, last = [11.0, 12.6], [10.0, 11.0], [13.0, 14.1], [9.0, 10.2]
        >>> alone = PairedDifference.of(one, other)
        >>> pooled = PairedDifference.of(one, other, beside=[one, other, third, last])
        >>> alone.sign, pooled.sign
        (0, 1)
        """
        from scipy.special import stdtrit

        found = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
        found = found[np.isfinite(found)]
        if not len(found):
            return None
        if len(found) < 2:
            return cls(float(found[0]), None, None, len(found))
        mean, deviation = moments(found)
        variance, freedom = deviation**2, len(found) - 1
        if len(found) < ALONE:
            variance, freedom = _pooled(list(beside)) or (variance, freedom)
        half = math.sqrt(variance / len(found)) * float(stdtrit(freedom, (1.0 + level) / 2.0))
        return cls(mean, mean - half, mean + half, len(found))

    @property
    def sign(self) -> int:
        """1 or -1 if the two really differ, as far as the interval tells; else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def _pooled(columns: Sequence[Sequence[float]]) -> tuple[float, int] | None:
    """The variance of a difference of two runs of one block, and its degrees of freedom.

    Of two configurations it is the variance of their differences.

    >>> _pooled([[11.0, 12.0, 13.0], [10.0, 10.0, 10.0]])
    (1.0, 2)
    """
    runs = np.asarray(columns, dtype=np.float64)
    if runs.ndim != 2:
        return None
    runs = runs[:, np.isfinite(runs).all(axis=0)]
    freedom = (runs.shape[0] - 1) * (runs.shape[1] - 1)
    if freedom < 1:
        return None
    rest = runs - runs.mean(axis=0) - runs.mean(axis=1, keepdims=True) + runs.mean()
    return 2.0 * float((rest**2).sum()) / freedom, freedom


def judge_difference(predicted: float | None, real: PairedDifference | None) -> Judged:
    """What has become of a predicted difference.

    *holds*: the interval excludes zero, on the side that was predicted; *reversed*: on the other;
    *tie*: it does not. One pair of runs is *not assessable*, nor is a prediction of no difference.

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
