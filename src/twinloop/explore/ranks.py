"""Rankings held against each other: ranks, Kendall's tau, and differences of paired runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: How often the interval of a difference holds it.
LEVEL: Final = 0.9

Judged = Literal["holds", "reversed", "tie", "not assessable", "not measured"]
#: All verdicts on a recommendation.
VERDICTS: Final[tuple[Judged, ...]] = (
    "holds",
    "reversed",
    "tie",
    "not assessable",
    "not measured",
)


def ranks(values: ArrayLike, *, lower: bool = True) -> NDArray[np.float64]:
    """The rank of each value, 1 the best; equal ones share the mean of theirs, NaN has none.

    >>> ranks([30.0, 10.0, 20.0, 20.0]).tolist()
    [4.0, 1.0, 2.5, 2.5]
    >>> ranks([30.0, float("nan"), 20.0], lower=False).tolist()
    [1.0, nan, 2.0]
    """
    given = np.asarray(values, dtype=np.float64)
    given = given if lower else -given
    before = (given[:, np.newaxis] > given).sum(axis=1)
    equal = (given[:, np.newaxis] == given).sum(axis=1)
    return np.where(np.isnan(given), np.nan, before + (equal + 1) / 2)


def tau(one: ArrayLike, other: ArrayLike) -> float | None:
    """Kendall's tau-b of two lists of figures of the same things; pairs that are not known are out.

    1: the same order, -1: the opposite one. None: one of the lists has no order at all.

    >>> tau([1, 2, 3], [10, 20, 30]), tau([1, 2, 3], [3, 2, 1]), tau([1, 1], [1, 2])
    (1.0, -1.0, None)
    """
    first, second = (np.asarray(each, dtype=np.float64) for each in (one, other))
    known = ~(np.isnan(first) | np.isnan(second))
    first, second = first[known], second[known]
    upper = np.triu_indices(len(first), 1)
    signs = [np.sign(each[upper[0]] - each[upper[1]]) for each in (first, second)]
    untied = math.prod(int(np.count_nonzero(each)) for each in signs)
    return float((signs[0] * signs[1]).sum() / math.sqrt(untied)) if untied else None


class Paired(NamedTuple):
    """The mean difference of runs that were made side by side, and the interval of it.

    >>> Paired.of([11.0, 12.0, 13.0], [10.0, 10.0, 10.0]).mean
    2.0
    >>> Paired.of([11.0], [10.0])
    Paired(mean=1.0, low=None, high=None, pairs=1)
    """

    mean: float
    #: Limits of the interval; None: one pair has none.
    low: float | None
    high: float | None
    pairs: int

    @classmethod
    def of(
        cls, one: Sequence[float], other: Sequence[float], *, level: float = LEVEL
    ) -> Paired | None:
        """Repetition r of one against repetition r of the other, which ran in the same block.

        The interval is that of Student's t. Repetitions that one of them lacks (NaN) are left
        out; None: no pair remains.
        """
        from scipy.special import stdtrit

        found = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
        found = found[np.isfinite(found)]
        if not len(found):
            return None
        mean = float(found.mean())
        if len(found) < 2:
            return cls(mean, None, None, len(found))
        error = float(found.std(ddof=1)) / math.sqrt(len(found))
        half = error * float(stdtrit(len(found) - 1, (1.0 + level) / 2.0))
        return cls(mean, mean - half, mean + half, len(found))

    @property
    def sign(self) -> int:
        """1 or -1 if the two really differ, as far as the interval tells; else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)


def judged(predicted: float | None, real: Paired | None) -> Judged:
    """What has become of a predicted difference.

    *holds*: the interval excludes zero, on the side that was predicted; *reversed*: on the other;
    *tie*: it does not. One pair of runs is *not assessable*, nor is a prediction of no difference.

    >>> longer = Paired.of([11.0, 12.0, 13.0], [10.0, 10.0, 10.0])
    >>> judged(1.0, longer), judged(-1.0, longer), judged(0.0, longer)
    ('holds', 'reversed', 'not assessable')
    >>> judged(1.0, Paired.of([11.0, 9.0], [10.0, 10.0])), judged(1.0, None)
    ('tie', 'not measured')
    """
    if real is None:
        return "not measured"
    if real.low is None or predicted is None or math.isnan(predicted) or predicted == 0.0:
        return "not assessable"
    if real.sign == 0:
        return "tie"
    return "holds" if (predicted > 0) == (real.sign > 0) else "reversed"
